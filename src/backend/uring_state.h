// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a cord's ring, and the functions that the files uring*.cc share.
#pragma once

#include "io/op.h"
#include "backend/uring.h"

#include <atomic>
#ifdef FIBERRT_BUNDLED // as in backend/libev.h
#include "fiberrt_liburing.h"
#else
#include <liburing.h>
#endif
#include <stdint.h>

namespace fiberrt {

// A queue of operations, linked by Op::next and Op::prev.
struct OpQueue {
    Op* first = nullptr;
    Op* last = nullptr;

    void push(Op* op) {
        op->queue = this;
        op->next = nullptr;
        op->prev = last;
        (last ? last->next : first) = op;
        last = op;
    }
    void remove(Op* op) {
        (op->prev ? op->prev->next : first) = op->next;
        (op->next ? op->next->prev : last) = op->prev;
        op->queue = nullptr;
    }
};

namespace uring_impl {

struct Uring {
    io_uring ring;
    bool threads;            // the kernel may make threads for writes to devices
    bool few_threads;        // it allows so few threads for files that opens of FIFOs could take all
    OpQueue refused;         // given, but it needs a thread or the kernel has no such operation
    OpQueue without_entry;   // given, but the submission queue was full
    OpQueue to_be_cancelled; // requests to cancel, for which the submission queue was full
    OpQueue to_be_cancelled_again;
    int64_t again_at_ns; // when to ask for these again

    // The doorbell: an operation that waits until another thread rings. It stays with the kernel, even if something
    // else ends a poll, until it has fired; the next poll that sleeps gives it again.
    bool doorbell_given;
    uint32_t* doorbell_word;
    uint32_t doorbell_asleep; // the word's value while the cord sleeps
    int doorbell_fd;          // -1: the operation waits on the word itself
    uint64_t rings;           // rings read from the eventfd by the last read
    uint64_t rings_come;      // rings read in all

    int completions_fd; // eventfd for a foreign loop, signalled by each completion; -1: none
};

// ---- What the kernel offers (uring_ring.cc)

extern std::atomic<uint32_t> unknown_ops; // a bit for each OpCode that the kernel's rings do not have

int make_ring(io_uring& ring, UringOffer& offer); // with the best flags that the kernel accepts
void probe(io_uring& ring);                       // finds out once which operations rings have
bool futex_op_works();                            // the doorbell needs no descriptor
bool threads_available(io_uring& ring, bool* few_for_files);

// Whether an error of an enter loses nothing: the entries stay queued, and the next poll tries again.
inline bool transient(int error) {
    return error >= 0 || error == -ETIME || error == -EINTR || error == -EBUSY || error == -EAGAIN || error == -ENOMEM;
}

// ---- In a foreign loop (uring_embed.cc)

int fd(void* state);
int64_t leave(void* state);

} // namespace uring_impl

} // namespace fiberrt
