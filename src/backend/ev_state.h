// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a cord's libev loop, and the functions that the files ev*.cc share.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/backend.h"
#include "backend/libev.h"
#include "io/file_status.h"
#include "io/op.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>

namespace fiberrt::ev_impl {

constexpr int64_t millisecond_ns = 1'000'000;
constexpr int descriptors_mostly = 1024;
constexpr unsigned backoff_levels = 4;       // 1, 2, 4, 8 ms
constexpr uint8_t needless_reports_most = 8; // this many needless reports cost about as much as a new watch

// The watcher of a descriptor's number, and the operations that wait on it. ev_watch.cc explains how a watcher is
// cached and revalidated.
struct Watcher : Link { // linked: in Ev::unvalidated if it has waiters, else in Ev::cached
    ev_io io;
    struct Op* first;
    int64_t expires_at;       // when it is revalidated; or, if it is cached, dropped: in the thread's idle time
    uint8_t backoff;          // how many revalidations have found no other file
    uint8_t needless_reports; // how often the kernel has reported an event since it was cached

    bool active() const { return io.active; }
};

// A watcher of events that libev does not know, for example POLLPRI. It has an epoll instance for poll(2)'s own events,
// and libev watches that instance.
struct NestedWatcher : Link {
    ev_io io;
    struct Op* op;
};

struct Ev {
    struct ev_loop* loop;
    ev_io timer;
    ev_io doorbell;
    ev_fork renewal;  // called before libev makes a new epoll instance, after an unknown event
    bool renewed;     // it has made one since a foreign loop was given epoll_fd
    bool moved;       // it has made one since the last poll: epoll_fd may be wrong
    int epoll_fd;     // the epoll instance; or -E..., why it is not known
    int64_t timer_at; // when the timerfd fires; never: it is not set
    bool timer_fired; // and is still readable: must be set before the next sleep
    uint64_t rings_come;
    uint64_t waiting;   // how many operations wait
    Watcher** watchers; // indexed by descriptor
    int watcher_count;
    List<Watcher> cached; // in the order of their expiry, like the next lists
    List<Watcher> unvalidated[backoff_levels];
    List<NestedWatcher> nested;
    Op* failed;    // operations that could not be watched for lack of memory
    bool sleeping; // the present poll may sleep, as no fiber is runnable
    bool left;     // the thread returned to a foreign loop after the last poll
    int64_t now;   // time of the last poll
    int64_t idle;  // how long the thread has slept until then, in all
};

inline Ev& ev_of(void* state) { return *static_cast<Ev*>(state); }
inline Ev& ev_of_loop(struct ev_loop* loop) { return *static_cast<Ev*>(ev_userdata(loop)); }

// Lists of operations by Op::next and Op::prev; the head is a plain pointer.

inline void link(Op** list, Op* op) {
    op->prev = nullptr;
    op->next = *list;
    if (op->next) op->next->prev = op;
    *list = op;
}

inline void unlink(Op** list, Op* op) {
    (op->prev ? op->prev->next : *list) = op->next;
    if (op->next) op->next->prev = op->prev;
}

constexpr unsigned plain_events = POLLIN | POLLOUT | POLLERR | POLLHUP;

// Returns libev's events for those of a poll; 0: libev does not have them. (POLLIN covers a shutdown by the peer.)
inline int libev_events(unsigned events) {
    if (events & POLLIN) events &= ~unsigned(POLLRDHUP);
    if (events & ~plain_events) return 0;
    return (events & POLLIN ? EV_READ : 0) | (events & POLLOUT ? EV_WRITE : 0);
}

// Returns the events that poll(2) reports now; 0: none.
inline int events_now(const Op& op) {
    pollfd look = {op.fd, short(op.flags), 0};
    if (poll(&look, 1, 0) <= 0) return 0;
    return look.revents & POLLNVAL ? -EBADF : uint16_t(look.revents);
}

// Returns the events that libev watches for.
inline int events_of(const Watcher& watcher) { return watcher.active() ? watcher.io.events & (EV_READ | EV_WRITE) : 0; }

inline void finish(Ev& ev, Op* op, int result) {
    ev.waiting--;
    op_done(op, result);
}

// Ends an operation with an event that the kernel has just reported. Timeouts and cancels do not count as reported, because
// there may be some in every poll.
inline void finish_reported(Ev& ev, Op* op, int result) {
    op->finished = true;
    this_cord->io->unconsumed++;
    finish(ev, op, result);
}

// ---- Watchers (ev_watch.cc)

void drop(Ev& ev, Watcher& watcher); // stops the watch
// Registers the descriptor's number again, whatever file it means now. If it is closed, the watcher's waits fail.
void revalidate(Ev& ev, Watcher& watcher);
void make_room(Ev& ev);
void give(void* state, Op* op);
void cancel(void* state, Op* op);
void closing(void* state, int fd);

// ---- Watchers of events that libev does not know (ev_nested.cc)

int nested_begin(Ev& ev, Op* op); // 0 or -E...
void nested_end(Ev& ev, Op* op);

// ---- The loop's epoll instance (ev_epoll.cc)

// Returns the error for which libev could make no loop, or not watch this descriptor; libev itself does not tell.
int why_refused(int fd);
// Whether a file may be an epoll instance. Other kinds that have no type either, such as eventfds, give true too.
inline bool may_be_epoll(const struct stat& file) { return !type_of(file); }
// Returns 0 if libev can be told to watch the descriptor; otherwise the error of epoll_ctl(2) for which libev would end
// the process.
int why_unwatchable(const Ev& ev, int fd);
// Returns the descriptor of the epoll. -ENOTSUP: it was not found; another -E...: why the timer or the doorbell is not
// watched.
int epoll_of(const Ev& ev);
// In the child of a fork: whether the number is still that of the loop's epoll. Another thread may just have been
// replacing it.
bool is_epoll_still(const Ev& ev);

} // namespace fiberrt::ev_impl
