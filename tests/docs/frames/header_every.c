/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A beat in a scope that is over before the second tick. */
#include <errno.h>
#include <fiberrt.h>

static int measured;

static void measure(void) {
    measured++;
}

int main(void) {
    int verdict;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(5), &verdict) {
BLOCK
    }
    return verdict != -ETIMEDOUT || measured > 1;
}
