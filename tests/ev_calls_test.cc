// SPDX-License-Identifier: MIT OR Apache-2.0
// The libev backend's calls of the kernel: none, as long as the same fibers wait for the same descriptors, however long
// the thread takes for a round of them. But a long wait has its descriptor registered again, once; if that ends the
// wait, the thread does not sleep.
#include "hosted_support.h"
#include "io_support.h"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

int told = 0;    // calls of epoll_ctl
int refusal = 0; // the error of calls that would have the kernel watch more
int urgent = -1; // poll(2) reports POLLPRI for this descriptor
int begins = -1; // each send of this descriptor has only begun to connect

} // namespace

// Comes before the C library's, for libev too.
extern "C" __attribute__((visibility("default"))) int epoll_ctl(int epoll, int what, int fd, epoll_event *event) {
    told++;
    if (refusal && what == EPOLL_CTL_ADD && event->events) {
        errno = refusal;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, what, fd, event));
}

extern "C" __attribute__((visibility("default"))) int poll(pollfd *looks, nfds_t count, int timeout_ms) {
    static auto *real = reinterpret_cast<decltype(&poll)>(dlsym(RTLD_NEXT, "poll"));
    int found = real(looks, count, timeout_ms);
    for (nfds_t i = 0; i < count; i++) {
        if (urgent < 0 || looks[i].fd != urgent || !(looks[i].events & POLLPRI)) continue;
        found += looks[i].revents == 0;
        looks[i].revents |= POLLPRI;
    }
    return found;
}

extern "C" __attribute__((visibility("default"))) ssize_t send(int fd, const void *bytes, size_t count, int flags) {
    static auto *real = reinterpret_cast<decltype(&send)>(dlsym(RTLD_NEXT, "send"));
    if (fd != begins) return real(fd, bytes, count, flags);
    errno = EINPROGRESS;
    return -1;
}

namespace {

TEST(EvCalls, ABusyServerRegistersNothingAnew) {
    constexpr int connections = 64, requests = 40;
    std::vector<Stream> pairs;
    for (int i = 0; i < connections; i++) pairs.push_back(make_stream(Kind::unix_stream));
    std::vector<fiber_t> fibers;
    int answered = 0, long_waits = 0;
    auto receive = [&](int fd) {
        char bytes[2]; // more than comes: no second attempt is made
        const int64_t begin = fiber_now();
        ASSERT_EQ(fiber_recv(fd, bytes, sizeof bytes, 0), 1);
        if (fiber_now() - begin > FIBER_MSEC(8)) long_waits++;
    };
    auto server = [&](int fd) {
        for (int i = 0; i < requests; i++) {
            receive(fd);
            const int64_t end = fiber_now() + FIBER_USEC(60); // 4 ms for all
            while (fiber_now() < end) {}
            ASSERT_EQ(fiber_send(fd, "x", 1, 0), 1);
        }
    };
    auto client = [&](int fd) {
        for (int i = 0; i < requests; i++) {
            ASSERT_EQ(fiber_send(fd, "x", 1, 0), 1);
            receive(fd);
            answered++;
        }
    };
    std::vector<std::function<void()>> bodies;
    for (Stream &pair : pairs) {
        bodies.push_back([&] { server(pair.reader); });
        bodies.push_back([&] { client(pair.writer); });
    }
    for (auto &body : bodies) fibers.push_back(spawn(body));
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(answered, connections * requests);
    EXPECT_GE(told, 2 * connections); // or else they are not counted
    const int waits = 2 * connections * requests;
    std::printf("%d waits, %d of them long; the kernel told %d times\n", waits, long_waits, told);
    // At first, while it learns how long the waits are, and for some that it has not kept.
    EXPECT_LT(told, 2 * connections * 5 + waits / 10 + long_waits);
}

// A user's watches are limited. If none is left, the call says so at once, and later there may be some.
TEST(EvCalls, AThreadThatTheKernelWatchesNothingForSaysSoAtOnceAndWorksLater) {
    for (const int error : {ENOSPC, ENOMEM}) {
        std::thread([error] {
            Stream pair = make_stream(Kind::unix_stream);
            char byte = 'x';
            told = 0;
            refusal = error;
            const int64_t refused = fiber_send(pair.writer, &byte, 1, 0);
            refusal = 0;
            EXPECT_EQ(refused, -error);
            EXPECT_LT(told, 10);
            EXPECT_EQ(fiber_send(pair.writer, &byte, 1, 0), 1);
            EXPECT_EQ(fiber_recv(pair.reader, &byte, 1, 0), 1);
            EXPECT_GE(fiber_cord_fd(), 0);
        }).join();
    }
}

// The first answer of this kind is waited out; the second is the caller's.
TEST(EvCalls, ASendThatBeginsToConnectAgainAndAgainSaysSo) {
    Stream pair = make_stream(Kind::unix_stream);
    HostedOperation hosted(FIBER_OP_SEND, pair.writer, "x", 1);
    begins = pair.writer;
    FIBER_WITH_TIMEOUT(FIBER_SEC(20), nullptr) {
        EXPECT_EQ(fiber_send(pair.writer, "x", 1, 0), -EINPROGRESS);
        EXPECT_EQ(hosted.start(), 0);
        join(hosted.fiber);
        EXPECT_EQ(hosted.result, -EINPROGRESS);
    }
    begins = -1;
    EXPECT_EQ(fiber_send(pair.writer, "x", 1, 0), 1);
}

// That a descriptor is gone is found out on the way to sleep. The waiter is runnable then.
// Video devices report their events by POLLPRI, while they have nothing to read. Not every machine has such a device, so a
// terminal does it here.
TEST(EvCalls, AnEventThatIsNoDataIsNotRead) {
    Stream stream = make_stream(Kind::pty);
    urgent = stream.reader;
    std::atomic<bool> ended{false};
    std::thread rescue([&] { // nothing else ends a read that a thread of the library's has begun
        for (int i = 0; i < 500 && !ended; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_EQ(::write(stream.writer, "x", 1), 1);
    });
    char byte = 0;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(20), nullptr) { EXPECT_EQ(fiber_read(stream.reader, &byte, 1), -ETIMEDOUT); }
    ended = true;
    rescue.join();
    if (!byte) {
        EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1);
    }
    EXPECT_EQ(byte, 'x');
    urgent = -1;
}

// An epoll instance that watches the descriptor.
Descriptor epoll_around(int fd) {
    Descriptor outer(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event = {};
    event.events = EPOLLIN;
    EXPECT_EQ(epoll_ctl(outer, EPOLL_CTL_ADD, fd, &event), 0);
    return outer;
}

// libev would end the process.
TEST(EvCalls, TheLoopsOwnEpollIsNotWatched) {
    const Stream pipe = make_stream(Kind::pipe);
    auto write_byte = [&] { EXPECT_EQ(write(pipe.writer, "x", 1), 1); };
    fiber_t writer = spawn(write_byte);
    ASSERT_EQ(fiber_poll_fd(pipe.reader, POLLIN), POLLIN); // the thread has a loop
    join(writer);
    char byte;
    ASSERT_EQ(read(pipe.reader, &byte, 1), 1); // which has nothing to report now
    int found = 0;
    for (int fd = 3; fd < 1024; fd++) {
        char file[64] = "";
        (void)!readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), file, sizeof file - 1);
        if (file != std::string("anon_inode:[eventpoll]")) continue;
        found++;
        FIBER_WITH_TIMEOUT(FIBER_SEC(20), nullptr) {
            EXPECT_EQ(fiber_poll_fd(fd, POLLIN), -EINVAL);
            EXPECT_EQ(fiber_poll_fd(fd, POLLPRI), -ELOOP);
            Descriptor outer = epoll_around(fd);
            EXPECT_EQ(fiber_poll_fd(outer, POLLIN), -ELOOP);
        }
    }
    EXPECT_EQ(found, 1);
}

TEST(EvCalls, EpollsThatAreNestedTooDeepAreNotWatched) {
    const Stream pipe = make_stream(Kind::pipe);
    std::vector<Descriptor> epolls;
    epolls.push_back(epoll_around(pipe.reader));
    while (epolls.size() < 5) epolls.push_back(epoll_around(epolls.back()));
    for (const int depth : {3, 4, 5}) {
        const int fd = epolls[size_t(depth) - 1];
        FIBER_WITH_TIMEOUT(FIBER_MSEC(5), nullptr) {
            EXPECT_EQ(fiber_poll_fd(fd, POLLIN), depth == 5 ? -ELOOP : -ETIMEDOUT);
        }
        FIBER_WITH_TIMEOUT(FIBER_MSEC(5), nullptr) {
            EXPECT_EQ(fiber_poll_fd(fd, POLLPRI), depth == 3 ? -ETIMEDOUT : -ELOOP);
        }
    }
    ASSERT_EQ(write(pipe.writer, "x", 1), 1);
    EXPECT_EQ(fiber_poll_fd(epolls[3], POLLIN), POLLIN);
}

// The program's mistake, which must not end the process: while a fiber waits, the number is given to such an epoll.
TEST(EvCalls, ANumberThatBecomesAnEpollNestedTooDeepIsNotWatched) {
    const Stream pipe = make_stream(Kind::pipe);
    Stream pair = make_stream(Kind::unix_stream);
    std::vector<Descriptor> epolls;
    epolls.push_back(epoll_around(pipe.reader));
    while (epolls.size() < 5) epolls.push_back(epoll_around(epolls.back()));
    int64_t result = 1;
    auto poll_reader = [&] { result = fiber_poll_fd(pair.reader, POLLIN); };
    fiber_t fiber = spawn(poll_reader);
    ASSERT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    ASSERT_EQ(write(pair.writer, "x", 1), 1);
    join(fiber);
    ASSERT_EQ(result, POLLIN); // and the kernel still watches
    char byte;
    ASSERT_EQ(read(pair.reader, &byte, 1), 1);
    fiber = spawn(poll_reader);
    ASSERT_EQ(fiber_yield_timeout(0), -ETIMEDOUT);
    ASSERT_EQ(dup2(epolls.back(), pair.reader), pair.reader);
    FIBER_WITH_TIMEOUT(FIBER_SEC(20), nullptr) { join(fiber); }
    EXPECT_EQ(result, -ELOOP);
}

TEST(EvCalls, TRAP_AWaitThatFailsAsTheThreadGoesToSleepKeepsItAwake) {
    Stream pair = make_stream(Kind::unix_stream);
    const int number = pair.reader.release();
    int64_t result = 1;
    auto receive = [&] {
        char bytes[2];
        result = fiber_recv(number, bytes, sizeof bytes, 0);
    };
    fiber_t first = spawn(receive);
    ASSERT_EQ(fiber_yield_timeout(0), -ETIMEDOUT);
    ASSERT_EQ(write(pair.writer, "x", 1), 1);
    join(first);
    ASSERT_EQ(result, 1); // and the kernel still watches
    fiber_t second = spawn(receive);
    ASSERT_EQ(fiber_yield_timeout(0), -ETIMEDOUT);
    const int64_t begin = fiber_now();
    ASSERT_EQ(::close(number), 0);
    join(second);
    EXPECT_EQ(result, -EBADF);
    EXPECT_LT(fiber_now() - begin, FIBER_SEC(20)); // libev itself wakes after a minute
}

} // namespace
