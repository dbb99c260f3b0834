// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits of adopted libraries' calls, on the functions of fiberrt.h.
#include "posix/wait.h"

#include "posix/simulated.h"

#include <initializer_list>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt::posix {

constinit std::atomic<const Runtime*> runtime = nullptr;
constinit thread_local unsigned calls_without_wait = 0;
constinit Relaxed<unsigned> looks_sooner;

namespace {

constexpr int64_t second_ns = 1'000'000'000;

// A library that ignores a refusal makes the call again, and is refused again: it would keep the thread. After this
// many refusals in a row, the fiber pauses at each further one, longer each time.
constexpr uintptr_t refusals_before_pauses = 3;
constexpr int64_t first_pause_ns = 1'000'000;
constexpr unsigned longest_pause = 7; // first_pause_ns << 7

// The key under which each fiber counts its refusals in a row. Zero: the key could not be made.
fiber_key_t refusals_key() {
    static constinit std::atomic<uint64_t> made = 0;
    fiber_key_t key{made.load(std::memory_order_relaxed)};
    if (key.id) return key;
    if (fiber_key_create(&key, nullptr)) return {};
    uint64_t none = 0;
    // Relaxed: the handle is all that a thread needs of the key.
    if (made.compare_exchange_strong(none, key.id, std::memory_order_relaxed)) return key;
    (void)fiber_key_delete(key);
    return {none};
}

void pause(uintptr_t refusals) {
    uintptr_t doublings = refusals - refusals_before_pauses - 1;
    fiber_scope_t shield;
    if (fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD)) return;
    (void)fiber_sleep(first_pause_ns << (doublings < longest_pause ? doublings : longest_pause));
    (void)fiber_scope_close(shield, nullptr);
}

void count_refusal() {
    fiber_key_t key = refusals_key();
    if (!key.id) return;
    uintptr_t refusals = uintptr_t(fiber_key_get(key)) + 1;
    if (fiber_key_set(key, reinterpret_cast<void*>(refusals))) return;
    if (refusals > refusals_before_pauses) pause(refusals);
}

// Whether the fiber's last wait was refused.
bool has_refusals() {
    fiber_key_t key = refusals_key();
    return key.id && fiber_key_get(key);
}

void forget_refusals() {
    fiber_key_t key = refusals_key();
    if (key.id && fiber_key_get(key)) (void)fiber_key_set(key, nullptr);
}

// The type of a socket; -1: no socket.
int socket_type(int fd) {
    int type = -1;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) ? -1 : type;
}

// Lets other fibers run after a call that did not wait. Shielded: the next wait reports a pending cancel or interrupt.
void give_way(int (*reschedule)()) {
    Shielded shielded;
    if (shielded) (void)reschedule();
}

// In a simulation: the other fibers may run before a call that did not wait returns.
void pause_if_simulated() {
    if (simulated_caller() == SimulatedCaller::fiber && simulated_pause()) give_way(fiber_reschedule);
}

} // namespace

Entered::Entered() : runtime_(runtime.load(std::memory_order_acquire)), entered_(true) {
    if (!runtime_) [[likely]]
        return;
    KeepErrno keep;
    entered_ = runtime_->enter(&state_);
}

Entered::~Entered() {
    if (!runtime_ || !entered_) return;
    KeepErrno keep;
    runtime_->leave(state_);
}

Shielded::Shielded() {
    if (entered_) open_ = !fiber_scope_open(&scope_, FIBER_FOREVER, FIBER_SCOPE_SHIELD);
}

Shielded::~Shielded() {
    if (open_) (void)fiber_scope_close(scope_, nullptr);
}

int64_t deadline_after(int64_t ns) {
    if (ns < 0 || ns == FIBER_FOREVER) return FIBER_FOREVER;
    int64_t now = fiber_now();
    return ns >= FIBER_FOREVER - now ? FIBER_FOREVER : now + ns;
}

int64_t left_until(int64_t deadline) {
    if (deadline == FIBER_FOREVER) return FIBER_FOREVER;
    int64_t left = deadline - fiber_now();
    return left > 0 ? left : 0;
}

int64_t nanoseconds(const timespec& time) {
    return time.tv_sec >= FIBER_FOREVER / second_ns ? FIBER_FOREVER : time.tv_sec * second_ns + time.tv_nsec;
}

int64_t nanoseconds(const timeval& time) {
    constexpr int64_t second_us = 1'000'000;
    int64_t more = time.tv_usec / second_us; // select takes more than a second of microseconds
    if (time.tv_sec >= FIBER_FOREVER / second_ns - more) return FIBER_FOREVER;
    return nanoseconds(timespec{time.tv_sec + more, time.tv_usec % second_us * 1000});
}

timespec timespec_of(int64_t ns) { return {ns / second_ns, long(ns % second_ns)}; }

void look_at_clock() {
    if (simulated::process) [[unlikely]] {
        pause_if_simulated();
        if (calls_without_wait < calls_between_looks) return;
    }
    calls_without_wait = 0;
    KeepErrno keep;
    const Runtime* language = runtime.load(std::memory_order_acquire);
    if (!language || language->is_due()) give_way(fiber_reschedule_if_due);
}

Next block_or_fail(int result) {
    if (!simulated::process) [[likely]]
        return Next::block;
    errno = simulated::refuse_to_block(result);
    return Next::fail;
}

Next after_wait(int result) {
    if (result >= 0) {
        forget_refusals();
        return Next::retry;
    }
    switch (result) {
    case -EPERM:
    case -ENOTSUP:
    case -ENOMEM:
    case -EMFILE: // the thread's first operation needs descriptors
    case -ENFILE:
    case -ENOSPC:
    case -EDEADLK: return block_or_fail(result);
    case -ECANCELED:
    case -ETIMEDOUT: count_refusal(); break;
    default: break;
    }
    errno = -result;
    return Next::fail;
}

TimeLimit::TimeLimit(int64_t deadline) {
    if (deadline == FIBER_FOREVER) return;
    error_ = fiber_scope_open(&scope_, left_until(deadline), 0);
    open_ = !error_;
}

bool TimeLimit::is_over(int64_t result) {
    if (!open_) return false;
    open_ = false;
    KeepErrno keep;
    return fiber_scope_close(scope_, nullptr) == -ETIMEDOUT && result == -ETIMEDOUT;
}

Next wait_ready(int fd, int events, int64_t deadline, int* ready) {
    Entered entered;
    if (!entered) return block_or_fail(-EPERM);
    TimeLimit limit(deadline);
    if (limit.error()) return block_or_fail(limit.error());
    int result = fiber_poll_fd(fd, events);
    if (ready && result > 0) *ready = result;
    // If a deadline of an outer scope has passed too, the next wait reports it.
    return limit.is_over(result) ? Next::timed_out : after_wait(result);
}

Next wait_time(int64_t ns) {
    Entered entered;
    if (!entered) return block_or_fail(-EPERM);
    Next next = after_wait(fiber_sleep(ns));
    return next == Next::retry ? Next::timed_out : next;
}

void end_connection(int fd) {
    KeepErrno keep;
    int type = socket_type(fd);
    if (type != SOCK_STREAM && type != SOCK_SEQPACKET) return;
    sockaddr_storage peer;
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length)) return; // a listener, or not connected yet
    remember_ended(fd);
    shutdown(fd, SHUT_RDWR); // data that arrive from here on make TCP reset the connection
    char dropped[4096];
    while (::recv(fd, dropped, sizeof dropped, MSG_DONTWAIT) > 0) continue;
}

bool is_own_pair(int fd) {
    KeepErrno keep;
    sockaddr_un name;
    // Neither end has a name.
    for (auto get_name : {getsockname, getpeername}) {
        socklen_t length = sizeof name;
        if (get_name(fd, reinterpret_cast<sockaddr*>(&name), &length)) return false;
        if (name.sun_family != AF_UNIX || length > sizeof name.sun_family) return false;
    }
    ucred maker;
    socklen_t size = sizeof maker;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 && maker.pid == getpid();
}

ssize_t refuse_end(int fd) {
    if (!was_ended(fd)) return 0;
    if (may_wait()) {
        Entered entered;
        if (entered && has_refusals()) count_refusal(); // a library that ignores refusals may read for ever
    }
    errno = ECONNRESET;
    return -1;
}

bool is_nonblocking(int fd) {
    int flags = ::fcntl(fd, F_GETFL);
    return flags < 0 || (flags & O_NONBLOCK);
}

bool is_always_ready(int fd) {
    struct stat about;
    if (fstat(fd, &about)) return false;
    // Devices of memory: /dev/null, /dev/zero, …; but /dev/kmsg waits.
    constexpr unsigned memory = 1, kmsg = 11;
    if (S_ISCHR(about.st_mode)) return major(about.st_rdev) == memory && minor(about.st_rdev) != kmsg;
    return S_ISREG(about.st_mode) || S_ISBLK(about.st_mode) || S_ISDIR(about.st_mode);
}

bool may_continue(int fd, int events) {
    KeepErrno errno_kept;
    pollfd now = {fd, 0, 0};
    if (::poll(&now, 1, 0) <= 0 || !(now.revents & (POLLERR | POLLNVAL))) return true;
    int received = 0;
    return events == POLLIN && ioctl(fd, FIONREAD, &received) == 0 && received > 0;
}

int64_t socket_deadline(int fd, int option) {
    timeval limit = {};
    socklen_t size = sizeof limit;
    if (getsockopt(fd, SOL_SOCKET, option, &limit, &size) || (!limit.tv_sec && !limit.tv_usec)) return FIBER_FOREVER;
    return deadline_after(nanoseconds(limit));
}

int64_t DescriptorCall::deadline() {
    if (!has_deadline_ && option_) deadline_ = socket_deadline(fd_, option_);
    has_deadline_ = true;
    return deadline_;
}

// Whether the call may wait: false, with errno, if the descriptor is nonblocking or closed.
bool DescriptorCall::begin() {
    if (waited_) return true;
    int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0) return false;
    if (flags & O_NONBLOCK) {
        errno = EAGAIN;
        return false;
    }
    waited_ = true;
    (void)deadline();
    return true;
}

Next DescriptorCall::after(Next next, int fd) {
    if (next == Next::timed_out) {
        errno = EAGAIN; // as the kernel reports SO_RCVTIMEO
        return Next::fail;
    }
    if (next == Next::fail && was_refused(errno)) end_connection(fd);
    return next;
}

Next DescriptorCall::wait_for(int fd, int events) {
    if (!begin()) return Next::fail;
    return after(wait_ready(fd, events, deadline_), fd);
}

Next DescriptorCall::wait_for_more() {
    if (!begin()) return Next::fail;
    constexpr int64_t between_tries_ns = 1'000'000;
    int64_t left = left_until(deadline_);
    Next next = left ? wait_time(left < between_tries_ns ? left : between_tries_ns) : Next::timed_out;
    return left && next == Next::timed_out ? Next::retry : after(next, fd_);
}

} // namespace fiberrt::posix
