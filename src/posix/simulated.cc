// SPDX-License-Identifier: MIT OR Apache-2.0
// What a simulation does before and after an adopted library's call.
#include "posix/simulated.h"

#include "base/keep_errno.h"
#include "base/readable.h"
#include "base/report.h"

namespace fiberrt::posix::simulated {

constinit Relaxed<bool> process;

namespace {

constexpr const char* not_ours = "its other end is in another process, or depends on the real time";
constexpr const char* would_stop = "it would block the simulation's only thread for ever: the caller is in a no-switch "
                                   "section or an offloaded function";

// The last refusal that was printed.
struct Printed {
    const char* call;
    int fd;
    const char* reason;
};
constinit Printed printed = {};

bool is_ready(int fd, bool writes) {
    pollfd entry = {fd, short(writes ? POLLOUT : POLLIN), 0};
    return ::poll(&entry, 1, 0) != 0;
}

} // namespace

int refuse(const char* call, int fd, int error, const char* reason) {
    if (printed.call != call || printed.fd != fd || printed.reason != reason) {
        printed = {call, fd, reason};
        Report report(STDERR_FILENO, Report::unasked_ns);
        report.put("fiberrt: simulation: ");
        report.put(call);
        if (fd >= 0) {
            report.put(" on descriptor ");
            report.number(unsigned(fd));
        }
        report.put(" is refused: ");
        report.put(reason);
        report.put("\n");
        report.end();
    }
    errno = error;
    simulated_trace(call, -1, error);
    errno = error;
    return -1;
}

int refuse_to_block(int result) {
    switch (result) {
    case -EDEADLK:
        refuse("a wait", -1, EDEADLK, "no fiber can run, and no operation can end: it would last for ever");
        break;
    case -ENOTSUP: refuse("a wait", -1, ENOTSUP, not_ours); break;
    case -ENOMEM: errno = ENOMEM; break; // perhaps a fault of the simulation
    default: refuse("a wait", -1, -result, would_stop); break;
    }
    return errno;
}

bool refuses_holder(const char* call, int owner) {
    if (!process || !owner || owner == gettid() || simulated_caller() == SimulatedCaller::none) return false;
    refuse(call, -1, ENOTSUP, "a thread outside the simulation holds the lock, for as long as the real time decides");
    return true;
}

bool may_use(const char* call, int fd) {
    if (simulated_may_use(fd)) return true;
    refuse(call, fd, ENOTSUP, not_ours);
    return false;
}

bool may_connect(const char* call, int fd, const sockaddr* address, socklen_t length) {
    if (simulated_may_connect(address, length)) return true;
    refuse(call, fd, ENOTSUP, "the address is not a loopback address");
    return false;
}

bool is_connected_here(const char* call, int fd) {
    if (simulated_may_use(fd)) return true;
    shutdown(fd, SHUT_RDWR);
    refuse(call, fd, ENOTSUP, "another process listens there");
    return false;
}

bool begin_transfer(const char* call, int fd, bool writes, bool waits) {
    if (!may_use(call, fd)) return false;
    if (simulated_caller() == SimulatedCaller::noswitch) {
        if (!waits || is_ready(fd, writes)) return true;
        refuse(call, fd, EDEADLK, would_stop);
        return false;
    }
    int error = simulated_fault(fd, writes, waits);
    if (!error) return true;
    simulated_trace(call, -1, error);
    errno = error;
    return false;
}

// ---- Polls

namespace {

Polling of_entries(pollfd* entries, nfds_t count) {
    Polling polling;
    if (check_readable(entries, count * sizeof *entries)) return polling; // the call reports it
    for (nfds_t i = 0; i < count; i++)
        if (entries[i].fd >= 0 && !simulated_may_use(entries[i].fd)) polling.foreign = entries[i].fd;
    polling.ready = ::poll(entries, count, 0) != 0;
    return polling;
}

void add_sets(Polling& polling, int count, const fd_set* read, const fd_set* write, const fd_set* except) {
    if (count < 0 || count > FD_SETSIZE) return;
    fd_set sets[3] = {};
    fd_set* used[3] = {};
    const fd_set* given[3] = {read, write, except};
    for (int i = 0; i < 3; i++) {
        if (!given[i]) continue;
        if (check_readable(given[i], sizeof *given[i])) return; // the call reports it
        sets[i] = *given[i];
        used[i] = &sets[i];
        for (int fd = 0; fd < count; fd++)
            if (FD_ISSET(fd, used[i]) && !simulated_may_use(fd)) polling.foreign = fd;
    }
    timeval at_once = {};
    polling.ready = ::select(count, used[0], used[1], used[2], &at_once) != 0;
}

void add_time(Polling& polling, const timespec* timeout) {
    if (timeout && check_readable(timeout, sizeof *timeout)) return; // the kernel reports EFAULT
    polling.waits = !timeout || timeout->tv_sec || timeout->tv_nsec;
    polling.for_ever = !timeout;
}

Polling of_epoll(int fd) {
    Polling polling;
    if (!simulated_may_use(fd)) polling.foreign = fd;
    polling.ready = is_ready(fd, false);
    return polling;
}

} // namespace

Polling polling(pollfd* entries, nfds_t count, int timeout_ms, size_t) {
    Polling polling = of_entries(entries, count);
    polling.waits = timeout_ms;
    polling.for_ever = timeout_ms < 0;
    return polling;
}

Polling polling(pollfd* entries, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t) {
    Polling polling = of_entries(entries, count);
    add_time(polling, timeout);
    polling.masks = mask;
    return polling;
}

Polling polling(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
    Polling polling;
    add_sets(polling, count, read, write, except);
    polling.waits = !timeout || timeout->tv_sec || timeout->tv_usec;
    polling.for_ever = !timeout;
    return polling;
}

Polling polling(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout, const sigset_t* mask) {
    Polling polling;
    add_sets(polling, count, read, write, except);
    add_time(polling, timeout);
    polling.masks = mask;
    return polling;
}

Polling polling(int fd, epoll_event*, int, int timeout_ms, const sigset_t* mask) {
    Polling polling = of_epoll(fd);
    polling.waits = timeout_ms;
    polling.for_ever = timeout_ms < 0;
    polling.masks = mask;
    return polling;
}

Polling polling(int fd, epoll_event*, int, const timespec* timeout, const sigset_t* mask) {
    Polling polling = of_epoll(fd);
    add_time(polling, timeout);
    polling.masks = mask;
    return polling;
}

bool begin_poll(const char* call, const Polling& polling) {
    if (polling.foreign >= 0) return refuse(call, polling.foreign, ENOTSUP, not_ours) == 0;
    if (!polling.waits || polling.ready) return true;
    if (polling.masks)
        return refuse(call, -1, ENOTSUP, "with a signal mask it blocks the simulation's only thread") == 0;
    if (simulated_caller() == SimulatedCaller::noswitch)
        return !polling.for_ever || refuse(call, -1, EDEADLK, would_stop) == 0;
    if (!simulated_signal()) return true;
    simulated_trace(call, -1, EINTR);
    errno = EINTR;
    return false;
}

} // namespace fiberrt::posix::simulated
