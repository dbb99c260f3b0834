// SPDX-License-Identifier: MIT OR Apache-2.0
// DescriptorGuard's waits for readiness and for time to pass.
#include "io/descriptor_guard.h"

#include "core/cord.h"
#include "core/scheduler.h"
#include "io/io.h"
#include "io/ready.h"
#include "io/sockets.h"

#include <errno.h>
#include <poll.h>

namespace fiberrt {

int64_t DescriptorGuard::wait_to_try_again(int fd, int events, int64_t most_ns) {
    Op ready = poll_op(fd, events, true);
    int64_t result = begin(ready, false);
    if (result == op_given) result = go_on(ready, false, wait(ready, deadline_after(cord_, most_ns)));
    if (result == -EAGAIN) result = pause(most_ns);                   // a ring that refuses polls: only time passes
    if (result == -ETIMEDOUT || result == op_again) result = check(); // 0: only the time given here has passed
    return result == 0 ? events : result;
}

int64_t DescriptorGuard::wait_until_ready(int fd, int events, bool hint, int64_t until) {
    Op ready = poll_op(fd, events, hint);
    int64_t result = run(ready, false, until);
    // The ring refuses polls: polls by calls at growing intervals.
    for (int64_t pause_ns = first_pause_ns; result == -EAGAIN; result = run_by_calls(ready)) {
        if (deadline_in(0) >= until) return -ETIMEDOUT;
        if (int error = ask_again_later(*this, &pause_ns)) return try_once_more(ready, error);
    }
    return result;
}

int DescriptorGuard::events_that_hold(int fd, int events, int reported) const {
    if (backend_only_polls() || simulated()) return reported;
    int now = events_now(fd, events);
    return now & POLLNVAL ? reported : now & (events | POLLERR | POLLHUP);
}

int64_t DescriptorGuard::deadline_in(int64_t duration_ns) const { return deadline_after(cord_, duration_ns); }

int DescriptorGuard::pause(int64_t duration_ns) {
    if (int error = check()) return error;
    Wait time;
    time.what = WaitFor::time;
    time.stop = stop_at_once;
    int error = int(wait(time, deadline_after(cord_, duration_ns)));
    return error ? error : check(); // a cancel or the like may have come meanwhile
}

} // namespace fiberrt
