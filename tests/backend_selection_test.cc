// SPDX-License-Identifier: MIT OR Apache-2.0
// The choice of the backend, by FIBERRT_BACKEND and by the kernel's permissions. Run by itself, and through deny_uring,
// which makes the kernel refuse io_uring; then FIBERRT_REFUSAL has the error.
#include "io_support.h"

#include <cerrno>
#include <sys/syscall.h>

using namespace support;

namespace {

// The kernel's refusal of io_uring, as the name of an error; empty if the kernel allows it.
std::string refusal() {
    errno = 0;
    EXPECT_EQ(::syscall(SYS_io_uring_setup, 1, nullptr), -1);
    return errno == EFAULT ? "" : strerrorname_np(errno);
}

bool refused() { return !refusal().empty(); }

bool built_in(uint64_t feature) { return fiber_features() & feature; }

// The backend that is chosen when the program chooses none.
std::string by_itself() {
    // Under Valgrind a ring is the last choice: it lets no other thread run while one waits there.
    const bool last = ::getenv("FIBERRT_TEST_UNDER_VALGRIND") && built_in(FIBER_FEATURE_EV);
    if (built_in(FIBER_FEATURE_URING) && !refused() && !last) return "uring";
    return built_in(FIBER_FEATURE_EV) ? "ev" : "none";
}

// In a child process: the result of fiber_backend_name with FIBERRT_BACKEND set to `wish` (null: unset), before the
// first operation and after it, and that operation's result.
void expect_backend(const char *wish, const std::string &name, int64_t result) {
    auto child = [&] {
        if (wish)
            ::setenv("FIBERRT_BACKEND", wish, 1);
        else
            ::unsetenv("FIBERRT_BACKEND");
        in_thread([&] {
            CHILD_CHECK(fiber_backend_name() == name);
            Pipe pipe;
            char byte = 0;
            CHILD_CHECK(plain_write(pipe.write_end, "p") == 1);
            CHILD_CHECK(fiber_read(pipe.read_end, &byte, 1) == result);
            CHILD_CHECK(fiber_backend_name() == name);
            CHILD_CHECK(fiber_sleep(FIBER_USEC(1)) == 0);
        });
        ::_exit(0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST(ChoiceDeathTest, TheKernelsRefusalIsSilentlyWorkedAround) {
    if (const char *expected = ::getenv("FIBERRT_REFUSAL")) {
        EXPECT_EQ(refusal(), expected);
    }
    // Memory may come back.
    const int refused_with = built_in(FIBER_FEATURE_URING) && refusal() == "ENOMEM" ? -ENOMEM : -ENOTSUP;
    expect_backend(nullptr, by_itself(), by_itself() == "none" ? refused_with : 1);
    expect_backend("", by_itself(), by_itself() == "none" ? refused_with : 1);
}

TEST(ChoiceDeathTest, ANamedBackendIsUsedOrRefused) {
    if (built_in(FIBER_FEATURE_EV))
        expect_backend("ev", "ev", 1);
    else
        expect_backend("ev", "none", -ENOTSUP);
    if (!built_in(FIBER_FEATURE_URING))
        expect_backend("uring", "none", -ENOTSUP);
    else if (refused())
        expect_backend("uring", "none", refusal() == "ENOMEM" ? -ENOMEM : -ENOTSUP); // memory may come back
    else
        expect_backend("uring", "uring", 1);
}

TEST(ChoiceDeathTest, AnUnknownNameIsInvalid) {
    for (const char *wish : {"epoll", "URING", "uring ", "e", "evx"}) expect_backend(wish, "none", -EINVAL);
}

TEST(ChoiceTest, EveryThreadNamesItsOwnBackend) {
    const std::string name = fiber_backend_name();
    in_thread([&] { EXPECT_EQ(fiber_backend_name(), name); });
    errno = 4711;
    EXPECT_NE(fiber_backend_name(), nullptr);
    EXPECT_EQ(errno, 4711);
}

} // namespace
