// SPDX-License-Identifier: MIT OR Apache-2.0
// read, readv, write and writev, on descriptors of any kind.
#include "posix/calls.h"
#include "posix/rest.h"
#include "posix/wait.h"

#include <limits.h>

namespace fiberrt::posix {

namespace {

// Whether a transfer with RWF_NOWAIT failed because the descriptor does not know the flag.
bool has_no_nowait() { return errno == EOPNOTSUPP || errno == ESPIPE || errno == EINVAL || errno == ENOSYS; }

bool is_socket(int fd) {
    KeepErrno errno_kept;
    int type;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

// The size of all buffers. The kernel must have read the array before, so that it is readable.
size_t bytes_in(const iovec* parts, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    return bytes;
}

msghdr message_of(const iovec* parts, int count) {
    msghdr message = {};
    message.msg_iov = const_cast<iovec*>(parts);
    message.msg_iovlen = size_t(count);
    return message;
}

// Transfers by a function of fiberrt.h, for descriptors for which the C library has no form that does not block, such
// as terminals. This loses no data either, if the wait ends early.
template <class Transfer, class Block>
ssize_t by_fiber(int fd, Transfer transfer, Block block) {
    if (is_nonblocking(fd)) return block();
    Entered entered;
    if (!entered) return block();
    int64_t result = transfer();
    return after_wait(result < 0 ? int(result) : 0) == Next::block ? block() : result >= 0 ? ssize_t(result) : -1;
}

// Reads the bytes that are available now. The descriptor is not a file on a disk.
ssize_t read_some(int fd, const iovec* parts, int count) {
    ssize_t result = ::preadv2(fd, parts, count, -1, RWF_NOWAIT);
    if (result >= 0 || !has_no_nowait() || !is_socket(fd)) return result;
    if (!bytes_in(parts, count)) return 0;
    msghdr message = message_of(parts, count);
    return ::recvmsg(fd, &message, MSG_DONTWAIT);
}

template <class Block>
ssize_t read_parts(int fd, const iovec* parts, int count, Block block) {
    if (is_always_ready(fd)) return at_once(block()); // RWF_NOWAIT might transfer only a part
    DescriptorCall call(fd, POLLIN, SO_RCVTIMEO);
    for (;;) {
        ssize_t result = read_some(fd, parts, count);
        if (result >= 0) return call.done(result);
        if (!would_block()) {
            if (!has_no_nowait()) return -1;
            return call.done(by_fiber(
                fd, [&] { return fiber_readv(fd, parts, count); }, block));
        }
        switch (call.wait()) {
        case Next::retry: continue;
        case Next::block: return call.done(block());
        default: return -1;
        }
    }
}

// Writes the first bytes of parts, without blocking. continued: the call has written bytes before.
ssize_t write_some(int fd, const iovec* parts, int count, bool continued) {
    msghdr message = message_of(parts, count);
    // A write to a socket raises SIGPIPE only if it has written nothing.
    if (continued) {
        ssize_t result = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (result >= 0 || errno != ENOTSOCK) return result;
    }
    ssize_t result = ::pwritev2(fd, parts, count, -1, RWF_NOWAIT);
    if (result >= 0 || !has_no_nowait() || !is_socket(fd)) return result;
    if (!bytes_in(parts, count)) return 0;
    return ::sendmsg(fd, &message, MSG_DONTWAIT);
}

// Writes all of parts, as a blocking write does.
template <class Block>
ssize_t write_parts(int fd, const iovec* parts, int count, Block block_first) {
    if (is_always_ready(fd)) return at_once(block_first());
    DescriptorCall call(fd, POLLOUT, SO_SNDTIMEO);
    Rest rest(parts, size_t(count));
    auto block = [&] { return rest.done() ? ::writev(fd, rest.parts(), int(rest.count())) : block_first(); };
    for (;;) {
        ssize_t result = write_some(fd, rest.parts(), int(rest.count()), rest.done());
        if (result < 0 && !would_block() && has_no_nowait())
            result = by_fiber(
                fd, [&] { return fiber_writev(fd, rest.parts(), int(rest.count())); }, block);
        if (result >= 0) {
            rest.advance(size_t(result));
            bool ends = rest.empty() || !result || is_nonblocking(fd) || (is_socket(fd) && !may_continue(fd, POLLOUT));
            if (ends) return call.done(rest.with(0));
            continue;
        }
        if (!would_block()) return call.done(rest.with(-1));
        switch (call.wait()) {
        case Next::retry: continue;
        case Next::block: return call.done(rest.with(block()));
        default: return call.done(rest.with(-1));
        }
    }
}

bool is_count(int count) { return count >= 0 && count <= IOV_MAX; }

} // namespace

ssize_t read(int fd, void* buffer, size_t count) {
    if (!may_wait() || !count) return received(fd, count, ::read(fd, buffer, count));
    KeepErrnoIfDone errno_kept;
    auto block = [&] { return ::read(fd, buffer, count); };
    ssize_t result = until_done(
        fd, POLLIN, SO_RCVTIMEO, [&] { return ::recv(fd, buffer, count, MSG_DONTWAIT); }, block);
    if (result < 0 && errno == ENOTSOCK) {
        iovec part = {buffer, count};
        result = read_parts(fd, &part, 1, block);
    }
    return errno_kept.done(received(fd, true, result));
}

ssize_t read_chk(int fd, void* buffer, size_t count, size_t size) {
    if (count > size) __chk_fail();
    return posix::read(fd, buffer, count);
}

ssize_t readv(int fd, const iovec* parts, int count) {
    auto block = [&] { return ::readv(fd, parts, count); };
    ssize_t result = !is_count(count) || !may_wait() ? block() : read_parts(fd, parts, count, block);
    return received(fd, result || bytes_in(parts, count), result);
}

ssize_t write(int fd, const void* data, size_t count) {
    if (!count || !may_wait()) return ::write(fd, data, count);
    if (count > transfer_most) count = transfer_most; // as the kernel
    KeepErrnoIfDone errno_kept;
    const auto* at = static_cast<const char*>(data);
    ssize_t result = until_all(
        fd, POLLOUT, SO_SNDTIMEO, count,
        [&](size_t done) { return ::send(fd, at + done, count - done, again(MSG_DONTWAIT, done)); },
        [&](size_t done) { return ::write(fd, at + done, count - done); });
    if (result < 0 && errno == ENOTSOCK) {
        iovec part = {const_cast<void*>(data), count};
        result = write_parts(fd, &part, 1, [&] { return ::write(fd, data, count); });
    }
    return errno_kept.done(result);
}

ssize_t writev(int fd, const iovec* parts, int count) {
    if (!is_count(count) || !may_wait()) return ::writev(fd, parts, count);
    return write_parts(fd, parts, count, [&] { return ::writev(fd, parts, count); });
}

} // namespace fiberrt::posix
