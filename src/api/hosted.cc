// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosted fibers: making and ending them, handing them out to a host and taking them back, and their operations.
#include "stackless/exchange.h"

#include "api/api.h"
#include "api/attr.h"
#include "api/hosted_ops.h"
#include "base/planted.h"
#include "core/noswitch.h"
#include "stackless/create.h"
#include "stackless/find.h"

#include <stdlib.h>

using namespace fiberrt;

int fiber_hosted_new(fiber_t* out, const fiber_attr_t* given, fiber_step_t step, void* user) {
    if (!out || (given && given->pool)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    const fiber_attr& attr = given ? *given : default_attr;
    if (attr.cord && attr.cord != CordTable::id_of(cord)) return -EINVAL;
    if (cord->closing) return -EPIPE;
    Fiber* fiber;
    int error = hosted_create_with(*cord, attr, step, user, &fiber);
    if (error) return error;
    *out = handle_of(fiber);
    return 0;
}

int fiber_hosted_user(fiber_t handle, void** user) {
    if (!user) return -EINVAL;
    Fiber* fiber;
    int error = own_hosted(handle, &fiber);
    if (!error) *user = fiber->user();
    return error;
}

int fiber_hosted_end(fiber_t handle, void* result) {
    Fiber* fiber;
    if (int error = own_hosted(handle, &fiber)) return error;
    Cord& cord = *this_cord;
    if (fiber->sched.state == State::running && fiber->step) {
        if (fiber != cord.sched.current || fiber->requests.ending) return -EPERM;
        fiber->requests.ending = true;
        fiber->call.result = result;
        return 0;
    }
    if (int error = handed_out(handle, &fiber)) return error;
    hosted_end(cord, fiber, result);
    return 0;
}

int fiber_hosted_enter(fiber_t handle) {
    Fiber* fiber;
    if (int error = own_hosted(handle, &fiber)) return error;
    Cord& cord = *this_cord;
    if (noswitch_refuses(cord.sched.current)) return -EPERM;
    if (int error = handed_out(handle, &fiber)) return error;
    hosted_enter(cord, fiber);
    return 0;
}

int fiber_hosted_leave(void) {
    Cord* cord = this_cord;
    if (!cord || !cord->executor.entered_by) return -EINVAL;
    // The library is calling a function of the user's, and needs the entered fiber.
    if (cord->no_switch.floor) return -EPERM;
    hosted_leave(*cord);
    return 0;
}

int fiber_ops_create(fiber_op_t** out, size_t count) {
    if (!out || !count) return -EINVAL;
    KeepErrno keep;
    if (count > size_t(PTRDIFF_MAX) / sizeof(fiber_op_t))
        return -ENOMEM; // here, because AddressSanitizer ends the program in such a calloc
    auto* ops = static_cast<fiber_op_t*>(calloc(count, sizeof(fiber_op_t)));
    if (PLANTED(no_memory_sets_errno) && !ops) new (&keep) KeepErrno; // keeps the errno of calloc
    if (!ops) return -ENOMEM;
    *out = ops;
    return 0;
}

int fiber_ops_destroy(fiber_op_t* ops) {
    free(ops);
    return 0;
}

int fiber_op_start(fiber_op_t* op) {
    if (!op) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    return start_op(*cord, *op, api::begin_hosted_op);
}

int fiber_exchange(fiber_op_t* const* ops, int op_count, fiber_completion_t* out, int most, int64_t timeout_ns) {
    if (op_count < 0 || (op_count && !ops) || !out || most < 1 || timeout_ns < 0) return -EINVAL;
    for (int i = 0; i < op_count; i++) {
        if (!ops[i]) return -EINVAL;
    }
    Cord* cord = cord_here();
    if (!cord) return not_started(ops, op_count, no_cord());
    return exchange(*cord, ops, op_count, out, most, timeout_ns, api::begin_hosted_op);
}
