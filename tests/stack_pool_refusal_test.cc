// SPDX-License-Identifier: MIT OR Apache-2.0
// The stack pool when the system refuses something: every step can fail, leaves all as it was, and works later. Also
// the kinds and the number of stacks without light guard pages, and with pages of other sizes.
#include "core/stack_pool.h"

#include "support.h"
#include "system_calls.h"

#include <signal.h>
#include <vector>

using fiberrt::StackPool;
using system_calls::control;
using system_calls::Markers;

namespace {

constexpr auto require = StackPool::Guard::require;
constexpr auto prefer = StackPool::Guard::prefer;
constexpr auto none = StackPool::Guard::none;

bool accessible(const char* address) {
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, address, nullptr, 8) == 0 || errno != EFAULT;
}

// A stack as a fiber holds it: with its class, which take() may change.
struct Held {
    uint8_t stack_class;
    char* low;
};

struct StackPoolRefusal : testing::Test {
    StackPool pool;

    void TearDown() override {
        pool.release(); // on pages of the size that they were made on
        control = {};
        EXPECT_EQ(pool.made(), 0u);
    }
    Held take(size_t size, StackPool::Guard guard = require) {
        Held held = {StackPool::class_for(size, guard), nullptr};
        errno = 1234;
        held.low = pool.take(held.stack_class);
        EXPECT_EQ(errno, 1234);
        if (!held.low) {
            EXPECT_EQ(held.stack_class, StackPool::class_for(size, guard)) << "a refusal changed the request";
        }
        return held;
    }
    void give_back(const Held& held) { pool.give_back(held.stack_class, held.low); }

    // A stack can be used up to its last byte, and below it is the guard, if it has one.
    void expect_usable(const Held& held) {
        size_t size = StackPool::size_of(held.stack_class);
        size_t unusable = StackPool::guard_size(held.stack_class);
        ASSERT_NE(held.low, nullptr);
        for (size_t below = 4096; below <= unusable; below += 4096) EXPECT_FALSE(accessible(held.low - below));
        memset(held.low, 1, size);
    }
};

TEST_F(StackPoolRefusal, NoAddressSpace) {
    control.largest_mapping = 0;
    EXPECT_EQ(take(262144).low, nullptr);
    EXPECT_EQ(take(16384).low, nullptr);
    EXPECT_EQ(take(262144, none).low, nullptr);
    EXPECT_EQ(pool.made(), 0u);
    control.largest_mapping = SIZE_MAX;
    expect_usable(take(262144));
    expect_usable(take(16384));
}

TEST_F(StackPoolRefusal, LittleAddressSpaceIsTakenInSmallPieces) {
    control.largest_mapping = size_t{1} << 20;
    std::vector<Held> all;
    for (int i = 0; i < 100; i++) {
        all.push_back(take(262144));
        expect_usable(all.back());
    }
    EXPECT_EQ(take(size_t{2} << 20).low, nullptr);
    control.largest_mapping = 262144 + 65536; // one stack and its guard
    for (int i = 0; i < 8; i++) expect_usable(take(262144));
    for (const Held& held : all) give_back(held);
}

TEST_F(StackPoolRefusal, NoCommitCharge) {
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer maps more memory";
    control.largest_commit = 0;
    EXPECT_EQ(take(65536).low, nullptr);
    EXPECT_EQ(take(65536).low, nullptr);
    EXPECT_EQ(control.mmaps, 1) << "the address space that was had is kept, and no more is taken";
    EXPECT_EQ(pool.committed_bytes(), 0u);
    control.largest_commit = 3 * 65536; // strict overcommit, nearly used up: stack by stack, each with its guard
    Held a = take(65536);
    expect_usable(a);
    EXPECT_EQ(pool.committed_bytes(), 3 * 65536u);
    expect_usable(take(65536));
    control.largest_commit = 0;
    EXPECT_EQ(take(65536).low, nullptr);
    give_back(a);
    EXPECT_EQ(take(65536).low, a.low);
    control.largest_commit = SIZE_MAX;
    expect_usable(take(65536));
    EXPECT_EQ(control.mmaps, 1);
}

TEST_F(StackPoolRefusal, TheFirstStacksCommitLittle) {
    expect_usable(take(262144));
    EXPECT_LE(pool.committed_bytes(), size_t{1} << 20);
    for (int i = 0; i < 1000; i++) take(262144);
    EXPECT_LE(pool.committed_bytes(), 1001 * size_t{262144 + 65536} + (size_t{16} << 20));
}

TEST_F(StackPoolRefusal, NoMemoryForRecords) {
#if FIBERRT_TEST_REFUSES_MEMORY
    uint8_t stack_class = StackPool::class_for(32768);
    control.refuse_memory = true; // for the list
    char* low = pool.take(stack_class);
    control.refuse_memory = false;
    EXPECT_EQ(low, nullptr);
    for (int i = 0; i < 16; i++) expect_usable(take(32768)); // the list is full now
    control.refuse_memory = true;                            // for a longer list
    low = pool.take(stack_class);
    control.refuse_memory = false;
    EXPECT_EQ(low, nullptr);
    expect_usable(take(32768));
    EXPECT_EQ(pool.made(), 17u);
#else
    puts("did not run: the sanitizer has its own malloc");
    GTEST_SKIP() << "the sanitizer has its own malloc";
#endif
}

TEST_F(StackPoolRefusal, NoGuards) {
    control.markers = Markers::refused;
    control.refuse_mprotect_guards = true;
    EXPECT_EQ(take(65536).low, nullptr);
    Held preferring = take(65536, prefer);
    expect_usable(preferring);
    EXPECT_EQ(StackPool::guard_size(preferring.stack_class), 0u);
    Held without = take(65536, none);
    expect_usable(without);
    give_back(preferring);
    give_back(without);
    EXPECT_EQ(take(65536).low, nullptr) << "an unguarded stack was given to a fiber that requires a guard";
    EXPECT_EQ(take(65536, prefer).low, without.low);
    control.refuse_mprotect_guards = false;
    expect_usable(take(65536));
    Held later = take(65536, prefer);
    EXPECT_GE(StackPool::guard_size(later.stack_class), 65536u) << "where guards are available, it is guarded";
}

TEST_F(StackPoolRefusal, WithoutGuardsNoneAreMade) {
    std::vector<Held> all;
    for (int i = 0; i < 100; i++) all.push_back(take(32768, none));
    EXPECT_EQ(control.mprotects, 3); // slabs of 1, 1 and 2 MiB
    EXPECT_EQ(control.madvises, 1);  // the reservation must have no huge pages
    for (const Held& held : all) expect_usable(held);
    for (size_t i = 1; i < all.size(); i++) EXPECT_EQ(StackPool::guard_size(all[i].stack_class), 0u);
}

TEST_F(StackPoolRefusal, KindsAreNeverMixedUp) {
    std::vector<Held> held;
    unsigned random = 1;
    int prefer_guarded = 0, none_guarded = 0;
    for (int i = 0; i < 20000; i++) {
        random = random * 1103515245 + 12345;
        bool refused = (random >> 28) % 4 == 0;
        control.markers = refused ? Markers::refused : Markers::real;
        control.refuse_mprotect_guards = refused;
        if (held.size() > 200 || (random >> 16) % 5 < 2) {
            if (held.empty()) continue;
            size_t which = (random >> 8) % held.size();
            give_back(held[which]);
            held[which] = held.back();
            held.pop_back();
            continue;
        }
        auto guard = StackPool::Guard((random >> 20) % 3);
        size_t size = size_t{16384} << (random >> 24) % 3;
        Held got = take(size, guard);
        if (!got.low) {
            EXPECT_EQ(guard, require);
            continue;
        }
        ASSERT_EQ(StackPool::size_of(got.stack_class), size);
        bool guarded = StackPool::guard_size(got.stack_class) != 0;
        if (guarded) {
            ASSERT_FALSE(accessible(got.low - 8)); // without one another stack may lie there
        }
        memset(got.low, 1, 8);
        ASSERT_TRUE(guarded || guard != require);
        ASSERT_TRUE(StackPool::serves(got.stack_class, StackPool::class_for(size, guard)));
        prefer_guarded += guarded && guard == prefer;
        none_guarded += guarded && guard == none;
        held.push_back(got);
    }
    EXPECT_GT(prefer_guarded, 1000);
    EXPECT_EQ(none_guarded, 0) << "memory was never short: there was no need to";
    EXPECT_EQ(pool.in_use(), held.size());
}

TEST_F(StackPoolRefusal, AFiberWithoutAGuardTakesAGuardedStackWhenThereIsNoOther) {
    Held guarded = take(32768);
    give_back(guarded);
    control.largest_mapping = 0;
    Held got = take(32768, none);
    EXPECT_EQ(got.low, guarded.low);
    give_back(got);
    EXPECT_EQ(take(32768).low, guarded.low) << "it went back to where it came from";
}

TEST(StackPool, EachClassServesTheRightRequests) {
    uint8_t small = StackPool::class_for(16384), without = StackPool::class_for(16384, none);
    EXPECT_TRUE(StackPool::serves(small, small));
    EXPECT_FALSE(StackPool::serves(StackPool::class_for(32768), small));
    EXPECT_FALSE(StackPool::serves(without, small));
    EXPECT_TRUE(StackPool::serves(small, without));
    EXPECT_TRUE(StackPool::serves(without, StackPool::class_for(16384, prefer)));
    EXPECT_FALSE(StackPool::serves(StackPool::class_for(32768, none), StackPool::class_for(16384, prefer)));
    EXPECT_EQ(StackPool::with_guard(without, require), small);
    EXPECT_EQ(StackPool::other_kind(StackPool::class_for(16384, prefer)), without);
    // A larger guard than the one that is asked for is another kind; only a fiber that asks for none takes the default.
    constexpr size_t large = StackPool::guard_most;
    uint8_t well_guarded = StackPool::class_for(16384, require, large);
    EXPECT_FALSE(StackPool::serves(small, well_guarded));
    EXPECT_FALSE(StackPool::serves(well_guarded, small));
    EXPECT_TRUE(StackPool::serves(well_guarded, StackPool::class_for(16384, prefer, large)));
    EXPECT_TRUE(StackPool::serves(without, StackPool::class_for(16384, prefer, large)));
    EXPECT_FALSE(StackPool::serves(small, StackPool::class_for(16384, prefer, large)));
    EXPECT_EQ(StackPool::class_for(16384, none, large), without);
}

// ---- guards that are mappings ---------------------------------------------------------------------------------------

// The process remembers the kernel's abilities and the number of mappings admitted: so each of these tests runs in a
// fresh process.
struct GuardMappings : testing::Test {
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

constexpr uint8_t least = StackPool::class_for(16384);

// A file that says how many mappings a process may have.
const char* limit_of(const char* number) {
    static char path[32];
    int fd = memfd_create("max_map_count", 0);
    CHILD_CHECK(write(fd, number, strlen(number)) == ssize_t(strlen(number)));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

std::vector<char*> all_that_are_admitted(StackPool& pool) {
    std::vector<char*> all;
    uint8_t stack_class = least;
    while (char* low = pool.take(stack_class)) all.push_back(low);
    return all;
}

// Mappings for the program's own use, which do not become one with their neighbours.
bool map_apart(int count) {
    for (int i = 0; i < count; i++) {
        int rights = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
        if (mmap(nullptr, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return false;
    }
    return true;
}

// A sixteenth is left to the program, and not much more.
void expect_used_up(int limit) {
    int left = limit - support::mapping_count();
    fprintf(stderr, "%d mappings of %d left\n", left, limit);
    CHILD_CHECK(left >= limit / 16 - support::mapping_slack && left < limit / 16 + 64 + support::mapping_slack);
}

[[noreturn]] void markers_are_ignored() {
    control.markers = Markers::ignored;
    StackPool pool;
    uint8_t stack_class = StackPool::class_for(32768);
    for (int i = 0; i < 100; i++) {
        char* low = pool.take(stack_class);
        CHILD_CHECK(low && !accessible(low - 4096) && !accessible(low - 65536) && accessible(low));
    }
    CHILD_CHECK(control.madvises <= 3); // it is not asked again and again
    _exit(0);
}

TEST_F(GuardMappings, TakeThePlaceOfMarkersThatAKernelIgnores) {
    EXPECT_EXIT(markers_are_ignored(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void the_rest_is_the_programs() {
    control.markers = Markers::refused;
    control.max_map_count = limit_of("4800\n");
    StackPool pool;
    std::vector<char*> all = all_that_are_admitted(pool);
    expect_used_up(4800);
    CHILD_CHECK(all.size() > 2000);

    // A refusal costs no count.
    uint8_t stack_class = least;
    int maps_read = control.maps_read;
    CHILD_CHECK(maps_read <= 5);
    for (int i = 0; i < 100; i++) CHILD_CHECK(!pool.take(stack_class));
    CHILD_CHECK(control.maps_read == maps_read);

    // A caller that only prefers a guard gets a stack, and the second time without a system call.
    int calls = 0;
    for (int i = 0; i < 100; i++) {
        uint8_t preferring = StackPool::class_for(16384, prefer);
        char* low = pool.take(preferring);
        CHILD_CHECK(low && accessible(low) && StackPool::guard_size(preferring) == 0);
        pool.give_back(preferring, low);
        if (i == 0) calls = control.calls();
    }
    CHILD_CHECK(control.calls() == calls);

    // Reuse needs no admission. Another cord gets the stack that this one returns.
    pool.give_back(least, all.back());
    CHILD_CHECK(pool.take(stack_class) == all.back());
    StackPool other;
    CHILD_CHECK(!other.take(stack_class));
    pool.release();
    for (size_t i = 0; i < all.size(); i++) CHILD_CHECK(other.take(stack_class));
    other.release();
    _exit(0);
}

TEST_F(GuardMappings, LeaveTheRestToTheProgram) {
    EXPECT_EXIT(the_rest_is_the_programs(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void what_the_program_maps_counts() {
    control.markers = Markers::refused;
    control.max_map_count = limit_of("9600\n");
    StackPool pool;
    uint8_t stack_class = least;
    CHILD_CHECK(pool.take(stack_class));
    CHILD_CHECK(map_apart(4000)); // after the first count
    all_that_are_admitted(pool);
    expect_used_up(9600);
    _exit(0);
}

TEST_F(GuardMappings, AreFewerTheMoreTheProgramMaps) {
    EXPECT_EXIT(what_the_program_maps_counts(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void the_usual_limit() {
    control.markers = Markers::refused;
    control.max_map_count = "/nowhere";
    control.maps = "/nowhere";
    StackPool pool;
    size_t admitted = all_that_are_admitted(pool).size();
    CHILD_CHECK(admitted > 29000 && admitted < 31000);
    CHILD_CHECK(map_apart(1000));
    pool.release();
    _exit(0);
}

TEST_F(GuardMappings, WithoutProcAreAsManyAsUsual) { EXPECT_EXIT(the_usual_limit(), testing::ExitedWithCode(0), ""); }

// ---- pages of other sizes -------------------------------------------------------------------------------------------

struct PageSize : StackPoolRefusal, testing::WithParamInterface<long> {};

TEST_P(PageSize, TheLeastStackIsAPageAndHasAGuardOfWholePages) {
    control.page_size = GetParam();
    size_t page = size_t(GetParam());
    EXPECT_EQ(StackPool::least_size(), page < 16384 ? 16384 : page);
    for (auto markers : {Markers::real, Markers::refused}) {
        control.markers = markers;
        Held held = take(StackPool::least_size());
        ASSERT_NE(held.low, nullptr);
        EXPECT_GE(StackPool::guard_size(held.stack_class), 65536u);
        EXPECT_EQ(StackPool::guard_size(held.stack_class) % page, 0u);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(held.low) % 4096, 0u);
        expect_usable(held);
        expect_usable(take(262144));
    }
}

INSTANTIATE_TEST_SUITE_P(, PageSize, testing::Values(4096, 16384, 65536));

} // namespace
