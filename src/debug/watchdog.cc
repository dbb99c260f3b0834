// SPDX-License-Identifier: MIT OR Apache-2.0
// The watchdog's thread, and what a fiber's thread does when it is asked for its backtrace:
//
//   watchdog                          the fiber's thread
//   answer = asked, the signal ─────▶ answer = taking; walks its frames; answer = taken
//     waits for a second     ◀─────── rings
//   answer = nobody_asked: a signal that comes later finds nothing to do
#include "debug/watchdog.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/peek.h"
#include "base/relaxed.h"
#include "base/report.h"
#include "base/signals.h"
#include "core/begin.h"
#include "core/cord.h"
#include "debug/handlers.h"
#include "core/hooks.h"
#include "core/backend.h"

#include <errno.h>
#include <execinfo.h>
#include <initializer_list>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int looks = 4;                          // in the time that a fiber may run
constexpr int64_t answer_most_ns = 1'000'000'000; // how long it waits for a thread that was sent the signal
constexpr int frames_most = 64;

enum class Life : uint8_t { none, lives, stopping };

constinit pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // protects these, up to `handler`
Life life = Life::none;
pthread_t thread;
fiber_watchdog_t wanted;
constinit Relaxed<uint32_t> run; // the number of watchdogs that this process has started
constinit SignalHandler handler;

constinit std::atomic<uint32_t> stop_asked{0}; // a futex

enum Answer : uint32_t { nobody_asked, asked, taking, taken };
constinit std::atomic<uint32_t> answer{nobody_asked}; // a futex; the thread that changes it from asked owns these:
constinit std::atomic<Cord*> asked_cord{nullptr};
Watched asked_about;
void* frames[frames_most];
int frame_count;

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

void on_signal(int, siginfo_t*, void*) {
    KeepErrno keep;
    Cord* cord = this_cord;
    uint32_t expected = asked;
    if (!cord || asked_cord.load(std::memory_order_acquire) != cord) return;
    if (!answer.compare_exchange_strong(expected, taking, std::memory_order_acq_rel)) return;
    hooks::tsan_acquire(&answer);
    frame_count = same(asked_about, look_at(*cord)) ? backtrace(frames, frames_most) : 0;
    hooks::tsan_release(&answer);
    answer.store(taken, std::memory_order_release);
    ring(answer);
}

// Asks the cord's thread for its backtrace. False: it does not answer. Else the answer is in `frames` and frame_count,
// which is 0 if the fiber has given way meanwhile.
bool ask(Cord& cord, int signal) {
    asked_about = cord.watched;
    hooks::tsan_release(&answer);
    asked_cord.store(&cord, std::memory_order_release);
    answer.store(asked, std::memory_order_release);
    int64_t until = clock_now() + answer_most_ns;
    bool sent = syscall(SYS_tgkill, getpid(), int(cord.thread), signal) == 0;
    uint32_t now = asked;
    while (sent && (now = answer.load(std::memory_order_acquire)) != taken) {
        int64_t left = until - clock_now();
        if (now == asked && left <= 0) break;
        wait_on(answer, now, left > 0 ? left : answer_most_ns);
    }
    uint32_t expected = asked;
    // coverage: race
    if (now != taken && !answer.compare_exchange_strong(expected, nobody_asked, std::memory_order_acq_rel)) {
        while (answer.load(std::memory_order_acquire) != taken) wait_on(answer, taking, answer_most_ns);
        now = taken;
    }
    answer.store(nobody_asked, std::memory_order_relaxed);
    asked_cord.store(nullptr, std::memory_order_relaxed);
    hooks::tsan_acquire(&answer);
    return now == taken;
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

void tell(const fiber_watchdog_t& what, Cord& cord, uint32_t generation, int64_t now) {
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
    if (what.signal && !cord.has_signal_stack) {
        // The kernel's frame for a handler may be larger than the rest of the fiber's stack.
        about_frames = "fiberrt: no backtrace: its thread has no signal stack, or a small one\n";
    } else if (what.signal) {
        bool answered = ask(cord, what.signal);
        overrun.frames = frames;
        overrun.frame_count = answered ? frame_count : 0;
        about_frames = !answered              ? "fiberrt: no backtrace: its thread does not handle the signal\n"
                       : !overrun.frame_count ? "fiberrt: no backtrace: the fiber has given way since\n"
                                              : "fiberrt: its backtrace:\n";
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
        tell(what, cord, generation, now.since);
    }
}

// Whether the watchdog's thread must end. If its report has forked, the child may have started another watchdog since.
bool is_over(uint32_t this_run) { return stop_asked.load(std::memory_order_acquire) || run != this_run; }

void* watch_all(void*) {
    fiber_watchdog_t what = wanted; // set before the thread was started
    uint32_t this_run = run;
    pthread_setname_np(pthread_self(), "fiberrt-watch");
    while (!is_over(this_run)) {
        cords.each([&](Cord* cord) {
            if (!is_over(this_run)) watch(what, this_run, *cord);
        });
        int64_t next = clock_now() + what.limit_ns / looks;
        for (int64_t left; !is_over(this_run) && (left = next - clock_now()) > 0;) wait_on(stop_asked, 0, left);
    }
    return nullptr;
}

int make_thread() {
    stop_asked.store(0, std::memory_order_relaxed);
    return thread_start(&thread, nullptr, watch_all, nullptr);
}

// Prepares the signal for a new watchdog; end_signal() undoes it.
int begin_signal(int signal) {
    if (!signal) return 0;
    // An earlier watchdog may have left its handler, because it could not be removed then.
    if (int error = handler.remove()) return error;
    int error = handler.install(signal, on_signal, true);
    if (error) return error;
    unblock_for_cords(signal);
    signal_stacks_want();
    if (Cord* cord = cord_if_any()) signal_stack_give(*cord);
    return 0;
}

int end_signal() {
    if (!signal_of_cords) return 0;
    signal_of_cords = 0;
    signal_stacks_want_no_more();
    return handler.remove();
}

bool is_raised(int signal) {
    for (int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
        if (signal == raised) return true;
    }
    return false;
}

} // namespace

int watchdog_start(const fiber_watchdog_t& what) {
    KeepErrno keep;
    if (what.limit_ns < FIBER_MSEC(1) || what.signal < 0 || is_raised(what.signal)) return -EINVAL;
    if (!process_begin()) return -ENOMEM; // there may have been no cord yet
    if (environment) return -ENOTSUP;
    void* caller;
    if (what.signal) backtrace(&caller, 1); // the first call loads the unwinder, which takes locks of the loader
    MutexGuard guard(mutex);
    if (life != Life::none) return -EBUSY;
    int error = begin_signal(what.signal);
    if (error) return error;
    wanted = what;
    run = run + 1;
    error = make_thread();
    if (error) {
        end_signal();
        return error;
    }
    life = Life::lives;
    return 0;
}

int watchdog_stop() {
    KeepErrno keep;
    {
        MutexGuard guard(mutex);
        if (life == Life::none) return -ESRCH;
        if (pthread_equal(thread, pthread_self())) return -EDEADLK;
        if (life == Life::stopping) return -EBUSY;
        life = Life::stopping;
        stop_asked.store(1, std::memory_order_release);
    }
    ring(stop_asked);
    int cancellable; // a pthread_cancel of this thread would leave the watchdog half stopped for ever
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    pthread_join(thread, nullptr); // without the mutex: its report may fork
    pthread_setcancelstate(cancellable, nullptr);
    MutexGuard guard(mutex);
    life = Life::none;
    return end_signal();
}

void watchdog_lock() { pthread_mutex_lock(&mutex); }
void watchdog_unlock() { pthread_mutex_unlock(&mutex); }

void watchdog_forked() {
    life = Life::none;
    stop_asked.store(1, std::memory_order_relaxed); // if its report has forked, the thread in the child ends
    answer.store(nobody_asked, std::memory_order_relaxed);
    asked_cord.store(nullptr, std::memory_order_relaxed);
    end_signal();
}

} // namespace fiberrt
