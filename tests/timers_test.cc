// SPDX-License-Identifier: MIT OR Apache-2.0
// The timers by themselves, against a sorted list: order, equal deadlines, moving, disarming, removing.
#include "core/timers.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <vector>

using fiberrt::never;
using fiberrt::Timer;
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
    std::mt19937 random(7);
    std::map<Timer*, int64_t> armed;
    std::set<Timer*> removed;
    int64_t now = 0;
    for (int step = 0; step < 300000; step++) {
        Timer* timer = &all[random() % all.size()];
        switch (random() % 8) {
        case 0: case 1: case 2: case 3: {
            int64_t deadline = now + int64_t(random() % 5000);
            timers.set(timer, deadline);
            armed[timer] = deadline;
            break;
        }
        case 4:
            timers.set(timer, never);
            armed.erase(timer);
            break;
        case 5:
            timers.remove(timer);
            armed.erase(timer);
            ASSERT_EQ(timer->position, 0u);
            break;
        default: {
            now += int64_t(random() % 50);
            int64_t last = INT64_MIN;
            while (Timer* fired = timers.expired(now)) {
                ASSERT_TRUE(armed.count(fired));
                ASSERT_LE(armed[fired], now);
                ASSERT_GE(armed[fired], last);
                last = armed[fired];
                armed.erase(fired);
            }
            int64_t least = never;
            for (auto& [t, deadline] : armed) least = std::min(least, deadline);
            ASSERT_EQ(timers.next(), least);
            ASSERT_GT(least, now);
        }
        }
    }
}

TEST_F(TimersTest, TRAP_ArmedAgainForTheSameTimeFiresBehindThoseArmedMeanwhile) {
    timers.set(&all[0], 100);
    timers.set(&all[1], 100);
    timers.set(&all[0], never); // stays in the heap, under its old key
    timers.set(&all[0], 100);
    EXPECT_EQ(timers.expired(100), &all[1]);
    EXPECT_EQ(timers.expired(100), &all[0]);
}

// The heap is ordered by key and sequence: a new sequence under the old key must not hide others of that key.
TEST_F(TimersTest, TRAP_OneThatIsMovedLaterLeavesTheOrderOfTheOthersAlone) {
    for (size_t i = 0; i <= 20; i++) timers.set(&all[i], 10); // a root, its four children, and four each of theirs
    timers.set(&all[1], 20);
    for (size_t i = 0; i <= 20; i++) {
        if (i == 1) continue;
        EXPECT_EQ(timers.expired(10), &all[i]);
    }
    EXPECT_EQ(timers.expired(10), nullptr);
    EXPECT_EQ(timers.expired(20), &all[1]);
}

} // namespace
