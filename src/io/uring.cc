// SPDX-License-Identifier: MIT OR Apache-2.0
// The io_uring backend: one ring per cord, used by the cord's thread alone.
//
// Operations become submission entries when they are given, and reach the kernel together, at the next poll: when the
// run queue is empty, or when fair polling is due. If the submission queue is full they wait in a list of their own. A
// completion carries the Op's address; so does that of a request to cancel it, with a bit set.
//
// An operation counts as done when its own completion has come and, if its end was asked for, the answer to that too:
// until then the kernel may yet name the Op.
#include "core/hooks.h"
#include "io/backend.h"
#include "io/fifo.h"
#include "io/op.h"
#include "io/uring.h"

#include "base/check.h"
#include "base/linux_numbers.h"
#include "base/report.h"

#include <atomic>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

// An intrusive queue of operations.
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

namespace {

constexpr int64_t cancel_again_ns = 1'000'000;

constexpr unsigned submission_entries = 256;
constexpr unsigned completion_entries = 2048;

// How many operations may block threads of the kernel at a time, opens of FIFOs above all; by itself it allows four per
// processor, and the next would wait for those to end.
constexpr unsigned blocked_most = 1024;

struct Uring {
    io_uring ring;
    bool threads;            // whether the kernel may make threads for writes to devices
    bool few_threads;        // for files so few that opens of FIFOs could take all of them
    OpQueue refused;         // given, and it would need one, or the kernel has no such operation
    OpQueue without_entry;   // given, but the submission queue was full
    OpQueue to_be_cancelled; // the same for requests to cancel
    OpQueue to_be_cancelled_again;
    int64_t again_at_ns; // when these are asked for again

    // The doorbell: an operation that waits for somebody to ring. It stays with the kernel, whatever else ends a poll,
    // until it has fired; the next poll that sleeps gives it anew.
    bool doorbell_given;
    uint32_t* doorbell_word;
    uint32_t doorbell_parked; // what the word holds while the cord sleeps
    int doorbell_fd;          // -1: the operation waits on the word itself
    uint64_t rings;           // that it has read from the eventfd: since the last one,
    uint64_t rings_come;      // and in all

    int news_fd; // for a foreign loop: the kernel adds to it with each completion; -1: there is none
};

Uring& uring_of(void* state) { return *static_cast<Uring*>(state); }

int folder_of(const Op& op) { return int(int64_t(op.offset)); }
const char* path_of(const Op& op) { return static_cast<const char*>(op.address); }

void fill(io_uring_sqe* sqe, Op& op) {
    switch (op.code) {
    case OpCode::read: io_uring_prep_read(sqe, op.fd, op.address, op.length, op.offset); break;
    case OpCode::write: io_uring_prep_write(sqe, op.fd, op.address, op.length, op.offset); break;
    case OpCode::readv:
        io_uring_prep_readv(sqe, op.fd, static_cast<const iovec*>(op.address), op.length, op.offset);
        break;
    case OpCode::writev:
        io_uring_prep_writev(sqe, op.fd, static_cast<const iovec*>(op.address), op.length, op.offset);
        break;
    case OpCode::recv: io_uring_prep_recv(sqe, op.fd, op.address, op.length, int(op.flags)); break;
    case OpCode::send: io_uring_prep_send(sqe, op.fd, op.address, op.length, int(op.flags)); break;
    case OpCode::recvmsg: io_uring_prep_recvmsg(sqe, op.fd, static_cast<msghdr*>(op.address), op.flags); break;
    case OpCode::sendmsg: io_uring_prep_sendmsg(sqe, op.fd, static_cast<msghdr*>(op.address), op.flags); break;
    case OpCode::accept:
        io_uring_prep_accept(sqe, op.fd, static_cast<sockaddr*>(op.address), static_cast<socklen_t*>(op.address2),
                             int(op.flags));
        break;
    case OpCode::connect:
        io_uring_prep_connect(sqe, op.fd, static_cast<sockaddr*>(op.address), socklen_t(op.offset));
        break;
    case OpCode::open: io_uring_prep_openat(sqe, AT_FDCWD, path_of(op), int(op.flags), op.length); break;
    case OpCode::close: io_uring_prep_close(sqe, int(op.offset)); break;
    case OpCode::statx:
        io_uring_prep_statx(sqe, folder_of(op), path_of(op), int(op.flags), op.length,
                            static_cast<struct statx*>(op.address2));
        break;
    case OpCode::fsync: io_uring_prep_fsync(sqe, op.fd, op.flags); break;
    case OpCode::poll:
        // io_uring does not look at POLLPRI when a socket tells of news; with urgent data comes POLLRDBAND, too.
        io_uring_prep_poll_add(sqe, op.fd, op.flags & POLLPRI ? op.flags | POLLRDBAND : op.flags);
        break;
    case OpCode::open2:
        io_uring_prep_openat2(sqe, folder_of(op), path_of(op), static_cast<struct open_how*>(op.address2));
        sqe->len = op.length;
        break;
    case OpCode::rename:
        io_uring_prep_renameat(sqe, folder_of(op), path_of(op), int(op.length), static_cast<const char*>(op.address2),
                               op.flags);
        break;
    case OpCode::unlink: io_uring_prep_unlinkat(sqe, folder_of(op), path_of(op), int(op.flags)); break;
    case OpCode::mkdir: io_uring_prep_mkdirat(sqe, folder_of(op), path_of(op), op.length); break;
    case OpCode::splice: {
        const auto* out = static_cast<const OutEnd*>(op.address);
        io_uring_prep_splice(sqe, op.fd, int64_t(op.offset), out->fd, int64_t(out->offset), op.length,
                             op.flags | SPLICE_F_NONBLOCK);
        break;
    }
    case OpCode::getdents:
    case OpCode::copy_range:
    case OpCode::moment: break; // not given
    }
    if (op.may_block) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

bool submit_one(Uring& u, Op* op) {
    io_uring_sqe* sqe = io_uring_get_sqe(&u.ring);
    if (!sqe) return false;
    fill(sqe, *op);
    io_uring_sqe_set_data(sqe, op);
    return true;
}

// The completion of a request to cancel carries the Op's address too, and this bit.
constexpr uint64_t of_cancel = 1;

bool submit_cancel(Uring& u, Op* op) {
    io_uring_sqe* sqe = io_uring_get_sqe(&u.ring);
    if (!sqe) return false;
    io_uring_prep_cancel(sqe, op, 0);
    io_uring_sqe_set_data64(sqe, reinterpret_cast<uint64_t>(op) | of_cancel);
    op->being_cancelled = true;
    return true;
}

// What an enter may report without anything being lost: the entries stay queued, and the next poll tries again.
bool transient(int error) {
    return error >= 0 || error == -ETIME || error == -EINTR || error == -EBUSY || error == -EAGAIN || error == -ENOMEM;
}

// Of an enter's answer. What the kernel has been given it may go on with for ever, in memory that fibers wait to have
// back, so that there is no way out.
[[noreturn, gnu::cold, gnu::noinline]] void enter_refused(int error) {
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put("fiberrt: io_uring_enter was allowed when the thread's ring was made, and now fails with error ");
    r.number(unsigned(-error));
    r.put(": did a filter of system calls come later?\n");
    r.end();
    abort();
}

void check_entered(int error) {
    if (!transient(error)) [[unlikely]]
        enter_refused(error);
}

// The completion of the doorbell, and of a request to cancel it.
constexpr uint64_t of_doorbell = 2;
constexpr uint64_t of_doorbell_cancel = 4;

// The completion of an operation that was taken back.
constexpr uint64_t of_nothing = 8;

// False: the kernel is short of memory and took nothing, so that there is no room for it.
bool give_doorbell(Uring& u) {
    if (u.doorbell_given) return true;
    io_uring_sqe* sqe = io_uring_get_sqe(&u.ring);
    if (!sqe) {
        check_entered(io_uring_submit(&u.ring));
        sqe = io_uring_get_sqe(&u.ring);
        if (!sqe) return false;
    }
    if (u.doorbell_fd >= 0) {
        io_uring_prep_read(sqe, u.doorbell_fd, &u.rings, sizeof u.rings, 0);
    } else {
        io_uring_prep_rw(ioring_op_futex_wait, sqe, int(futex2_size_u32), u.doorbell_word, 0, u.doorbell_parked);
        sqe->addr3 = futex_any;
    }
    io_uring_sqe_set_data64(sqe, of_doorbell);
    u.doorbell_given = true;
    return true;
}

// Fills the submission queue from the lists, in order of arrival.
void refill(Uring& u) {
    while (Op* op = u.without_entry.first) {
        if (!submit_one(u, op)) return;
        u.without_entry.remove(op);
        op->waiting_for_room = false;
    }
    if (u.to_be_cancelled_again.first && clock_now() >= u.again_at_ns) {
        while (Op* op = u.to_be_cancelled_again.first) {
            u.to_be_cancelled_again.remove(op);
            u.to_be_cancelled.push(op);
        }
    }
    while (Op* op = u.to_be_cancelled.first) {
        if (!submit_cancel(u, op)) return;
        u.to_be_cancelled.remove(op);
    }
}

// Both the operation and what was asked about it are answered: nobody knows of the Op any more.
void finish(Op* op) {
    if (op->queue) op->queue->remove(op);
    op_done(op, op->kernel_result);
}

// Answers what the kernel would not do, as it does.
bool refuse(Uring& u) {
    if (!u.refused.first) return false;
    while (Op* op = u.refused.first) {
        op->waiting_for_room = false;
        finish(op);
    }
    return true;
}

void cancel_answered(Uring& u, Op* op, int32_t result) {
    op->being_cancelled = false;
    if (op->finished) {
        finish(op);
    } else if (result != 0) {
        // Not found, or running on a worker thread: both can be true of an operation that is between two states and
        // will wait on. So ask again until it has ended; rarely needed.
        if (!u.to_be_cancelled_again.first) u.again_at_ns = clock_now() + cancel_again_ns;
        u.to_be_cancelled_again.push(op);
    }
}

bool reap(Uring& u) {
    bool some = false;
    io_uring_cqe* cqe;
    // One at a time: what is done may give new operations.
    while (io_uring_peek_cqe(&u.ring, &cqe) == 0) {
        uint64_t data = io_uring_cqe_get_data64(cqe);
        auto* op = reinterpret_cast<Op*>(data & ~of_cancel);
        int32_t result = cqe->res;
        io_uring_cqe_seen(&u.ring, cqe);
        some = true;
        if (data == of_doorbell) {
            u.doorbell_given = false;
            if (u.doorbell_fd >= 0 && result == sizeof u.rings) u.rings_come += u.rings;
        } else if (data == of_doorbell_cancel) {
            // What counts is that the doorbell's own completion comes.
        } else if (data == of_nothing) {
            // Its waiter has been told already.
        } else if (data & of_cancel) {
            cancel_answered(u, op, result);
        } else {
            op->kernel_result = result;
            op->finished = true;
            if (!op->being_cancelled) finish(op);
        }
    }
    return some;
}

// The kernel is short of memory and took nothing: to ask again at once would only burn the processor.
void pause_for_memory() {
    timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
}

// What the kernel's rings do, found out once; relaxed: threads that all find out agree.
enum : int { unknown, works, does_not };
std::atomic<int> futex_op{unknown};
std::atomic<uint32_t> unknown_ops{0}; // a bit for each OpCode

constexpr struct {
    OpCode code;
    int in_kernel;
} ops_in_kernel[] = {
#define FIBERRT_OP(code, name, ring, on) {OpCode::code, IORING_OP_##ring},
    FIBERRT_RING_OPS(FIBERRT_OP)
#undef FIBERRT_OP
};

void probe(io_uring& ring) {
    if (futex_op.load(std::memory_order_relaxed) != unknown) return;
    io_uring_probe* probe = io_uring_get_probe_ring(&ring);
    if (!probe) return; // no memory, this time; what it has not is then seen by its answers
    uint32_t missing = 0;
    for (const auto& op : ops_in_kernel) {
        if (!io_uring_opcode_supported(probe, op.in_kernel)) missing |= 1u << unsigned(op.code);
    }
    unknown_ops.store(missing, std::memory_order_relaxed);
    futex_op.store(io_uring_opcode_supported(probe, ioring_op_futex_wait) ? works : does_not,
                   std::memory_order_relaxed);
    io_uring_free_probe(probe);
}

bool futex_op_works() { return uring_may_use_futex_op && futex_op.load(std::memory_order_relaxed) == works; }

// Makes a ring with the best flags that the kernel takes: best first; what it does not know it answers with EINVAL.
int make_ring(io_uring& ring, UringOffer& offer) {
    static constexpr unsigned flags_by_preference[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_SUBMIT_ALL,
        0,
    };
    int error = -EINVAL;
    for (unsigned flags : flags_by_preference) {
        io_uring_params params = {};
        params.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
        params.cq_entries = completion_entries;
        offer.flags = flags;
        error = io_uring_queue_init_params(submission_entries, &ring, &params);
        if (error != -EINVAL) break;
    }
    if (error == -EINVAL) return -ENOSYS; // older than Linux 5.6: not even CQSIZE and CLAMP
    if (error) return error;
    // A filter of system calls may allow a ring to be made and not to be entered.
    if (int entered = io_uring_submit_and_get_events(&ring); !transient(entered)) {
        io_uring_queue_exit(&ring);
        return entered;
    }
    offer.best_flags = offer.flags == flags_by_preference[0];
    offer.ext_arg = ring.features & IORING_FEAT_EXT_ARG;
    offer.nodrop = ring.features & IORING_FEAT_NODROP;
    return 0;
}

// How many threads of the kernel may block for a ring. Zero leaves the number as it is, and tells what it is: the first
// is of files, the second of everything else. RLIMIT_NPROC can make that zero too; then the kernel queues what it is to
// do there, and nobody ever does it.
bool threads_to_be_had(io_uring& ring, bool* few_for_files) {
    unsigned asked[] = {blocked_most, 0};
    unsigned most_workers[] = {0, 0}; // it may allow fewer than were asked for, and say nothing of it
    bool answers = io_uring_register_iowq_max_workers(&ring, asked) == 0 &&
                   io_uring_register_iowq_max_workers(&ring, most_workers) == 0;
    *few_for_files = !answers || most_workers[0] < blocked_most;
    return !answers || most_workers[1] > 0;
}

// A ring may get the addresses of one that another thread has closed; the kernel sees to it that they do not meet
// there.
const char ring_memory = 0;

int uring_open(void** state, uint32_t* word, uint32_t parked, int* doorbell_fd) {
    auto* u = static_cast<Uring*>(calloc(1, sizeof(Uring)));
    if (!u) return -ENOMEM;
    UringOffer offer;
    int error = make_ring(u->ring, offer);
    if (error == 0 && !(offer.ext_arg && offer.nodrop)) {
        io_uring_queue_exit(&u->ring);
        error = -ENOSYS;
    }
    if (error == 0) {
        u->news_fd = -1;
        u->doorbell_word = word;
        u->doorbell_parked = parked;
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
        hooks::taken(&ring_memory);
        u->threads = threads_to_be_had(u->ring, &u->few_threads);
        io_uring_ring_dontfork(&u->ring);    // whose memory the child of a fork would share
        io_uring_register_ring_fd(&u->ring); // saves a look-up per enter; a kernel that cannot does without
        *state = u;
        return 0;
    }
    free(u);
    return error;
}

void uring_close(void* state, uint64_t rings_owed) {
    Uring& u = uring_of(state);
    while (u.doorbell_fd >= 0 && u.rings_come < rings_owed) {
        // Whoever owes one would otherwise ring at a descriptor that has become somebody else's.
        if (!give_doorbell(u)) {
            reap(u);
            pause_for_memory();
            continue;
        }
        int error = io_uring_submit_and_wait(&u.ring, 1);
        check_entered(error);
        if (!reap(u) && error < 0) pause_for_memory();
    }
    // The cord's record will be another cord's, and a ring is torn down some time after it was closed: until then the
    // doorbell would take the wakes that are meant for that cord.
    while (u.doorbell_given) {
        if (io_uring_sqe* sqe = io_uring_get_sqe(&u.ring)) {
            io_uring_prep_cancel64(sqe, of_doorbell, 0);
            io_uring_sqe_set_data64(sqe, of_doorbell_cancel);
        }
        int error = io_uring_submit_and_wait(&u.ring, 1);
        check_entered(error);
        if (!reap(u) && error < 0) pause_for_memory();
    }
    hooks::given(&ring_memory);
    io_uring_queue_exit(&u.ring);
    if (u.doorbell_fd >= 0) close(u.doorbell_fd);
    if (u.news_fd >= 0) close(u.news_fd);
    free(state);
}

// Not by io_uring_queue_exit, which tells the ring. Its memory is not there.
void uring_disown(void* state, bool own) {
    Uring& u = uring_of(state);
    close(u.ring.ring_fd);
    if (u.doorbell_fd >= 0) close(u.doorbell_fd);
    if (u.news_fd >= 0) close(u.news_fd);
    if (own) free(state);
}

void uring_give(void* state, Op* op) {
    Uring& u = uring_of(state);
    io_begins();
    op->finished = false;
    bool unknown = (unknown_ops.load(std::memory_order_relaxed) | uring_refused_ops) >> unsigned(op->code) & 1;
    bool opens = op->code == OpCode::open || op->code == OpCode::open2;
    unknown |= u.few_threads && waits_if_fifo(*op); // it is done elsewhere, as what the kernel does not know
    if (unknown || (op->may_block && !opens && !u.threads)) {
        op->kernel_result = unknown ? -EINVAL : -ECANCELED; // the latter is what it says when it can make no thread
        op->waiting_for_room = true;
        u.refused.push(op);
    } else if (u.without_entry.first || !submit_one(u, op)) {
        op->waiting_for_room = true;
        u.without_entry.push(op);
    }
}

// Takes back the entry of an operation that the kernel has not been given yet. (Else the kernel would
// try it after later actions of the fibers.) False: the kernel has it.
bool take_back(Uring& u, const Op* op) {
    unsigned waiting = io_uring_sq_ready(&u.ring);
    for (unsigned i = 1; i <= waiting; i++) {
        io_uring_sqe* sqe = &u.ring.sq.sqes[(u.ring.sq.sqe_tail - i) & u.ring.sq.ring_mask];
        if (sqe->user_data != reinterpret_cast<uint64_t>(op)) continue;
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data64(sqe, of_nothing);
        return true;
    }
    return false;
}

void uring_cancel(void* state, Op* op) {
    Uring& u = uring_of(state);
    bool connects = op->code == OpCode::connect;
    if (connects && op->waiting_for_room) op->seen = 0; // to try it would be to begin it
    if (op->waiting_for_room || (!op->seen && !connects && take_back(u, op))) {
        op->waiting_for_room = false;
        op->kernel_result = -ECANCELED;
        finish(op);
    } else if (u.to_be_cancelled.first || !submit_cancel(u, op)) {
        u.to_be_cancelled.push(op);
    }
}

// Whether the kernel has something to do, or to report, for which the thread must enter it.
bool kernel_has_work(Uring& u) {
    return IO_URING_READ_ONCE(*u.ring.sq.kflags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

// Hands in what fits and lets the kernel finish what it can at once. Enters it only if it must: not 0, or less than
// that if the kernel took nothing.
int enter_if_due(Uring& u) {
    refill(u);
    bool work = kernel_has_work(u);
    if (!work && !io_uring_sq_ready(&u.ring)) return 0;
    int error = work ? io_uring_submit_and_get_events(&u.ring) : io_uring_submit(&u.ring);
    check_entered(error);
    return error ? error : work;
}

bool uring_poll(void* state, int64_t deadline, bool parked) {
    Uring& u = uring_of(state);
    if (refuse(u)) deadline = poll_only;
    if (deadline == poll_only) {
        int entered = enter_if_due(u);
        bool some = reap(u);
        return some || entered;
    }
    refill(u);
    // More work than one submission holds: hand it in before sleeping.
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
    if (parked && !give_doorbell(u)) { // to sleep without it would be to sleep through messages
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

// Not the ring's own descriptor: with DEFER_TASKRUN nobody who waits for that is woken by a completion, as there is
// none before the thread enters the kernel.
int uring_fd(void* state) {
    Uring& u = uring_of(state);
    if (u.news_fd >= 0) return u.news_fd;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return -errno;
    int error = io_uring_register_eventfd(&u.ring, fd);
    if (error) {
        close(fd);
        return error;
    }
    return u.news_fd = fd;
}

int64_t uring_leave(void* state) {
    Uring& u = uring_of(state);
    refuse(u);
    bool some;
    do {
        // First the news are taken as read, then looked at: what comes later is news again.
        uint64_t count;
        if (read(u.news_fd, &count, sizeof count) < 0) FIBERRT_CHECK(errno == EAGAIN);
        bool short_of_memory = !give_doorbell(u);
        if (enter_if_due(u) < 0) short_of_memory = true;
        some = reap(u);
        if (short_of_memory) return clock_now() + 1'000'000; // the kernel has not taken all
        if (!u.doorbell_given) return 0;                     // somebody has rung
    } while (some || u.without_entry.first || u.to_be_cancelled.first);
    // It does a few dozen things at each entry, may have reported none of them, and what is left is no news any more.
    if (kernel_has_work(u)) return 0;
    return u.to_be_cancelled_again.first ? u.again_at_ns : never;
}

} // namespace

int uring_probe(UringOffer* out) {
    io_uring ring;
    int error = make_ring(ring, *out);
    if (error) return error;
    probe(ring);
    out->futex_op = futex_op_works();
    bool few;
    out->threads = threads_to_be_had(ring, &few);
    io_uring_queue_exit(&ring);
    return 0;
}

const Backend uring_backend = {
    .name = "uring",
    .open = uring_open,
    .close = uring_close,
    .give = uring_give,
    .cancel = uring_cancel,
    .poll = uring_poll,
    .fd = uring_fd,
    .leave = uring_leave,
    .disown = uring_disown,
};

} // namespace fiberrt
