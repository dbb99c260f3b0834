// SPDX-License-Identifier: MIT OR Apache-2.0
// The run queue by itself: order, both ends, every fill level, wrap-around, growth.
#include "core/run_queue.h"

#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using fiberrt::Fiber;
using fiberrt::RunQueue;

namespace {

class RunQueueTest : public testing::Test {
protected:
    RunQueueTest() : fibers(4096) {}
    ~RunQueueTest() override { queue.release(); }

    std::vector<Fiber> fibers;
    RunQueue queue;
};

TEST_F(RunQueueTest, IsEmptyAtFirst) {
    ASSERT_TRUE(queue.reserve(1, &fibers[0]));
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.pop(), nullptr);
    EXPECT_EQ(queue.front(), nullptr);
}

TEST_F(RunQueueTest, TheOnlyEntryCanBeTakenAtEveryPositionOfTheRing) {
    ASSERT_TRUE(queue.reserve(16, &fibers[0]));
    for (int i = 0; i < 100; i++) {
        queue.push(&fibers[i]);
        EXPECT_EQ(queue.front(), &fibers[i]);
        EXPECT_EQ(queue.pop(), &fibers[i]);
        EXPECT_TRUE(queue.empty());
    }
}

// A ring that is exactly full is where head and tail meet: no entry may be lost or doubled there.
TEST_F(RunQueueTest, HeadAndTailAreRightAtEveryFillLevelAndEveryPosition) {
    for (uint32_t offset = 0; offset < 16; offset++) {
        for (uint32_t fill = 1; fill <= 16; fill++) {
            RunQueue ring;
            ASSERT_TRUE(ring.reserve(16, &fibers[0]));
            for (uint32_t i = 0; i < offset; i++) {
                ring.push(&fibers[0]);
                ring.pop();
            }
            for (uint32_t i = 0; i < fill; i++) ring.push(&fibers[i]);
            EXPECT_EQ(ring.size(), fill);
            for (uint32_t i = 0; i < fill; i++) EXPECT_EQ(ring.pop(), &fibers[i]);
            EXPECT_TRUE(ring.empty());
            for (uint32_t i = 0; i < fill; i++) ring.push_front(&fibers[i]);
            for (uint32_t i = fill; i-- > 0;) EXPECT_EQ(ring.pop(), &fibers[i]);
            ring.release();
        }
    }
}

TEST_F(RunQueueTest, GrowingKeepsTheOrderAtEveryFillLevelAndEveryPosition) {
    for (uint32_t offset = 0; offset < 16; offset++) {
        for (uint32_t fill = 0; fill <= 16; fill++) {
            RunQueue ring;
            ASSERT_TRUE(ring.reserve(16, &fibers[0]));
            for (uint32_t i = 0; i < offset; i++) {
                ring.push(&fibers[0]);
                ring.pop();
            }
            for (uint32_t i = 0; i < fill; i++) ring.push(&fibers[i]);
            ASSERT_TRUE(ring.reserve(17, &fibers[0]));
            ring.push(&fibers[fill]);
            for (uint32_t i = 0; i <= fill; i++) EXPECT_EQ(ring.pop(), &fibers[i]);
            EXPECT_TRUE(ring.empty());
            ring.release();
        }
    }
}

TEST_F(RunQueueTest, AgreesWithADequeOverRandomOperations) {
    std::mt19937 random(1);
    std::deque<Fiber*> model;
    uint32_t reserved = 1;
    ASSERT_TRUE(queue.reserve(reserved, &fibers[0]));
    for (int step = 0; step < 200000; step++) {
        Fiber* fiber = &fibers[random() % fibers.size()];
        switch (random() % 4) {
        case 0:
        case 1:
            if (model.size() == reserved) {
                if (reserved == fibers.size()) break;
                ASSERT_TRUE(queue.reserve(++reserved, &fibers[0]));
            }
            queue.push(fiber);
            model.push_back(fiber);
            break;
        case 2:
            if (model.size() == reserved) break;
            queue.push_front(fiber);
            model.push_front(fiber);
            break;
        case 3:
            ASSERT_EQ(queue.front(), model.empty() ? nullptr : model.front());
            Fiber* taken = queue.pop();
            ASSERT_EQ(taken, model.empty() ? nullptr : model.front());
            if (taken) model.pop_front();
            queue.prefetch();
            break;
        }
        ASSERT_EQ(queue.size(), model.size());
    }
}

} // namespace
