// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_select: checks the cases, and selects by sync/select.h.
// fuzz: waiting 75 %
#include "sync/select.h"

#include "api/api.h"
#include "sync/select_watch.h"

using namespace fiberrt;

namespace {

bool is_malformed(const fiber_case_t& what) {
    switch (what.kind) {
    case FIBER_CASE_NONE:
    case FIBER_CASE_JOIN:
    case FIBER_CASE_SCOPE: return false;
    case FIBER_CASE_SEND:
    case FIBER_CASE_RECV: return !what.item;
    case FIBER_CASE_TIMER: return what.number < 0;
    case FIBER_CASE_FD: return what.number <= 0 || what.number > 0xffff;
    case FIBER_CASE_EVENT: return !what.object;
    case FIBER_CASE_SEM: return !what.object || what.number <= 0;
    default: return true;
    }
}

// The function of a helper: the fiber that waits for a descriptor of a select.
void* await_descriptor(void* fiber_case) {
    auto* what = static_cast<fiber_case_t*>(fiber_case);
    return reinterpret_cast<void*>(intptr_t(fiber_poll_fd(what->fd, int(what->number))));
}

} // namespace

int fiber_select(fiber_case_t* cases, int number, int64_t timeout_ns) {
    if ((!cases && number) || number < 0 || number > FIBER_SELECT_MAX || timeout_ns < 0) return -EINVAL;
    auto count = uint32_t(number);
    bool for_cord = false;
    for (uint32_t i = 0; i < count; i++) {
        if (is_malformed(cases[i])) return -EINVAL;
        if (is_watched(cases[i])) for_cord = true;
    }
    if (for_cord && !cord_here()) return no_cord();
    Caller caller = Caller::here();
    if (int error = caller.begin(timeout_ns)) return error;
    return select_cases(caller, cases, count, timeout_ns, await_descriptor);
}
