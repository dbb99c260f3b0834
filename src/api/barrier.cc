// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_barrier_...: barriers of sync/barrier.h in the user's memory.
#include "sync/barrier.h"

#include "api/api.h"
#include "api/in_place.h"

#include <stddef.h>

using namespace fiberrt;
using api::in_place;

// The initialiser in the header sets this member. The standard does not promise offsetof for these types, but the
// compilers that build this support it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(Barrier, count) == 16);
#pragma GCC diagnostic pop

int fiber_barrier_init(fiber_barrier_t* barrier, int64_t count) {
    if (!barrier || count <= 0) return -EINVAL;
    (new (barrier) Barrier)->count = count;
    return 0;
}

int fiber_barrier_wait_timeout(fiber_barrier_t* barrier, int64_t timeout_ns) {
    if (!barrier || timeout_ns < 0) return -EINVAL;
    return barrier_wait(in_place<Barrier>(barrier), Caller::here(), timeout_ns);
}

int fiber_barrier_wait(fiber_barrier_t* barrier) { return fiber_barrier_wait_timeout(barrier, FIBER_FOREVER); }

int fiber_barrier_destroy(fiber_barrier_t* barrier) { return api::destroy<Barrier>(barrier); }
