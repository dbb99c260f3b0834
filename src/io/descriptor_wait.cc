// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits of a call for its descriptor to be ready, and for time to pass.
#include "io/descriptor_use.h"

#include "core/cord.h"
#include "core/relay.h"
#include "io/io.h"
#include "io/sockets.h"

#include <errno.h>
#include <poll.h>

namespace fiberrt {

int64_t DescriptorUse::wait_to_try_again(int fd, int events, int64_t most_ns) {
    if (int error = check()) return error;
    CordIo& io = *cord_.io;
    Op ready(OpCode::poll, fd);
    ready.flags = unsigned(events);
    ready.hint = true;
    ready.on_deadline = -ETIMEDOUT;
    ready.Wait::stop = stop_op;
    io.given++;
    io.in_flight++;
    io.backend->give(io.state, &ready);
    int64_t result = wait(ready, deadline_after(cord_, most_ns));
    if (by_attempts() && ready.finished) io.told--;
    if (result == -ETIMEDOUT || result == op_again) {
        int error = check(); // else it was the time given here
        return error ? error : events;
    }
    // A ring that refuses even this: time alone.
    if (result != op_no_thread && !may_be_refusal(result)) return result;
    int error = pause(most_ns);
    return error ? error : events;
}

int64_t DescriptorUse::wait_until_ready(int fd, int events, bool hint, int64_t until) {
    Op ready(OpCode::poll, fd);
    ready.flags = unsigned(events);
    ready.hint = hint;
    int64_t result = run(ready, false, until);
    // A ring that refuses even this: looks again and again.
    for (int64_t pause_ns = 1'000'000; result == -EAGAIN; result = run_by_calls(ready)) {
        if (deadline_in(0) >= until) return -ETIMEDOUT;
        if (int error = pause(pause_ns)) return look_once_more(ready, error);
    }
    return result;
}

int DescriptorUse::events_that_hold(int fd, int events, int told) const {
    if (by_attempts() || simulated()) return told;
    int now = events_now(fd, events);
    return now & POLLNVAL ? told : now & (events | POLLERR | POLLHUP);
}

int64_t DescriptorUse::deadline_in(int64_t duration_ns) const { return deadline_after(cord_, duration_ns); }

int DescriptorUse::pause(int64_t duration_ns) {
    if (int error = check()) return error;
    Wait time;
    time.what = WaitFor::time;
    time.stop = stop_at_once;
    int error = int(wait(time, deadline_after(cord_, duration_ns)));
    return error ? error : check(); // a cancel or the like may have come at the same moment
}

} // namespace fiberrt
