// SPDX-License-Identifier: MIT OR Apache-2.0
// The stack pool by itself: classes, guards, reuse, trimming, release.
#include "core/stack_pool.h"
#include "support.h"

#include <algorithm>
#include <errno.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
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

TEST(StackPool, GuardsAreOfThreeSizesAndNeverAsLargeAsTheirStacks) {
    auto guard = [](size_t size, size_t bytes) {
        return StackPool::guard_size(StackPool::class_for(size, StackPool::Guard::require, bytes));
    };
    EXPECT_EQ(guard(262144, 1), size_t{64} << 10);
    EXPECT_EQ(guard(262144, 65536), size_t{64} << 10);
    EXPECT_EQ(guard(262144, 65537), size_t{1} << 20);
    EXPECT_EQ(guard(262144, size_t{1} << 20), size_t{1} << 20);
    EXPECT_EQ(guard(262144, (size_t{1} << 20) + 1), size_t{16} << 20);
    EXPECT_EQ(guard(size_t{1} << 30, StackPool::guard_most), size_t{16} << 20);
    EXPECT_EQ(guard(65536, 65536), size_t{128} << 10);
    EXPECT_EQ(guard(size_t{1} << 20, size_t{1} << 20), size_t{2} << 20);
    EXPECT_EQ(StackPool::guard_size(StackPool::class_for(65536, StackPool::Guard::none, 65537)), 0u);
}

TEST(StackPool, EveryStackHasAGuardRegionAndAnAlignedTop) {
    StackPool pool;
    for (size_t size : {size_t{16384}, size_t{65536}, size_t{262144}, size_t{4} << 20})
        for (size_t guard_bytes : {StackPool::guard_default, size_t{1} << 20}) {
            uint8_t c = StackPool::class_for(size, StackPool::Guard::require, guard_bytes);
            ASSERT_GE(StackPool::guard_size(c), guard_bytes);
            for (int i = 0; i < 300; i++) {
                char* low = pool.take(c);
                ASSERT_NE(low, nullptr);
                for (size_t below = 4096; below <= StackPool::guard_size(c); below += 4096)
                    ASSERT_FALSE(readable(low - below)) << below;
                EXPECT_FALSE(readable(low - 8));
                EXPECT_TRUE(readable(low));
                char* top = StackPool::top(c, low);
                EXPECT_EQ(reinterpret_cast<uintptr_t>(top) % 16, 0u);
                EXPECT_GE(top, low + size - 1024);
                EXPECT_LE(top, low + size);
                memset(top - 1024, 1, 1024);
            }
        }
    EXPECT_EQ(pool.in_use(), 2400u);
    pool.release();
    EXPECT_EQ(pool.in_use(), 0u);
}

TEST(StackPool, TopsOfNeighboursFallOnDifferentCacheSets) {
    StackPool pool;
    for (size_t size : {size_t{16384}, size_t{32768}, size_t{65536}, size_t{262144}}) {
        uint8_t c = StackPool::class_for(size);
        // The distance between stacks is 1.25 times the size of the larger ones: there it takes 64 stacks, in which each
        // offset comes as often as the others.
        const int count = size > 65536 ? 64 : 16;
        std::multiset<size_t> offsets;
        for (int i = 0; i < count; i++) {
            char* low = pool.take(c);
            offsets.insert(size_t(low + size - StackPool::top(c, low)));
        }
        for (size_t offset = 0; offset < 16; offset++)
            EXPECT_EQ(offsets.count(offset * 64), size_t(count / 16)) << size << " " << offset;
    }
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
    EXPECT_FALSE(readable(a - 8));
    EXPECT_FALSE(readable(b - 8));
    pool.release();
}

TEST(StackPool, NoTwoStacksOverlap) {
    StackPool pool;
    std::vector<std::pair<char*, size_t>> taken;
    for (int i = 0; i < 2000; i++) {
        uint8_t c = uint8_t(i % 12); // three sizes, with each guard and without
        char* low = pool.take(c);
        ASSERT_NE(low, nullptr);
        size_t guard = StackPool::guard_size(c);
        taken.push_back({low - guard, guard + StackPool::size_of(c)});
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
    NOT_UNDER_QEMU("ignores limits on address space");
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

// A limit such as `ulimit -v` sets.
TEST(StackPool, LivesInALittleAddressSpace) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    puts("did not run: a sanitizer's own address space is over any limit");
    GTEST_SKIP() << "a sanitizer's own address space is over any limit";
#else
    NOT_UNDER_QEMU("ignores limits on address space");
    constexpr size_t room = size_t{50} << 20;
    std::ifstream file("/proc/self/statm");
    size_t pages = 0;
    file >> pages;
    rlimit old;
    ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
    rlimit low = old;
    low.rlim_cur = pages * size_t(sysconf(_SC_PAGESIZE)) + room;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
    StackPool pool;
    uint8_t c = StackPool::class_for(262144);
    size_t taken = 1;
    EXPECT_NE(pool.take(c), nullptr);
    void* own = mmap(nullptr, room / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(own, MAP_FAILED) << "the first stack left nothing to the program";
    constexpr size_t each = 262144 + 65536; // with its guard
    while (pool.take(c)) ASSERT_LT(++taken, room / each);
    EXPECT_GT(taken, room / 2 / each - 16) << "what there was could not be used";
    ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
    EXPECT_NE(pool.take(c), nullptr);
    munmap(own, room / 2);
    pool.release();
#endif
}

// ---- mappings and huge pages ----------------------------------------------------------------------------------------

size_t lines_of(const char* path) {
    std::ifstream file(path);
    return size_t(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

TEST(StackPool, ManyStacksAreFewMappings) {
    StackPool pool;
    size_t before = lines_of("/proc/self/maps");
    char* low = nullptr;
    for (size_t size : {size_t{16384}, size_t{262144}}) {
        uint8_t c = StackPool::class_for(size);
        for (int i = 0; i < 5000; i++) {
            low = pool.take(c);
            ASSERT_NE(low, nullptr);
            low[size - 1] = 1; // a mapping that is in use must not keep the next from joining it
        }
    }
    size_t more = lines_of("/proc/self/maps") - before;
    if (more >= 10000) { // two for each
        pool.release();
        puts("did not run: the kernel has no light guard pages (MADV_GUARD_INSTALL, Linux 6.13)");
        GTEST_SKIP() << "the kernel has no light guard pages (MADV_GUARD_INSTALL, Linux 6.13)";
    }
    EXPECT_LT(more, 40u);
    pool.release();
    // A sanitizer keeps its own mappings for each stack.
    EXPECT_LE(lines_of("/proc/self/maps"), before + (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN ? 40 : 1));
}

// The kernel's line in /proc/self/smaps about the mapping at an address.
std::string of_mapping(const char* address, const std::string& what) {
    std::ifstream file("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(file, line);) {
        unsigned long from, to;
        if (sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
            here = from <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < to;
        } else if (here && line.starts_with(what)) {
            return line.substr(what.size());
        }
    }
    return "";
}

TEST(StackPool, HasNoHugePages) {
    NOT_UNDER_QEMU("ignores advice about huge pages");
    StackPool pool;
    uint8_t c = StackPool::class_for(262144);
    for (int i = 0; i < 1000; i++) {
        char* low = pool.take(c);
        ASSERT_NE(low, nullptr);
        std::string flags = of_mapping(low + 262144 - 1, "VmFlags:");
        ASSERT_NE((flags + " ").find(" nh "), std::string::npos) << flags;
        if (i == 100) i = 900; // reading takes long
    }
    pool.release();
}

// The setting of the whole system, put back at the end.
struct HugePagesAlways {
    static constexpr const char* path = "/sys/kernel/mm/transparent_hugepage/enabled";
    std::string before;
    bool set = false;

    static std::string setting() {
        std::ifstream file(path);
        std::string text;
        std::getline(file, text);
        size_t open = text.find('['), close = text.find(']');
        return open == std::string::npos ? "" : text.substr(open + 1, close - open - 1);
    }
    static bool write(const std::string& value) {
        std::ofstream file(path);
        return static_cast<bool>(file << value << std::flush);
    }
    HugePagesAlways() : before(setting()) {
        if (!before.empty() && before != "always") set = write("always");
    }
    ~HugePagesAlways() {
        if (set) write(before);
    }
};

TEST(StackPool, TakesNoMoreMemoryWhereHugePagesAreTheRule) {
    NOT_UNDER_QEMU("ignores advice about huge pages");
    HugePagesAlways always;
    if (HugePagesAlways::setting() != "always") {
        printf("did not run: %s is not `always` and cannot be made so\n", HugePagesAlways::path);
        GTEST_SKIP() << HugePagesAlways::path << " is not `always` and cannot be made so";
    }
    // That the setting is obeyed at all: memory of one's own is.
    constexpr size_t size = size_t{8} << 20;
    auto* own = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(own), MAP_FAILED);
    char* inside = own + size / 2;
    *inside = 1;
    bool obeyed = std::stoul(of_mapping(inside, "AnonHugePages:")) > 0;
    munmap(own, size);
    StackPool pool;
    // Without guards: a marker of one keeps the kernel from making its 2 MiB a huge page.
    uint8_t c = StackPool::class_for(262144, StackPool::Guard::none);
    char* low = nullptr;
    for (int i = 0; i < 500; i++) {
        low = pool.take(c);
        ASSERT_NE(low, nullptr);
        low[262144 - 1] = 1;
    }
    EXPECT_EQ(std::stoul(of_mapping(low + 262144 - 1, "AnonHugePages:")), 0u);
    EXPECT_LE(std::stoul(of_mapping(low + 262144 - 1, "Rss:")), 500u * size_t(sysconf(_SC_PAGESIZE)) / 1024);
    pool.release();
    if (!obeyed) puts("note: memory of the test's own got no huge page either, so this has shown little");
}

// ---- trimming -------------------------------------------------------------------------------------------------------

constexpr int64_t second = 1'000'000'000;

// So many stacks, each page of them used, by the order in which they were taken.
struct Trimming : testing::Test {
    static constexpr size_t size = 65536;
    static constexpr size_t kept = (size_t{16} << 20) / size;
    StackPool pool;
    std::vector<char*> taken;
    int64_t now = 1000 * second;

    void TearDown() override { pool.release(); }
    void take(size_t count) {
        uint8_t c = StackPool::class_for(size);
        for (size_t i = 0; i < count; i++) {
            taken.push_back(pool.take(c));
            ASSERT_NE(taken.back(), nullptr);
            memset(taken.back(), 1, size);
        }
    }
    void give_back(size_t count) {
        for (size_t i = 0; i < count; i++) {
            pool.give_back(StackPool::class_for(size), taken.back());
            taken.pop_back();
        }
    }
    // As the scheduler's polls do it, until it is done or so much time has passed.
    void pass(int64_t duration) {
        int64_t end = now + duration;
        for (pool.trim(now); pool.trim_due() <= end; pool.trim(now)) {
            uint64_t before = pool.trimmed();
            now = std::max(now, pool.trim_due());
            pool.trim(now);
            ASSERT_LE(pool.trimmed() - before, StackPool::trim_part); // so many that no fiber notices
        }
        now = end;
    }
    static bool holds_memory(char* low) { return low[size - 1] != 0; }
};

TEST_F(Trimming, ReturnsMemoryThatWasIdleForAPeriod) {
    take(kept + 1000);
    std::vector<char*> all = taken;
    give_back(kept + 1000);
    EXPECT_EQ(pool.trimmed(), 0u);
    pass(second * 9 / 10);
    EXPECT_EQ(pool.trimmed(), 0u);
    pass(second * 2);
    EXPECT_EQ(pool.trimmed(), 1000u);
    // The first to be given back were the last to be taken.
    for (size_t i = 0; i < all.size(); i++) {
        ASSERT_EQ(holds_memory(all[i]), i < kept) << i;
        ASSERT_EQ(all[i][size / 2] != 0, i < kept) << i;
    }
    EXPECT_EQ(pool.trim_due(), INT64_MAX) << "there is no more work, so no thread must wake";
}

TEST_F(Trimming, KeepsLittleIdleMemory) {
    take(kept);
    give_back(kept);
    EXPECT_EQ(pool.trim_due(), INT64_MAX);
    pass(10 * second);
    EXPECT_EQ(pool.trimmed(), 0u);
}

TEST_F(Trimming, KeepsMemoryThatIsUsedNowAndThen) {
    take(2000);
    for (int i = 0; i < 50; i++) {
        give_back(2000);
        pass(second / 5);
        take(2000);
        pass(second / 5);
    }
    EXPECT_EQ(pool.trimmed(), 0u);
    give_back(1500); // and unused stacks go, while 500 fibers live on
    for (int i = 0; i < 20; i++) {
        take(100);
        pass(second / 5);
        give_back(100);
        pass(second / 5);
    }
    EXPECT_GT(pool.trimmed(), 1500 - 100 - 2 * kept);
    EXPECT_LE(pool.trimmed(), 1500 - 100 - kept);
    EXPECT_EQ(pool.in_use(), 500u);
}

TEST_F(Trimming, HappensAgain) {
    for (int i = 0; i < 5; i++) {
        take(1000);
        for (char* low : taken) ASSERT_TRUE(holds_memory(low));
        give_back(1000);
        EXPECT_LT(pool.trimmed(), 1000 - kept);
        pass(3 * second);
        EXPECT_EQ(pool.trimmed(), 1000 - kept);
        EXPECT_EQ(pool.trim_due(), INT64_MAX);
    }
    EXPECT_EQ(pool.made(), 1000u);
}

// The thread may be polling on the stack of a fiber that has ended: the one that was given back last.
TEST(StackPool, NeverTrimsTheStackThatWasGivenBackLast) {
    for (size_t size : {size_t{16384}, size_t{262144}, size_t{8} << 20, size_t{64} << 20, size_t{1} << 30}) {
        if (FIBERRT_TEST_ASAN && size > size_t{64} << 20) continue; // it would write an eighth of all that
        StackPool pool;
        uint8_t c = StackPool::class_for(size);
        std::vector<char*> taken;
        for (int i = 0; i < (size > 65536 ? 100 : 2000); i++) {
            char* low = pool.take(c);
            ASSERT_NE(low, nullptr);
            low[size - 1] = 1;
            taken.push_back(low);
        }
        for (char* low : taken) pool.give_back(c, low);
        for (int64_t now = 0; now < 100 * second; now += second / 10) pool.trim(now);
        EXPECT_GT(pool.trimmed(), 0u) << size;
        EXPECT_EQ(taken.front()[size - 1], 0) << size;
        EXPECT_EQ(taken.back()[size - 1], 1) << size;
        pool.release();
    }
}

} // namespace
