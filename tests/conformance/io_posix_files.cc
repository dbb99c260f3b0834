// SPDX-License-Identifier: MIT OR Apache-2.0
// The scenarios of docs/posix-calls.md without sockets: terminals, FIFOs and pipes, and the descriptors of events.
#include "io_posix.h"

#include "io_support.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace posix {

namespace {

void put(int fd, const std::string &text) {
    EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::function<std::string(Calls &)> reads(int fd, size_t count) {
    return [=](Calls &calls) {
        std::string buffer(count + 1, '\0');
        return bytes(calls.read(fd, buffer.data(), count));
    };
}

std::function<std::string(Calls &)> writes(int fd, size_t count) {
    return [=](Calls &calls) { return bytes(calls.write(fd, std::string(count + 1, 'w').data(), count)); };
}

void outcome_of(Trial &trial, std::function<std::string(Calls &)> body) {
    auto waiter = trial.begin(std::move(body));
    trial.outcome(*waiter);
}

// pread and pwrite at 0.
void positioned(Trial &trial, int fd, size_t count) {
    outcome_of(trial,
               [=](Calls &calls) { return bytes(calls.pread(fd, std::string(count + 1, '\0').data(), count, 0)); });
    outcome_of(trial,
               [=](Calls &calls) { return bytes(calls.pwrite(fd, std::string(count + 1, '\0').data(), count, 0)); });
}

// A call that waits at first, and ends when something has come.
void until(Trial &trial, std::function<std::string(Calls &)> body, const std::function<void()> &comes) {
    auto waiter = trial.begin(std::move(body));
    trial.outcome(*waiter);
    comes();
    trial.outcome(*waiter);
}

// ---- Terminals ------------------------------------------------------------------------------------------------------

// The slave is read from, the master written to.
struct Terminal {
    enum : int { FOREVER = 255 }; // VTIME: 25.5 seconds

    int slave, master;

    // In lines.
    explicit Terminal(Trial &trial, bool master_for_calls = false) {
        master = trial.own(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), master_for_calls);
        EXPECT_EQ(grantpt(master) | unlockpt(master), 0);
        slave = trial.own(::open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC), !master_for_calls);
    }
    Terminal(Trial &trial, int least, int time, bool lines = false) : Terminal(trial) { mode(least, time, lines); }

    void mode(int least, int time, bool lines = false) const {
        termios mode;
        EXPECT_EQ(tcgetattr(slave, &mode), 0);
        if (!lines) cfmakeraw(&mode);
        mode.c_cc[VMIN] = static_cast<cc_t>(least);
        mode.c_cc[VTIME] = static_cast<cc_t>(time);
        EXPECT_EQ(tcsetattr(slave, TCSANOW, &mode), 0);
    }
    void types(const std::string &text) const { put(master, text); }
    // Like types(), and waits until the slave has the text.
    void has(const std::string &text) const {
        types(text);
        EXPECT_TRUE(support::eventually([&] {
            pollfd look = {slave, POLLIN, 0};
            int count = 0;
            return ioctl(slave, FIONREAD, &count) == 0 &&
                   (count >= static_cast<int>(text.size()) || (::poll(&look, 1, 0) == 1 && count == 0));
        }));
    }
};

// A read for which VTIME is over: it must have taken that long.
std::function<std::string(Calls &)> reads_until_time(int fd, int deciseconds) {
    return [=](Calls &calls) {
        char buffer[16];
        const int64_t begin = fiber_now();
        const std::string result = bytes(calls.read(fd, buffer, 10));
        const bool late =
            fiber_now() - begin > FIBER_MSEC(100) * deciseconds - FIBER_MSEC(20); // the kernel's clock ticks
        return result + (late ? " after VTIME" : " too early");
    };
}

const Scenario terminal_scenarios[] = {
    {"tty_lines",
     [](Trial &trial) {
         const Terminal tty(trial);
         until(trial, reads(tty.slave, 10), [&] { tty.types("ab\n"); });
         tty.has("abcdef\n");
         outcome_of(trial, reads(tty.slave, 4));
         outcome_of(trial, reads(tty.slave, 10));
     }},
    {"tty_lines_no_newline",
     [](Trial &trial) {
         const Terminal tty(trial);
         tty.types("ab");
         until(trial, reads(tty.slave, 10), [&] { tty.types("\x04"); });
     }},
    {"tty_lines_min_0",
     [](Trial &trial) {
         const Terminal tty(trial, 0, 0, true);
         until(trial, reads(tty.slave, 10), [&] { tty.types("ab\n"); });
     }},
    {"tty_lines_min_10",
     [](Trial &trial) {
         const Terminal tty(trial, 10, 0, true);
         until(trial, reads(tty.slave, 10), [&] { tty.types("ab\n"); });
     }},
    {"tty_eof",
     [](Trial &trial) {
         const Terminal tty(trial);
         until(trial, reads(tty.slave, 10), [&] { tty.types("\x04"); });
     }},
    {"tty_min_1",
     [](Trial &trial) {
         const Terminal tty(trial, 1, 0);
         until(trial, reads(tty.slave, 10), [&] { tty.types("a"); });
         tty.has("abc");
         outcome_of(trial, reads(tty.slave, 10));
     }},
    {"tty_min_1_time",
     [](Trial &trial) {
         const Terminal tty(trial, 1, Terminal::FOREVER);
         until(trial, reads(tty.slave, 10), [&] { tty.types("a"); });
     }},
    {"tty_min_3",
     [](Trial &trial) {
         const Terminal tty(trial, 3, 0);
         tty.has("ab");
         until(trial, reads(tty.slave, 10), [&] { tty.types("c"); });
         tty.has("abcde");
         outcome_of(trial, reads(tty.slave, 10));
     }},
    {"tty_min_3_poll",
     [](Trial &trial) {
         const Terminal tty(trial, 3, 0);
         auto waiter = trial.begin([&](Calls &calls) { return events(calls.poll(tty.slave, POLLIN)); });
         trial.outcome(*waiter);
         tty.types("a");
         trial.outcome(*waiter);
         tty.types("bc");
         trial.outcome(*waiter);
     }},
    {"tty_min_10_short_read",
     [](Trial &trial) {
         const Terminal tty(trial, 10, 0);
         tty.has("a");
         until(trial, reads(tty.slave, 2), [&] { tty.types("b"); });
         tty.has("abc");
         outcome_of(trial, reads(tty.slave, 2));
     }},
    {"tty_min_3_time",
     [](Trial &trial) {
         const Terminal tty(trial, 3, Terminal::FOREVER);
         auto waiter = trial.begin(reads(tty.slave, 10));
         trial.outcome(*waiter);
         tty.types("ab");
         trial.outcome(*waiter);
         tty.types("c");
         trial.outcome(*waiter);
         tty.has("abcde");
         outcome_of(trial, reads(tty.slave, 10));
     }},
    {"tty_min_3_time_short_read",
     [](Trial &trial) {
         const Terminal tty(trial, 3, Terminal::FOREVER);
         tty.has("ab");
         outcome_of(trial, reads(tty.slave, 2));
     }},
    {"tty_min_3_time_over",
     [](Trial &trial) {
         const Terminal tty(trial, 3, 1);
         tty.has("ab");
         outcome_of(trial, reads_until_time(tty.slave, 1));
     }},
    {"tty_min_3_no_first",
     [](Trial &trial) {
         const Terminal tty(trial, 3, 1);
         until(trial, reads_until_time(tty.slave, 1), [&] { tty.types("a"); });
     }},
    {"tty_min_0",
     [](Trial &trial) {
         const Terminal tty(trial, 0, 0);
         outcome_of(trial, reads(tty.slave, 10));
         tty.has("ab");
         outcome_of(trial, reads(tty.slave, 10));
     }},
    {"tty_min_0_time",
     [](Trial &trial) {
         const Terminal tty(trial, 0, Terminal::FOREVER);
         until(trial, reads(tty.slave, 10), [&] { tty.types("a"); });
     }},
    {"tty_min_0_time_over",
     [](Trial &trial) {
         const Terminal tty(trial, 0, 1);
         outcome_of(trial, reads_until_time(tty.slave, 1));
     }},
    {"tty_readv",
     [](Trial &trial) {
         const Terminal tty(trial, 3, Terminal::FOREVER);
         tty.has("ab");
         char first[1], second[1], third[8];
         const auto readv = [&](Calls &calls) {
             const iovec parts[] = {{first, 1}, {nullptr, 0}, {second, 1}, {third, 8}};
             const int64_t result = calls.readv(tty.slave, parts, 4);
             return bytes(result) + " " + std::string({first[0], second[0], third[0]});
         };
         until(trial, readv, [&] { tty.types("c"); });
     }},
    {"tty_readv_many",
     [](Trial &trial) {
         const Terminal tty(trial, 12, 0);
         tty.has("abcdefghijkl");
         outcome_of(trial, [&](Calls &calls) {
             char buffers[12];
             iovec parts[12];
             for (int i = 0; i < 12; i++) parts[i] = {&buffers[i], 1};
             const int64_t result = calls.readv(tty.slave, parts, 12);
             return bytes(result) + " " + std::string(buffers, 12);
         });
     }},
    {"tty_splice",
     [](Trial &trial) {
         const Terminal tty(trial, 3, Terminal::FOREVER);
         const Trial::Pair pipe = trial.pipe();
         tty.has("ab");
         until(
             trial, [&](Calls &calls) { return bytes(calls.splice(tty.slave, pipe.there, 10)); },
             [&] { tty.types("c"); });
     }},
    {"tty_splice_min_0",
     [](Trial &trial) {
         const Terminal tty(trial, 0, 0);
         const Trial::Pair pipe = trial.pipe();
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.splice(tty.slave, pipe.there, 10)); });
     }},
    {"tty_read_nothing",
     [](Trial &trial) {
         const Terminal tty(trial, 1, 0);
         outcome_of(trial, reads(tty.slave, 0));
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.readv(tty.slave, nullptr, 0)); });
         outcome_of(trial, writes(tty.slave, 0));
     }},
    {"tty_hung_up",
     [](Trial &trial) {
         const Terminal tty(trial, 3, Terminal::FOREVER);
         trial.disown(tty.master);
         ::close(tty.master);
         outcome_of(trial, reads(tty.slave, 10));
         outcome_of(trial, writes(tty.slave, 1));
     }},
    {"tty_hung_up_during",
     [](Trial &trial) {
         const Terminal tty(trial, 1, 0);
         auto waiter = trial.begin([&](Calls &calls) {
             char byte;
             const int64_t result = calls.read(tty.slave, &byte, 1);
             return result == 0 || result == -EIO ? "the end" : bytes(result); // depends on which half is closed first
         });
         trial.outcome(*waiter);
         trial.disown(tty.master);
         ::close(tty.master);
         trial.outcome(*waiter);
     }},
    {"tty_master",
     [](Trial &trial) {
         const Terminal tty(trial, true);
         tty.mode(10, Terminal::FOREVER);
         until(trial, reads(tty.master, 10), [&] { put(tty.slave, "a"); });
         tty.mode(0, 0);
         until(trial, reads(tty.master, 10), [&] { put(tty.slave, "a"); });
     }},
    {"tty_master_alone",
     [](Trial &trial) {
         const Terminal tty(trial, true);
         trial.disown(tty.slave);
         ::close(tty.slave);
         outcome_of(trial, reads(tty.master, 10));
     }},
    {"tty_packet_mode",
     [](Trial &trial) {
         const Terminal tty(trial, true);
         tty.mode(1, 0);
         const int on = 1;
         EXPECT_EQ(ioctl(tty.master, TIOCPKT, &on), 0);
         until(trial, reads(tty.master, 10), [&] { tcflush(tty.slave, TCIFLUSH); });
         until(trial, reads(tty.master, 10), [&] { put(tty.slave, "ab"); });
     }},
    {"tty_write_stopped",
     [](Trial &trial) {
         const Terminal tty(trial, 1, 0);
         EXPECT_EQ(tcflow(tty.slave, TCOOFF), 0);
         until(trial, writes(tty.slave, 3), [&] { EXPECT_EQ(tcflow(tty.slave, TCOON), 0); });
     }},
    {"tty_poll_out_stopped",
     [](Trial &trial) {
         const Terminal tty(trial, 1, 0);
         EXPECT_EQ(tcflow(tty.slave, TCOOFF), 0);
         until(
             trial, [&](Calls &calls) { return events(calls.poll(tty.slave, POLLOUT)); },
             [&] { EXPECT_EQ(tcflow(tty.slave, TCOON), 0); });
     }},
    {"tty_poll_out_hung_up",
     [](Trial &trial) {
         const Terminal tty(trial, 1, 0);
         EXPECT_EQ(tcflow(tty.slave, TCOOFF), 0);
         until(
             trial, [&](Calls &calls) { return events(calls.poll(tty.slave, POLLOUT)); },
             [&] {
                 trial.disown(tty.master);
                 ::close(tty.master);
             });
     }},
    {"tty_close",
     [](Trial &trial) {
         const Terminal tty(trial, 1, 0);
         trial.disown(tty.slave);
         outcome_of(trial, [&](Calls &calls) { return name_of_error(calls.close(tty.slave)); });
     }},
};

// ---- Pipes and FIFOs ------------------------------------------------------------------------------------------------

struct Fifo {
    explicit Fifo() { EXPECT_EQ(mkfifo(name.c_str(), 0600), 0); }
    int open(Trial &trial, int flags, bool for_calls) const {
        int fd = -1;
        // Without a reader, a writer's open fails with ENXIO: the reader may be a thread that has not begun its open yet.
        for (int tries = 0; tries < 10'000; tries++) {
            fd = ::open(name.c_str(), flags | O_NONBLOCK | O_CLOEXEC);
            if (fd >= 0 || errno != ENXIO) break;
            ::usleep(1000);
        }
        trial.own(fd, for_calls);
        if (!trial.nonblocking || !for_calls) {
            EXPECT_EQ(fcntl(fd, F_SETFL, 0), 0);
        }
        return fd;
    }
    support::Folder folder;
    std::string name = folder.path("fifo");
};

void fill(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    EXPECT_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    char page[4096] = {};
    while (::write(fd, page, sizeof page) > 0) {}
    EXPECT_EQ(fcntl(fd, F_SETFL, flags), 0);
}

std::string take(int fd, size_t count) {
    std::string buffer(count, '\0');
    EXPECT_EQ(::read(fd, buffer.data(), count), static_cast<ssize_t>(count));
    return buffer;
}

struct IgnoresSigpipe {
    IgnoresSigpipe() { before = signal(SIGPIPE, SIG_IGN); }
    ~IgnoresSigpipe() { signal(SIGPIPE, before); }
    void (*before)(int);
};

const Scenario pipe_scenarios[] = {
    {"pipe_read",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         until(trial, reads(pipe.here, 10), [&] { put(pipe.there, "abc"); });
     }},
    {"pipe_ended",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         until(trial, reads(pipe.here, 10), [&] {
             trial.disown(pipe.there);
             ::close(pipe.there);
         });
         outcome_of(trial, reads(pipe.here, 10));
     }},
    {"pipe_nothing",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         char byte;
         const iovec empty[2] = {{&byte, 0}, {&byte, 0}};
         outcome_of(trial, reads(pipe.here, 0));
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.readv(pipe.here, empty, 2)); });
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.readv(pipe.here, nullptr, 0)); });
         fill(pipe.there);
         outcome_of(trial, writes(pipe.there, 0));
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.writev(pipe.there, empty, 2)); });
     }},
    {"pipe_wrong_end",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         char byte = 0;
         const iovec empty = {&byte, 0};
         outcome_of(trial, reads(pipe.there, 1));
         outcome_of(trial, reads(pipe.there, 0));
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.readv(pipe.there, &empty, 1)); });
         outcome_of(trial, writes(pipe.here, 1));
     }},
    {"pipe_full",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         fill(pipe.there);
         until(trial, writes(pipe.there, 1), [&] { take(pipe.here, 4096); });
     }},
    {"pipe_no_room_for_all",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         fill(pipe.there);
         take(pipe.here, 4096);
         put(pipe.there, "a");
         until(trial, writes(pipe.there, 4096), [&] { take(pipe.here, 4096); });
     }},
    {"pipe_large_write",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         const size_t room = static_cast<size_t>(fcntl(pipe.there, F_GETPIPE_SZ));
         auto waiter = trial.begin([&](Calls &calls) {
             const std::string text(2 * room, 'w');
             const int64_t put = calls.write(pipe.there, text.data(), text.size());
             return std::string(put == static_cast<int64_t>(text.size()) ? "all"
                                : put == static_cast<int64_t>(room)      ? "what there is room for"
                                                                         : bytes(put));
         });
         trial.outcome(*waiter);
         take(pipe.here, room);
         trial.outcome(*waiter);
     }},
    {"pipe_broken",
     [](Trial &trial) {
         const IgnoresSigpipe ignores;
         const Trial::Pair pipe = trial.pipe();
         fill(pipe.there);
         until(trial, writes(pipe.there, 1), [&] {
             trial.disown(pipe.here);
             ::close(pipe.here);
         });
         outcome_of(trial, writes(pipe.there, 1));
         outcome_of(trial, writes(pipe.there, 0));
     }},
    {"pipe_packets",
     [](Trial &trial) {
         int ends[2];
         EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_DIRECT), 0);
         const int here = trial.own(ends[0]), there = trial.own(ends[1], false);
         put(there, "abcde");
         outcome_of(trial, reads(here, 2));
         until(trial, reads(here, 10), [&] { put(there, "f"); });
     }},
    {"fifo_never_written",
     [](Trial &trial) {
         const Fifo fifo;
         const int here = fifo.open(trial, O_RDONLY, true);
         char byte;
         const iovec part = {&byte, 1};
         outcome_of(trial, reads(here, 10));
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.readv(here, &part, 1)); });
         const Trial::Pair pipe = trial.pipe();
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.splice(here, pipe.there, 10)); });
         const int null = trial.own(::open("/dev/null", O_WRONLY | O_CLOEXEC));
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.splice(here, null, 10)); });
     }},
    {"fifo_read",
     [](Trial &trial) {
         const Fifo fifo;
         const int here = fifo.open(trial, O_RDONLY, true);
         const int there = fifo.open(trial, O_WRONLY, false);
         until(trial, reads(here, 10), [&] { put(there, "abc"); });
         until(trial, reads(here, 10), [&] {
             trial.disown(there);
             ::close(there);
         });
         outcome_of(trial, reads(here, 10));
     }},
    {"fifo_both_ways",
     [](Trial &trial) {
         const Fifo fifo;
         const int here = fifo.open(trial, O_RDWR, true);
         until(trial, reads(here, 10), [&] { put(here, "abc"); });
     }},
    {"fifo_wrong_way",
     [](Trial &trial) {
         const Fifo fifo;
         const int reader = fifo.open(trial, O_RDONLY, true);
         const int writer = fifo.open(trial, O_WRONLY, true);
         outcome_of(trial, reads(writer, 1));
         outcome_of(trial, writes(reader, 1));
     }},
    {"fifo_full",
     [](Trial &trial) {
         const Fifo fifo;
         const int there = fifo.open(trial, O_RDONLY, false);
         const int here = fifo.open(trial, O_WRONLY, true);
         fill(here);
         until(trial, writes(here, 1), [&] { take(there, 4096); });
     }},
    {"fifo_broken",
     [](Trial &trial) {
         const IgnoresSigpipe ignores;
         const Fifo fifo;
         const int there = fifo.open(trial, O_RDONLY, false);
         const int here = fifo.open(trial, O_WRONLY, true);
         trial.disown(there);
         ::close(there);
         outcome_of(trial, writes(here, 1));
     }},
    {"fifo_open_read",
     [](Trial &trial) {
         const Fifo fifo;
         until(
             trial, [&](Calls &calls) { return descriptor(calls.open(fifo.name.c_str(), O_RDONLY)); },
             [&] { fifo.open(trial, O_WRONLY, false); });
     }},
    {"fifo_open_write",
     [](Trial &trial) {
         const Fifo fifo;
         until(
             trial, [&](Calls &calls) { return descriptor(calls.open(fifo.name.c_str(), O_WRONLY)); },
             [&] { fifo.open(trial, O_RDONLY, false); });
     }},
    {"fifo_open_nonblock",
     [](Trial &trial) {
         const Fifo fifo;
         outcome_of(trial,
                    [&](Calls &calls) { return descriptor(calls.open(fifo.name.c_str(), O_RDONLY | O_NONBLOCK)); });
         outcome_of(trial,
                    [&](Calls &calls) { return descriptor(calls.open(fifo.name.c_str(), O_WRONLY | O_NONBLOCK)); });
     }},
};

// ---- Events, timers, signals, changes of files ----------------------------------------------------------------------

const Scenario event_scenarios[] = {
    {"eventfd_read",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(0, EFD_CLOEXEC));
         until(trial, reads(fd, 8), [&] { EXPECT_EQ(eventfd_write(fd, 3), 0); });
     }},
    {"eventfd_semaphore",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(2, EFD_CLOEXEC | EFD_SEMAPHORE));
         for (int i = 0; i < 3; i++) outcome_of(trial, reads(fd, 8));
     }},
    {"eventfd_short",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(0, EFD_CLOEXEC));
         outcome_of(trial, reads(fd, 0));
         outcome_of(trial, reads(fd, 7));
         outcome_of(trial, writes(fd, 0));
         outcome_of(trial, writes(fd, 7));
     }},
    {"eventfd_full_short",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(0, EFD_CLOEXEC));
         EXPECT_EQ(eventfd_write(fd, UINT64_MAX - 1), 0);
         outcome_of(trial, writes(fd, 0));
         outcome_of(trial, writes(fd, 7));
     }},
    {"eventfd_vector_of_nothing",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(0, EFD_CLOEXEC));
         char byte;
         const iovec empty = {&byte, 0};
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.readv(fd, &empty, 1)); });
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.writev(fd, &empty, 1)); });
     }},
    {"eventfd_full",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(0, EFD_CLOEXEC));
         EXPECT_EQ(eventfd_write(fd, UINT64_MAX - 5), 0);
         const auto write_ten = [&](Calls &calls) {
             const uint64_t ten = 10;
             return bytes(calls.write(fd, &ten, sizeof ten));
         };
         until(trial, write_ten, [&] { take(fd, 8); });
     }},
    {"eventfd_too_large",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(0, EFD_CLOEXEC));
         outcome_of(trial, [&](Calls &calls) {
             const uint64_t number = UINT64_MAX;
             return bytes(calls.write(fd, &number, sizeof number));
         });
     }},
    {"timerfd_read",
     [](Trial &trial) {
         const int fd = trial.own(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
         until(trial, reads(fd, 8), [&] {
             const itimerspec soon = {{0, 0}, {0, 1}};
             EXPECT_EQ(timerfd_settime(fd, 0, &soon, nullptr), 0);
         });
     }},
    {"timerfd_short",
     [](Trial &trial) {
         const int fd = trial.own(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
         outcome_of(trial, reads(fd, 0));
         outcome_of(trial, reads(fd, 4));
         outcome_of(trial, writes(fd, 8));
     }},
    {"signalfd_read",
     [](Trial &trial) {
         sigset_t set, before;
         sigemptyset(&set);
         sigaddset(&set, SIGRTMIN + 3);
         EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
         {
             const int fd = trial.own(signalfd(-1, &set, SFD_CLOEXEC));
             outcome_of(trial, reads(fd, 0));
             outcome_of(trial, reads(fd, 100));
             until(trial, reads(fd, 200), [&] { EXPECT_EQ(kill(getpid(), SIGRTMIN + 3), 0); });
         }
         EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
     }},
    {"positions_eventfd",
     [](Trial &trial) {
         const int fd = trial.own(eventfd(3, EFD_CLOEXEC));
         for (const size_t count : {8, 0}) positioned(trial, fd, count);
         outcome_of(trial, reads(fd, 8));
         positioned(trial, fd, 8);
     }},
    {"positions_timerfd",
     [](Trial &trial) { positioned(trial, trial.own(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)), 8); }},
    {"positions_signalfd",
     [](Trial &trial) {
         sigset_t none;
         sigemptyset(&none);
         positioned(trial, trial.own(signalfd(-1, &none, SFD_CLOEXEC)), 200);
     }},
    {"positions_inotify", [](Trial &trial) { positioned(trial, trial.own(inotify_init1(IN_CLOEXEC)), 200); }},
    {"positions_epoll", [](Trial &trial) { positioned(trial, trial.own(epoll_create1(EPOLL_CLOEXEC)), 8); }},
    {"inotify_read",
     [](Trial &trial) {
         support::Folder folder;
         const int fd = trial.own(inotify_init1(IN_CLOEXEC));
         EXPECT_GE(inotify_add_watch(fd, folder.name().c_str(), IN_CREATE), 0);
         const auto make = [&](const char *name) { EXPECT_EQ(mkfifo(folder.path(name).c_str(), 0600), 0); };
         until(trial, reads(fd, 200), [&] { make("a"); });
         until(trial, reads(fd, 3), [&] { make("b"); });
         outcome_of(trial, reads(fd, 200));
         until(trial, reads(fd, 0), [&] { make("c"); });
     }},
    {"inotify_vector_of_nothing",
     [](Trial &trial) {
         const int fd = trial.own(inotify_init1(IN_CLOEXEC));
         outcome_of(trial, [&](Calls &calls) { return bytes(calls.readv(fd, nullptr, 0)); });
     }},
    {"epoll",
     [](Trial &trial) {
         const int fd = trial.own(epoll_create1(EPOLL_CLOEXEC));
         const Trial::Pair pipe = trial.pipe();
         epoll_event event = {};
         event.events = EPOLLIN;
         EXPECT_EQ(epoll_ctl(fd, EPOLL_CTL_ADD, pipe.here, &event), 0);
         outcome_of(trial, reads(fd, 8));
         outcome_of(trial, reads(fd, 0));
         until(
             trial, [&](Calls &calls) { return events(calls.poll(fd, POLLIN)); }, [&] { put(pipe.there, "a"); });
     }},
    {"epoll_of_five",
     [](Trial &trial) {
         const Trial::Pair pipe = trial.pipe();
         int fd = pipe.here;
         for (int i = 0; i < 5; i++) {
             const int outer = trial.own(epoll_create1(EPOLL_CLOEXEC));
             epoll_event event = {};
             event.events = EPOLLIN;
             EXPECT_EQ(epoll_ctl(outer, EPOLL_CTL_ADD, fd, &event), 0);
             fd = outer;
         }
         until(
             trial, [&](Calls &calls) { return events(calls.poll(fd, POLLIN)); }, [&] { put(pipe.there, "a"); });
     }},
    {"pidfd",
     [](Trial &trial) {
         const pid_t child = fork();
         if (child == 0) {
             pause();
             _exit(0);
         }
         const int fd = trial.own(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
         outcome_of(trial, reads(fd, 8));
         until(
             trial, [&](Calls &calls) { return events(calls.poll(fd, POLLIN) & POLLIN); },
             [&] { EXPECT_EQ(kill(child, SIGKILL), 0); });
         EXPECT_EQ(waitpid(child, nullptr, 0), child);
     }},
};

// ---- Files and devices ----------------------------------------------------------------------------------------------

// While it lives, files end at 4,096 bytes, and SIGXFSZ is noted.
class FileLimit {
public:
    FileLimit() {
        signals() = 0;
        before_handler_ = signal(SIGXFSZ, [](int) { signals() = 1; });
        EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
        const rlimit page = {4096, before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &page), 0);
    }
    FileLimit(const FileLimit &) = delete;
    FileLimit &operator=(const FileLimit &) = delete;
    ~FileLimit() {
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
        signal(SIGXFSZ, before_handler_);
    }
    static volatile sig_atomic_t &signals() {
        static volatile sig_atomic_t raised;
        return raised;
    }

private:
    rlimit before_ = {};
    void (*before_handler_)(int);
};

const Scenario file_scenarios[] = {
    {"file_limit",
     [](Trial &trial) {
         support::Folder folder;
         const int fd = trial.own(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
         const FileLimit limit;
         outcome_of(trial, writes(fd, 8192));
         EXPECT_EQ(FileLimit::signals(), 0);
         // On io_uring the file system decides whether the signal is raised: the outcome is that of the row, if it is
         // one of the two.
         outcome_of(trial, [&, expected = trial.expected()](Calls &calls) {
             const std::string result = name_of_error(calls.write(fd, "w", 1));
             if (expected == "-EFBIG SIGXFSZ or not" && result == "-EFBIG") return expected;
             return FileLimit::signals() ? result + " SIGXFSZ" : result;
         });
     }},
    {"file",
     [](Trial &trial) {
         support::Folder folder;
         const int fd = trial.own(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
         outcome_of(trial, reads(fd, 10));
         outcome_of(trial, writes(fd, 5));
         EXPECT_EQ(lseek(fd, 3, SEEK_SET), 3);
         outcome_of(trial, reads(fd, 10));
         outcome_of(trial, reads(fd, 0));
         outcome_of(trial, [&](Calls &calls) { return events(calls.poll(fd, POLLIN | POLLOUT)); });
         trial.disown(fd);
         outcome_of(trial, [&](Calls &calls) { return name_of_error(calls.close(fd)); });
     }},
    {"directory",
     [](Trial &trial) {
         const int fd = trial.own(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
         outcome_of(trial, [&](Calls &calls) {
             char byte;
             return calls.read(fd, &byte, 1) == -EISDIR ? "-EISDIR" : "else";
         });
         outcome_of(trial, writes(fd, 1));
     }},
    {"positions_device",
     [](Trial &trial) {
         positioned(trial, trial.own(::open("/dev/null", O_RDWR | O_CLOEXEC)), 3);
         positioned(trial, Terminal(trial).slave, 3);
     }},
    {"positions_proc",
     [](Trial &trial) { positioned(trial, trial.own(::open("/proc/self/comm", O_RDWR | O_CLOEXEC)), 3); }},
    {"dev_null",
     [](Trial &trial) {
         const int fd = trial.own(::open("/dev/null", O_RDWR | O_CLOEXEC));
         outcome_of(trial, reads(fd, 10));
         outcome_of(trial, reads(fd, 0));
         outcome_of(trial, writes(fd, 3));
         outcome_of(trial, writes(fd, 0));
     }},
    {"dev_zero",
     [](Trial &trial) {
         const int fd = trial.own(::open("/dev/zero", O_RDWR | O_CLOEXEC));
         outcome_of(trial, reads(fd, 10));
         outcome_of(trial, reads(fd, 0));
     }},
    {"dev_full",
     [](Trial &trial) {
         const int fd = trial.own(::open("/dev/full", O_RDWR | O_CLOEXEC));
         outcome_of(trial, [&](Calls &calls) { return calls.write(fd, "a", 1) == -ENOSPC ? "-ENOSPC" : "else"; });
         outcome_of(trial, reads(fd, 10));
     }},
};

} // namespace

} // namespace posix
