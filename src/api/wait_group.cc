// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_wg_...: wait groups of sync/wait_group.h in the user's memory.
// fuzz: waiting 95 %
#include "sync/wait_group.h"

#include "api/api.h"
#include "api/in_place.h"

#include <stddef.h>

using namespace fiberrt;
using api::in_place;

// The initialisers in the header set these members. The standard does not promise offsetof for these types, but the
// compilers that build this support it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(WaitGroup, count) == 16);
#pragma GCC diagnostic pop

int fiber_wg_add(fiber_wg_t* group, int64_t n) {
    int result = group ? wait_group_add(in_place<WaitGroup>(group), n) : -EINVAL;
    return result < 0 ? result : 0;
}

int fiber_wg_done(fiber_wg_t* group) { return group ? wait_group_add(in_place<WaitGroup>(group), -1) : -EINVAL; }

int fiber_wg_wait_timeout(fiber_wg_t* group, int64_t timeout_ns) {
    if (!group || timeout_ns < 0) return -EINVAL;
    return wait_group_wait(in_place<WaitGroup>(group), Caller::here(), timeout_ns);
}

int fiber_wg_wait(fiber_wg_t* group) { return fiber_wg_wait_timeout(group, FIBER_FOREVER); }
int fiber_wg_destroy(fiber_wg_t* group) { return api::destroy<WaitGroup>(group); }
