// SPDX-License-Identifier: MIT OR Apache-2.0
// A receive with MSG_WAITALL, made of receives of parts.
#include "io/receive_all.h"

#include "base/keep_errno.h"
#include "io/message_layout.h"
#include "io/ready.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace fiberrt {

namespace {

// Fills `out` with at most `most` buffers: those of a message, without the first `received` bytes, which have arrived
// already. Returns how many buffers.
size_t remaining_buffers(const msghdr& message, size_t received, iovec* out, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < size_t(message.msg_iovlen) && count < most; i++) {
        iovec part = message.msg_iov[i];
        size_t skip = received < part.iov_len ? received : part.iov_len;
        received -= skip;
        if (skip < part.iov_len) out[count++] = {static_cast<char*>(part.iov_base) + skip, part.iov_len - skip};
    }
    return count;
}

// A receive with MSG_WAITALL. It receives the parts one by one, because io_uring's own repeats the bytes that MSG_PEEK
// leaves, goes on past urgent data and past a message of a SOCK_SEQPACKET, and stops early if there is room for
// ancillary data. The call ends where the kernel's ends: at the end of the stream, at an error, before urgent data,
// after descriptors, before the bytes of another sender.
class ReceiveAll {
public:
    ReceiveAll(DescriptorGuard& guard, const Op& op) : guard_(guard), op_(op) {
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

    DescriptorGuard& guard_;
    const Op& op_;
    iovec one_;
    iovec few_[8];
    msghdr plain_ = {};
    msghdr* whole_;
    msghdr part_;
    size_t control_room_;
    int64_t received_ = 0;
    bool is_unix_ = false;
    bool knows_sender_ = false; // SO_PASSCRED is set: sender_ is known
    ucred sender_;
    int64_t pause_ns_ = first_pause_ns;
};

// Receives one part into the buffers of part_. Its name, control data and flags become those of the whole message.
int64_t ReceiveAll::receive(int flags) {
    Op op = buffer_op(OpCode::recvmsg, op_.fd, &part_, 1, 0);
    op.flags = (op_.flags & ~unsigned(MSG_WAITALL)) | unsigned(flags);
    int64_t got = flags & MSG_DONTWAIT ? guard_.try_or_run(op, true) : run_until_ready(guard_, op, POLLIN);
    if (got < 0 || (got == 0 && received_)) return got;
    if (!received_) whole_->msg_namelen = part_.msg_namelen;
    whole_->msg_controllen = part_.msg_controllen;
    whole_->msg_flags = part_.msg_flags;
    return got;
}

// Whether descriptors came with a part. If there was no room for them, the kernel sets MSG_CTRUNC, as it does for
// credentials.
bool ReceiveAll::has_descriptors() const {
    for (cmsghdr* at = CMSG_FIRSTHDR(&part_); at; at = next_part(part_, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) return true;
    }
    return part_.msg_flags & MSG_CTRUNC && socket_option(op_.fd, SO_PASSCRED) == 0;
}

// Gets the credentials that came with a part. False: there are none.
bool credentials_of(msghdr& message, ucred* out) {
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at; at = next_part(message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_CREDENTIALS) continue;
        memcpy(out, CMSG_DATA(at), sizeof *out);
        return true;
    }
    return false;
}

// Whether the next bytes are another sender's: with SO_PASSCRED the kernel does not join bytes of different senders.
// There is room for credentials only, so the kernel makes no descriptors of any that come with the bytes.
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

// Whether no more bytes will come. The error that is the reason stays for the next call, except for a unix socket,
// whose own call drops it. POLLERR alone is no end: the queue of errors has an entry, for example the notice of a send
// with MSG_ZEROCOPY.
bool ReceiveAll::ends_here(int events) const {
    if (!(events & (POLLRDHUP | POLLHUP))) return false;
    KeepErrno keep;
    int bytes = 0;
    if (ioctl(op_.fd, FIONREAD, &bytes) == 0 && bytes > 0) return false;
    if (is_unix_) socket_option(op_.fd, SO_ERROR);
    return true;
}

int64_t ReceiveAll::receive_rest() {
    while (size_t count = remaining_buffers(*whole_, size_t(received_), few_, sizeof few_ / sizeof *few_)) {
        constexpr int events = POLLIN | POLLPRI | POLLRDHUP;
        if (is_unix_ && has_descriptors()) break;
        int64_t result = guard_.wait_until_ready(op_.fd, events, false);
        if (result >= 0) {
            if ((result & POLLPRI && before_urgent_data()) || ends_here(int(result))) break;
            if (next_is_of_another_sender()) break;
            part_.msg_name = nullptr;
            part_.msg_namelen = 0;
            part_.msg_iov = few_;
            part_.msg_iovlen = BufferCount(count);
            part_.msg_controllen = ControlSize(control_room_);
            result = receive(MSG_DONTWAIT);
            if (result == 0) break;
            if (result == -EAGAIN) result = ask_again_later(guard_, &pause_ns_);
        }
        if (result < 0) { // the bytes received so far are not lost
            guard_.not_ended_by(int(result));
            break;
        }
        received_ += result;
    }
    return received_;
}

// A receive with MSG_PEEK, which waits for more bytes only on tcp. The bytes seen stay in the socket and count as
// readable, so this checks for more at intervals.
int64_t ReceiveAll::peek_all() {
    while (remaining_buffers(*whole_, size_t(received_), few_, 1)) {
        int events = events_now(op_.fd, POLLPRI | POLLRDHUP) & ~POLLERR; // no end: see ends_here()
        if (!events) {
            if (int error = ask_again_later(guard_, &pause_ns_)) { // coverage: race
                guard_.not_ended_by(error);
                break;
            }
        }
        part_ = *whole_;
        part_.msg_controllen = ControlSize(control_room_);
        int64_t got = receive(MSG_DONTWAIT);
        if (got > received_) received_ = got;
        if (events) break;
    }
    return received_;
}

int64_t ReceiveAll::run() {
    int64_t got = receive(0);
    if (got <= 0) return got;
    received_ = got;
    if (!remaining_buffers(*whole_, size_t(received_), few_, 1) || socket_option(op_.fd, SO_TYPE) != SOCK_STREAM)
        return received_;
    int domain = socket_option(op_.fd, SO_DOMAIN);
    is_unix_ = domain == AF_UNIX;
    knows_sender_ = is_unix_ && credentials_of(part_, &sender_);
    if (op_.flags & MSG_OOB) return received_;
    if (!(op_.flags & MSG_PEEK)) return receive_rest();
    return domain == AF_INET || domain == AF_INET6 ? peek_all() : received_;
}

} // namespace

int64_t receive_all(DescriptorGuard& guard, const Op& op) { return ReceiveAll(guard, op).run(); }

} // namespace fiberrt
