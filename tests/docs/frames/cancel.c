/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A worker that is stopped while it waits. */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

BLOCK

int main(void) {
    fiber_t fiber;
    if (fiber_spawn(&fiber, worker, NULL) < 0 || fiber_reschedule() < 0) return 1;
    stop(fiber);
    return fiber_join(fiber, NULL) != -ESRCH;
}
