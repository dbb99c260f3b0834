// SPDX-License-Identifier: MIT OR Apache-2.0
// The libev backend, for where io_uring is refused: a loop per cord, private to it, that tells when descriptors are
// ready. What is done then is done elsewhere (io/attempt.h); given are polls alone.
//
// A descriptor's watcher is kept when the wait is over, as the next one will likely be for the same: then neither libev
// nor the kernel has to be told anything. Two things keep that honest. What nobody waits for is no longer watched when
// the thread has been idle for a millisecond, or when it is ready and would keep the thread from sleeping, or often had
// the kernel tell of it in vain. And a descriptor may have been closed by close(2), and its number given to another,
// without our knowing: so a wait on a kept watcher is in doubt, and if it lasts for longer than a millisecond or two,
// the kernel is told again, which is without effect if nothing has changed; where that was so, the next doubt lasts
// longer, up to eight of them.
//
// libev rounds its timers to milliseconds. Deadlines are those of a timerfd, which is set only when it must be earlier.
#include "io/attempt.h"
#include "io/backend.h"
#include "io/libev.h"
#include "io/op.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "base/list.h"
#include "core/cord.h"
#include "core/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <new>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#ifdef FIBERRT_EV_PRIVATE
FILE* fiberrt_ev_stderr;
#endif

namespace fiberrt {

namespace {

constexpr int64_t never = INT64_MAX;
constexpr int64_t millisecond_ns = 1'000'000;
constexpr int farthest_epoll = 1 << 20; // from the timer, in numbers: some tenths of a second to look
constexpr int descriptors_mostly = 1024;
constexpr unsigned patiences = 4; // 1, 2, 4, 8 ms
constexpr uint8_t vain_most = 8;  // what is told so often costs about as much as to watch anew

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

Ev& ev_of(void* state) { return *static_cast<Ev*>(state); }
Ev& ev_of_loop(struct ev_loop* loop) { return *static_cast<Ev*>(ev_userdata(loop)); }

// --- The lists of operations: by Op::next and Op::prev, whose head is a plain pointer

void link(Op** list, Op* op) {
    op->prev = nullptr;
    op->next = *list;
    if (op->next) op->next->prev = op;
    *list = op;
}

void unlink(Op** list, Op* op) {
    (op->prev ? op->prev->next : *list) = op->next;
    if (op->next) op->next->prev = op->prev;
}

// --- Events

constexpr unsigned plain_events = POLLIN | POLLOUT | POLLERR | POLLHUP;

// libev's words for what a poll asks for; 0: it has none. (What a peer's shutdown makes readable is POLLIN's too.)
int words_for(unsigned events) {
    if (events & POLLIN) events &= ~unsigned(POLLRDHUP);
    if (events & ~plain_events) return 0;
    return (events & POLLIN ? EV_READ : 0) | (events & POLLOUT ? EV_WRITE : 0);
}

int wanted(const Watcher& watcher) {
    int all = 0;
    for (Op* op = watcher.first; op; op = op->next) all |= words_for(op->flags);
    return all;
}

// What poll(2) would say now; 0: nothing.
int look(const Op& op) {
    pollfd look = {op.fd, short(op.flags), 0};
    if (poll(&look, 1, 0) <= 0) return 0;
    return look.revents & POLLNVAL ? -EBADF : uint16_t(look.revents);
}

// What is watched for.
int events_of(const Watcher& watcher) { return watcher.active() ? watcher.io.events & (EV_READ | EV_WRITE) : 0; }

void finish(Ev& ev, Op* op, int result) {
    ev.waiting--;
    op_done(op, result);
}

// The same with what the kernel has just told. Timeouts and cancels do not count as told: there may always be some.
void finish_told(Ev& ev, Op* op, int result) {
    op->finished = true;
    this_cord->io->told++;
    finish(ev, op, result);
}

// --- Watchers

void trust(Watcher& watcher) {
    if (watcher.linked()) watcher.unlink();
}

// The first wait on a watcher that was kept begins. It ends in a whole millisecond, so that an idle thread wakes for
// many at once.
void doubt(Ev& ev, Watcher& watcher) {
    trust(watcher);
    watcher.ends_at = (ev.now / millisecond_ns + 1 + (1 << watcher.patience)) * millisecond_ns;
    ev.doubts[watcher.patience].push_back(&watcher);
}

// The last wait is over.
void keep(Ev& ev, Watcher& watcher) {
    trust(watcher);
    if (!watcher.active()) return;
    watcher.vain = 0;
    watcher.ends_at = ev.idle + millisecond_ns;
    ev.kept.push_back(&watcher);
}

void drop(Ev& ev, Watcher& watcher) {
    trust(watcher);
    ev_io_stop(ev.loop, &watcher.io);
}

// Watches for other events than until now, none for 0. The kernel is told if that is something new.
void watch(Ev& ev, Watcher& watcher, int events) {
    if (watcher.active()) ev_io_stop(ev.loop, &watcher.io);
    if (!events) return trust(watcher);
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

// libev takes what is no descriptor for an error of the program's, and ends it.
bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Has the kernel told, whatever it knows, which file the number means. It is open.
void tell(Ev& ev, Watcher& watcher, int events) {
    trust(watcher);
    if (watcher.active()) ev_io_stop(ev.loop, &watcher.io);
    ev_io_set(&watcher.io, watcher.io.fd, events);
    ev_io_start(ev.loop, &watcher.io);
}

void tell_again(Ev& ev, Watcher& watcher) {
    if (is_open(watcher.io.fd)) {
        tell(ev, watcher, events_of(watcher));
    } else {
        fail(ev, watcher, -EBADF);
    }
}

void on_ready(struct ev_loop* loop, ev_io* io, int events) {
    Ev& ev = ev_of_loop(loop);
    auto& watcher = *static_cast<Watcher*>(io->data);
    if (events & EV_ERROR) return fail(ev, watcher, is_open(io->fd) ? -ENOMEM : -EBADF);
    if (!watcher.first && !ev.sleeping && ++watcher.vain < vain_most) return; // it is kept
    int used = 0;
    bool mistaken = false;
    for (Op *op = watcher.first, *next; op; op = next) {
        next = op->next;
        int words = words_for(op->flags);
        if (!(words & events)) continue;
        used |= words;
        int told = (events & words & EV_READ ? POLLIN : 0) | (events & words & EV_WRITE ? POLLOUT : 0);
        if (!op->hint) told = look(*op);
        if (!told) {
            mistaken = true;
            continue;
        }
        unlink(&watcher.first, op);
        finish_told(ev, op, told);
    }
    // Reading is kept, once: the next wait will likely be for the same. Writing is not: there mostly is room. But what
    // nobody waits for may be closed before the next look, and must not be anything that the kernel is to be told at
    // that.
    int events_kept = wanted(watcher) | (used & EV_READ);
    if (events_of(watcher) != events_kept) watch(ev, watcher, watcher.first ? events_kept : 0);
    if (mistaken) tell_again(ev, watcher);
    if (!watcher.first) keep(ev, watcher);
}

// Null: no memory.
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

// --- Odd watchers

OddWatcher* odd_of(Op* op) { return reinterpret_cast<OddWatcher*>(op->address); }

void odd_end(Ev& ev, Op* op) {
    OddWatcher* odd = odd_of(op);
    ev_io_stop(ev.loop, &odd->io);
    odd->unlink();
    close(odd->io.fd);
    free(odd);
}

void on_odd(struct ev_loop* loop, ev_io* io, int) {
    Op* op = static_cast<OddWatcher*>(io->data)->op;
    Ev& ev = ev_of_loop(loop);
    int told = look(*op);
    if (!told) return;
    odd_end(ev, op);
    finish_told(ev, op, told);
}

// 0 or -E...
int odd_begin(Ev& ev, Op* op) {
    auto* odd = static_cast<OddWatcher*>(malloc(sizeof(OddWatcher)));
    if (!odd) return -ENOMEM;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    event.events = op->flags;
    // EPERM: of such a file there never is any news. It is waited for all the same, as poll(2) does.
    if (fd < 0 || (epoll_ctl(fd, EPOLL_CTL_ADD, op->fd, &event) < 0 && errno != EPERM)) {
        int error = -errno;
        if (fd >= 0) close(fd);
        free(odd);
        return error;
    }
    ev_io_init(&odd->io, on_odd, fd, EV_READ);
    odd->io.data = odd;
    odd->op = op;
    op->address = odd;
    ev.odd.push_back(odd);
    ev_io_start(ev.loop, &odd->io);
    return 0;
}

// --- Sleeping

// These two are always watched: if the kernel has refused to, when libev had to tell it anew, the next look asks again.
void on_timer(struct ev_loop* loop, ev_io* io, int events) {
    if (events & EV_ERROR) ev_io_start(loop, io);
    ev_of_loop(loop).timer_fired = true;
}

void on_doorbell(struct ev_loop* loop, ev_io* io, int events) {
    if (events & EV_ERROR) ev_io_start(loop, io);
    uint64_t rings;
    if (read(io->fd, &rings, sizeof rings) == sizeof rings) ev_of_loop(loop).rings_come += rings;
}

// Its new epoll will be told of all that is watched. What is kept may have been closed by now, for which libev would
// end the process.
void on_renewal(struct ev_loop* loop, struct ev_fork*, int) {
    Ev& ev = ev_of_loop(loop);
    ev.renewed = ev.moved = true;
    while (Watcher* watcher = ev.kept.front()) drop(ev, *watcher);
}

// Whether it is the epoll instance of the loop, which alone watches the loop's timer. To any other that is added for
// the moment, without an event.
// (By no call that ThreadSanitizer knows: it takes numbers of others for races with these.)
bool watches_timer(const Ev& ev, int epoll) {
    epoll_event nothing = {};
    if (syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, ev.timer.fd, &nothing) == 0) {
        syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, ev.timer.fd, nullptr);
        return false;
    }
    return errno == EEXIST;
}

// What libev does not say when it can make no loop, or watch no descriptor.
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

// libev does not tell which descriptor its epoll is. It was opened soon after the timer's, and is likely to be near it.
// Below 0: the timer or the doorbell are not watched, and why; -ENOTSUP: it is not there.
int epoll_of(const Ev& ev) {
    if (!ev.timer.active || !ev.doorbell.active) return why_refused(ev.timer.fd);
    KeepErrno keep;
    for (int away = 1; away < farthest_epoll; away++) {
        if (away <= INT_MAX - ev.timer.fd && watches_timer(ev, ev.timer.fd + away)) return ev.timer.fd + away;
        if (away <= ev.timer.fd && watches_timer(ev, ev.timer.fd - away)) return ev.timer.fd - away;
    }
    return -ENOTSUP;
}

// Before the callbacks.
void on_look(struct ev_loop* loop) noexcept {
    Ev& ev = ev_of_loop(loop);
    if (ev.moved) ev.epoll_fd = epoll_of(ev);
    ev.moved = false;
    int64_t now = clock_now();
    if (ev.sleeping || ev.left) ev.idle += now - ev.now;
    ev.left = false;
    ev.now = now;
}

// Within a look, where libev has the kernel forget a number of which it was told in vain, though another cord may be
// closing it, as nobody uses it any more: whichever comes first, nothing comes of it.
void on_pending(struct ev_loop* loop) noexcept {
    hooks::orderless_ends();
    ev_invoke_pending(loop);
    hooks::orderless_begins();
}

void run_loop(Ev& ev, int how) {
    hooks::orderless_begins();
    ev_run(ev.loop, how);
    hooks::orderless_ends();
}

// Setting it anew also makes one that has fired unreadable.
void set_timer(Ev& ev, int64_t deadline) {
    if (!ev.timer_fired && deadline >= ev.timer_at) return;
    itimerspec at = {};
    if (deadline != never) {
        if (deadline < 1) deadline = 1; // 0 would mean never
        at.it_value = {deadline / 1'000'000'000, deadline % 1'000'000'000};
    }
    FIBERRT_CHECK(timerfd_settime(ev.timer.fd, TFD_TIMER_ABSTIME, &at, nullptr) == 0);
    ev.timer_at = deadline;
    ev.timer_fired = false;
}

// When the first doubt ends; never: there is none.
int64_t doubts_end_at(Ev& ev) {
    int64_t first = never;
    for (auto& list : ev.doubts) {
        if (!list.empty() && list.front()->ends_at < first) first = list.front()->ends_at;
    }
    return first;
}

// The first one of a list whose end has come; null: there is none.
Watcher* ended(List<Watcher>& list, int64_t now) {
    Watcher* watcher = list.front();
    return watcher && watcher->ends_at <= now ? watcher : nullptr;
}

// No longer watches what nobody waits for, and has the kernel told of what has waited for long. A look must follow at
// once, before anybody closes one of these.
void end_doubts(Ev& ev) {
    while (Watcher* watcher = ended(ev.kept, ev.idle)) drop(ev, *watcher);
    for (auto& list : ev.doubts) {
        while (Watcher* watcher = ended(list, ev.now)) {
            if (watcher->patience < patiences - 1) watcher->patience++;
            tell_again(ev, *watcher);
        }
    }
}

bool report_failed(Ev& ev) {
    if (!ev.failed) return false;
    while (Op* op = ev.failed) {
        unlink(&ev.failed, op);
        finish(ev, op, op->kernel_result);
    }
    return true;
}

// libev ends the process if it finds no memory. What it keeps of each descriptor, and of those that are changed at a
// time, is made at once, for as many as a process mostly may have.
void make_room(Ev& ev) {
    ev_io io;
    ev_io_init(&io, on_ready, descriptors_mostly - 1, EV_READ);
    for (; io.fd >= 0; io.fd--) {
        ev_io_start(ev.loop, &io);
        ev_io_stop(ev.loop, &io); // the kernel is told nothing of it
    }
}

// --- The interface

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
    fiberrt_ev_stderr = stderr; // under the lock of backends
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
        run_loop(*ev, EVRUN_NOWAIT); // tells the epoll of the timer, and finds which it is by that
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
        // Whoever owes one would otherwise ring at a descriptor that has become somebody else's.
        pollfd wait = {ev.doorbell.fd, POLLIN, 0};
        poll(&wait, 1, -1);
        on_doorbell(ev.loop, &ev.doorbell, EV_READ);
    }
    ev_free(&ev);
}

// In the child of a fork: whether the number is still that of the loop's epoll, which another thread may just have been
// renewing. The epoll, which is the parent's, too, is asked nothing; so where the kernel does not tell, it is.
bool is_epoll_still(const Ev& ev) {
    kcmp_epoll_slot place = {uint32_t(ev.epoll_fd), uint32_t(ev.timer.fd), 0};
    pid_t pid = getpid();
    long order = syscall(SYS_kcmp, pid, pid, KCMP_EPOLL_TFD, ev.timer.fd, &place);
    return order == 0 || (order < 0 && errno != ENOENT && errno != EINVAL && errno != EBADF);
}

// Nothing is said to the epoll. Of another thread's the memory is left alone: libev may have been changing it, and some
// call an odd watcher, whose epoll thus stays open.
void ev_disown(void* state, bool own) {
    Ev& ev = ev_of(state);
    if (!own) {
        if (ev.epoll_fd >= 0 && is_epoll_still(ev)) close(ev.epoll_fd);
        close(ev.timer.fd);
        close(ev.doorbell.fd);
        return;
    }
    while (OddWatcher* odd = ev.odd.pop_front()) {
        close(odd->io.fd);
        free(odd);
    }
    ev_free(&ev);
}

void ev_give(void* state, Op* op) {
    Ev& ev = ev_of(state);
    FIBERRT_CHECK(op->code == OpCode::poll);
    ev.waiting++;
    int words = words_for(op->flags);
    op->waiting_for_room = false;
    op->finished = false;
    int error = -ENOMEM;
    if (!words) {
        error = odd_begin(ev, op);
        if (!error) return;
    } else if (Watcher* watcher = watcher_of(ev, op->fd)) {
        if (!watcher->first && watcher->ends_at <= ev.idle) drop(ev, *watcher);
        int now = events_of(*watcher);
        bool more = words & ~now;
        if (!more || is_open(op->fd)) {
            if (more) {
                tell(ev, *watcher, now | words);
            } else if (!watcher->first) {
                doubt(ev, *watcher);
            }
            link(&watcher->first, op);
            return;
        }
        error = -EBADF;
    }
    op->waiting_for_room = true;
    op->kernel_result = error;
    link(&ev.failed, op);
}

void ev_cancel(void* state, Op* op) {
    Ev& ev = ev_of(state);
    if (op->waiting_for_room) {
        unlink(&ev.failed, op);
    } else if (!words_for(op->flags)) {
        odd_end(ev, op);
    } else {
        Watcher& watcher = *ev.watchers[op->fd];
        unlink(&watcher.first, op);
        if (!watcher.first) drop(ev, watcher); // of it, too, the kernel may not have been told yet
    }
    finish(ev, op, -ECANCELED);
}

void ev_closing(void* state, int fd) {
    Ev& ev = ev_of(state);
    if (fd >= ev.watcher_count || !ev.watchers[fd]) return;
    ev.watchers[fd]->patience = 0;
    drop(ev, *ev.watchers[fd]);
}

// Looks, and sleeps until there is something or the deadline has come, poll_only: not at all. True: some waits
// have ended.
bool look_at_kernel(Ev& ev, int64_t deadline) {
    uint64_t waiting_before = ev.waiting;
    ev.now = clock_now();
    end_doubts(ev);
    if (ev.waiting != waiting_before) deadline = poll_only; // somebody's descriptor was closed, who is runnable now
    ev.sleeping = deadline != poll_only;
    if (ev.sleeping) {
        int64_t doubts_end = doubts_end_at(ev);
        set_timer(ev, doubts_end < deadline ? doubts_end : deadline);
    }
    run_loop(ev, ev.sleeping ? EVRUN_ONCE : EVRUN_NOWAIT);
    return ev.waiting != waiting_before;
}

bool ev_poll(void* state, int64_t deadline, bool) {
    Ev& ev = ev_of(state);
    if (report_failed(ev)) deadline = poll_only;
    // Until those that were told have had their turns the kernel would tell of the same again.
    if (deadline == poll_only) return ev.waiting && !this_cord->io->told && look_at_kernel(ev, poll_only);
    look_at_kernel(ev, deadline);
    return true;
}

// --- In a foreign loop

int ev_fd(void* state) {
    Ev& ev = ev_of(state);
    if (ev.epoll_fd < 0) ev.moved = true; // it is looked for again
    look_at_kernel(ev, poll_only);
    ev.renewed = false;
    return ev.epoll_fd;
}

int64_t ev_leave(void* state) {
    Ev& ev = ev_of(state);
    if (report_failed(ev)) return 0;
    if (ev.timer_at != never) { // the foreign loop has a timer of the cord's own
        ev.timer_fired = true;
        set_timer(ev, never);
    }
    uint64_t rings_before = ev.rings_come;
    // The ring is read now, and would not be seen.
    if (look_at_kernel(ev, poll_only) || ev.rings_come != rings_before) return 0;
    if (ev.renewed) return other_fd;
    ev.left = true;
    return doubts_end_at(ev);
}

} // namespace

const Backend ev_backend = {
    .name = "ev",
    .open = ev_open,
    .close = ev_close,
    .give = ev_give,
    .cancel = ev_cancel,
    .poll = ev_poll,
    .attempt = attempt,
    .closing = ev_closing,
    .fd = ev_fd,
    .leave = ev_leave,
    .disown = ev_disown,
};

} // namespace fiberrt
