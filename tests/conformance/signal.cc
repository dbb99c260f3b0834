// SPDX-License-Identifier: MIT OR Apache-2.0
// Signals that fibers wait for, and the threads of the library's, which take none.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"
#include "io_support.h"

#include <csignal>
#include <dirent.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

using namespace support;

namespace {

#define NEEDS_SIGNALS()                              \
    NOT_ON_SIM("has no signals of other processes"); \
    NOT_UNDER_QEMU("takes signals itself, before a signalfd gets them")

sigset_t set_of(std::initializer_list<int> signals) {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : signals) sigaddset(&set, signal);
    return set;
}

// Blocks signals on this thread while it lives; its destructor takes the signals that are left.
class Blocked {
public:
    Blocked(std::initializer_list<int> signals) : set(set_of(signals)) {
        EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, &set, &before_), 0);
    }
    ~Blocked() {
        const timespec now = {};
        while (::sigtimedwait(&set, nullptr, &now) > 0) ADD_FAILURE() << "one was left";
        errno = 0;
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    Blocked(const Blocked &) = delete;
    Blocked &operator=(const Blocked &) = delete;

    const sigset_t set;

private:
    sigset_t before_;
};

int send_to_process(int signal) { return ::kill(::getpid(), signal); }

bool is_pending(int signal) {
    sigset_t pending;
    EXPECT_EQ(::sigpending(&pending), 0);
    return sigismember(&pending, signal) == 1;
}

int descriptors() { return entry_count("/proc/self/fd"); }

void warm_up() {
    Pipe pipe;
    EXPECT_EQ(fiber_poll_fd(pipe.write_end, POLLOUT), POLLOUT);
}

} // namespace

TEST(Sigwait, TakesASignalAndReturnsItsInfo) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGUSR1, SIGUSR2});
    warm_up();
    const int before = descriptors();
    EXPECT_EQ(send_to_process(SIGUSR1), 0); // one that is there
    EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGUSR1);
    EXPECT_FALSE(is_pending(SIGUSR1));
    signalfd_siginfo info{};
    auto body = [&] { EXPECT_EQ(fiber_sigwait(&blocked.set, &info), SIGUSR2); };
    const fiber_t waiter = start(body); // one that comes
    settle();
    EXPECT_TRUE(eventually([&] { return fiber_state(waiter) == FIBER_WAITING; }));
    sigval value{};
    value.sival_int = 4711;
    EXPECT_EQ(::sigqueue(::getpid(), SIGUSR2, value), 0);
    join(waiter);
    EXPECT_EQ(int(info.ssi_signo), SIGUSR2);
    EXPECT_EQ(info.ssi_int, 4711);
    EXPECT_EQ(pid_t(info.ssi_pid), ::getpid());
    EXPECT_EQ(descriptors(), before);
}

TEST(Sigwait, EverySignalOfTheSetMustBeBlockedHere) {
    Blocked blocked({SIGUSR1});
    signalfd_siginfo info{};
    info.ssi_signo = 4711;
    auto refused = [&](sigset_t set) { EXPECT_EQ(fiber_sigwait(&set, &info), -EINVAL); };
    EXPECT_EQ(fiber_sigwait(nullptr, &info), -EINVAL);
    refused(set_of({}));
    refused(set_of({SIGUSR2}));
    refused(set_of({SIGUSR1, SIGUSR2}));
    refused(set_of({SIGKILL, SIGSTOP}));
    EXPECT_EQ(info.ssi_signo, 4711u);
    EXPECT_EQ(fiber_state(self()), FIBER_RUNNING);
}

TEST(Sigwait, IsUnavailableInASimulation) {
    if (!simulated()) GTEST_SKIP() << "it tests only the simulation";
    Blocked blocked({SIGUSR1});
    EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), -ENOTSUP);
}

TEST(Sigwait, AFullSetMayBeWaitedForIfAllAreBlocked) {
    NEEDS_SIGNALS();
    sigset_t all, before;
    sigfillset(&all);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &all, &before), 0);
    EXPECT_EQ(send_to_process(SIGWINCH), 0);
    EXPECT_EQ(fiber_sigwait(&all, nullptr), SIGWINCH);
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

// A signal that the program ignores or handles: as long as it is blocked, the waiter gets it. And no handler is
// installed.
TEST(Sigwait, LeavesDispositionsAlone) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGUSR1, SIGUSR2});
    static volatile sig_atomic_t handled;
    handled = 0;
    struct sigaction ignore = {}, handle = {}, before[2], now;
    ignore.sa_handler = SIG_IGN;
    handle.sa_handler = [](int) { handled = handled + 1; };
    ASSERT_EQ(::sigaction(SIGUSR1, &ignore, &before[0]), 0);
    ASSERT_EQ(::sigaction(SIGUSR2, &handle, &before[1]), 0);
    for (int signal : {SIGUSR1, SIGUSR2}) {
        auto body = [&] { EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), signal); };
        const fiber_t waiter = start(body);
        settle();
        EXPECT_EQ(send_to_process(signal), 0);
        join(waiter);
    }
    EXPECT_EQ(handled, 0);
    ASSERT_EQ(::sigaction(SIGUSR1, &before[0], &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
    ASSERT_EQ(::sigaction(SIGUSR2, &before[1], &now), 0);
    EXPECT_EQ(now.sa_handler, handle.sa_handler);
}

TEST(Sigwait, EndsEarlyWithoutTakingASignal) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGUSR1});
    warm_up();
    const int before = descriptors();
    int result = 0;
    auto body = [&] { result = fiber_sigwait(&blocked.set, nullptr); };
    fiber_t waiter = start(body);
    settle();
    EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
    join(waiter);
    EXPECT_EQ(result, -ECANCELED);
    waiter = start(body);
    EXPECT_EQ(fiber_interrupt(waiter, nullptr), 0);
    join(waiter);
    EXPECT_EQ(result, -EINTR);
    FIBER_WITH_TIMEOUT(FIBER_MSEC(1), nullptr) { EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), -ETIMEDOUT); }
    EXPECT_EQ(send_to_process(SIGUSR1), 0);
    auto cancelled = [&] { // before the call: though the signal is there
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), -ECANCELED);
    };
    run(cancelled);
    EXPECT_TRUE(is_pending(SIGUSR1));
    EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGUSR1);
    EXPECT_EQ(descriptors(), before);
}

// Queued signals and waits that are cancelled over and over: each signal is taken once, and in order.
TEST(Sigwait, CancelsLoseNone) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGRTMIN});
    constexpr int count = 200;
    std::vector<int> taken;
    int cancels = 0;
    auto wait = [&] {
        signalfd_siginfo info{};
        const int result = fiber_sigwait(&blocked.set, &info);
        if (result == SIGRTMIN)
            taken.push_back(info.ssi_int);
        else
            EXPECT_EQ(result, -ECANCELED);
        cancels += result == -ECANCELED;
    };
    for (int sent = 0, round = 0; int(taken.size()) < count; round++) {
        const fiber_t waiter = start(wait);
        if (sent % 3 == 0) {
            EXPECT_EQ(fiber_reschedule(), 0);
        }
        if (round % 3 && taken.size() == size_t(sent)) {
            sigval value{};
            value.sival_int = sent++;
            EXPECT_EQ(::sigqueue(::getpid(), SIGRTMIN, value), 0);
        }
        for (int turn = int(taken.size()) % 4; turn > 0; turn--) EXPECT_EQ(fiber_reschedule(), 0);
        const int cancelled = fiber_cancel(waiter, nullptr);
        EXPECT_TRUE(cancelled == 0 || cancelled == -ESRCH);
        join(waiter);
    }
    for (int i = 0; i < count; i++) EXPECT_EQ(taken[size_t(i)], i);
    EXPECT_GT(cancels, 0);
}

TEST(Sigwait, OfSeveralFibersOneGetsEach) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGUSR1});
    int taken = 0, running = 0;
    std::atomic<int> all{0};
    auto wait = [&] {
        running++;
        EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGUSR1);
        taken++;
        all++;
    };
    auto elsewhere = [&] { // its thread has the signal blocked as all that the library starts
        EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGUSR1);
        all++;
    };
    const fiber_t fibers[] = {start(wait), start(wait), start(wait)};
    fiber_cord_t cord = start_cord(elsewhere);
    settle();
    for (int sent = 1; sent <= 4; sent++) {
        EXPECT_EQ(send_to_process(SIGUSR1), 0);
        EXPECT_TRUE(eventually([&] { return all == sent; }));
        settle();
        EXPECT_EQ(all, sent);
    }
    for (fiber_t fiber : fibers) join(fiber);
    join_cord(cord);
    EXPECT_EQ(taken, 3);
    EXPECT_EQ(running, 3);
}

// One that was sent to a thread is for fibers of that thread alone.
TEST(Sigwait, ASignalToAThread) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGUSR1});
    std::atomic<pid_t> thread{0};
    std::atomic<bool> taken{false};
    auto elsewhere = [&] {
        thread = pid_t(::syscall(SYS_gettid));
        EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGUSR1);
        taken = true;
    };
    int result = 0;
    auto body = [&] { result = fiber_sigwait(&blocked.set, nullptr); };
    const fiber_t here = start(body);
    fiber_cord_t cord = start_cord(elsewhere);
    EXPECT_TRUE(eventually([&] { return thread != 0; }));
    settle();
    EXPECT_EQ(::syscall(SYS_tgkill, ::getpid(), thread.load(), SIGUSR1), 0);
    EXPECT_TRUE(eventually([&] { return taken.load(); }));
    join_cord(cord);
    settle();
    EXPECT_TRUE(eventually([&] { return fiber_state(here) != FIBER_RUNNABLE; }));
    EXPECT_EQ(fiber_state(here), FIBER_WAITING);
    EXPECT_EQ(fiber_cancel(here, nullptr), 0);
    join(here);
    EXPECT_EQ(result, -ECANCELED);
}

// A handler that is a fiber does I/O; SIGINT reaches it while two fibers only give each other turns.
TEST(Sigwait, SIGINTReachesAFiberWhileOthersBusyReschedule) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGINT});
    Pipe pipe;
    bool interrupted = false;
    uint64_t turns = 0;
    auto handler = [&] {
        EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGINT);
        EXPECT_EQ(fiber_write(pipe.write_end, "ending", 6), 6);
        char text[8];
        EXPECT_EQ(fiber_read(pipe.read_end, text, sizeof text), 6);
        interrupted = true;
    };
    auto busy = [&] {
        const int64_t give_up = fiber_now() + FIBER_SEC(60);
        while (!interrupted && fiber_now() < give_up) {
            EXPECT_EQ(fiber_reschedule(), 0);
            if (++turns == 1000) {
                EXPECT_EQ(send_to_process(SIGINT), 0);
            }
        }
    };
    const fiber_t fibers[] = {spawn(handler), spawn(busy), spawn(busy)};
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_TRUE(interrupted);
}

TEST(Sigwait, WithoutDescriptors) {
    NEEDS_SIGNALS();
    NOT_UNDER_QEMU("opens its own descriptors");
    Blocked blocked({SIGUSR1});
    warm_up();
    EXPECT_EQ(send_to_process(SIGUSR1), 0);
    rlimit limit = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlimit none = limit;
    none.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const int result = fiber_sigwait(&blocked.set, nullptr);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(result, -EMFILE);
    EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGUSR1);
}

// A fiber that waits on a cord whose thread ends, such as a daemon, never runs again, and leaves no descriptor open.
TEST(Sigwait, OnAThreadThatEnds) {
    NEEDS_SIGNALS();
    Blocked blocked({SIGUSR1});
    warm_up();
    const int before = descriptors();
    {
        Doomed doomed([&] { fiber_sigwait(&blocked.set, nullptr); }, 3);
    }
    EXPECT_EQ(descriptors(), before);
    EXPECT_EQ(send_to_process(SIGUSR1), 0);
    EXPECT_EQ(fiber_sigwait(&blocked.set, nullptr), SIGUSR1);
}

// ---------------------------------------------------------------------------------------------------------------
// Threads of the library's
// ---------------------------------------------------------------------------------------------------------------

namespace {

constexpr int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

bool is_raised(int signal) { return std::find(std::begin(raised), std::end(raised), signal) != std::end(raised); }

// All signals except those that the C library, or an emulator, keeps for itself.
sigset_t blockable() {
    sigset_t all, before, blocked;
    sigfillset(&all);
    EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, &before, &blocked), 0);
    return blocked;
}

void expect_all_blocked() {
    sigset_t mask;
    EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
    const sigset_t full = blockable();
    for (int signal = 1; signal < NSIG; signal++) {
        if (signal == SIGKILL || signal == SIGSTOP || sigismember(&full, signal) != 1) continue;
        EXPECT_EQ(sigismember(&mask, signal), !is_raised(signal)) << signal;
    }
}

sigset_t mask_here() {
    sigset_t mask;
    sigemptyset(&mask);
    EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
    return mask;
}

} // namespace

TEST(SignalsOfThreads, CordsAndWorkersTakeNone) {
    NEEDS_THREADS();
    Blocked blocked({SIGUSR2}); // of the caller's: it stays as it is
    auto look = [] { expect_all_blocked(); };
    fiber_cord_t cord = start_cord(look);
    join_cord(cord);
    fiber_pool_t pool{};
    ASSERT_EQ(fiber_pool_create(&pool, nullptr), 0);
    EXPECT_EQ(fiber_pool_submit(
                  pool,
                  [](void *) -> void * {
                      expect_all_blocked();
                      return nullptr;
                  },
                  nullptr),
              0);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    const sigset_t after = mask_here();
    for (int signal : {SIGTERM, SIGUSR1, SIGSEGV}) EXPECT_EQ(sigismember(&after, signal), 0) << signal;
    EXPECT_EQ(sigismember(&after, SIGUSR2), 1);
}

// On libev, the library's threads perform calls that block.
TEST(SignalsOfThreads, ThreadsForOperationsTakeNone) {
    NEEDS_THREADS();
    NOT_UNDER_QEMU("keeps the masks of threads to itself");
    Descriptor file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_GE(file, 0);
    EXPECT_EQ(fiber_pwrite(file, "x", 1, 0), 1);
    uint64_t expected = 0;
    sigset_t full;
    sigfillset(&full);
    for (int signal = 1; signal <= 64; signal++) {
        if (signal == SIGKILL || signal == SIGSTOP || is_raised(signal)) continue;
        if (sigismember(&full, signal) == 1) expected |= 1ull << (signal - 1);
    }
    int found = 0;
    DIR *tasks = ::opendir("/proc/self/task");
    ASSERT_NE(tasks, nullptr);
    while (const dirent *entry = ::readdir(tasks)) {
        std::ifstream status("/proc/self/task/" + std::string(entry->d_name) + "/status");
        std::string line;
        bool ours = false;
        while (std::getline(status, line)) {
            if (line == "Name:\tfiberrt-offload") ours = true;
            if (ours && line.starts_with("SigBlk:")) {
                EXPECT_EQ(std::stoull(line.substr(7), nullptr, 16), expected);
                found++;
            }
        }
    }
    ::closedir(tasks);
    if (fiber_backend_name() == std::string("ev")) {
        EXPECT_GT(found, 0);
    }
}
