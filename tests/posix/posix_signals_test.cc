// SPDX-License-Identifier: MIT OR Apache-2.0
// Adopted code waits for signals, and handles them. No signal is lost; a handler that blocks blocks the thread and never
// switches on the frame of the code that it interrupted.
#include "adopted.h"

#include <atomic>
#include <setjmp.h>
#include <signal.h>

namespace {

using adopted::outcome;
using adopted::Outcome;

// Blocks SIGUSR1 and SIGUSR2 in all threads that begin meanwhile.
class PosixSignals : public adopted::Program {
protected:
    void SetUp() override {
        Program::SetUp();
        sigemptyset(&set_);
        sigaddset(&set_, SIGUSR1);
        sigaddset(&set_, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set_, &before_);
    }
    void TearDown() override {
        timespec at_once = {};
        while (sigtimedwait(&set_, nullptr, &at_once) > 0) ADD_FAILURE() << "a signal is left over";
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        Program::TearDown();
    }
    sigset_t set_;
    sigset_t before_;
};

TEST_F(PosixSignals, Sigwait) {
    int taken = 0;
    adopted::while_it_waits([&] { EXPECT_EQ(sigwait(&set_, &taken), 0); }, [](fiber_t) { kill(getpid(), SIGUSR2); });
    EXPECT_EQ(taken, SIGUSR2);
}

TEST_F(PosixSignals, SigwaitTakesAPendingSignal) {
    kill(getpid(), SIGUSR1);
    int taken = 0;
    EXPECT_EQ(adopted::on_fiber([&] { return sigwait(&set_, &taken); }), 0);
    EXPECT_EQ(taken, SIGUSR1);
}

TEST_F(PosixSignals, SigwaitReportsACancelAndNoInterrupt) {
    int error = 0, taken = 0;
    auto wait = [&] { error = sigwait(&set_, &taken); };
    adopted::while_it_waits(wait, [](fiber_t fiber) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
    EXPECT_EQ(error, ECANCELED);
    adopted::while_it_waits(wait, [](fiber_t fiber) {
        EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
        EXPECT_EQ(fiber_sleep(0), 0);
        kill(getpid(), SIGUSR1);
    });
    EXPECT_EQ(error, 0);
    EXPECT_EQ(taken, SIGUSR1);
}

TEST_F(PosixSignals, SigwaitinfoHasTheSendersValue) {
    siginfo_t info = {};
    int taken = 0;
    adopted::while_it_waits([&] { taken = sigwaitinfo(&set_, &info); },
                            [](fiber_t) {
                                sigval value = {};
                                value.sival_int = 42;
                                EXPECT_EQ(sigqueue(getpid(), SIGUSR1, value), 0);
                            });
    EXPECT_EQ(taken, SIGUSR1);
    EXPECT_EQ(info.si_value.sival_int, 42);
    EXPECT_EQ(info.si_code, SI_QUEUE);
    EXPECT_EQ(info.si_pid, getpid());
}

TEST_F(PosixSignals, WaitsEndEarly) {
    auto call = [&] { return sigwaitinfo(&set_, nullptr); };
    adopted::ends_early(call);
    adopted::is_interrupted(call);
}

TEST_F(PosixSignals, SigtimedwaitAsTheKernel) {
    auto same = [](auto call) { EXPECT_EQ(adopted::on_fiber(call), adopted::on_thread(call)); };
    timespec at_once = {}, short_time = {0, 1'000'000}, wrong = {0, 2'000'000'000}, negative = {-1, 0};
    for (const timespec *time : {&at_once, &short_time, &wrong, &negative})
        same([&] { return outcome([&] { return sigtimedwait(&set_, nullptr, time); }); });
    EXPECT_EQ(adopted::on_fiber([&] { return outcome([&] { return sigtimedwait(&set_, nullptr, &short_time); }); }),
              (Outcome{-1, EAGAIN}));
}

TEST_F(PosixSignals, ArgumentsThatTheKernelCannotReadAreItsErrors) {
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN)
        GTEST_SKIP() << "a sanitizer reads the arguments before the kernel does";
    volatile uintptr_t address = 8; // volatile, so that the compiler does not warn of it
    auto bad_set = reinterpret_cast<const sigset_t *>(address);
    auto bad_time = reinterpret_cast<const timespec *>(address);
    timespec short_time = {0, 1'000'000};
    int taken = 0;
    auto same = [](auto call) { EXPECT_EQ(adopted::on_fiber(call), adopted::on_thread(call)); };
    same([&] { return outcome([&] { return sigtimedwait(&set_, nullptr, bad_time); }); });
    same([&] { return outcome([&] { return sigtimedwait(bad_set, nullptr, &short_time); }); });
    same([&] { return outcome([&] { return sigwaitinfo(bad_set, nullptr); }); });
    same([&] { return sigwait(bad_set, &taken); });
}

TEST_F(PosixSignals, EachOfTwoFibersTakesOneSignal) {
    int sum = 0;
    auto wait = [&] { sum += sigwaitinfo(&set_, nullptr); };
    fiber_t first = support::start(wait);
    fiber_t second = support::start(wait);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    support::join(first);
    support::join(second);
    EXPECT_EQ(sum, SIGUSR1 + SIGUSR2);
}

// ---- Handlers

int handler_pipe[2];
std::atomic<int> handled = 0;
std::atomic<int> was_here = 0; // in the handler, whether a fiber may wait: never by adopted calls
sigjmp_buf out_of_handler;

// Reads a byte that a thread writes. If the read switched, the other fiber of the test would run.
void reading_handler(int) {
    char byte;
    int error = errno;
    if (read(handler_pipe[0], &byte, 1) == 1) handled++;
    errno = error;
}
void reading_action(int signal, siginfo_t *info, void *context) {
    if (info && context && info->si_signo == signal) reading_handler(signal);
}
void leaving_handler(int) { siglongjmp(out_of_handler, 1); }

class PosixHandlers : public adopted::Program {
protected:
    void SetUp() override {
        Program::SetUp();
        ASSERT_EQ(pipe(handler_pipe), 0);
        handled = 0;
    }
    void TearDown() override {
        signal(SIGUSR1, SIG_DFL);
        close(handler_pipe[0]);
        close(handler_pipe[1]);
        Program::TearDown();
    }

    // Raises SIGUSR1 in a fiber while another one is runnable and the handler's byte is written by a thread only once
    // the handler blocks or another fiber runs.
    void handler_blocks_the_thread() {
        bool other_ran = false;
        bool ran_in_handler = true;
        auto other = [&] { other_ran = true; };
        auto raiser = [&] {
            fiber_t fiber = support::spawn(other);
            std::thread writer([] { EXPECT_EQ(write(handler_pipe[1], "x", 1), 1); });
            raise(SIGUSR1);
            ran_in_handler = other_ran;
            writer.join();
            support::join(fiber);
        };
        support::run(raiser);
        EXPECT_EQ(handled.exchange(0), 1);
        EXPECT_FALSE(ran_in_handler);
        EXPECT_TRUE(other_ran);
    }
    // Adopted calls wait as fibers again: the byte comes from a fiber.
    void calls_wait() {
        char byte;
        adopted::while_it_waits([&] { EXPECT_EQ(read(handler_pipe[0], &byte, 1), 1); },
                                [](fiber_t) { EXPECT_EQ(write(handler_pipe[1], "x", 1), 1); });
    }
};

TEST_F(PosixHandlers, ABlockingHandlerBlocksTheThread) {
    EXPECT_EQ(signal(SIGUSR1, reading_handler), SIG_DFL);
    handler_blocks_the_thread();
    calls_wait();
    EXPECT_EQ(signal(SIGUSR1, SIG_IGN), reading_handler); // and not the function set in its place
    EXPECT_EQ(signal(SIGUSR1, SIG_DFL), SIG_IGN);
}

TEST_F(PosixHandlers, SigactionPassesItsArguments) {
    struct sigaction action = {}, old = {};
    action.sa_sigaction = reading_action;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaddset(&action.sa_mask, SIGUSR2);
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    handler_blocks_the_thread();
    calls_wait();
    ASSERT_EQ(sigaction(SIGUSR1, nullptr, &old), 0);
    EXPECT_EQ(old.sa_sigaction, reading_action);
    EXPECT_EQ(old.sa_flags & (SA_SIGINFO | SA_RESTART), SA_SIGINFO | SA_RESTART);
    EXPECT_EQ(sigismember(&old.sa_mask, SIGUSR2), 1);
    EXPECT_EQ(outcome([&] { return sigaction(SIGKILL, &action, nullptr); }), (Outcome{-1, EINVAL}));
}

TEST_F(PosixHandlers, OnTheAlternativeStack) {
    std::string memory(64 * 1024, '\0');
    stack_t stack = {}, before = {};
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    ASSERT_EQ(sigaltstack(&stack, &before), 0);
    struct sigaction action = {};
    action.sa_handler = reading_handler;
    action.sa_flags = SA_ONSTACK;
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    handler_blocks_the_thread();
    calls_wait();
    action.sa_handler = leaving_handler;
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    if (!sigsetjmp(out_of_handler, 1)) raise(SIGUSR1);
    calls_wait();
    EXPECT_EQ(sigaltstack(&before, nullptr), 0);
}

// The frames of a handler that was left by siglongjmp.
TEST_F(PosixHandlers, AfterSiglongjmpCallsWaitAgain) {
    signal(SIGUSR1, leaving_handler);
    for (int i = 0; i < 3; i++) {
        if (!sigsetjmp(out_of_handler, 1)) raise(SIGUSR1);
        calls_wait();
    }
    auto in_fiber = [&] {
        if (!sigsetjmp(out_of_handler, 1)) raise(SIGUSR1);
        char byte;
        EXPECT_EQ(read(handler_pipe[0], &byte, 1), 1);
    };
    adopted::while_it_waits(in_fiber, [](fiber_t) { EXPECT_EQ(write(handler_pipe[1], "x", 1), 1); });
    signal(SIGUSR1, reading_handler);
    handler_blocks_the_thread();
}

// A handler that calls the one set before it.
sighandler_t former = nullptr;
void calling_handler(int signal) { former(signal); }

TEST_F(PosixHandlers, AHandlerCallsTheFormerOne) {
    signal(SIGUSR1, reading_handler);
    former = signal(SIGUSR1, calling_handler);
    ASSERT_EQ(former, reading_handler);
    handler_blocks_the_thread();
    EXPECT_EQ(signal(SIGUSR1, SIG_DFL), calling_handler);
}

} // namespace
