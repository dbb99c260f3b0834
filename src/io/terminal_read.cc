// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads of terminals. The terminal's mode decides when a read ends, and poll(2) shows only a part of that. So where
// VMIN is not 1, this file measures the time between bytes and asks only for bytes that are available.
#include "io/terminal_read.h"

#include "io/iovecs.h"
#include "io/ready.h"
#include "io/terminal.h"

#include <fcntl.h>
#include <sys/uio.h>

namespace fiberrt {

namespace {

// The operation for the next part of a transfer. With many buffers the part may be smaller than asked for.
class Part {
public:
    Part(const Op& whole, size_t done, size_t bytes) : op(whole.code, whole.fd) {
        op = whole;
        op.length = uint32_t(bytes);
        if (whole.code == OpCode::read) op.address = static_cast<char*>(whole.address) + done;
        if (whole.code == OpCode::readv) fill(whole, done, bytes);
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    Op op;

private:
    void fill(const Op& whole, size_t skip, size_t bytes) {
        const auto* iov = static_cast<const iovec*>(whole.address);
        op.address = few_;
        op.length = 0;
        for (uint32_t i = 0; i < whole.length && bytes && op.length < sizeof few_ / sizeof *few_; i++) {
            size_t skipped = skip < iov[i].iov_len ? skip : iov[i].iov_len;
            size_t here = iov[i].iov_len - skipped < bytes ? iov[i].iov_len - skipped : bytes;
            skip -= skipped;
            bytes -= here;
            if (here) few_[op.length++] = {static_cast<char*>(iov[i].iov_base) + skipped, here};
        }
    }

    iovec few_[8];
};

// A read of a terminal in a mode with VMIN or VTIME, or a splice from a terminal.
class TerminalRead {
public:
    TerminalRead(DescriptorGuard& guard, const Op& op, const TerminalMode& mode)
        : guard_(guard), op_(op), mode_(mode), wanted_(Iovecs(op).bytes()), least_(mode.lines ? 1 : mode.least),
          time_ns_(mode.lines ? 0 : mode.time_ns) {}

    int64_t run() {
        if (least_ == 0) until_ = time_ns_ ? guard_.deadline_in(time_ns_) : 0;
        for (bool reported_ready = false;; reported_ready = true) {
            size_t there = readable_now(op_.fd, mode_, wanted_ - done_, done_);
            if (there && has_room()) {
                Part part(op_, done_, there);
                int64_t got = guard_.run_by_calls_alone(part.op, reported_ready);
                if (got == 0 || (got < 0 && got != -EAGAIN)) return ended(got);
                if (got > 0 && take(size_t(got))) return int64_t(done_);
                if (got > 0) continue;
            }
            if (!there && until_ == 0) return guard_.has_tried(op_, 0);
            if (op_.code == OpCode::splice && op_.flags & SPLICE_F_NONBLOCK) return ended(-EAGAIN);
            if (int64_t result = wait(there)) return result == timed_out ? int64_t(done_) : ended(result);
            terminal_mode(op_.fd, &mode_); // another process may have changed it
        }
    }

private:
    static constexpr int64_t timed_out = 1;

    // Counts the bytes of a part. Returns whether the read has ended.
    bool take(size_t got) {
        done_ += got;
        pause_ns_ = first_pause_ns;
        if (least_ && time_ns_) until_ = guard_.deadline_in(time_ns_);
        // The kernel's own read would also return bytes that have come meanwhile; a readv may have read only a part.
        return done_ == wanted_ || (done_ >= least_ && !(op_.code == OpCode::readv && readable_now(op_.fd, 1)));
    }

    // Returns the bytes read so far, if there are any; the caller's next call then gets the error. If a cancel or the
    // like ended the read, it tries once more.
    int64_t ended(int64_t result) {
        bool early = result == -ECANCELED || result == -EINTR || result == -ETIMEDOUT || result == -EBADF;
        size_t there = early && has_room() ? readable_now(op_.fd, mode_, wanted_ - done_, done_) : 0;
        if (there) {
            Part part(op_, done_, there);
            int64_t got = guard_.try_once_more(part.op, result);
            if (got > 0) return int64_t(done_ += size_t(got));
        }
        if (!done_) return result;
        guard_.not_ended_by(int(result));
        return int64_t(done_);
    }

    bool has_room() const {
        return op_.code != OpCode::splice || ready_now(static_cast<const OutEnd*>(op_.address)->fd, POLLOUT);
    }

    // Waits for a change. Returns 0; timed_out; or why the wait ended early.
    int64_t wait(size_t there) {
        bool asleep = !ready_now(op_.fd, POLLIN); // the kernel reports the change
        int64_t result;
        if (there && !has_room()) { // coverage: rare
            result = guard_.wait_until_ready(static_cast<const OutEnd*>(op_.address)->fd, POLLOUT, true);
        } else if (asleep && (time_ns_ || (!done_ && least_ <= wanted_))) {
            result = guard_.wait_until_ready(op_.fd, POLLIN, true, until_);
        } else { // poll(2) may wait for more bytes than are needed
            if (guard_.deadline_in(0) >= until_) return timed_out;
            result = ask_again_later(guard_, &pause_ns_);
        }
        if (result >= 0) return 0;
        if (result != -ETIMEDOUT || until_ == INT64_MAX) return result;
        int error = guard_.check(); // the caller's own deadline has passed, or is later
        return error ? error : timed_out;
    }

    DescriptorGuard& guard_;
    const Op& op_;
    TerminalMode mode_;
    const size_t wanted_;
    const size_t least_;
    const int64_t time_ns_;
    size_t done_ = 0;
    int64_t until_ = INT64_MAX; // 0: the read does not wait
    int64_t pause_ns_ = first_pause_ns;
};

// Performs a read that job control allows.
int64_t read_terminal(DescriptorGuard& guard, Op& op, const TerminalMode& mode) {
    bool by_timers = !mode.lines && mode.least != 1;
    if (by_timers || op.code == OpCode::splice) return TerminalRead(guard, op, mode).run();
    return run_until_ready(guard, op, POLLIN);
}

} // namespace

int64_t read_as_foreground(DescriptorGuard& guard, Op& op, const TerminalMode& mode) {
    op.may_block = true;
    if (int error = guard.check()) return error;
    int allowed = terminal_check_read(op.fd);
    if (allowed < 0) return allowed;
    for (;;) {
        int64_t result = read_terminal(guard, op, mode);
        if (result != -EIO || terminal_hung_up(op.fd)) return result;
        // The process may have been in the background while this waited, and may be still. The kernel checks that once,
        // at the start of a read, and here the read started only when there were bytes.
        allowed = terminal_check_read(op.fd);
        if (allowed < 0) return allowed;
        if (allowed == 0) return result;
    }
}

int64_t splice_from_terminal(DescriptorGuard& guard, Op& op) {
    TerminalMode mode;
    return !simulated() && terminal_mode(op.fd, &mode) ? read_as_foreground(guard, op, mode) : not_a_terminal;
}

} // namespace fiberrt
