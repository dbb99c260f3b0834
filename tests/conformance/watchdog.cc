// SPDX-License-Identifier: MIT OR Apache-2.0
// The watchdog: it names a fiber that keeps its thread for too long, with a backtrace if it has a signal, and no fiber
// that sleeps, idles or gives way in turns. These tests check the reports, not how long anything takes.
#include "conformance.h"
#include "cord_support.h"

#include <csignal>
#include <mutex>
#include <sys/resource.h>
#include <sys/wait.h>

using namespace support;

namespace {

#define NEEDS_A_WATCHDOG() NOT_ON_SIM("has one thread, and no time that passes by itself")

// The reports so far; copies, as the backtraces are gone when the function returns.
struct Told {
    fiber_overrun_t overrun;
    std::vector<void *> frames;
};

// A watchdog for as long as it is in scope, and its reports.
class Watching {
public:
    explicit Watching(int64_t limit_ns, int signal = 0) {
        fiber_watchdog_t what = {};
        what.limit_ns = limit_ns;
        what.signal = signal;
        what.report = [](void *data, const fiber_overrun_t *overrun) { static_cast<Watching *>(data)->add(*overrun); };
        what.data = this;
        const int error = fiber_watchdog_start(&what, sizeof what);
        EXPECT_EQ(error, 0);
        lives_ = error == 0;
    }
    ~Watching() { stop(); }
    bool lives() const { return lives_; }
    void stop() {
        if (lives_) {
            EXPECT_EQ(fiber_watchdog_stop(), 0);
        }
        lives_ = false;
    }
    bool told_of(fiber_t fiber) { return count_of(fiber) > 0; }
    int count_of(fiber_t fiber) {
        std::lock_guard<std::mutex> held(mutex_);
        return int(
            std::count_if(all_.begin(), all_.end(), [&](const Told &one) { return one.overrun.fiber.id == fiber.id; }));
    }
    Told first_of(fiber_t fiber) {
        std::lock_guard<std::mutex> held(mutex_);
        for (const Told &one : all_)
            if (one.overrun.fiber.id == fiber.id) return one;
        ADD_FAILURE() << "it was not told of";
        return {};
    }

private:
    void add(const fiber_overrun_t &overrun) {
        std::lock_guard<std::mutex> held(mutex_);
        all_.push_back({overrun, {overrun.frames, overrun.frames + overrun.frame_count}});
    }
    std::mutex mutex_;
    std::vector<Told> all_;
    std::atomic<bool> lives_{false};
};

constexpr int64_t brief = FIBER_MSEC(5);

// Keeps the thread until it is reported.
__attribute__((noinline)) bool busy_until_told(Watching &watching) {
    const fiber_t me = self();
    for (int64_t end = fiber_now() + FIBER_SEC(60); watching.lives() && fiber_now() < end;)
        if (watching.told_of(me)) return true;
    return false;
}

// The fiber spends all its time in a system call.
bool stuck_until_told(Watching &watching) {
    const fiber_t me = self();
    for (int i = 0; i < 6000 && watching.lives(); i++) {
        const timespec pause = {0, 10'000'000};
        ::nanosleep(&pause, nullptr);
        if (watching.told_of(me)) return true;
    }
    return false;
}

int start_watchdog(int64_t limit_ns, int signal = 0) {
    fiber_watchdog_t what = {};
    what.limit_ns = limit_ns;
    what.signal = signal;
    return fiber_watchdog_start(&what, sizeof what);
}

} // namespace

TEST(Watchdog, NamesAFiberThatKeepsItsThread) {
    NEEDS_A_WATCHDOG();
    Watching watching(brief);
    fiber_cord_t here{};
    ASSERT_EQ(fiber_cord_self(&here), 0);
    fiber_t who{};
    auto body = [&] {
        who = self();
        EXPECT_EQ(fiber_set_name(who, "busy"), 0);
        EXPECT_TRUE(busy_until_told(watching));
    };
    run(body);
    watching.stop();
    const Told told = watching.first_of(who);
    EXPECT_STREQ(told.overrun.fiber_name, "busy");
    EXPECT_EQ(told.overrun.cord.id, here.id);
    EXPECT_STREQ(told.overrun.cord_name, "");
    EXPECT_GE(told.overrun.running_ns, brief);
    EXPECT_EQ(told.overrun.frame_count, 0);
    EXPECT_EQ(watching.count_of(who), 1); // once for the whole stretch
}

// Each stretch is reported anew: also two in a row by the one fiber, with a turn between that no other fiber wanted.
TEST(Watchdog, OncePerStretch) {
    NEEDS_A_WATCHDOG();
    Watching watching(brief);
    fiber_t who{};
    auto body = [&] {
        who = self();
        EXPECT_TRUE(busy_until_told(watching));
        burn(4 * brief);
        EXPECT_EQ(fiber_reschedule(), 0);
        for (int64_t end = fiber_now() + FIBER_SEC(60);
             watching.lives() && watching.count_of(who) < 2 && fiber_now() < end;) {}
    };
    run(body);
    watching.stop();
    EXPECT_EQ(watching.count_of(who), 2);
}

TEST(Watchdog, OnCordsAndInPools) {
    NEEDS_A_WATCHDOG();
    fiber_cord_t earlier{}, later{};
    std::atomic<bool> go{false};
    Watching *watchdog = nullptr;
    fiber_t who[3] = {};
    fiber_cord_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_cord_attr_create(&attr), 0);
    ASSERT_EQ(fiber_cord_attr_set_name(attr, "named"), 0);
    auto busy = [&](fiber_t &me) {
        auto body = [&] {
            me = self();
            EXPECT_TRUE(busy_until_told(*watchdog));
        };
        run(body);
    };
    auto before = [&] {
        EXPECT_TRUE(await([&] { return go.load(); }));
        busy(who[0]);
    };
    auto after = [&] { busy(who[1]); };
    earlier = start_cord(before, attr);
    Watching watching(brief);
    watchdog = &watching;
    go = true;
    later = start_cord(after);
    fiber_pool_t pool{};
    ASSERT_EQ(fiber_pool_create(&pool, nullptr), 0);
    auto task = [&] {
        who[2] = self();
        EXPECT_TRUE(busy_until_told(watching));
    };
    ASSERT_EQ(fiber_pool_submit(pool, entry<decltype(task)>, &task), 0);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    join_cord(earlier);
    join_cord(later);
    EXPECT_EQ(fiber_cord_attr_destroy(attr), 0);
    watching.stop();
    EXPECT_STREQ(watching.first_of(who[0]).overrun.cord_name, "named");
    EXPECT_EQ(watching.first_of(who[0]).overrun.cord.id, earlier.id);
    EXPECT_EQ(watching.first_of(who[1]).overrun.cord.id, later.id);
    EXPECT_NE(watching.first_of(who[2]).overrun.cord.id, later.id);
}

// A hosted fiber in its turn, a fiber in a system call, and a main flow with others that wait for their turn.
TEST(Watchdog, EveryKindOfFiberIsReported) {
    NEEDS_A_WATCHDOG();
    Watching watching(brief);
    static Watching *watchdog;
    static fiber_t hosted;
    watchdog = &watching;
    auto step = [](void *, int64_t) -> int {
        hosted = self();
        EXPECT_TRUE(busy_until_told(*watchdog));
        return FIBER_STEP_END;
    };
    fiber_t made{};
    ASSERT_EQ(fiber_hosted_new(&made, nullptr, step, nullptr), 0);
    ASSERT_EQ(fiber_wakeup(made), 0);
    join(made);
    EXPECT_EQ(hosted.id, made.id);
    fiber_t stuck{};
    auto in_a_call = [&] {
        stuck = self();
        EXPECT_TRUE(stuck_until_told(watching));
    };
    run(in_a_call);
    auto waits = [] {};
    const fiber_t other = spawn(waits);
    EXPECT_TRUE(busy_until_told(watching));
    join(other);
    watching.stop();
    EXPECT_TRUE(watching.told_of(made));
    EXPECT_TRUE(watching.told_of(stuck));
    EXPECT_TRUE(watching.told_of(self()));
}

// No report about fibers that sleep, wait or give way often, nor about a main flow for which no fiber waits.
TEST(Watchdog, NoOtherFiberIsReported) {
    NEEDS_A_WATCHDOG();
    constexpr int64_t ample = FIBER_MSEC(200);
    Watching watching(ample);
    std::thread thread([&] { // with its own cord, and no other fiber
        const fiber_t main_flow = self();
        const timespec alone = {0, ample + ample / 2};
        ::nanosleep(&alone, nullptr);
        EXPECT_FALSE(watching.told_of(main_flow));
    });
    fiber_t sleeper{}, idle{}, main_flow{};
    auto sleeps = [&] {
        sleeper = self();
        EXPECT_EQ(fiber_sleep(ample + ample / 2), 0);
    };
    auto yields = [&] {
        idle = self();
        EXPECT_EQ(fiber_yield_timeout(ample + ample / 2), -ETIMEDOUT);
    };
    auto all_asleep = [&] {
        main_flow = self();
        const fiber_t fibers[] = {spawn(sleeps), spawn(yields)};
        EXPECT_EQ(fiber_sleep(ample + ample / 2), 0);
        for (fiber_t fiber : fibers) join(fiber);
    };
    fiber_cord_t cord = start_cord(all_asleep);
    fiber_t turns{};
    int64_t longest = 0; // from one turn to the next: the system may have let the thread wait for its processor
    auto reschedules = [&] {
        turns = self();
        const int64_t begun = fiber_now();
        for (int64_t last = begun, now = begun; now < begun + ample + ample / 2; last = now) {
            EXPECT_EQ(fiber_reschedule(), 0);
            now = fiber_now();
            longest = std::max(longest, now - last);
        }
    };
    run(reschedules);
    join_cord(cord);
    thread.join();
    watching.stop();
    for (fiber_t fiber : {sleeper, idle, main_flow}) EXPECT_FALSE(watching.told_of(fiber));
    EXPECT_TRUE(!watching.told_of(turns) || longest >= ample);
}

TEST(Watchdog, WithABacktraceByItsSignal) {
    NEEDS_A_WATCHDOG();
    NOT_UNDER_QEMU("puts its own frames around a handler");
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer puts signals off to the next call that it knows";
    Watching watching(brief, SIGRTMIN + 3);
    fiber_t here{}, there{};
    auto body = [&] {
        here = self();
        EXPECT_TRUE(busy_until_told(watching));
    };
    run(body);
    auto on_a_small_stack = [&] {
        fiber_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_stack_size(attr, FIBERRT_TEST_ASAN ? 65536 : 16384), 0);
        auto small = [&] {
            there = self();
            EXPECT_TRUE(busy_until_told(watching));
        };
        const fiber_t fiber = create(small, attr);
        EXPECT_EQ(fiber_start(fiber), 0);
        join(fiber);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    };
    join_cord(start_cord(on_a_small_stack)); // the library's threads have signals blocked, but not this one
    watching.stop();
    for (fiber_t fiber : {here, there}) {
        const Told told = watching.first_of(fiber);
        // Up to the fiber's entry, and through the function that kept the thread.
        ASSERT_GE(told.overrun.frame_count, 4);
        const auto *function = reinterpret_cast<const char *>(&busy_until_told);
        EXPECT_TRUE(std::any_of(told.frames.begin(), told.frames.end(), [&](const void *frame) {
            const auto *at = static_cast<const char *>(frame);
            return at >= function && at < function + 4096;
        }));
        EXPECT_LT(told.overrun.frame_count, 60);
    }
}

TEST(Watchdog, OfAThreadThatHasTheSignalBlocked) {
    NEEDS_A_WATCHDOG();
    Watching watching(brief, SIGUSR2);
    fiber_cord_t here{};
    ASSERT_EQ(fiber_cord_self(&here), 0); // opened now, as that unblocks the signal
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &set, &before), 0);
    fiber_t who{};
    auto body = [&] {
        who = self();
        EXPECT_TRUE(busy_until_told(watching));
    };
    run(body);
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0); // now it comes, and finds nothing to do
    watching.stop();
    EXPECT_EQ(watching.first_of(who).overrun.frame_count, 0);
}

// Once the watchdog is stopped, it would be the end of the program.
TEST(Watchdog, ASignalThatHasNotComeByItsStopNeverDoes) {
    NEEDS_A_WATCHDOG();
    Watching watching(brief, SIGUSR2);
    (void)self();
    sigset_t set, before, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &set, &before), 0);
    auto body = [&] { EXPECT_TRUE(busy_until_told(watching)); };
    run(body);
    watching.stop();
    EXPECT_EQ(::sigpending(&pending), 0);
    EXPECT_EQ(sigismember(&pending, SIGUSR2), 0);
    // Better a failure than such an end.
    if (sigismember(&pending, SIGUSR2) == 0) {
        EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
    }
}

// A thread whose cord was opened before has no stack for the handler. Its fiber's stack may have no room for the frame
// that the kernel pushes: so the watchdog does not send the signal, which would end the program.
volatile bool deep_one_is_told = false;
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) int busy_near_the_end_of(uintptr_t low) {
    volatile char frame[256];
    frame[0] = 0;
    if (reinterpret_cast<uintptr_t>(frame) > low + 1200) return busy_near_the_end_of(low) + frame[0];
    for (uint64_t i = 0; i < 30'000'000'000 && !deep_one_is_told; i++) frame[1] = 1;
    return deep_one_is_told;
}

TEST(Watchdog, SendsNoSignalToAThreadWithoutASignalStack) {
    NEEDS_A_WATCHDOG();
    static std::atomic<int> frames;
    static std::atomic<uint64_t> deep_one;
    frames = -1;
    deep_one = 0;
    deep_one_is_told = false;
    std::atomic<bool> opened{false}, go{false};
    std::thread thread([&] {
        (void)self();
        opened = true;
        while (!go) sched_yield();
        fiber_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_stack_size(attr, FIBERRT_TEST_ASAN ? 65536 : 16384), 0);
        auto body = [] {
            deep_one = self().id;
            EXPECT_EQ(busy_near_the_end_of(info(self()).stack_low), 1);
        };
        const fiber_t fiber = create(body, attr);
        EXPECT_EQ(fiber_start(fiber), 0);
        join(fiber);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    });
    while (!opened) sched_yield();
    fiber_watchdog_t what = {};
    what.limit_ns = brief;
    what.signal = SIGRTMIN + 3;
    what.report = [](void *, const fiber_overrun_t *overrun) {
        if (overrun->fiber.id != deep_one) return; // the thread that joins this fiber's thread may be reported, too
        frames = overrun->frame_count;
        deep_one_is_told = true;
    };
    const int error = fiber_watchdog_start(&what, sizeof what);
    EXPECT_EQ(error, 0);
    if (error) deep_one_is_told = true; // no report will come
    go = true;
    thread.join();
    if (error) return;
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    EXPECT_EQ(frames, 0);
}

// Of the program's own stack for handlers the kernel's frame alone may take nearly all.
TEST(Watchdog, SendsNoSignalToAThreadWithASmallSignalStack) {
    NEEDS_A_WATCHDOG();
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer gives its threads such stacks";
    Watching watching(brief, SIGRTMIN + 3);
    ASSERT_TRUE(watching.lives());
    fiber_t who{};
    std::thread thread([&] {
        const size_t size = size_t(std::max(2048L, ::sysconf(_SC_MINSIGSTKSZ)));
        std::vector<char> memory(size);
        stack_t small = {};
        small.ss_sp = memory.data();
        small.ss_size = size;
        EXPECT_EQ(::sigaltstack(&small, nullptr), 0);
        auto body = [&] {
            who = self();
            EXPECT_TRUE(busy_until_told(watching));
        };
        run(body);
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        EXPECT_EQ(::sigaltstack(&none, nullptr), 0);
    });
    thread.join();
    watching.stop();
    EXPECT_EQ(watching.first_of(who).overrun.frame_count, 0);
}

// A thread that pthread_cancel cancels while it stops the watchdog has stopped it.
TEST(Watchdog, IsStoppedByAThreadThatIsCancelled) {
    NEEDS_A_WATCHDOG();
    static std::atomic<bool> reports;
    reports = false;
    fiber_watchdog_t what = {};
    what.limit_ns = brief;
    what.report = [](void *, const fiber_overrun_t *) {
        reports = true;
        ::usleep(50'000); // so that fiber_watchdog_stop has to wait
    };
    ASSERT_EQ(fiber_watchdog_start(&what, sizeof what), 0);
    auto body = [] {
        for (int64_t end = fiber_now() + FIBER_SEC(60); !reports && fiber_now() < end;) {}
    };
    run(body);
    std::thread thread([] {
        ::pthread_cancel(::pthread_self());
        EXPECT_EQ(fiber_watchdog_stop(), 0);
        int unused;
        ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    });
    thread.join();
    ASSERT_EQ(start_watchdog(brief), 0);
    EXPECT_EQ(fiber_watchdog_stop(), 0);
}

TEST(Watchdog, WritesToStandardError) {
    NEEDS_A_WATCHDOG();
    const bool traces = !FIBERRT_TEST_TSAN && !under_qemu();
    Pipe pipe;
    const int saved = ::dup(STDERR_FILENO);
    ASSERT_GE(saved, 0);
    ASSERT_EQ(::dup2(pipe.write_end, STDERR_FILENO), STDERR_FILENO);
    pipe.close_write();
    const int error = start_watchdog(brief, traces ? SIGRTMIN + 3 : 0);
    std::string text;
    fiber_t who{};
    auto body = [&] {
        who = self();
        fiber_set_name(who, "noisy");
        if (error) return; // no report would come
        char part[256];    // blocks the thread until it is reported
        const ssize_t length = ::read(pipe.read_end, part, sizeof part);
        if (length > 0) text.append(part, size_t(length));
    };
    run(body);
    const int stopped = fiber_watchdog_stop();
    ::dup2(saved, STDERR_FILENO); // the last writing end
    ::close(saved);
    char part[4096];
    for (ssize_t length; (length = ::read(pipe.read_end, part, sizeof part)) > 0;) text.append(part, size_t(length));
    EXPECT_EQ(error, 0);
    EXPECT_EQ(stopped, 0);
    char line[128];
    const auto id = static_cast<unsigned long>(who.id);
    std::snprintf(line, sizeof line, "fiberrt: fiber 0x%016lx \"noisy\" of cord 0x", id);
    EXPECT_NE(text.find(line), std::string::npos) << text;
    EXPECT_NE(text.find(" has kept its thread for 0."), std::string::npos) << text;
    if (traces) {
        EXPECT_NE(text.find("fiberrt: its backtrace:\n"), std::string::npos) << text;
    }
}

TEST(Watchdog, RefusesBadArguments) {
    NEEDS_A_WATCHDOG();
    fiber_watchdog_t what = {};
    what.limit_ns = brief;
    EXPECT_EQ(fiber_watchdog_start(nullptr, sizeof what), -EINVAL);
    EXPECT_EQ(fiber_watchdog_start(&what, 0), -EINVAL);
    for (size_t size : {size_t{4}, offsetof(fiber_watchdog_t, report) + 4, sizeof what - 1, sizeof what + 4})
        EXPECT_EQ(fiber_watchdog_start(&what, size), -EINVAL) << size;
    for (int64_t bad : {int64_t(-1), int64_t(0), FIBER_MSEC(1) - 1}) EXPECT_EQ(start_watchdog(bad), -EINVAL);
    for (int bad : {-1, 65, 1000, SIGKILL, SIGSTOP, SIGSEGV, SIGFPE}) EXPECT_EQ(start_watchdog(brief, bad), -EINVAL);
    EXPECT_EQ(fiber_watchdog_stop(), -ESRCH);
    struct sigaction mine = {}, before, after;
    mine.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGUSR1, &mine, &before), 0);
    EXPECT_EQ(start_watchdog(brief, SIGUSR1), -EBUSY);
    ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
    struct {
        fiber_watchdog_t known = {};
        int64_t unknown = 0;
    } longer;
    longer.known.limit_ns = brief;
    longer.unknown = 1;
    EXPECT_EQ(fiber_watchdog_start(&longer.known, sizeof longer), -ENOTSUP);
    longer.unknown = 0;
    EXPECT_EQ(fiber_watchdog_start(&longer.known, sizeof longer), 0);
    EXPECT_EQ(start_watchdog(brief), -EBUSY);
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    EXPECT_EQ(fiber_watchdog_stop(), -ESRCH);
    EXPECT_EQ(fiber_watchdog_start(&what, sizeof what.limit_ns), 0); // of a program that knows no more
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    // The signal has its former disposition afterwards, and the longest limit means none.
    EXPECT_EQ(start_watchdog(FIBER_FOREVER, SIGUSR1), 0);
    ASSERT_EQ(::sigaction(SIGUSR1, nullptr, &after), 0);
    EXPECT_NE(after.sa_handler, SIG_DFL);
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    ASSERT_EQ(::sigaction(SIGUSR1, nullptr, &after), 0);
    EXPECT_EQ(after.sa_handler, SIG_DFL);
}

TEST(Watchdog, WithoutAThread) {
    NEEDS_A_WATCHDOG();
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    pthread_attr_t usual, large; // so that no stack of an earlier thread will do
    ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
    ASSERT_EQ(::pthread_attr_init(&large), 0);
    ASSERT_EQ(::pthread_attr_setstacksize(&large, size_t(1) << 32), 0);
    rlimit limit = {}, less = {};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
    less = limit;
    less.rlim_cur = 1;
    (void)self();
    ASSERT_EQ(::pthread_setattr_default_np(&large), 0);
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &less), 0);
    const int error = start_watchdog(brief, SIGUSR1);
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
    EXPECT_EQ(error, -EAGAIN);
    struct sigaction now;
    ASSERT_EQ(::sigaction(SIGUSR1, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
    EXPECT_EQ(fiber_watchdog_stop(), -ESRCH);
    EXPECT_EQ(::pthread_attr_destroy(&usual), 0);
    EXPECT_EQ(::pthread_attr_destroy(&large), 0);
    Watching watching(brief, SIGUSR1);
}

TEST(Watchdog, ItsSignalStaysWhereAnotherHandlerMayCallIt) {
    NEEDS_A_WATCHDOG();
    ASSERT_EQ(start_watchdog(brief, SIGUSR1), 0);
    struct sigaction mine = {}, its;
    mine.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGUSR1, &mine, &its), 0);
    EXPECT_EQ(fiber_watchdog_stop(), -EBUSY);
    EXPECT_EQ(fiber_watchdog_stop(), -ESRCH); // all else was done
    EXPECT_EQ(start_watchdog(brief, SIGUSR2), -EBUSY);
    EXPECT_EQ(start_watchdog(brief), 0); // which wants none
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    ASSERT_EQ(::sigaction(SIGUSR1, &its, nullptr), 0);
    EXPECT_EQ(start_watchdog(brief, SIGUSR2), 0);
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    ASSERT_EQ(::sigaction(SIGUSR1, nullptr, &its), 0);
    EXPECT_EQ(its.sa_handler, SIG_DFL);
}

TEST(Watchdog, AfterTheProgramHasReplacedItsHandler) {
    NEEDS_A_WATCHDOG();
    ASSERT_EQ(start_watchdog(brief, SIGUSR1), 0);
    ASSERT_NE(::signal(SIGUSR1, SIG_IGN), SIG_ERR);
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    EXPECT_EQ(::signal(SIGUSR1, SIG_DFL), SIG_IGN); // as the program wants it
    for (int signal : {SIGUSR2, SIGUSR1}) {
        EXPECT_EQ(start_watchdog(brief, signal), 0);
        EXPECT_EQ(fiber_watchdog_stop(), 0);
    }
}

// A report may do anything that threads do, except stop the watchdog.
TEST(Watchdog, FromItsReport) {
    NEEDS_A_WATCHDOG();
    static std::atomic<int> stopped, started, joined;
    static std::atomic<bool> done;
    stopped = started = joined = 1;
    done = false;
    fiber_watchdog_t what = {};
    what.limit_ns = brief;
    what.report = [](void *, const fiber_overrun_t *) {
        stopped = fiber_watchdog_stop();
        started = start_watchdog(brief);
        fiber_cord_t cord{};
        fiber_cord_start(
            &cord, nullptr, [](void *) -> void * { return nullptr; }, nullptr);
        joined = fiber_cord_join(cord, nullptr);
        done = true;
    };
    ASSERT_EQ(fiber_watchdog_start(&what, sizeof what), 0);
    auto body = [] {
        for (int64_t end = fiber_now() + FIBER_SEC(60); !done && fiber_now() < end;) {}
    };
    run(body);
    EXPECT_TRUE(done);
    EXPECT_EQ(stopped, -EDEADLK);
    EXPECT_EQ(started, -EBUSY);
    EXPECT_EQ(joined, 0);
    EXPECT_EQ(fiber_watchdog_stop(), 0);
}

TEST(Watchdog, AChildOfAForkHasNone) {
    NEEDS_A_WATCHDOG();
    NOT_UNDER_QEMU("ends a forked process that makes a thread");
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer does not know children of processes with threads";
    Watching watching(brief, SIGUSR1);
    auto begun = [&] { EXPECT_TRUE(busy_until_told(watching)); };
    run(begun); // a thread that just begins may hold a lock of AddressSanitizer's allocator, and the child would inherit it
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        struct sigaction now;
        CHILD_CHECK(::sigaction(SIGUSR1, nullptr, &now) == 0 && now.sa_handler == SIG_DFL);
        CHILD_CHECK(fiber_watchdog_stop() == -ESRCH);
        {
            Watching own(brief, SIGUSR1);
            auto body = [&] { CHILD_CHECK(busy_until_told(own)); };
            run(body);
            own.stop();
        }
        ::_exit(42);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
    auto body = [&] { EXPECT_TRUE(busy_until_told(watching)); };
    run(body);
}

// A watchdog that the child of a report's fork starts is the only one there: the thread that has forked ends.
TEST(Watchdog, ItsReportForksAndTheChildStartsAnother) {
    NEEDS_A_WATCHDOG();
    NOT_UNDER_QEMU("ends a forked process that makes a thread");
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer does not know children of processes with threads";
    static std::atomic<pid_t> child;
    static pthread_key_t key;
    child = 0;
    ASSERT_EQ(::pthread_key_create(&key, [](void *) { ::_exit(42); }), 0);
    fiber_watchdog_t what = {};
    what.limit_ns = brief;
    what.report = [](void *, const fiber_overrun_t *) {
        if (child) return;
        const pid_t pid = ::fork();
        if (pid == 0) {
            sigset_t none;
            sigemptyset(&none);
            ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
            ::alarm(30);
            CHILD_CHECK(::pthread_setspecific(key, &key) == 0 && start_watchdog(brief) == 0);
            return;
        }
        child = pid;
    };
    ASSERT_EQ(fiber_watchdog_start(&what, sizeof what), 0);
    auto body = [] {
        for (int64_t end = fiber_now() + FIBER_SEC(60); !child && fiber_now() < end;) {}
    };
    run(body);
    EXPECT_EQ(fiber_watchdog_stop(), 0);
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
    EXPECT_EQ(::pthread_key_delete(key), 0);
}

// Cords come and go, and watchdogs too, while they are looked at.
TEST(Watchdog, WhileCordsComeAndGo) {
    NEEDS_A_WATCHDOG();
    for (int round = 0; round < 5; round++) {
        Watching watching(FIBER_MSEC(1), SIGUSR1);
        auto few_fibers = [] {
            auto nothing = [] {};
            for (int i = 0; i < 20; i++) run(nothing);
        };
        for (int i = 0; i < 20; i++) join_cord(start_cord(few_fibers));
    }
}

TEST(Watchdog, IsUnavailableInASimulation) {
    if (!simulated()) GTEST_SKIP() << "it tests only the simulation";
    EXPECT_EQ(start_watchdog(brief), -ENOTSUP);
    EXPECT_EQ(fiber_watchdog_stop(), -ESRCH);
}
