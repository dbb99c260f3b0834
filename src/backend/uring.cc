// SPDX-License-Identifier: MIT OR Apache-2.0
// The io_uring backend: one ring per cord, which only the cord's thread uses.
//
// Operations become submission entries when they are given, and reach the kernel together, at the next poll: when the
// run queue is empty, or when fair polling is due. If the submission queue is full they wait in a list. A completion
// carries the Op's address; the completion of a request to cancel it carries that address with a bit set.
//
// An operation is done when its own completion has come and, if the ring was asked to cancel it, the answer to that
// too: until then the kernel may still use the Op's address.
// coverage: no memory
#include "core/hooks.h"
#include "backend/backends.h"
#include "backend/uring_enter.h"

#include <errno.h>
#include <initializer_list>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt::uring_impl {

namespace {

// For ThreadSanitizer: a ring may get the memory of one that another thread has closed; the kernel orders the two.
const char ring_memory = 0;

int open_ring(void** state, uint32_t* word, uint32_t asleep, int* doorbell_fd) {
    auto* u = static_cast<Uring*>(calloc(1, sizeof(Uring)));
    if (!u) return -ENOMEM;
    UringOffer offer;
    int error = make_ring(u->ring, offer);
    if (error == 0 && !(offer.ext_arg && offer.nodrop)) {
        io_uring_queue_exit(&u->ring);
        error = -ENOSYS;
    }
    if (error == 0) {
        u->completions_fd = -1;
        u->doorbell_word = word;
        u->doorbell_asleep = asleep;
        probe(u->ring);
        bool futex = futex_op_works();
        u->doorbell_fd = futex ? -1 : eventfd(0, EFD_CLOEXEC);
        if (u->doorbell_fd < 0 && !futex) {
            error = -errno;
            io_uring_queue_exit(&u->ring);
        }
    }
    if (error == 0) {
        *doorbell_fd = u->doorbell_fd;
        hooks::tsan_acquire(&ring_memory);
        u->threads = threads_available(u->ring, &u->few_threads);
        io_uring_ring_dontfork(&u->ring);    // otherwise the child of a fork would share its memory
        io_uring_register_ring_fd(&u->ring); // saves a look-up per enter; optional
        *state = u;
        return 0;
    }
    free(u);
    return error;
}

void close_ring(void* state, uint64_t rings_owed) {
    Uring& u = uring_of(state);
    while (u.doorbell_fd >= 0 && u.rings_come < rings_owed) {
        // A thread that still has to ring would otherwise write to a descriptor that has another owner by then.
        if (!give_doorbell(u)) {
            reap(u);
            pause_for_memory();
            continue;
        }
        int error = io_uring_submit_and_wait(&u.ring, 1);
        check_entered(error);
        if (!reap(u) && error < 0) pause_for_memory();
    }
    // The doorbell waits on a word in the cord's record, which another cord will reuse, and the kernel frees a ring
    // only some time after its close. So the doorbell is cancelled first, as it would take that cord's wakes.
    while (u.doorbell_given) {
        if (io_uring_sqe* sqe = io_uring_get_sqe(&u.ring)) {
            io_uring_prep_cancel64(sqe, of_doorbell, 0);
            io_uring_sqe_set_data64(sqe, of_doorbell_cancel);
        }
        int error = io_uring_submit_and_wait(&u.ring, 1);
        check_entered(error);
        if (!reap(u) && error < 0) pause_for_memory();
    }
    hooks::tsan_release(&ring_memory);
    io_uring_queue_exit(&u.ring);
    if (u.doorbell_fd >= 0) close(u.doorbell_fd);
    if (u.completions_fd >= 0) close(u.completions_fd);
    free(state);
}

// Drops a ring in the child of a fork. It does not call io_uring_queue_exit, which uses the ring's memory: the child
// does not have that.
void disown_ring(void* state, bool own) {
    Uring& u = uring_of(state);
    close(u.ring.ring_fd);
    if (u.doorbell_fd >= 0) close(u.doorbell_fd);
    if (u.completions_fd >= 0) close(u.completions_fd);
    if (own) free(state);
}

void give(void* state, Op* op) {
    Uring& u = uring_of(state);
    io_begins();
    op->finished = false;
    bool unknown = (unknown_ops.load(std::memory_order_relaxed) | uring_refused_ops) >> unsigned(op->code) & 1;
    bool opens = op->code == OpCode::open || op->code == OpCode::open2;
    unknown |= u.few_threads && waits_if_fifo(*op); // handled like an operation that the kernel does not have
    if (unknown || (op->may_block && !opens && !u.threads)) {
        op->kernel_result = unknown ? -EINVAL : -ECANCELED; // -ECANCELED: the kernel's answer if it can make no thread
        op->waiting_for_room = true;
        u.refused.push(op);
    } else if (u.without_entry.first || !submit_one(u, op)) {
        op->waiting_for_room = true;
        u.without_entry.push(op);
    }
}

// Takes back the entry of an operation that the kernel has not been given yet. False: the kernel has it. (Without this
// the kernel would try the operation after later actions of the fibers.)
bool withdraw_entry(Uring& u, const Op* op) {
    unsigned waiting = io_uring_sq_ready(&u.ring);
    for (unsigned i = 1; i <= waiting; i++) {
        io_uring_sqe* sqe = &u.ring.sq.sqes[(u.ring.sq.sqe_tail - i) & u.ring.sq.ring_mask];
        if (sqe->user_data != reinterpret_cast<uint64_t>(op)) continue;
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data64(sqe, of_withdrawn);
        return true;
    }
    return false;
}

void cancel(void* state, Op* op) {
    Uring& u = uring_of(state);
    bool connects = op->code == OpCode::connect;
    if (connects && op->waiting_for_room) op->seen = 0; // a try would begin the connect
    if (op->waiting_for_room || (!op->seen && !connects && withdraw_entry(u, op))) {
        op->waiting_for_room = false;
        op->kernel_result = -ECANCELED;
        finish(op);
    } else if (u.to_be_cancelled.first || !submit_cancel(u, op)) {
        u.to_be_cancelled.push(op);
    }
}

bool poll_ring(void* state, int64_t deadline, bool asleep) {
    Uring& u = uring_of(state);
    if (refuse(u)) deadline = poll_only;
    if (deadline == poll_only) {
        int entered = enter_if_due(u);
        bool some = reap(u);
        return some || entered;
    }
    refill(u);
    // More entries than one submission holds: submit them before sleeping.
    while (u.without_entry.first || u.to_be_cancelled.first) {
        int error = io_uring_submit_and_get_events(&u.ring);
        check_entered(error);
        if (reap(u)) {
            refill(u);
            return true;
        }
        if (error < 0) {
            pause_for_memory();
            return true;
        }
        refill(u);
    }
    if (asleep && !give_doorbell(u)) { // a sleep without the doorbell would miss messages
        reap(u);
        pause_for_memory();
        return true;
    }
    if (u.to_be_cancelled_again.first && deadline > u.again_at_ns) deadline = u.again_at_ns;
    io_uring_cqe* cqe = nullptr;
    int error;
    if (deadline == never) {
        error = io_uring_submit_and_wait(&u.ring, 1);
    } else {
        int64_t left = deadline - clock_now();
        if (left < 0) left = 0;
        __kernel_timespec timeout = {left / 1'000'000'000, left % 1'000'000'000};
        error = io_uring_submit_and_wait_timeout(&u.ring, &cqe, 1, &timeout, nullptr);
    }
    check_entered(error);
    if (!reap(u) && (error == -EBUSY || error == -EAGAIN || error == -ENOMEM)) pause_for_memory();
    return true;
}

int own_descriptors(void* state, int out[]) {
    Uring& u = *static_cast<Uring*>(state);
    int count = 0;
    for (int fd : {u.ring.ring_fd, u.doorbell_fd, u.completions_fd})
        if (fd >= 0) out[count++] = fd;
    return count;
}

} // namespace

} // namespace fiberrt::uring_impl

namespace fiberrt {

const Backend uring_backend = {
    .name = "uring",
    .open = uring_impl::open_ring,
    .close = uring_impl::close_ring,
    .give = uring_impl::give,
    .cancel = uring_impl::cancel,
    .poll = uring_impl::poll_ring,
    .own_descriptors = uring_impl::own_descriptors,
    .fd = uring_impl::fd,
    .suspend = uring_impl::leave,
    .disown = uring_impl::disown_ring,
};

} // namespace fiberrt
