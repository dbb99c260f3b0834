// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_once: calls a function once, by sync/once.h.
// fuzz: waiting 95 %
#include "sync/once.h"

#include "api/api.h"
#include "api/in_place.h"

using namespace fiberrt;
using api::in_place;

int fiber_once(fiber_once_t* storage, int (*fn)(void*), void* arg) {
    if (!storage || !fn) return -EINVAL;
    auto& once = in_place<Once>(storage);
    return once.is_done() ? 0 : once_run(once, Caller::here(), fn, arg);
}
