// SPDX-License-Identifier: MIT OR Apache-2.0
// Barriers.
#include "conformance.h"
#include "cord_support.h"

#include <atomic>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

TEST(Barrier, AllGoOnWhenTheLastHasArrivedAndRoundsFollow) {
    fiber_barrier_t barrier{};
    EXPECT_EQ(fiber_barrier_init(&barrier, 3), 0);
    for (int round = 0; round < 3; round++) {
        auto body = [&] { return pointer(fiber_barrier_wait(&barrier)); };
        const fiber_t first = start(body), second = start(body);
        EXPECT_TRUE(waits(first) && waits(second));
        EXPECT_EQ(fiber_barrier_destroy(&barrier), -EBUSY);
        EXPECT_EQ(fiber_barrier_wait(&barrier), 1);
        EXPECT_EQ(join(first), pointer(0));
        EXPECT_EQ(join(second), pointer(0));
    }
    EXPECT_EQ(fiber_barrier_destroy(&barrier), 0);
}

TEST(Barrier, OfOneMemberDoesNotWait) {
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(1);
    for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_barrier_wait(&barrier), 1);
    EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, 0), 1);
}

TEST(Barrier, TheLastOfManyRoundsGivesOthersTheirTurns) {
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(1);
    bool ran = false;
    auto other = [&] { ran = true; };
    fiber_t fiber = spawn(other);
    while (!ran) EXPECT_EQ(fiber_barrier_wait(&barrier), 1);
    join(fiber);
}

TEST(Barrier, MisuseIsAnErrorAndChangesNothing) {
    fiber_barrier_t barrier{};
    EXPECT_EQ(fiber_barrier_wait(&barrier), -EINVAL); // it was not initialised
    EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, 0), -EINVAL);
    EXPECT_EQ(fiber_barrier_init(nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_barrier_init(&barrier, 0), -EINVAL);
    EXPECT_EQ(fiber_barrier_init(&barrier, -1), -EINVAL);
    EXPECT_EQ(fiber_barrier_wait(nullptr), -EINVAL);
    EXPECT_EQ(fiber_barrier_wait_timeout(nullptr, 0), -EINVAL);
    EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, -1), -EINVAL);
    EXPECT_EQ(fiber_barrier_destroy(nullptr), -EINVAL);
    static constexpr fiber_barrier_t two = FIBER_BARRIER_INITIALIZER(2);
    EXPECT_EQ(fiber_barrier_init(&barrier, 2), 0);
    EXPECT_EQ(memcmp(&barrier, &two, sizeof two), 0);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_barrier_wait(&barrier), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, 0), -ETIMEDOUT); // none has arrived by any of these
    EXPECT_EQ(fiber_barrier_destroy(&barrier), 0);
}

TEST(BarrierCancel, TRAP_AWaiterThatLeavesEarlyHasNotArrived) {
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(3);
    auto body = [&] { return pointer(fiber_barrier_wait(&barrier)); };
    const fiber_t stays = start(body);
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    auto timed = [&] { return pointer(fiber_barrier_wait_timeout(&barrier, FIBER_MSEC(1))); };
    EXPECT_EQ(join(start(timed)), pointer(-ETIMEDOUT));
    EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, 0), -ETIMEDOUT);
    EXPECT_TRUE(waits(stays));
    const fiber_t second = start(body);
    EXPECT_EQ(fiber_barrier_wait(&barrier), 1);
    EXPECT_EQ(join(stays), pointer(0));
    EXPECT_EQ(join(second), pointer(0));
}

TEST(BarrierCancel, IsSeenByTheNextCallWhereTheRoundWasComplete) {
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(2);
    auto body = [&] {
        EXPECT_EQ(fiber_barrier_wait(&barrier), 0);
        EXPECT_EQ(fiber_barrier_wait(&barrier), -ECANCELED);
    };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_barrier_wait(&barrier), 1);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(fiber_barrier_destroy(&barrier), 0);
}

TEST(BarrierCancel, RefusesTheWaitBeforeItBegins) {
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(2);
    run([&] {
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_barrier_wait(&barrier), -ECANCELED);
    });
    EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, 0), -ETIMEDOUT);
}

TEST(BarrierThreads, OneOfEachRoundIsTheLastAndAllSeeTheWritesBefore) {
    const int rounds = often(300, 10);
    constexpr int MEMBERS = 6;
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(MEMBERS);
    std::atomic<int> lasts{0};
    std::vector<int> done(size_t(rounds) * MEMBERS); // not atomic: the barrier orders them
    auto member = [&](int me) {
        return [&, me] {
            for (int round = 0; round < rounds; round++) {
                done[size_t(round) * MEMBERS + size_t(me)] = 1;
                const int result = fiber_barrier_wait(&barrier);
                ASSERT_GE(result, 0);
                lasts += result;
                for (int i = 0; i < MEMBERS; i++) ASSERT_EQ(done[size_t(round) * MEMBERS + size_t(i)], 1);
            }
        };
    };
    {
        Worker workers[2];
        auto a = member(0), b = member(1), c = member(2), d = member(3);
        const fiber_t fibers[] = {spawn_on(workers[0], a), spawn_on(workers[0], b), spawn_on(workers[1], c),
                                  spawn_on(workers[1], d)};
        Thread threads[] = {Thread(member(4)), Thread(member(5))}; // without cords
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    EXPECT_EQ(lasts, rounds);
    EXPECT_EQ(fiber_barrier_destroy(&barrier), 0);
}

// Two threads meet, and each gives up after a while: both agree on how often they have met.
TEST(BarrierThreads, TRAP_ARoundNeverCountsAWaiterThatHasGivenUp) {
    NEEDS_THREADS();
    const int tries = often(3000, 300);
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(2);
    long met[2] = {}, lasts[2] = {};
    auto member = [&](int me) {
        return [&, me] {
            for (int i = 0; i < tries; i++) {
                const int result = fiber_barrier_wait_timeout(&barrier, (me + i) % 5 * 700);
                ASSERT_TRUE(result >= 0 || result == -ETIMEDOUT) << result;
                met[me] += result >= 0;
                lasts[me] += result == 1;
            }
        };
    };
    {
        Worker worker;
        auto fiber_member = member(0);
        const fiber_t fiber = spawn_on(worker, fiber_member);
        Thread thread(member(1));
        join(fiber);
        thread.join();
    }
    EXPECT_EQ(met[0], met[1]);
    EXPECT_EQ(lasts[0] + lasts[1], met[0]);
    EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_barrier_destroy(&barrier), 0);
}

} // namespace
