// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's I/O: operations between the fibers that wait for them and the backend that performs them.
#include "io/io.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/readable.h"
#include "core/cancel.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/relay.h"
#include "io/attempt.h"
#include "io/choice.h"
#include "io/closing.h"
#include "io/fifo.h"
#include "io/offload.h"
#include "io/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <new>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

bool uring_may_use_futex_op = true; // here, so that the tests find them where there is no io_uring too
uint32_t uring_refused_ops = 0;

namespace {

Io& io_of(Cord& cord) { return *static_cast<Io*>(cord.io); }

// Of two reasons to end an operation early, which one its waiter is told.
int rank(int reason) {
    switch (reason) {
    case -EBADF: return 4; // its descriptor is being closed
    case -ECANCELED: return 3;
    case -EINTR: return 2;
    case -ETIMEDOUT:
    case -EDEADLK: return 1; // no deadline and no other thread: there is no timeout that could come too
    default: return 0;
    }
}

} // namespace

namespace {

// The events that end the wait of an operation; 0: it does not wait for its descriptor to be ready.
int events_awaited(const Op& op) {
    switch (op.code) {
    case OpCode::recv:
    case OpCode::recvmsg: return op.flags & MSG_OOB ? POLLPRI : POLLIN;
    case OpCode::read:
    case OpCode::readv:
    case OpCode::splice:
    case OpCode::copy_range:
    case OpCode::accept: return POLLIN;
    case OpCode::write:
    case OpCode::writev:
    case OpCode::send:
    case OpCode::sendmsg:
    case OpCode::connect: return POLLOUT;
    case OpCode::poll: return int(op.flags);
    default: return 0;
    }
}

// The events of these that there are now; 0: none.
int look(const Op& op) {
    int events = events_awaited(op);
    int now = events ? events_now(op.fd, events) : 0;
    bool into = op.code == OpCode::splice || op.code == OpCode::copy_range;
    if (now && into) now = events_now(static_cast<const OutEnd*>(op.address)->fd, POLLOUT);
    return now & POLLNVAL ? 0 : now;
}

// What a try has brought of an operation whose wait has ended early; -EAGAIN: it would still wait.
int64_t last_try(const Op& op) {
    int64_t result = attempt(op);
    bool looks =
        op.code == OpCode::read || op.code == OpCode::readv || op.code == OpCode::splice; // before they transfer
    if (result == op_blocking && op.may_block && looks) result = plain_call(op);          // of a device or a disk
    if (result == op_blocking) return -EAGAIN;
    if (result == -EAGAIN) return result_if_shut_down(op);
    if (op.code != OpCode::connect) return result;
    return result == -EISCONN ? 0 : result == -EINPROGRESS || result == -EALREADY ? -EAGAIN : result;
}

// A read of a terminal or another device that a ring has been given. Threads of other rings may take the bytes between a
// look at them and a plain call, which would then keep the cord's thread waiting.
bool is_blocking_read(const Op& op) { return op.may_block && (op.code == OpCode::read || op.code == OpCode::readv); }

// The result of an operation that was stopped. What its descriptor was ready for at that moment counts as done.
int64_t result_of_stopped(const Op& op) {
    if (!op.seen || is_blocking_read(op) || io_of(*this_cord).ending) return op.stop_reason;
    if (op.code == OpCode::poll) return op.seen;
    int64_t result = last_try(op);
    return result == -EAGAIN ? op.stop_reason : result;
}

} // namespace

bool has_negative_length(const Op& accept) {
    const void* length = accept.address2; // which may be no memory at all: a ring that refuses accepts has not looked
    return length && check_readable(length, sizeof(socklen_t)) == 0 && int(*static_cast<const socklen_t*>(length)) < 0;
}

// The kernel may still be writing into the waiter's memory: the wait goes on until the backend reports the end. Until
// then nothing is tried, as the kernel may yet do the same.
void stop_op(Wait* wait, int reason) {
    auto* op = static_cast<Op*>(wait);
    bool first = op->stop_reason == 0;
    if (rank(reason) > rank(op->stop_reason)) op->stop_reason = reason;
    if (!first) return;
    op->seen = look(*op);
    CordIo& io = *this_cord->io;
    io.backend->cancel(io.state, op);
}

namespace {

// operator new would make the library need the C++ runtime's.
template <class T>
T* make() {
    void* memory = malloc(sizeof(T));
    return memory ? new (memory) T : nullptr;
}

} // namespace

void mark_filled(const Op& op, int64_t result) {
    if (result < 0) return;
    auto spread = [](const iovec* iov, size_t count, int64_t bytes) {
        for (size_t i = 0; i < count && bytes > 0; i++) {
            int64_t here = int64_t(iov[i].iov_len) < bytes ? int64_t(iov[i].iov_len) : bytes;
            hooks::memory_filled(iov[i].iov_base, size_t(here));
            bytes -= here;
        }
    };
    switch (op.code) {
    case OpCode::read:
    case OpCode::recv: // with MSG_TRUNC it tells of more than it has written
        hooks::memory_filled(op.address, result < op.length ? size_t(result) : op.length);
        break;
    case OpCode::readv: spread(static_cast<const iovec*>(op.address), op.length, result); break;
    case OpCode::recvmsg: {
        auto* message = static_cast<msghdr*>(op.address);
        hooks::memory_filled(message, sizeof *message);
        spread(message->msg_iov, message->msg_iovlen, result);
        hooks::memory_filled(message->msg_name, message->msg_namelen);
        hooks::memory_filled(message->msg_control, message->msg_controllen);
        break;
    }
    case OpCode::accept:
        if (!op.address2) break;
        hooks::memory_filled(op.address2, sizeof(socklen_t));
        hooks::memory_filled(op.address, *static_cast<socklen_t*>(op.address2));
        break;
    case OpCode::statx: hooks::memory_filled(op.address2, sizeof(struct statx)); break;
    default: break;
    }
}

void op_done(Op* op, int32_t result) {
    io_ends();
    this_cord->io->in_flight--;
    // The kernel's own words for "a signal came", ERESTARTSYS and its kin, which some operations let through.
    if (result <= -512 && result >= -516 && result != -515) result = -EINTR;
    // An operation that was asked to end early may have completed all the same; then its result stands. Unasked, the
    // two words for an early end are the kernel's own affair: to the caller they would speak of itself. It cancels by
    // itself what it has no thread for.
    if (op->stop_reason && (result == -ECANCELED || result == -EINTR)) {
        wake(op, result_of_stopped(*op));
        return;
    }
    if (result == -ECANCELED) {
        result = op_no_thread;
    } else if (result == -EINTR) {
        result = op_again;
    }
    wake(op, result);
}

namespace {

// As stop_op, but an interrupt stays pending: the call has its reason to end already.
void stop_unless_interrupted(Wait* wait, int reason) {
    if (reason != -EINTR) stop_op(wait, reason);
}

int64_t done_at_once(Cord& cord, int64_t result) {
    turn_taken(cord);
    return result;
}

// An operation on its way to the pool and back, in memory of its fiber's, which waits until the message has come home.
struct OpJob : OffloadJob, Message {
    Op* op;
    Cord* home;
    int64_t result = 0;

    OpJob(Cord& home, Op& op) : op(&op), home(&home) {}
};

void perform(OffloadJob& job) {
    auto& op_job = static_cast<OpJob&>(job);
    op_job.result = plain_call(*op_job.op);
}

void send_home(OffloadJob& job) {
    auto& op_job = static_cast<OpJob&>(job);
    send(*op_job.home, &op_job); // which takes it: a cord does not end while an operation of its is under way
}

void come_back(Cord&, Message* message) {
    auto* job = static_cast<OpJob*>(message);
    job->op->job = nullptr;
    op_done(job->op, int32_t(job->result));
}

// As stop_op, of an operation that the pool has.
void stop_elsewhere(Wait* wait, int reason) {
    auto* op = static_cast<Op*>(wait);
    bool first = op->stop_reason == 0;
    if (rank(reason) > rank(op->stop_reason)) op->stop_reason = reason;
    op->seen = 0;
    if (!first || !offload_cancel(*op->job)) return;
    op->job = nullptr;
    op_done(op, -ECANCELED);
}

// Valgrind runs one thread at a time, and takes the enter of a ring for a call that does not wait: while the cord's
// thread waits in its ring, no thread of the pool runs.
bool waits_stop_the_pool(const Cord& cord) { return hooks::on_valgrind() && cord.io && !cord.io->backend->attempt; }

// Hands an operation to the pool; its waiter is to park then. False: there is no thread for it.
bool begin_elsewhere(Cord& cord, Op& op, OpJob& job) {
    job.run = perform;
    job.done = send_home;
    job.receive = come_back;
    op.job = &job;
    op.Wait::stop = stop_elsewhere;
    op.stop_reason = 0;
    if (!offload(job)) return false;
    cord.io->in_flight++;
    return true;
}

} // namespace

DescriptorUse::DescriptorUse(Cord& cord, int fd) : cord_(cord) {
    if (cord.current->attention) return; // run() will say so; until then nothing is opened
    if (!cord.io) error_ = Io::open(cord);
    if (error_) return;
    Io& io = io_of(cord);
    if (fd == none) {
        descriptor_ = &io.unbound;
    } else {
        error_ = io.descriptor(fd, &descriptor_);
        if (error_) return;
        uses_of(cord, fd).fetch_add(1, std::memory_order_seq_cst);
        fd_ = fd;
        if (being_closed(fd)) {
            error_ = -EBADF;
            return;
        }
    }
    descriptor_->uses.push_back(this);
}

DescriptorUse::DescriptorUse(DescriptorUse& first, int fd) : DescriptorUse(first.cord_, fd) {
    other_ = &first;
    first.other_ = this;
}

DescriptorUse::~DescriptorUse() {
    if (other_) other_->other_ = nullptr;
    if (fd_ != none) {
        std::atomic<uint32_t>& uses = uses_of(cord_, fd_); // that nobody else writes
        uses.store(uses.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    }
    if (!linked()) return;
    unlink();
    if (!descriptor_->uses.empty()) return;
    if (descriptor_->closer) wake(descriptor_->closer, 0);
    if (CloseRequest* request = descriptor_->request) {
        descriptor_->request = nullptr;
        uses_ended(request);
    }
}

int64_t DescriptorUse::run(Op& op, bool told_ready, int64_t until) {
    for (;;) {
        bool by_calls = by_attempts();
        if (!told_ready || !by_calls) {
            if (int error = check()) return told_ready ? look_once_more(op, error) : error;
        }
        CordIo& io = *cord_.io;
        io.given++;
        if ((by_calls && op.code != OpCode::poll) || !(rings_have(op.code) || simulated)) return run_by_calls(op);
        if (by_calls && !op.hint) {
            int64_t result = io.backend->attempt(op);
            if (result != -EAGAIN) return done_at_once(cord_, result);
        }
        io.in_flight++;
        op.Wait::stop = stop_op;
        op.stop_reason = 0;
        op.on_deadline = -ETIMEDOUT;
        io.backend->give(io.state, &op);
        int64_t result = wait(op, until);
        if (by_calls && op.finished) io.told--;
        if (result == op_again) continue;
        if (op.stop_reason && result == op.stop_reason) {
            if (op.seen && is_blocking_read(op)) return give_once_more(op, result);
            if (told_ready) return look_once_more(op, result); // the backend had not begun it, so it was not tried
        }
        if (result == op_no_thread) result = run_here(op);
        if (!by_calls && !simulated && may_be_refusal(op, result)) result = run_by_calls(op);
        mark_filled(op, result);
        return result;
    }
}

int64_t DescriptorUse::give_once_more(Op& op, int64_t error) {
    constexpr int64_t enough_ns = 100'000'000;
    CordIo& io = *cord_.io;
    io.in_flight++;
    op.stop_reason = 0;
    op.Wait::stop = stop_unless_interrupted;
    io.backend->give(io.state, &op);
    int64_t result = wait(op, deadline_after(cord_, enough_ns));
    if (result == op_no_thread || may_be_refusal(result)) return look_once_more(op, error);
    if (result < 0) return error;
    not_ended_by(int(error));
    mark_filled(op, result);
    return result;
}

int64_t DescriptorUse::run_by_calls(Op& op) {
    int64_t result = attempt(op);
    if (result == op_blocking) {
        attempted_ = true;
        OpJob job(cord_, op);
        if (waits_stop_the_pool(cord_) || !begin_elsewhere(cord_, op, job)) return run_here(op);
        result = wait(op);
        bool untried = op.stop_reason && result == op.stop_reason; // it was taken back from the pool
        bool looks = op.code == OpCode::splice || (is_blocking_read(op) && isatty(op.fd));
        return untried && looks ? look_once_more(op, result) : result;
    }
    if (result < 0 || op.code != OpCode::accept) return note_attempt(op, result);
    CordIo& io = *cord_.io;
    if (io.backend->closing) io.backend->closing(io.state, int(result)); // whatever had the number before
    op.result = result; // for close_unclaimed(), should its fiber not go on after the turn of others
    wait_ = &op;
    note_attempt(op, result);
    wait_ = nullptr;
    return result;
}

int64_t DescriptorUse::run_by_calls_alone(Op& op, bool told_ready) {
    if (int error = check()) return told_ready ? look_once_more(op, error) : error;
    cord_.io->given++;
    return run_by_calls(op);
}

int64_t DescriptorUse::look_once_more(const Op& op, int64_t error) {
    int64_t result = last_try(op);
    if (result == -EAGAIN) return error;
    CordIo& io = *cord_.io;
    if (result >= 0 && op.code == OpCode::accept && io.backend->closing) io.backend->closing(io.state, int(result));
    not_ended_by(int(error));
    note_result(op, result);
    return result;
}

int64_t DescriptorUse::check_before_wait(const Op& op) {
    int error = check();
    return error ? look_once_more(op, error) : -EAGAIN;
}

int64_t DescriptorUse::attempt_or_run(Op& op, bool told_ready) {
    if (simulated || by_attempts()) return run(op, told_ready);
    int error = told_ready ? 0 : check();
    if (error) return error;
    int64_t result = attempt(op);
    return result == op_blocking ? run(op, told_ready) : has_attempted(op, result);
}

int64_t DescriptorUse::has_attempted(const Op& op, int64_t result) {
    cord_.io->given++;
    return note_attempt(op, result);
}

void DescriptorUse::note_result(const Op& op, int64_t result) {
    attempted_ = true;
    if (op.code == OpCode::read || op.code == OpCode::recv) descriptor_->drained = result > 0 && result < op.length;
}

int64_t DescriptorUse::note_attempt(const Op& op, int64_t result) {
    note_result(op, result);
    return done_at_once(cord_, result);
}

bool DescriptorUse::wait_first(const Op& op) const {
    if (op.code != OpCode::read && op.code != OpCode::recv) return false;
    bool waits = op.length && !(op.code == OpCode::recv && op.flags & MSG_OOB); // others are not what was drained
    return waits && descriptor_ && descriptor_->drained;
}

bool DescriptorUse::by_attempts() const { return cord_.io && cord_.io->backend->attempt; }

int64_t DescriptorUse::wait_to_try_again(int fd, int events, int64_t most_ns) {
    if (int error = check()) return error;
    CordIo& io = *cord_.io;
    Op ready(OpCode::poll, fd);
    ready.flags = unsigned(events);
    ready.hint = true;
    ready.on_deadline = -ETIMEDOUT;
    ready.Wait::stop = stop_op;
    io.given++;
    io.in_flight++;
    io.backend->give(io.state, &ready);
    int64_t result = wait(ready, deadline_after(cord_, most_ns));
    if (by_attempts() && ready.finished) io.told--;
    if (result == -ETIMEDOUT || result == op_again) {
        int error = check(); // else it was the time given here
        return error ? error : events;
    }
    // A ring that refuses even this: time alone.
    if (result != op_no_thread && !may_be_refusal(result)) return result;
    int error = pause(most_ns);
    return error ? error : events;
}

int64_t DescriptorUse::wait_until_ready(int fd, int events, bool hint, int64_t until) {
    Op ready(OpCode::poll, fd);
    ready.flags = unsigned(events);
    ready.hint = hint;
    int64_t result = run(ready, false, until);
    // A ring that refuses even this: looks again and again.
    for (int64_t pause_ns = 1'000'000; result == -EAGAIN; result = run_by_calls(ready)) {
        if (deadline_in(0) >= until) return -ETIMEDOUT;
        if (int error = pause(pause_ns)) return look_once_more(ready, error);
    }
    return result;
}

int DescriptorUse::events_that_hold(int fd, int events, int told) const {
    if (by_attempts() || simulated) return told;
    int now = events_now(fd, events);
    return now & POLLNVAL ? told : now & (events | POLLERR | POLLHUP);
}

int64_t DescriptorUse::deadline_in(int64_t duration_ns) const { return deadline_after(cord_, duration_ns); }

int DescriptorUse::pause(int64_t duration_ns) {
    if (int error = check()) return error;
    Wait time;
    time.what = WaitFor::time;
    time.stop = stop_at_once;
    int error = int(wait(time, deadline_after(cord_, duration_ns)));
    return error ? error : check(); // a cancel or the like may have come at the same moment
}

int64_t DescriptorUse::run_here(const Op& op) {
    bool writes = op.code == OpCode::write || op.code == OpCode::writev;
    if (op.may_block && writes) { // a terminal: at least not while it takes nothing
        int64_t answer = wait_until_ready(op.fd, POLLOUT, false);
        if (answer < 0) return answer;
    }
    io_begins();
    int64_t result = plain_call(op);
    io_ends();
    return result;
}

void DescriptorUse::not_ended_by(int error) {
    if (error == -EINTR) interrupt_given_back(cord_, cord_.current);
}

int DescriptorUse::check() {
    Fiber* me = cord_.current;
    if (me->attention && !insists_) return attend(cord_, me);
    return error_ || !other_ ? error_ : other_->error_;
}

void DescriptorUse::stop(int reason) {
    Wait* wait = wait_ || !other_ ? wait_ : other_->wait_;
    if (wait && wait->fiber) wait->stop(wait, reason); // not if it is done, and its fiber has not run since
}

void DescriptorUse::close_unclaimed() {
    bool done = wait_ && wait_->what == WaitFor::op && !wait_->fiber;
    if (!done || wait_->result < 0) return;
    OpCode code = static_cast<Op*>(wait_)->code;
    if (code == OpCode::open || code == OpCode::open2 || code == OpCode::accept) ::close(int(wait_->result));
}

int64_t DescriptorUse::wait(Wait& wait, int64_t deadline) {
    wait_ = &wait;
    int64_t result = park(cord_, wait, deadline);
    wait_ = nullptr;
    return result;
}

PositionTurn::PositionTurn(DescriptorUse& use, int fd, const struct stat& file)
    : use_(use), fd_(fd), device_(file.st_dev), inode_(file.st_ino) {}

PositionTurn::~PositionTurn() {
    if (!linked()) return;
    unlink();
    PositionTurn* next = first();
    if (next && next->fiber) wake(next, 0);
}

int PositionTurn::take() {
    if (int error = use_.check()) return error;
    Io& io = io_of(use_.cord_);
    list_ = &io.turns[inode_ % (sizeof io.turns / sizeof *io.turns)];
    list_->push_back(this);
    if (first() == this) return 0;
    Wait::stop = stop_at_once;
    what = WaitFor::position;
    return int(use_.wait(*this));
}

PositionTurn* PositionTurn::first() {
    PositionTurn* turn = list_->front();
    while (turn && !same_position(*turn)) turn = list_->after(turn);
    return turn;
}

// A file that was opened twice has two positions, a descriptor and its copy have one. If the kernel does not tell which
// it is, they count as one.
bool PositionTurn::same_position(const PositionTurn& other) const {
    if (fd_ == other.fd_) return true;
    if (inode_ != other.inode_ || device_ != other.device_) return false;
    KeepErrno keep;
    pid_t pid = getpid();
    return syscall(SYS_kcmp, pid, pid, KCMP_FILE, fd_, other.fd_) <= 0;
}

OwnDescriptor::~OwnDescriptor() {
    if (linked()) unlink();
    close();
}

void OwnDescriptor::keep(Cord& cord, int fd) {
    fd_ = fd;
    io_of(cord).own.push_back(this);
}

void OwnDescriptor::close() {
    if (fd_ < 0) return;
    KeepErrno keep;
    CordIo& io = *this_cord->io;
    if (io.backend && io.backend->closing) io.backend->closing(io.state, fd_);
    ::close(fd_);
    fd_ = -1;
}

int OwnDescriptor::release() {
    int fd = fd_;
    fd_ = -1;
    if (linked()) unlink();
    return fd;
}

OwnMemory::~OwnMemory() {
    if (linked()) unlink();
    give_back();
}

void OwnMemory::keep(Cord& cord, void* memory, Free free) {
    memory_ = memory;
    free_ = free;
    io_of(cord).own_memory.push_back(this);
}

void OwnMemory::give_back() {
    if (!memory_) return;
    KeepErrno keep;
    free_(memory_);
    memory_ = nullptr;
}

namespace {

template <class Visit>
void each_use(Io& io, Visit visit) {
    auto each_of = [&](Descriptor& descriptor) {
        for (DescriptorUse* use = descriptor.uses.front(); use; use = descriptor.uses.after(use)) visit(*use);
    };
    each_of(io.unbound);
    for (int fd = 0; fd < io.descriptor_count; fd++) {
        if (io.descriptors[fd]) each_of(*io.descriptors[fd]);
    }
}

void close_own(Io& io) {
    for (OwnDescriptor* own = io.own.front(); own; own = io.own.after(own)) own->close();
    for (OwnMemory* own = io.own_memory.front(); own; own = io.own_memory.after(own)) own->give_back();
}

} // namespace

namespace {

constinit pthread_mutex_t backends_mutex = PTHREAD_MUTEX_INITIALIZER;

} // namespace

void backends_hold() { pthread_mutex_lock(&backends_mutex); }
void backends_let_go() { pthread_mutex_unlock(&backends_mutex); }

int Io::open(Cord& cord) {
    KeepErrno keep;
    auto* io = make<Io>();
    if (!io) return -ENOMEM;
    MutexHeld held(backends_mutex);
    int doorbell_fd;
    int error = backend_open(&io->backend, &io->state, cord.inbox.futex(), Inbox::parked_on_word, &doorbell_fd);
    if (error) {
        free(io);
        return error;
    }
    cord.doorbell_fd = doorbell_fd;
    io->end = close;
    io->disown = drop;
    cord.io = io;
    return 0;
}

void Io::close(Cord& cord) {
    Io& io = io_of(cord);
    io.ending = true;
    each_use(io, [](DescriptorUse& use) { use.stop(-ECANCELED); });
    for (FifoOpen* open = io.fifos.front(); open; open = io.fifos.after(open)) open->close_all();
    while (io.in_flight) sleep(cord, never); // what the pool has comes back as messages
    each_use(io, [](DescriptorUse& use) { use.close_unclaimed(); });
    close_own(io); // that no operation works on any more
    {
        MutexHeld held(backends_mutex);
        io.backend->close(io.state, cord.rings_owed);
        io.backend = nullptr;
        cord.io = nullptr; // no fork finds what is freed below
    }
    cord.doorbell_fd = -1;
    for (int fd = 0; fd < io.descriptor_count; fd++) {
        Descriptor* descriptor = io.descriptors[fd];
        if (descriptor && descriptor->request) uses_ended(descriptor->request);
        free(descriptor);
    }
    for (auto& uses : cord.descriptor_uses) uses.store(0, std::memory_order_release);
    free(io.descriptors);
    free(&io);
}

// Of another thread's only that much is whole as is changed under the lock.
void Io::drop(Cord& cord, bool own) {
    Io& io = io_of(cord);
    if (own) {
        for (FifoOpen* open = io.fifos.front(); open; open = io.fifos.after(open)) open->close_all();
    }
    if (io.backend && io.backend->disown) io.backend->disown(io.state, own);
    io.backend = nullptr;
    if (!own) return;
    each_use(io, [](DescriptorUse& use) { use.close_unclaimed(); });
    close_own(io); // of which the parent's backend, which has the same epoll, is not to hear
    for (int fd = 0; fd < io.descriptor_count; fd++) free(io.descriptors[fd]);
    for (auto& uses : cord.descriptor_uses) uses.store(0, std::memory_order_relaxed);
    free(io.descriptors);
    free(&io);
    cord.io = nullptr;
}

int Io::descriptor(int fd, Descriptor** out) {
    if (fd < 0) return -EBADF;
    if (fd >= descriptor_count) {
        KeepErrno keep;
        // A number that is not open must not make the table huge.
        if (fcntl(fd, F_GETFD) < 0) return -EBADF;
        int64_t count = descriptor_count ? descriptor_count : 64;
        while (count <= fd) count *= 2;
        auto** grown = static_cast<Descriptor**>(realloc(descriptors, size_t(count) * sizeof(void*)));
        if (!grown) return -ENOMEM;
        for (int64_t i = descriptor_count; i < count; i++) grown[i] = nullptr;
        descriptors = grown;
        descriptor_count = int(count > INT32_MAX ? INT32_MAX : count);
    }
    if (!descriptors[fd]) {
        KeepErrno keep;
        descriptors[fd] = make<Descriptor>();
        if (!descriptors[fd]) return -ENOMEM;
    }
    *out = descriptors[fd];
    return 0;
}

Descriptor* Io::used(int fd) const {
    Descriptor* descriptor = fd < descriptor_count ? descriptors[fd] : nullptr;
    return descriptor && !descriptor->uses.empty() ? descriptor : nullptr;
}

void Io::end_uses(Descriptor& descriptor) {
    for (DescriptorUse* use = descriptor.uses.front(); use; use = descriptor.uses.after(use)) {
        use->error_ = -EBADF;
        use->stop(-EBADF);
    }
}

namespace {

int plain_close(int fd) {
    KeepErrno keep;
    return close(fd) < 0 ? -errno : 0;
}

void end_uses_here(Cord& cord, int fd) {
    Descriptor* descriptor = cord.io ? io_of(cord).used(fd) : nullptr;
    if (!descriptor) return;
    Wait closer;
    closer.what = WaitFor::uses;
    descriptor->closer = &closer;
    Io::end_uses(*descriptor);
    park(cord, closer);
    descriptor->closer = nullptr;
}

// A cord is asked by another to end its uses.
void end_uses_for_another(Cord& cord, Message* message) {
    auto* request = static_cast<CloseRequest*>(message);
    Descriptor* descriptor = cord.io ? io_of(cord).used(request->fd) : nullptr;
    if (!descriptor) return uses_ended(request);
    descriptor->request = request;
    Io::end_uses(*descriptor);
}

// On a thread of the pool, also of a cord that has no I/O. Nothing ends it early.
void closed_elsewhere(Cord& cord, Message* message) {
    auto* job = static_cast<OpJob*>(message);
    cord.shared_waits--;
    wake(cord, job->op, job->result);
}

int close_elsewhere(Cord& cord, Op& op) {
    if (waits_stop_the_pool(cord)) return int(plain_call(op));
    OpJob job(cord, op);
    job.run = perform;
    job.done = send_home;
    job.receive = closed_elsewhere;
    op.Wait::stop = nullptr;
    cord.shared_waits++; // so that the thread does not end before it has come home
    if (offload(job)) return int(park(cord, op));
    cord.shared_waits--;
    return int(plain_call(op));
}

// lingers: closing it may wait for as long as a socket's peer takes, or a terminal. A ring would report the end of such
// a close before the wait.
int close_by_operation(Cord& cord, int fd, bool lingers) {
    Op op(OpCode::close, -1);
    op.offset = uint64_t(fd);
    if (!cord.io) return close_elsewhere(cord, op);
    CordIo& io = *cord.io;
    io.given++;
    if (io.backend->attempt || (lingers && !simulated)) return close_elsewhere(cord, op);
    io.in_flight++;
    io.backend->give(io.state, &op);
    int result = int(park(cord, op));
    if (result == op_no_thread) return plain_close(fd);
    if (may_be_refusal(result)) return close_elsewhere(cord, op);
    return result == op_again ? -EINTR : result;
}

} // namespace

// The descriptor must not be listed as being closed any more once the kernel has closed it: whoever gets the number
// next would be refused. Nor may it be unlisted before: whoever begins to use it in between would wait on what no
// number names any more. So both happen under one lock. What could take long to close is first given another number,
// unless it is a file, on which nothing waits for ever.
int io_close(Cord& cord, int fd) {
    if (cord.current->attention & attention_noswitch) return -EPERM;
    if (fd < 0) return -EBADF;
    Closing closing(cord, fd);
    if (!closing.alone()) return -EBADF;
    end_uses_here(cord, fd);
    end_uses_elsewhere(cord, fd, end_uses_for_another);
    if (cord.io && cord.io->backend->closing) cord.io->backend->closing(cord.io->state, fd);
    int64_t result = closing.close_at_once();
    if (result == op_blocking) {
        int64_t copy = closing.close_but_a_copy(&result);
        int number = int(copy);
        bool by_operation = !hooks::watches_descriptors();
        if (copy == op_blocking)
            turn_taken(cord);
        else
            result = by_operation ? close_by_operation(cord, number, number != fd) : plain_close(number);
    } else {
        turn_taken(cord);
    }
    return result == -EINTR ? 0 : int(result); // a signal: Linux has closed it all the same
}

} // namespace fiberrt
