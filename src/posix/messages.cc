// SPDX-License-Identifier: MIT OR Apache-2.0
// Several messages by one call: recvmmsg, sendmmsg.
#include "posix/calls.h"
#include "posix/sockets.h"

namespace fiberrt::posix {

namespace {

constexpr unsigned messages_most = 1024; // sendmmsg sends no more

int count_or_error(unsigned done) { return done ? int(done) : -1; }

// Takes the end of a connection that libfiberrt has ended from the messages received: the kernel reports the end as
// messages without bytes.
int without_end(int fd, const mmsghdr* messages, int flags, int result) {
    if (result <= 0 || !any_ended() || (flags & MSG_ERRQUEUE)) return result;
    int i = 0;
    while (i < result && (messages[i].msg_len || !bytes_of(messages[i].msg_hdr))) i++;
    if (i == result || !was_ended(fd)) return result;
    return i ? i : int(refuse_end(fd));
}

// The kernel looks at the timeout after each message only, and so does this.
int receive_messages(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
    if (never_waits(fd, flags)) return at_once(::recvmmsg(fd, messages, count, flags, timeout));
    DescriptorCall call(fd, POLLIN, SO_RCVTIMEO);
    // The first step has the caller's own arguments, so that the kernel checks them.
    int result = ::recvmmsg(fd, messages, count, flags | MSG_DONTWAIT, timeout);
    if (result < 0 && !would_block()) return -1;
    int64_t deadline = timeout ? deadline_after(nanoseconds(*timeout)) : FIBER_FOREVER;
    unsigned done = 0;
    for (;;) {
        if (result > 0) {
            done += unsigned(result);
            bool enough = done >= count || (flags & MSG_WAITFORONE) || !left_until(deadline) || is_nonblocking(fd);
            if (enough || !may_continue(fd, POLLIN)) break;
        } else if (result == 0) {
            break;
        } else if (!would_block()) {
            return count_or_error(done);
        } else {
            Next next = call.wait();
            if (next == Next::fail && !done) return -1;
            if (next == Next::fail) break;
            if (next == Next::block) {
                result = ::recvmmsg(fd, messages + done, count - done, flags, nullptr);
                if (result > 0) done += unsigned(result);
                if (!done) return result;
                break;
            }
        }
        result = ::recvmmsg(fd, messages + done, count - done, flags | MSG_DONTWAIT, nullptr);
    }
    if (timeout && done) *timeout = timespec_of(left_until(deadline));
    return call.done(int(done));
}

} // namespace

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
    return without_end(fd, messages, flags,
                       may_wait() ? receive_messages(fd, messages, count, flags, timeout)
                                  : ::recvmmsg(fd, messages, count, flags, timeout));
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    if (!may_wait()) return ::sendmmsg(fd, messages, count, flags);
    if (flags & MSG_DONTWAIT) return at_once(::sendmmsg(fd, messages, count, flags));
    if (count > messages_most) count = messages_most;
    DescriptorCall call(fd, POLLOUT, SO_SNDTIMEO);
    for (unsigned done = 0;;) {
        int result = ::sendmmsg(fd, messages + done, count - done, flags | MSG_DONTWAIT);
        if (result > 0) {
            done += unsigned(result);
            // The last one may be sent in part: then the kernel sends none after it.
            mmsghdr& last = messages[done - 1];
            size_t bytes = bytes_of(last.msg_hdr);
            if (last.msg_len < bytes) {
                DescriptorCall rest(fd, POLLOUT, SO_SNDTIMEO); // each message has the whole time limit
                last.msg_len = unsigned(send_rest(rest, fd, last.msg_hdr, last.msg_len, flags));
            }
            if (done == count || last.msg_len < bytes || is_nonblocking(fd)) return call.done(int(done));
            continue;
        }
        if (!result) return call.done(int(done));
        if (!would_block()) return count_or_error(done);
        Next next = call.wait();
        if (next == Next::fail) return done ? call.done(int(done)) : -1;
        if (next == Next::block) {
            result = ::sendmmsg(fd, messages + done, count - done, flags);
            return result >= 0 ? call.done(int(done) + result) : count_or_error(done);
        }
    }
}

} // namespace fiberrt::posix
