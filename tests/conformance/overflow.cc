// SPDX-License-Identifier: MIT OR Apache-2.0
// The report of a fiber whose stack has overflowed: the fiber that it names, and that the program dies as it would
// have.
#include "conformance.h"
#include "cord_support.h"
#include "dumps.h"

#include <csetjmp>
#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>

using namespace support;

namespace {

// Valgrind reports the overflow as an error before there is a signal.
#define NEEDS_OVERFLOWS()                                  \
    NOT_ON_SIM("runs its cords on stacks of the library"); \
    NOT_UNDER_QEMU("itself ends at a fault in a guard page")

// The frames must take the stated amount of stack, whichever compiler compiles this.
#define UNSANITIZED __attribute__((noinline, no_sanitize("address", "thread")))

volatile bool go_on = true;

UNSANITIZED int recurse_for_ever(int depth) {
    volatile char frame[512];
    for (int i = 0; i < 512; i += 64) frame[i] = static_cast<char>(depth);
    return (go_on ? recurse_for_ever(depth + 1) : 0) + frame[depth % 512];
}

struct End {
    int status;
    std::string text; // of standard error
    bool says(const std::string &what) const { return text.find(what) != std::string::npos; }
    bool by_signal(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
    bool with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

// How a process ends that does this.
template <class Body>
End end_of(Body body) {
    Pipe pipe;
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(pipe.write_end, STDERR_FILENO);
        ::alarm(60);
        body();
        ::_exit(98);
    }
    EXPECT_GT(child, 0);
    pipe.close_write();
    End end{};
    char part[512];
    for (ssize_t length; (length = ::read(pipe.read_end, part, sizeof part)) > 0;)
        end.text.append(part, size_t(length));
    EXPECT_EQ(::waitpid(child, &end.status, 0), child);
    return end;
}

fiber_t overflow_in_a_fiber(size_t size, const char *name) {
    fiber_attr_t *attr = nullptr;
    CHILD_CHECK(fiber_attr_create(&attr) == 0 && fiber_attr_set_stack_size(attr, size) == 0 &&
                fiber_attr_set_name(attr, name) == 0);
    static auto body = [] {
        std::fprintf(stderr, "it is %s\n", hex(self().id).c_str());
        (void)recurse_for_ever(0);
    };
    fiber_t fiber = create(body, attr);
    CHILD_CHECK(fiber_wakeup(fiber) == 0 && fiber_join(fiber, nullptr) == 0);
    return fiber;
}

// AddressSanitizer's handler, which the signal is passed on to, ends the process by itself.
void expect_death_by_it(const End &end) {
    if (FIBERRT_TEST_ASAN) {
        EXPECT_TRUE(end.says("AddressSanitizer")) << end.text;
    } else if (FIBERRT_TEST_TSAN) {
        EXPECT_TRUE(end.status != 0) << end.status;
    } else {
        EXPECT_TRUE(end.by_signal(SIGSEGV)) << end.status;
    }
}

void expect_report(const End &end, const std::string &name, const char *size) {
    const size_t at = end.text.find("it is ");
    ASSERT_NE(at, std::string::npos) << end.text;
    const std::string id = end.text.substr(at + 6, 18);
    EXPECT_TRUE(end.says("fiberrt: fiber " + id + " \"" + name + "\" of cord 0x")) << end.text;
    EXPECT_TRUE(end.says(std::string(" has overflowed its stack of ") + size + "; a larger one may help\n"))
        << end.text;
}

struct sigaction disposition() {
    struct sigaction now = {};
    EXPECT_EQ(::sigaction(SIGSEGV, nullptr, &now), 0);
    return now;
}

void install(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = handler;
    CHILD_CHECK(::sigaction(SIGSEGV, &action, nullptr) == 0);
}

} // namespace

TEST(Overflow, IsReportedAndEndsTheProcess) {
    NEEDS_OVERFLOWS();
    for (size_t size : {size_t(16384), size_t(4) << 20}) {
        const End end = end_of([&] {
            CHILD_CHECK(fiber_report_overflows(1) == 0);
            overflow_in_a_fiber(size, "too\ndeep");
        });
        expect_report(end, "too?deep", size == 16384 ? "16 KiB" : "4096 KiB");
        expect_death_by_it(end);
    }
}

namespace {

std::atomic<bool> has_overflowed{false};

void stay_in_the_handler(int, siginfo_t *, void *) {
    has_overflowed = true;
    for (;;) ::pause();
}

} // namespace

// Another thread dumps while the stack is full: also the frames on it, by a signal.
TEST(Overflow, LetsAnotherThreadDump) {
    NEEDS_OVERFLOWS();
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer has its own handler";
    const End end = end_of([] {
        install(stay_in_the_handler);
        CHILD_CHECK(fiber_report_overflows(1) == 0 && fiber_dump_running_signal(SIGRTMIN + 4) == 0);
        std::thread dumps([] {
            while (!has_overflowed) sched_yield();
            for (unsigned flags = 0; flags < 8; flags++) CHILD_CHECK(fiber_dump_as(STDERR_FILENO, flags) == 0);
            ::_exit(7);
        });
        overflow_in_a_fiber(65536, "full");
    });
    EXPECT_TRUE(end.with(7)) << end.status;
    EXPECT_TRUE(end.says(": running; stack of 64 KiB\n    #0 ")) << end.text;
    EXPECT_TRUE(end.says("recurse_for_ever")) << end.text;
}

// A thread that has no cord when reports are asked for, one that the library starts, and one that asks for itself.
TEST(Overflow, OnOtherThreads) {
    NEEDS_OVERFLOWS();
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer does not know children of processes with threads";
    for (int kind = 0; kind < 3; kind++) {
        const End end = end_of([&] {
            auto overflow = [] { overflow_in_a_fiber(65536, "elsewhere"); };
            if (kind == 2) {
                std::atomic<bool> opened{false}, asked{false};
                std::thread thread([&] {
                    (void)self();
                    opened = true;
                    while (!asked) sched_yield();
                    CHILD_CHECK(fiber_report_overflows(1) == 0);
                    overflow();
                });
                while (!opened) sched_yield();
                CHILD_CHECK(fiber_report_overflows(1) == 0);
                asked = true;
                thread.join();
            }
            CHILD_CHECK(fiber_report_overflows(1) == 0);
            if (kind == 1) std::thread(overflow).join();
            join_cord(start_cord(overflow));
        });
        expect_report(end, "elsewhere", "64 KiB");
        expect_death_by_it(end);
    }
}

// A step of a hosted fiber runs on a stack of the library's own.
TEST(Overflow, InATurnOfAHostedFiber) {
    NEEDS_OVERFLOWS();
    const End end = end_of([] {
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        fiber_t hosted{};
        auto step = [](void *, int64_t) -> int {
            std::fprintf(stderr, "it is %s\n", hex(self().id).c_str());
            return recurse_for_ever(0);
        };
        CHILD_CHECK(fiber_hosted_new(&hosted, nullptr, step, nullptr) == 0 && fiber_wakeup(hosted) == 0);
        for (;;) (void)fiber_reschedule();
    });
    const std::string id = end.text.substr(end.text.find("it is ") + 6, 18);
    EXPECT_TRUE(end.says(", one of the library's own, of cord 0x")) << end.text;
    EXPECT_TRUE(end.says(" KiB, in a turn of the hosted fiber " + id + "\n")) << end.text;
    expect_death_by_it(end);
}

TEST(Overflow, OtherFaultsAreNotReported) {
    NEEDS_OVERFLOWS();
    static char *volatile nowhere = nullptr;
    static uint64_t guard;
    auto wild = [] { *nowhere = 1; };
    auto into_own_guard = [] { *reinterpret_cast<volatile char *>(info(self()).stack_low - 1) = 1; };
    auto into_other_guard = [] { *reinterpret_cast<volatile char *>(guard - 8) = 1; };
    auto sent = [] { ::raise(SIGSEGV); };
    auto try_all = [&](int which) {
        return end_of([&] {
            CHILD_CHECK(fiber_report_overflows(1) == 0);
            auto sleeper = [] {
                guard = info(self()).stack_low;
                fiber_yield();
            };
            start(sleeper);
            which == 0 ? run(wild) : which == 1 ? run(into_own_guard) : which == 2 ? run(into_other_guard) : run(sent);
        });
    };
    for (int which = 0; which < 4; which++) {
        const End end = try_all(which);
        EXPECT_FALSE(end.says("fiberrt:")) << which << end.text;
        expect_death_by_it(end);
    }
}

// The handler that was there before is called in the end, and may go on elsewhere.
TEST(Overflow, PassesTheSignalOn) {
    NEEDS_OVERFLOWS();
    static sigjmp_buf back;
    const End end = end_of([] {
        install([](int, siginfo_t *fault, void *context) {
            if (!fault->si_addr || !context) ::_exit(43);
            std::fprintf(stderr, "the former handler\n");
            siglongjmp(back, 1);
        });
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        CHILD_CHECK(fiber_report_overflows(1) == 0); // once more changes nothing
        auto body = [] {
            std::fprintf(stderr, "it is %s\n", hex(self().id).c_str());
            CHILD_CHECK(fiber_set_name(self(), "again") == 0);
            volatile int times = 0;
            while (times < 2) {
                if (sigsetjmp(back, 1) == 0) {
                    (void)recurse_for_ever(0);
                } else {
                    times = times + 1;
                }
            }
        };
        run(body);
        ::_exit(42);
    });
    expect_report(end, "again", "256 KiB");
    EXPECT_TRUE(end.says("the former handler\n")) << end.text;
    EXPECT_NE(end.text.rfind("fiberrt:"), end.text.find("fiberrt:")) << end.text; // both times
    EXPECT_TRUE(end.with(42)) << end.status << end.text;
}

// SIG_IGN protects from signals sent by processes, not from a faulting instruction; a handler without siginfo is called
// as such.
TEST(Overflow, PassesTheSignalOnToTheFormerHandler) {
    NEEDS_OVERFLOWS();
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer replaces the dispositions that it tests";
    End end = end_of([] {
        ::signal(SIGSEGV, SIG_IGN);
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        ::raise(SIGSEGV);
        overflow_in_a_fiber(65536, "ignored");
    });
    expect_report(end, "ignored", "64 KiB");
    EXPECT_TRUE(end.by_signal(SIGSEGV)) << end.status;
    end = end_of([] {
        ::signal(SIGSEGV, [](int signal) { ::_exit(signal == SIGSEGV ? 42 : 43); });
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        overflow_in_a_fiber(65536, "handled");
    });
    expect_report(end, "handled", "64 KiB");
    EXPECT_TRUE(end.with(42)) << end.status;
}

TEST(Overflow, ReportsEndWithTheFormerDisposition) {
    NEEDS_OVERFLOWS();
    End end = end_of([] {
        const struct sigaction before = disposition();
        CHILD_CHECK(fiber_report_overflows(0) == 0); // there are none
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        CHILD_CHECK(disposition().sa_sigaction != before.sa_sigaction);
        CHILD_CHECK(fiber_report_overflows(0) == 0);
        const struct sigaction after = disposition();
        CHILD_CHECK(after.sa_sigaction == before.sa_sigaction &&
                    (after.sa_flags & SA_SIGINFO) == (before.sa_flags & SA_SIGINFO));
        overflow_in_a_fiber(65536, "unseen");
    });
    EXPECT_FALSE(end.says("fiberrt:")) << end.text;
    expect_death_by_it(end);
    end = end_of([] { // a later handler is installed, and may call the library's
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        static struct sigaction ours;
        ours = disposition();
        install([](int signal, siginfo_t *info, void *context) { ours.sa_sigaction(signal, info, context); });
        CHILD_CHECK(fiber_report_overflows(0) == -EBUSY);
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        overflow_in_a_fiber(65536, "through another");
    });
    expect_report(end, "through another", "64 KiB");
    expect_death_by_it(end);
}

// SIG_DFL has replaced the handler: no signal reaches it any more. It can be installed anew, and need not be removed.
TEST(Overflow, AfterTheProgramHasReplacedTheHandler) {
    NEEDS_OVERFLOWS();
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer replaces the dispositions that it tests";
    End end = end_of([] {
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        ::signal(SIGSEGV, SIG_DFL);
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        overflow_in_a_fiber(65536, "anew");
    });
    expect_report(end, "anew", "64 KiB");
    expect_death_by_it(end);
    end = end_of([] {
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        ::signal(SIGSEGV, SIG_IGN);
        CHILD_CHECK(fiber_report_overflows(0) == 0);
        CHILD_CHECK(disposition().sa_handler == SIG_IGN); // as the program wants it
        ::_exit(42);
    });
    EXPECT_TRUE(end.with(42)) << end.status << end.text;
}

// Stacks for the handler come and go with cords; one that a thread has already stays.
TEST(Overflow, StacksOfSignals) {
    NEEDS_OVERFLOWS();
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer does not know children of processes with threads";
    const End end = end_of([] {
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        std::thread own([] {
            static char memory[65536];
            stack_t mine = {}, now = {};
            mine.ss_sp = memory;
            mine.ss_size = sizeof memory;
            if (!FIBERRT_TEST_ASAN) CHILD_CHECK(::sigaltstack(&mine, nullptr) == 0);
            CHILD_CHECK(::sigaltstack(nullptr, &mine) == 0);
            (void)self();
            CHILD_CHECK(::sigaltstack(nullptr, &now) == 0);
            CHILD_CHECK(now.ss_sp == mine.ss_sp && now.ss_size == mine.ss_size);
        });
        own.join();
        auto nothing = [] {};
        auto round = [&] {
            for (int i = 0; i < 50; i++) join_cord(start_cord(nothing));
            std::thread([] { (void)self(); }).join();
        };
        round();
        const int before = mapping_count();
        round();
        CHILD_CHECK(mapping_count() <= before + mapping_slack + 8);
        auto has_one = [] {
            stack_t now = {};
            CHILD_CHECK(::sigaltstack(nullptr, &now) == 0);
            CHILD_CHECK(!(now.ss_flags & SS_DISABLE) && now.ss_size >= 16384);
        };
        join_cord(start_cord(has_one));
        CHILD_CHECK(fiber_report_overflows(0) == 0);
        ::_exit(42);
    });
    EXPECT_TRUE(end.with(42)) << end.status << end.text;
}

TEST(Overflow, WithoutMemoryForTheHandlersStack) {
    NEEDS_OVERFLOWS();
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    const End end = end_of([] {
        (void)self();
        const stack_t no_stack = {nullptr, SS_DISABLE, 0}; // an earlier scenario may have left one
        CHILD_CHECK(::sigaltstack(&no_stack, nullptr) == 0);
        rlimit limit = {}, none = {};
        CHILD_CHECK(::getrlimit(RLIMIT_AS, &limit) == 0);
        none.rlim_max = limit.rlim_max;
        CHILD_CHECK(::setrlimit(RLIMIT_AS, &none) == 0);
        const auto before = disposition().sa_sigaction;
        CHILD_CHECK(fiber_report_overflows(1) == -ENOMEM);
        CHILD_CHECK(disposition().sa_sigaction == before);
        CHILD_CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
        CHILD_CHECK(fiber_report_overflows(1) == 0);
        overflow_in_a_fiber(65536, "after all");
    });
    expect_report(end, "after all", "64 KiB");
    expect_death_by_it(end);
}

// The child of a fork reports, too.
TEST(Overflow, InTheChildOfAFork) {
    NEEDS_OVERFLOWS();
    ASSERT_EQ(fiber_report_overflows(1), 0);
    const End end = end_of([] { overflow_in_a_fiber(65536, "child"); });
    EXPECT_EQ(fiber_report_overflows(0), 0);
    expect_report(end, "child", "64 KiB");
    expect_death_by_it(end);
}

TEST(Overflow, IsRefusedWhereASanitizerKeepsTheSignal) {
    NEEDS_OVERFLOWS();
    if (!FIBERRT_TEST_ASAN) GTEST_SKIP() << "it tests only AddressSanitizer";
    const End end = end_of([] {
        ::setenv("ASAN_OPTIONS", "handle_segv=2", 1);
        ::setenv("FIBERRT_TEST_REFUSED", "1", 1);
        ::execl("/proc/self/exe", "conformance", "--gtest_filter=Overflow.IsRefusedHere", nullptr);
    });
    EXPECT_TRUE(end.with(0)) << end.status << end.text;
}

TEST(Overflow, IsRefusedHere) {
    if (!::getenv("FIBERRT_TEST_REFUSED")) GTEST_SKIP() << "IsRefusedWhereASanitizerKeepsTheSignal runs it";
    EXPECT_EQ(fiber_report_overflows(1), -ENOTSUP);
}

// ---- reports that no code receives ----------------------------------------------------------------------------------

namespace {

// Standard error is a pipe without a reader, or one that is full.
void unhear(bool full) {
    int ends[2];
    CHILD_CHECK(::pipe(ends) == 0);
    if (full) {
        CHILD_CHECK(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
        char zeroes[4096] = {};
        while (::write(ends[1], zeroes, sizeof zeroes) > 0) {}
        CHILD_CHECK(::fcntl(ends[1], F_SETFL, 0) == 0);
    } else {
        ::close(ends[0]);
    }
    CHILD_CHECK(::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
}

#define NEEDS_FORBIDDEN_EXITS()                            \
    NOT_ON_SIM("runs its cords on stacks of the library"); \
    if (FIBERRT_TEST_TSAN)                                 \
    GTEST_SKIP() << "ThreadSanitizer forbids pthread_exit in a fiber itself, before the library can"

void exit_in_a_fiber() {
    auto body = [] { pthread_exit(nullptr); };
    run(body);
}

} // namespace

TEST(UnheardReport, OfAForbiddenExitRaisesNoSigpipe) {
    NEEDS_FORBIDDEN_EXITS();
    const End end = end_of([] {
        unhear(false);
        exit_in_a_fiber();
    });
    EXPECT_TRUE(end.by_signal(SIGABRT)) << end.status;
}

// The report is given up, the end is not.
TEST(UnheardReport, OfAForbiddenExitIntoAFullPipe) {
    NEEDS_FORBIDDEN_EXITS();
    const End end = end_of([] {
        unhear(true);
        exit_in_a_fiber();
    });
    EXPECT_TRUE(end.by_signal(SIGABRT)) << end.status;
}

TEST(UnheardReport, OfAnOverflow) {
    NEEDS_OVERFLOWS();
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer's own report dies of SIGPIPE";
    for (bool full : {false, true}) {
        const End end = end_of([&] {
            CHILD_CHECK(fiber_report_overflows(1) == 0);
            static auto body = [] { (void)recurse_for_ever(0); };
            unhear(full);
            run(body);
        });
        EXPECT_TRUE(end.by_signal(SIGSEGV)) << end.status;
    }
}

TEST(UnheardReport, OfADump) {
    NOT_ON_SIM("dumps like the other backends");
    const End end = end_of([] {
        int ends[2];
        CHILD_CHECK(::pipe(ends) == 0);
        ::close(ends[0]);
        CHILD_CHECK(fiber_dump(ends[1]) == -EPIPE);
        sigset_t pending;
        CHILD_CHECK(::sigpending(&pending) == 0 && !::sigismember(&pending, SIGPIPE));
        // One that was on its way before is still.
        sigset_t pipe;
        ::sigemptyset(&pipe);
        ::sigaddset(&pipe, SIGPIPE);
        CHILD_CHECK(::sigprocmask(SIG_BLOCK, &pipe, nullptr) == 0 && ::raise(SIGPIPE) == 0);
        CHILD_CHECK(fiber_dump(ends[1]) == -EPIPE);
        CHILD_CHECK(::sigpending(&pending) == 0 && ::sigismember(&pending, SIGPIPE));
        ::_exit(7);
    });
    EXPECT_TRUE(end.with(7)) << end.status << end.text;
}

// Nor is it cut off by a cancel of the thread that waits to be heeded.
TEST(UnheardReport, ADumpIsNoCancellationPoint) {
    NEEDS_THREADS();
    Pipe pipe;
    int error = 1;
    std::thread thread([&] {
        ::pthread_cancel(::pthread_self());
        error = fiber_dump(pipe.write_end);
        int unused;
        ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    });
    thread.join();
    EXPECT_EQ(error, 0);
}
