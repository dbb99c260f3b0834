// SPDX-License-Identifier: MIT OR Apache-2.0
// Adopted calls in a simulation: simulated time, faults, and what the simulation refuses. The program has adopted
// itself, so its own calls are those of an adopted library.
#include <fiberrt.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int64_t hour_s = 3600;

class SimulatedCalls : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_STREQ(fiber_backend_name(), "sim");
        ASSERT_EQ(fiber_here(), 1);
    }
};

struct Pair {
    int ends[2] = {-1, -1};
    explicit Pair(int type = SOCK_STREAM) { EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0); }
    ~Pair() {
        for (int end : ends)
            if (end >= 0) close(end);
    }
};

void *call(void *function) {
    (*static_cast<std::function<void()> *>(function))();
    return nullptr;
}

// Runs a function as another fiber, next to the test.
class Beside {
public:
    explicit Beside(std::function<void()> function) : function_(std::move(function)) {
        EXPECT_EQ(fiber_spawn(&fiber_, call, &function_), 0);
    }
    ~Beside() { EXPECT_EQ(fiber_join(fiber_, nullptr), 0); }

private:
    std::function<void()> function_;
    fiber_t fiber_ = {};
};

// What the library writes to standard error during a call.
std::string said_during(const std::function<void()> &function) {
    testing::internal::CaptureStderr();
    function();
    return testing::internal::GetCapturedStderr();
}

// Checks that a call fails with this error, and that the simulation prints one sentence, which has this text.
#define EXPECT_REFUSED(call, error, text)                          \
    do {                                                           \
        int failed_with = 0;                                       \
        std::string said = said_during([&] {                       \
            errno = 0;                                             \
            EXPECT_EQ((call), -1);                                 \
            failed_with = errno;                                   \
        });                                                        \
        EXPECT_EQ(failed_with, error) << strerror(failed_with);    \
        EXPECT_EQ(said.find("fiberrt: simulation: "), 0U) << said; \
        EXPECT_NE(said.find(text), std::string::npos) << said;     \
        EXPECT_EQ(said.find('\n'), said.size() - 1) << said;       \
    } while (0)

int64_t now_ns(clockid_t clock) {
    timespec now = {};
    EXPECT_EQ(clock_gettime(clock, &now), 0);
    return now.tv_sec * INT64_C(1'000'000'000) + now.tv_nsec;
}

int64_t real_ns() {
    timespec now = {};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1'000'000'000) + now.tv_nsec;
}

// A child process that holds one end of a pipe or the like, until the parent ends.
class OtherProcess {
public:
    // prepare: by system calls only.
    explicit OtherProcess(const std::function<void()> &prepare) {
        int ready[2];
        int alive[2];
        EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
        EXPECT_EQ(pipe2(alive, O_CLOEXEC), 0);
        child_ = fork();
        if (child_ == 0) {
            syscall(SYS_close, alive[1]);
            prepare();
            char byte = 0;
            if (syscall(SYS_write, ready[1], &byte, size_t(1)) != 1) _exit(1);
            while (syscall_read(alive[0], &byte) > 0) continue;
            _exit(0);
        }
        close(ready[1]);
        close(alive[0]);
        char byte;
        EXPECT_EQ(syscall_read(ready[0], &byte), 1);
        close(ready[0]);
        alive_ = alive[1];
    }
    ~OtherProcess() {
        close(alive_);
        int status = 0;
        while (waitpid(child_, &status, WNOHANG) == 0) syscall_pause();
    }
    pid_t pid() const { return child_; }

private:
    // Not adopted: the simulation has no part in what the test itself does with the other process.
    static ssize_t syscall_read(int fd, char *byte) { return syscall(SYS_read, fd, byte, size_t(1)); }
    static void syscall_pause() {
        timespec pause = {0, 1'000'000};
        syscall(SYS_nanosleep, &pause, nullptr);
    }

    pid_t child_ = -1;
    int alive_ = -1;
};

// ---- Time

TEST_F(SimulatedCalls, SleepsAndClocksShareTheSimulatedTime) {
    int64_t monotonic = now_ns(CLOCK_MONOTONIC);
    int64_t real = now_ns(CLOCK_REALTIME);
    time_t seconds = time(nullptr);
    timeval day = {};
    ASSERT_EQ(gettimeofday(&day, nullptr), 0);
    EXPECT_LE(seconds - day.tv_sec, 1);
    int64_t fibers = fiber_now();
    EXPECT_EQ(sleep(unsigned(hour_s)), 0U);
    int64_t slept = fiber_now() - fibers;
    EXPECT_GE(slept, hour_s * INT64_C(1'000'000'000));
    EXPECT_LT(slept, (hour_s + 1) * INT64_C(1'000'000'000));
    EXPECT_EQ((now_ns(CLOCK_MONOTONIC) - monotonic) / 1'000'000'000, hour_s);
    EXPECT_EQ((now_ns(CLOCK_REALTIME) - real) / 1'000'000'000, hour_s);
    EXPECT_GE(time(nullptr) - seconds, hour_s);
    timespec minute = {60, 0};
    EXPECT_EQ(nanosleep(&minute, nullptr), 0);
    EXPECT_EQ(usleep(500'000), 0);
    EXPECT_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, nullptr), 0);
    EXPECT_EQ((now_ns(CLOCK_MONOTONIC) - monotonic) / 1'000'000'000, hour_s + 120);
}

TEST_F(SimulatedCalls, TheDayAndTheZoneAreOptional) {
    struct timezone zone = {1, 1}, real = {2, 2};
    timeval day = {};
    timeval *volatile none = nullptr; // the compiler would warn of a null pointer
    EXPECT_EQ(gettimeofday(none, nullptr), 0);
    EXPECT_EQ(gettimeofday(none, &zone), 0);
    std::thread([&] { EXPECT_EQ(gettimeofday(&day, &real), 0); }).join(); // the C library's
    EXPECT_EQ(zone.tz_minuteswest, real.tz_minuteswest);
    EXPECT_EQ(zone.tz_dsttime, real.tz_dsttime);
    zone = {1, 1};
    EXPECT_EQ(gettimeofday(&day, &zone), 0);
    EXPECT_EQ(zone.tz_minuteswest, real.tz_minuteswest);
    EXPECT_EQ(day.tv_sec, time(nullptr));
}

// The parts of a call share its time limit.
TEST_F(SimulatedCalls, ATimeLimitIsForTheWholeCall) {
    Pair pair;
    timeval limit = {60, 0};
    ASSERT_EQ(setsockopt(pair.ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    int64_t begun = now_ns(CLOCK_MONOTONIC);
    Beside writer([&] {
        EXPECT_EQ(sleep(40), 0U);
        EXPECT_EQ(write(pair.ends[1], "x", 1), 1);
    });
    char bytes[2];
    iovec part = {bytes, sizeof bytes};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    EXPECT_EQ(recvmsg(pair.ends[0], &message, MSG_WAITALL), 1);
    EXPECT_EQ((now_ns(CLOCK_MONOTONIC) - begun) / 1'000'000'000, 60);
}

TEST_F(SimulatedCalls, PollsTimeOutInSimulatedTime) {
    Pair pair;
    int64_t begun = now_ns(CLOCK_MONOTONIC);
    pollfd entry = {pair.ends[0], POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 60'000), 0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair.ends[0], &set);
    timeval minute = {60, 0};
    EXPECT_EQ(select(pair.ends[0] + 1, &set, nullptr, nullptr, &minute), 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    event.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.ends[0], &event), 0);
    EXPECT_EQ(epoll_wait(epoll, &event, 1, 60'000), 0);
    EXPECT_EQ((now_ns(CLOCK_MONOTONIC) - begun) / 1'000'000'000, 180);
    timeval limit = {60, 0};
    ASSERT_EQ(setsockopt(pair.ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    char byte;
    EXPECT_EQ(recv(pair.ends[0], &byte, 1, 0), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ((now_ns(CLOCK_MONOTONIC) - begun) / 1'000'000'000, 240);
    close(epoll);
}

TEST_F(SimulatedCalls, ClocksOfTheProcessorAreReal) {
    timespec now = {};
    EXPECT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    EXPECT_LT(now.tv_sec, 1000); // the simulated time begins at 1000 seconds
    EXPECT_EQ(clock_gettime(-1, &now), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(SimulatedCalls, AClockThatALibraryWatchesGoesOn) {
    int64_t begun = now_ns(CLOCK_MONOTONIC);
    while (now_ns(CLOCK_MONOTONIC) < begun + 1'000'000) continue;
}

TEST_F(SimulatedCalls, EpollReportsADescriptorOfThisProcess) {
    Pair pair;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = pair.ends[0];
    ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.ends[0], &event), 0);
    {
        Beside writer([&] { EXPECT_EQ(write(pair.ends[1], "x", 1), 1); });
        EXPECT_EQ(epoll_wait(epoll, &event, 1, -1), 1);
        EXPECT_EQ(event.data.fd, pair.ends[0]);
    }
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event), 0);
    EXPECT_REFUSED(epoll_wait(epoll, &event, 1, -1), ENOTSUP, "epoll_wait on descriptor");
    close(timer);
    close(epoll);
}

// ---- Refusals

TEST_F(SimulatedCalls, RefusesDescriptorsOfOtherProcesses) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    OtherProcess other([&] { syscall(SYS_close, ends[0]); });
    close(ends[1]);
    char byte;
    EXPECT_REFUSED(read(ends[0], &byte, 1), ENOTSUP, "read on descriptor");
    iovec part = {&byte, 1};
    EXPECT_REFUSED(readv(ends[0], &part, 1), ENOTSUP, "readv on descriptor");
    pollfd entry = {ends[0], POLLIN, 0};
    EXPECT_REFUSED(poll(&entry, 1, -1), ENOTSUP, "poll on descriptor");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    EXPECT_REFUSED(select(ends[0] + 1, &set, nullptr, nullptr, nullptr), ENOTSUP, "select on descriptor");
    // The same refusal again says nothing more.
    EXPECT_REFUSED(read(ends[0], &byte, 1), ENOTSUP, "read on descriptor");
    EXPECT_EQ(said_during([&] { EXPECT_EQ(read(ends[0], &byte, 1), -1); }), "");
    close(ends[0]);
}

TEST_F(SimulatedCalls, RefusesConnectionsToOtherProcesses) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    ASSERT_EQ(bind(listener, generic, length), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(getsockname(listener, generic, &length), 0);
    OtherProcess other([] {});
    close(listener); // the other process listens on
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_REFUSED(connect(fd, generic, length), ENOTSUP, "in another process");
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT_REFUSED(connect(fd, generic, length), ENOTSUP, "another process listens there");
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = inet_addr("192.0.2.1");
    EXPECT_REFUSED(connect(fd, generic, length), ENOTSUP, "not a loopback address");
    close(fd);
}

// A call that a simulation refuses, by its name, and whether it fails as its manual page says.
struct Refused {
    const char *name;
    std::function<bool()> fails;
};

void expect_refused(const std::vector<Refused> &calls, const char *reason) {
    for (const Refused &call : calls) {
        int failed_with = 0;
        std::string said = said_during([&] {
            errno = 0;
            EXPECT_TRUE(call.fails()) << call.name;
            failed_with = errno;
        });
        EXPECT_EQ(failed_with, ENOTSUP) << call.name;
        EXPECT_EQ(said, std::string("fiberrt: simulation: ") + call.name + " is refused: " + reason + "\n");
    }
}

TEST_F(SimulatedCalls, RefusesNames) {
    const char *name = "database.example";
    addrinfo *list = nullptr;
    hostent host = {};
    hostent *found = nullptr;
    char buffer[1000];
    unsigned char answer[1000];
    int h_error = 0;
    struct __res_state state = {};
    auto query_fails = [](int result) { return result == -1 && h_errno == NO_RECOVERY; };
    const std::vector<Refused> calls = {
        {"getaddrinfo", [&] { return getaddrinfo(name, "5432", nullptr, &list) == EAI_SYSTEM; }},
        {"gethostbyname", [&] { return !gethostbyname(name) && h_errno == NO_RECOVERY; }},
        {"gethostbyname2", [&] { return !gethostbyname2(name, AF_INET6) && h_errno == NO_RECOVERY; }},
        {"gethostbyname_r",
         [&] {
             found = &host;
             int error = gethostbyname_r(name, &host, buffer, sizeof buffer, &found, &h_error);
             return error == ENOTSUP && !found && h_error == NO_RECOVERY;
         }},
        {"gethostbyname2_r",
         [&] {
             found = &host;
             int error = gethostbyname2_r(name, AF_INET, &host, buffer, sizeof buffer, &found, &h_error);
             return error == ENOTSUP && !found && h_error == NO_RECOVERY;
         }},
        {"res_query", [&] { return query_fails(res_query(name, C_IN, T_A, answer, sizeof answer)); }},
        {"res_search", [&] { return query_fails(res_search(name, C_IN, T_A, answer, sizeof answer)); }},
        {"res_querydomain",
         [&] { return query_fails(res_querydomain("database", "example", C_IN, T_A, answer, sizeof answer)); }},
        {"res_send", [&] { return query_fails(res_send(answer, 12, answer, sizeof answer)); }},
        {"res_nquery", [&] { return query_fails(res_nquery(&state, name, C_IN, T_A, answer, sizeof answer)); }},
        {"res_nsearch", [&] { return query_fails(res_nsearch(&state, name, C_IN, T_A, answer, sizeof answer)); }},
        {"res_nquerydomain",
         [&] {
             return query_fails(res_nquerydomain(&state, "database", "example", C_IN, T_A, answer, sizeof answer));
         }},
        {"res_nsend", [&] { return query_fails(res_nsend(&state, answer, 12, answer, sizeof answer)); }},
    };
    expect_refused(calls, "there are no name servers: use 127.0.0.1, ::1 or a Unix socket");
}

TEST_F(SimulatedCalls, NumbersAreNames) {
    addrinfo *list = nullptr;
    EXPECT_EQ(getaddrinfo("127.0.0.1", "5432", nullptr, &list), 0);
    freeaddrinfo(list);
    EXPECT_EQ(getaddrinfo("::1", nullptr, nullptr, &list), 0);
    freeaddrinfo(list);
    EXPECT_EQ(getaddrinfo(nullptr, "5432", nullptr, &list), 0);
    freeaddrinfo(list);
    addrinfo numeric = {};
    numeric.ai_flags = AI_NUMERICHOST;
    EXPECT_EQ(getaddrinfo("database.example", nullptr, &numeric, &list), EAI_NONAME);
    EXPECT_NE(gethostbyname("127.0.0.1"), nullptr);
    hostent host = {};
    hostent *found = nullptr;
    char buffer[1000];
    int h_error = 0;
    EXPECT_EQ(gethostbyname_r("127.0.0.1", &host, buffer, sizeof buffer, &found, &h_error), 0);
    EXPECT_EQ(found, &host);
    // Addresses have no names.
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    EXPECT_EQ(getnameinfo(generic, sizeof address, buffer, sizeof buffer, nullptr, 0, 0), 0);
    EXPECT_STREQ(buffer, "127.0.0.1");
    EXPECT_EQ(getnameinfo(generic, sizeof address, buffer, sizeof buffer, nullptr, 0, NI_NAMEREQD), EAI_NONAME);
    EXPECT_EQ(gethostbyaddr(&address.sin_addr, sizeof address.sin_addr, AF_INET), nullptr);
    EXPECT_EQ(h_errno, HOST_NOT_FOUND);
    EXPECT_EQ(gethostbyaddr_r(&address.sin_addr, sizeof address.sin_addr, AF_INET, &host, buffer, sizeof buffer, &found,
                              &h_error),
              0);
    EXPECT_EQ(found, nullptr);
    EXPECT_EQ(h_error, HOST_NOT_FOUND);
}

TEST_F(SimulatedCalls, RefusesWaitsForChildrenAndSignals) {
    OtherProcess other([] {});
    int status = 0;
    rusage usage = {};
    siginfo_t about = {};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    timespec second = {1, 0};
    timespec at_once = {};
    int signal = 0;
    expect_refused({{"wait", [&] { return wait(&status) == -1; }},
                    {"waitpid", [&] { return waitpid(other.pid(), &status, 0) == -1; }},
                    {"wait3", [&] { return wait3(&status, 0, &usage) == -1; }},
                    {"wait4", [&] { return wait4(other.pid(), &status, 0, &usage) == -1; }},
                    {"waitid", [&] { return waitid(P_PID, id_t(other.pid()), &about, WEXITED) == -1; }}},
                   "there are no other processes to wait for");
    expect_refused({{"sigwait", [&] { return (errno = sigwait(&set, &signal)) == ENOTSUP; }},
                    {"sigwaitinfo", [&] { return sigwaitinfo(&set, &about) == -1; }},
                    {"sigtimedwait", [&] { return sigtimedwait(&set, &about, &second) == -1; }}},
                   "there are no signals to wait for");
    EXPECT_EQ(waitpid(other.pid(), &status, WNOHANG), 0);
    EXPECT_EQ(wait3(&status, WNOHANG, &usage), 0);
    EXPECT_EQ(wait4(other.pid(), &status, WNOHANG, &usage), 0);
    EXPECT_EQ(waitid(P_PID, id_t(other.pid()), &about, WEXITED | WNOHANG), 0);
    EXPECT_EQ(sigtimedwait(&set, &about, &at_once), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(SimulatedCalls, RefusesLocksThatAnotherProcessHolds) {
    char name[] = "/tmp/fiberrt_sim_test_XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    ASSERT_GE(fd, 0);
    unlink(name);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    {
        OtherProcess other([&] { syscall(SYS_fcntl, fd, F_SETLK, &lock); });
        EXPECT_REFUSED(fcntl(fd, F_SETLKW, &lock), ENOTSUP, "another process holds the lock");
        EXPECT_REFUSED(lockf(fd, F_LOCK, 0), ENOTSUP, "another process holds the lock");
    }
    EXPECT_EQ(fcntl(fd, F_SETLKW, &lock), 0);
    EXPECT_EQ(lockf(fd, F_LOCK, 0), 0);
    close(fd);
}

TEST_F(SimulatedCalls, PrintsToStandardError) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    OtherProcess other([] {});
    close(ends[0]); // the other process has it
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    ssize_t written = write(STDERR_FILENO, "x", 1);
    iovec part = {const_cast<char *>("y"), 1};
    ssize_t parts_written = writev(STDERR_FILENO, &part, 1);
    ASSERT_EQ(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    EXPECT_EQ(written, 1);
    EXPECT_EQ(parts_written, 1);
    EXPECT_REFUSED(write(ends[1], "z", 1), ENOTSUP, "write on descriptor");
    close(saved);
    close(ends[1]);
}

TEST_F(SimulatedCalls, RefusesToStopItsOnlyThread) {
    Pair pair;
    char byte;
    pollfd entry = {pair.ends[0], POLLIN, 0};
    ASSERT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_REFUSED(read(pair.ends[0], &byte, 1), EDEADLK, "only thread");
    EXPECT_REFUSED(recv(pair.ends[0], &byte, 1, 0), EDEADLK, "only thread");
    EXPECT_REFUSED(poll(&entry, 1, -1), EDEADLK, "only thread");
    EXPECT_EQ(write(pair.ends[1], "x", 1), 1);
    EXPECT_EQ(poll(&entry, 1, -1), 1);
    EXPECT_EQ(read(pair.ends[0], &byte, 1), 1);
    ASSERT_EQ(fiber_noswitch_leave(), 0);
    sigset_t none;
    sigemptyset(&none);
    EXPECT_REFUSED(ppoll(&entry, 1, nullptr, &none), ENOTSUP, "signal mask");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair.ends[0], &set);
    EXPECT_REFUSED(pselect(pair.ends[0] + 1, &set, nullptr, nullptr, nullptr, &none), ENOTSUP, "signal mask");
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    EXPECT_REFUSED(epoll_pwait(epoll, &event, 1, -1, &none), ENOTSUP, "signal mask");
    close(epoll);
}

TEST_F(SimulatedCalls, RefusesALockThatAThreadOutsideHolds) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<bool> locked = false;
    std::atomic<bool> over = false;
    std::thread thread([&] {
        EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
        locked = true;
        while (!over) std::this_thread::yield();
        EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
    });
    while (!locked) std::this_thread::yield();
    std::string said = said_during([&] { EXPECT_EQ(pthread_mutex_lock(&mutex), ENOTSUP); });
    EXPECT_EQ(said,
              "fiberrt: simulation: pthread_mutex_lock is refused: a thread outside the simulation holds the lock, "
              "for as long as the real time decides\n");
    over = true;
    ASSERT_EQ(fiber_noswitch_enter(), 0);
    thread.join();
    ASSERT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
    {
        Beside other([&] { // waits for the fiber that holds it
            EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
            EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
        });
        EXPECT_EQ(sleep(1), 0U);
        EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    // A time of the day, by the simulated clock.
    EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
    {
        Beside other([&] {
            timespec limit = {};
            EXPECT_EQ(clock_gettime(CLOCK_REALTIME, &limit), 0);
            limit.tv_sec += 60;
            EXPECT_EQ(pthread_mutex_timedlock(&mutex, &limit), ETIMEDOUT);
            EXPECT_EQ(time(nullptr), limit.tv_sec);
        });
    }
    EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
}

TEST_F(SimulatedCalls, AWaitThatNothingEndsFails) {
    Pair pair;
    char byte;
    EXPECT_REFUSED(read(pair.ends[0], &byte, 1), EDEADLK, "would last for ever");
}

TEST_F(SimulatedCalls, OtherThreadsGetTheCLibrarysFunctions) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    std::atomic<int64_t> monotonic = 0;
    int64_t before = real_ns();
    std::thread thread([&] {
        char byte;
        EXPECT_EQ(read(ends[0], &byte, 1), 1);
        monotonic = now_ns(CLOCK_MONOTONIC);
    });
    ASSERT_EQ(fiber_noswitch_enter(), 0); // joined as it would be in a library: the thread does not need this one
    thread.join();
    ASSERT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_GE(monotonic, before);
    EXPECT_LE(monotonic, real_ns());
    close(ends[0]);
    close(ends[1]);
}

// ---- Faults, which the environment asks for

struct Seen {
    int interrupted = 0, again = 0, cut = 0, reset = 0;
};

// Receives until it has all bytes, and counts the faults. False: the connection was reset.
bool receive(int fd, char *to, size_t count, Seen &seen) {
    for (size_t done = 0; done < count;) {
        ssize_t got = recv(fd, to + done, count - done, 0);
        if (got > 0) {
            done += size_t(got);
            seen.cut += done < count;
            continue;
        }
        if (got < 0 && errno == EINTR) {
            seen.interrupted++;
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            seen.again++;
            pollfd entry = {fd, POLLIN, 0};
            if (poll(&entry, 1, -1) < 0) {
                EXPECT_EQ(errno, EINTR);
                seen.interrupted++;
            }
            continue;
        }
        EXPECT_TRUE(got == 0 || errno == ECONNRESET) << strerror(errno);
        seen.reset += got < 0;
        return false;
    }
    return true;
}

bool send_all(int fd, const char *from, size_t count, Seen &seen) {
    for (size_t done = 0; done < count;) {
        ssize_t sent = send(fd, from + done, count - done, MSG_NOSIGNAL);
        if (sent > 0) {
            done += size_t(sent);
            seen.cut += done < count;
            continue;
        }
        bool again = errno == EINTR || errno == EAGAIN;
        EXPECT_TRUE(again || errno == ECONNRESET || errno == EPIPE) << strerror(errno);
        if (!again) return false;
        if (errno == EINTR)
            seen.interrupted++;
        else
            seen.again++;
    }
    return true;
}

TEST(SimulatedFaults, LibrariesSeeFaultsThatTheKernelCouldProduce) {
    const std::string sent = "twelve bytes";
    Seen seen;
    int complete = 0;
    for (int round = 0; round < 1000; round++) {
        Pair pair;
        EXPECT_EQ(fcntl(pair.ends[0], F_SETFL, round % 2 ? O_NONBLOCK : 0), 0);
        std::string received(sent.size(), '\0');
        bool all = false;
        bool sent_all = false;
        {
            Beside sender([&] { sent_all = send_all(pair.ends[1], sent.data(), sent.size(), seen); });
            all = receive(pair.ends[0], received.data(), received.size(), seen);
        }
        if (all) {
            EXPECT_TRUE(sent_all);
            EXPECT_EQ(received, sent);
            complete++;
        }
    }
    EXPECT_GT(seen.interrupted, 0);
    EXPECT_GT(seen.again, 0);
    EXPECT_GT(seen.cut, 0);
    EXPECT_GT(seen.reset, 0);
    EXPECT_GT(complete, 0);
    int unslept = 0;
    for (int i = 0; i < 300; i++) {
        timespec left = {};
        timespec second = {1, 0};
        if (nanosleep(&second, &left) == 0) continue;
        EXPECT_EQ(errno, EINTR);
        EXPECT_EQ(left.tv_sec, 1);
        unslept++;
    }
    EXPECT_GT(unslept, 0);
}

} // namespace

int main(int argc, char **argv) {
    setenv("FIBERRT_BACKEND", "sim", 1);
    testing::InitGoogleTest(&argc, argv);
    fiber_t self;
    if (fiber_self(&self) || fiber_posix_adopt(nullptr, 0) <= 0) return 2; // opens the cord
    return RUN_ALL_TESTS();
}
