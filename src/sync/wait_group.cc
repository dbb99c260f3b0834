// SPDX-License-Identifier: MIT OR Apache-2.0
// Wait groups: counting, and waiting for the count to be 0.
// fuzz: waiting 95 %
#include "sync/wait_group.h"

#include "sync/one_wait.h"

namespace fiberrt {

int wait_group_add(WaitGroup& group, int64_t n) {
    LockedList locked(group);
    int64_t count;
    if (__builtin_add_overflow(group.count, n, &count)) return -EOVERFLOW;
    if (count < 0) return -EINVAL;
    group.count = count;
    if (count == 0) locked.claim_all(group, 0);
    return count == 0;
}

constexpr WaiterKind group_waiter = {"for a wait group", nullptr, nullptr};

int wait_group_wait(WaitGroup& group, Caller caller, int64_t timeout_ns) {
    return wait_unless(group, caller, timeout_ns, group_waiter, 0, [&] { return group.count == 0 ? 0 : -EAGAIN; });
}

} // namespace fiberrt
