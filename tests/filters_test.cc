// SPDX-License-Identifier: MIT OR Apache-2.0
// Filters of system calls (seccomp) that a program or a container has, and that refuse calls in the middle of an
// operation. backend_selection_test covers filters that refuse io_uring as a whole.
#include "cord_support.h"
#include "io_support.h"
#include "subprocess.h"

#include <sys/syscall.h>

using namespace support;
using fiberrt_test::RefuseSystemCall;

namespace {

void wait_a_little() {
    Pipe pipe;
    char byte = 0;
    CHILD_CHECK(plain_write(pipe.write_end, "p") == 1);
    CHILD_CHECK(fiber_read(pipe.read_end, &byte, 1) == 1);
    CHILD_CHECK(fiber_sleep(FIBER_USEC(1)) == 0);
}

bool ring_to_be_had() {
    errno = 0;
    return (fiber_features() & FIBER_FEATURE_URING) && ::syscall(SYS_io_uring_setup, 1, nullptr) == -1 &&
           errno == EFAULT;
}

#define NEEDS_A_RING() \
    if (!ring_to_be_had()) GTEST_SKIP() << "there is no io_uring here that a filter could restrict"

// It is as good as none.
TEST(FilterDeathTest, ARingThatMayNotBeEntered) {
    NEEDS_A_RING();
    for (const int error : {EPERM, ENOSYS, EACCES}) {
        auto child = [&](const char *wish, const std::string &name) {
            if (wish)
                ::setenv("FIBERRT_BACKEND", wish, 1);
            else
                ::unsetenv("FIBERRT_BACKEND");
            in_thread([&] {
                RefuseSystemCall(SYS_io_uring_enter, error);
                CHILD_CHECK(fiber_backend_name() == name);
                if (name == "none") {
                    char byte = 0;
                    CHILD_CHECK(fiber_read(0, &byte, 1) == -ENOTSUP);
                } else {
                    wait_a_little();
                    CHILD_CHECK(fiber_backend_name() == name);
                }
            });
            ::_exit(0);
        };
        const std::string other = fiber_features() & FIBER_FEATURE_EV ? "ev" : "none";
        EXPECT_EXIT(child(nullptr, other), testing::ExitedWithCode(0), "") << error;
        EXPECT_EXIT(child("uring", "none"), testing::ExitedWithCode(0), "") << error;
    }
}

TEST(FilterDeathTest, AFilterThatComesTooLateIsNamed) {
    NEEDS_A_RING();
    auto child = [] {
        ::setenv("FIBERRT_BACKEND", "uring", 1);
        in_thread([&] {
            wait_a_little();
            RefuseSystemCall(SYS_io_uring_enter, EPERM);
            wait_a_little();
        });
        ::_exit(0);
    };
    EXPECT_EXIT(child(), testing::KilledBySignal(SIGABRT), "io_uring_enter .* fails with error 1: .*filter");
}

// -EPERM would say that they may not be made from where the caller is.
TEST(FilterDeathTest, ThreadsThatMayNotBeMade) {
    auto child = [] {
        ::unsetenv("FIBERRT_BACKEND");
        in_thread([&] {
            RefuseSystemCall(SYS_clone3, EPERM);
            RefuseSystemCall(SYS_clone, EPERM);
            fiber_cord_t cord{};
            CHILD_CHECK(fiber_cord_start(
                            &cord, nullptr, [](void *) -> void * { return nullptr; }, nullptr) == -EAGAIN);
            CHILD_CHECK(fiber_offload([](void *) -> int64_t { return 0; }, nullptr, nullptr) == -EAGAIN);
            fiber_pool_t pool{};
            CHILD_CHECK(fiber_pool_create(&pool, nullptr) == -EAGAIN);
            fiber_watchdog_t options = {};
            options.limit_ns = FIBER_SEC(1);
            CHILD_CHECK(fiber_watchdog_start(&options, sizeof options) == -EAGAIN);
            wait_a_little();
        });
        ::_exit(0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

} // namespace
