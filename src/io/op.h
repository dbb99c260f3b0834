// SPDX-License-Identifier: MIT OR Apache-2.0
// One operation, between the fiber that waits for it and the backend that performs it.
//
// The waiter makes it, on its stack; the backend has it from give() until it calls op_done(), exactly once, when the
// kernel has let go of everything the Op points to.
#pragma once

#include "base/order.h"
#include "core/wait.h"
#include "io/ops.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct stat;

namespace fiberrt {

// Where a splice or a copy_range puts its bytes.
struct OutEnd {
    int fd;
    uint64_t offset; // ~0: at its own position
};

struct Op : Wait {
    OpCode code;
    bool may_block = false; // the kernel could block the thread over it: it is to use a thread of its own
    bool hint = false;      // poll: its waiter tries again anyway and may be told of readiness that is none
    int fd = -1;
    void* address = nullptr;  // buffer, iovec array, msghdr, sockaddr, path or OutEnd
    void* address2 = nullptr; // accept: socklen_t; statx: result; open2: open_how; rename: the other path
    uint64_t offset = 0; // position, ~0: the file's own; connect: length of the address; close: fd; path: its folder
    uint32_t length = 0; // bytes or entries; open, mkdir: mode; statx: mask; open2: size; rename: the other folder
    uint32_t flags = 0;  // of recv, send, accept4, open, statx, fsync, rename, …; poll: events
    int stop_reason = 0; // why its early end was asked for; 0: it was not
    int seen;            // the events that poll(2) reported of its descriptor at that moment; 0: not ready

    // The backend's, while it has the operation.
    bool waiting_for_room = false; // the kernel has not seen it
    bool being_cancelled = false;  // a request to cancel it is with the kernel, and unanswered
    bool finished = false;         // and what the kernel answered:
    int32_t kernel_result = 0;
    struct OpQueue* queue = nullptr; // that it is in, by the two links below
    Op* next = nullptr;
    Op* prev = nullptr;
    uint64_t number;                  // in the traces of a simulation,
    uint8_t medium;                   // and of what its descriptor is there (sim/sim.h)
    struct OffloadJob* job = nullptr; // while a thread of the pool has it

    Op(OpCode code, int fd) : code(code), fd(fd) { what = WaitFor::op; }
};

constexpr int64_t own_position = -1;
constexpr size_t most_bytes = 0x7ffff000; // what the kernel transfers at once

inline uint32_t at_once(size_t length) { return uint32_t(length < most_bytes ? length : most_bytes); }

inline Op buffer_op(OpCode code, int fd, const void* address, size_t length, int64_t position) {
    Op op(code, fd);
    op.address = const_cast<void*>(address);
    op.length = at_once(length);
    op.offset = uint64_t(position);
    return op;
}

// hint: see Op::hint.
inline Op poll_op(int fd, int events, bool hint) {
    Op op(OpCode::poll, fd);
    op.flags = unsigned(events);
    op.hint = hint;
    return op;
}

// What one thread writes comes before another's read of it. Of the C library's calls ThreadSanitizer knows that; of
// these it is told, of all descriptors as if they were one, as the library does not know which belong together.
inline constexpr char all_descriptors = 0;
inline void io_begins() { hooks::given(&all_descriptors); }
inline void io_ends() { hooks::taken(&all_descriptors); }

// Reports the end of an operation with the kernel's answer: wakes its waiter.
void op_done(Op* op, int32_t result);

// The result of an operation that a signal to the kernel's worker ended, unasked: the caller begins it again.
constexpr int op_again = -ERESTART;

// The result of an operation for which the kernel needed a thread of its own and could make none: nothing was done.
constexpr int op_no_thread = -EUSERS;

// Performs such an operation by a plain system call, which may block the thread for as long as a disk takes. -EAGAIN if
// it could be for longer: the open of a FIFO, see io/fifo.h, and reads and splices of a descriptor that has nothing to
// read now.
int64_t plain_call(const Op& op);
void plain_calls_forked(); // in the child of a fork: no other thread is about one

// Whether an open waits, if what it opens is a FIFO whose other side is not there.
bool waits_if_fifo(const Op& op);

// An open or open2 by the plain call, with other flags. Returns the call's result, and sets errno.
int open_with_flags(const Op& op, int flags);

// The status of the file that the path of an open or open2 names. 0, or -E...
int path_status(const Op& op, struct stat* out);

// A splice that does not wait for a pipe, but may wait for what else it is between. It raises no SIGPIPE. Returns
// the call's result and sets errno. Moves at most `most` of the operation's bytes.
int64_t splice_call(const Op& op, size_t most = SIZE_MAX);

// Whether a splice between a pipe and a device, which takes no word against waiting, finds data and room now.
bool can_splice_device(const Op& op);

// Notes a reason for ending an operation early; the reason of the highest rank is reported. True: it is the first.
bool note_stop(Op& op, int reason);

// The Stop of operations that a backend has.
void stop_op(Wait* wait, int reason);

// Returns the result of a receive or an accept that was refused with -EAGAIN, if its socket is shut down for receiving.
// Such a socket counts as readable, but one for datagrams and a unix listener go on to refuse attempts. This tries once
// more, as data may have come after the first attempt and before the shutdown. If there are none, a receive gets 0,
// with nothing in a recvmsg's message, and an accept -EINVAL. -EAGAIN: the socket is not shut down, or the operation is
// of another kind.
int64_t result_if_shut_down(const Op& op);

// The result of one more try of an operation whose wait has ended early; -EAGAIN: it would still wait.
int64_t last_try(const Op& op);

// Whether it is a read of a terminal or another device that a ring has been given. Threads of other rings may take the
// bytes between a look at them and a plain call, which would then keep the cord's thread waiting.
inline bool is_blocking_read(const Op& op) {
    return op.may_block && (op.code == OpCode::read || op.code == OpCode::readv);
}

// Tells Valgrind which memory the kernel has written for an operation.
void mark_filled(const Op& op, int64_t result);

// Whether the length of an accept's address is below 0. The accept has taken a connection then, and another would wait.
bool has_negative_length(const Op& accept);

// Answers of a ring that may mean that it does not do such operations at all: older kernels, and whatever may yet
// restrict them. The plain call, which tells, does no harm: nothing was done.
inline bool may_be_refusal(int64_t result) { return result == -EINVAL || result == -EOPNOTSUPP || result == -ENOSYS; }

// Whether the result of this operation may be a refusal.
inline bool may_be_refusal(const Op& op, int64_t result) {
    return may_be_refusal(result) && !(op.code == OpCode::accept && has_negative_length(op));
}

constexpr uint32_t fsync_data_only = 1; // flags of OpCode::fsync

} // namespace fiberrt
