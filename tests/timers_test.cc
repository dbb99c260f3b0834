// SPDX-License-Identifier: MIT OR Apache-2.0
// The timers by themselves, against a sorted list: order, equal deadlines, moving, disarming, removing. And when to
// wake for them.
#include "core/timer_coalescing.h"
#include "core/timers.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

using fiberrt::never;
using fiberrt::Timer;
using fiberrt::TimerCoalescing;
using fiberrt::Timers;

namespace {

class TimersTest : public testing::Test {
protected:
    TimersTest() : all(1000) {
        for (Timer& t : all) t.init();
        EXPECT_TRUE(timers.reserve(uint32_t(all.size())));
    }
    ~TimersTest() override { timers.release(); }

    std::vector<Timer> all;
    Timers timers;
};

TEST_F(TimersTest, NothingIsDueAtFirst) {
    EXPECT_EQ(timers.next(), never);
    EXPECT_EQ(timers.expired(never - 1), nullptr);
}

TEST_F(TimersTest, FireAtTheirDeadlineAndNotBefore) {
    timers.set(&all[0], 100);
    EXPECT_EQ(timers.next(), 100);
    EXPECT_EQ(timers.expired(99), nullptr);
    EXPECT_EQ(timers.expired(100), &all[0]);
    EXPECT_EQ(all[0].deadline, never);
    EXPECT_EQ(timers.expired(100), nullptr);
    EXPECT_EQ(timers.next(), never);
}

// Where many lie together next() may name a time before the earliest; a clock that goes there must find it nearer then.
TEST_F(TimersTest, AClockThatStepsToEachDeadlineReachesThemAll) {
    int64_t now = 1'000'000'002'000;
    timers.set(&all[0], now);
    EXPECT_EQ(timers.expired(now), &all[0]);
    for (size_t i = 0; i < all.size(); i++) timers.set(&all[i], now + 10'000'000 + int64_t(i));
    size_t fired = 0;
    for (int looks = 0; fired < all.size() && looks < 10000; looks++) {
        now = std::max(now, timers.next());
        while (timers.expired(now)) fired++;
    }
    EXPECT_EQ(fired, all.size());
}

TEST_F(TimersTest, EqualDeadlinesFireInTheOrderOfArming) {
    for (size_t i = 0; i < all.size(); i++) timers.set(&all[(i * 7) % all.size()], 5);
    for (size_t i = 0; i < all.size(); i++) EXPECT_EQ(timers.expired(5), &all[(i * 7) % all.size()]);
}

TEST_F(TimersTest, PushedBackAHundredTimesNeverFiresEarly) {
    timers.set(&all[1], 1000);
    for (int i = 1; i <= 100; i++) {
        timers.set(&all[0], i * 10);
        EXPECT_EQ(timers.expired(i * 10 - 1), nullptr);
    }
    EXPECT_EQ(timers.next(), 1000);
    EXPECT_EQ(timers.expired(1000), &all[1]); // armed before the last arming of the other
    EXPECT_EQ(timers.expired(1000), &all[0]);
}

TEST_F(TimersTest, ADisarmedOneDoesNotFireAndDoesNotWakeTheThread) {
    timers.set(&all[0], 10);
    timers.set(&all[1], 20);
    timers.set(&all[0], never);
    EXPECT_EQ(timers.next(), 20);
    timers.set(&all[1], never);
    EXPECT_EQ(timers.next(), never);
}

TEST_F(TimersTest, AgreeWithASortedListOverRandomOperations) {
    std::mt19937_64 random(7);
    std::set<std::tuple<int64_t, int, Timer*>> armed; // deadline, the how manieth arming, timer
    std::map<Timer*, std::tuple<int64_t, int, Timer*>> entry;
    auto forget = [&](Timer* timer) {
        armed.erase(entry[timer]);
        entry.erase(timer);
    };
    int64_t now = 0;
    for (int step = 0; step < 300000; step++) {
        Timer* timer = &all[random() % all.size()];
        switch (random() % 8) {
        case 0:
        case 1:
        case 2:
        case 3: {
            int64_t deadline = now + int64_t(random() % (uint64_t(1) << random() % 36)); // nanoseconds to a minute
            timers.set(timer, deadline);
            forget(timer);
            entry[timer] = {deadline, step, timer};
            armed.insert(entry[timer]);
            break;
        }
        case 4:
            timers.set(timer, never);
            forget(timer);
            break;
        case 5:
            timers.remove(timer);
            forget(timer);
            ASSERT_EQ(timer->position, 0u);
            break;
        case 6:
            now += int64_t(random() % (uint64_t(1) << random() % 30));
            while (Timer* fired = timers.expired(now)) {
                ASSERT_FALSE(armed.empty());
                ASSERT_EQ(fired, std::get<2>(*armed.begin()));
                ASSERT_LE(std::get<0>(*armed.begin()), now);
                forget(fired);
            }
            break;
        default: { // as an idle cord with only timers does: it sleeps until next(), which may be too early
            int64_t least = armed.empty() ? never : std::get<0>(*armed.begin());
            int wakes = 0;
            for (int64_t next; now < least && (next = timers.next()) != never; now = next) {
                ASSERT_GE(next, now);
                ASSERT_LE(next, least);
                ASSERT_LT(wakes++, 10);
                if (next < least) {
                    ASSERT_EQ(timers.expired(next), nullptr);
                }
            }
        }
        }
    }
}

TEST_F(TimersTest, StayArmedWhenThereAreMoreOfThem) {
    for (size_t i = 0; i < all.size(); i++) timers.set(&all[i], 10 + int64_t(i) * 100'000);
    ASSERT_TRUE(timers.reserve(5000));
    EXPECT_GE(timers.capacity(), 5000u);
    std::vector<Timer> more(4000);
    for (size_t i = 0; i < more.size(); i++) {
        more[i].init();
        timers.set(&more[i], 5 + int64_t(i) * 25'000);
    }
    for (size_t i = 0; i < more.size(); i++) {
        EXPECT_EQ(timers.expired(never - 1), &more[i]);
        if (i % 4 == 0) {
            EXPECT_EQ(timers.expired(never - 1), &all[i / 4]);
        }
    }
    EXPECT_EQ(timers.next(), never);
}

TEST_F(TimersTest, FewAreTimedExactlyHoweverFarAway) {
    for (int bits = 0; bits < 62; bits++) {
        for (int i = 0; i < 10; i++) timers.set(&all[size_t(i)], (int64_t(1) << bits) + i * 7);
        EXPECT_EQ(timers.next(), int64_t(1) << bits);
    }
}

// Else a cord that has waited for something far away would find the new deadline only then.
TEST_F(TimersTest, ANewEarliestOneIsTheNext) {
    for (int64_t deadline = int64_t(1) << 40; deadline > 1000; deadline -= deadline / 3) {
        timers.set(&all[size_t(deadline % 1000)], deadline);
        EXPECT_EQ(timers.next(), deadline);
    }
}

// Far away two such times are in one slot, and the one that moved comes last in it.
TEST_F(TimersTest, TRAP_ATimerThatMovedALittleIsStillTheEarliest) {
    constexpr int64_t FAR = int64_t(3) << 40;
    for (int i = 0; i < 8; i++) timers.set(&all[size_t(i)], FAR + 10'000 + i);
    timers.set(&all[8], FAR); // in the same list of the slot as the first
    timers.set(&all[8], FAR + 100);
    EXPECT_EQ(timers.next(), FAR + 100);
}

// Slots of different lengths that begin at one time: the longer one must not be passed over for the shorter.
TEST_F(TimersTest, TRAP_ATimerWithALongerSlotIsNotOvertaken) {
    for (int bits = 8; bits < 40; bits++) {
        int64_t begin = int64_t(3) << bits;
        timers.set(&all[0], begin - 1); // the last moment of the previous slot, whatever its length
        timers.set(&all[1], begin + 1);
        EXPECT_EQ(timers.expired(begin - 1), &all[0]);
        timers.set(&all[2], begin + 300);
        EXPECT_EQ(timers.expired(begin + 300), &all[1]);
        EXPECT_EQ(timers.expired(begin + 300), &all[2]);
    }
}

TEST_F(TimersTest, TRAP_ATimerArmedAgainForTheSameTimeFiresAfterTimersArmedMeanwhile) {
    timers.set(&all[0], 100);
    timers.set(&all[1], 100);
    timers.set(&all[0], never); // stays in the heap, under its old key
    timers.set(&all[0], 100);
    EXPECT_EQ(timers.expired(100), &all[1]);
    EXPECT_EQ(timers.expired(100), &all[0]);
}

// A new sequence under the old key must not change its place among others of that key.
TEST_F(TimersTest, TRAP_ATimerThatIsMovedLaterKeepsTheOrderOfTheOthers) {
    for (size_t i = 0; i <= 20; i++) timers.set(&all[i], 10);
    timers.set(&all[1], 20);
    for (size_t i = 0; i <= 20; i++) {
        if (i == 1) continue;
        EXPECT_EQ(timers.expired(10), &all[i]);
    }
    EXPECT_EQ(timers.expired(10), nullptr);
    EXPECT_EQ(timers.expired(20), &all[1]);
}

constexpr int64_t MS = 1'000'000;
constexpr int64_t START = 5'000'000'123; // as if the machine had been on for five seconds

TEST(TimerCoalescing, ALoneTimerIsNotDelayed) {
    TimerCoalescing coalescing;
    for (int64_t at = START; at < START + 1000 * MS; at += MS + 1) {
        EXPECT_EQ(coalescing.wake_at(at), at);
        coalescing.note_wake(at);
    }
    EXPECT_EQ(coalescing.wake_at(never), never);
}

TEST(TimerCoalescing, ATimerSoonAfterAWakeMayBeAMillisecondLate) {
    TimerCoalescing coalescing;
    coalescing.note_wake(START);
    EXPECT_EQ(coalescing.wake_at(START + 1), START + MS);
    EXPECT_EQ(coalescing.wake_at(START + MS), START + MS);
    EXPECT_EQ(coalescing.wake_at(START + MS + 1), START + MS + 1);
    EXPECT_EQ(coalescing.wake_at(START - 1), START + MS); // one that should have been noticed before
}

TEST(TimerCoalescing, NoTimerWaitsLongerThanItsShare) {
    std::mt19937_64 random(3);
    TimerCoalescing coalescing;
    struct Promise {
        int64_t deadline, latest;
    };
    std::vector<Promise> armed;
    int64_t now = START;
    int64_t wakes = 0;
    int64_t fired = 0;
    while (fired < 20000) {
        for (int i = 0; i < 10; i++) {
            int64_t duration = int64_t(random() % (uint64_t(1) << (random() % 12 + 15))); // 33 us to 67 ms
            coalescing.note_deadline(now + duration, duration);
            armed.push_back(
                {now + duration,
                 now + duration + std::min(duration / TimerCoalescing::fraction, TimerCoalescing::most_delay_ns)});
            now += 100;
        }
        int64_t next = never;
        for (const Promise& p : armed) next = std::min(next, p.deadline);
        int64_t wake = std::max(now, coalescing.wake_at(next));
        ASSERT_GE(wake, next);
        for (const Promise& p : armed) {
            if (p.deadline <= wake) {
                ASSERT_LE(wake, std::max(now, p.latest)) << p.deadline - START;
                fired++;
            }
        }
        now = std::max(now, wake);
        coalescing.note_wake(now);
        wakes++;
        armed.erase(std::remove_if(armed.begin(), armed.end(), [&](const Promise& p) { return p.deadline <= wake; }),
                    armed.end());
    }
    RecordProperty("wakes", std::to_string(wakes));
}

} // namespace
