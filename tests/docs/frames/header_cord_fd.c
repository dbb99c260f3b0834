/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A loop around poll, with a fiber in it that ends the program. */
#include <fiberrt.h>
#include <poll.h>
#include <stdlib.h>

static void *end(void *arg) {
    if (fiber_sleep(FIBER_MSEC(1)) == 0) exit(0);
    return arg;
}

int main(void) {
    if (fiber_spawn(NULL, end, NULL) < 0) return 1;
BLOCK
}
