// SPDX-License-Identifier: MIT OR Apache-2.0
// Move data from one descriptor to another inside the kernel: sendfile, splice, tee, vmsplice.
#include "posix/calls.h"
#include "posix/wait.h"

#include <signal.h>

namespace fiberrt::posix {

namespace {

bool is_ready(int fd, short events) {
    pollfd now = {fd, events, 0};
    return ::poll(&now, 1, 0) != 0;
}

bool is_for_writing(int fd) { return (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY; }

} // namespace

// Waits only for the output, because the input must be a file with a position. sendfile has no flag that keeps one call
// from blocking, so the output is nonblocking during each step.
ssize_t sendfile(int out, int in, off_t* offset, size_t count) noexcept {
    if (!may_wait()) return ::sendfile(out, in, offset, count);
    if (is_nonblocking(out) || is_always_ready(out)) return at_once(::sendfile(out, in, offset, count));
    DescriptorCall call(out, POLLOUT, SO_SNDTIMEO);
    size_t most = count < transfer_most ? count : transfer_most;
    for (size_t done = 0;;) {
        ssize_t result;
        bool blocks;
        {
            NonblockingMoment nonblocking(out);
            blocks = nonblocking.has_set();
            result = ::sendfile(out, in, offset, done ? most - done : count);
        }
        if (result >= 0) {
            done += size_t(result);
            if (done >= most || !result || !blocks || !may_continue(out, POLLOUT)) return call.done(ssize_t(done));
            continue;
        }
        if (!would_block()) return done ? call.done(ssize_t(done)) : -1;
        Next next = call.wait();
        if (next == Next::block) {
            result = ::sendfile(out, in, offset, most - done);
            return result >= 0 ? call.done(ssize_t(done) + result) : done ? call.done(ssize_t(done)) : -1;
        }
        if (next == Next::fail || (done && !may_continue(out, POLLOUT))) return done ? call.done(ssize_t(done)) : -1;
    }
}

namespace {

// The library's own splice, which finds out which of the two descriptors is not ready.
template <class Block>
ssize_t splice_by_fiber(int in, off_t* offset_in, int out, off_t* offset_out, size_t count, unsigned flags,
                        Block block) {
    bool checked = (!offset_in || is_readable(offset_in)) && (!offset_out || is_readable(offset_out));
    if (!checked || !count || (flags & SPLICE_F_NONBLOCK) || is_nonblocking(in) || is_nonblocking(out))
        return at_once(block());
    if (any_ended() && was_ended(in)) { // the library would refuse a splice of a cancelled fiber before it looks
        ssize_t at_end = ::splice(in, offset_in, out, offset_out, count, flags | SPLICE_F_NONBLOCK);
        if (at_end >= 0 || !would_block()) return at_once(at_end);
    }
    KeepErrnoIfDone errno_kept;
    int64_t result;
    Next next;
    {
        Entered entered;
        if (!entered) return block();
        int64_t at_in = offset_in ? *offset_in : 0, at_out = offset_out ? *offset_out : 0;
        result = fiber_splice(in, offset_in ? &at_in : nullptr, out, offset_out ? &at_out : nullptr, count, flags);
        if (result > 0 && offset_in) *offset_in = at_in;
        if (result > 0 && offset_out) *offset_out = at_out;
        next = after_wait(result < 0 ? int(result) : 0);
    }
    if (next == Next::block) return block();
    if (next == Next::retry) return errno_kept.done(at_once(ssize_t(result)));
    int error = errno;
    if (was_refused(error)) {
        end_connection(in);
        end_connection(out);
    }
    if (error == EPIPE) raise(SIGPIPE); // as the kernel does
    errno = error;
    return -1;
}

} // namespace

ssize_t splice(int in, off_t* offset_in, int out, off_t* offset_out, size_t count, unsigned flags) {
    auto block = [&] { return ::splice(in, offset_in, out, offset_out, count, flags); };
    ssize_t result = may_wait() ? splice_by_fiber(in, offset_in, out, offset_out, count, flags, block) : block();
    return received(in, count, result);
}

ssize_t tee(int in, int out, size_t count, unsigned flags) {
    if (!may_wait()) return ::tee(in, out, count, flags);
    if (flags & SPLICE_F_NONBLOCK) return at_once(::tee(in, out, count, flags));
    DescriptorCall call(in, POLLIN, 0);
    for (;;) {
        ssize_t result = ::tee(in, out, count, flags | SPLICE_F_NONBLOCK);
        if (result >= 0) return call.done(result);
        if (!would_block() || is_nonblocking(out)) return -1;
        switch (is_ready(in, POLLIN) ? call.wait_for(out, POLLOUT) : call.wait()) {
        case Next::retry: continue;
        case Next::block: return call.done(::tee(in, out, count, flags));
        default: return -1;
        }
    }
}

ssize_t vmsplice(int fd, const iovec* parts, size_t count, unsigned flags) {
    if (!may_wait()) return ::vmsplice(fd, parts, count, flags);
    if (flags & SPLICE_F_NONBLOCK) return at_once(::vmsplice(fd, parts, count, flags));
    return until_done(
        fd, is_for_writing(fd) ? POLLOUT : POLLIN, 0,
        [&] { return ::vmsplice(fd, parts, count, flags | SPLICE_F_NONBLOCK); },
        [&] { return ::vmsplice(fd, parts, count, flags); });
}

} // namespace fiberrt::posix
