// SPDX-License-Identifier: MIT OR Apache-2.0
// Counting semaphores: order, large requests, early ends, permits that are not lost.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"

#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

struct Taker {
    fiber_sem_t *sem;
    Trace *trace;
    char name;
    int64_t n;
    void operator()() const {
        const int result = fiber_sem_wait(sem, n);
        *trace += result == 0 ? name : '-';
    }
};

TEST(Semaphore, CountsPermits) {
    fiber_sem_t sem{};
    EXPECT_EQ(fiber_sem_value(&sem), 0);
    EXPECT_EQ(fiber_sem_trywait(&sem, 1), -EAGAIN);
    EXPECT_EQ(fiber_sem_wait_timeout(&sem, 1, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_sem_post(&sem, 3), 0);
    EXPECT_EQ(fiber_sem_wait(&sem, 2), 0);
    EXPECT_EQ(fiber_sem_value(&sem), 1);
    EXPECT_EQ(fiber_sem_trywait(&sem, 2), -EAGAIN);
    EXPECT_EQ(fiber_sem_trywait(&sem, 1), 0);
    EXPECT_EQ(fiber_sem_init(&sem, 5), 0);
    EXPECT_EQ(fiber_sem_value(&sem), 5);
    EXPECT_EQ(fiber_sem_destroy(&sem), 0);
}

TEST(Semaphore, MisuseIsAnError) {
    fiber_sem_t sem{};
    EXPECT_EQ(fiber_sem_init(nullptr, 0), -EINVAL);
    EXPECT_EQ(fiber_sem_init(&sem, -1), -EINVAL);
    EXPECT_EQ(fiber_sem_wait(nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_sem_wait(&sem, 0), -EINVAL);
    EXPECT_EQ(fiber_sem_wait_timeout(&sem, 1, -1), -EINVAL);
    EXPECT_EQ(fiber_sem_trywait(&sem, -1), -EINVAL);
    EXPECT_EQ(fiber_sem_post(&sem, 0), -EINVAL);
    EXPECT_EQ(fiber_sem_post(nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_sem_value(nullptr), -EINVAL);
    EXPECT_EQ(fiber_sem_destroy(nullptr), -EINVAL);
    EXPECT_EQ(fiber_sem_post(&sem, INT64_MAX), 0);
    EXPECT_EQ(fiber_sem_post(&sem, 1), -EOVERFLOW);
    EXPECT_EQ(fiber_sem_value(&sem), INT64_MAX);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_sem_wait(&sem, 1), -EPERM);
    EXPECT_EQ(fiber_sem_trywait(&sem, 1), 0);
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
}

TEST(Semaphore, TRAP_ALargeRequestIsNotStarvedBySmallOnes) {
    fiber_sem_t sem{};
    Trace trace;
    Taker takers[] = {{&sem, &trace, 'L', 3}, {&sem, &trace, 'a', 1}, {&sem, &trace, 'b', 1}};
    std::vector<fiber_t> fibers;
    for (Taker &taker : takers) fibers.push_back(start(taker));
    EXPECT_EQ(fiber_sem_destroy(&sem), -EBUSY);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_sem_trywait(&sem, 1), -EAGAIN); // nor do newcomers overtake
        EXPECT_EQ(fiber_sem_wait_timeout(&sem, 1, 0), -ETIMEDOUT);
    }
    EXPECT_EQ(trace, "");
    EXPECT_EQ(fiber_sem_post(&sem, 2), 0);
    join(fibers[0]);
    join(fibers[1]);
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    join(fibers[2]);
    EXPECT_EQ(trace, "Lab");
    EXPECT_EQ(fiber_sem_value(&sem), 0);
}

TEST(SemaphoreCancel, TRAP_ALargeRequestThatGivesUpLetsTheOthersPass) {
    fiber_sem_t sem{};
    Trace trace;
    Taker takers[] = {{&sem, &trace, 'L', 3}, {&sem, &trace, 'a', 1}, {&sem, &trace, 'b', 1}};
    std::vector<fiber_t> fibers;
    for (Taker &taker : takers) fibers.push_back(start(taker));
    EXPECT_EQ(fiber_sem_post(&sem, 2), 0);
    EXPECT_EQ(fiber_cancel(fibers[0], nullptr), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(std::count(trace.begin(), trace.end(), '-'), 1);
    EXPECT_LT(trace.find('a'), trace.find('b'));
    EXPECT_EQ(fiber_sem_value(&sem), 0);
    EXPECT_EQ(fiber_sem_destroy(&sem), 0);
}

TEST(SemaphoreCancel, EndsAWaitAndNothingIsTaken) {
    fiber_sem_t sem{};
    auto body = [&] { return pointer(fiber_sem_wait(&sem, 1)); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    run([&] {
        const int64_t until = fiber_now() + FIBER_MSEC(1);
        EXPECT_EQ(fiber_sem_wait_timeout(&sem, 1, FIBER_MSEC(1)), -ETIMEDOUT);
        EXPECT_GE(fiber_now(), until);
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_sem_post(&sem, 1), 0);          // no cancellation point
        EXPECT_EQ(fiber_sem_wait(&sem, 1), -ECANCELED); // before it has taken any
    });
    EXPECT_EQ(fiber_sem_value(&sem), 1);
}

TEST(SemaphoreCancel, TRAP_APermitThatWasGrantedBeforeTheCancelCounts) {
    fiber_sem_t sem{};
    auto body = [&] {
        EXPECT_EQ(fiber_sem_wait(&sem, 1), 0);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
    };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(fiber_sem_value(&sem), 0);
}

TEST(SemaphoreThreads, TRAP_PermitsOfAFiberThatNeverRunsAgainComeBack) {
    fiber_sem_t sem{};
    Doomed doomed([&] { return fiber_sem_wait(&sem, 3); });
    EXPECT_EQ(fiber_sem_post(&sem, 3), 0);
    EXPECT_EQ(fiber_sem_value(&sem), 0);
    doomed.end();
    EXPECT_EQ(fiber_sem_wait(&sem, 3), 0);
}

// A fiber that never waits, as there are enough permits, still gives the thread away now and then, while it holds a
// permit. The thread ends then.
TEST(SemaphoreThreads, TRAP_PermitsTakenAtOnceByAFiberThatNeverRunsAgainComeBack) {
    constexpr int64_t all = 1'000'000;
    fiber_sem_t sem{};
    EXPECT_EQ(fiber_sem_init(&sem, all), 0);
    for (int round = 0; round < often(20, 3); round++) {
        int64_t taken = 0;
        auto takes = [&] {
            while (fiber_sem_wait(&sem, 1) == 0) taken++;
        };
        auto body = [&] {
            const fiber_t fiber = create(takes, On(this_cord_handle()).daemon());
            EXPECT_EQ(fiber_start(fiber), 0);
            for (int i = 0; i < round % 3; i++) EXPECT_EQ(fiber_reschedule(), 0);
        };
        join_cord(start_cord(body));
        EXPECT_EQ(fiber_sem_value(&sem) + taken, all) << round;
        if (taken) {
            EXPECT_EQ(fiber_sem_post(&sem, taken), 0);
        }
    }
}

TEST(SemaphoreThreads, AThreadThatEndsWhileItsFiberWaitsBlocksNoOther) {
    NEEDS_THREADS();
    fiber_sem_t sem{};
    in_thread([&] {
        auto large = [&] { return pointer(fiber_sem_wait(&sem, 100)); };
        start(large);
        EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
        EXPECT_EQ(fiber_sem_trywait(&sem, 1), -EAGAIN);
    });
    EXPECT_EQ(fiber_sem_wait(&sem, 1), 0);
    EXPECT_EQ(fiber_sem_destroy(&sem), 0);
}

TEST(SemaphoreThreads, PermitsGoRoundBetweenCordsAndPlainThreads) {
    fiber_sem_t sem{};
    EXPECT_EQ(fiber_sem_init(&sem, 3), 0);
    std::atomic<int> inside{0};
    auto body = [&] {
        for (int i = 0; i < often(500, 10); i++) {
            const int64_t n = 1 + i % 3;
            EXPECT_EQ(fiber_sem_wait(&sem, n), 0);
            EXPECT_LE(inside += int(n), 3);
            inside -= int(n);
            EXPECT_EQ(fiber_sem_post(&sem, n), 0);
        }
    };
    {
        Worker workers[2];
        std::vector<fiber_t> fibers;
        for (Worker &worker : workers)
            for (int i = 0; i < 3; i++) fibers.push_back(spawn_on(worker, body));
        Thread threads[] = {Thread(body), Thread(body)};
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    EXPECT_EQ(fiber_sem_value(&sem), 3);
}

TEST(SemaphoreThreads, APlainThreadWaitsInOrderAndTimesOut) {
    NEEDS_THREADS();
    fiber_sem_t sem{};
    in_thread([&] { EXPECT_EQ(fiber_sem_wait_timeout(&sem, 1, FIBER_MSEC(2)), -ETIMEDOUT); });
    std::atomic<bool> got{false};
    std::thread thread([&] {
        EXPECT_EQ(fiber_sem_wait(&sem, 2), 0);
        got = true;
    });
    await([&] { return fiber_sem_destroy(&sem) == -EBUSY; }); // it waits
    auto body = [&] { EXPECT_EQ(fiber_sem_wait(&sem, 1), 0); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_FALSE(got);
    EXPECT_TRUE(waits(fiber));
    EXPECT_EQ(fiber_sem_post(&sem, 2), 0);
    join(fiber);
    thread.join();
    EXPECT_EQ(fiber_sem_value(&sem), 0);
}

} // namespace
