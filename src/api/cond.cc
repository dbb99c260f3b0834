// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_cond_...: condition variables of sync/cond.h in the user's memory.
// fuzz: waiting 95 %
#include "sync/cond.h"

#include "api/api.h"
#include "api/in_place.h"

using namespace fiberrt;
using api::in_place;

int fiber_cond_wait_timeout(fiber_cond_t* cond, fiber_mutex_t* mutex, int64_t timeout_ns) {
    if (!cond || !mutex || timeout_ns < 0) return -EINVAL;
    return cond_wait(in_place<Cond>(cond), in_place<Mutex>(mutex), Caller::here(), timeout_ns);
}

int fiber_cond_wait(fiber_cond_t* cond, fiber_mutex_t* mutex) {
    return fiber_cond_wait_timeout(cond, mutex, FIBER_FOREVER);
}

int fiber_cond_signal(fiber_cond_t* cond) {
    if (!cond) return -EINVAL;
    cond_signal(in_place<Cond>(cond));
    return 0;
}

int fiber_cond_broadcast(fiber_cond_t* cond) {
    if (!cond) return -EINVAL;
    cond_broadcast(in_place<Cond>(cond));
    return 0;
}

int fiber_cond_destroy(fiber_cond_t* cond) { return api::destroy<Cond>(cond); }
