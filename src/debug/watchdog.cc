// SPDX-License-Identifier: MIT OR Apache-2.0
// The watchdog's thread.
#include "debug/watchdog.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/peek.h"
#include "base/relaxed.h"
#include "base/report.h"
#include "base/signals.h"
#include "core/begin.h"
#include "core/cord.h"
#include "debug/ask_thread.h"
#include "core/hooks.h"
#include "core/backend.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int looks_per_limit = 4;                // in the time that a fiber may run
constexpr int64_t answer_most_ns = 1'000'000'000; // how long it waits for a thread that was sent the signal

enum class WatchdogLife : uint8_t { none, lives, stopping };

constinit pthread_mutex_t watchdog_mutex = PTHREAD_MUTEX_INITIALIZER; // protects these, up to `handler`
WatchdogLife watchdog_life = WatchdogLife::none;
pthread_t watchdog_thread;
fiber_watchdog_t watchdog_settings;
constinit Relaxed<uint32_t> watchdog_number; // the number of watchdogs that this process has started
constinit AskSignal ask_signal;

constinit std::atomic<uint32_t> stop_asked{0}; // a futex

// Sleeps while *word is `value`, at most until the time has passed.
void wait_on(std::atomic<uint32_t>& word, uint32_t value, int64_t ns) {
    timespec at = {ns / 1'000'000'000, ns % 1'000'000'000};
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &at, nullptr, 0);
}
void ring(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

// Reads which fiber runs on a cord now, and how often the cord has switched and polled. These change meanwhile: a look
// that reads some of them too late differs from the next look, so the watchdog only looks again. The fiber is null if
// none runs, or if the main flow runs and has no other fiber to keep waiting.
FIBERRT_UNSANITIZED_READ Watched look_at(const Cord& cord) {
    Watched now = {};
    now.budget = peek(cord.sched.budget);
    now.gave_way = peek(cord.counters.gave_way);
    now.polls = peek(cord.counters.polls);
    Fiber* fiber = peek(cord.sched.current); // slots are never unmapped
    if (!fiber || (fiber == peek(cord.main_flow.fiber) && peek(cord.counts.fibers) == 1)) return now;
    now.fiber = fiber;
    now.fiber_generation = __atomic_load_n(reinterpret_cast<const uint32_t*>(&fiber->generation), __ATOMIC_RELAXED);
    return now;
}

// Whether the fiber runs. The watchdog found it by a plain pointer, so it may not see yet how the slot was made. A
// thread that makes slots holds their mutex, so taking that mutex makes it visible.
bool runs(const Cord& cord, const Fiber* fiber) {
    if (!fiber || cord.inbox.is_asleep()) return false;
    fibers.lock();
    fibers.unlock();
    return fiber->sched.state == State::running;
}

// Whether there has been no switch between the two looks.
bool same(const Watched& one, const Watched& other) {
    return one.fiber == other.fiber && one.fiber_generation == other.fiber_generation && one.budget == other.budget &&
           one.gave_way == other.gave_way && one.polls == other.polls;
}

bool still_runs(const Cord& cord, const void* watched) {
    return same(*static_cast<const Watched*>(watched), look_at(cord));
}

// Asks the thread for the backtrace of the fiber that has been found. Null: out has it; else why it has not.
const char* ask_for_frames(Cord& cord, ThreadFrames& out) {
    Watched about = cord.watched;
    switch (Question{cord, ask_signal, still_runs, &about, answer_most_ns}.ask(out)) {
    case Question::Result::answered: return nullptr;
    case Question::Result::no_stack: return "fiberrt: no backtrace: its thread has no signal stack, or a small one\n";
    case Question::Result::silent: return "fiberrt: no backtrace: its thread does not handle the signal\n";
    case Question::Result::not_wanted: return "fiberrt: no backtrace: the fiber has given way since\n";
    }
    __builtin_unreachable();
}

void put_seconds(Report& r, int64_t ns) {
    r.number(uint64_t(ns) / 1'000'000'000);
    r.put('.');
    r.number(uint64_t(ns) / 1'000 % 1'000'000, 10, 6);
    r.put(" s");
}

void write_report(const fiber_overrun_t& overrun, bool main_flow, const char* about_frames) {
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put("fiberrt: fiber ");
    r.id(overrun.fiber.id);
    if (overrun.fiber_name[0]) r.name(overrun.fiber_name);
    r.put(" of cord ");
    r.id(overrun.cord.id);
    if (overrun.cord_name[0]) r.name(overrun.cord_name);
    r.put(main_flow ? ", main flow, has kept its thread for " : " has kept its thread for ");
    put_seconds(r, overrun.running_ns);
    r.put('\n');
    if (about_frames) r.put(about_frames);
    r.frames(overrun.frames, overrun.frame_count);
    r.end();
}

void report_keeper(const fiber_watchdog_t& what, Cord& cord, uint32_t generation, int64_t now) {
    const Watched& found = cord.watched;
    Fiber* fiber = found.fiber;
    fiber_overrun_t overrun = {};
    overrun.fiber.id = make_id(Tag::fiber, fiber->index, found.fiber_generation);
    overrun.cord.id = make_id(Tag::cord, cord.index, generation);
    overrun.running_ns = now - found.since;
    {
        Locked locked(fiber->remote.lock);
        memcpy(overrun.fiber_name, fiber->name, sizeof overrun.fiber_name);
    }
    {
        Locked locked(cord.lock);
        memcpy(overrun.cord_name, cord.name, sizeof overrun.cord_name);
    }
    overrun.fiber_name[sizeof overrun.fiber_name - 1] = '\0';
    overrun.cord_name[sizeof overrun.cord_name - 1] = '\0';
    const char* about_frames = nullptr;
    ThreadFrames answer = {};
    if (what.signal) {
        about_frames = ask_for_frames(cord, answer);
        if (!about_frames) about_frames = "fiberrt: its backtrace:\n";
        overrun.frames = answer.frames;
        overrun.frame_count = answer.count;
    }
    if (what.report) {
        what.report(what.data, &overrun);
    } else {
        write_report(overrun, fiber->main_flow(), about_frames);
    }
}

void watch(const fiber_watchdog_t& what, uint32_t this_run, Cord& cord) {
    uint32_t generation = cord.generation.load(std::memory_order_acquire);
    Watched& before = cord.watched;
    Watched now = look_at(cord);
    if (!(generation & 1) || !runs(cord, now.fiber)) {
        before.fiber = nullptr;
        return;
    }
    now.cord_generation = generation;
    now.run = this_run;
    now.since = clock_now();
    if (before.run != this_run || before.cord_generation != generation || !same(before, now)) {
        before = now;
    } else if (!before.reported && now.since - before.since >= what.limit_ns) {
        before.reported = true;
        report_keeper(what, cord, generation, now.since);
    }
}

// Whether the watchdog's thread must end. If its report has forked, the child may have started another watchdog since.
bool is_over(uint32_t this_run) { return stop_asked.load(std::memory_order_acquire) || watchdog_number != this_run; }

void* watch_all(void*) {
    fiber_watchdog_t what = watchdog_settings; // set before the thread was started
    uint32_t this_run = watchdog_number;
    pthread_setname_np(pthread_self(), "fiberrt-watch");
    while (!is_over(this_run)) {
        cords.each([&](Cord* cord) {
            if (!is_over(this_run)) watch(what, this_run, *cord);
        });
        int64_t next = clock_now() + what.limit_ns / looks_per_limit;
        for (int64_t left; !is_over(this_run) && (left = next - clock_now()) > 0;) wait_on(stop_asked, 0, left);
    }
    return nullptr;
}

int make_watchdog_thread() {
    stop_asked.store(0, std::memory_order_relaxed);
    return thread_start(&watchdog_thread, nullptr, watch_all, nullptr);
}

} // namespace

int watchdog_start(const fiber_watchdog_t& what) {
    KeepErrno keep;
    if (what.limit_ns < FIBER_MSEC(1)) return -EINVAL;
    if (int error = what.signal ? AskSignal::prepare(what.signal) : 0) return error;
    if (!process_begin()) return -ENOMEM; // there may have been no cord yet
    if (environment) return -ENOTSUP;
    MutexGuard guard(watchdog_mutex);
    if (watchdog_life != WatchdogLife::none) return -EBUSY;
    if (what.signal) {
        if (int error = ask_signal.begin(what.signal)) return error;
    }
    watchdog_settings = what;
    watchdog_number = watchdog_number + 1;
    if (int error = make_watchdog_thread()) {
        ask_signal.end();
        return error;
    }
    watchdog_life = WatchdogLife::lives;
    return 0;
}

int watchdog_stop() {
    KeepErrno keep;
    {
        MutexGuard guard(watchdog_mutex);
        if (watchdog_life == WatchdogLife::none) return -ESRCH;
        if (pthread_equal(watchdog_thread, pthread_self())) return -EDEADLK;
        if (watchdog_life == WatchdogLife::stopping) return -EBUSY;
        watchdog_life = WatchdogLife::stopping;
        stop_asked.store(1, std::memory_order_release);
    }
    ring(stop_asked);
    int cancellable; // a pthread_cancel of this thread would leave the watchdog half stopped for ever
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    pthread_join(watchdog_thread, nullptr); // without the mutex: its report may fork
    pthread_setcancelstate(cancellable, nullptr);
    MutexGuard guard(watchdog_mutex);
    watchdog_life = WatchdogLife::none;
    return ask_signal.end();
}

void watchdog_lock() { pthread_mutex_lock(&watchdog_mutex); }
void watchdog_unlock() { pthread_mutex_unlock(&watchdog_mutex); }

void watchdog_forked() {
    watchdog_life = WatchdogLife::none;
    stop_asked.store(1, std::memory_order_relaxed); // if its report has forked, the thread in the child ends
    ask_signal.end();
}

} // namespace fiberrt
