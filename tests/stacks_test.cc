// SPDX-License-Identifier: MIT OR Apache-2.0
// Stacks as a program sees them: guards and their attributes, refusals, no system calls on the warm way, memory that
// comes back.
#include "support.h"
#include "system_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace support;
using system_calls::control;
using system_calls::Markers;

namespace {

struct Attr {
    fiber_attr_t *attr = nullptr;

    explicit Attr(int guard, size_t stack_size = FIBER_STACK_DEFAULT) {
        EXPECT_EQ(fiber_attr_create(&attr), 0);
        EXPECT_EQ(fiber_attr_set_guard(attr, guard), 0);
        EXPECT_EQ(fiber_attr_set_stack_size(attr, stack_size), 0);
    }
    Attr(const Attr &) = delete;
    ~Attr() { EXPECT_EQ(fiber_attr_destroy(attr), 0); }
};

// While it lives the system has no guard pages.
struct NoGuards {
    NoGuards() {
        control.markers = Markers::refused;
        control.refuse_mprotect_guards = true;
    }
    NoGuards(const NoGuards &) = delete;
    ~NoGuards() { control = {}; }
};

bool accessible(uint64_t address) {
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, address, nullptr, 8) == 0 || errno != EFAULT;
}

// Whether the calling fiber has a guard. Below a stack without one lies the next stack, or other memory.
bool guarded() { return !accessible(info(self()).stack_low - 4096); }

} // namespace

// ---- the attribute --------------------------------------------------------------------------------------------------

TEST(GuardAttribute, TakesTheThreeKindsOnly) {
    Attr attr(FIBER_GUARD_REQUIRE);
    for (int guard : {FIBER_GUARD_REQUIRE, FIBER_GUARD_PREFER, FIBER_GUARD_NONE}) {
        EXPECT_EQ(fiber_attr_set_guard(attr.attr, guard), 0);
        EXPECT_EQ(fiber_attr_set_guard(nullptr, guard), -EINVAL);
    }
    for (int guard : {-1, 3, 256, 1 << 30, INT32_MIN}) EXPECT_EQ(fiber_attr_set_guard(attr.attr, guard), -EINVAL);
}

TEST(GuardAttribute, IsIndependentOfTheSizeWhicheverIsSetFirst) {
    for (bool size_first : {false, true}) {
        fiber_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        for (bool size : {size_first, !size_first}) {
            EXPECT_EQ(size ? fiber_attr_set_stack_size(attr, 65536) : fiber_attr_set_guard(attr, FIBER_GUARD_NONE), 0);
        }
        fiber_info_t seen{};
        bool whole = false;
        auto body = [&] {
            seen = info(self());
            whole = accessible(seen.stack_low);
        };
        fiber_t fiber = create(body, attr);
        EXPECT_EQ(fiber_start(fiber), 0);
        join(fiber);
        EXPECT_EQ(seen.stack_size, 65536u);
        EXPECT_TRUE(whole);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    }
}

TEST(GuardAttribute, RequireAndPreferAreGuardedNoneIsNot) {
    control = {};
    bool is_guarded = false;
    auto body = [&] { is_guarded = guarded(); };
    auto run_with = [&](fiber_attr_t *attr) {
        fiber_t fiber = create(body, attr);
        EXPECT_EQ(fiber_start(fiber), 0);
        join(fiber);
        return is_guarded;
    };
    EXPECT_TRUE(run_with(nullptr));
    EXPECT_TRUE(run_with(Attr(FIBER_GUARD_REQUIRE).attr));
    EXPECT_TRUE(run_with(Attr(FIBER_GUARD_PREFER).attr));
    // A stack without a guard: all of it can be written.
    uint64_t low = 0;
    bool whole = false;
    auto bare = [&] {
        low = info(self()).stack_low;
        whole = accessible(low);
    };
    Attr none(FIBER_GUARD_NONE, 32768);
    fiber_t fiber = create(bare, none.attr);
    EXPECT_EQ(fiber_start(fiber), 0);
    join(fiber);
    EXPECT_TRUE(whole);
    EXPECT_EQ(low % 4096, 0u);
}

TEST(GuardAttribute, AnOverflowMeetsTheGuard) {
#if FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN
    puts("did not run: the sanitizer catches the signal and prints its own report");
    GTEST_SKIP() << "the sanitizer catches the signal and prints its own report";
#else
    for (int guard : {FIBER_GUARD_REQUIRE, FIBER_GUARD_PREFER}) {
        Attr attr(guard, FIBER_STACK_MIN);
        auto overflow = [] {
            uint64_t low = info(self()).stack_low;
            *reinterpret_cast<volatile char *>(low) = 1;
            *reinterpret_cast<volatile char *>(low - 1) = 1;
        };
        EXPECT_EXIT(
            {
                fiber_t fiber = create(overflow, attr.attr);
                fiber_start(fiber);
                _exit(0);
            },
            testing::KilledBySignal(SIGSEGV), "");
    }
#endif
}

TEST(GuardSize, RefusesInvalidSizes) {
    Attr attr(FIBER_GUARD_REQUIRE);
    EXPECT_EQ(fiber_attr_set_guard_size(nullptr, 65536), -EINVAL);
    for (size_t bytes : {size_t(0), FIBER_GUARD_SIZE_MAX + 1, SIZE_MAX})
        EXPECT_EQ(fiber_attr_set_guard_size(attr.attr, bytes), -EINVAL);
    for (size_t bytes : {size_t(1), size_t(4096), FIBER_GUARD_SIZE_DEFAULT, FIBER_GUARD_SIZE_MAX})
        EXPECT_EQ(fiber_attr_set_guard_size(attr.attr, bytes), 0);
}

// No setting is lost, in whichever order size, kind and size of the guard are set.
TEST(GuardSize, IsAtLeastTheRequestedSize) {
    control = {};
    for (size_t bytes : {size_t(1), FIBER_GUARD_SIZE_DEFAULT, size_t(100000), FIBER_GUARD_SIZE_MAX}) {
        for (int order = 0; order < 3; order++) {
            fiber_attr_t *attr = nullptr;
            ASSERT_EQ(fiber_attr_create(&attr), 0);
            for (int i = 0; i < 3; i++) {
                const int what = (order + i) % 3;
                EXPECT_EQ(what == 0   ? fiber_attr_set_stack_size(attr, 65536)
                          : what == 1 ? fiber_attr_set_guard(attr, FIBER_GUARD_REQUIRE)
                                      : fiber_attr_set_guard_size(attr, bytes),
                          0);
            }
            const size_t wanted = bytes < 65536 ? 65536 : bytes;
            auto body = [&] {
                const fiber_info_t about = info(self());
                EXPECT_EQ(about.stack_size, 65536u);
                EXPECT_TRUE(accessible(about.stack_low));
                for (size_t below = 1; below <= wanted; below += 4096)
                    ASSERT_FALSE(accessible(about.stack_low - below)) << below;
                ASSERT_FALSE(accessible(about.stack_low - wanted));
            };
            fiber_t fiber = create(body, attr);
            EXPECT_EQ(fiber_start(fiber), 0);
            join(fiber);
            EXPECT_EQ(fiber_attr_destroy(attr), 0);
        }
    }
}

// The stacks of tasks that have begun lie at least a guard apart. The pool has no workers: the calling thread runs its
// tasks.
TEST(GuardSize, OfTasksIsTheirPools) {
    control = {};
    constexpr size_t wanted = size_t(1) << 20;
    static std::vector<uint64_t> lows;
    constexpr size_t tasks = 4;
    lows.clear();
    fiber_pool_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 0), 0);
    EXPECT_EQ(fiber_pool_attr_set_guard_size(attr, wanted), 0);
    EXPECT_EQ(fiber_pool_attr_set_stack_size(attr, 65536), 0);
    fiber_pool_t pool;
    ASSERT_EQ(fiber_pool_create(&pool, attr), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    ASSERT_EQ(fiber_pool_bind(pool), 0);
    auto task = [](void *) -> void * {
        lows.push_back(info(self()).stack_low);
        while (lows.size() < tasks) fiber_reschedule();
        return nullptr;
    };
    for (size_t i = 0; i < tasks; i++) EXPECT_EQ(fiber_pool_submit(pool, task, nullptr), 0);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    ASSERT_EQ(lows.size(), tasks);
    std::sort(lows.begin(), lows.end());
    for (size_t i = 1; i < tasks; i++) EXPECT_GE(lows[i] - lows[i - 1], 65536 + wanted);
}

namespace {

constexpr size_t large_frame = 60 * 1024;

// A frame that is touched only at the low end, below the stack but above the end of the guard.
template <size_t size>
__attribute__((noinline)) void touch_low_end_of_a_frame() {
    volatile char frame[size];
    frame[0] = 1;
    __asm__ volatile("" : : "r"(frame) : "memory");
}

template <size_t size>
[[noreturn]] void step_over_the_end(size_t guard_bytes) {
    fiber_attr_t *attr = nullptr;
    CHILD_CHECK(fiber_attr_create(&attr) == 0 && fiber_attr_set_stack_size(attr, FIBER_STACK_MIN) == 0 &&
                fiber_attr_set_guard_size(attr, guard_bytes) == 0);
    auto parked = [] { fiber_yield(); };
    for (int i = 0; i < 8; i++) CHILD_CHECK(fiber_start(create(parked, attr)) == 0); // stacks that it could write into
    auto body = [] { touch_low_end_of_a_frame<size>(); };
    CHILD_CHECK(fiber_start(create(body, attr)) == 0);
    _exit(0);
}

} // namespace

TEST(GuardSize, AFrameDoesNotStepOverIt) {
#if FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN
    puts("did not run: the sanitizer catches the signal and prints its own report");
    GTEST_SKIP() << "the sanitizer catches the signal and prints its own report";
#else
    EXPECT_EXIT(step_over_the_end<large_frame>(1), testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT(step_over_the_end<1000 * 1024>(size_t(1) << 20), testing::KilledBySignal(SIGSEGV), "");
    // With the smaller guard the larger frame does the damage that the header warns of: it lands in another stack.
    EXPECT_EXIT(step_over_the_end<86 * 1024>(1), testing::ExitedWithCode(0), "");
#endif
}

// The stacks of the threads that the library starts, whose functions are the program's, too.
TEST(GuardSize, OfThreadsIsNoLess) {
    auto guard_of_this_thread = [] {
        pthread_attr_t attr;
        size_t guard = 0;
        if (pthread_getattr_np(pthread_self(), &attr) != 0) return size_t(0);
        pthread_attr_getguardsize(&attr, &guard);
        pthread_attr_destroy(&attr);
        return guard;
    };
    static size_t of_cord = 0, of_offload = 0;
    static auto ask = guard_of_this_thread;
    fiber_cord_t cord{};
    auto run_cord = [](void *) -> void * {
        of_cord = ask();
        return nullptr;
    };
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, run_cord, nullptr), 0);
    ASSERT_EQ(fiber_cord_join(cord, nullptr), 0);
    EXPECT_GE(of_cord, FIBER_GUARD_SIZE_DEFAULT);
    auto call = [](void *) -> int64_t {
        of_offload = ask();
        return 0;
    };
    ASSERT_EQ(fiber_offload(call, nullptr, nullptr), 0);
    EXPECT_GE(of_offload, FIBER_GUARD_SIZE_DEFAULT);
}

// ---- the reserve ----------------------------------------------------------------------------------------------------

namespace {

// How far the frame of the caller lies below the highest address in use of the stack.
#define DEPTH_OF_FRAME() (info(self()).stack_high - reinterpret_cast<uint64_t>(__builtin_frame_address(0)))

constexpr size_t small_frames = 2048; // more than the first frames take, sanitizers included

} // namespace

TEST(StackReserve, TakesAtMostHalfOfTheStack) {
    Attr attr(FIBER_GUARD_REQUIRE, 65536);
    EXPECT_EQ(fiber_attr_set_stack_reserve(nullptr, 0), -EINVAL);
    for (size_t bytes : {size_t(32769), size_t(65536), size_t(1) << 32, SIZE_MAX})
        EXPECT_EQ(fiber_attr_set_stack_reserve(attr.attr, bytes), -EINVAL) << bytes;
    for (size_t bytes : {size_t(0), size_t(1), size_t(32768)})
        EXPECT_EQ(fiber_attr_set_stack_reserve(attr.attr, bytes), 0) << bytes;
    EXPECT_EQ(fiber_attr_set_stack_size(attr.attr, 32768), -EINVAL);
    EXPECT_EQ(fiber_attr_set_stack_size(attr.attr, 32769), 0);
    EXPECT_EQ(fiber_attr_set_stack_reserve(attr.attr, 16384), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr.attr, 32768), 0);
}

// The function may write all of it, whichever call makes the fiber and begins its first run.
TEST(StackReserve, LiesDirectlyAboveTheFirstFrame) {
    control = {};
    Attr attr(FIBER_GUARD_REQUIRE, 65536);
    for (size_t bytes : {size_t(0), size_t(1), size_t(1000), size_t(32768)}) {
        ASSERT_EQ(fiber_attr_set_stack_reserve(attr.attr, bytes), 0);
        auto body = [&] {
            const fiber_info_t about = info(self());
            EXPECT_LE(about.stack_high, about.stack_low + about.stack_size);
            EXPECT_GE(about.stack_high + 1024, about.stack_low + about.stack_size);
            memset(reinterpret_cast<char *>(about.stack_high) - bytes, 0xFF, bytes);
            fiber_reschedule(); // what is overwritten here, the switch and the end of the fiber would miss
            EXPECT_GT(DEPTH_OF_FRAME(), bytes);
            EXPECT_LT(DEPTH_OF_FRAME(), bytes + small_frames);
        };
        fiber_t started = create(body, attr.attr);
        EXPECT_EQ(fiber_start(started), 0);
        join(started);
        fiber_t woken = create(body, attr.attr);
        EXPECT_EQ(fiber_wakeup(woken), 0);
        join(woken);
        fiber_t received{}; // from another thread, which makes it for this cord
        fiber_cord_t cord{};
        ASSERT_EQ(fiber_cord_self(&cord), 0);
        ASSERT_EQ(fiber_attr_set_cord(attr.attr, cord), 0);
        in_thread([&] {
            received = create(body, attr.attr);
            EXPECT_EQ(fiber_wakeup(received), 0);
        });
        join(received);
    }
}

TEST(StackReserve, IsNotInheritedByTheNextFiberOfTheSlot) {
    control = {};
    Attr attr(FIBER_GUARD_REQUIRE);
    ASSERT_EQ(fiber_attr_set_stack_reserve(attr.attr, 65536), 0);
    auto body = [] { fiber_reschedule(); };
    fiber_t fiber = create(body, attr.attr);
    EXPECT_EQ(fiber_start(fiber), 0);
    join(fiber);
    fiber = create(body, attr.attr);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); // it never runs
    join(fiber);
    for (int i = 0; i < 2; i++) run([] { EXPECT_LT(DEPTH_OF_FRAME(), small_frames); });
}

// ---- refusals -------------------------------------------------------------------------------------------------------

TEST(NoGuardAvailable, RefusesOnlyFibersThatRequireAGuard) {
    in_thread([] {
        auto body = [] { return pointer(7); };
        fiber_t fiber{};
        {
            NoGuards none_now;
            fiber = create(body);
            EXPECT_EQ(fiber_start(fiber), -EAGAIN);
            EXPECT_EQ(fiber_state(fiber), FIBER_NEW);
            fiber_t scheduled = spawn(body);
            EXPECT_EQ(fiber_join(scheduled, nullptr), -EAGAIN);
            for (int guard : {FIBER_GUARD_PREFER, FIBER_GUARD_NONE}) {
                Attr attr(guard);
                fiber_t other = create(body, attr.attr);
                EXPECT_EQ(fiber_start(other), 0);
                EXPECT_EQ(join(other), pointer(7));
                other = create(body, attr.attr);
                EXPECT_EQ(fiber_wakeup(other), 0);
                EXPECT_EQ(join(other), pointer(7));
            }
            EXPECT_EQ(fiber_start(fiber), -EAGAIN); // though two stacks without a guard are free
        }
        EXPECT_EQ(fiber_start(fiber), 0);
        EXPECT_EQ(join(fiber), pointer(7));
    });
}

TEST(NoGuardAvailable, AFiberThatWaitsForAStackGetsOnlyAGuardedOne) {
    in_thread([] {
        std::string log;
        auto parked = [&] { EXPECT_EQ(fiber_yield(), 0); };
        auto body = [&] {
            EXPECT_TRUE(guarded());
            log += 'r';
        };
        fiber_t guarded_one = start(parked);
        NoGuards none_now;
        Attr prefer(FIBER_GUARD_PREFER);
        fiber_t bare_one = create(parked, prefer.attr);
        EXPECT_EQ(fiber_start(bare_one), 0);
        fiber_t waiting = spawn(body);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_state(waiting), FIBER_RUNNABLE);
        EXPECT_EQ(fiber_wakeup(bare_one), 0);
        join(bare_one);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(log, ""); // the freed stack has no guard
        EXPECT_EQ(fiber_wakeup(guarded_one), 0);
        join(guarded_one);
        join(waiting);
        EXPECT_EQ(log, "r");
    });
}

// A stack is offered to a fiber that is cancelled before it takes it: the offer must reach the next one, whatever the
// cancelled one had asked for.
TEST(NoGuardAvailable, AnOfferThatIsNotTakenIsPassedOn) {
    in_thread([] {
        auto parked = [&] { EXPECT_EQ(fiber_yield(), 0); };
        bool ran = false;
        auto body = [&] { ran = true; };
        fiber_t first{};
        auto cancelling = [&] {
            EXPECT_EQ(fiber_yield(), 0);
            EXPECT_EQ(fiber_state(first), FIBER_RUNNABLE);
            EXPECT_EQ(fiber_cancel(first, nullptr), 0);
            EXPECT_EQ(fiber_yield(), 0);
        };
        fiber_t holder = start(parked);
        fiber_t other = start(cancelling); // keeps a stack in use to the end
        NoGuards none_now;
        control.largest_mapping = 0; // nor any other stack
        Attr none(FIBER_GUARD_NONE);
        first = create(body, none.attr);
        EXPECT_EQ(fiber_wakeup(first), 0);
        fiber_t second = spawn(body); // requires a guard
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_FALSE(ran);
        EXPECT_EQ(fiber_wakeup(holder), 0); // ends; its stack is offered to the first, which queues behind
        EXPECT_EQ(fiber_wakeup(other), 0);  // which cancels the first
        EXPECT_EQ(join(first), FIBER_CANCELLED);
        for (int i = 0; i < 10 && !ran; i++) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_TRUE(ran);
        EXPECT_EQ(fiber_wakeup(other), 0);
        join(other);
        join(second);
        join(holder);
    });
}

// ---- the cost of reusing a stack ------------------------------------------------------------------------------------

#if !FIBERRT_TEST_ASAN && !FIBERRT_TEST_TSAN
namespace {

// From here on any system call except those for ending kills the process. Reading the clock is none where there is a
// vDSO.
void no_more_system_calls() {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(3);
    }
}

// Batches of fibers one after the other, after a warm-up, and no system call.
[[noreturn]] void warm_batches(size_t batch, int64_t duration) {
    static std::vector<fiber_t> fibers(batch);
    auto park = [](void *) -> void * { return pointer(fiber_reschedule()); };
    auto round = [&] {
        for (fiber_t &fiber : fibers) fiber_spawn(&fiber, park, nullptr);
        for (fiber_t fiber : fibers) {
            if (fiber_join(fiber, nullptr) != 0) abort();
        }
    };
    for (int i = 0; i < 3; i++) round();
    no_more_system_calls();
    int64_t end = fiber_now() + duration;
    do {
        round();
    } while (fiber_now() < end);
    _exit(stats().stacks_high_water >= batch ? 0 : 4);
}

} // namespace
#endif

TEST(WarmSpawnAndJoin, MakesNoSystemCall) {
#if FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN
    puts("did not run: the sanitizer makes its own system calls");
    GTEST_SKIP() << "the sanitizer makes its own system calls";
#else
    NOT_UNDER_QEMU("makes its own system calls");
    EXPECT_EXIT(warm_batches(1, FIBER_MSEC(100)), testing::ExitedWithCode(0), "");
    // Longer than a period of trimming, which finds nothing idle.
    EXPECT_EXIT(warm_batches(1000, FIBER_MSEC(1300)), testing::ExitedWithCode(0), "");
    // And the trap works.
    EXPECT_EXIT((no_more_system_calls(), syscall(SYS_getppid), _exit(0)), testing::KilledBySignal(SIGSYS), "");
#endif
}

// ---- idle memory ----------------------------------------------------------------------------------------------------

TEST(IdleStacks, GiveTheirMemoryBackWhileTheThreadSleepsAndThenLetItSleep) {
    in_thread([] {
        constexpr size_t count = 1000;
        auto body = [] {
            volatile char memory[64 * 1024];
            for (size_t i = 0; i < sizeof memory; i += 4096) memory[i] = 1;
            EXPECT_EQ(fiber_yield(), 0);
        };
        std::vector<fiber_t> fibers(count);
        const int64_t begin = fiber_now();
        for (fiber_t &fiber : fibers) fiber = start(body);
        fiber_stats_t busy = stats();
        EXPECT_EQ(busy.stacks, count);
        EXPECT_EQ(busy.stacks_high_water, count);
        EXPECT_GE(busy.stack_bytes, count * FIBER_STACK_DEFAULT);
        for (fiber_t fiber : fibers) EXPECT_EQ(fiber_wakeup(fiber), 0);
        for (fiber_t fiber : fibers) join(fiber);
        const uint64_t at_once = stats().stacks_trimmed;
        if (fiber_now() - begin < FIBER_MSEC(1000)) { // no period has passed
            EXPECT_EQ(at_once, 0u);
        }
        long resident = resident_kib();
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(2300)), 0); // two periods
        fiber_stats_t idle = stats();
        EXPECT_EQ(idle.stacks_free, count);
        EXPECT_GE(idle.stacks_trimmed, count - 64); // 16 MiB of 256 KiB stacks stay
        EXPECT_LE(idle.stacks_trimmed, count - 1);
        EXPECT_EQ(idle.stacks_high_water, count);
        if (!FIBERRT_TEST_TSAN) {
            EXPECT_LT(resident_kib(), resident - long(count - 64) * 60);
        }
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1200)), 0);
        EXPECT_LE(stats().blocking_polls - idle.blocking_polls, 3u); // the idle thread does not wake up
    });
}

TEST(IdleStacks, AreFoundByAThreadThatIsNeverIdle) {
    in_thread([] {
        constexpr size_t count = 500;
        auto body = [] { EXPECT_EQ(fiber_yield(), 0); };
        std::vector<fiber_t> fibers(count);
        for (fiber_t &fiber : fibers) fiber = start(body);
        for (fiber_t fiber : fibers) EXPECT_EQ(fiber_wakeup(fiber), 0);
        for (fiber_t fiber : fibers) join(fiber);
        for (int64_t end = fiber_now() + FIBER_MSEC(2500); fiber_now() < end;) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_GE(stats().stacks_trimmed, count - 64);
    });
}

#if FIBERRT_TEST_REFUSES_MEMORY
// A slot that such a call has taken is given back: memory for slots, which never goes back, comes 64 at a time.
TEST(NewFibers, ThatFindNoMemoryKeepNoSlots) {
    in_thread([] {
        auto body = [] {};
        std::vector<fiber_t> fibers;
        fibers.reserve(100'000);
        fiber_t fiber{};
        int error = 0;
        control.refuse_memory = true;
        while ((error = fiber_new(&fiber, nullptr, entry<decltype(body)>, &body)) == 0 && fibers.size() < 100'000)
            fibers.push_back(fiber);
        const int before = control.mmaps;
        for (int i = 0; i < 1000 && error == -ENOMEM; i++)
            error = fiber_new(&fiber, nullptr, entry<decltype(body)>, &body);
        const int after = control.mmaps;
        control.refuse_memory = false;
        EXPECT_EQ(error, -ENOMEM);
        EXPECT_LE(after - before, 1); // room for the one that is refused
        for (fiber_t made : fibers) {
            EXPECT_EQ(fiber_cancel(made, nullptr), 0);
            EXPECT_EQ(fiber_wakeup(made), 0);
            EXPECT_EQ(join(made), FIBER_CANCELLED);
        }
    });
}
#endif
