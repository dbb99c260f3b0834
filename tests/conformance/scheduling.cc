// SPDX-License-Identifier: MIT OR Apache-2.0
// Starting, waking and yielding: which fiber runs when, and what happens to a wakeup and to the value that it carries.
#include "conformance.h"
#include "support.h"

#include <string>
#include <vector>

using namespace support;

// ---- start ----------------------------------------------------------------------------------------------------------

TEST(Start, NewFiberDoesNotRunUntilStartedOrWoken) {
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_NEW);
    EXPECT_EQ(fiber_start(fiber), 0);
    EXPECT_EQ(runs, 1);
    join(fiber);
    EXPECT_EQ(runs, 1);
}

TEST(Start, RunsAtOnceAndStarterGoesOnBeforeOtherRunnableFibers) {
    Trace log;
    auto other = [&] { log += 'o'; };
    auto started = [&] {
        log += 's';
        EXPECT_EQ(fiber_reschedule(), 0);
        log += 't';
    };
    fiber_t queued = spawn(other);
    fiber_t fiber = create(started);
    EXPECT_EQ(fiber_start(fiber), 0);
    log += 'm';
    EXPECT_EQ(log, "sm"); // the queued one has not had its turn
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(log, "smot");
    join(queued);
    join(fiber);
}

TEST(Start, StarterGoesOnWhenTheStartedFiberEnds) {
    Trace log;
    auto other = [&] { log += 'o'; };
    auto started = [&] { log += 's'; };
    fiber_t queued = spawn(other);
    fiber_t fiber = start(started);
    EXPECT_EQ(log, "s");
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    join(fiber);
    join(queued);
    EXPECT_EQ(log, "so");
}

TEST(Start, StartersOfStartersGoOnInnermostFirst) {
    Trace log;
    auto c = [&] {
        log += 'c';
        EXPECT_EQ(fiber_yield(), 0);
    };
    fiber_t c_fiber{}, b_fiber{};
    auto b = [&] {
        c_fiber = start(c);
        log += 'b';
        EXPECT_EQ(fiber_yield(), 0);
    };
    auto a = [&] {
        b_fiber = start(b);
        log += 'a';
    };
    auto other = [&] { log += 'o'; };
    fiber_t queued = spawn(other);
    fiber_t a_fiber = start(a);
    log += 'm';
    EXPECT_EQ(log, "cbam");
    EXPECT_EQ(fiber_wakeup(b_fiber), 0);
    EXPECT_EQ(fiber_wakeup(c_fiber), 0);
    for (fiber_t fiber : {queued, a_fiber, b_fiber, c_fiber}) join(fiber);
}

TEST(Start, WakeupOfANeverStartedFiberSchedulesItsFirstRun) {
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_RUNNABLE);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(runs, 1);
    join(fiber);
}

TEST(Start, StartingTwiceIsBusyAndRunsOnce) {
    int runs = 0;
    auto body = [&] {
        runs++;
        EXPECT_EQ(fiber_yield(), 0);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_start(fiber), -EBUSY); // parked
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_start(fiber), -EBUSY); // queued
    join(fiber);
    EXPECT_EQ(runs, 1);
}

TEST(Start, StartingAWokenNewFiberIsBusy) {
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = spawn(body);
    EXPECT_EQ(fiber_start(fiber), -EBUSY);
    EXPECT_EQ(runs, 0);
    join(fiber);
    EXPECT_EQ(runs, 1);
}

TEST(Start, StartingOneselfOrTheMainFlowIsBusy) {
    fiber_t main_flow = self();
    EXPECT_EQ(fiber_start(main_flow), -EBUSY);
    run([&] {
        EXPECT_EQ(fiber_start(self()), -EBUSY);
        EXPECT_EQ(fiber_start(main_flow), -EBUSY);
    });
}

TEST(Start, StartingAnEndedFiberIsGone) {
    auto body = [] {};
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_start(fiber), -ESRCH);
    join(fiber);
    EXPECT_EQ(fiber_start(fiber), -ESRCH);
}

TEST(Start, SpawnWithoutHandleIsDetachedAndRuns) {
    static int runs;
    runs = 0;
    uint64_t before = stats().fibers;
    EXPECT_EQ(fiber_spawn(
                  nullptr,
                  [](void *arg) -> void * {
                      runs++;
                      EXPECT_EQ(arg, pointer(7));
                      EXPECT_EQ(info(self()).detached, 1);
                      return nullptr;
                  },
                  pointer(7)),
              0);
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(stats().fibers, before);
}

// ---- order ----------------------------------------------------------------------------------------------------------

TEST(RunQueue, FibersRunInOrderOfTheirWakeups) {
    Trace log;
    fiber_t fibers[3];
    auto body = [&] {
        fiber_t me = self();
        EXPECT_EQ(fiber_yield(), 0);
        for (int i = 0; i < 3; i++)
            if (me.id == fibers[i].id) log += static_cast<char>('0' + i);
    };
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    for (int i : {2, 0, 1}) EXPECT_EQ(fiber_wakeup(fibers[i]), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(log, "201");
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(RunQueue, ThreeReschedulingFibersPrint012ThreeTimes) {
    Trace log;
    int next = 0;
    auto body = [&] {
        char name = static_cast<char>('0' + next++);
        for (int i = 0; i < 3; i++) {
            log += name;
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    fiber_t fibers[3];
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(log, "012012012");
}

TEST(RunQueue, RescheduleGivesEveryRunnableFiberExactlyOneTurn) {
    int turns[5] = {};
    int next = 0;
    bool stop = false;
    auto body = [&] {
        int me = next++;
        while (!stop) {
            turns[me]++;
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    fiber_t fibers[5];
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (int round = 1; round <= 100; round++) {
        EXPECT_EQ(fiber_reschedule(), 0);
        for (int count : turns) EXPECT_EQ(count, round);
    }
    stop = true;
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(RunQueue, AFiberIsQueuedAtMostOnce) {
    int wakes = 0;
    auto body = [&] {
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(fiber_yield(), 0);
            wakes++;
        }
    };
    fiber_t fiber = start(body);
    for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_wakeup(fiber), 0);
    for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(wakes, 1);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(wakes, 2);
}

// A fiber that is queued for its first run leaves the queue when it is cancelled. Whatever position it had and however
// full the queue was, the others keep their places. (A peer loses another fiber's entry when its ring is full.)
TEST(RunQueue, TRAP_RemovingHeadMiddleTailOrOnlyEntryAtEveryFillLosesNoFiber) {
    std::vector<size_t> fills;
    for (size_t n = 1; n <= often<size_t>(34, 5); n++) fills.push_back(n);
    for (size_t power : {64, 128, 256, 512, 1024, 2048}) {
        if (FIBERRT_TEST_TSAN && power > 256) continue; // it would take 20 s, and one thread has nothing to race with
        for (size_t n = power - 2; n <= power + 2; n++) fills.push_back(n);
    }
    if (simulated()) fills.resize(8); // of 62 … 64 at most
    std::vector<intptr_t> ran;
    static std::vector<intptr_t> *log;
    log = &ran;
    for (size_t fill : fills) {
        for (size_t removed : {size_t{0}, fill / 2, fill - 1}) {
            ran.clear();
            std::vector<fiber_t> fibers(fill);
            for (size_t i = 0; i < fill; i++)
                ASSERT_EQ(fiber_spawn(
                              &fibers[i],
                              [](void *arg) -> void * {
                                  log->push_back(reinterpret_cast<intptr_t>(arg));
                                  return arg;
                              },
                              pointer(static_cast<intptr_t>(i))),
                          0);
            ASSERT_EQ(fiber_cancel(fibers[removed], nullptr), 0);
            for (size_t i = 0; i < fill; i++)
                ASSERT_EQ(join(fibers[i]), i == removed ? FIBER_CANCELLED : pointer(static_cast<intptr_t>(i)));
            std::vector<intptr_t> expected;
            for (size_t i = 0; i < fill; i++)
                if (i != removed) expected.push_back(static_cast<intptr_t>(i));
            ASSERT_EQ(ran, expected) << "fill " << fill << ", removed " << removed;
        }
    }
}

// ---- the permit -----------------------------------------------------------------------------------------------------

TEST(Permit, WakeupBeforeYieldIsNotLost) {
    int wakes = 0;
    auto body = [&] {
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(info(self()).permit, 1);
        EXPECT_EQ(fiber_yield(), 0);
        EXPECT_EQ(info(self()).permit, 0);
        wakes++;
    };
    run(body);
    EXPECT_EQ(wakes, 1);
}

TEST(Permit, WakingOneselfThenYieldingGivesTheOthersTheirTurn) {
    Trace log;
    auto other = [&] { log += 'o'; };
    fiber_t first = spawn(other), second = spawn(other);
    EXPECT_EQ(fiber_wakeup(self()), 0);
    EXPECT_EQ(fiber_yield(), 0);
    log += 'm';
    EXPECT_EQ(log, "oom");
    join(first);
    join(second);
}

TEST(Permit, WakeupOfANewFiberIsAbsorbedByItsFirstRun) {
    int permits = -1;
    auto body = [&] { permits = take_permits(); };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(info(fiber).permit, 0);
    join(fiber);
    EXPECT_EQ(permits, 0);
}

TEST(Permit, WakeupOfASpawnedFiberThatHasNotRunIsAbsorbed) {
    int permits = -1;
    auto body = [&] { permits = take_permits(); };
    fiber_t fiber = spawn(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(permits, 0);
}

TEST(Permit, WakeupOfAFiberRunnableBecauseWokenIsAbsorbed) {
    int permits = -1;
    auto body = [&] {
        EXPECT_EQ(fiber_yield(), 0);
        permits = take_permits();
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(permits, 0);
}

TEST(Permit, WakeupOfAFiberThatTakesItsTurnAfterAPermitIsAbsorbed) {
    int permits = -1;
    auto body = [&] {
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(fiber_yield(), 0); // queued, because of the permit
        permits = take_permits();
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_state(fiber), FIBER_RUNNABLE);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), -EBUSY);
    join(fiber);
    EXPECT_EQ(permits, 0);
}

TEST(Permit, WakeupOfAReschedulingFiberIsKept) {
    int permits = -1;
    auto body = [&] {
        EXPECT_EQ(fiber_reschedule(), 0);
        permits = take_permits();
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_state(fiber), FIBER_RUNNABLE);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(info(fiber).permit, 1);
    join(fiber);
    EXPECT_EQ(permits, 1);
}

TEST(Permit, WakeupOfAStarterWaitingInTheQueueIsKept) {
    int permits = -1;
    auto starter = [&] {
        fiber_t me = self();
        auto inner = [&] { EXPECT_EQ(fiber_wakeup(me), 0); };
        fiber_t started = start(inner);
        permits = take_permits();
        join(started);
    };
    run(starter);
    EXPECT_EQ(permits, 1);
}

TEST(Permit, WakeupsOfTheRunningFiberLeaveOnePermit) {
    int permits = -1;
    run([&] {
        for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_wakeup(self()), 0);
        permits = take_permits();
    });
    EXPECT_EQ(permits, 1);
}

TEST(Permit, TRAP_WakeupNeverEndsASleep) {
    bool in_time = false; // if the thread was held up the sleep may have ended by itself: once more
    for (int tries = 0; !in_time && tries < 1000; tries++) {
        int permits = -1;
        int64_t begin = 0, slept = 0;
        auto body = [&] {
            begin = fiber_now();
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(10)), 0);
            slept = fiber_now() - begin;
            permits = take_permits();
        };
        fiber_t fiber = start(body);
        int wakeups[2], states[2];
        for (int i = 0; i < 2; i++) {
            wakeups[i] = fiber_wakeup(fiber);
            states[i] = fiber_state(fiber);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
        int permit = info(fiber).permit;
        in_time = fiber_now() < begin + FIBER_MSEC(10);
        join(fiber);
        EXPECT_GE(slept, FIBER_MSEC(10));
        if (!in_time) continue;
        for (int wakeup : wakeups) EXPECT_EQ(wakeup, 0);
        for (int state : states) EXPECT_EQ(state, FIBER_WAITING);
        EXPECT_EQ(permit, 1);
        EXPECT_EQ(permits, 1);
    }
    EXPECT_TRUE(in_time);
}

TEST(Permit, TRAP_WakeupNeverEndsAnInputOutputWait) {
    NEEDS_IO();
    Pipe pipe;
    int permits = -1;
    int64_t received = -1;
    auto body = [&] {
        char byte = 0;
        received = fiber_read(pipe.read_end, &byte, 1);
        permits = take_permits();
    };
    fiber_t fiber = start(body);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    }
    EXPECT_EQ(info(fiber).permit, 1);
    EXPECT_EQ(write(pipe.write_end, "x", 1), 1);
    join(fiber);
    EXPECT_EQ(received, 1);
    EXPECT_EQ(permits, 1);
}

TEST(Permit, TRAP_WakeupNeverEndsAJoin) {
    int permits = -1;
    bool ended = false;
    auto target = [&] {
        EXPECT_EQ(fiber_yield(), 0);
        ended = true;
        return pointer(5);
    };
    fiber_t target_fiber = start(target);
    auto joiner = [&] {
        EXPECT_EQ(join(target_fiber), pointer(5));
        EXPECT_TRUE(ended);
        permits = take_permits();
    };
    fiber_t fiber = start(joiner);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    }
    EXPECT_EQ(info(fiber).permit, 1);
    EXPECT_EQ(fiber_wakeup(target_fiber), 0);
    join(fiber);
    EXPECT_EQ(permits, 1);
}

TEST(Permit, TRAP_WakeupNeverEndsATransfer) {
    int permits = -1;
    fiber_t main_flow = self();
    void *got = nullptr;
    auto body = [&] {
        EXPECT_EQ(fiber_transfer(main_flow, pointer(1), &got), 0);
        permits = take_permits();
    };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), 0);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    }
    EXPECT_EQ(info(fiber).permit, 1);
    EXPECT_EQ(fiber_transfer(fiber, pointer(2), nullptr), 1);
    EXPECT_EQ(got, pointer(2));
    join(fiber);
    EXPECT_EQ(permits, 1);
}

TEST(Permit, WakeupOfTheMainFlowInAJoinIsKept) {
    fiber_t main_flow = self();
    run([&] {
        EXPECT_EQ(fiber_wakeup(main_flow), 0);
        EXPECT_EQ(fiber_wakeup(main_flow), 0);
    });
    EXPECT_EQ(info(main_flow).permit, 1);
    EXPECT_EQ(take_permits(), 1);
}

TEST(Permit, WakeupOfAFiberQueuedByItsTimeoutIsKept) {
    int result = 1;
    int permits = -1;
    fiber_t yielder{};
    auto first = [&] { // its deadline is the earlier one, so it runs first
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
        EXPECT_EQ(fiber_state(yielder), FIBER_RUNNABLE);
        EXPECT_EQ(fiber_wakeup(yielder), 0);
    };
    auto second = [&] {
        result = fiber_yield_timeout(FIBER_MSEC(21));
        permits = take_permits();
    };
    fiber_t sleeper = start(first);
    yielder = start(second);
    burn(FIBER_MSEC(25)); // both deadlines pass before the next look at the timers
    join(sleeper);
    join(yielder);
    EXPECT_EQ(result, -ETIMEDOUT);
    EXPECT_EQ(permits, 1);
}

TEST(Permit, AYieldThatFailsLeavesThePermit) {
    run([&] {
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        EXPECT_EQ(fiber_yield(), -EPERM);
        EXPECT_EQ(fiber_yield_timeout(0), -EPERM);
        EXPECT_EQ(fiber_noswitch_leave(), 0);
        EXPECT_EQ(fiber_yield_timeout(-1), -EINVAL);
        EXPECT_EQ(fiber_yield_value(nullptr), -EINVAL);
        EXPECT_EQ(fiber_interrupt(self(), nullptr), 0);
        EXPECT_EQ(fiber_yield(), -EINTR);
        EXPECT_EQ(info(self()).permit, 1);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(fiber_sleep(FIBER_SEC(60)), -ETIMEDOUT);
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
        EXPECT_EQ(info(self()).permit, 1);
        EXPECT_EQ(take_permits(), 1);
    });
}

TEST(Permit, ACancelledYieldLeavesThePermit) {
    run([&] {
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_yield(), -ECANCELED);
        EXPECT_EQ(info(self()).permit, 1);
        fiber_scope_t shield{};
        EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        EXPECT_EQ(take_permits(), 1);
        EXPECT_EQ(fiber_scope_close(shield, nullptr), 0);
    });
}

TEST(Permit, ATimedYieldTakesThePermitAndWithoutOneTimesOut) {
    run([&] {
        EXPECT_EQ(fiber_yield_timeout(0), -ETIMEDOUT);
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(fiber_yield_timeout(0), 0);
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(fiber_yield_timeout(FIBER_FOREVER), 0);
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_yield_timeout(FIBER_MSEC(5)), -ETIMEDOUT);
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(5));
    });
}

TEST(Permit, ATimedYieldOfZeroGivesTheOthersOneTurn) {
    int turns = 0;
    auto body = [&] { turns++; };
    fiber_t a = spawn(body), b = spawn(body);
    EXPECT_EQ(fiber_yield_timeout(0), -ETIMEDOUT);
    EXPECT_EQ(turns, 2);
    join(a);
    join(b);
}

TEST(Permit, AWakeupDuringATimedYieldOfZeroIsNotLost) {
    fiber_t main_flow = self();
    auto body = [&] { EXPECT_EQ(fiber_wakeup(main_flow), 0); };
    fiber_t fiber = spawn(body);
    int result = fiber_yield_timeout(0);
    EXPECT_TRUE(result == 0 || result == -ETIMEDOUT) << result;
    EXPECT_EQ(take_permits(), result == 0 ? 0 : 1); // seen by this yield or by the next, exactly once
    join(fiber);
}

TEST(Permit, ATimedYieldEndsWhenWokenInTime) {
    int result = 1;
    auto body = [&] { result = fiber_yield_timeout(FIBER_SEC(3600)); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(result, 0);
}

TEST(Permit, OneMayParkAndBeWokenTenThousandTimes) {
    const int rounds = often(10000, 100);
    int wakes = 0;
    auto body = [&] {
        while (wakes < rounds) {
            EXPECT_EQ(fiber_yield(), 0);
            wakes++;
        }
    };
    fiber_t fiber = start(body);
    for (int i = 0; i < rounds; i++) {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        ASSERT_EQ(wakes, i + 1);
    }
    join(fiber);
}

// ---- values ---------------------------------------------------------------------------------------------------------

TEST(WakeupValue, ReachesTheYieldThatItEnds) {
    void *value = pointer(99);
    auto body = [&] { EXPECT_EQ(fiber_yield_value(&value), 0); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(42)), 0);
    join(fiber);
    EXPECT_EQ(value, pointer(42));
}

TEST(WakeupValue, YieldWokenWithoutAValueGetsNull) {
    void *value = pointer(99);
    auto body = [&] { EXPECT_EQ(fiber_yield_value(&value), 0); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(value, nullptr);
}

TEST(WakeupValue, TRAP_ASecondValueIsBusyAndTheFirstStays) {
    void *value = nullptr;
    int permits = -1;
    auto body = [&] {
        EXPECT_EQ(fiber_yield_value(&value), 0);
        permits = take_permits();
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), 0);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(2)), -EBUSY);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(3)), -EBUSY);
    join(fiber);
    EXPECT_EQ(value, pointer(1));
    EXPECT_EQ(permits, 0);
}

TEST(WakeupValue, TRAP_APlainWakeupDoesNotOverwriteAValueInThePermit) {
    run([&] {
        void *value = nullptr;
        EXPECT_EQ(fiber_wakeup_value(self(), pointer(1)), 0);
        EXPECT_EQ(fiber_wakeup_value(self(), pointer(2)), -EBUSY);
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(fiber_yield_value(&value), 0);
        EXPECT_EQ(value, pointer(1));
        EXPECT_EQ(take_permits(), 0);
    });
}

TEST(WakeupValue, IsBusyAfterAPlainWakeup) {
    void *value = pointer(99);
    auto body = [&] { EXPECT_EQ(fiber_yield_value(&value), 0); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), -EBUSY);
    join(fiber);
    EXPECT_EQ(value, nullptr);
}

TEST(WakeupValue, IsBusyForANewFiberAndForOneWaitingForItsFirstRun) {
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), -EBUSY);
    EXPECT_EQ(fiber_state(fiber), FIBER_NEW);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), -EBUSY);
    join(fiber);
    EXPECT_EQ(runs, 1);
}

TEST(WakeupValue, OfAnEndedFiberIsGone) {
    auto body = [] {};
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), -ESRCH);
    join(fiber);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), -ESRCH);
}

TEST(WakeupValue, WaitsInThePermitOfASleeper) {
    void *value = nullptr;
    auto body = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_yield_timeout(-1), -EINVAL); // a yield that fails leaves it
        EXPECT_EQ(fiber_yield_value(&value), 0);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(7)), 0);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(8)), -EBUSY);
    EXPECT_EQ(info(fiber).permit, 1);
    join(fiber);
    EXPECT_EQ(value, pointer(7));
}

TEST(WakeupValue, WaitsInThePermitOfAReschedulingFiber) {
    void *value = nullptr;
    auto body = [&] {
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_yield_value(&value), 0);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(7)), 0);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(8)), -EBUSY);
    join(fiber);
    EXPECT_EQ(value, pointer(7));
}

TEST(WakeupValue, AYieldThatIgnoresTheValueDropsIt) {
    void *later = pointer(99);
    auto body = [&] {
        EXPECT_EQ(fiber_yield(), 0); // woken with 1
        EXPECT_EQ(fiber_wakeup_value(self(), pointer(2)), 0);
        EXPECT_EQ(fiber_yield_timeout(FIBER_FOREVER), 0); // met in the permit
        EXPECT_EQ(fiber_wakeup(self()), 0);
        EXPECT_EQ(fiber_yield_value(&later), 0);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup_value(fiber, pointer(1)), 0);
    join(fiber);
    EXPECT_EQ(later, nullptr);
}

TEST(WakeupValue, EveryValueOfAHundredArrivesOnce) {
    std::vector<intptr_t> got;
    auto body = [&] {
        for (int i = 0; i < 100; i++) {
            void *value = nullptr;
            EXPECT_EQ(fiber_yield_value(&value), 0);
            got.push_back(reinterpret_cast<intptr_t>(value));
        }
    };
    fiber_t fiber = start(body);
    for (intptr_t sent = 1; sent <= 100;) {
        int result = fiber_wakeup_value(fiber, pointer(sent));
        if (result == 0)
            sent++;
        else
            EXPECT_EQ(fiber_reschedule(), 0) << "after " << result;
    }
    join(fiber);
    ASSERT_EQ(got.size(), 100u);
    for (intptr_t i = 0; i < 100; i++) EXPECT_EQ(got[static_cast<size_t>(i)], i + 1);
}

// A value that rode on a wakeup and one that was transferred are two: neither takes the place of the other.
TEST(WakeupValue, TRAP_SurvivesATransferThatComesBeforeItsYield) {
    fiber_t me = self();
    auto body = [&] {
        EXPECT_EQ(fiber_wakeup_value(me, pointer(0xAA)), 0); // main is in a transfer: a permit
        EXPECT_EQ(fiber_transfer(me, pointer(0xBB), nullptr), 0);
        return pointer(0xEE);
    };
    fiber_t other = create(body);
    void *out = nullptr;
    EXPECT_EQ(fiber_transfer(other, nullptr, &out), 0);
    EXPECT_EQ(out, pointer(0xBB));
    EXPECT_EQ(fiber_transfer(other, nullptr, &out), 1);
    EXPECT_EQ(out, pointer(0xEE));
    EXPECT_EQ(fiber_yield_value(&out), 0);
    EXPECT_EQ(out, pointer(0xAA));
    EXPECT_EQ(join(other), pointer(0xEE));
}

// However a yield ends, the deadline that it had does not end a later one.
TEST(YieldTimeout, LeavesNoDeadlineToTheNextYield) {
    for (int how = 0; how < 2;) {
        SCOPED_TRACE(how);
        int first = 1, second = 1;
        auto body = [&] {
            first = fiber_yield_timeout(FIBER_MSEC(5));
            second = fiber_yield();
        };
        fiber_t fiber = start(body);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(how == 0 ? fiber_wakeup(fiber) : fiber_interrupt(fiber, nullptr), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(10)), 0);
        const bool in_time = first != -ETIMEDOUT; // else the machine was busy
        if (in_time) {
            EXPECT_EQ(first, how == 1 ? -EINTR : 0);
            EXPECT_EQ(second, 1);
        }
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        join(fiber);
        EXPECT_EQ(second, 0);
        how += in_time;
    }
}

TEST(YieldTimeoutZero, TRAP_ACancelOrAnInterruptDuringItsTurnBeatsTheTimeout) {
    fiber_t target{};
    int result = 0;
    auto canceller = [&] { EXPECT_EQ(fiber_cancel(target, nullptr), 0); };
    auto interrupter = [&] { EXPECT_EQ(fiber_interrupt(target, nullptr), 0); };
    auto cancelled = [&] {
        target = self();
        fiber_t other = spawn(canceller);
        result = fiber_yield_timeout(0);
        EXPECT_EQ(fiber_detach(other), 0);
    };
    run(cancelled);
    EXPECT_EQ(result, -ECANCELED);
    auto interrupted = [&] {
        target = self();
        fiber_t other = spawn(interrupter);
        result = fiber_yield_timeout(0);
        join(other);
    };
    run(interrupted);
    EXPECT_EQ(result, -EINTR);
}
