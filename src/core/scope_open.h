// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens a scope of the current fiber, inlined into the API's call.
#pragma once

#include "core/cord.h"
#include "core/scheduler.h"
#include "core/scope.h"

namespace fiberrt {

int scope_take_slowly(Cord& cord, Scope** out);

// 0, -ENOMEM, -EAGAIN.
[[gnu::always_inline]] inline int scope_open(Cord& cord, int64_t timeout_ns, unsigned flags, Scope** out) {
    if (cord.free.scopes.head) [[likely]] {
        *out = scopes.take_free(cord.free.scopes);
    } else if (int error = scope_take_slowly(cord, out)) {
        return error;
    }
    (*out)->record_only = false;
    scope_push(cord, cord.sched.current, *out, deadline_after(cord, timeout_ns), uint8_t(flags));
    return 0;
}

} // namespace fiberrt
