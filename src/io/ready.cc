// SPDX-License-Identifier: MIT OR Apache-2.0
// How a call waits after it was refused with -EAGAIN.
#include "io/ready.h"

namespace fiberrt {

// (Inlined because every wait of a server runs it.)
[[gnu::always_inline]] inline Retry::Next Retry::decide(DescriptorGuard& guard, const Op& op, int events, bool tried,
                                                        int64_t* result) {
    if (tried) {
        *result = failed(op, guard.check_before_wait(op));
        if (*result != -EAGAIN) return Next::ended;
    }
    // Includes POLLERR and POLLHUP, which poll(2) always reports.
    int now = waited_ ? events_now(op.fd, events | POLLRDHUP) : 0;
    if (now & POLLRDHUP && events == POLLIN) {
        *result = guard.try_once_more(op, -EAGAIN); // the data from before the shutdown, or the end
        if (*result != -EAGAIN) return Next::ended;
    }
    bool pauses = now & ~POLLRDHUP;
    bool sends = op.code == OpCode::send || op.code == OpCode::sendmsg;
    bool retries = !pauses && sends && must_retry_send(op.fd);
    once_more_ = pauses || retries;
    hint_ = !waited_ || retries;
    waited_ = true;
    if (pauses) return Next::pause;
    return retries && !simulated() ? Next::timed_poll : Next::poll; // a simulation reports a shutdown
}

Retry::Next Retry::refused(DescriptorGuard& guard, const Op& op, int events, bool tried, int64_t* result) {
    return decide(guard, op, events, tried, result);
}

int64_t Retry::pause_ns() {
    int64_t now = first_pause_ns << pauses_;
    if (now < longest_pause_ns) pauses_++;
    return now;
}

int64_t Retry::try_ns() {
    int64_t now = first_send_pause_ns << tries_;
    if (now < longest_send_pause_ns) tries_++;
    return now;
}

bool Retry::woken(DescriptorGuard& guard, const Op& op, int64_t* result) const {
    if (*result >= 0) return true;
    if (once_more_) *result = failed(op, guard.try_once_more(op, *result));
    return false;
}

int64_t Retry::failed(const Op& op, int64_t result) const {
    return result == -EPIPE && waited_ ? result_when_broken(op.fd) : result;
}

bool Retry::wait(DescriptorGuard& guard, const Op& op, int events, bool tried, int64_t* result) {
    switch (decide(guard, op, events, tried, result)) {
    case Next::ended: return false;
    case Next::poll: *result = guard.wait_until_ready(op.fd, events, hint_); break;
    case Next::timed_poll: *result = guard.wait_to_try_again(op.fd, events, try_ns()); break;
    case Next::pause: *result = guard.pause(pause_ns()); break;
    }
    return woken(guard, op, result);
}

int64_t events_asked_for(const DescriptorGuard& guard, int fd, int events, int64_t reported) {
    // The kernel may report POLLRDHUP at once and every time, even if the caller did not ask for it.
    int asked_for = int(reported) & (events | POLLERR | POLLHUP);
    if (!asked_for) return -EAGAIN;
    asked_for = guard.events_that_hold(fd, events, asked_for);
    return asked_for ? asked_for : op_again;
}

int64_t wait_for_events(DescriptorGuard& guard, int fd, int events) {
    for (int64_t pause_ns = first_pause_ns;;) {
        int64_t result = guard.wait_until_ready(fd, events, false);
        if (result < 0) return result;
        result = events_asked_for(guard, fd, events, result);
        if (result == op_again) continue;
        if (result != -EAGAIN) return result;
        if (int error = ask_again_later(guard, &pause_ns)) {
            return guard.try_once_more(poll_op(fd, events, false), error); // coverage: kernel
        }
    }
}

} // namespace fiberrt
