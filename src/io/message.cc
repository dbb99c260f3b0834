// SPDX-License-Identifier: MIT OR Apache-2.0
// recv, send, recvmsg and sendmsg: their flags, and the cases in which io_uring differs from the system calls.
#include "io/message.h"

#include "base/keep_errno.h"
#include "base/readable.h"
#include "core/cord.h"
#include "io/ready.h"
#include "io/receive_all.h"
#include "io/try_op.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

namespace fiberrt {

namespace {

// run_until_ready() for recv and send, the commonest calls of servers. A plain system call is made in this function: it
// leaves the processor's prediction of return addresses empty, so each return on a longer way out would be
// mispredicted.
[[gnu::always_inline]] inline int64_t transfer_when_ready(DescriptorGuard& guard, Op& op, int events) {
    return until_ready(guard, op, events, [&](bool reported_ready) -> int64_t {
        if (!guard.backend_only_polls()) return guard.run(op, reported_ready);
        int error = reported_ready ? 0 : guard.check();
        if (error) return error;
        KeepErrno keep;
        return guard.has_tried(op, recv_or_send_now(op));
    });
}

// Whether the memory belongs to the stack of the current fiber, and so can be read. The library does not know the
// bounds of a main flow's stack; there only the page of this frame counts.
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

// Whether a ring could spoil the ancillary data of this recvmsg.
//
// io_uring retries a recvmsg into the message that the first try has left. On a unix stream with SO_PASSCRED the first
// try has already written credentials, all zeros, as if root had sent; the true credentials and the descriptors then
// lie behind msg_controllen. So the ring is told not to wait, and each try gets its own message. A message without room
// for ancillary data is safe. But the library may not read a message before the kernel has: it reads one only on the
// fiber's own stack, where most are; otherwise the socket alone decides.
bool spoils_control(const DescriptorGuard& guard, const Op& op, bool readable) {
    if (guard.backend_only_polls() || simulated() || (readable && !has_control_room(op))) return false;
    return socket_option(op.fd, SO_DOMAIN) == AF_UNIX;
}

[[gnu::noinline]] int64_t receive_whole(DescriptorGuard& guard, Op& op) {
    if (op.code == OpCode::recvmsg) {
        if (int error = check_readable(op.address, sizeof(msghdr))) return error;
        if (spoils_control(guard, op, true)) op.flags |= MSG_DONTWAIT;
    }
    return receive_all(guard, op);
}

} // namespace

int64_t transfer_message(int fd, const void* address, size_t length, int flags, OpCode code, Cord& cord) {
    bool send = code == OpCode::send || code == OpCode::sendmsg;
    int events = message_events(send, &flags);
    DescriptorGuard guard(cord, fd);
    Op op = buffer_op(code, fd, address, length, 0);
    op.flags = unsigned(flags);
    if (!events) return guard.run(op);
    if (!send && flags & MSG_WAITALL) return receive_whole(guard, op);
    if (code == OpCode::recvmsg) {
        bool readable = is_on_stack(*cord.sched.current, address, sizeof(msghdr));
        if (spoils_control(guard, op, readable)) op.flags |= MSG_DONTWAIT;
    }
    bool plain = code == OpCode::recv || code == OpCode::send;
    return plain ? transfer_when_ready(guard, op, events) : run_until_ready(guard, op, events);
}

} // namespace fiberrt
