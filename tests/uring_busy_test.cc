// SPDX-License-Identifier: MIT OR Apache-2.0
// A ring whose enters the kernel answers with -EBUSY for a while, as it does when completions do not fit: nothing is lost,
// and the thread does not ask again at once. liburing's calls are in the hands of the test.
#include "io_support.h"

#include <dlfcn.h>
#include <liburing.h>

namespace {

int busy;     // so many enters are answered with -EBUSY
int answered; // so they were
int pauses;   // nanosleep, by which the library waits for the kernel

template <class Function>
Function *next_of(const char *name, Function *) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

bool refused() {
    if (busy == 0) return false;
    busy--;
    answered++;
    return true;
}

} // namespace

extern "C" {

int io_uring_submit_and_wait(io_uring *ring, unsigned count) {
    static auto *real = next_of("io_uring_submit_and_wait", &io_uring_submit_and_wait);
    return refused() ? -EBUSY : real(ring, count);
}

int io_uring_submit_and_wait_timeout(io_uring *ring, io_uring_cqe **cqe, unsigned count, __kernel_timespec *time,
                                     sigset_t *mask) {
    static auto *real = next_of("io_uring_submit_and_wait_timeout", &io_uring_submit_and_wait_timeout);
    return refused() ? -EBUSY : real(ring, cqe, count, time, mask);
}

int nanosleep(const timespec *time, timespec *left) {
    static auto *real = next_of("nanosleep", &nanosleep);
    pauses++;
    return real(time, left);
}
}

using namespace support;

TEST(UringBusy, AnEnterThatIsRefusedIsTriedAgainAfterAPause) {
    ASSERT_EQ(setenv("FIBERRT_BACKEND", "uring", 1), 0);
    Pipe pipe;
    char byte = 0;
    auto reads = [&] { EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1); };
    auto writes = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    };
    const fiber_t reader = start(reads);
    if (fiber_state(reader) != FIBER_WAITING) GTEST_SKIP() << "the kernel refuses io_uring";
    busy = 20;
    const fiber_t writer = start(writes);
    join(reader);
    join(writer);
    EXPECT_EQ(byte, 'x');
    EXPECT_GT(answered, 0);
    EXPECT_GE(pauses, answered);
}
