// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies from one descriptor to another, within the kernel if possible: by copy_file_range, by splices, through a pipe;
// otherwise through a buffer.
//
// The calling thread first tries splices itself, because a ring would use a worker thread for each. The ring or the
// pool performs only those with a disk, or a device that is ready, at one end.
#include "io/copy.h"

#include "base/keep_errno.h"
#include "io/file_status.h"
#include "io/own.h"
#include "io/read_write.h"
#include "io/ready.h"
#include "io/splice.h"
#include "io/try_op.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt {

namespace {

bool is_of(mode_t type, const struct stat& file) { return type_of(file) == type; }

bool is_connection(int fd) {
    return socket_option(fd, SO_TYPE) == SOCK_STREAM && socket_option(fd, SO_ACCEPTCONN) == 0;
}

bool waits(int fd) {
    KeepErrno keep;
    return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

bool appends(int fd) {
    KeepErrno keep;
    return fcntl(fd, F_GETFL) & O_APPEND;
}

// Whether the result is a cancel, an interrupt or a timeout of the calling fiber.
bool of_caller(int64_t result) { return result == -ECANCELED || result == -EINTR || result == -ETIMEDOUT; }

// The result of a way of copying if these files do not support it, and nothing else is wrong.
constexpr int64_t other_way = 1;

class FileCopy {
public:
    FileCopy(Cord& cord, int in, int out, int64_t limit)
        : guard_(cord, in), guard_out_(guard_, out), cord_(cord), in_(in), out_(out), left_(limit),
          in_file_(status_of(in)), out_file_(status_of(out)) {
        if (counts_position(in_file_)) in_start_ = in_at_ = position_of(in);
        if (counts_position(out_file_) && !appends(out)) out_start_ = out_at_ = position_of(out);
    }
    FileCopy(const FileCopy&) = delete;
    FileCopy& operator=(const FileCopy&) = delete;

    int64_t run(); // 0, or why it ended early
    int64_t written() const { return written_; }
    int64_t lost() const { return in_at_ < 0 ? pending_ + cut_ : 0; }

private:
    static constexpr int64_t most_of_range = 16 << 20;
    static constexpr int pipe_bytes = 1 << 20;
    static constexpr int64_t buffer_bytes = 128 << 10;

    int64_t by_range();
    int64_t by_splice();
    int64_t through_pipe();
    int64_t by_buffer();
    int64_t put_from_pipe();
    int64_t put_from_buffer(int64_t bytes);
    template <class Run>
    int64_t put(const Op& op, Run run);
    bool make_pipe();
    bool make_buffer();
    bool into_itself() const;
    int check_overlap();
    void set_positions() const;
    void take(int64_t bytes);
    void has_put(int64_t bytes);
    int64_t chunk(int64_t most) const { return left_ < most ? left_ : most; }

    DescriptorGuard guard_;
    DescriptorGuard guard_out_;
    OwnDescriptor pipe_[2]; // used if neither end is a pipe
    OwnMemory memory_;      // used if an end cannot be spliced
    char* buffer_ = nullptr;
    Cord& cord_;
    int in_;
    int out_;
    int64_t left_;
    int64_t pending_ = 0; // bytes read and not written yet
    int64_t cut_ = 0;     // bytes of a message that did not fit
    int64_t written_ = 0;
    int64_t pipe_room_ = 0;
    bool from_messages_ = false;
    struct stat in_file_;
    struct stat out_file_;
    int64_t in_start_ = own_position; // the position at the start, if the file has one
    int64_t in_at_ = own_position;    // the present position
    int64_t out_start_ = own_position;
    int64_t out_at_ = own_position;
    int64_t ended_ = 0; // why the caller's wait ended, while a disk still gets the bytes read
};

void FileCopy::take(int64_t bytes) {
    if (in_at_ >= 0) in_at_ += bytes;
    left_ -= bytes;
    pending_ += bytes;
}

void FileCopy::has_put(int64_t bytes) {
    if (out_at_ >= 0) out_at_ += bytes;
    pending_ -= bytes;
    written_ += bytes;
}

bool FileCopy::into_itself() const {
    bool one = in_file_.st_dev == out_file_.st_dev && in_file_.st_ino == out_file_.st_ino;
    return one && (is_of(S_IFREG, in_file_) || is_of(S_IFIFO, in_file_));
}

// Returns -EINVAL if the copy would read the bytes that it writes, and so never end. The end of a file is its present
// end.
int FileCopy::check_overlap() {
    if (!into_itself()) return 0;
    if (is_of(S_IFIFO, in_file_)) return -EINVAL;
    int64_t rest = in_file_.st_size - in_at_;
    if (left_ > rest) left_ = rest > 0 ? rest : 0;
    // The last comparison avoids an overflow: sizes may be INT64_MAX.
    bool apart = out_at_ < 0 || in_at_ + left_ <= out_at_ || left_ <= in_at_ - out_at_;
    return apart ? 0 : -EINVAL;
}

bool FileCopy::make_pipe() {
    KeepErrno keep;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) return false;
    pipe_[0].keep(cord_, ends[0]);
    pipe_[1].keep(cord_, ends[1]);
    fcntl(ends[1], F_SETPIPE_SZ, pipe_bytes); // if the system's limit allows less, the pipe stays smaller
    pipe_room_ = fcntl(ends[1], F_GETPIPE_SZ);
    return pipe_room_ > 0;
}

bool FileCopy::make_buffer() {
    KeepErrno keep;
    buffer_ = static_cast<char*>(malloc(size_t(buffer_bytes)));
    if (buffer_) memory_.keep(cord_, buffer_, free);
    return buffer_;
}

// Copies between regular files. On some file systems the two files then share blocks, and no bytes are copied.
int64_t FileCopy::by_range() {
    while (left_) {
        OutEnd out = {out_, uint64_t(out_at_)};
        Op op(OpCode::copy_range, in_);
        op.address = &out;
        op.offset = uint64_t(in_at_);
        op.length = uint32_t(chunk(most_of_range));
        int64_t result = guard_.run(op);
        // Files of /proc report size 0 but have contents.
        if (result == 0) return in_file_.st_size > 0 ? 0 : other_way;
        if (result == -EINVAL || result == -EXDEV || result == -ENOSYS || result == -EOPNOTSUPP) return other_way;
        if (result < 0) return result;
        take(result);
        has_put(result);
    }
    return 0;
}

// Copies from a pipe, or into one.
int64_t FileCopy::by_splice() {
    while (left_) {
        Splice splice(in_, in_at_, out_, out_at_, size_t(chunk(pipe_bytes)), 0);
        int64_t result = splice.run(guard_, &in_file_);
        if (result == 0) return 0;
        if (result == -EINVAL || result == -EMFILE || result == -ENFILE) return other_way;
        if (result < 0) return result;
        take(result);
        has_put(result);
    }
    return 0;
}

int64_t FileCopy::through_pipe() {
    while (left_) {
        Splice splice(in_, in_at_, pipe_[1].number(), own_position, size_t(chunk(pipe_room_)), 0);
        int64_t result = splice.run(guard_, &in_file_);
        if (result == 0) return 0;
        if (result == -EINVAL) return other_way;
        if (result < 0) return result;
        take(result);
        result = put_from_pipe();
        if (result) return result;
    }
    return 0;
}

int64_t FileCopy::by_buffer() {
    if (!make_buffer()) return -ENOMEM;
    while (pending_) { // bytes in the pipe, which cannot be spliced to the output
        KeepErrno keep;
        int64_t bytes = read(pipe_[0].number(), buffer_, size_t(pending_ < buffer_bytes ? pending_ : buffer_bytes));
        if (bytes <= 0) return -EIO;
        if (int64_t error = put_from_buffer(bytes)) return error;
    }
    while (left_ && !ended_) {
        Op op(from_messages_ ? OpCode::recv : OpCode::read, in_);
        op.address = buffer_;
        op.offset = uint64_t(in_at_);
        op.length = uint32_t(chunk(buffer_bytes));
        op.flags = from_messages_ ? MSG_TRUNC : 0; // reports the message's whole length
        int64_t result = from_messages_ ? run_until_ready(guard_, op, POLLIN) : run_read(guard_, op, in_file_);
        if (result <= 0) return result;
        int64_t got = result < op.length ? result : op.length;
        take(got);
        cut_ = result - got;
        if (int64_t error = put_from_buffer(got)) return error;
        if (cut_) return ended_ ? ended_ : -EMSGSIZE;
    }
    return ended_;
}

// Writes some of the bytes that were read. After the caller's wait has ended, a disk still gets all of them, as a write
// to a disk ends by itself; any other file gets only the bytes that it accepts without a wait.
template <class Run>
int64_t FileCopy::put(const Op& op, Run run) {
    bool disk = counts_position(out_file_);
    for (;;) {
        int64_t result = ended_ && !disk ? try_op(op) : run();
        if (result > 0) has_put(result);
        if (result > 0) return result;
        if (ended_ && !disk) return ended_;
        if (result == 0) return -EIO; // otherwise the copy would never end
        if (!of_caller(result)) return result;
        // The operation was not stopped, so the error is the file's own: a network file system timed out.
        if (ended_ && result == -ETIMEDOUT && !op.stop_reason) return result;
        if (!ended_) ended_ = result;
        if (disk) guard_.ignore_pending();
    }
}

int64_t FileCopy::put_from_pipe() {
    while (pending_) {
        Splice splice(pipe_[0].number(), own_position, out_, out_at_, size_t(pending_), 0);
        int64_t result = put(splice.op, [&] { return splice.run(guard_); });
        if (result == -EINVAL) return other_way;
        if (result < 0) return result;
    }
    return ended_;
}

int64_t FileCopy::put_from_buffer(int64_t bytes) {
    for (int64_t done = 0; done < bytes;) {
        bool socket = is_of(S_IFSOCK, out_file_);
        Op op(socket ? OpCode::send : OpCode::write, out_);
        op.address = buffer_ + done;
        op.length = uint32_t(bytes - done);
        op.offset = uint64_t(out_at_);
        op.flags = socket ? MSG_NOSIGNAL | MSG_DONTWAIT : 0;
        op.may_block = is_of(S_IFCHR, out_file_); // as in fiber_write
        int64_t result = put(op, [&] { return run_until_ready(guard_, op, POLLOUT); });
        if (result < 0) return result;
        done += result;
    }
    return 0;
}

// Sets the positions of the files. Bytes that were read and not written count as not read.
void FileCopy::set_positions() const {
    KeepErrno keep;
    if (in_start_ >= 0) lseek(in_, in_start_ + written_, SEEK_SET);
    if (out_start_ >= 0) lseek(out_, out_start_ + written_, SEEK_SET);
}

int64_t FileCopy::run() {
    if (int error = guard_.check()) return error;
    // Checked before the pipe is made, which would take a free number.
    if (!in_file_.st_mode || !out_file_.st_mode) return -EBADF;
    if (int error = check_overlap()) return error;
    int64_t result = other_way;
    // A splice of a message would lose the bytes for which the pipe has no room.
    from_messages_ = is_of(S_IFSOCK, in_file_) && !is_connection(in_);
    // Into a blocking connection splices move one page at a time; sends move more.
    bool by_sends = is_of(S_IFSOCK, out_file_) && (!is_connection(out_) || waits(out_));
    if (in_at_ >= 0 && out_at_ >= 0) {
        result = by_range();
    } else if (!from_messages_ && (is_of(S_IFIFO, in_file_) || is_of(S_IFIFO, out_file_))) {
        result = by_splice();
    } else if (!from_messages_ && !by_sends && make_pipe()) {
        result = through_pipe();
    }
    if (result == other_way) result = by_buffer();
    set_positions();
    return result;
}

} // namespace

int64_t copy_to_end(Cord& cord, int fd_in, int fd_out, int64_t limit, int64_t* written, int64_t* lost) {
    FileCopy copy(cord, fd_in, fd_out, limit);
    int64_t result = copy.run();
    if (written) *written = copy.written();
    if (lost) *lost = copy.lost();
    return result < 0 ? result : copy.written();
}

} // namespace fiberrt
