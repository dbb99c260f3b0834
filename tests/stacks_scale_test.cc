// SPDX-License-Identifier: MIT OR Apache-2.0
// Very many parked fibers, each on a guarded stack: what one costs in memory, page tables included, and how many
// mappings all of them take. FIBERRT_TEST_FIBERS says how many instead of 200,000 (a million needs 5 GB).
#include "support.h"

#include <cstdlib>
#include <setjmp.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace support;

namespace {

size_t fibers_wanted() {
    const char *number = getenv("FIBERRT_TEST_FIBERS");
    return number ? strtoul(number, nullptr, 10) : 200000;
}

// The number after a word at the start of a line of a file of /proc; -1 if there is none.
int64_t number_in(const char *path, const std::string &word) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(word)) return std::stoll(line.substr(word.size()));
    return -1;
}

int64_t resident_and_tables() {
    return (number_in("/proc/self/status", "VmRSS:") + number_in("/proc/self/status", "VmPTE:")) * 1024;
}

int64_t most_mappings() {
    std::ifstream file("/proc/sys/vm/max_map_count");
    int64_t number = 65530;
    file >> number;
    return number;
}

sigjmp_buf fault;

// Whether writing there raises SIGSEGV. The only question that counts of a guard page.
bool faults(uint64_t address) {
    struct sigaction act {};
    act.sa_handler = [](int) { siglongjmp(fault, 1); };
    struct sigaction before;
    sigaction(SIGSEGV, &act, &before);
    bool faulted = sigsetjmp(fault, 1) != 0;
    if (!faulted) *reinterpret_cast<volatile char *>(address) = 1;
    sigaction(SIGSEGV, &before, nullptr);
    return faulted;
}

struct Parked {
    std::vector<fiber_t> fibers;
    int refused = 0;

    explicit Parked(size_t count) : fibers(count) {
        fibers.clear();
    } // touched: not to be counted as the fibers' memory

    // Starts so many fibers that park at once; stops at the first that is refused.
    void begin(size_t count, size_t stack_size) {
        fiber_attr_t *attr = nullptr;
        EXPECT_EQ(fiber_attr_create(&attr), 0);
        EXPECT_EQ(fiber_attr_set_stack_size(attr, stack_size), 0);
        while (fibers.size() < count && !refused) {
            fiber_t fiber{};
            auto park = [](void *) -> void * { return pointer(fiber_yield()); };
            EXPECT_EQ(fiber_new(&fiber, attr, park, nullptr), 0);
            refused = fiber_start(fiber);
            if (refused) {
                EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
                EXPECT_EQ(fiber_join(fiber, nullptr), 0);
            } else {
                fibers.push_back(fiber);
            }
        }
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    }
    void end() {
        for (fiber_t fiber : fibers) EXPECT_EQ(fiber_wakeup(fiber), 0);
        for (fiber_t fiber : fibers) EXPECT_EQ(fiber_join(fiber, nullptr), 0);
        fibers.clear();
    }
};

void measure(size_t stack_size, int64_t most_bytes) {
    const size_t count = fibers_wanted();
    const int64_t needed_kib = static_cast<int64_t>(count) * 5;
    if (number_in("/proc/meminfo", "MemAvailable:") < needed_kib + needed_kib / 2) {
        GTEST_SKIP() << "this needs " << needed_kib / 1024 << " MiB of memory, and half as much again to spare";
    }
    auto nothing = [] {};
    run(nothing); // the cord is open, and the first stack made
    Parked parked(count);
    const int64_t mappings = mapping_count();
    const int64_t memory = resident_and_tables();
    parked.begin(count, stack_size);
    if (parked.refused) { // no light guard pages here: each takes two mappings, and not all can be admitted
        printf("%zu of %zu fibers were admitted: the kernel has no light guard pages\n", parked.fibers.size(), count);
        EXPECT_EQ(parked.refused, -EAGAIN);
        EXPECT_GT(static_cast<int64_t>(parked.fibers.size()), most_mappings() / 2 - most_mappings() / 16 - 1000);
        // The rest of the program can still map the memory that it needs.
        for (int i = 0; i < 500; i++) {
            int rights = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE; // so that they do not become one mapping
            ASSERT_NE(mmap(nullptr, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
        }
        parked.end();
        GTEST_SKIP() << "the kernel has no light guard pages (MADV_GUARD_INSTALL, Linux 6.13), so figures mean nothing";
    }
    const double each = static_cast<double>(resident_and_tables() - memory) / static_cast<double>(count);
    const int64_t more_mappings = mapping_count() - mappings;
    printf("%zu parked on stacks of %zu KiB: %.0f bytes each, %ld mappings\n", count, stack_size / 1024, each,
           static_cast<long>(more_mappings));
    EXPECT_LE(each, static_cast<double>(most_bytes));
    EXPECT_LT(more_mappings, 200);
    for (size_t i = 0; i < count; i += count / 1000) {
        fiber_info_t seen = info(parked.fibers[i]);
        ASSERT_TRUE(faults(seen.stack_low - 1)) << i;
        ASSERT_TRUE(faults(seen.stack_low - 65536)) << i;
        ASSERT_FALSE(faults(seen.stack_low)) << i;
    }
    parked.end();
    EXPECT_EQ(stats().stacks, 0u);
    EXPECT_EQ(stats().stacks_high_water, count + (stack_size == FIBER_STACK_DEFAULT ? 0 : 1));
    // All but a few lie idle now, and their memory goes back within some seconds.
    int64_t now = 0;
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(100)), 0);
        if (now = resident_and_tables() - memory; now < static_cast<int64_t>(count) * most_bytes / 4) break;
    }
    printf("after they have ended: %.0f bytes each, %llu stacks trimmed\n",
           static_cast<double>(now) / static_cast<double>(count), (unsigned long long)stats().stacks_trimmed);
    EXPECT_LT(now, static_cast<int64_t>(count) * most_bytes / 4);
}

} // namespace

// A page of stack, 256 bytes of control block, 8 bytes of page table for each page of the stack and of the guard, and
// places in queues. Each on a new thread: guards that are mappings are free for others when their cord has ended.
TEST(StacksAtScale, OnStacksOf32KiB) {
    in_thread([] { measure(32768, 4620); });
}

TEST(StacksAtScale, OnStacksOfTheDefaultSize) {
    in_thread([] { measure(FIBER_STACK_DEFAULT, 5030); });
}
