// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for the tests of adopted calls. This program adopts itself: a call such as ::read of the test waits as a fiber
// if a fiber makes it, and is the kernel's if a thread without a cord makes it.
//
// A scenario runs twice, by such a thread and by a fiber, and must give the same log:
//     compare([](Trial &trial) { trial.note("read", ::read(fd, buffer, 4)); });
#ifndef FIBERRT_TESTS_POSIX_CALLS_H
#define FIBERRT_TESTS_POSIX_CALLS_H

#include "io_support.h"
#include "support.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace calls {

// Adopts the test program, once.
class Adopted : public testing::Environment {
public:
    void SetUp() override { ASSERT_GT(fiber_posix_adopt(nullptr, 0), 0); }
};

// One of the two runs of a scenario.
class Trial {
public:
    explicit Trial(bool by_fiber) : by_fiber(by_fiber) {}
    const bool by_fiber;
    std::string log;

    // Logs a call's result, and errno if it is -1.
    template <class Result>
    Result note(const char *call, Result result) {
        const int error = errno;
        log += std::string(call) + "=" + std::to_string(result);
        if (result == Result(-1)) log += std::string(" ") + strerrorname(error);
        log += "; ";
        errno = error;
        return result;
    }
    void text(const char *what, const std::string &value) { log += std::string(what) + "='" + value + "'; "; }

private:
    static std::string strerrorname(int error) {
        const char *name = ::strerrorname_np(error);
        return name ? name : std::to_string(error);
    }
};

// Runs a body at the same time as the scenario: on a thread if the scenario runs on one, otherwise on a fiber. A fiber
// begins when the scenario first waits.
class Peer {
public:
    Peer(const Trial &trial, std::function<void()> body) : body_(std::move(body)) {
        if (trial.by_fiber) {
            fiber_ = support::spawn(body_);
        } else {
            thread_ = std::thread(body_);
        }
    }
    ~Peer() { join(); }
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;
    void join() {
        if (thread_.joinable()) thread_.join();
        if (fiber_.id) support::join(std::exchange(fiber_, {}));
    }

private:
    std::function<void()> body_;
    std::thread thread_;
    fiber_t fiber_ = {};
};

// The logs of both runs.
inline std::pair<std::string, std::string> logs(const std::function<void(Trial &)> &scenario) {
    Trial by_thread(false), by_fiber(true);
    // A thread whose calls are the kernel's: fiber_here() is 0, as it opens no cord.
    std::thread thread([&] {
        EXPECT_EQ(fiber_here(), 0);
        scenario(by_thread);
        EXPECT_EQ(fiber_here(), 0) << "the plain thread has opened a cord";
    });
    thread.join();
    auto body = [&] {
        EXPECT_EQ(fiber_here(), 1);
        scenario(by_fiber);
    };
    support::run(body);
    return {by_thread.log, by_fiber.log};
}

inline void compare(const std::function<void(Trial &)> &scenario) {
    const auto [by_thread, by_fiber] = logs(scenario);
    EXPECT_EQ(by_thread, by_fiber);
    EXPECT_NE(by_thread, "");
}

// Sanitizers read the arguments of calls themselves, before the kernel checks them.
inline constexpr bool sanitized = FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN;
#define NEEDS_THE_KERNELS_CHECKS() \
    if (calls::sanitized) GTEST_SKIP() << "a sanitizer reads the arguments before the kernel does"

// An address that the program cannot use; volatile, so that the compiler does not warn of it.
template <class T>
T *nowhere() {
    static volatile uintptr_t address = 16;
    return reinterpret_cast<T *>(address);
}

inline timeval milliseconds(int ms) { return {ms / 1000, ms % 1000 * 1000}; }

inline void limit(int fd, int option, int ms) {
    const timeval time = milliseconds(ms);
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, option, &time, sizeof time), 0);
}

// Two connected datagram sockets.
inline support::Stream datagrams() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    return {support::Descriptor(ends[0]), support::Descriptor(ends[1])};
}

using support::Descriptor;
using support::Kind;
using support::make_stream;
using support::Stream;

} // namespace calls

#endif
