// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for child processes of adopted code: results are the kernel's, the thread goes on meanwhile, and a wait that ends
// early reaps nothing.
#include "adopted.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace {

using adopted::outcome;
using adopted::Outcome;

class PosixProcess : public adopted::Program {
protected:
    void SetUp() override {
        NOT_UNDER_QEMU("knows no pidfds");
        Program::SetUp();
    }
};

// A child that lives until it gets a byte, then exits with the status.
class Child {
public:
    explicit Child(int status = 7) {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        pid_ = fork();
        if (pid_ == 0) {
            ::close(ends[1]);
            char byte;
            while (syscall(SYS_read, ends[0], &byte, 1) < 0 && errno == EINTR) {}
            _exit(status);
        }
        ::close(ends[0]);
        keeps_alive_ = ends[1];
    }
    ~Child() {
        if (waitpid(pid_, nullptr, WNOHANG) != 0) { // it has ended
            if (keeps_alive_ >= 0) close(keeps_alive_);
            return;
        }
        finish();
        waitpid(pid_, nullptr, 0);
    }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    pid_t pid() const { return pid_; }
    void finish() {
        if (keeps_alive_ < 0) return;
        EXPECT_EQ(::write(keeps_alive_, "x", 1), 1);
        close(keeps_alive_);
        keeps_alive_ = -1;
    }

private:
    pid_t pid_;
    int keeps_alive_;
};

struct Reaped {
    Outcome outcome;
    int status = 0;
    bool operator==(const Reaped &) const = default;
};
std::ostream &operator<<(std::ostream &out, const Reaped &reaped) {
    return out << reaped.outcome << ", status " << reaped.status;
}

// Calls wait(pid, &status) in a fiber, which must wait until the child is told to end; and on a thread, for comparison.
// The result is compared as a child or none: the two have different children.
template <class Wait>
void reaps_as_the_kernel_does(Wait wait) {
    auto reap = [&](pid_t pid) {
        Reaped reaped;
        reaped.outcome = outcome([&] { return wait(pid, &reaped.status); });
        if (reaped.outcome.result == pid) reaped.outcome.result = 1;
        return reaped;
    };
    Reaped by_kernel, by_fiber;
    {
        Child child;
        child.finish();
        by_kernel = adopted::on_thread([&] { return reap(child.pid()); });
    }
    {
        Child child;
        adopted::while_it_waits([&] { by_fiber = reap(child.pid()); }, [&](fiber_t) { child.finish(); });
        EXPECT_EQ(outcome([&] { return waitpid(child.pid(), nullptr, 0); }), (Outcome{-1, ECHILD}));
    }
    EXPECT_EQ(by_fiber, by_kernel);
    Child child;
    adopted::ends_early([&] {
        int status;
        return wait(child.pid(), &status);
    });
    adopted::is_interrupted([&] {
        int status;
        return wait(child.pid(), &status);
    });
    child.finish(); // the ended waits have reaped nothing
    int status = 0;
    EXPECT_EQ(waitpid(child.pid(), &status, 0), child.pid());
    EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(PosixProcess, WaitpidOfOneChild) {
    reaps_as_the_kernel_does([](pid_t pid, int *status) { return waitpid(pid, status, 0); });
}

TEST_F(PosixProcess, WaitpidOfAnyChild) {
    reaps_as_the_kernel_does([](pid_t, int *status) { return waitpid(-1, status, 0); });
}

TEST_F(PosixProcess, WaitpidOfTheGroup) {
    reaps_as_the_kernel_does([](pid_t, int *status) { return waitpid(0, status, 0); });
}

TEST_F(PosixProcess, Wait) {
    reaps_as_the_kernel_does([](pid_t, int *status) { return wait(status); });
}

TEST_F(PosixProcess, Wait3) {
    reaps_as_the_kernel_does([](pid_t, int *status) { return wait3(status, 0, nullptr); });
}

TEST_F(PosixProcess, Wait4FillsTheUsage) {
    reaps_as_the_kernel_does([](pid_t pid, int *status) {
        rusage usage;
        memset(&usage, 0xff, sizeof usage);
        pid_t result = wait4(pid, status, 0, &usage);
        EXPECT_TRUE(result <= 0 || usage.ru_maxrss >= 0);
        return result;
    });
}

TEST_F(PosixProcess, WaitidOfANumber) {
    reaps_as_the_kernel_does([](pid_t pid, int *status) {
        siginfo_t info = {};
        int result = waitid(P_PID, id_t(pid), &info, WEXITED);
        *status = result ? 0 : info.si_status + (info.si_code << 8) + (info.si_pid == pid ? 1 << 16 : 0);
        return result;
    });
}

TEST_F(PosixProcess, WaitidWithoutInfo) {
    reaps_as_the_kernel_does([](pid_t, int *status) {
        *status = 0;
        return waitid(P_ALL, 0, nullptr, WEXITED);
    });
}

TEST_F(PosixProcess, WaitidOfADescriptor) {
    reaps_as_the_kernel_does([](pid_t pid, int *status) {
        int pidfd = int(syscall(SYS_pidfd_open, pid, 0));
        siginfo_t info = {};
        int result = waitid(P_PIDFD, id_t(pidfd), &info, WEXITED);
        int error = errno;
        close(pidfd);
        errno = error;
        *status = result ? 0 : info.si_status;
        return result;
    });
}

TEST_F(PosixProcess, WaitidLeavesTheChildWithNowait) {
    Child child;
    siginfo_t info = {};
    adopted::while_it_waits([&] { EXPECT_EQ(waitid(P_PID, id_t(child.pid()), &info, WEXITED | WNOWAIT), 0); },
                            [&](fiber_t) { child.finish(); });
    EXPECT_EQ(info.si_pid, child.pid());
    EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), child.pid());
}

TEST_F(PosixProcess, AChildThatStopsAndContinues) {
    Child child;
    int status = 0;
    adopted::while_it_waits([&] { EXPECT_EQ(waitpid(child.pid(), &status, WUNTRACED), child.pid()); },
                            [&](fiber_t) { kill(child.pid(), SIGSTOP); });
    EXPECT_TRUE(WIFSTOPPED(status));
    adopted::while_it_waits([&] { EXPECT_EQ(waitpid(child.pid(), &status, WCONTINUED), child.pid()); },
                            [&](fiber_t) { kill(child.pid(), SIGCONT); });
    EXPECT_TRUE(WIFCONTINUED(status));
}

TEST_F(PosixProcess, AChildThatASignalEnds) {
    Child child;
    int status = 0;
    adopted::while_it_waits([&] { EXPECT_EQ(waitpid(child.pid(), &status, 0), child.pid()); },
                            [&](fiber_t) { kill(child.pid(), SIGKILL); });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST_F(PosixProcess, ErrorsAreTheKernels) {
    auto none = [] { return outcome([] { return waitpid(-1, nullptr, 0); }); };
    EXPECT_EQ(adopted::on_fiber(none), adopted::on_thread(none));
    EXPECT_EQ(adopted::on_fiber(none).error, ECHILD);
    auto not_a_child = [] { return outcome([] { return waitpid(1, nullptr, 0); }); };
    EXPECT_EQ(adopted::on_fiber(not_a_child), adopted::on_thread(not_a_child));
    auto bad_options = [] { return outcome([] { return waitpid(-1, nullptr, 0x8000); }); };
    EXPECT_EQ(adopted::on_fiber(bad_options), adopted::on_thread(bad_options));
    auto nothing_asked = [] { return outcome([] { return waitid(P_ALL, 0, nullptr, 0); }); };
    EXPECT_EQ(adopted::on_fiber(nothing_asked), adopted::on_thread(nothing_asked));
}

TEST_F(PosixProcess, WithWnohangItDoesNotWait) {
    Child child;
    EXPECT_EQ(adopted::on_fiber([&] { return waitpid(child.pid(), nullptr, WNOHANG); }), 0);
    siginfo_t info = {};
    EXPECT_EQ(adopted::on_fiber([&] { return waitid(P_PID, id_t(child.pid()), &info, WEXITED | WNOHANG); }), 0);
    EXPECT_EQ(info.si_pid, 0);
}

TEST_F(PosixProcess, TwoFibersWaitForTwoChildren) {
    Child first(1), second(2);
    int status = 0;
    auto wait_for_second = [&] { EXPECT_EQ(waitpid(second.pid(), &status, 0), second.pid()); };
    fiber_t other = support::start(wait_for_second);
    adopted::while_it_waits([&] { EXPECT_EQ(waitpid(first.pid(), nullptr, 0), first.pid()); },
                            [&](fiber_t) { first.finish(); });
    EXPECT_EQ(status, 0);
    second.finish();
    support::join(other);
    EXPECT_EQ(WEXITSTATUS(status), 2);
}

// The child of a vfork calls functions on numbers for which the parent's fibers wait.
TEST_F(PosixProcess, TheChildOfAVforkLeavesTheParentsFibersAlone) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    char byte = 0;
    auto reader = [&] { EXPECT_EQ(read(ends[0], &byte, 1), 1); };
    fiber_t fiber = support::spawn(reader);
    ASSERT_EQ(fiber_reschedule(), 0);
    for (bool waits : {false, true}) {
        pid_t child = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): it is tested here
        ASSERT_GE(child, 0);
        if (child == 0) {
            if (waits) {
                pollfd none = {ends[0], POLLIN, 0};
                poll(&none, 1, 1); // NOLINT(clang-analyzer-unix.Vfork)
            }
            close(ends[0]); // NOLINT(clang-analyzer-unix.Vfork)
            _exit(7);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(WEXITSTATUS(status), 7);
    }
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    support::join(fiber);
    EXPECT_EQ(byte, 'x');
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_F(PosixProcess, InANoSwitchSectionItBlocksTheThread) {
    Child child;
    bool other_ran = false;
    auto other = [&] { other_ran = true; };
    fiber_t fiber = support::spawn(other);
    std::thread finisher([&] { child.finish(); });
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(waitpid(child.pid(), nullptr, 0), child.pid());
    EXPECT_FALSE(other_ran);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    finisher.join();
    support::join(fiber);
}

} // namespace
