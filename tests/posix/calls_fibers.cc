// SPDX-License-Identifier: MIT OR Apache-2.0
// What only fibers have: waits that are cancelled, interrupted, or end with a scope's deadline; the other fibers' turns;
// closes, forks, and threads that end during a wait.
#include "posix/calls.h"

#include <atomic>
#include <csignal>
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

namespace {

using namespace calls;

// ---- refused waits --------------------------------------------------------------------------------------------------

// A wait that never ends by itself.
struct Wait {
    const char *name;
    int (*make)(std::vector<Descriptor> &all); // the descriptor
    long (*call)(int fd);
    bool ends_connection; // the call's own result is the same: -1
};

int keep(std::vector<Descriptor> &all, Stream stream, bool full = false) {
    if (full) support::fill(stream.writer);
    const int fd = full ? stream.writer : stream.reader;
    all.push_back(std::move(stream.reader));
    all.push_back(std::move(stream.writer));
    return fd;
}
int keep(std::vector<Descriptor> &all, int fd) {
    EXPECT_GE(fd, 0);
    all.emplace_back(fd);
    return fd;
}

template <Kind kind>
int reader(std::vector<Descriptor> &all) {
    return keep(all, make_stream(kind));
}
template <Kind kind>
int full_writer(std::vector<Descriptor> &all) {
    return keep(all, make_stream(kind), true);
}
int datagram(std::vector<Descriptor> &all) { return keep(all, datagrams()); }
int records(std::vector<Descriptor> &all) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    return keep(all, Stream{Descriptor(ends[0]), Descriptor(ends[1])});
}
int listener(std::vector<Descriptor> &all) {
    sockaddr_in address;
    all.push_back(support::tcp_listener(address));
    return all.back();
}
int counter(std::vector<Descriptor> &all) { return keep(all, ::eventfd(0, EFD_CLOEXEC)); }
int full_counter(std::vector<Descriptor> &all) {
    const uint64_t most = UINT64_MAX - 1;
    const int fd = counter(all);
    EXPECT_EQ(::write(fd, &most, sizeof most), ssize_t(sizeof most));
    return fd;
}
int timer(std::vector<Descriptor> &all) { return keep(all, ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)); }
int notifications(std::vector<Descriptor> &all) { return keep(all, ::inotify_init1(IN_CLOEXEC)); }
int epoll(std::vector<Descriptor> &all) { return keep(all, ::epoll_create1(EPOLL_CLOEXEC)); }
int nothing(std::vector<Descriptor> &) { return -1; }

char buffer[1 << 16];

long do_read(int fd) { return ::read(fd, buffer, sizeof buffer); }
long do_readv(int fd) {
    const iovec part = {buffer, sizeof buffer};
    return ::readv(fd, &part, 1);
}
long do_write(int fd) { return ::write(fd, buffer, 8); }
long do_writev(int fd) {
    const iovec part = {buffer, 8};
    return ::writev(fd, &part, 1);
}
long do_recv(int fd) { return ::recv(fd, buffer, sizeof buffer, 0); }
long do_recv_all(int fd) { return ::recv(fd, buffer, sizeof buffer, MSG_WAITALL); }
long do_recvmsg(int fd) {
    iovec part = {buffer, sizeof buffer};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return ::recvmsg(fd, &message, 0);
}
long do_recvmmsg(int fd) {
    iovec part = {buffer, sizeof buffer};
    mmsghdr message = {};
    message.msg_hdr.msg_iov = &part;
    message.msg_hdr.msg_iovlen = 1;
    return ::recvmmsg(fd, &message, 1, 0, nullptr);
}
long do_send(int fd) { return ::send(fd, buffer, sizeof buffer, 0); }
long do_sendmsg(int fd) {
    iovec part = {buffer, sizeof buffer};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return ::sendmsg(fd, &message, 0);
}
long do_sendmmsg(int fd) {
    iovec part = {buffer, sizeof buffer};
    mmsghdr message = {};
    message.msg_hdr.msg_iov = &part;
    message.msg_hdr.msg_iovlen = 1;
    return ::sendmmsg(fd, &message, 1, 0);
}
long do_sendfile(int fd) {
    Descriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    off_t offset = 0;
    return ::sendfile(fd, file, &offset, sizeof buffer);
}
long do_splice(int fd) {
    Stream pipe = make_stream(Kind::pipe);
    return ::splice(fd, nullptr, pipe.writer, nullptr, 100, 0);
}
long do_tee(int fd) {
    Stream pipe = make_stream(Kind::pipe);
    return ::tee(fd, pipe.writer, 100, 0);
}
long do_vmsplice(int fd) {
    const iovec part = {buffer, 8};
    return ::vmsplice(fd, &part, 1, 0);
}
long do_accept(int fd) { return ::accept(fd, nullptr, nullptr); }
long do_poll(int fd) {
    pollfd entry = {fd, POLLIN, 0};
    return ::poll(&entry, 1, -1);
}
long do_poll_with_limit(int fd) {
    pollfd entry = {fd, POLLIN, 0};
    return ::poll(&entry, 1, 1'000'000);
}
long do_poll_two(int fd) {
    Stream pipe = make_stream(Kind::pipe);
    pollfd entries[] = {{fd, POLLIN, 0}, {pipe.reader, POLLIN, 0}};
    return ::poll(entries, 2, -1);
}
long do_poll_many(int fd) {
    Stream pipe = make_stream(Kind::pipe);
    std::vector<pollfd> entries(20, pollfd{pipe.reader, POLLIN, 0});
    entries.push_back({fd, POLLIN, 0});
    return ::poll(entries.data(), entries.size(), -1);
}
long do_select(int fd) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    const long result = ::select(fd + 1, &set, nullptr, nullptr, nullptr);
    const int error = errno;
    EXPECT_TRUE(FD_ISSET(fd, &set)) << "a call that fails leaves the set, and else the descriptor is ready";
    errno = error;
    return result;
}
long do_epoll_wait(int fd) {
    epoll_event event;
    return ::epoll_wait(fd, &event, 1, -1);
}
long do_poll_nothing(int) { return ::poll(nullptr, 0, -1); }
long do_nanosleep(int) {
    const timespec long_time = {1'000'000, 0};
    timespec left = {};
    const int result = ::nanosleep(&long_time, &left);
    const int error = errno;
    EXPECT_GT(left.tv_sec, 990'000);
    errno = error;
    return result;
}
long do_clock_nanosleep(int) {
    timespec time;
    EXPECT_EQ(::clock_gettime(CLOCK_REALTIME, &time), 0);
    time.tv_sec += 1'000'000;
    const int error = ::clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, nullptr);
    errno = error;
    return error ? -1 : 0;
}
long do_usleep(int) { return ::usleep(UINT32_MAX); }
long do_sleep(int) {
    const int kept = errno;
    const unsigned left = ::sleep(1'000'000);
    EXPECT_EQ(errno, kept);
    EXPECT_GT(left, 990'000u);
    EXPECT_LT(left, 1'000'000u) << "a caller that sleeps until nothing is left would never end";
    return left ? -2 : 0; // has no errno
}

const Wait waits[] = {
    {"read_tcp", reader<Kind::tcp>, do_read, true},
    {"read_unix", reader<Kind::unix_stream>, do_read, true},
    {"read_records", records, do_read, true},
    {"read_datagram", datagram, do_read, false},
    {"read_pipe", reader<Kind::pipe>, do_read, false},
    {"read_terminal", reader<Kind::pty>, do_read, false},
    {"read_counter", counter, do_read, false},
    {"read_timer", timer, do_read, false},
    {"read_notifications", notifications, do_read, false},
    {"readv_tcp", reader<Kind::tcp>, do_readv, true},
    {"write_tcp", full_writer<Kind::tcp>, do_write, true},
    {"write_unix", full_writer<Kind::unix_stream>, do_write, true},
    {"write_pipe", full_writer<Kind::pipe>, do_write, false},
    {"write_counter", full_counter, do_write, false},
    {"writev_unix", full_writer<Kind::unix_stream>, do_writev, true},
    {"writev_pipe", full_writer<Kind::pipe>, do_writev, false},
    {"recv_tcp", reader<Kind::tcp>, do_recv, true},
    {"recv_datagram", datagram, do_recv, false},
    {"recv_all_unix", reader<Kind::unix_stream>, do_recv_all, true},
    {"recvmsg_tcp", reader<Kind::tcp>, do_recvmsg, true},
    {"recvmmsg_datagram", datagram, do_recvmmsg, false},
    {"send_tcp", full_writer<Kind::tcp>, do_send, true},
    {"sendmsg_unix", full_writer<Kind::unix_stream>, do_sendmsg, true},
    {"sendmmsg_unix", full_writer<Kind::unix_stream>, do_sendmmsg, true},
    {"sendfile_tcp", full_writer<Kind::tcp>, do_sendfile, true},
    {"sendfile_pipe", full_writer<Kind::pipe>, do_sendfile, false},
    {"splice_pipe", reader<Kind::pipe>, do_splice, false},
    {"splice_unix", reader<Kind::unix_stream>, do_splice, true},
    {"tee_pipe", reader<Kind::pipe>, do_tee, false},
    {"vmsplice_pipe", full_writer<Kind::pipe>, do_vmsplice, false},
    {"accept", listener, do_accept, false},
    {"poll_tcp", reader<Kind::tcp>, do_poll, true},
    {"poll_with_limit_unix", reader<Kind::unix_stream>, do_poll_with_limit, false}, // a pair of the process's own
    {"poll_two_tcp", reader<Kind::tcp>, do_poll_two, true},
    {"poll_many_tcp", reader<Kind::tcp>, do_poll_many, true},
    {"poll_listener", listener, do_poll, false},
    {"poll_pipe", reader<Kind::pipe>, do_poll, false},
    {"poll_datagram", datagram, do_poll, false},
    {"poll_nothing", nothing, do_poll_nothing, false},
    {"select_tcp", reader<Kind::tcp>, do_select, true},
    {"select_pipe", reader<Kind::pipe>, do_select, false},
    {"epoll_wait", epoll, do_epoll_wait, false},
    {"nanosleep", nothing, do_nanosleep, false},
    {"clock_nanosleep", nothing, do_clock_nanosleep, false},
    {"usleep", nothing, do_usleep, false},
    {"sleep", nothing, do_sleep, false},
};

class Refused : public testing::TestWithParam<Wait> {
protected:
    void SetUp() override {
        ::signal(SIGPIPE, SIG_IGN);
        const std::string name = GetParam().name;
        if (name.ends_with("terminal")) NOT_ON_SIM("has no terminals");
        if (name.ends_with("timer")) NOT_ON_SIM("has no timerfds");
        if (name.ends_with("notifications")) NOT_ON_SIM("has no inotify");
        for (const char *full : {"write_tcp", "send_tcp", "sendfile_tcp"})
            if (name == full) NOT_ON_SIM("has small buffers, and TCP's does not stay full");
        fd_ = GetParam().make(all_);
    }
    bool is_poll() const { return std::string(GetParam().name).starts_with("poll") || is_select(); }
    bool is_select() const { return std::string(GetParam().name).starts_with("select"); }
    bool has_errno() const { return std::string(GetParam().name) != "sleep"; }

    // The library has ended the connection, and no receive takes that for an ordinary end.
    void expect_reset() const {
        EXPECT_EQ(::recv(fd_, buffer, 1, 0), -1);
        EXPECT_EQ(errno, ECONNRESET);
    }

    // Runs the call in a fiber, which stop() ends. Nothing else may have ended it.
    template <class Stop>
    void refuse(int expected_error, Stop stop) {
        long result = 0;
        int error = 0;
        auto body = [&] {
            errno = 0;
            result = GetParam().call(fd_);
            error = errno;
            done_ = true;
        };
        fiber_t fiber = support::start(body);
        EXPECT_FALSE(done_) << "the call did not wait";
        stop(fiber);
        support::join(fiber);
        const bool ends = GetParam().ends_connection && expected_error != EINTR;
        if (ends && is_poll()) {
            EXPECT_EQ(result, 1) << "poll reports the end of the connection";
        } else {
            EXPECT_LT(result, 0);
            if (has_errno()) {
                EXPECT_EQ(error, expected_error);
            }
        }
        if (ends) {
            // The library's next call finds the end, and so does the peer.
            auto next = [&] { expect_reset(); };
            support::run(next);
            const int peer = all_[0] == fd_ ? all_[1] : all_[0];
            while (::recv(peer, buffer, sizeof buffer, 0) > 0) {}
        } else if (GetParam().ends_connection) {
            pollfd peer = {all_[0] == fd_ ? all_[1] : all_[0], POLLRDHUP, 0};
            EXPECT_EQ(::poll(&peer, 1, 0), 0) << "an interrupt has ended the connection";
        }
    }

    std::vector<Descriptor> all_;
    int fd_ = -1;
    bool done_ = false;
};
INSTANTIATE_TEST_SUITE_P(Waits, Refused, testing::ValuesIn(waits), [](const auto &info) { return info.param.name; });

TEST_P(Refused, ByACancel) {
    refuse(ECANCELED, [](fiber_t fiber) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
}

TEST_P(Refused, ByAnInterrupt) {
    refuse(EINTR, [](fiber_t fiber) { EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0); });
}

TEST_P(Refused, ByAScopesDeadline) {
    long result = 0;
    int error = 0;
    auto body = [&] {
        fiber_scope_t scope;
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(2), 0), 0);
        errno = 0;
        result = GetParam().call(fd_);
        error = errno;
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    };
    support::run(body);
    if (GetParam().ends_connection && is_poll()) {
        EXPECT_EQ(result, 1);
    } else {
        EXPECT_LT(result, 0);
        if (has_errno()) {
            EXPECT_EQ(error, ETIMEDOUT);
        }
    }
    if (GetParam().ends_connection) {
        auto next = [&] { expect_reset(); };
        support::run(next);
    }
}

// A cancel that is pending at the call does not stop a call that need not wait.
TEST_P(Refused, ByACancelBeforeTheCall) {
    long result = 0;
    int error = 0;
    auto body = [&] {
        EXPECT_EQ(fiber_cancel(support::self(), nullptr), 0);
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        EXPECT_EQ(::write(ends[0], "x", 1), 1);
        EXPECT_EQ(::read(ends[1], buffer, 1), 1);
        EXPECT_EQ(::close(ends[0]), 0);
        EXPECT_EQ(::close(ends[1]), 0);
        errno = 0;
        result = GetParam().call(fd_);
        error = errno;
    };
    support::run(body);
    if (GetParam().ends_connection && is_poll()) {
        EXPECT_EQ(result, 1);
    } else {
        EXPECT_LT(result, 0);
        if (has_errno()) {
            EXPECT_EQ(error, ECANCELED);
        }
    }
}

// Each wait leaves the thread to the other fibers.
TEST_P(Refused, OtherFibersRunMeanwhile) {
    auto body = [&] { (void)GetParam().call(fd_); };
    fiber_t fiber = support::start(body);
    int turns = 0;
    auto other = [&] {
        for (; turns < 10; turns++) EXPECT_EQ(fiber_reschedule(), 0);
    };
    support::run(other);
    EXPECT_EQ(turns, 10);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    support::join(fiber);
}

// Bytes that were transferred are reported first; the cancel is the next call's.
TEST(Refusals, BytesDoneAreReportedFirst) {
    ::signal(SIGPIPE, SIG_IGN);
    for (Kind kind : {Kind::pipe, Kind::unix_stream, Kind::tcp}) {
        Stream stream = make_stream(kind);
        const std::string text(16 << 20, 'x');
        ssize_t written = 0, again = 0;
        int error = 0;
        auto body = [&] {
            written = ::write(stream.writer, text.data(), text.size());
            again = ::write(stream.writer, text.data(), text.size());
            error = errno;
        };
        fiber_t fiber = support::start(body);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        support::join(fiber);
        EXPECT_GT(written, 0) << kind_name(kind);
        EXPECT_LT(written, ssize_t(text.size()));
        EXPECT_EQ(again, -1);
        if (kind == Kind::pipe) {
            EXPECT_EQ(error, ECANCELED);
        } else {
            EXPECT_EQ(error, EPIPE) << "the connection has ended";
        }
    }
}

// A cancelled library must not take an answer that has arrived late for the answer to its next request.
TEST(Refusals, ALateAnswerIsNotReceived) {
    for (Kind kind : {Kind::unix_stream, Kind::tcp}) {
        Stream stream = make_stream(kind);
        auto request = [&] { EXPECT_EQ(::recv(stream.reader, buffer, sizeof buffer, 0), -1); };
        fiber_t fiber = support::start(request);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        support::join(fiber);
        (void)::send(stream.writer, "late", 4, MSG_NOSIGNAL);
        auto next = [&] {
            EXPECT_EQ(::recv(stream.reader, buffer, sizeof buffer, 0), -1);
            EXPECT_EQ(errno, ECONNRESET);
        };
        support::run(next);
    }
}

// A library that ignores refusals is made to pause: the other fibers run, and the loop of refused calls stays short.
TEST(Refusals, ALibraryThatIgnoresThemPauses) {
    Stream stream = make_stream(Kind::pipe);
    int refusals = 0;
    bool done = false;
    auto body = [&] {
        for (; refusals < 6; refusals++) EXPECT_EQ(::read(stream.reader, buffer, 1), -1);
        done = true;
    };
    fiber_t fiber = support::start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    int ticks = 0;
    while (!done) {
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        ticks++;
    }
    support::join(fiber);
    EXPECT_GT(ticks, 1);
}

// ---- where a fiber cannot wait --------------------------------------------------------------------------------------

TEST(NoWait, ANoSwitchSectionBlocksTheThread) {
    NEEDS_THREADS();
    Stream stream = make_stream(Kind::unix_stream);
    int turns = 0;
    auto other = [&] { turns++; };
    auto body = [&] {
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        EXPECT_EQ(fiber_here(), 0);
        std::thread peer([&] { EXPECT_EQ(::write(stream.writer, "x", 1), 1); });
        char byte = 0;
        EXPECT_EQ(::read(stream.reader, &byte, 1), 1);
        peer.join();
        EXPECT_EQ(turns, 0);
        EXPECT_EQ(fiber_noswitch_leave(), 0);
    };
    fiber_t fiber = support::spawn(body);
    fiber_t second = support::spawn(other);
    support::join(fiber);
    support::join(second);
}

// The main flow of a thread whose only fiber it is: a wait that no fiber can end blocks as the C library's, until a
// signal comes.
TEST(NoWait, TheMainFlowAlone) {
    NEEDS_THREADS();
    struct sigaction action = {}, before;
    action.sa_handler = [](int) {};
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
    std::thread thread([&] {
        EXPECT_EQ(fiber_reschedule(), 0); // opens a cord
        EXPECT_EQ(fiber_here(), 1);
        std::atomic<bool> done = false;
        const pthread_t self = pthread_self();
        std::thread other([&] {
            while (!done) {
                pthread_kill(self, SIGUSR1);
                ::usleep(1000);
            }
        });
        const timespec short_time = {0, 1'000'000};
        EXPECT_EQ(::nanosleep(&short_time, nullptr), 0) << "a fiber's wait sees no signals";
        Stream stream = make_stream(Kind::pipe);
        EXPECT_EQ(::write(stream.writer, "x", 1), 1);
        char byte;
        EXPECT_EQ(::read(stream.reader, &byte, 1), 1);
        pollfd entry = {stream.reader, POLLIN, 0};
        EXPECT_EQ(::poll(&entry, 1, 1), 0);
        done = true;
        other.join();
    });
    thread.join();
    EXPECT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

// The kernel's poll and select may report EINTR even if they only look; a fiber's wait does not.
TEST(NoWait, ASignalDuringALookIsNotReported) {
    NEEDS_THREADS();
    struct sigaction action = {}, before;
    action.sa_handler = [](int) {};
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
    std::thread thread([&] {
        EXPECT_EQ(fiber_reschedule(), 0); // opens a cord
        std::atomic<bool> done = false;
        const pthread_t self = pthread_self();
        std::thread other([&] {
            while (!done) pthread_kill(self, SIGUSR1);
        });
        Stream stream = make_stream(Kind::pipe);
        const timespec moment = {0, 1000};
        int errors = 0;
        for (int i = 0; i < support::size_of_test(2000); i++) {
            pollfd entry = {stream.reader, POLLIN, 0};
            errors += ::ppoll(&entry, 1, &moment, nullptr) != 0;
            fd_set set;
            FD_ZERO(&set);
            FD_SET(stream.reader, &set);
            errors += ::pselect(stream.reader + 1, &set, nullptr, nullptr, &moment, nullptr) != 0;
        }
        EXPECT_EQ(errors, 0);
        done = true;
        other.join();
    });
    thread.join();
    EXPECT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(NoWait, AThreadWithoutACordOpensNone) {
    NEEDS_THREADS();
    std::thread thread([] {
        Stream stream = make_stream(Kind::pipe);
        EXPECT_EQ(::write(stream.writer, "x", 1), 1);
        EXPECT_EQ(::read(stream.reader, buffer, 1), 1);
        EXPECT_EQ(::usleep(1), 0);
        EXPECT_EQ(::poll(nullptr, 0, 0), 0);
        EXPECT_EQ(fiber_here(), 0);
    });
    thread.join();
}

// ---- turns ----------------------------------------------------------------------------------------------------------

// A fiber whose calls never need to wait still gives the others turns.
TEST(Turns, AQuickPeerDoesNotStarveTheOthers) {
    struct {
        const char *name;
        std::function<void(Stream &)> call;
    } const calls[] = {
        {"write and read",
         [](Stream &stream) {
             EXPECT_EQ(::write(stream.writer, "x", 1), 1);
             EXPECT_EQ(::read(stream.reader, buffer, 1), 1);
         }},
        {"dontwait", [](Stream &stream) { EXPECT_EQ(::recv(stream.reader, buffer, 1, MSG_DONTWAIT), -1); }},
        {"poll",
         [](Stream &stream) {
             pollfd entry = {stream.reader, POLLIN, 0};
             EXPECT_EQ(::poll(&entry, 1, 0), 0);
         }},
        {"select",
         [](Stream &) {
             timeval none = {};
             EXPECT_EQ(::select(0, nullptr, nullptr, nullptr, &none), 0);
         }},
        {"pread of a file",
         [](Stream &) {
             static const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
             EXPECT_EQ(::pread(file, buffer, 1, 0), 1);
         }},
        {"a call that fails", [](Stream &) { EXPECT_EQ(::read(-1, buffer, 1), -1); }},
    };
    for (const auto &one : calls) {
        Stream stream = make_stream(Kind::unix_stream);
        int ticks = 0;
        auto ticker = [&] {
            for (; ticks < 3; ticks++) EXPECT_EQ(fiber_reschedule(), 0);
        };
        fiber_t fiber = support::spawn(ticker);
        auto body = [&] {
            constexpr int enough = 1'000'000;
            int rounds = 0;
            while (ticks < 3 && ++rounds < enough) one.call(stream);
            EXPECT_EQ(ticks, 3) << one.name;
        };
        support::run(body);
        support::join(fiber);
    }
}

// Calls that did not wait let other fibers run. An interrupt that is pending then ends the next wait nevertheless.
TEST(Turns, KeepAPendingInterrupt) {
    Stream stream = make_stream(Kind::unix_stream);
    auto body = [&] {
        EXPECT_EQ(fiber_interrupt(support::self(), nullptr), 0);
        for (int i = 0; i < 1000; i++) EXPECT_EQ(::recv(stream.reader, buffer, 1, MSG_DONTWAIT), -1);
        void *value = nullptr;
        EXPECT_EQ(fiber_interrupted(&value), 0); // it has ended no call yet
        pollfd entry = {stream.reader, POLLIN, 0};
        EXPECT_EQ(::poll(&entry, 1, 10'000), -1);
        EXPECT_EQ(errno, EINTR);
    };
    support::run(body);
}

// ---- closes ---------------------------------------------------------------------------------------------------------

// The waits that a close ends: those for up to eight descriptors. OfAnotherFiberEndASelect has select, whose set of
// descriptors is not valid after the close.
std::vector<Wait> waits_that_a_close_ends() {
    std::vector<Wait> chosen;
    for (const Wait &wait : waits)
        if (wait.make != nothing && wait.call != do_poll_many && wait.call != do_select) chosen.push_back(wait);
    return chosen;
}

class Closed : public Refused {};
INSTANTIATE_TEST_SUITE_P(Waits, Closed, testing::ValuesIn(waits_that_a_close_ends()),
                         [](const auto &info) { return info.param.name; });

TEST_P(Closed, ByAnotherFiber) {
    auto close = [&](fiber_t) {
        auto closer = [&] { EXPECT_EQ(::close(fd_), 0); };
        support::run(closer);
        for (Descriptor &one : all_)
            if (one == fd_) (void)one.release();
    };
    long result = 0;
    int error = 0;
    auto body = [&] {
        result = GetParam().call(fd_);
        error = errno;
    };
    fiber_t fiber = support::start(body);
    close(fiber);
    support::join(fiber);
    if (is_poll()) {
        EXPECT_EQ(result, 1) << "POLLNVAL";
    } else {
        EXPECT_EQ(result, -1);
        EXPECT_EQ(error, EBADF);
    }
}

TEST(Closes, OfAnotherFiberEndASelect) {
    Stream stream = make_stream(Kind::tcp);
    const int fd = stream.reader.release();
    auto body = [&] {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        EXPECT_EQ(::select(fd + 1, &set, nullptr, nullptr, nullptr), -1);
        EXPECT_EQ(errno, EBADF);
    };
    fiber_t fiber = support::start(body);
    auto closer = [&] { EXPECT_EQ(::close(fd), 0); };
    support::run(closer);
    support::join(fiber);
}

TEST(Closes, AreTheKernels) {
    compare([](Trial &trial) {
        Stream stream = make_stream(Kind::pipe);
        const int fd = stream.reader.release();
        trial.note("close", ::close(fd));
        trial.note("again", ::close(fd));
        trial.note("-1", ::close(-1));
    });
}

// A thread without a cord closes the number. The wait of the fiber stays, as the wait of a thread in the kernel does, and
// a cancel ends it.
TEST(Closes, OfAPlainThreadLeaveTheWait) {
    NEEDS_THREADS();
    Stream stream = make_stream(Kind::tcp);
    bool done = false;
    auto body = [&] {
        EXPECT_EQ(::recv(stream.reader, buffer, 1, 0), -1);
        done = true;
    };
    fiber_t fiber = support::start(body);
    support::settle();
    std::thread thread([&] { EXPECT_EQ(::close(stream.reader.release()), 0); });
    thread.join();
    support::settle();
    EXPECT_FALSE(done);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    support::join(fiber);
}

// The thread of another fiber that waits on the descriptor may wait for the thread that closes it: for a lock, say. The
// kernel's close does not wait for it, either. The other fiber's wait stays.
TEST(Closes, DoNotWaitForAnotherThread) {
    NEEDS_THREADS();
    Stream stream = make_stream(Kind::tcp);
    std::atomic<bool> waits = false, closed = false;
    std::thread thread([&] {
        auto body = [&] { EXPECT_EQ(::recv(stream.reader, buffer, 1, 0), -1); };
        fiber_t fiber = support::start(body);
        waits = true;
        waits.notify_one();
        closed.wait(false); // blocks the thread
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        support::join(fiber);
    });
    waits.wait(false);
    auto closer = [&] {
        EXPECT_EQ(::close(stream.reader), 0);
        EXPECT_EQ(::fcntl(stream.reader, F_GETFD), -1);
    };
    support::run(closer);
    closed = true;
    closed.notify_one();
    thread.join();
    (void)stream.reader.release();
}

// The caller may hold a lock for which another fiber of the thread waits.
TEST(Closes, DoNotSwitchIfNoFiberWaitsOnTheDescriptor) {
    NOT_ON_SIM("may poll after each call");
    EXPECT_EQ(fiber_reschedule(), 0); // the next poll is not due soon
    Stream stream = make_stream(Kind::tcp);
    const int closed[] = {::open("/proc/self/exe", O_RDONLY | O_CLOEXEC), stream.reader.release(),
                          ::eventfd(0, EFD_CLOEXEC)};
    int turns = 0;
    auto other = [&] { turns++; };
    fiber_t fiber = support::spawn(other);
    auto closer = [&] {
        for (int fd : closed) EXPECT_EQ(::close(fd), 0);
        EXPECT_EQ(turns, 0);
    };
    closer();
    support::join(fiber);
}

// ---- forks and ends of threads --------------------------------------------------------------------------------------

TEST(Forks, TheChildsFiberWaitsOn) {
    NOT_ON_SIM("has one process");
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    Stream parked = make_stream(Kind::tcp);
    auto body = [&] { EXPECT_EQ(::recv(parked.reader, buffer, 1, 0), 1); };
    fiber_t fiber = support::start(body);
    auto forker = [&] {
        const pid_t child = ::fork();
        if (!child) {
            // The other fibers are gone, and this one waits as before.
            Stream stream = make_stream(Kind::unix_stream);
            int turns = 0;
            auto other = [&] {
                turns++;
                CHILD_CHECK(::write(stream.writer, "x", 1) == 1);
            };
            fiber_t writer = support::spawn(other);
            CHILD_CHECK(::read(stream.reader, buffer, 1) == 1);
            CHILD_CHECK(turns == 1);
            support::join(writer);
            CHILD_CHECK(::usleep(100) == 0);
            _exit(0);
        }
        int status = -1;
        EXPECT_EQ(fiber_process_wait(child, &status, FIBER_SEC(1)), 0);
        EXPECT_EQ(status, 0);
    };
    support::run(forker);
    EXPECT_EQ(::send(parked.writer, "x", 1, 0), 1);
    support::join(fiber);
}

TEST(Threads, EndWithFibersThatWait) {
    NEEDS_THREADS();
    Stream stream = make_stream(Kind::tcp);
    bool begun = false, returned = false;
    std::thread thread([&] {
        auto *body = new auto([&] {
            begun = true;
            (void)::recv(stream.reader, buffer, 1, 0);
            returned = true;
        });
        fiber_t fiber{};
        EXPECT_EQ(fiber_spawn(&fiber, support::entry<std::remove_pointer_t<decltype(body)>>, body), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_TRUE(begun);
        static thread_local struct Free {
            std::function<void()> free;
            ~Free() {
                if (free) free();
            }
        } at_end;
        at_end.free = [body] { delete body; };
    });
    thread.join();
    EXPECT_FALSE(returned);
    EXPECT_EQ(::send(stream.writer, "x", 1, 0), 1);
    char byte = 0;
    EXPECT_EQ(::recv(stream.reader, &byte, 1, 0), 1) << "the fiber that is gone has taken the byte";
}

// ---- flags of the descriptor ----

// A call that makes a descriptor nonblocking for a moment keeps the flags that others set while it waits.
TEST(Flags, SetDuringASendfileStay) {
    Stream stream = make_stream(Kind::pipe);
    support::fill(stream.writer);
    long sent = 0;
    auto body = [&] { sent = do_sendfile(stream.writer); };
    fiber_t fiber = support::start(body);
    const int flags = ::fcntl(stream.writer, F_GETFL);
    EXPECT_EQ(flags & O_NONBLOCK, 0);
    EXPECT_EQ(::fcntl(stream.writer, F_SETFL, flags | O_NONBLOCK), 0);
    support::drain(stream.reader);
    support::join(fiber);
    EXPECT_GT(sent, 0);
    EXPECT_EQ(::fcntl(stream.writer, F_GETFL), flags | O_NONBLOCK);
}

TEST(Flags, SetDuringAConnectStay) {
    Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX; // any free name of the abstract namespace
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address.sun_family), 0);
    socklen_t length = sizeof address;
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
    ASSERT_EQ(::listen(listener, 0), 0);
    Descriptor first(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Descriptor second(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto *to = reinterpret_cast<const sockaddr *>(&address);
    ASSERT_EQ(::connect(first, to, length), 0);
    auto body = [&] { EXPECT_EQ(::connect(second, to, length), 0); };
    fiber_t fiber = support::start(body);
    const int flags = ::fcntl(second, F_GETFL);
    EXPECT_EQ(flags & O_NONBLOCK, 0);
    EXPECT_EQ(::fcntl(second, F_SETFL, flags | O_NONBLOCK), 0);
    Descriptor accepted(::accept(listener, nullptr, nullptr));
    support::join(fiber);
    EXPECT_EQ(::fcntl(second, F_GETFL), flags | O_NONBLOCK);
}

// ---- clocks ---------------------------------------------------------------------------------------------------------

// A sleep until a time of the calendar follows the steps of the clock, because it waits for a timer of the kernel that
// does.
TEST(Clocks, ASleepUntilATimeOfTheCalendarIsATimersOfTheKernel) {
    NOT_ON_SIM("has its own clock");
    timespec time;
    ASSERT_EQ(::clock_gettime(CLOCK_REALTIME, &time), 0);
    time.tv_sec += 1'000'000;
    auto body = [&] { EXPECT_EQ(::clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, nullptr), ECANCELED); };
    fiber_t fiber = support::start(body);
    int timers = 0;
    DIR *folder = ::opendir("/proc/self/fdinfo");
    ASSERT_NE(folder, nullptr);
    while (const dirent *entry = ::readdir(folder)) {
        std::ifstream file(std::string("/proc/self/fdinfo/") + entry->d_name);
        bool of_calendar = false;
        for (std::string line; std::getline(file, line);) {
            if (line == "clockid: 0") of_calendar = true;
            if (of_calendar && line == "settime flags: 01") timers++;
        }
    }
    ::closedir(folder);
    EXPECT_EQ(timers, 1);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    support::join(fiber);
}

} // namespace
