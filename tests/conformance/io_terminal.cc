// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads that the kernel cannot perform without waiting: they keep no thread, end at their deadlines, and do not hold up
// reads by other threads. docs/posix-calls.md says when such a read ends by itself.
#include "conformance.h"
#include "cord_support.h"
#include "hosted_support.h"
#include "io_support.h"

#include <climits>
#include <csignal>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <thread>

using namespace support;

namespace {

constexpr int LONG_TIME = 255; // VTIME: 25.5 seconds
constexpr int64_t LIMIT_NS = FIBER_SEC(20);

struct Terminal {
    Terminal(int least, int time) {
        master = Descriptor(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
        EXPECT_EQ(grantpt(master) | unlockpt(master), 0);
        slave = Descriptor(::open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC));
        termios mode;
        EXPECT_EQ(tcgetattr(slave, &mode), 0);
        cfmakeraw(&mode);
        mode.c_cc[VMIN] = static_cast<cc_t>(least);
        mode.c_cc[VTIME] = static_cast<cc_t>(time);
        EXPECT_EQ(tcsetattr(slave, TCSANOW, &mode), 0);
    }
    void types(const std::string &text) const {
        EXPECT_EQ(::write(master, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    bool has(int bytes) const {
        return eventually([&] {
            int count = 0;
            return ioctl(slave, FIONREAD, &count) == 0 && count == bytes;
        });
    }
    Descriptor master, slave;
};

// ---- Deadlines and cancels ------------------------------------------------------------------------------------------

using Read = int64_t (*)(int fd);

int64_t by_read(int fd) {
    char buffer[16];
    return fiber_read(fd, buffer, sizeof buffer);
}

int64_t by_readv(int fd) {
    char buffers[2][8];
    const iovec parts[] = {{buffers[0], 8}, {buffers[1], 8}};
    return fiber_readv(fd, parts, 2);
}

int64_t by_splice(int fd) {
    const Stream pipe = make_stream(Kind::pipe);
    return fiber_splice(fd, nullptr, pipe.writer, nullptr, 16, 0);
}

int64_t by_copy(int fd) {
    const Stream pipe = make_stream(Kind::pipe);
    int64_t written = 0;
    const int64_t result = fiber_copy(fd, pipe.writer, 16, &written, nullptr);
    return written ? written : result;
}

int64_t by_hosted(int fd) {
    char buffer[16] = {};
    HostedOperation read(FIBER_OP_READ, fd, buffer, sizeof buffer);
    read.op.flags = FIBER_OP_TIMED;
    read.op.timeout_ns = FIBER_MSEC(500); // a busy machine must not use it up before the first byte is read
    EXPECT_EQ(read.start(), 0);
    fiber_scope_t shield{}; // the operation has its own deadline
    EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
    join(read.fiber);
    EXPECT_EQ(fiber_scope_close(shield, nullptr), 0);
    return read.result;
}

struct Way {
    const char *name;
    Read read;
};
constexpr Way ways[] = {
    {"read", by_read}, {"readv", by_readv}, {"splice", by_splice}, {"copy", by_copy}, {"hosted", by_hosted}};

class TerminalReadTest : public testing::TestWithParam<Way> {
protected:
    void SetUp() override { NOT_ON_SIM("has no terminals"); }
};

// Once a byte has come the kernel's read counts the time to the next one, in which it can not be ended.
TEST_P(TerminalReadTest, ADeadlineEndsItInTheMiddle) {
    const Terminal tty(10, LONG_TIME);
    tty.types("a");
    ASSERT_TRUE(tty.has(1));
    bool others_ran = false;
    auto other = [&] { others_ran = true; };
    fiber_t fiber = spawn(other);
    const int64_t begin = fiber_now();
    int64_t result = 0;
    int verdict = 0;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(20), &verdict) {
        result = GetParam().read(tty.slave);
        EXPECT_TRUE(others_ran) << "it kept the thread";
    }
    EXPECT_LT(fiber_now() - begin, LIMIT_NS);
    EXPECT_EQ(result, 1) << "the byte that had come";
    join(fiber);
}

TEST_P(TerminalReadTest, ACancelEndsItInTheMiddle) {
    const Terminal tty(10, LONG_TIME);
    tty.types("ab");
    ASSERT_TRUE(tty.has(2));
    int64_t result = 0;
    auto body = [&] { result = GetParam().read(tty.slave); };
    const int64_t begin = fiber_now();
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(result, 2);
    EXPECT_LT(fiber_now() - begin, LIMIT_NS);
}

TEST_P(TerminalReadTest, ADeadlineEndsItBeforeTheFirstByte) {
    for (const int least : {0, 1, 10}) {
        const Terminal tty(least, LONG_TIME);
        const int64_t begin = fiber_now();
        int64_t result = 0;
        FIBER_WITH_TIMEOUT(FIBER_MSEC(20), nullptr) { result = GetParam().read(tty.slave); }
        EXPECT_EQ(result, -ETIMEDOUT) << "VMIN " << least;
        EXPECT_LT(fiber_now() - begin, LIMIT_NS);
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, TerminalReadTest, testing::ValuesIn(ways), [](const auto &of) { return of.param.name; });

// The kernel gives 64 bytes at a time, and VMIN needs several times that. Its own read then ends early, with 64.
TEST(TerminalRead, OfAVminThatIsMoreThanTheKernelGivesAtOnce) {
    NOT_ON_SIM("has no terminals");
    const Terminal tty(200, 0);
    tty.types(std::string(230, 'a'));
    ASSERT_TRUE(tty.has(230));
    char buffer[400];
    int64_t result = 0;
    FIBER_WITH_TIMEOUT(LIMIT_NS, nullptr) { result = fiber_read(tty.slave, buffer, sizeof buffer); }
    EXPECT_GE(result, 200);
    auto read = [&] { result = fiber_read(tty.slave, buffer, sizeof buffer); };
    tty.types(std::string(199, 'b'));
    fiber_t reader = start(read);
    settle();
    tty.types("c");
    join(reader);
    EXPECT_GE(result, 200);
}

TEST(TerminalRead, OthersHaveTurnsAmongReadsThatFindNothing) {
    NOT_ON_SIM("has no terminals");
    const Terminal tty(0, 0);
    bool done = false;
    auto other = [&] {
        for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_sleep(0), 0);
        done = true;
    };
    fiber_t fiber = spawn(other);
    char byte;
    for (const int64_t begin = fiber_now(); !done && fiber_now() - begin < LIMIT_NS;) {
        EXPECT_EQ(fiber_read(tty.slave, &byte, 1), 0);
    }
    EXPECT_TRUE(done);
    join(fiber);
}

// A ring may refuse to poll: then the read polls by calls, at intervals that grow. A new cord polls
// for no other reason.
TEST(TerminalRead, LooksSeldomForAByteThatDoesNotCome) {
    NOT_ON_SIM("has no terminals");
    const Terminal tty(0, 3); // 300 ms
    uint64_t polls = 0;
    std::thread([&] {
        EXPECT_EQ(by_read(tty.slave), 0);
        fiber_stats_t stats{};
        EXPECT_EQ(fiber_stats(&stats, sizeof stats), 0);
        polls = stats.polls;
    }).join();
    EXPECT_LT(polls, 100u);
}

// The kernel wakes all that wait for room after each write, also one that it has refused.
TEST(TerminalPoll, RoomIsReportedOnlyWhereThereIsSome) {
    NOT_ON_SIM("has no terminals");
    const Terminal tty(1, 0);
    char name[64];
    ASSERT_EQ(ttyname_r(tty.slave, name, sizeof name), 0);
    const Descriptor other(::open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    ASSERT_EQ(tcflow(tty.slave, TCOOFF), 0);
    int result = 0;
    auto polls = [&] { result = fiber_poll_fd(tty.slave, POLLOUT); };
    fiber_t fiber = start(polls);
    settle();
    EXPECT_EQ(::write(other, "a", 1), -1);
    EXPECT_EQ(errno, EAGAIN);
    settle();
    EXPECT_EQ(result, 0);
    ASSERT_EQ(tcflow(tty.slave, TCOON), 0);
    join(fiber);
    EXPECT_EQ(result, POLLOUT);
}

// ---- Several threads that read one ----------------------------------------------------------------------------------

// On each of several cords one fiber reads, time and again up to a deadline, and another fiber counts how often it has had
// the thread. The bytes are too few for all cords; when no more come, the reads must still end at their deadlines.
struct Readers {
    static constexpr int count = 3;

    explicit Readers(int fd) {
        for (int i = 0; i < count; i++) threads.emplace_back([this, fd] { read_on(fd); });
    }
    void read_on(int fd) {
        bool ended = false;
        auto tick = [&] {
            while (!ended) {
                ticks++;
                fiber_sleep(FIBER_MSEC(1));
            }
        };
        fiber_t fiber = spawn(tick);
        while (!over) {
            char buffer[4096];
            int64_t result = 0;
            FIBER_WITH_TIMEOUT(FIBER_MSEC(2), nullptr) { result = fiber_read(fd, buffer, sizeof buffer); }
            if (result > 0) got += result;
            if (result < 0) {
                EXPECT_EQ(result, -ETIMEDOUT);
            }
        }
        ended = true;
        join(fiber);
        left++;
    }
    // supply: gives one more thing to read. alone: only these readers take it.
    template <class Supply>
    void run(Supply supply, bool alone = true) {
        for (int i = 0; i < 100; i++) {
            supply();
            EXPECT_EQ(fiber_sleep(FIBER_USEC(300)), 0);
        }
        if (alone) { // a busy machine may have run none of them yet
            EXPECT_TRUE(eventually([&] { return got > 0; }));
        }
        over = true;
        const bool all_left = eventually([&] { return left == count; });
        EXPECT_TRUE(all_left) << "a reader is stuck in its thread";
        while (left != count) {
            supply();
            usleep(1000);
        }
        for (std::thread &thread : threads) thread.join();
    }

    std::atomic<bool> over{false};
    std::atomic<int> left{0}, ticks{0};
    std::atomic<int64_t> got{0};
    std::vector<std::thread> threads;
};

TEST(SharedReads, OfATerminal) {
    NOT_ON_SIM("has no terminals");
    for (const int time : {0, LONG_TIME}) {
        for (const int least : {1, 2}) {
            const Terminal tty(least, time);
            Readers readers(tty.slave);
            int64_t typed = 0;
            readers.run([&] {
                tty.types("ab");
                typed += 2;
            });
            tcflush(tty.slave, TCIOFLUSH);
            EXPECT_LE(readers.got, typed);
            EXPECT_GT(readers.got, 0);
        }
    }
}

TEST(SharedReads, OfAMaster) {
    NOT_ON_SIM("has no terminals");
    const Terminal tty(1, 0);
    Readers readers(tty.master);
    readers.run([&] { EXPECT_EQ(::write(tty.slave, "a", 1), 1); });
    EXPECT_GT(readers.got, 0);
}

// Also with a thread that reads by read(2), as another process would.
TEST(SharedReads, OfAFifo) {
    NOT_ON_SIM("has no FIFOs");
    Folder folder;
    const std::string name = folder.path("fifo");
    ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
    const Descriptor fifo(::open(name.c_str(), O_RDWR | O_CLOEXEC));
    const Descriptor reads(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    std::atomic<bool> over{false};
    std::atomic<int64_t> by_thread{0};
    std::thread thread([&] {
        char byte;
        while (!over) by_thread += ::read(reads, &byte, 1);
    });
    Readers readers(reads);
    int64_t written = 0;
    readers.run(
        [&] {
            EXPECT_EQ(::write(fifo, "ab", 2), 2);
            written += 2;
        },
        false);
    over = true;
    EXPECT_EQ(::write(fifo, "a", 1), 1); // for the thread
    written++;
    thread.join();
    int rest = 0;
    EXPECT_EQ(ioctl(reads, FIONREAD, &rest), 0);
    EXPECT_EQ(readers.got + by_thread + rest, written) << "nothing is lost, and nothing read twice";
}

// Into a FIFO that others fill, too.
TEST(SharedReads, AndWritesOfAFifo) {
    NOT_ON_SIM("has no FIFOs");
    Folder folder;
    const std::string name = folder.path("fifo");
    ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
    const Descriptor reads(::open(name.c_str(), O_RDWR | O_CLOEXEC));
    const Descriptor writes(::open(name.c_str(), O_WRONLY | O_CLOEXEC));
    std::atomic<bool> over{false};
    std::atomic<int> left{0};
    std::atomic<int64_t> written{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) {
        threads.emplace_back([&] {
            const std::string text(PIPE_BUF, 'w');
            while (!over) {
                FIBER_WITH_TIMEOUT(FIBER_MSEC(2), nullptr) {
                    const int64_t put = fiber_write(writes, text.data(), text.size());
                    if (put > 0) written += put;
                }
            }
            left++;
        });
    }
    int64_t got = 0;
    std::string buffer(PIPE_BUF, '\0');
    for (int i = 0; i < 200; i++) {
        pollfd look = {reads, POLLIN, 0};
        EXPECT_EQ(::poll(&look, 1, -1), 1);
        got += ::read(reads, buffer.data(), buffer.size());
    }
    over = true;
    EXPECT_TRUE(eventually([&] { return left == 3; })) << "a writer is stuck in its thread";
    for (pollfd look = {reads, POLLIN, 0}; left != 3 || ::poll(&look, 1, 0) == 1;) {
        if (::poll(&look, 1, 10) == 1) got += ::read(reads, buffer.data(), buffer.size());
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(got, written);
}

TEST(SharedReads, OfAnInotifyDescriptor) {
    NOT_ON_SIM("has no inotify");
    Folder folder;
    const Descriptor watches(inotify_init1(IN_CLOEXEC));
    const std::string name = folder.path("file");
    ASSERT_GE(inotify_add_watch(watches, folder.name().c_str(), IN_CREATE), 0);
    Readers readers(watches);
    readers.run([&] {
        EXPECT_EQ(mkfifo(name.c_str(), 0600), 0);
        EXPECT_EQ(::unlink(name.c_str()), 0);
    });
    EXPECT_GT(readers.got, 0);
}

// ---- Job control ----------------------------------------------------------------------------------------------------

// A process whose controlling terminal is a pty, and in its background another one that runs `body` and exits with the
// result. meanwhile: called by the first process with the other; false: something has gone wrong.
template <class Body, class Meanwhile>
void in_background(Body body, Meanwhile meanwhile) {
    const Terminal tty(1, 0);
    const pid_t leader = fork();
    if (leader == 0) {
        alarm(60);
        if (setsid() < 0 || ioctl(tty.slave, TIOCSCTTY, 0) < 0) _exit(100);
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            setpgid(0, 0);
            _exit(body(tty));
        }
        setpgid(child, child);
        if (!meanwhile(tty, child)) _exit(101);
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) _exit(102);
        _exit(WEXITSTATUS(status));
    }
    int status = 0;
    ASSERT_EQ(waitpid(leader, &status, 0), leader);
    ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool is_stopped_by(pid_t child, int signal_number) {
    int status = 0;
    return waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == signal_number;
}

bool in_foreground(const Terminal &tty, pid_t child) {
    return tcsetpgrp(tty.slave, child) == 0 && kill(child, SIGCONT) == 0;
}

bool nothing(const Terminal &, pid_t) { return true; }

TEST(JobControl, AReadInTheBackgroundThatMayNotBeStoppedFailsAtOnce) {
    NOT_ON_SIM("has no terminals");
    in_background(
        [](const Terminal &tty) {
            signal(SIGTTIN, SIG_IGN);
            char byte;
            return fiber_read(tty.slave, &byte, 1) == -EIO && fiber_read(tty.slave, &byte, 0) == -EIO ? 0 : 1;
        },
        nothing);
}

TEST(JobControl, AReadInTheBackgroundStopsTheProcess) {
    NOT_ON_SIM("has no terminals");
    in_background(
        [](const Terminal &tty) {
            char byte;
            return fiber_read(tty.slave, &byte, 1) == 1 && byte == 'x' ? 0 : 1;
        },
        [](const Terminal &tty, pid_t child) {
            if (!is_stopped_by(child, SIGTTIN) || !in_foreground(tty, child)) return false;
            return ::write(tty.master, "x", 1) == 1;
        });
}

// The read begins in the foreground and finds its line when the process has been put into the background.
TEST(JobControl, AReadGoesOnWhenTheProcessComesBack) {
    NOT_ON_SIM("has no terminals");
    in_background(
        [](const Terminal &tty) {
            char byte;
            if (fiber_read(tty.slave, &byte, 1) != 1) return 1; // stopped once, and continued in the foreground
            auto reads = [&] { return fiber_read(tty.slave, &byte, 1) == 1 && byte == 'y' ? 0 : 2; };
            int status = 3;
            auto body = [&] { status = reads(); };
            const fiber_t fiber = start(body);
            kill(getpid(), SIGSTOP); // the read waits; the leader puts this process into the background
            join(fiber);
            return status;
        },
        [](const Terminal &tty, pid_t child) {
            if (!is_stopped_by(child, SIGTTIN) || !in_foreground(tty, child)) return false;
            if (::write(tty.master, "x", 1) != 1 || !is_stopped_by(child, SIGSTOP)) return false;
            signal(SIGTTOU, SIG_IGN); // the leader is in the background itself
            if (tcsetpgrp(tty.slave, getpgrp()) < 0 || kill(child, SIGCONT) < 0) return false;
            if (::write(tty.master, "y", 1) != 1 || !is_stopped_by(child, SIGTTIN)) return false;
            return in_foreground(tty, child);
        });
}

TEST(JobControl, AWriteInTheBackgroundStopsTheProcessUnderTostop) {
    NOT_ON_SIM("has no terminals");
    in_background(
        [](const Terminal &tty) {
            termios mode;
            if (fiber_write(tty.slave, "a", 1) != 1 || tcgetattr(tty.slave, &mode) < 0) return 1;
            mode.c_lflag |= TOSTOP;
            signal(SIGTTOU, SIG_IGN);
            if (tcsetattr(tty.slave, TCSANOW, &mode) < 0 || fiber_write(tty.slave, "b", 1) != 1) return 2;
            signal(SIGTTOU, SIG_DFL);
            return fiber_write(tty.slave, "c", 1) == 1 ? 0 : 3;
        },
        [](const Terminal &tty, pid_t child) { return is_stopped_by(child, SIGTTOU) && in_foreground(tty, child); });
}

} // namespace
