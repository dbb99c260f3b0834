// SPDX-License-Identifier: MIT OR Apache-2.0
// The POSIX-named calls: arguments checked, one operation each, and the few differences between what io_uring does and
// what POSIX says made good: O_NONBLOCK, SIGPIPE, positions.
#include "io/fifo.h"
#include "io/io.h"

#include "api/api.h"
#include "api/io_ready.h"
#include "base/keep_errno.h"
#include "base/readable.h"
#include "io/attempt.h"
#include "io/close.h"
#include "io/parts.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace fiberrt;
using namespace fiberrt::api;

namespace {

bool bad_buffer(const void* buffer, size_t count) { return (!buffer && count) || count > SSIZE_MAX; }

// run_until_ready for recv and send, which servers do all the time. Where that is a plain system call, it is made right
// here: the kernel leaves the processor without its memory of return addresses, and each return on the way out would be
// mispredicted.
[[gnu::always_inline]] inline int64_t transfer_when_ready(DescriptorUse& use, Op& op, int events) {
    return until_ready(use, op, events, [&](bool told_ready) -> int64_t {
        if (!use.by_attempts()) return use.run(op, told_ready);
        int error = told_ready ? 0 : use.check();
        if (error) return error;
        KeepErrno keep;
        return use.has_attempted(op, recv_or_send_now(op));
    });
}

int64_t run_alone(Cord& cord, Op& op) {
    DescriptorUse use(cord, op.fd);
    return use.run(op);
}

// Whether the kernel takes a position for a transfer. lseek does not tell: that of an eventfd succeeds. This asks for
// an impossible number of buffers: the kernel answers -ESPIPE before it looks at the number, and refuses that without a
// look at the file. An emulator may refuse the number by itself.
bool has_positions(int fd, const struct stat& file, bool writes) {
    KeepErrno keep;
    int error = syscall(writes ? SYS_pwritev : SYS_preadv, fd, nullptr, -1L, 0L, 0L) < 0 ? errno : 0;
    bool stream = type_of(file) == S_IFIFO || type_of(file) == S_IFSOCK;
    return error != ESPIPE && (error == EBADF || !stream);
}

// Moves a position that an operation has left where it was.
void mend_position(const Op& op, int64_t transferred) {
    KeepErrno keep;
    bool writes = op.code == OpCode::write || op.code == OpCode::writev;
    bool appended = writes && fcntl(op.fd, F_GETFL) & O_APPEND;
    lseek(op.fd, appended ? 0 : transferred, appended ? SEEK_END : SEEK_CUR);
}

Op buffer_op(OpCode code, int fd, const void* address, size_t length, int64_t position) {
    Op op(code, fd);
    op.address = const_cast<void*>(address);
    op.length = at_once(length);
    op.offset = uint64_t(position);
    return op;
}

// Runs a transfer at the file's own position, if the file has one. io_uring does not move the position if the transfer
// bypasses the page cache (O_DIRECT), nor if it transferred a part and failed to transfer the rest (no space left, a
// limit, an unmapped page, a bad sector). Nothing in the result shows that, so the position is compared with the one
// before. If another thread or process moves the same position meanwhile, this is not noticed.
int64_t run_at_position(DescriptorUse& use, Op& op, const struct stat& file, int events) {
    {
        PositionTurn turn(use, op.fd, file);
        if (int error = turn.take()) return error;
        int64_t before = position_of(op.fd);
        if (before >= 0) {
            int64_t result = run_until_ready(use, op, events);
            if (result > 0 && !use.by_attempts() && position_of(op.fd) == before) mend_position(op, result);
            return result;
        }
    }
    return run_until_ready(use, op, events);
}

bool all_empty(const iovec* iov, int count) {
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len) return false;
    }
    return true;
}

bool wants_nothing(const Op& op) {
    bool vector = op.code == OpCode::readv || op.code == OpCode::writev;
    return vector ? all_empty(static_cast<const iovec*>(op.address), int(op.length)) : op.length == 0;
}

// Whether the kernel reads an array of buffers before the library does, and answers at once if all buffers are empty.
// run_read() tries a read first, except of a terminal; a ring tries a write to a pipe.
bool kernel_looks_first(const Op& op, const struct stat& file) {
    if (op.code == OpCode::readv) return type_of(file) != S_IFCHR;
    return op.code == OpCode::writev && type_of(file) == S_IFIFO && !is_named_fifo(file);
}

constexpr int64_t not_answered = INT64_MIN;

// Answers a transfer of nothing, and one whose array of buffers cannot be read; not_answered: it is neither, or the
// kernel will answer it.
int64_t answer_at_once(DescriptorUse& use, const Op& op, const struct stat& file) {
    if (kernel_looks_first(op, file)) return not_answered;
    if (int error = Parts(op).check()) return error;
    if (!wants_nothing(op)) return not_answered;
    if (int error = use.check()) return error;
    switch (op.code) {
    case OpCode::read: return use.has_attempted(op, read_nothing(use, op.fd, file));
    case OpCode::write: return use.has_attempted(op, write_nothing(op.fd, file));
    default: return use.has_attempted(op, vector_of_nothing(op.fd, op.code == OpCode::writev));
    }
}

int64_t read_file(OpCode code, int fd, const void* address, size_t length, int64_t position) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    struct stat file = {};
    if (!me->attention && position != own_position) {
        // A ring would ignore the position of an operation on a pipe, and take data that pread may not take.
        file = status_of(fd);
        if (!has_positions(fd, file, false)) return -ESPIPE;
    }
    DescriptorUse use(*cord, fd);
    Op op = buffer_op(code, fd, address, length, position);
    if (me->attention) return run_until_ready(use, op, POLLIN); // says so
    if (position == own_position) file = status_of(fd);
    if (counts_position(file)) {
        return position == own_position ? run_at_position(use, op, file, POLLIN) : run_until_ready(use, op, POLLIN);
    }
    int64_t answer = simulated ? not_answered : answer_at_once(use, op, file);
    return answer != not_answered ? answer : run_read(use, op, file);
}

int64_t write_file(Cord& cord, OpCode code, int fd, const struct stat& file, const void* address, size_t length,
                   int64_t position) {
    DescriptorUse use(cord, fd);
    Op op = buffer_op(code, fd, address, length, position);
    op.may_block = type_of(file) == S_IFCHR; // a terminal that is ready begins a write at once, and may not end it
    if (!cord.current->attention && !simulated && !counts_position(file)) {
        int64_t answer = answer_at_once(use, op, file);
        if (answer != not_answered) return answer;
        // An eventfd refuses so few bytes at once; a ring would wait until it is ready.
        if (!type_of(file) && Parts(op).bytes() < sizeof(uint64_t)) {
            return until_ready(use, op, POLLOUT, [&](bool told_ready) { return use.attempt_or_run(op, told_ready); });
        }
        int error = op.may_block ? check_write(fd) : 0;
        if (error) return error;
    }
    if (position == own_position && counts_position(file)) return run_at_position(use, op, file, POLLOUT);
    return run_until_ready(use, op, POLLOUT);
}

// Fills a few buffers from those of a message, without the bytes that have come already; returns how many buffers.
size_t what_is_left(const msghdr& message, size_t come, iovec* out, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < message.msg_iovlen && count < most; i++) {
        iovec part = message.msg_iov[i];
        size_t skip = come < part.iov_len ? come : part.iov_len;
        come -= skip;
        if (skip < part.iov_len) out[count++] = {static_cast<char*>(part.iov_base) + skip, part.iov_len - skip};
    }
    return count;
}

// A receive with MSG_WAITALL. io_uring's own repeats what MSG_PEEK left there, goes on beyond urgent data and behind a
// message of a SOCK_SEQPACKET, and stops early where there is room for ancillary data. So the parts are received one by
// one, and the call ends where the kernel's ends: at the end of the stream, at an error, before urgent data, behind
// descriptors, before the bytes of another sender.
class ReceiveAll {
public:
    ReceiveAll(DescriptorUse& use, const Op& op) : use_(use), op_(op) {
        one_ = {op.address, op.length};
        if (op.code == OpCode::recvmsg) {
            whole_ = static_cast<msghdr*>(op.address);
        } else {
            plain_.msg_iov = &one_;
            plain_.msg_iovlen = 1;
            whole_ = &plain_;
        }
        part_ = *whole_;
        control_room_ = part_.msg_controllen;
    }
    ReceiveAll(const ReceiveAll&) = delete;
    ReceiveAll& operator=(const ReceiveAll&) = delete;

    int64_t run();

private:
    int64_t receive(int flags);
    bool has_descriptors() const;
    bool next_is_of_another_sender() const;
    bool before_urgent_data() const;
    bool ends_here(int events) const;
    int64_t receive_rest();
    int64_t peek_all();

    DescriptorUse& use_;
    const Op& op_;
    iovec one_;
    iovec few_[8];
    msghdr plain_ = {};
    msghdr* whole_;
    msghdr part_;
    size_t control_room_;
    int64_t come_ = 0;
    bool is_unix_ = false;
    bool knows_sender_ = false; // by SO_PASSCRED
    ucred sender_;
    int64_t pause_ns_ = first_pause_ns;
};

// Receives one part, into the buffers of part_. The call reports the name, control data and flags of the part.
int64_t ReceiveAll::receive(int flags) {
    Op op = buffer_op(OpCode::recvmsg, op_.fd, &part_, 1, 0);
    op.flags = (op_.flags & ~unsigned(MSG_WAITALL)) | unsigned(flags);
    int64_t got = flags & MSG_DONTWAIT ? use_.attempt_or_run(op, true) : run_until_ready(use_, op, POLLIN);
    if (got < 0 || (got == 0 && come_)) return got;
    if (!come_) whole_->msg_namelen = part_.msg_namelen;
    whole_->msg_controllen = part_.msg_controllen;
    whole_->msg_flags = part_.msg_flags;
    return got;
}

// Whether descriptors came with a part. Where there was no room for them, the kernel says so in the same words as of
// credentials.
bool ReceiveAll::has_descriptors() const {
    for (cmsghdr* at = CMSG_FIRSTHDR(&part_); at; at = CMSG_NXTHDR(const_cast<msghdr*>(&part_), at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) return true;
    }
    return part_.msg_flags & MSG_CTRUNC && socket_option(op_.fd, SO_PASSCRED) == 0;
}

// The credentials that came with a part. False: there are none.
bool credentials_of(msghdr& message, ucred* out) {
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_CREDENTIALS) continue;
        memcpy(out, CMSG_DATA(at), sizeof *out);
        return true;
    }
    return false;
}

// The kernel joins no bytes of different senders where SO_PASSCRED tells of them. The room for ancillary data is that
// of the credentials alone: so the kernel makes no descriptors of those that may come with the bytes.
bool ReceiveAll::next_is_of_another_sender() const {
    if (!knows_sender_) return false;
    KeepErrno keep;
    char byte;
    iovec one = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr peeked = {};
    peeked.msg_iov = &one;
    peeked.msg_iovlen = 1;
    peeked.msg_control = control;
    peeked.msg_controllen = sizeof control;
    ucred next;
    if (recvmsg(op_.fd, &peeked, MSG_PEEK | MSG_DONTWAIT) <= 0 || !credentials_of(peeked, &next)) return false;
    return next.pid != sender_.pid || next.uid != sender_.uid || next.gid != sender_.gid;
}

bool ReceiveAll::before_urgent_data() const {
    KeepErrno keep;
    int mark = 0;
    return ioctl(op_.fd, SIOCATMARK, &mark) == 0 && mark;
}

// Nothing more comes. The error that is the reason stays for the next call, except in a unix socket, whose own call
// drops it. POLLERR alone is no end: the queue of errors has something, for example the notice of a send with
// MSG_ZEROCOPY.
bool ReceiveAll::ends_here(int events) const {
    if (!(events & (POLLRDHUP | POLLHUP))) return false;
    KeepErrno keep;
    int bytes = 0;
    if (ioctl(op_.fd, FIONREAD, &bytes) == 0 && bytes > 0) return false;
    if (is_unix_) socket_option(op_.fd, SO_ERROR);
    return true;
}

int64_t ReceiveAll::receive_rest() {
    while (size_t count = what_is_left(*whole_, size_t(come_), few_, sizeof few_ / sizeof *few_)) {
        constexpr int events = POLLIN | POLLPRI | POLLRDHUP;
        if (is_unix_ && has_descriptors()) break;
        int64_t result = use_.wait_until_ready(op_.fd, events, false);
        if (result >= 0) {
            if ((result & POLLPRI && before_urgent_data()) || ends_here(int(result))) break;
            if (next_is_of_another_sender()) break;
            part_.msg_name = nullptr;
            part_.msg_namelen = 0;
            part_.msg_iov = few_;
            part_.msg_iovlen = count;
            part_.msg_controllen = control_room_;
            result = receive(MSG_DONTWAIT);
            if (result == 0) break;
            if (result == -EAGAIN) result = ask_again_later(use_, &pause_ns_);
        }
        if (result < 0) { // the bytes received so far are not lost
            use_.not_ended_by(int(result));
            break;
        }
        come_ += result;
    }
    return come_;
}

// The bytes that were seen stay there and count as readable, so this looks for more at intervals. Only tcp waits for
// more.
int64_t ReceiveAll::peek_all() {
    while (what_is_left(*whole_, size_t(come_), few_, 1)) {
        int events = events_now(op_.fd, POLLPRI | POLLRDHUP) & ~POLLERR; // which is no end, as above
        if (!events) {
            if (int error = ask_again_later(use_, &pause_ns_)) {
                use_.not_ended_by(error);
                break;
            }
        }
        part_ = *whole_;
        part_.msg_controllen = control_room_;
        int64_t got = receive(MSG_DONTWAIT);
        if (got > come_) come_ = got;
        if (events) break;
    }
    return come_;
}

int64_t ReceiveAll::run() {
    int64_t got = receive(0);
    if (got <= 0) return got;
    come_ = got;
    if (!what_is_left(*whole_, size_t(come_), few_, 1) || socket_option(op_.fd, SO_TYPE) != SOCK_STREAM) return come_;
    int domain = socket_option(op_.fd, SO_DOMAIN);
    is_unix_ = domain == AF_UNIX;
    knows_sender_ = is_unix_ && credentials_of(part_, &sender_);
    if (op_.flags & MSG_OOB) return come_;
    if (!(op_.flags & MSG_PEEK)) return receive_rest();
    return domain == AF_INET || domain == AF_INET6 ? peek_all() : come_;
}

// The first send of a tcp connection, with MSG_FASTOPEN or TCP_FASTOPEN_CONNECT, has begun to connect and could send
// nothing yet: it goes on as any other.
[[gnu::noinline]] int64_t send_when_connected(DescriptorUse& use, Op& op) {
    op.flags &= ~unsigned(MSG_FASTOPEN);
    return run_until_ready(use, op, POLLOUT);
}

// Whether the memory belongs to the stack of the current fiber, and so can be read. A main flow has a stack whose
// bounds the library does not know: of such a stack, only the page of this frame counts.
bool is_on_stack(const Fiber& me, const void* memory, size_t bytes) {
    constexpr uintptr_t page = 4096; // the smallest
    auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    auto begin = reinterpret_cast<uintptr_t>(static_cast<char*>(me.stack_low));
    uintptr_t end = begin ? begin + StackPool::size_of(me.stack_class) : (here | (page - 1)) + 1;
    auto at = reinterpret_cast<uintptr_t>(memory);
    return at >= (begin ? begin : here) && at <= end - bytes;
}

// Whether the message of a recvmsg has room for ancillary data. The message can be read.
bool has_control_room(const Op& op) {
    size_t room;
    memcpy(&room, static_cast<const char*>(op.address) + offsetof(msghdr, msg_controllen), sizeof room);
    return room;
}

// io_uring tries a recvmsg again into the message that the first try has left. On a unix stream with SO_PASSCRED the
// kernel has written credentials by then, all zeros, as if root had sent; the true ones and the descriptors then lie
// behind msg_controllen. So the ring is told not to wait, and each try has a message of its own. A message without room
// for ancillary data is safe, but the library must not read a message that the kernel has not read before. It reads one
// on the fiber's own stack, where most messages are; for any other the socket alone decides.
bool spoils_control(const DescriptorUse& use, const Op& op, bool readable) {
    if (use.by_attempts() || simulated || (readable && !has_control_room(op))) return false;
    return socket_option(op.fd, SO_DOMAIN) == AF_UNIX;
}

[[gnu::noinline]] int64_t receive_all(DescriptorUse& use, Op& op) {
    if (op.code == OpCode::recvmsg) {
        if (int error = check_readable(op.address, sizeof(msghdr))) return error;
        if (spoils_control(use, op, true)) op.flags |= MSG_DONTWAIT;
    }
    return ReceiveAll(use, op).run();
}

int64_t message(OpCode code, int fd, const void* address, size_t length, int flags, int events) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    bool send = events == POLLOUT;
    bool wait =
        !(flags & (send ? MSG_DONTWAIT : MSG_DONTWAIT | MSG_ERRQUEUE)); // the queue of errors is never waited for
    // Left to wait for room by itself, the kernel sends what its first attempt has not read yet: of a datagram,
    // nothing.
    if (send || !wait) flags |= MSG_DONTWAIT;
    DescriptorUse use(*cord, fd);
    Op op = buffer_op(code, fd, address, length, 0);
    op.flags = unsigned(flags);
    if (!wait) {
        if (!send) op.flags &= ~unsigned(MSG_WAITALL); // without a wait it means nothing
        return use.run(op);
    }
    if (!send && flags & MSG_WAITALL) return receive_all(use, op);
    if (code == OpCode::recvmsg) {
        bool readable = is_on_stack(*cord->current, address, sizeof(msghdr));
        if (spoils_control(use, op, readable)) op.flags |= MSG_DONTWAIT;
    }
    bool plain = code == OpCode::recv || code == OpCode::send;
    int64_t result = plain ? transfer_when_ready(use, op, events) : run_until_ready(use, op, events);
    return result == -EINPROGRESS && send ? send_when_connected(use, op) : result;
}

// The kernel's own connect leaves a socket that was refused as new. One whose error was asked for answers the next
// connect with -ECONNABORTED, and is then as new: that answer is fetched here. Of other sockets and errors it is not
// sure that this begins no new attempt; a shutdown, for one, has left a socket as new already.
[[gnu::cold]] void end_failed_connect(const Op& op, int error) {
    int domain = socket_option(op.fd, SO_DOMAIN);
    bool internet = domain == AF_INET || domain == AF_INET6;
    bool by_peer = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT;
    if (internet && by_peer && socket_option(op.fd, SO_TYPE) == SOCK_STREAM) attempt(op); // which does not wait
}

bool bad_vector(const iovec* iov, int count) { return count < 0 || count > IOV_MAX || (!iov && count); }

int64_t descriptor_op(OpCode code, int fd, unsigned flags) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Op op(code, fd);
    op.flags = flags;
    return run_alone(*cord, op);
}

} // namespace

bool api::Retry::wait(bool tried, int64_t* result) {
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

int64_t api::Retry::failed(int64_t result) const {
    return result == -EPIPE && waited_ ? result_when_broken(op_.fd) : result;
}

int64_t api::run_open(DescriptorUse& use, Op& op) {
    int64_t result = use.run(op);
    // A few times, as the path may name something else each time; and drivers have -EAGAIN for reasons of their own.
    for (int times = 0; result == -EAGAIN && waits_if_fifo(op) && times < 4; times++) {
        result = open_fifo(use, op);
        if (result == -EAGAIN) result = use.run(op);
    }
    return result;
}

int64_t fiber_read(int fd, void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return read_file(OpCode::read, fd, buffer, count, own_position);
}

int64_t fiber_write(int fd, const void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    struct stat file = status_of(fd);
    // Only what sends can be told to raise no SIGPIPE.
    if (type_of(file) == S_IFSOCK) return message(OpCode::send, fd, buffer, count, MSG_NOSIGNAL, POLLOUT);
    return write_file(*cord, OpCode::write, fd, file, buffer, count, own_position);
}

int64_t fiber_readv(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    return read_file(OpCode::readv, fd, iov, size_t(count), own_position);
}

int64_t fiber_writev(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    struct stat file = status_of(fd);
    if (type_of(file) != S_IFSOCK) return write_file(*cord, OpCode::writev, fd, file, iov, size_t(count), own_position);
    // No empty datagram, as with writev(2). The array is read before the kernel sees it: a call more for each write to
    // a socket would be needed to ask whether it can be read.
    if (all_empty(iov, count)) {
        DescriptorUse use(*cord, fd);
        return use.check();
    }
    msghdr header = {};
    header.msg_iov = const_cast<iovec*>(iov);
    header.msg_iovlen = size_t(count);
    return message(OpCode::sendmsg, fd, &header, 1, MSG_NOSIGNAL, POLLOUT);
}

int64_t fiber_pread(int fd, void* buffer, size_t count, int64_t offset) {
    if (bad_buffer(buffer, count) || offset < 0) return -EINVAL;
    return read_file(OpCode::read, fd, buffer, count, offset);
}

int64_t fiber_pwrite(int fd, const void* buffer, size_t count, int64_t offset) {
    if (bad_buffer(buffer, count) || offset < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    struct stat file = status_of(fd);
    if (!cord->current->attention && !has_positions(fd, file, true)) return -ESPIPE;
    return write_file(*cord, OpCode::write, fd, file, buffer, count, offset);
}

int64_t fiber_recv(int fd, void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message(OpCode::recv, fd, buffer, count, flags, POLLIN);
}

int64_t fiber_send(int fd, const void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message(OpCode::send, fd, buffer, count, flags | MSG_NOSIGNAL, POLLOUT);
}

int64_t fiber_recvmsg(int fd, struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    return message(OpCode::recvmsg, fd, header, 1, flags, POLLIN);
}

int64_t fiber_sendmsg(int fd, const struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    return message(OpCode::sendmsg, fd, header, 1, flags | MSG_NOSIGNAL, POLLOUT);
}

int fiber_accept(int fd, struct sockaddr* address, socklen_t* length) { return fiber_accept4(fd, address, length, 0); }

int fiber_accept4(int fd, struct sockaddr* address, socklen_t* length, int flags) {
    if ((address && !length) || (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    DescriptorUse use(*cord, fd);
    Op op(OpCode::accept, fd);
    op.address = address;
    op.address2 = address ? length : nullptr;
    op.flags = unsigned(flags);
    return int(run_until_ready(use, op, POLLIN));
}

int fiber_connect(int fd, const struct sockaddr* address, socklen_t length) {
    if (!address) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    DescriptorUse use(*cord, fd);
    Op op(OpCode::connect, fd);
    op.address = const_cast<sockaddr*>(address);
    op.offset = length;
    int64_t result = use.run(op);
    // O_NONBLOCK and a unix socket whose backlog is full: nothing tells when there will be room.
    for (int64_t pause_ns = first_pause_ns; result == -EAGAIN; result = use.run(op, true)) {
        if (int error = ask_again_later(use, &pause_ns)) return int(use.look_once_more(op, error));
    }
    if (result != -EINPROGRESS && result != -EALREADY) return int(result);
    // The attempt goes on in the kernel; writable means decided.
    while (result == -EINPROGRESS || result == -EALREADY) {
        result = use.wait_until_ready(fd, POLLOUT, false);
        if (result < 0) return int(use.look_once_more(op, result));
        KeepErrno keep;
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) return -errno;
        if (error) {
            if (use.attempted()) end_failed_connect(op, error);
            return -error;
        }
        if (!use.attempted()) return 0;
        result = use.run(op, true); // without that the kernel would take the next connect for this one's end
    }
    return result == -EISCONN ? 0 : int(result);
}

int fiber_open(const char* path, int flags, mode_t mode) {
    if (!path) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Op op(OpCode::open, DescriptorUse::none);
    // Left to itself, io_uring would first try with O_NONBLOCK, which opens a FIFO that nobody writes to.
    op.may_block = !(flags & O_NONBLOCK);
    op.address = const_cast<char*>(path);
    op.flags = unsigned(flags);
    op.length = flags & (O_CREAT | __O_TMPFILE) ? mode : 0;
    DescriptorUse use(*cord, DescriptorUse::none);
    return int(run_open(use, op));
}

int fiber_close(int fd) {
    Cord* cord = cord_here();
    return cord ? io_close(*cord, fd) : no_cord();
}

int fiber_statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* out) {
    if (!path || !out) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    bool relative = dirfd != AT_FDCWD && path[0] != '/';
    Op op(OpCode::statx, relative ? dirfd : DescriptorUse::none);
    op.offset = uint64_t(int64_t(dirfd));
    op.address = const_cast<char*>(path);
    op.address2 = out;
    op.flags = unsigned(flags);
    op.length = mask;
    return int(run_alone(*cord, op));
}

int fiber_fsync(int fd) { return int(descriptor_op(OpCode::fsync, fd, 0)); }

int fiber_fdatasync(int fd) { return int(descriptor_op(OpCode::fsync, fd, fsync_data_only)); }

int fiber_poll_fd(int fd, int events) {
    if (events <= 0 || events > 0xffff) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    DescriptorUse use(*cord, fd);
    for (int64_t pause_ns = first_pause_ns;;) {
        int64_t result = use.wait_until_ready(fd, events, false);
        if (result < 0) return int(result);
        // The kernel tells of POLLRDHUP unasked, at once and every time.
        int asked_for = int(result) & (events | POLLERR | POLLHUP);
        if (asked_for && !(asked_for = use.events_that_hold(fd, events, asked_for))) continue;
        if (asked_for) return asked_for;
        if (int error = ask_again_later(use, &pause_ns)) {
            Op ready(OpCode::poll, fd);
            ready.flags = unsigned(events);
            return int(use.look_once_more(ready, error));
        }
    }
}
