// SPDX-License-Identifier: MIT OR Apache-2.0
// Wait groups.
#include "sync/wait_group.h"

namespace fiberrt {

int wait_group_add(WaitGroup& group, int64_t n) {
    Changing changing(group);
    int64_t count;
    if (__builtin_add_overflow(group.count, n, &count)) return -EOVERFLOW;
    if (count < 0) return -EINVAL;
    group.count = count;
    if (count == 0) changing.take_all(group, 0);
    return 0;
}

int wait_group_wait(WaitGroup& group, const Caller& caller, int64_t timeout_ns) {
    OneWait one(WaitFor::wait_group);
    return wait_unless(group, caller, timeout_ns, one, [&] { return group.count == 0; });
}

} // namespace fiberrt
