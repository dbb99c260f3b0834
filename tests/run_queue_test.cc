// SPDX-License-Identifier: MIT OR Apache-2.0
// The run queue by itself: order, both ends, every fill level, wrap-around, growth.
#include "core/run_queue.h"

#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <stdlib.h>
#include <string>
#include <vector>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_A_PLANTED_ALLOCATOR 1

namespace {

bool misaligns = false; // aligned_alloc treats the alignment as a hint, as in mimalloc 2.0.9

} // namespace

extern "C" void* __libc_memalign(size_t alignment, size_t size);

extern "C" void* aligned_alloc(size_t alignment, size_t size) noexcept {
    if (!misaligns) return __libc_memalign(alignment, size);
    alignas(4096) static char room[1 << 16];
    char* at = room + 64;
    while ((reinterpret_cast<uintptr_t>(at) & (alignment - 1)) != 64) at += 64;
    return at;
}

extern "C" void __libc_free(void* memory);

extern "C" void free(void* memory) noexcept {
    if (!misaligns) __libc_free(memory); // the planted memory is static
}
#else
#define HAS_A_PLANTED_ALLOCATOR 0
#endif

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

// A ring that is not aligned as its arithmetic needs would lose fibers without a word.
TEST_F(RunQueueTest, AnAllocatorThatDoesNotAlignIsRefusedAndNamed) {
#if HAS_A_PLANTED_ALLOCATOR
    ASSERT_TRUE(queue.reserve(16, &fibers[0]));
    const uint32_t room = queue.capacity();
    for (uint32_t i = 0; i < room; i++) queue.push(&fibers[i]);
    testing::internal::CaptureStderr();
    misaligns = true;
    const bool grown = queue.reserve(room + 1, &fibers[0]);
    const bool again = queue.reserve(room + 1, &fibers[0]);
    misaligns = false;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(grown);
    EXPECT_FALSE(again);
    const size_t at = said.find("fiberrt: the program's aligned_alloc gave memory at 0x");
    EXPECT_NE(at, std::string::npos) << said;
    EXPECT_EQ(said.find("aligned_alloc", at + 40), std::string::npos) << "it is said more than once: " << said;
    EXPECT_EQ(queue.capacity(), room);
    for (uint32_t i = 0; i < room; i++) ASSERT_EQ(queue.pop(), &fibers[i]) << i;
    EXPECT_TRUE(queue.reserve(room + 1, &fibers[0]));
#else
    puts("did not run: the sanitizer has its own allocator");
    GTEST_SKIP() << "the sanitizer has its own allocator";
#endif
}

} // namespace
