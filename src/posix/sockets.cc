// SPDX-License-Identifier: MIT OR Apache-2.0
// Sockets: receive and send.
#include "posix/sockets.h"
#include "posix/calls.h"
#include "posix/rest.h"

namespace fiberrt::posix {

namespace {

bool has_option(int fd, int option, int value) {
    int is = 0;
    socklen_t size = sizeof is;
    return getsockopt(fd, SOL_SOCKET, option, &is, &size) == 0 && is == value;
}
bool is_stream(int fd) { return has_option(fd, SO_TYPE, SOCK_STREAM); }

// Without these flags, one try does the whole receive or send if the fiber need not wait.
constexpr int special_flags = MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE | MSG_WAITALL | MSG_FASTOPEN;

// Whether a receive goes on until all bytes are received: one of a stream with MSG_WAITALL.
bool wants_all(int fd, int flags) { return (flags & MSG_WAITALL) && is_stream(fd); }

bool is_at_end(int fd) {
    pollfd end = {fd, POLLRDHUP, 0};
    return ::poll(&end, 1, 0) > 0;
}

// A receive with MSG_PEEK and MSG_WAITALL of a stream. Unix streams return the bytes that they have, without a wait for
// all. count() returns the number of bytes wanted.
template <class Count, class Try, class Block>
ssize_t peek_all(int fd, Count count, Try try_once, Block block) {
    bool waits_for_all = !has_option(fd, SO_DOMAIN, AF_UNIX);
    DescriptorCall call(fd, POLLIN, SO_RCVTIMEO);
    for (;;) {
        ssize_t result = try_once();
        if (result < 0 && !would_block()) return -1;
        size_t wanted = result >= 0 ? count() : 0; // the kernel has checked the message
        if (wanted > transfer_most) wanted = transfer_most;
        bool enough = result >= 0 && (!result || size_t(result) >= wanted || !waits_for_all || is_at_end(fd));
        if (enough || (result > 0 && is_nonblocking(fd))) return call.done(result);
        // No event tells that more bytes have come.
        Next next = result > 0 ? call.wait_for_more() : call.wait();
        if (next == Next::block) return call.done(block());
        if (next == Next::fail) return result > 0 ? call.done(result) : -1;
    }
}

// Receives bytes. first(flags) makes the call, with the caller's other arguments.
template <class First>
ssize_t receive(int fd, void* buffer, size_t count, int flags, First first) {
    if (never_waits(fd, flags)) return at_once(first(flags));
    auto try_first = [&] { return first(flags | MSG_DONTWAIT); };
    auto block = [&] { return first(flags); };
    if (!wants_all(fd, flags)) return until_done(fd, POLLIN, SO_RCVTIMEO, try_first, block);
    if (flags & MSG_PEEK)
        return peek_all(
            fd, [&] { return count; }, try_first, block);
    auto* at = static_cast<char*>(buffer);
    auto rest = [&](size_t done, int with) { return done ? ::recv(fd, at + done, count - done, with) : first(with); };
    return until_all(
        fd, POLLIN, SO_RCVTIMEO, count, [&](size_t done) { return rest(done, flags | MSG_DONTWAIT); },
        [&](size_t done) { return rest(done, flags); });
}

// Whether a result of 0 bytes is the end of the connection. (The queue of errors has messages without bytes.)
bool can_end(bool asked, int flags) { return asked && !(flags & MSG_ERRQUEUE); }

// Whether a receive with MSG_WAITALL ends with this part of a message. The kernel ends it after a part with descriptors,
// even if the control buffer has no room for them, and between parts of different writers. Of a part with control data,
// this function does not find out whether the next part belongs to it. (SO_PASSCRED truncates control data, too.)
bool ends_at(int fd, const msghdr& message) {
    return message.msg_controllen || ((message.msg_flags & MSG_CTRUNC) && !has_option(fd, SO_PASSCRED, 1));
}

// The rest of a receive of a message with MSG_WAITALL, after the kernel has filled the first bytes of its buffers.
// control_size: the size of the caller's control buffer, which is empty.
ssize_t receive_rest(DescriptorCall& call, int fd, msghdr& message, size_t control_size, size_t done, int flags) {
    Rest rest(message.msg_iov, message.msg_iovlen);
    rest.advance(done);
    auto receive_part = [&](int with) {
        msghdr part = {};
        part.msg_iov = const_cast<iovec*>(rest.parts());
        part.msg_iovlen = rest.count();
        part.msg_control = message.msg_control;
        part.msg_controllen = control_size;
        ssize_t result = ::recvmsg(fd, &part, with);
        if (result > 0) {
            rest.advance(size_t(result));
            message.msg_controllen = part.msg_controllen;
            message.msg_flags |= part.msg_flags;
        }
        return result;
    };
    while (!rest.empty() && !ends_at(fd, message) && may_continue(fd, POLLIN)) {
        ssize_t result = receive_part(flags | MSG_DONTWAIT);
        if (result > 0) continue;
        if (!result || !would_block()) break;
        Next next = call.wait();
        if (next == Next::block) receive_part(flags);
        if (next != Next::retry) break;
    }
    return call.done(rest.with(0));
}

// Receives a message. first(flags) makes the call.
template <class First>
ssize_t receive_message(int fd, msghdr* message, int flags, First first) {
    if (never_waits(fd, flags)) return at_once(first(flags));
    bool takes_all = wants_all(fd, flags) && is_readable(message);
    if (takes_all && (flags & MSG_PEEK)) {
        msghdr lengths = *message; // the kernel replaces them at each try
        auto again = [&](int with) {
            message->msg_namelen = lengths.msg_namelen;
            message->msg_controllen = lengths.msg_controllen;
            return first(with);
        };
        return peek_all(
            fd, [&] { return bytes_of(*message); }, [&] { return again(flags | MSG_DONTWAIT); },
            [&] { return again(flags); });
    }
    size_t control_size = takes_all ? message->msg_controllen : 0; // the kernel replaces it
    DescriptorCall call(fd, POLLIN, SO_RCVTIMEO);
    ssize_t result = until_done(
        call, [&] { return first(flags | MSG_DONTWAIT); }, [&] { return first(flags); });
    bool goes_on = result > 0 && takes_all;
    return goes_on ? receive_rest(call, fd, *message, control_size, size_t(result), flags) : result;
}

// The first step of a send with MSG_FASTOPEN, which connects. send_now(flags) makes the call; finish() waits until the
// socket is connected.
template <class Send, class Finish>
ssize_t send_and_connect(int fd, int flags, Send send_now, Finish finish) {
    ssize_t result = send_now(flags | MSG_DONTWAIT);
    if (result < 0 && errno != EINPROGRESS && errno != EALREADY) return result;
    forget_ended(fd);
    if (finish()) {
        KeepErrno keep;
        if (was_refused(errno)) {
            remember_ended(fd);
            shutdown(fd, SHUT_RDWR); // the first bytes may be on their way
        }
        return -1;
    }
    return result >= 0 ? result : send_now((flags & ~MSG_FASTOPEN) | MSG_DONTWAIT);
}

} // namespace

size_t bytes_of(const msghdr& message) {
    size_t bytes = 0;
    for (size_t i = 0; i < message.msg_iovlen; i++) bytes += message.msg_iov[i].iov_len;
    return bytes;
}

bool never_waits(int fd, int flags) {
    if (flags & (MSG_DONTWAIT | MSG_OOB)) return true;
    return (flags & MSG_ERRQUEUE) && !has_option(fd, SO_DOMAIN, AF_UNIX) && !has_option(fd, SO_DOMAIN, AF_NETLINK);
}

// The parts of recv and of sendto that a call without a wait does not reach: without them, the two save few registers.
namespace {

// Follows a try that has reported EAGAIN.
__attribute__((noinline)) ssize_t recv_after_wait(int fd, void* buffer, size_t count, int flags) {
    bool has_tried = false;
    auto try_once = [&] {
        if (has_tried) return ::recv(fd, buffer, count, flags | MSG_DONTWAIT);
        has_tried = true;
        errno = EAGAIN;
        return ssize_t(-1);
    };
    return until_done(fd, POLLIN, SO_RCVTIMEO, try_once, [&] { return ::recv(fd, buffer, count, flags); });
}

// tried: the result of a first try, part of the bytes or EAGAIN; or null.
__attribute__((noinline)) ssize_t send_all(int fd, const void* data, size_t count, int flags, const sockaddr* address,
                                           socklen_t length, const ssize_t* tried) {
    size_t most = count < transfer_most ? count : transfer_most;
    const auto* at = static_cast<const char*>(data);
    auto rest = [&](size_t done, int with) -> ssize_t {
        if (done) return ::send(fd, at + done, most - done, again(with & ~MSG_FASTOPEN, done));
        return ::sendto(fd, data, count, with, address, length);
    };
    auto first = [&](int with) { return rest(0, with); };
    auto finish = [&] { return finish_connecting(fd, address, length, EINPROGRESS, socket_deadline(fd, SO_SNDTIMEO)); };
    auto try_once = [&](size_t done) {
        if (!tried) {
            if (!done && (flags & MSG_FASTOPEN)) return send_and_connect(fd, flags, first, finish);
            return rest(done, flags | MSG_DONTWAIT);
        }
        ssize_t result = *tried;
        tried = nullptr;
        if (result < 0) errno = EAGAIN;
        return result;
    };
    return until_all(fd, POLLOUT, SO_SNDTIMEO, most, try_once, [&](size_t done) { return rest(done, flags); });
}

} // namespace

ssize_t send_rest(DescriptorCall& call, int fd, const msghdr& message, size_t done, int flags) {
    if (!done) return 0;
    Rest rest(message.msg_iov, message.msg_iovlen);
    rest.advance(done);
    int with = again(flags & ~MSG_FASTOPEN, done);
    while (!rest.empty() && may_continue(fd, POLLOUT)) {
        msghdr step = {}; // address and control data went with the first bytes
        step.msg_iov = const_cast<iovec*>(rest.parts());
        step.msg_iovlen = rest.count();
        ssize_t result = ::sendmsg(fd, &step, with | MSG_DONTWAIT);
        if (result > 0) {
            rest.advance(size_t(result));
            continue;
        }
        if (!result || !would_block()) break;
        Next next = call.wait(); // of a nonblocking socket, fails
        if (next == Next::block) return call.done(rest.with(::sendmsg(fd, &step, with)));
        if (next == Next::fail) break;
    }
    return call.done(rest.with(0));
}

ssize_t recv(int fd, void* buffer, size_t count, int flags) {
    auto first = [&](int with) { return ::recv(fd, buffer, count, with); };
    if (!may_wait()) return received(fd, can_end(count, flags), first(flags));
    if (flags & special_flags) return received(fd, can_end(count, flags), receive(fd, buffer, count, flags, first));
    int error = errno;
    ssize_t result = first(flags | MSG_DONTWAIT);
    if (result >= 0 || !would_block()) return at_once(received(fd, count, result));
    errno = error;
    return received(fd, count, recv_after_wait(fd, buffer, count, flags));
}

ssize_t recv_chk(int fd, void* buffer, size_t count, size_t size, int flags) {
    if (count > size) __chk_fail();
    return posix::recv(fd, buffer, count, flags);
}

ssize_t recvfrom(int fd, void* buffer, size_t count, int flags, sockaddr* address, socklen_t* length) {
    auto first = [&](int with) { return ::recvfrom(fd, buffer, count, with, address, length); };
    ssize_t result = may_wait() ? receive(fd, buffer, count, flags, first) : first(flags);
    return received(fd, can_end(count, flags), result);
}

ssize_t recvfrom_chk(int fd, void* buffer, size_t count, size_t size, int flags, sockaddr* address, socklen_t* length) {
    if (count > size) __chk_fail();
    return posix::recvfrom(fd, buffer, count, flags, address, length);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
    auto first = [&](int with) { return ::recvmsg(fd, message, with); };
    ssize_t result = may_wait() ? receive_message(fd, message, flags, first) : first(flags);
    return result ? result : received(fd, can_end(bytes_of(*message), flags), 0);
}

ssize_t send(int fd, const void* data, size_t count, int flags) {
    return posix::sendto(fd, data, count, flags, nullptr, 0);
}

ssize_t sendto(int fd, const void* data, size_t count, int flags, const sockaddr* address, socklen_t length) {
    if (!may_wait()) return ::sendto(fd, data, count, flags, address, length);
    if (flags & MSG_DONTWAIT) return at_once(::sendto(fd, data, count, flags, address, length));
    if (flags & special_flags) return send_all(fd, data, count, flags, address, length, nullptr);
    int error = errno;
    ssize_t result = ::sendto(fd, data, count, flags | MSG_DONTWAIT, address, length);
    if (result >= 0 ? size_t(result) >= count : !would_block()) return at_once(result);
    errno = error;
    return send_all(fd, data, count, flags, address, length, &result);
}

// The first step has the caller's own message, so that a bad address is the kernel's to report.
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    if (!may_wait()) return ::sendmsg(fd, message, flags);
    auto first = [&](int with) { return ::sendmsg(fd, message, with); };
    if (flags & MSG_DONTWAIT) return at_once(first(flags));
    auto finish = [&] {
        return finish_connecting(fd, static_cast<const sockaddr*>(message->msg_name), message->msg_namelen, EINPROGRESS,
                                 socket_deadline(fd, SO_SNDTIMEO));
    };
    DescriptorCall call(fd, POLLOUT, SO_SNDTIMEO);
    ssize_t result = until_done(
        call,
        [&] { return flags & MSG_FASTOPEN ? send_and_connect(fd, flags, first, finish) : first(flags | MSG_DONTWAIT); },
        [&] { return first(flags); });
    return result > 0 ? send_rest(call, fd, *message, size_t(result), flags) : result;
}

} // namespace fiberrt::posix
