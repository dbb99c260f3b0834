// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for one of several descriptors.
#include "posix/poll.h"

#include <sys/epoll.h>
#include <unistd.h>

namespace fiberrt::posix {

namespace {

constexpr int known_events =
    POLLIN | POLLPRI | POLLOUT | POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLMSG | POLLRDHUP;

// poll reports POLLERR, POLLHUP and POLLNVAL also if it is asked for nothing.
int events_of(const pollfd& entry) { return entry.events & known_events ? entry.events & known_events : POLLERR; }

int by_descriptor(const void* one, const void* other) {
    int a = static_cast<const pollfd*>(one)->fd, b = static_cast<const pollfd*>(other)->fd;
    return a < b ? -1 : a > b;
}

// Adds the descriptors to an epoll instance. An instance takes a descriptor once, so the events of all entries for it
// are united.
bool add_all(int epoll, pollfd* sorted, size_t used) {
    for (size_t i = 0; i < used;) {
        int fd = sorted[i].fd;
        epoll_event event = {};
        for (; i < used && sorted[i].fd == fd; i++) event.events |= uint32_t(events_of(sorted[i]));
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) continue;
        // EPERM: the file cannot be polled; the kernel has just found no event of it, and there will be none.
        // EBADF: the descriptor was closed meanwhile; the next try reports it.
        if (errno != EPERM && errno != EBADF) return false;
    }
    return true;
}

// Waits a moment, longer with each try, and returns retry unless the wait failed.
Next pause(int64_t deadline, unsigned tries) {
    constexpr unsigned longest = 3;
    int64_t ns = INT64_C(1'000'000) << (tries < longest ? tries : longest);
    int64_t left = left_until(deadline);
    Next next = wait_time(ns < left ? ns : left);
    return next == Next::timed_out ? Next::retry : next;
}

// Waits for many descriptors: fiber_select would need a fiber for each. A close of a descriptor does not end this wait.
// If the system refuses an epoll instance for them, the fiber looks again after a moment.
Next wait_by_epoll(const pollfd* entries, nfds_t count, size_t used, int64_t deadline) {
    constexpr unsigned few = 64;
    Array<pollfd, few> sorted(used);
    if (!sorted) return pause(deadline, 0);
    size_t at = 0;
    for (nfds_t i = 0; i < count; i++)
        if (entries[i].fd >= 0) sorted[at++] = entries[i];
    qsort(sorted.data(), used, sizeof(pollfd), by_descriptor);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return pause(deadline, 0);
    bool has_all = add_all(epoll, sorted.data(), used);
    Next next = has_all ? wait_ready(epoll, POLLIN, deadline) : Next::retry;
    // libev waits in an epoll instance, too, and the kernel limits how many instances may contain one another.
    bool is_limited = next == Next::fail && (errno == EINVAL || errno == ELOOP || errno == ENOSPC);
    {
        KeepErrno errno_kept;
        ::close(epoll);
    }
    return !has_all || is_limited ? pause(deadline, 0) : next;
}

constexpr unsigned few_cases = 8;

Next wait_by_select(const pollfd* entries, nfds_t count, int64_t deadline) {
    fiber_case_t cases[few_cases] = {};
    int used = 0;
    for (nfds_t i = 0; i < count; i++) {
        if (entries[i].fd < 0) continue;
        cases[used].kind = FIBER_CASE_FD;
        cases[used].fd = entries[i].fd;
        cases[used++].number = events_of(entries[i]);
    }
    Entered entered;
    if (!entered) return block_or_fail(-EPERM);
    TimeLimit limit(deadline);
    if (limit.error()) return block_or_fail(limit.error());
    int result = fiber_select(cases, used, FIBER_FOREVER);
    if (limit.is_over(result)) return Next::timed_out;
    return after_wait(result < 0 ? result : int(cases[result].result));
}

} // namespace

Next wait_for_any(const pollfd* entries, nfds_t count, int64_t deadline, unsigned tries, short* ready) {
    // The backend may report a descriptor that the kernel's poll does not find ready. Without pauses, this fiber could
    // then keep the thread.
    constexpr unsigned tries_before_pauses = 2;
    if (tries >= tries_before_pauses) {
        Next next = pause(deadline, tries - tries_before_pauses);
        if (next != Next::retry || !left_until(deadline)) return next;
    }
    size_t used = 0;
    const pollfd* last = nullptr;
    for (nfds_t i = 0; i < count; i++)
        if (entries[i].fd >= 0) used++, last = &entries[i];
    if (!used) return wait_time(left_until(deadline));
    Next next;
    if (used == 1) {
        int found = 0;
        next = wait_ready(last->fd, events_of(*last), deadline, &found);
        if (ready && next == Next::retry) *ready = short(found & (last->events | POLLERR | POLLHUP | POLLNVAL));
    } else if (used <= few_cases) {
        next = wait_by_select(entries, count, deadline);
    } else {
        next = wait_by_epoll(entries, count, used, deadline);
    }
    // EBADF: another fiber is closing the descriptor. Once it is closed, the next try reports that.
    return next == Next::fail && errno == EBADF ? pause(deadline, 0) : next;
}

void end_connections(const pollfd* entries, nfds_t count) {
    for (nfds_t i = 0; i < count; i++)
        if (entries[i].fd >= 0 && !is_own_pair(entries[i].fd)) end_connection(entries[i].fd);
}

} // namespace fiberrt::posix
