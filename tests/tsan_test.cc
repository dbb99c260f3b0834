// SPDX-License-Identifier: MIT OR Apache-2.0
// ThreadSanitizer's view of fibers: it keeps a record of each fiber for as long as the fiber lives; it reports no race
// where there is none, and still reports real races. The same program runs with a library that is built for
// ThreadSanitizer and with one that is not.
#include "support.h"

#include <atomic>
#include <mutex>
#include <vector>

using namespace support;

static_assert(FIBERRT_TEST_TSAN, "to be compiled with -fsanitize=thread");

namespace {

// ThreadSanitizer knows at most 8,128 threads and fibers at a time, and ends the process beyond that.
constexpr int more_than_tsan_knows = 10'000;

TEST(TsanFibers, TenThousandInARow) {
    long sum = 0;
    auto returning = [&] { sum++; };
    auto exiting = [&] {
        sum++;
        fiber_exit(nullptr);
    };
    for (int i = 0; i < more_than_tsan_knows; i += 4) {
        join(spawn(returning)); // the ending fiber switches to the joiner
        join(spawn(exiting));
        ASSERT_EQ(fiber_spawn(nullptr, entry<decltype(returning)>, &returning), 0);
        fiber_t other = spawn(exiting); // the ending fiber switches to a new one
        join(other);
    }
    EXPECT_EQ(sum, more_than_tsan_knows);
}

// An ended fiber that is not joined keeps its slot, but not its record in ThreadSanitizer, which must not be destroyed
// twice.
TEST(TsanFibers, ThreadsThatEndWithFibersLeaveNone) {
    auto parked = [] { fiber_yield(); };
    auto ended = [] {};
    for (int i = 0; i < 10; i++) {
        in_thread([&] {
            for (int j = 0; j < more_than_tsan_knows / 10; j++) {
                start(parked);
                if (j % 10 == 0) start(ended);
            }
        });
    }
}

// Fibers of one thread share data without locks: a switch is an order.
TEST(TsanOrder, EverySwitchOfOneThreadIsAnOrder) {
    int shared = 0;
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    auto body = [&] {
        for (int i = 0; i < 10; i++) {
            shared++;
            fiber_reschedule();
            shared++;
            fiber_sleep(1000);
        }
        shared++;
        fiber_yield();
        shared++;
        char byte = 0;
        fiber_read(pipe_ends[0], &byte,
                   1); // fails with -ENOTSUP where there is no io_uring, which does not matter here
        shared++;
    };
    for (int round = 0; round < 10; round++) {
        std::vector<fiber_t> fibers;
        for (int i = 0; i < 10; i++) fibers.push_back(spawn(body));
        ASSERT_EQ(fiber_reschedule(), 0); // all have begun: else the wakeup coincides with the spawn's
        for (fiber_t fiber : fibers) {
            shared++;
            fiber_wakeup(fiber);
        }
        ASSERT_EQ(write(pipe_ends[1], "0123456789", 10), 10);
        for (fiber_t fiber : fibers) join(fiber);
    }
    EXPECT_EQ(shared, 10 * 10 * (10 * 2 + 4));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

TEST(TsanOrder, LocksAndAtomicsHoldBetweenFibersOfTwoThreads) {
    std::mutex mutex;
    int guarded = 0, handed = 0;
    std::atomic<bool> ready{false};
    auto adder = [&] {
        for (int i = 0; i < 1000; i++) {
            {
                std::lock_guard<std::mutex> lock(mutex);
                guarded++;
            }
            fiber_reschedule();
        }
    };
    auto giver = [&] {
        fiber_reschedule();
        handed = 1;
        ready.store(true, std::memory_order_release);
    };
    auto taker = [&] {
        while (!ready.load(std::memory_order_acquire)) fiber_reschedule();
        handed++;
    };
    std::thread other([&] {
        fiber_t fibers[] = {spawn(adder), spawn(adder), spawn(taker)};
        for (fiber_t fiber : fibers) join(fiber);
    });
    fiber_t fibers[] = {spawn(adder), spawn(adder), spawn(giver)};
    for (fiber_t fiber : fibers) join(fiber);
    other.join();
    EXPECT_EQ(guarded, 4000);
    EXPECT_EQ(handed, 2);
}

// Rings that get the memory of rings that other threads have closed.
TEST(TsanOrder, RingsOfThreadsInTurn) {
    for (int i = 0; i < 20; i++) {
        in_thread([] {
            run([] {
                int ends[2];
                EXPECT_EQ(pipe(ends), 0);
                EXPECT_EQ(write(ends[1], "x", 1), 1);
                char byte = 0;
                fiber_read(ends[0], &byte, 1);
                close(ends[0]);
                close(ends[1]);
            });
        });
    }
}

// Of fibers on two threads, in the midst of switches: not as if they were one.
[[maybe_unused]] void race() {
    int shared = 0;
    std::atomic<int> arrived{0}; // relaxed: orders nothing
    auto body = [&] {
        fiber_reschedule();
        arrived.fetch_add(1, std::memory_order_relaxed);
        while (arrived.load(std::memory_order_relaxed) < 2) fiber_reschedule();
        for (int i = 0; i < 100; i++) {
            shared++;
            fiber_reschedule();
        }
    };
    std::thread other([&] { run(body); });
    run(body);
    other.join();
}

TEST(TsanDeathTest, ARaceBetweenFibersOfTwoThreadsIsReported) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            for (int i = 0; i < 1000; i++) race(); // the first report ends it; a single one may be missed
            _exit(0);
        },
        testing::ExitedWithCode(66), "data race");
}

} // namespace
