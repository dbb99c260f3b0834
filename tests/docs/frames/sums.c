/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A sum that is added up by the workers of a pool. */
#include <fiberrt.h>

struct part {
    int from, to;
    int64_t sum;
};

BLOCK

int main(void) {
    fiber_pool_t pool;
    if (fiber_pool_create(&pool, NULL) < 0 || sum_of(1001, pool) != 1000 * 1001 / 2) return 1;
    return fiber_pool_close(pool);
}
