// SPDX-License-Identifier: MIT OR Apache-2.0
// The stack pool by itself: classes, guards, reuse, release.
#include "core/stack_pool.h"

#include <algorithm>
#include <errno.h>
#include <gtest/gtest.h>
#include <set>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

using fiberrt::StackPool;

namespace {

bool readable(const char* address) {
    // Blocks no signal if the page is there and zero; the page below a stack never holds anything else.
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, address, nullptr, 8) == 0 || errno != EFAULT;
}

TEST(StackPool, ClassesRoundUpToPowersOfTwo) {
    EXPECT_EQ(StackPool::size_of(StackPool::class_for(1)), size_t{16384});
    EXPECT_EQ(StackPool::size_of(StackPool::class_for(16384)), size_t{16384});
    EXPECT_EQ(StackPool::size_of(StackPool::class_for(16385)), size_t{32768});
    EXPECT_EQ(StackPool::size_of(StackPool::class_for(262144)), size_t{262144});
    EXPECT_EQ(StackPool::size_of(StackPool::class_for(size_t{1} << 30)), size_t{1} << 30);
}

TEST(StackPool, EveryStackHasAGuardPageAndAnAlignedTop) {
    StackPool pool;
    for (size_t size : {size_t{16384}, size_t{262144}, size_t{4} << 20}) {
        uint8_t c = StackPool::class_for(size);
        for (int i = 0; i < 300; i++) {
            char* low = pool.take(c);
            ASSERT_NE(low, nullptr);
            EXPECT_FALSE(readable(low));
            EXPECT_FALSE(readable(low + StackPool::guard_size(c) - 8));
            EXPECT_TRUE(readable(low + StackPool::guard_size(c)));
            char* top = StackPool::top(c, low);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(top) % 16, 0u);
            EXPECT_GE(top, low + size - 1024);
            EXPECT_LE(top, low + size);
            memset(top - 1024, 1, 1024);
        }
    }
    EXPECT_EQ(pool.in_use(), 900u);
    pool.release();
    EXPECT_EQ(pool.in_use(), 0u);
}

TEST(StackPool, TopsOfNeighboursFallOnDifferentCacheSets) {
    StackPool pool;
    uint8_t c = StackPool::class_for(32768);
    std::set<size_t> offsets;
    for (int i = 0; i < 16; i++) {
        char* low = pool.take(c);
        offsets.insert(size_t(low + 32768 - StackPool::top(c, low)));
    }
    EXPECT_EQ(offsets.size(), 16u);
    pool.release();
}

TEST(StackPool, ReusesTheStackThatWasLeftLast) {
    StackPool pool;
    uint8_t c = StackPool::class_for(65536);
    char* a = pool.take(c);
    char* b = pool.take(c);
    pool.give_back(c, a);
    pool.give_back(c, b);
    EXPECT_EQ(pool.free(), 2u);
    EXPECT_EQ(pool.take(c), b);
    EXPECT_EQ(pool.take(c), a);
    EXPECT_EQ(pool.free(), 0u);
    EXPECT_FALSE(readable(a));
    EXPECT_FALSE(readable(b));
    pool.release();
}

TEST(StackPool, NoTwoStacksOverlap) {
    StackPool pool;
    std::vector<std::pair<char*, size_t>> taken;
    for (int i = 0; i < 2000; i++) {
        uint8_t c = uint8_t(i % 6);
        char* low = pool.take(c);
        ASSERT_NE(low, nullptr);
        taken.push_back({low, StackPool::size_of(c)});
    }
    std::sort(taken.begin(), taken.end());
    for (size_t i = 1; i < taken.size(); i++) EXPECT_LE(taken[i - 1].first + taken[i - 1].second, taken[i].first);
    pool.release();
}

TEST(StackPool, RefusesWhenThereIsNoAddressSpaceAndGoesOnAfterwards) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    puts("did not run: a sanitizer's own address space is over any limit");
    GTEST_SKIP() << "a sanitizer's own address space is over any limit";
#else
    StackPool pool;
    uint8_t c = StackPool::class_for(size_t{1} << 30);
    rlimit old;
    ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
    rlimit low = old;
    low.rlim_cur = rlim_t{3} << 30;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
    std::vector<char*> taken;
    while (char* stack = pool.take(c)) {
        taken.push_back(stack);
        ASSERT_LT(taken.size(), 4u);
    }
    ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
    EXPECT_GE(taken.size(), 1u);
    pool.give_back(c, taken.back());
    EXPECT_EQ(pool.take(c), taken.back());
    pool.release();
#endif
}

} // namespace
