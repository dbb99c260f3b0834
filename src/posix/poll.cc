// SPDX-License-Identifier: MIT OR Apache-2.0
// poll and epoll_wait. They ask the kernel before and after each wait: the kernel reports everything that is ready, and
// libfiberrt only wakes the fiber. (For a poll of one descriptor, the events that end the wait are the answer.)
#include "posix/poll.h"
#include "posix/calls.h"

#include <sys/syscall.h>

namespace fiberrt::posix {

namespace {

// The calls take timeouts in milliseconds. Rounded up, so that no wait ends early.
int milliseconds_left(int64_t deadline) {
    int64_t left = left_until(deadline);
    if (left == FIBER_FOREVER) return -1;
    int64_t ms = left / 1'000'000 + (left % 1'000'000 > 0);
    return ms > INT32_MAX ? INT32_MAX : int(ms);
}

int64_t ns_of_ms(int timeout_ms) { return timeout_ms < 0 ? -1 : timeout_ms * INT64_C(1'000'000); }

int poll_for(pollfd* entries, nfds_t given_count, int64_t ns) {
    nfds_t count = unsigned(given_count); // the kernel's calls take an unsigned int
    auto look = [&] { return ::poll(entries, count, 0); };
    if (!ns) return at_once(look());
    int ready = look_until_not_interrupted(look);
    if (ready) return at_once(ready);
    int64_t deadline = deadline_after(ns);
    return until_ready(
        entries, count, deadline, [&] { return look_until_not_interrupted(look); },
        [&] { return ::poll(entries, count, milliseconds_left(deadline)); }, count == 1 ? &entries->revents : nullptr);
}

int epoll_wait_for(int fd, epoll_event* events, int most, int64_t ns) {
    KeepErrnoIfDone errno_kept;
    int ready = ::epoll_wait(fd, events, most, 0);
    if (ready || !ns) return at_once(ready);
    for (int64_t deadline = deadline_after(ns); !ready && left_until(deadline);) {
        switch (wait_ready(fd, POLLIN, deadline)) {
        case Next::fail: return -1;
        case Next::block: ready = ::epoll_wait(fd, events, most, milliseconds_left(deadline)); break;
        default: ready = ::epoll_wait(fd, events, most, 0); break;
        }
    }
    return errno_kept.done(ready);
}

// Not every C library has the function.
int plain_epoll_pwait2(int fd, epoll_event* events, int most, const timespec* timeout, const sigset_t* mask) {
    constexpr size_t size_of_mask = 8; // the kernel's
    return int(syscall(SYS_epoll_pwait2, fd, events, most, timeout, mask, size_of_mask));
}

} // namespace

int poll(pollfd* entries, nfds_t count, int timeout_ms) {
    if (!may_wait()) return ::poll(entries, count, timeout_ms);
    return poll_for(entries, count, ns_of_ms(timeout_ms));
}

int poll_chk(pollfd* entries, nfds_t count, int timeout_ms, size_t size) {
    if (size / sizeof *entries < count) __chk_fail();
    return posix::poll(entries, count, timeout_ms);
}

// With a signal mask, which is the thread's, the call blocks the thread. (This function may read the timeout, because
// the C library's ppoll reads it, too.)
int ppoll(pollfd* entries, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    if (mask || (timeout && !is_valid(*timeout)) || !may_wait()) return ::ppoll(entries, count, timeout, mask);
    return poll_for(entries, count, timeout ? nanoseconds(*timeout) : -1);
}

int ppoll_chk(pollfd* entries, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t size) {
    if (size / sizeof *entries < count) __chk_fail();
    return posix::ppoll(entries, count, timeout, mask);
}

int epoll_wait(int fd, epoll_event* events, int most, int timeout_ms) {
    if (!may_wait()) return ::epoll_wait(fd, events, most, timeout_ms);
    return epoll_wait_for(fd, events, most, ns_of_ms(timeout_ms));
}

int epoll_pwait(int fd, epoll_event* events, int most, int timeout_ms, const sigset_t* mask) {
    return mask ? ::epoll_pwait(fd, events, most, timeout_ms, mask) : posix::epoll_wait(fd, events, most, timeout_ms);
}

int epoll_pwait2(int fd, epoll_event* events, int most, const timespec* timeout, const sigset_t* mask) {
    bool as_fiber = !mask && may_wait() && (!timeout || (is_readable(timeout) && is_valid(*timeout)));
    if (!as_fiber) return plain_epoll_pwait2(fd, events, most, timeout, mask);
    return epoll_wait_for(fd, events, most, timeout ? nanoseconds(*timeout) : -1);
}

} // namespace fiberrt::posix
