// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the descriptor of a libev loop's epoll instance, which libev does not tell. A foreign loop waits on it, and it
// is asked which descriptors it cannot watch.
#include "backend/ev_state.h"

#include "base/keep_errno.h"

#include <linux/kcmp.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt::ev_impl {

namespace {

// The largest distance from the timer's number: the search takes some tenths of a second
constexpr int farthest_epoll = 1 << 20;

// Whether this is the loop's epoll instance: only that watches the loop's timer. To any other epoll the timer is added
// for a moment, without an event.
// (By syscall(2), which ThreadSanitizer does not watch: it would report races with other threads' descriptors.)
bool watches_timer(const Ev& ev, int epoll) {
    epoll_event nothing = {};
    if (syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, ev.timer.fd, &nothing) == 0) {
        syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, ev.timer.fd, nullptr);
        return false;
    }
    return errno == EEXIST;
}

} // namespace

int why_refused(int fd) {
    KeepErrno keep;
    epoll_event event = {};
    event.events = EPOLLIN;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return -errno;
    int error = epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : -ENOMEM;
    close(epoll);
    return error;
}

// Besides -EBADF these errors are about epoll instances: -ELOOP if they would watch each other in a circle, or too many
// are nested; -EINVAL for the loop's own. So for other files, which fibers wait for more often, the type is enough.
int why_unwatchable(const Ev& ev, int fd) {
    struct stat file = status_of(fd);
    if (!file.st_mode && fcntl(fd, F_GETFD) < 0) return -EBADF;
    if (!may_be_epoll(file)) return 0;
    KeepErrno keep;
    epoll_event nothing = {};
    if (syscall(SYS_epoll_ctl, ev.epoll_fd, EPOLL_CTL_ADD, fd, &nothing) < 0) {
        return errno == ELOOP || errno == EINVAL ? -errno : 0;
    }
    syscall(SYS_epoll_ctl, ev.epoll_fd, EPOLL_CTL_DEL, fd, nullptr);
    return 0;
}

// The epoll was opened soon after the timer, so its number is likely to be near the timer's.
int epoll_of(const Ev& ev) {
    if (!ev.timer.active || !ev.doorbell.active) return why_refused(ev.timer.fd);
    KeepErrno keep;
    for (int away = 1; away < farthest_epoll; away++) {
        if (away <= INT_MAX - ev.timer.fd && watches_timer(ev, ev.timer.fd + away)) return ev.timer.fd + away;
        if (away <= ev.timer.fd && watches_timer(ev, ev.timer.fd - away)) return ev.timer.fd - away;
    }
    return -ENOTSUP;
}

// The parent shares the epoll, so this does not use it. If the kernel does not tell, the answer is true.
bool is_epoll_still(const Ev& ev) { // coverage: forked
    kcmp_epoll_slot place = {uint32_t(ev.epoll_fd), uint32_t(ev.timer.fd), 0};
    pid_t pid = getpid();
    long order = syscall(SYS_kcmp, pid, pid, KCMP_EPOLL_TFD, ev.timer.fd, &place);
    return order == 0 || (order < 0 && errno != ENOENT && errno != EINVAL && errno != EBADF);
}

} // namespace fiberrt::ev_impl
