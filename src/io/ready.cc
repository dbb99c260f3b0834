// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits of a call that was refused with -EAGAIN.
#include "io/ready.h"

namespace fiberrt {

bool Retry::wait(bool tried, int64_t* result) {
    if (tried) {
        *result = failed(use_.check_before_wait(op_));
        if (*result != -EAGAIN) return false;
    }
    // Also POLLERR and POLLHUP, which poll(2) tells unasked.
    int now = waited_ ? events_now(op_.fd, events_ | POLLRDHUP) : 0;
    if (now & POLLRDHUP && events_ == POLLIN) {
        *result = use_.look_once_more(op_, -EAGAIN); // the data that came before the shutdown, or the end
        if (*result != -EAGAIN) return false;
    }
    bool once_more = false; // if the wait ends early: nothing tells when the operation could be done
    if (now & ~POLLRDHUP) {
        once_more = true;
        *result = ask_again_later(use_, &pause_ns_);
    } else if (op_.code == OpCode::send || op_.code == OpCode::sendmsg) {
        once_more = must_retry_send(op_.fd);
        *result = wait_for_room(use_, op_.fd, !waited_, &send_pause_ns_);
    } else {
        *result = use_.wait_until_ready(op_.fd, events_, !waited_);
    }
    waited_ = true;
    if (*result >= 0) return true;
    if (once_more) *result = failed(use_.look_once_more(op_, *result));
    return false;
}

int64_t Retry::failed(int64_t result) const {
    return result == -EPIPE && waited_ ? result_when_broken(op_.fd) : result;
}

int64_t wait_for_events(DescriptorUse& use, int fd, int events) {
    for (int64_t pause_ns = first_pause_ns;;) {
        int64_t result = use.wait_until_ready(fd, events, false);
        if (result < 0) return result;
        // The kernel tells of POLLRDHUP unasked, at once and every time.
        int asked_for = int(result) & (events | POLLERR | POLLHUP);
        if (asked_for && !(asked_for = use.events_that_hold(fd, events, asked_for))) continue;
        if (asked_for) return asked_for;
        if (int error = ask_again_later(use, &pause_ns)) {
            Op ready(OpCode::poll, fd);
            ready.flags = unsigned(events);
            return use.look_once_more(ready, error);
        }
    }
}

} // namespace fiberrt
