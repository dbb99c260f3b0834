/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A consumer that waits for a flag, and produce, which sets it: before the consumer looks, and while it waits. */
#include <fiberrt.h>
#include <stdio.h>

static int ready;

BLOCK

int main(void) {
    for (int early = 0; early <= 1; early++) {
        fiber_t fiber;
        void *result;
        ready = 0;
        if (fiber_spawn(&fiber, consumer, &ready) < 0) return 1;
        if (!early && fiber_reschedule() < 0) return 2;
        produce(fiber);
        if (fiber_join(fiber, &result) < 0 || result) return 3;
    }
    return 0;
}
