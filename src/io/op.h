// SPDX-License-Identifier: MIT OR Apache-2.0
// An operation (Op): a fiber waits for it, a backend performs it.
//
// The fiber makes the Op on its stack. The backend has it from give() until it calls op_done(), exactly once; by then
// the kernel does not use any memory that the Op points to.
#pragma once

#include "base/order.h"
#include "core/wait.h"
#include "io/ops.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct stat;

namespace fiberrt {

// The output of a splice or a copy_range.
struct OutEnd {
    int fd;
    uint64_t offset; // ~0: the file's own position
};

struct Op : Wait {
    OpCode code;
    bool may_block = false; // the kernel may block the thread, so a ring must use a worker thread
    bool hint = false;      // poll: the waiter tries again anyway, so a report of readiness may be false
    int fd = -1;
    void* address = nullptr;  // buffer, iovec array, msghdr, sockaddr, path or OutEnd
    void* address2 = nullptr; // accept: socklen_t; statx: result; open2: open_how; rename: the other path
    uint64_t offset = 0; // position, ~0: the file's own; connect: length of the address; close: fd; path: its folder
    uint32_t length = 0; // bytes or entries; open, mkdir: mode; statx: mask; open2: size; rename: the other folder
    uint32_t flags = 0;  // of recv, send, accept4, open, statx, fsync, rename, …; poll: events
    int stop_reason = 0; // why it was asked to end early; 0: it was not
    int seen;            // the events that poll(2) reported when it was asked to end; 0: not ready

    // These belong to the backend while it has the operation.
    bool waiting_for_room = false; // the kernel has not seen it
    bool being_cancelled = false;  // the kernel has a request to cancel it and has not answered
    bool finished = false;         // the kernel has answered, with kernel_result
    int32_t kernel_result = 0;
    struct OpQueue* queue = nullptr; // the queue that the two links below belong to
    Op* next = nullptr;
    Op* prev = nullptr;
    uint64_t number;                  // its number in the traces of a simulation
    uint8_t descriptor_kind;          // the kind of its descriptor in a simulation (sim/sim.h)
    struct OffloadJob* job = nullptr; // while a thread of the pool has it

    Op(OpCode code, int fd) : code(code), fd(fd) { what = WaitFor::op; }
};

constexpr int64_t own_position = -1;
constexpr size_t most_bytes = 0x7ffff000; // the most bytes that the kernel transfers at once

inline uint32_t at_once(size_t length) { return uint32_t(length < most_bytes ? length : most_bytes); }

inline Op buffer_op(OpCode code, int fd, const void* address, size_t length, int64_t position) {
    Op op(code, fd);
    op.address = const_cast<void*>(address);
    op.length = at_once(length);
    op.offset = uint64_t(position);
    return op;
}

// Makes a poll. hint: see Op::hint.
inline Op poll_op(int fd, int events, bool hint) {
    Op op(OpCode::poll, fd);
    op.flags = unsigned(events);
    op.hint = hint;
    return op;
}

// These tell ThreadSanitizer that a write to a descriptor happens before the read of the same bytes on another thread.
// It knows that of the C library's calls, but not of the operations here. They treat all descriptors as one, because
// the library does not know which belong together.
inline constexpr char all_descriptors = 0;
inline void io_begins() { hooks::tsan_release(&all_descriptors); }
inline void io_ends() { hooks::tsan_acquire(&all_descriptors); }

// Reports the end of an operation with the kernel's answer: wakes its waiter.
void op_done(Op* op, int32_t result);

// The result of an operation that a signal to the kernel's worker ended, although no fiber asked for its end: the
// caller begins it again.
constexpr int op_again = -ERESTART;

// The result of an operation for which the kernel could make no thread: nothing was done.
constexpr int op_no_thread = -EUSERS;

// Performs an operation by a plain system call, which may block the thread for as long as a disk takes. -EAGAIN if it
// could block longer: the open of a FIFO (see io/fifo.h), and reads and splices of a descriptor that has nothing to
// read now.
int64_t blocking_fallback(const Op& op);
void blocking_fallback_forked(); // in the child of a fork: frees the locks of plain calls

// Whether an open waits if it opens a FIFO whose other side is missing.
bool waits_if_fifo(const Op& op);

// Makes an open or open2 with other flags. Returns the call's result and sets errno.
int open_with_flags(const Op& op, int flags);

// Gets the status of the file that the path of an open or open2 names. Returns 0, or -E...
int path_status(const Op& op, struct stat* out);

// Makes a splice that does not wait for a pipe, but may wait for the descriptor at the other end. It raises no SIGPIPE.
// Moves at most `most` of the operation's bytes. Returns the call's result and sets errno.
int64_t splice_call(const Op& op, size_t most = SIZE_MAX);

// Whether a splice between a pipe and a device finds data and room now. (A device cannot be told not to wait.)
bool can_splice_device(const Op& op);

// Notes a reason for ending an operation early; the reason of the highest rank is reported. Returns true for the first
// reason.
bool note_stop(Op& op, int reason);

// The Wait::stop of operations that a backend has: asks the backend to end it.
void stop_op(Wait* wait, int reason);

// Returns the result of a receive or an accept that was refused with -EAGAIN, if its socket is shut down for receiving.
// -EAGAIN: the socket is not shut down, or the operation is of another kind.
//
// Such a socket counts as readable, but a socket for datagrams and a unix listener refuse every try. This tries once
// more, as data may have come between the first try and the shutdown. Without data a receive returns 0, with nothing in
// a recvmsg's message, and an accept -EINVAL.
int64_t result_if_shut_down(const Op& op);

// Tries once more an operation whose wait has ended early. Returns its result; -EAGAIN: it would still wait.
int64_t last_try(const Op& op);

// Whether a ring has been given a read of a terminal or another device. For these a look and a plain call are no
// substitute: threads of other rings may take the bytes in between, and the call would block the cord's thread.
inline bool is_blocking_read(const Op& op) {
    return op.may_block && (op.code == OpCode::read || op.code == OpCode::readv);
}

// Tells Valgrind which memory the kernel has written for an operation.
void mark_filled(const Op& op, int64_t result);

// Whether the length that the caller gave for an accept's address is negative. Such an accept fails after it has taken
// a connection, so a second try would wait for another one.
bool has_negative_length(const Op& accept);

// Whether a ring's answer may mean that it does not support such operations: an older kernel, or one that restricts
// them. The caller then makes the plain call, which is harmless, as nothing was done.
inline bool may_be_refusal(int64_t result) { return result == -EINVAL || result == -EOPNOTSUPP || result == -ENOSYS; }

// Whether the result of this operation may mean that.
inline bool may_be_refusal(const Op& op, int64_t result) {
    return may_be_refusal(result) && !(op.code == OpCode::accept && has_negative_length(op));
}

constexpr uint32_t fsync_data_only = 1; // flags of OpCode::fsync

} // namespace fiberrt
