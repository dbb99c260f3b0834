/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two tasks of a pool, which count each other's ends by a wait group. */
#include <fiberrt.h>

static fiber_wg_t group;
static struct {
    int first, second;
} work;

static void *first_half(void *arg) {
    work.first = arg == &work;
    fiber_wg_done(&group);
    return NULL;
}

static void *second_half(void *arg) {
    work.second = arg == &work;
    fiber_wg_done(&group);
    return NULL;
}

int main(void) {
BLOCK
    return !work.first || !work.second || fiber_pool_submit(pool, first_half, &work) >= 0;
}
