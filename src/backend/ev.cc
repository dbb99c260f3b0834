// SPDX-License-Identifier: MIT OR Apache-2.0
// The libev backend, for systems where io_uring is refused. Each cord has its own loop, which reports when descriptors
// are ready. io/try_op.h performs the transfers; this backend is given polls only.
//
// libev rounds its timers to milliseconds. So deadlines are those of a timerfd, which is set only when it must fire
// earlier.
#include "io/try_op.h"
#include "backend/backends.h"
#include "backend/ev_state.h"

#include "base/check.h"
#include "core/hooks.h"

#include <errno.h>
#include <initializer_list>
#include <new>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#ifdef FIBERRT_EV_PRIVATE
FILE* fiberrt_ev_stderr;
#endif

namespace fiberrt::ev_impl {

namespace {

// The timer and the doorbell are always watched. libev reports EV_ERROR if the kernel refuses one when libev registers
// it again; it is then started again, and registered at the next poll of the loop.
void on_timer(struct ev_loop* loop, ev_io* io, int events) {
    if (events & EV_ERROR) ev_io_start(loop, io);
    ev_of_loop(loop).timer_fired = true;
}

void on_doorbell(struct ev_loop* loop, ev_io* io, int events) {
    if (events & EV_ERROR) ev_io_start(loop, io);
    uint64_t rings;
    if (read(io->fd, &rings, sizeof rings) == sizeof rings) ev_of_loop(loop).rings_come += rings;
}

// libev is about to make a new epoll instance, in which it will register every watched descriptor. This drops the cached
// watchers, because their descriptors may be closed by now, and libev would end the process.
void on_renewal(struct ev_loop* loop, struct ev_fork*, int) {
    Ev& ev = ev_of_loop(loop);
    ev.renewed = ev.moved = true;
    while (Watcher* watcher = ev.cached.front()) drop(ev, *watcher);
}

// Runs in each poll of the loop, before the callbacks.
void on_look(struct ev_loop* loop) noexcept {
    Ev& ev = ev_of_loop(loop);
    if (ev.moved) ev.epoll_fd = epoll_of(ev);
    ev.moved = false;
    int64_t now = clock_now();
    if (ev.sleeping || ev.left) ev.idle += now - ev.now;
    ev.left = false;
    ev.now = now;
}

// Runs the callbacks. Tells ThreadSanitizer that calls of libev have no order with a close on another cord: libev may
// remove a number from the epoll while another cord closes it, as no fiber uses it any more. Either order is right.
void on_pending(struct ev_loop* loop) noexcept {
    hooks::tsan_ignore_end();
    ev_invoke_pending(loop);
    hooks::tsan_ignore_begin();
}

void run_loop(Ev& ev, int how) {
    hooks::tsan_ignore_begin();
    ev_run(ev.loop, how);
    hooks::tsan_ignore_end();
}

// Sets the timerfd, if it must fire earlier or has fired. Setting it also makes a fired timer unreadable.
void set_timer(Ev& ev, int64_t deadline) {
    if (!ev.timer_fired && deadline >= ev.timer_at) return;
    itimerspec at = {};
    if (deadline != never) {
        if (deadline < 1) deadline = 1; // 0 would disarm it
        at.it_value = {deadline / 1'000'000'000, deadline % 1'000'000'000};
    }
    FIBERRT_CHECK(timerfd_settime(ev.timer.fd, TFD_TIMER_ABSTIME, &at, nullptr) == 0);
    ev.timer_at = deadline;
    ev.timer_fired = false;
}

// The time of the first revalidation; never: none is due.
int64_t next_revalidation(Ev& ev) {
    int64_t first = never;
    for (auto& list : ev.unvalidated) {
        if (!list.empty() && list.front()->expires_at < first) first = list.front()->expires_at;
    }
    return first;
}

// The first watcher of a list, if its time has come; otherwise null.
Watcher* first_expired(List<Watcher>& list, int64_t now) {
    Watcher* watcher = list.front();
    return watcher && watcher->expires_at <= now ? watcher : nullptr;
}

// Drops the cached watchers that had no waiter for long, and revalidates the watchers for which it is time. The caller
// must poll at once, before any thread closes one of these descriptors.
void expire_watchers(Ev& ev) {
    while (Watcher* watcher = first_expired(ev.cached, ev.idle)) drop(ev, *watcher);
    for (auto& list : ev.unvalidated) {
        while (Watcher* watcher = first_expired(list, ev.now)) {
            if (watcher->backoff < backoff_levels - 1) watcher->backoff++;
            revalidate(ev, *watcher);
        }
    }
}

bool report_failed(Ev& ev) {
    if (!ev.failed) return false;
    while (Op* op = ev.failed) { // coverage: no memory
        unlink(&ev.failed, op);
        finish(ev, op, op->kernel_result);
    }
    return true;
}

void ev_free(Ev* ev) {
    if (ev->loop) ev_loop_destroy(ev->loop);
    if (ev->timer.fd >= 0) close(ev->timer.fd);
    if (ev->doorbell.fd >= 0) close(ev->doorbell.fd);
    for (int i = 0; i < ev->watcher_count; i++) free(ev->watchers[i]);
    free(ev->watchers);
    ev->~Ev();
    free(ev);
}

int ev_open(void** state, uint32_t*, uint32_t, int* doorbell_fd) {
    void* memory = calloc(1, sizeof(Ev));
    if (!memory) return -ENOMEM;
#ifdef FIBERRT_EV_PRIVATE
    fiberrt_ev_stderr = stderr; // the caller holds the lock of backends
#endif
    auto* ev = new (memory) Ev();
    int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    ev_io_init(&ev->timer, on_timer, timer_fd, EV_READ);
    int bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = timer_fd < 0 || bell_fd < 0 ? -errno : 0;
    ev_io_init(&ev->doorbell, on_doorbell, bell_fd, EV_READ);
    if (!error) {
        ev->loop = ev_loop_new(unsigned(EVFLAG_NOENV) | unsigned(EVBACKEND_EPOLL));
        if (!ev->loop) error = why_refused(timer_fd);
    }
    if (!error) {
        ev_set_userdata(ev->loop, ev);
        ev_set_loop_release_cb(ev->loop, nullptr, on_look);
        ev_set_invoke_pending_cb(ev->loop, on_pending);
        make_room(*ev);
        ev->timer_at = never;
        ev_io_start(ev->loop, &ev->timer);
        ev_io_start(ev->loop, &ev->doorbell);
        ev_fork_init(&ev->renewal, on_renewal);
        ev_fork_start(ev->loop, &ev->renewal);
        ev->epoll_fd = -ENOTSUP;
        ev->moved = true;
        run_loop(*ev, EVRUN_NOWAIT); // registers the timer, by which on_look() finds the epoll
        if (ev->epoll_fd < 0 && ev->epoll_fd != -ENOTSUP) error = ev->epoll_fd;
    }
    if (error) {
        ev_free(ev);
        return error;
    }
    *doorbell_fd = bell_fd;
    *state = ev;
    return 0;
}

void ev_close(void* state, uint64_t rings_owed) {
    Ev& ev = ev_of(state);
    while (ev.rings_come < rings_owed) {
        // A thread that still has to ring would otherwise write to a descriptor that has another owner by then.
        pollfd wait = {ev.doorbell.fd, POLLIN, 0};
        poll(&wait, 1, -1);
        on_doorbell(ev.loop, &ev.doorbell, EV_READ);
    }
    ev_free(&ev);
}

// Drops a loop in the child of a fork, without any change of the epoll, which the parent shares. Of another thread's
// loop it closes the descriptors only: libev may have been changing the memory, and nested watchers with it, so their
// epolls stay open.
void ev_disown(void* state, bool own) { // coverage: forked
    Ev& ev = ev_of(state);
    if (!own) {
        if (ev.epoll_fd >= 0 && is_epoll_still(ev)) close(ev.epoll_fd);
        close(ev.timer.fd);
        close(ev.doorbell.fd);
        return;
    }
    while (NestedWatcher* nested = ev.nested.pop_front()) {
        close(nested->io.fd);
        free(nested);
    }
    ev_free(&ev);
}

// Polls the kernel, and sleeps until an event or the deadline (poll_only: does not sleep). True: some waits have ended.
bool look_at_kernel(Ev& ev, int64_t deadline) {
    uint64_t waiting_before = ev.waiting;
    ev.now = clock_now();
    expire_watchers(ev);
    if (ev.waiting != waiting_before) deadline = poll_only; // a descriptor was closed: its waiter is runnable
    ev.sleeping = deadline != poll_only;
    if (ev.sleeping) {
        int64_t revalidation = next_revalidation(ev);
        set_timer(ev, revalidation < deadline ? revalidation : deadline);
    }
    run_loop(ev, ev.sleeping ? EVRUN_ONCE : EVRUN_NOWAIT);
    return ev.waiting != waiting_before;
}

bool ev_poll(void* state, int64_t deadline, bool) {
    Ev& ev = ev_of(state);
    if (report_failed(ev)) deadline = poll_only;
    // Until the fibers that were woken have run, the kernel would report the same events again.
    if (deadline == poll_only) return ev.waiting && !this_cord->io->unconsumed && look_at_kernel(ev, poll_only);
    look_at_kernel(ev, deadline);
    return true;
}

int ev_own_descriptors(void* state, int out[]) {
    Ev& ev = ev_of(state);
    int count = 0;
    for (int fd : {ev.timer.fd, ev.doorbell.fd, ev.epoll_fd})
        if (fd >= 0) out[count++] = fd;
    return count;
}

// --- In a foreign loop

int ev_fd(void* state) {
    Ev& ev = ev_of(state);
    if (ev.epoll_fd < 0) ev.moved = true; // search for it again
    look_at_kernel(ev, poll_only);
    ev.renewed = false;
    return ev.epoll_fd;
}

int64_t ev_leave(void* state) {
    Ev& ev = ev_of(state);
    if (report_failed(ev)) return 0;
    if (ev.timer_at != never) { // the foreign loop has its own timer for the cord
        ev.timer_fired = true;
        set_timer(ev, never);
    }
    uint64_t rings_before = ev.rings_come;
    // A ring of the doorbell has been read here, so the foreign loop would not see it.
    if (look_at_kernel(ev, poll_only) || ev.rings_come != rings_before) return 0;
    if (ev.renewed) return other_fd;
    ev.left = true;
    return next_revalidation(ev);
}

} // namespace

} // namespace fiberrt::ev_impl

namespace fiberrt {

const Backend ev_backend = {
    .name = "ev",
    .open = ev_impl::ev_open,
    .close = ev_impl::ev_close,
    .give = ev_impl::give,
    .cancel = ev_impl::cancel,
    .poll = ev_impl::ev_poll,
    .try_op = try_op,
    .closing = ev_impl::closing,
    .own_descriptors = ev_impl::ev_own_descriptors,
    .fd = ev_impl::ev_fd,
    .suspend = ev_impl::ev_leave,
    .disown = ev_impl::ev_disown,
};

} // namespace fiberrt
