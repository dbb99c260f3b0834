// SPDX-License-Identifier: MIT OR Apache-2.0
// The watchers of descriptors: how each begins, is cached, is revalidated, and ends.
//
// When a wait is over, its watcher is cached, as the next wait is likely to be for the same event; then neither libev
// nor the kernel need be told. This has two dangers:
// - A watcher without a wait costs needless reports. So it ends when the thread has been idle for a millisecond, when
//   it is ready and would keep the thread from sleeping, or after several needless reports.
// - The descriptor may have been closed by close(2), and its number given to another file, unknown to the library. So a
//   cached watcher is revalidated if a wait on it lasts longer than a millisecond or two: the descriptor is registered
//   with the kernel again. That has no effect if the file is the same; the next revalidation then comes later, after up
//   to eight milliseconds.
#include "backend/ev_state.h"

#include "base/check.h"

#include <fcntl.h>
#include <stdlib.h>

namespace fiberrt::ev_impl {

namespace {

int wanted(const Watcher& watcher) {
    int all = 0;
    for (Op* op = watcher.first; op; op = op->next) all |= libev_events(op->flags);
    return all;
}

// Takes the watcher out of the list of cached watchers, or of those to be revalidated.
void unlist(Watcher& watcher) {
    if (watcher.linked()) watcher.unlink();
}

// Schedules the revalidation of a cached watcher, when a wait on it begins: for a whole millisecond, so that an idle
// thread wakes once for many.
void revalidate_later(Ev& ev, Watcher& watcher) {
    unlist(watcher);
    watcher.expires_at = (ev.now / millisecond_ns + 1 + (1 << watcher.backoff)) * millisecond_ns;
    ev.unvalidated[watcher.backoff].push_back(&watcher);
}

// Caches a watcher whose last wait is over.
void cache(Ev& ev, Watcher& watcher) {
    unlist(watcher);
    if (!watcher.active()) return;
    watcher.needless_reports = 0;
    watcher.expires_at = ev.idle + millisecond_ns;
    ev.cached.push_back(&watcher);
}

} // namespace

void drop(Ev& ev, Watcher& watcher) {
    unlist(watcher);
    ev_io_stop(ev.loop, &watcher.io);
}

namespace {

// Changes the events of a watcher; 0: stops it. libev tells the kernel if there are new events.
void watch(Ev& ev, Watcher& watcher, int events) { // coverage: kernel
    if (watcher.active()) ev_io_stop(ev.loop, &watcher.io);
    if (!events) return unlist(watcher);
    ev_io_modify(&watcher.io, events);
    ev_io_start(ev.loop, &watcher.io);
}

void fail(Ev& ev, Watcher& watcher, int error) {
    while (Op* op = watcher.first) {
        unlink(&watcher.first, op);
        finish(ev, op, error);
    }
    drop(ev, watcher);
}

// Registers the number, which why_unwatchable allows, with the kernel again, whatever libev believes.
void register_again(Ev& ev, Watcher& watcher, int events) {
    unlist(watcher);
    if (watcher.active()) ev_io_stop(ev.loop, &watcher.io);
    ev_io_set(&watcher.io, watcher.io.fd, events);
    ev_io_start(ev.loop, &watcher.io);
}

} // namespace

void revalidate(Ev& ev, Watcher& watcher) {
    if (int error = why_unwatchable(ev, watcher.io.fd)) {
        fail(ev, watcher, error);
    } else {
        register_again(ev, watcher, events_of(watcher));
    }
}

namespace {

void on_ready(struct ev_loop* loop, ev_io* io, int events) {
    Ev& ev = ev_of_loop(loop);
    auto& watcher = *static_cast<Watcher*>(io->data);
    if (events & EV_ERROR) return fail(ev, watcher, fcntl(io->fd, F_GETFD) < 0 ? -EBADF : -ENOMEM);
    if (!watcher.first && !ev.sleeping && ++watcher.needless_reports < needless_reports_most) return; // stays cached
    int used = 0;
    bool mistaken = false;
    for (Op *op = watcher.first, *next; op; op = next) {
        next = op->next;
        int words = libev_events(op->flags);
        if (!(words & events)) continue;
        used |= words;
        int reported = (events & words & EV_READ ? POLLIN : 0) | (events & words & EV_WRITE ? POLLOUT : 0);
        if (!op->hint) reported = events_now(*op);
        if (!reported) {
            mistaken = true;
            continue;
        }
        unlink(&watcher.first, op);
        finish_reported(ev, op, reported);
    }
    // EV_READ stays once, as the next wait is likely to be for it; EV_WRITE does not, as there mostly is room. A
    // descriptor without a wait may be closed before the next poll, so then libev must have nothing to tell the kernel
    // about it.
    int events_to_watch = wanted(watcher) | (used & EV_READ);
    if (events_of(watcher) != events_to_watch) watch(ev, watcher, watcher.first ? events_to_watch : 0);
    if (mistaken) revalidate(ev, watcher);
    if (!watcher.first) cache(ev, watcher);
}

// Returns the watcher of a descriptor, making it if needed; null: no memory.
Watcher* watcher_of(Ev& ev, int fd) {
    if (fd >= ev.watcher_count) {
        int count = ev.watcher_count ? ev.watcher_count : 64;
        while (count <= fd) count *= 2;
        auto** grown = static_cast<Watcher**>(realloc(ev.watchers, size_t(count) * sizeof(void*)));
        if (!grown) return nullptr;
        for (int i = ev.watcher_count; i < count; i++) grown[i] = nullptr;
        ev.watchers = grown;
        ev.watcher_count = count;
    }
    if (!ev.watchers[fd]) {
        auto* watcher = static_cast<Watcher*>(calloc(1, sizeof(Watcher)));
        if (!watcher) return nullptr;
        ev_io_init(&watcher->io, on_ready, fd, 0);
        watcher->io.data = watcher;
        ev.watchers[fd] = watcher;
    }
    return ev.watchers[fd];
}

} // namespace

// Makes libev allocate its tables now, for as many descriptors as most processes have, because libev ends the process
// if it finds no memory later.
void make_room(Ev& ev) {
    ev_io io;
    ev_io_init(&io, on_ready, descriptors_mostly - 1, EV_READ);
    for (; io.fd >= 0; io.fd--) {
        ev_io_start(ev.loop, &io);
        ev_io_stop(ev.loop, &io); // the kernel is not told
    }
}

void give(void* state, Op* op) {
    Ev& ev = ev_of(state);
    FIBERRT_CHECK(op->code == OpCode::poll);
    ev.waiting++;
    int words = libev_events(op->flags);
    op->waiting_for_room = false;
    op->finished = false;
    int error = -ENOMEM;
    if (!words) {
        error = nested_begin(ev, op);
        if (!error) return;
    } else if (Watcher* watcher = watcher_of(ev, op->fd)) {
        if (!watcher->first && watcher->expires_at <= ev.idle) drop(ev, *watcher);
        int now = events_of(*watcher);
        bool more = words & ~now;
        error = more ? why_unwatchable(ev, op->fd) : 0;
        if (!error) {
            if (more) {
                register_again(ev, *watcher, now | words);
            } else if (!watcher->first) {
                revalidate_later(ev, *watcher);
            }
            link(&watcher->first, op);
            return;
        }
    }
    // coverage: no memory
    op->waiting_for_room = true;
    op->kernel_result = error;
    link(&ev.failed, op);
}

void cancel(void* state, Op* op) {
    Ev& ev = ev_of(state);
    if (op->waiting_for_room) {
        unlink(&ev.failed, op); // coverage: race
    } else if (!libev_events(op->flags)) {
        nested_end(ev, op);
    } else {
        Watcher& watcher = *ev.watchers[op->fd];
        unlink(&watcher.first, op);
        if (!watcher.first) drop(ev, watcher); // the kernel may not have been told of this watcher yet
    }
    finish(ev, op, -ECANCELED);
}

void closing(void* state, int fd) {
    Ev& ev = ev_of(state);
    if (fd >= ev.watcher_count || !ev.watchers[fd]) return;
    ev.watchers[fd]->backoff = 0;
    drop(ev, *ev.watchers[fd]);
}

} // namespace fiberrt::ev_impl
