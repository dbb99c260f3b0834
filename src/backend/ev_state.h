// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a cord's libev loop, and what the files of this backend share.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/backend.h"
#include "backend/libev.h"
#include "io/op.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>

namespace fiberrt::ev_impl {

constexpr int64_t millisecond_ns = 1'000'000;
constexpr int descriptors_mostly = 1024;
constexpr unsigned patiences = 4; // 1, 2, 4, 8 ms
constexpr uint8_t vain_most = 8;  // so many reports in vain cost about as much as to watch anew

// The watcher of a descriptor's number, and the operations that wait on it.
struct Watcher : Link { // linked: waited on, and in doubt; or kept, and not waited on
    ev_io io;
    struct Op* first;
    int64_t ends_at;  // the doubt, in time: then the kernel is told; the keeping, in the thread's idle time
    uint8_t patience; // how often the kernel was told in vain,
    uint8_t vain;     // and how often it told since it is kept

    bool active() const { return io.active; }
};

// What libev has no words for, e.g. POLLPRI: an epoll instance that asks the kernel in poll's own, and is itself
// watched.
struct OddWatcher : Link {
    ev_io io;
    struct Op* op;
};

struct Ev {
    struct ev_loop* loop;
    ev_io timer;
    ev_io doorbell;
    ev_fork renewal;  // libev makes itself a new epoll instance, if it is told of what it does not know,
    bool renewed;     // and has, since a foreign loop was told which it is,
    bool moved;       // or since the last look: its number may be another
    int epoll_fd;     // that instance; or why it is not known, -E...
    int64_t timer_at; // when the timerfd will fire; never: it is not set
    bool timer_fired; // and is still readable: it must be set anew before the next sleep
    uint64_t rings_come;
    uint64_t waiting;   // operations
    Watcher** watchers; // by descriptor
    int watcher_count;
    List<Watcher> kept; // in order of their ends, as are these:
    List<Watcher> doubts[patiences];
    List<OddWatcher> odd;
    Op* failed;    // given, and there was no memory to watch them
    bool sleeping; // in the poll that is under way: no fiber is runnable
    bool left;     // the thread went off to a foreign loop at the last look
    int64_t now;   // at the last look at the kernel
    int64_t idle;  // for how long the thread has slept until then, in all
};

inline Ev& ev_of(void* state) { return *static_cast<Ev*>(state); }
inline Ev& ev_of_loop(struct ev_loop* loop) { return *static_cast<Ev*>(ev_userdata(loop)); }

// The lists of operations: by Op::next and Op::prev, whose head is a plain pointer

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

// libev's words for what a poll asks for; 0: it has none. (What a peer's shutdown makes readable is POLLIN's too.)
inline int words_for(unsigned events) {
    if (events & POLLIN) events &= ~unsigned(POLLRDHUP);
    if (events & ~plain_events) return 0;
    return (events & POLLIN ? EV_READ : 0) | (events & POLLOUT ? EV_WRITE : 0);
}

// What poll(2) would say now; 0: nothing.
inline int look(const Op& op) {
    pollfd look = {op.fd, short(op.flags), 0};
    if (poll(&look, 1, 0) <= 0) return 0;
    return look.revents & POLLNVAL ? -EBADF : uint16_t(look.revents);
}

// The events that libev watches for.
inline int events_of(const Watcher& watcher) { return watcher.active() ? watcher.io.events & (EV_READ | EV_WRITE) : 0; }

inline void finish(Ev& ev, Op* op, int result) {
    ev.waiting--;
    op_done(op, result);
}

// Ends an operation with an event that the kernel has just told. Timeouts and cancels do not count as told: there may
// always be some.
inline void finish_told(Ev& ev, Op* op, int result) {
    op->finished = true;
    this_cord->io->told++;
    finish(ev, op, result);
}

// ---- Watchers (ev_watch.cc)

void drop(Ev& ev, Watcher& watcher); // no longer watches it
// Has the kernel told, whatever it knows, which file the number means; its waits fail if that is closed.
void tell_again(Ev& ev, Watcher& watcher);
void make_room(Ev& ev);
void give(void* state, Op* op);
void cancel(void* state, Op* op);
void closing(void* state, int fd);

// ---- Watchers of what libev has no words for (ev_odd.cc)

int odd_begin(Ev& ev, Op* op); // 0 or -E...
void odd_end(Ev& ev, Op* op);

// ---- The loop's epoll instance (ev_epoll.cc)

// Why libev can make no loop, or watch this descriptor, which it does not say.
int why_refused(int fd);
// Which descriptor it is. Below 0: the timer or the doorbell are not watched, and why; -ENOTSUP: it was not found.
int epoll_of(const Ev& ev);
// In the child of a fork: whether the number is still that of the loop's epoll, which another thread may just have been
// renewing.
bool is_epoll_still(const Ev& ev);

} // namespace fiberrt::ev_impl
