// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a cord in a foreign loop.
#include "embed/embed.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "core/cancel.h"
#include "core/cord.h"
#include "core/backend.h"
#include "core/scheduler.h"
#include "io/io.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// How long the fibers may keep the loop waiting, if one is always runnable.
constexpr int64_t slice_ns = 1'000'000;

void set_timer(Cord& cord, int64_t deadline) {
    cord.loop.timer = deadline;
    itimerspec at = {};
    if (deadline != never) at.it_value = {deadline / 1'000'000'000, deadline % 1'000'000'000};
    if (deadline == 0) at.it_value.tv_nsec = 1; // zero would disarm it
    int error = timerfd_settime(cord.loop.timer_fd, TFD_TIMER_ABSTIME, &at, nullptr);
    FIBERRT_CHECK(error == 0);
}

int watch(int epoll, int fd) {
    if (fd < 0) return fd;
    epoll_event event = {};
    event.events = EPOLLIN;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

bool go_to_loop(Cord& cord) {
    if (!mark_asleep(cord)) return false;
    int64_t until = cord.io->backend->suspend(cord.io->state);
    if (until == other_fd) cord.loop.stale = true;
    if (cord.loop.stale) { // stays set until the epoll watches the new descriptor
        cord.loop.stale = watch(cord.loop.fd, cord.io->backend->fd(cord.io->state)) < 0;
        until = 0;
    }
    if (until == 0 || !cord.sched.queue.empty()) {
        mark_awake(cord);
        return false;
    }
    int64_t idle = idle_until(cord);
    if (idle < until) until = idle;
    if (until != cord.loop.timer) set_timer(cord, until);
    if (cord.hooked & hooked_by_recorder) cord.recorder.ops->sleeps(cord);
    this_cord = nullptr;
    return true;
}

// Returns the thread to the loop. False: not yet, there is a message or a runnable fiber.
bool suspend(Cord& cord) {
    KeepErrno keep;
    if (!cord.work) return go_to_loop(cord);
    const WorkOps& work = *cord.work->ops;
    work.suspended(cord, true); // before another thread can see it idle
    bool idle = !work.idle(cord);
    if (idle && go_to_loop(cord)) return true;
    work.suspended(cord, false);
    if (idle) work.busy(cord);
    return false;
}

void come_back(Cord& cord) {
    this_cord = &cord;
    if (cord.hooked & hooked_by_recorder) cord.recorder.ops->woke(cord);
    mark_awake(cord);
    if (!cord.work) return;
    cord.work->ops->suspended(cord, false);
    cord.work->ops->busy(cord);
}

// Keeps other threads from forking while this thread opens or closes descriptors of the loop: the child must find all
// of them.
class NoForkMeanwhile {
public:
    NoForkMeanwhile() { backends_lock(); }
    ~NoForkMeanwhile() { backends_unlock(); }
    NoForkMeanwhile(const NoForkMeanwhile&) = delete;
    NoForkMeanwhile& operator=(const NoForkMeanwhile&) = delete;
};

int watch_all(Cord& cord, int epoll, int timer) {
    int error = watch(epoll, timer);
    if (!error) error = watch(epoll, cord.io->backend->fd(cord.io->state));
    // Watched directly, because the kernel does not report one eventfd at once to a ring's eventfd.
    if (!error && cord.doorbell_fd >= 0) error = watch(epoll, cord.doorbell_fd);
    return error;
}

} // namespace

namespace {

void end(Cord& cord) {
    NoForkMeanwhile held;
    close(cord.loop.fd);
    close(cord.loop.timer_fd);
    cord.loop = {};
    cord.loop.fd = -1;
}

void resume(Cord& cord) {
    KeepErrno keep;
    come_back(cord);
    set_timer(cord, 0);
}

constexpr LoopOps loop_ops = {resume, end};

} // namespace

int embed(Cord& cord) {
    KeepErrno keep;
    if (!cord.io->backend->fd) return -ENOTSUP;
    if (suspended_cord() != &cord) return -ENOMEM; // no memory for the thread's key: resume would not find the cord
    NoForkMeanwhile held;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int error = epoll < 0 || timer < 0 ? -errno : watch_all(cord, epoll, timer);
    if (error) {
        if (timer >= 0) close(timer);
        if (epoll >= 0) close(epoll);
        return error;
    }
    cord.loop.ops = &loop_ops;
    cord.loop.fd = epoll;
    cord.loop.timer_fd = timer;
    set_timer(cord, 0);
    return 0;
}

void embed_forked(Cord& cord) {
    if (cord.loop.fd < 0) return;
    close(cord.loop.fd);
    close(cord.loop.timer_fd);
    cord.loop = {};
    cord.loop.fd = -1;
}

int run(Cord& cord, int64_t deadline) {
    if (!this_cord) come_back(cord); // not by resume: suspend() sets the timer
    Fiber* me = cord.sched.current;
    if (poll_now(cord)) cord.coalescing.note_wake(cord.poll.last_ns);
    int64_t begun = cord.poll.last_ns;
    bool some = false;
    int result = 0;
    while (!result) {
        bool long_enough = some && cord.poll.last_ns - begun >= slice_ns;
        if (me->sched.pending) {
            result = why_refused(cord, me); // not check_pending(): no fiber gets a turn
        } else if (!cord.sched.queue.empty() && long_enough) {
            poll_now(cord);
            result = 1;
        } else if (!cord.sched.queue.empty()) {
            some = true;
            reschedule(cord, me);
            if (cord.sched.queue.empty() && cord.loop.fd < 0) poll_now(cord); // with a descriptor, suspend() polls
        } else if (!some && deadline > cord.poll.last_ns) {
            result = sleep_until_runnable(cord, deadline);
            begun = cord.poll.last_ns;
        } else if (cord.loop.fd < 0 || suspend(cord)) {
            return 0;
        } else {
            some = true;
            poll_now(cord);
            if (long_enough) result = 1;
        }
    }
    if (cord.loop.fd >= 0) set_timer(cord, 0);
    return result;
}

int64_t next_run(Cord& cord) {
    if (cord.inbox.has_message()) return 0;
    if (!this_cord) return cord.loop.timer;
    return cord.sched.queue.empty() && cord.loop.fd < 0 ? idle_until(cord) : 0;
}

} // namespace fiberrt
