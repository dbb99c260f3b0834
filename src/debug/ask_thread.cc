// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens when a thread is asked for its backtrace:
//
//   the asking thread                 the cord's thread
//   ask_answer = asked, the signal ─▶ ask_answer = taking; walks its frames; ask_answer = frames_taken
//     waits for some time    ◀─────── rings
//   ask_answer = nobody_asked: a signal that comes later finds nothing to do
#include "debug/ask_thread.h"

#include "base/c_library.h"
#include "base/keep_errno.h"
#include "base/mutex.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "debug/machine_context.h"

#include <errno.h>
#include <initializer_list>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constinit pthread_mutex_t ask_mutex = PTHREAD_MUTEX_INITIALIZER; // one question at a time

enum Answer : uint32_t { nobody_asked, asked, taking, frames_taken };
constinit std::atomic<uint32_t> ask_answer{
    nobody_asked}; // a futex; the thread that changes it from asked owns `frames`
constinit std::atomic<Cord*> asked_cord{nullptr};
const Question* question;
ThreadFrames frames;

// Sleeps while the answer is `value`, at most until the time has passed.
void wait_while(uint32_t value, int64_t ns) {
    timespec at = {ns / 1'000'000'000, ns % 1'000'000'000};
    syscall(SYS_futex, &ask_answer, FUTEX_WAIT_PRIVATE, value, &at, nullptr, 0);
}

void on_asked(int, siginfo_t*, void* context) {
    KeepErrno keep;
    Cord* cord = cord_if_any(); // also if a foreign loop has the thread: then the main flow runs
    uint32_t expected = asked;
    if (!cord || asked_cord.load(std::memory_order_acquire) != cord) return;
    if (!ask_answer.compare_exchange_strong(expected, taking, std::memory_order_acq_rel)) return;
    hooks::tsan_acquire(&ask_answer);
    frames.count = frames.first = 0;
    if (question->applies(*cord, question->what)) {
        frames.count = take_backtrace(frames.frames, ThreadFrames::most);
        auto* interrupted = reinterpret_cast<void*>(interrupted_pc(context));
        while (frames.first < frames.count && frames.frames[frames.first] != interrupted) frames.first++;
#ifdef __GLIBC__
        // ThreadSanitizer calls the handler later, from another place.
        if (frames.first == frames.count) frames.first = 0; // coverage: never
#else
        // The unwinder may not pass the frame of the signal.
        if (frames.first == frames.count) frames = {{interrupted}, 0, 1};
#endif
    }
    hooks::tsan_release(&ask_answer);
    ask_answer.store(frames_taken, std::memory_order_release);
    syscall(SYS_futex, &ask_answer, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace

bool is_raised_by_instructions(int signal) {
    for (int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
        if (signal == raised) return true;
    }
    return false;
}

int AskSignal::prepare(int signal) {
    if (signal <= 0 || signal > signal_most || is_raised_by_instructions(signal)) return -EINVAL;
    void* caller;
    take_backtrace(&caller, 1); // the first call prepares the unwinder
    return 0;
}

int AskSignal::begin(int signal) {
    // An earlier use may have left its handler, because it could not be removed then.
    if (int error = handler_.remove()) return error;
    if (int error = handler_.install(signal, on_asked, true)) return error;
    number_ = signal;
    unblock_for_cords(signal);
    signal_stacks_want();
    if (Cord* cord = cord_if_any()) signal_stack_give(*cord);
    return 0;
}

int AskSignal::end() {
    if (!in_use()) return 0;
    MutexGuard guard(ask_mutex);
    unblock_for_cords_no_more(number_);
    number_ = 0;
    signal_stacks_want_no_more();
    return handler_.remove();
}

Question::Result Question::ask(ThreadFrames& out) const {
    if (!cord.has_signal_stack) return Result::no_stack; // the kernel's frame may be larger than the fiber's stack
    MutexGuard guard(ask_mutex);
    if (!signal.in_use()) return Result::silent;
    question = this;
    hooks::tsan_release(&ask_answer);
    asked_cord.store(&cord, std::memory_order_release);
    ask_answer.store(asked, std::memory_order_release);
    int64_t until = clock_now() + timeout_ns;
    bool sent = syscall(SYS_tgkill, getpid(), int(cord.thread), int(signal.number_)) == 0;
    uint32_t now = asked;
    constexpr int64_t long_ns = 1'000'000'000; // the answer is on its way
    while (sent && (now = ask_answer.load(std::memory_order_acquire)) != frames_taken) {
        int64_t left = until - clock_now();
        if (now == asked && left <= 0) break;
        wait_while(now, now == asked ? left : long_ns);
    }
    uint32_t expected = asked;
    // coverage: race
    if (now != frames_taken && !ask_answer.compare_exchange_strong(expected, nobody_asked, std::memory_order_acq_rel)) {
        while (ask_answer.load(std::memory_order_acquire) != frames_taken) wait_while(taking, long_ns);
        now = frames_taken;
    }
    ask_answer.store(nobody_asked, std::memory_order_relaxed);
    asked_cord.store(nullptr, std::memory_order_relaxed);
    hooks::tsan_acquire(&ask_answer);
    if (now != frames_taken) return Result::silent;
    out = frames;
    return frames.count ? Result::answered : Result::not_wanted;
}

void ask_lock() { pthread_mutex_lock(&ask_mutex); }
void ask_unlock() { pthread_mutex_unlock(&ask_mutex); }

void ask_forked() {
    ask_answer.store(nobody_asked, std::memory_order_relaxed);
    asked_cord.store(nullptr, std::memory_order_relaxed);
}

} // namespace fiberrt
