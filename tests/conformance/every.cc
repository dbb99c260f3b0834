// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_every: ticks that lie on a grid, whatever happens between them.
#include "conformance.h"

using namespace support;

namespace {

constexpr int64_t PERIOD = FIBER_MSEC(2);

// Waits for the next tick, which lies on the grid, and has come. Returns how many were left out.
int64_t next(int64_t &tick, int64_t period = PERIOD) {
    const int64_t last = tick;
    const int64_t missed = fiber_every(&tick, period);
    EXPECT_GE(missed, 0);
    EXPECT_EQ(tick, last + (missed + 1) * period);
    EXPECT_GE(fiber_now(), tick);
    return missed;
}

// In a simulation time passes only in the work between two ticks: a call that comes in time leaves no tick out.
int64_t next_in_time(int64_t &tick, int64_t period = PERIOD) {
    const int64_t missed = next(tick, period);
    if (simulated()) {
        EXPECT_EQ(missed, 0);
        EXPECT_LE(fiber_now() - tick, FIBER_USEC(10)); // time for some reads of the clock
    }
    return missed;
}

TEST(Every, TRAP_DoesNotDriftHoweverLongTheWorkTakes) {
    run([] {
        const int64_t begin = fiber_now();
        int64_t tick = begin, missed = 0;
        const int ticks = often(50, 10);
        for (int i = 0; i < ticks; i++) {
            missed += next_in_time(tick);
            burn(PERIOD / 4);
        }
        EXPECT_EQ(tick, begin + (ticks + missed) * PERIOD);
    });
}

TEST(Every, TRAP_ALateCallReturnsTheMissedTicksAndNoBurstFollows) {
    run([] {
        int64_t tick = fiber_now();
        for (int i = 0; i < 3; i++) {
            burn(3 * PERIOD + PERIOD / 2); // from a tick on, or a little later
            const int64_t missed = next(tick);
            EXPECT_GE(missed, 3);
            if (simulated()) {
                EXPECT_EQ(missed, 3);
            }
            next_in_time(tick); // the one that follows, a period later
        }
    });
}

TEST(Every, ATickThatIsJustDueIsNotMissed) {
    run([] {
        int64_t tick = fiber_now() - 3 * PERIOD; // in a simulation time stands still until the call
        const int64_t due = tick + 3 * PERIOD;
        const int64_t missed = next(tick);
        if (simulated()) {
            EXPECT_EQ(missed, 2);
            EXPECT_EQ(tick, due);
        } else {
            EXPECT_GE(missed, 2);
        }
        tick = fiber_now() - 3 * PERIOD - 1;
        EXPECT_GE(next(tick), 3);
    });
}

TEST(Every, BeginsAtTheFirstCallOrAtAGivenTime) {
    run([] {
        const int64_t begin = fiber_now();
        int64_t tick = 0;
        EXPECT_EQ(fiber_every(&tick, PERIOD), 0);
        EXPECT_GE(tick, begin + PERIOD);
        EXPECT_LE(tick, fiber_now());
        tick = fiber_now() + 2 * PERIOD; // in the future
        next_in_time(tick);
        next_in_time(tick, PERIOD / 2); // another period, from this tick on
    });
}

TEST(Every, AnInterruptedTickIsNotLost) {
    constexpr int64_t LONG = FIBER_MSEC(40);
    int64_t begun = 0, tick = 0;
    auto body = [&] {
        begun = tick = fiber_now();
        EXPECT_EQ(fiber_every(&tick, FIBER_SEC(3600)), -EINTR);
        EXPECT_EQ(tick, begun);
        next_in_time(tick, LONG); // from the same time on
        const int64_t last = tick;
        EXPECT_EQ(fiber_interrupt(self(), nullptr), 0);
        EXPECT_EQ(fiber_every(&tick, LONG), -EINTR); // refused
        EXPECT_EQ(tick, last);
        next_in_time(tick, LONG);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    join(fiber);
}

TEST(Every, AScopesDeadlineEndsAWaitAndTheTickStays) {
    run([] {
        const int64_t begun = fiber_now();
        int64_t tick = begun;
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(fiber_every(&tick, FIBER_SEC(3600)), -ETIMEDOUT);
        EXPECT_EQ(tick, begun);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
        next_in_time(tick, FIBER_MSEC(40));
    });
}

TEST(Every, ACancelEndsAWaitAndRefusesTheNext) {
    int64_t tick = 0;
    auto body = [&] {
        const int64_t begun = fiber_now();
        EXPECT_EQ(fiber_every(&tick, FIBER_SEC(3600)), -ECANCELED);
        EXPECT_GE(tick, begun); // it has begun
        tick = 0;
        EXPECT_EQ(fiber_every(&tick, FIBER_SEC(3600)), -ECANCELED);
        EXPECT_EQ(tick, 0); // it has not
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
}

TEST(Every, NoWakeupEndsIt) {
    int64_t missed = -1;
    auto body = [&] {
        int64_t tick = fiber_now();
        missed = next_in_time(tick);
        EXPECT_EQ(take_permits(), 1);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_GE(missed, 0);
}

TEST(Every, AFiberThatIsAlwaysLateGivesOthersTheirTurns) {
    constexpr int ROUNDS = 20;
    int turns = 0;
    bool stop = false;
    auto other = [&] {
        while (!stop) {
            EXPECT_EQ(fiber_reschedule(), 0);
            turns++;
        }
    };
    fiber_t fiber = spawn(other);
    int64_t tick = fiber_now();
    for (int i = 0; i < ROUNDS; i++) {
        next(tick, 1);
        EXPECT_GE(turns, i);
    }
    stop = true;
    join(fiber);
}

TEST(Every, MisuseIsAnErrorAndChangesNothing) {
    EXPECT_EQ(fiber_every(nullptr, PERIOD), -EINVAL);
    int64_t tick = 0;
    for (int64_t period : {int64_t{0}, int64_t{-1}, INT64_MIN}) EXPECT_EQ(fiber_every(&tick, period), -EINVAL);
    EXPECT_EQ(tick, 0);
    for (int64_t negative : {int64_t{-1}, INT64_MIN}) {
        tick = negative;
        EXPECT_EQ(fiber_every(&tick, PERIOD), -EINVAL);
        EXPECT_EQ(tick, negative);
    }
}

TEST(Every, AtTheEndsOfTime) {
    struct {
        int64_t tick, period;
    } const never_due[] = {{0, FIBER_FOREVER}, {1, FIBER_FOREVER - 1},         {FIBER_FOREVER - 1, 1},
                           {FIBER_FOREVER, 1}, {FIBER_FOREVER, FIBER_FOREVER}, {FIBER_FOREVER - PERIOD + 1, PERIOD}};
    for (const auto &it : never_due) {
        int64_t tick = it.tick;
        auto body = [&] { return pointer(fiber_every(&tick, it.period)); };
        fiber_t fiber = start(body);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
        EXPECT_EQ(join(fiber), pointer(-EINTR)) << it.tick << ' ' << it.period;
        if (it.tick != 0) {
            EXPECT_EQ(tick, it.tick);
        }
    }
    int64_t tick = 1; // long ago, ticks without number
    EXPECT_GT(next(tick, 1), FIBER_MSEC(1));
    tick = 1;
    const int64_t far = fiber_now() / 2 + FIBER_MSEC(1); // the second from now on is not over
    EXPECT_GE(next(tick, far), 1);
}

} // namespace
