// SPDX-License-Identifier: MIT OR Apache-2.0
// The switch's unwind information for debuggers and profilers: a signal that comes in the middle of a switch can
// unwind.
#include "support.h"

#include "core/switch.h"

#include <csignal>
#include <sys/time.h>
#include <ucontext.h>
#include <unwind.h>

using namespace support;

namespace {

uintptr_t interrupted_at(const void *context) {
    const auto &machine = static_cast<const ucontext_t *>(context)->uc_mcontext;
#if defined __x86_64__
    return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#elif defined __aarch64__
    return machine.pc;
#elif defined __riscv
    return machine.__gregs[REG_PC];
#endif
}

bool in_the_switch(uintptr_t at) {
    void *function = _Unwind_FindEnclosingFunction(reinterpret_cast<void *>(at));
    return function == reinterpret_cast<void *>(fiberrt::fiberrt_switch);
}

volatile bool spinning, stop;
volatile int hits, broken; // signals in the switch, and those with a wrong trace

__attribute__((noinline)) void *spinner(void *argument) {
    while (!stop) (void)fiber_reschedule();
    return argument;
}

__attribute__((noinline)) void *watcher(void *argument) {
    spinning = true; // from here on only these three fibers give way
    for (const int64_t give_up = fiber_now() + FIBER_SEC(20); hits < 300 && fiber_now() < give_up;)
        (void)fiber_sleep(FIBER_MSEC(2));
    spinning = false;
    stop = true;
    return argument;
}

struct Walk {
    int frames = 0;
    bool met_function = false; // the fiber's own
};

_Unwind_Reason_Code look_at_frame(_Unwind_Context *context, void *argument) {
    Walk &walk = *static_cast<Walk *>(argument);
    const uintptr_t function = _Unwind_GetRegionStart(context);
    for (auto *own : {spinner, watcher}) walk.met_function |= function == reinterpret_cast<uintptr_t>(own);
    return ++walk.frames < 100 ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

void next_signal_after(long us) {
    itimerval timer = {{0, 0}, {0, us}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void take_trace(int, siginfo_t *, void *context) {
    if (spinning && in_the_switch(interrupted_at(context))) {
        Walk walk;
        const bool ended = _Unwind_Backtrace(look_at_frame, &walk) == _URC_END_OF_STACK;
        hits = hits + 1;
        if (!ended || !walk.met_function) broken = broken + 1;
    }
    if (!stop) next_signal_after(20 + hits % 7);
}

TEST(SwitchCfi, AnySignalInTheMiddleOfASwitchCanUnwind) {
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "sanitizers intercept the program's signals";
    Walk first; // loads the unwinder
    (void)_Unwind_Backtrace(look_at_frame, &first);
    struct sigaction action = {}, before = {};
    action.sa_sigaction = take_trace;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
    fiber_t one{}, two{}, three{};
    ASSERT_EQ(fiber_spawn(&one, spinner, nullptr), 0);
    ASSERT_EQ(fiber_spawn(&two, spinner, nullptr), 0);
    ASSERT_EQ(fiber_spawn(&three, watcher, nullptr), 0);
    next_signal_after(1000);
    for (fiber_t fiber : {one, two, three}) join(fiber);
    next_signal_after(0);
    EXPECT_GE(hits, 300) << "signals met the switch too seldom to tell";
    EXPECT_EQ(broken, 0);
    ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
}

} // namespace
