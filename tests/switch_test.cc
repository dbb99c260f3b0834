// SPDX-License-Identifier: MIT OR Apache-2.0
// The switch itself: the state that belongs to a fiber (registers, floating-point control, errno, exceptions), its
// stack and the guard page below it, and how backtraces end.
#include "io_support.h"
#include "switch_arch.h"

#include <cfenv>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <sys/mman.h>
#include <unwind.h>

#if defined __aarch64__
#include <link.h>
#include <sys/auxv.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
#if SANITIZED
#include <sanitizer/lsan_interface.h>
#endif

using namespace support;

namespace {

// For tests that try operations among other calls.
void tell_what_io_left_out() {
    if (!FIBERRT_TEST_IO) puts("the library was built without I/O: only the other calls were tried");
}

// A fiber's attributes for one fiber_new.
class Attributes {
public:
    Attributes() { EXPECT_EQ(fiber_attr_create(&attr_), 0); }
    ~Attributes() { EXPECT_EQ(fiber_attr_destroy(attr_), 0); }
    Attributes(const Attributes &) = delete;
    Attributes &operator=(const Attributes &) = delete;
    Attributes &stack(size_t bytes) {
        EXPECT_EQ(fiber_attr_set_stack_size(attr_, bytes), 0);
        return *this;
    }
    Attributes &name(const char *text) {
        EXPECT_EQ(fiber_attr_set_name(attr_, text), 0);
        return *this;
    }
    operator const fiber_attr_t *() const { return attr_; }

private:
    fiber_attr_t *attr_ = nullptr;
};

// ---------------------------------------------------------------------------------------------------------------
// Registers
// ---------------------------------------------------------------------------------------------------------------

// Calls a function of the library with values of the caller's own in all callee-saved registers, and checks them after.
template <class Function>
int64_t keeps_registers(uint64_t seed, Function *function, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) {
    uint64_t in[arch::register_count], out[arch::register_count] = {};
    for (uint64_t &value : in) value = seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t arguments[3] = {a, b, c};
    const int64_t result = call_with_registers(reinterpret_cast<const void *>(function), arguments, in, out);
    for (int i = 0; i < arch::register_count; ++i) EXPECT_EQ(out[i], in[i]) << arch::registers[i];
    return static_cast<int>(result);
}

TEST(RegistersTest, EverySwitchingCallKeepsThem) {
    Pipe pipe;
    int running = 0;
    auto body = [&] {
        const uint64_t seed = static_cast<uint64_t>(++running) * 977;
        for (uint64_t i = 0; i < 50; ++i) {
            EXPECT_EQ(keeps_registers(seed + i, fiber_reschedule), 0);
            EXPECT_EQ(keeps_registers(seed + i, fiber_sleep, 0), 0);
            EXPECT_EQ(keeps_registers(seed + i, fiber_sleep, FIBER_USEC(10)), 0);
            EXPECT_EQ(keeps_registers(seed + i, fiber_yield_timeout, FIBER_USEC(1)), -ETIMEDOUT);
            EXPECT_EQ(fiber_wakeup(self()), 0);
            EXPECT_EQ(keeps_registers(seed + i, fiber_yield), 0);
            if (!FIBERRT_TEST_IO) continue;
            const char byte = 'r';
            EXPECT_EQ(keeps_registers(seed + i, fiber_write, static_cast<uint64_t>(pipe.write_end),
                                      reinterpret_cast<uint64_t>(&byte), 1),
                      1);
            char back;
            EXPECT_EQ(keeps_registers(seed + i, fiber_read, static_cast<uint64_t>(pipe.read_end),
                                      reinterpret_cast<uint64_t>(&back), 1),
                      1);
        }
        --running;
    };
    fiber_t fibers[4];
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (uint64_t i = 0; running > 0 || i == 0; ++i) EXPECT_EQ(keeps_registers(i, fiber_reschedule), 0);
    for (fiber_t fiber : fibers) EXPECT_EQ(keeps_registers(fiber.id, fiber_join, fiber.id, 0), 0);
    tell_what_io_left_out();
}

TEST(RegistersTest, StartJoinAndTransferKeepThem) {
    auto quick = [] {};
    auto slow = [] { EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); };
    for (uint64_t i = 0; i < 50; ++i) {
        fiber_t ends = create(quick), parks = create(slow);
        EXPECT_EQ(keeps_registers(i, fiber_start, ends.id), 0);
        EXPECT_EQ(keeps_registers(i, fiber_start, parks.id), 0);
        EXPECT_EQ(keeps_registers(i, fiber_join, ends.id, 0), 0);
        EXPECT_EQ(keeps_registers(i, fiber_join, parks.id, 0), 0);
    }
    const fiber_t home = self();
    auto partner = [&] {
        for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(keeps_registers(i * 3, fiber_transfer, home.id, 0, 0), 0);
    };
    fiber_t other = create(partner);
    for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(keeps_registers(i * 5, fiber_transfer, other.id, 0, 0), 0);
    EXPECT_EQ(keeps_registers(1, fiber_transfer, other.id, 0, 0), 1);
    join(other);
}

// From different depths and places, so that each way in which a switch may return is met.
__attribute__((noinline)) int deep(int depth, uint64_t seed) {
    volatile int here = depth;
    const int64_t below = depth == 0 ? keeps_registers(seed, fiber_reschedule) : deep(depth - 1, seed + 1);
    return static_cast<int>(below) + (here - depth);
}

TEST(RegistersTest, FromAnyDepth) {
    int left = 3;
    auto body = [&] {
        const int mine = left--;
        for (int i = 0; i < 30; ++i) {
            EXPECT_EQ(deep(i % (mine * 3), static_cast<uint64_t>(i)), 0);
            EXPECT_EQ(keeps_registers(static_cast<uint64_t>(i), fiber_reschedule), 0);
        }
    };
    fiber_t one = spawn(body), two = spawn(body), three = spawn(body);
    for (fiber_t fiber : {one, two, three}) join(fiber);
}

// ---------------------------------------------------------------------------------------------------------------
// Floating-point control
// ---------------------------------------------------------------------------------------------------------------

using arch::defaults, arch::upward, arch::downward, arch::mixed;
using arch::FloatControl;

void expect_control(const FloatControl &expected, const char *where) {
    const FloatControl now = FloatControl::now();
    EXPECT_EQ(now.first, expected.first) << where;
    EXPECT_EQ(now.second, expected.second) << where;
}

class FloatTest : public testing::Test {
protected:
    void TearDown() override { defaults.set(); }
};

TEST_F(FloatTest, EveryFiberHasItsOwn) {
    Pipe pipe;
    const FloatControl sets[3] = {upward, downward, mixed};
    int next = 0;
    auto body = [&] {
        const FloatControl &mine = sets[next++];
        expect_control(defaults, "a new fiber");
        mine.set();
        for (int i = 0; i < 5; ++i) {
            EXPECT_EQ(fiber_reschedule(), 0);
            expect_control(mine, "after a reschedule");
            EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
            expect_control(mine, "after a sleep");
            if (!FIBERRT_TEST_IO) continue;
            EXPECT_EQ(fiber_poll_fd(pipe.write_end, POLLOUT), POLLOUT);
            expect_control(mine, "after an operation");
        }
    };
    fiber_t fibers[3];
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(fiber_reschedule(), 0);
        expect_control(defaults, "the main flow");
    }
    for (fiber_t fiber : fibers) join(fiber);
    expect_control(defaults, "the main flow, after the ends");
    tell_what_io_left_out();
}

TEST_F(FloatTest, ANewFiberHasTheDefaultsWhicheverFiberMadeIt) {
    uint64_t seen[4] = {};
    upward.set();
    fiber_t spawned{}, started{};
    ASSERT_EQ(fiber_spawn(&spawned, entry_probe, seen), 0);
    ASSERT_EQ(fiber_join(spawned, nullptr), 0);
    expect_control(upward, "the maker, after a spawn");
    EXPECT_EQ(seen[2], defaults.first);
    EXPECT_EQ(seen[3], defaults.second);
    seen[2] = seen[3] = 0;
    ASSERT_EQ(fiber_new(&started, nullptr, entry_probe, seen), 0);
    ASSERT_EQ(fiber_start(started), 0);
    expect_control(upward, "the maker, after a start");
    EXPECT_EQ(seen[2], defaults.first);
    EXPECT_EQ(seen[3], defaults.second);
    ASSERT_EQ(fiber_join(started, nullptr), 0);
    seen[2] = seen[3] = 0;
    fiber_t transferred{};
    ASSERT_EQ(fiber_new(&transferred, nullptr, entry_probe, seen), 0);
    ASSERT_EQ(fiber_transfer(transferred, nullptr, nullptr), 1);
    expect_control(upward, "the maker, after a transfer");
    EXPECT_EQ(seen[2], defaults.first);
    EXPECT_EQ(seen[3], defaults.second);
    ASSERT_EQ(fiber_join(transferred, nullptr), 0);
}

TEST_F(FloatTest, TheEndOfAFiberLeavesItsControlBehind) {
    for (bool by_exit : {false, true}) {
        auto first = [&] {
            downward.set();
            if (by_exit) (void)fiber_exit(nullptr);
        };
        auto second = [&] { expect_control(defaults, "the next fiber on that stack"); };
        fiber_t one = spawn(first), two = spawn(second);
        join(one);
        join(two);
        expect_control(defaults, "the joiner");
    }
}

TEST_F(FloatTest, RoundingFollowsTheFiber) {
    volatile double half = 2.5, third = 3;
    auto up = [&] {
        ASSERT_EQ(fesetround(FE_UPWARD), 0);
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(std::nearbyint(half), 3.0);
            EXPECT_GT(1 / third, 0.33333333333333331); // the nearest lies below
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    auto down = [&] {
        ASSERT_EQ(fesetround(FE_DOWNWARD), 0);
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(std::nearbyint(half), 2.0);
            EXPECT_EQ(1 / third, 0.33333333333333331);
            EXPECT_EQ(fegetround(), FE_DOWNWARD);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    fiber_t a = spawn(up), b = spawn(down);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(fegetround(), FE_TONEAREST);
        EXPECT_EQ(fiber_reschedule(), 0);
    }
    join(a);
    join(b);
}

// ---------------------------------------------------------------------------------------------------------------
// errno
// ---------------------------------------------------------------------------------------------------------------

// Through a function, since the compiler may keep the address of errno across calls, and a fiber keeps its thread.
__attribute__((noinline)) int &my_errno() { return errno; }

TEST(ErrnoTest, EveryFiberHasItsOwn) {
    Pipe pipe;
    int next = 100;
    auto body = [&] {
        const int mine = next++;
        EXPECT_EQ(my_errno(), 0) << "a new fiber";
        my_errno() = mine;
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(my_errno(), mine);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
            EXPECT_EQ(my_errno(), mine);
            if (!FIBERRT_TEST_IO) continue;
            EXPECT_EQ(fiber_poll_fd(pipe.write_end, POLLOUT), POLLOUT);
            EXPECT_EQ(my_errno(), mine);
        }
    };
    my_errno() = 7;
    fiber_t one = spawn(body), two = spawn(body), three = spawn(body);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(my_errno(), 7);
    }
    for (fiber_t fiber : {one, two, three}) EXPECT_EQ(fiber_join(fiber, nullptr), 0);
    EXPECT_EQ(my_errno(), 7);
    my_errno() = 0;
    tell_what_io_left_out();
}

// ---------------------------------------------------------------------------------------------------------------
// Exceptions
// ---------------------------------------------------------------------------------------------------------------

// TRAP: exceptions in flight are a thread's in most peers, so that a rethrow throws another fiber's.
TEST(ExceptionTest, RethrowThrowsTheFibersOwn) {
    std::string log;
    int next = 0;
    auto body = [&] {
        const std::string mine(1, static_cast<char>('a' + next++));
        try {
            try {
                throw std::runtime_error(mine);
            } catch (const std::exception &) {
                EXPECT_EQ(fiber_reschedule(), 0);
                EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
                throw;
            }
        } catch (const std::runtime_error &error) {
            EXPECT_EQ(mine, error.what());
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(mine, error.what());
            log += error.what();
        }
        EXPECT_EQ(std::current_exception(), nullptr);
    };
    fiber_t one = spawn(body), two = spawn(body), three = spawn(body);
    for (fiber_t fiber : {one, two, three}) join(fiber);
    std::sort(log.begin(), log.end());
    EXPECT_EQ(log, "abc");
}

// They end in the order in which they began, not in the reverse as on one stack.
TEST(ExceptionTest, CaughtExceptionsEndInAnyOrder) {
    bool go_one = false, go_two = false;
    std::string log;
    auto one = [&] {
        try {
            throw 1;
        } catch (int value) {
            while (!go_one) EXPECT_EQ(fiber_reschedule(), 0);
            log += std::to_string(value);
        }
        go_two = true;
    };
    auto two = [&] {
        try {
            throw 2;
        } catch (int value) {
            go_one = true;
            while (!go_two) EXPECT_EQ(fiber_reschedule(), 0);
            try {
                throw;
            } catch (int again) {
                log += std::to_string(value) + std::to_string(again);
            }
        }
    };
    fiber_t a = spawn(one), b = spawn(two);
    join(a);
    join(b);
    EXPECT_EQ(log, "122");
}

TEST(ExceptionTest, TheMainFlowsHandlerAndAFibersAreApart) {
    auto body = [] {
        EXPECT_EQ(std::current_exception(), nullptr);
        try {
            throw std::string("fiber");
        } catch (const std::string &text) {
            EXPECT_EQ(text, "fiber");
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    try {
        throw std::string("main");
    } catch (const std::string &) {
        fiber_t fiber = start(body);
        try {
            throw;
        } catch (const std::string &text) {
            EXPECT_EQ(text, "main");
        }
        join(fiber);
        EXPECT_NE(std::current_exception(), nullptr);
    }
    EXPECT_EQ(std::current_exception(), nullptr);
}

TEST(ExceptionTest, UncaughtExceptionsAreCountedPerFiber) {
    struct Unwinding {
        ~Unwinding() {
            EXPECT_EQ(std::uncaught_exceptions(), 1);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); // others run while this one is being unwound
            EXPECT_EQ(std::uncaught_exceptions(), 1);
        }
    };
    auto unwind = [] {
        try {
            Unwinding guard;
            throw 5;
        } catch (int value) {
            EXPECT_EQ(value, 5);
        }
        EXPECT_EQ(std::uncaught_exceptions(), 0);
    };
    auto watch = [] {
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        try {
            throw 6;
        } catch (int value) {
            EXPECT_EQ(value, 6);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
        EXPECT_EQ(std::uncaught_exceptions(), 0);
    };
    fiber_t a = start(unwind), b = start(watch), c = start(unwind);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    for (fiber_t fiber : {a, b, c}) join(fiber);
}

TEST(ExceptionTest, AFiberThatEndedInsideAHandlerLeavesNothing) {
    // fiber_exit from a handler leaves the exception behind; the next fiber with that stack must not find it.
    // (That exception is never freed: as documented, C++ objects are not destroyed.)
    auto leave = [] {
        try {
#if SANITIZED
            __lsan::ScopedDisabler expected_leak;
#endif
            throw 1;
        } catch (int) {
            (void)fiber_exit(nullptr);
        }
    };
    auto look = [] {
        EXPECT_EQ(std::current_exception(), nullptr);
        EXPECT_EQ(std::uncaught_exceptions(), 0);
    };
    for (int i = 0; i < 10; ++i) {
        run(leave);
        EXPECT_EQ(std::current_exception(), nullptr);
        run(look);
    }
}

TEST(ExceptionTest, ThrownThroughManyFramesDestructorsRunOnce) {
    struct Counted {
        int &count;
        ~Counted() { ++count; }
    };
    struct Thrower {
        static void descend(int depth, int &count) {
            Counted guard{count};
            if (depth == 0) {
                EXPECT_EQ(fiber_reschedule(), 0);
                throw std::out_of_range("bottom");
            }
            descend(depth - 1, count);
        }
    };
    int count = 0;
    auto body = [&] { EXPECT_THROW(Thrower::descend(49, count), std::out_of_range); };
    run(body);
    EXPECT_EQ(count, 50);
}

class ExceptionDeathTest : public testing::Test {
protected:
    // The child is a fresh process, so that it contains only the state given to it.
    void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

// A destructor that runs on the way would show: it ends the process differently.
struct NeverDestroyed {
    ~NeverDestroyed() { _exit(99); }
};

[[noreturn]] void let_an_exception_escape(bool after_yields) {
    auto body = [&]() -> void * {
        NeverDestroyed guard;
        if (after_yields) {
            (void)fiber_reschedule();
            (void)fiber_sleep(FIBER_USEC(10));
        }
        throw std::runtime_error("nobody catches this");
    };
    Attributes attributes;
    fiber_t fiber = create(body, attributes.name("the-escape-artist"));
    (void)fiber_wakeup(fiber);
    _exit(fiber_join(fiber, nullptr) == 0 ? 98 : 97);
}

TEST_F(ExceptionDeathTest, AnEscapingExceptionEndsTheProcessWithTheFibersNameAndWithoutUnwinding) {
    EXPECT_EXIT(let_an_exception_escape(false), testing::KilledBySignal(SIGABRT), "the-escape-artist");
    EXPECT_EXIT(let_an_exception_escape(true), testing::KilledBySignal(SIGABRT), "the-escape-artist");
}

TEST_F(ExceptionDeathTest, TheProgramsTerminateHandlerIsCalledAndSeesTheException) {
    EXPECT_EXIT(
        {
            std::set_terminate([] {
                try {
                    std::rethrow_exception(std::current_exception());
                } catch (const std::runtime_error &error) {
                    _exit(strcmp(error.what(), "nobody catches this") == 0 ? 42 : 43);
                } catch (...) {
                    _exit(44);
                }
            });
            let_an_exception_escape(false);
        },
        testing::ExitedWithCode(42), "");
}

TEST_F(ExceptionDeathTest, TheStackIsIntactWhenItTerminates) {
    // The handler runs on top of the frames that threw: a core file shows where.
    EXPECT_EXIT(
        {
            std::set_terminate([] {
                fiber_t me{};
                char here;
                fiber_info_t about = {};
                (void)fiber_self(&me);
                (void)fiber_info(me, &about, sizeof about);
                const uint64_t at = reinterpret_cast<uint64_t>(&here);
                const bool on_its_stack = at >= about.stack_low && at < about.stack_low + about.stack_size;
                _exit(on_its_stack && strcmp(about.name, "the-escape-artist") == 0 ? 42 : 43);
            });
            let_an_exception_escape(true);
        },
        testing::ExitedWithCode(42), "");
}

// ---------------------------------------------------------------------------------------------------------------
// Landing pads and signed addresses
// ---------------------------------------------------------------------------------------------------------------

#if defined __aarch64__

// Lets the processor check every indirect branch into the library. (The loader does that only for libraries that are
// marked as a whole, for which the start-up files that the linker adds must be.) In a child process: at its end the
// loader would call the functions of the start-up files.
void check_branches() {
    auto protect = [](dl_phdr_info *object, size_t, void *found) {
        if (!strstr(object->dlpi_name, "libfiberrt")) return 0;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
            const auto &part = object->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
            const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
            const uint64_t begin = (object->dlpi_addr + part.p_vaddr) & ~(page - 1);
            const uint64_t end = object->dlpi_addr + part.p_vaddr + part.p_memsz;
            const int protection = PROT_READ | PROT_EXEC | PROT_BTI;
            CHILD_CHECK(::mprotect(reinterpret_cast<void *>(begin), end - begin, protection) == 0);
            ++*static_cast<int *>(found);
        }
        return 0;
    };
    int found = 0;
    dl_iterate_phdr(protect, &found);
    CHILD_CHECK(found == 1);
}

class LandingPadDeathTest : public testing::Test {
protected:
    void SetUp() override {
        testing::FLAGS_gtest_death_test_style = "threadsafe";
        if (!(::getauxval(AT_HWCAP2) & HWCAP2_BTI)) GTEST_SKIP() << "this processor does not check landing pads";
    }
};

TEST_F(LandingPadDeathTest, ABranchToAnotherPlaceIsRefused) {
    EXPECT_EXIT(
        {
            check_branches();
            // Beyond the landing pad.
            volatile auto beyond = reinterpret_cast<uintptr_t>(&fiber_now) + 4;
            reinterpret_cast<int64_t (*)()>(beyond)();
            _exit(42);
        },
        testing::KilledBySignal(SIGILL), "");
}

[[noreturn]] void switch_in_every_way() {
    int ended = 0;
    auto body = [&] {
        downward.set();
        try {
            throw 1;
        } catch (int) {
            CHILD_CHECK(fiber_reschedule() == 0);
            CHILD_CHECK(fiber_sleep(FIBER_USEC(10)) == 0);
        }
        ++ended;
    };
    for (int i = 0; i < 3; ++i) {
        fiber_t one = spawn(body), two = start(body), three = spawn(body);
        for (fiber_t fiber : {one, two, three}) CHILD_CHECK(fiber_join(fiber, nullptr) == 0);
    }
    _exit(ended == 9 ? 42 : 43);
}

TEST_F(LandingPadDeathTest, EveryWayOfSwitchingHasThem) {
    EXPECT_EXIT(
        {
            check_branches();
            switch_in_every_way();
        },
        testing::ExitedWithCode(42), "");
}

TEST_F(LandingPadDeathTest, TheEndOfUnwindingHasThem) {
    EXPECT_EXIT(
        {
            check_branches();
            let_an_exception_escape(true);
        },
        testing::KilledBySignal(SIGABRT), "the-escape-artist");
}

TEST(SignedAddressTest, TheReturnAddressOfAParkedFiberIsSigned) {
    if (!(::getauxval(AT_HWCAP) & HWCAP_PACA)) GTEST_SKIP() << "this processor does not sign addresses";
    uint64_t high = 0;
    auto body = [&] {
        high = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
        EXPECT_EQ(keeps_registers(1, fiber_yield), 0);
    };
    const uint64_t caller = reinterpret_cast<uint64_t>(call_with_registers);
    int plain = 0, with_signature = 0;
    fiber_t fibers[10];
    for (fiber_t &fiber :
         fibers) { // a signature may be zero, but not on ten stacks; on the same one it is always the same
        fiber = start(body);
        for (uint64_t at = high - 2048; at < high; at += 8) {
            const uint64_t word = *reinterpret_cast<const uint64_t *>(at);
            const uint64_t address = word & ((uint64_t(1) << 48) - 1);
            if (address <= caller || address > caller + 256) continue; // it called fiber_yield
            ++(word == address ? plain : with_signature);
        }
    }
    for (fiber_t fiber : fibers) {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        join(fiber);
    }
    EXPECT_GT(with_signature, 0);
    EXPECT_LT(plain, 3);
}

#endif

// ---------------------------------------------------------------------------------------------------------------
// Stacks
// ---------------------------------------------------------------------------------------------------------------

TEST(StackTest, ItIsAlignedAtEntryAndTheChainOfFramesEndsThere) {
    uint64_t seen[4] = {};
    for (size_t size : {size_t(16384), size_t(65536), FIBER_STACK_DEFAULT, size_t(1) << 20}) {
        Attributes attributes;
        attributes.stack(size);
        fiber_t fibers[5];
        for (fiber_t &fiber : fibers) {
            ASSERT_EQ(fiber_new(&fiber, attributes, entry_probe, seen), 0);
            ASSERT_EQ(fiber_start(fiber), 0);
            EXPECT_EQ(seen[0] % 16, arch::entry_stack_rest);
            EXPECT_EQ(seen[2] >> 32, 0u); // on x86-64 the direction flag
            // The frame pointer. Under sanitizers the first frame is a function that informs them.
            if (!FIBERRT_TEST_ASAN && !FIBERRT_TEST_TSAN) {
                EXPECT_EQ(seen[1], 0u);
            }
        }
        for (fiber_t fiber : fibers) {
            void *result = nullptr;
            EXPECT_EQ(fiber_join(fiber, &result), 0);
            EXPECT_EQ(result, seen);
        }
    }
}

std::string format(const char *pattern, ...) {
    char buffer[256];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(buffer, sizeof buffer, pattern, arguments);
    va_end(arguments);
    return buffer;
}

TEST(StackTest, VariadicAndVectorCode) {
    auto body = [] {
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(format("%d %.3f %s %Lf %a", 42, 3.14159, "text", 2.5L, 1.0), "42 3.142 text 2.500000 0x1p+0");
            std::vector<int> values(64);
            for (int j = 0; j < 64; ++j) values[static_cast<size_t>(j)] = j;
            EXPECT_EQ(arch::sum_by_vectors(values.data(), 64), 2016);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    fiber_t fibers[3] = {spawn(body), spawn(body), spawn(body)};
    for (fiber_t fiber : fibers) join(fiber);
}

char *here() {
    char *address = static_cast<char *>(__builtin_frame_address(0));
    return address;
}

// Goes down the stack until little more than margin bytes are left above low, and marks every frame. Returns the number
// of frames; every frame must find its mark again.
__attribute__((noinline)) int descend_to(uint64_t low, size_t margin, int depth = 0) {
    volatile char frame[256];
    for (size_t i = 0; i < sizeof frame; ++i) frame[i] = static_cast<char>(depth + static_cast<int>(i));
    int frames = 1;
    if (reinterpret_cast<uint64_t>(here()) > low + margin + 1024) frames += descend_to(low, margin, depth + 1);
    for (size_t i = 0; i < sizeof frame; ++i) {
        if (frame[i] != static_cast<char>(depth + static_cast<int>(i))) return -1000000;
    }
    return frames;
}

TEST(StackTest, ThreeQuartersDirtiedAndReused) {
    for (int i = 0; i < 10; ++i) {
        auto body = [] {
            const fiber_info_t about = info(self());
            EXPECT_GT(descend_to(about.stack_low, about.stack_size / 4), 100);
            EXPECT_EQ(fiber_reschedule(), 0);
        };
        run(body);
    }
    // The next fibers find none of it: they have fresh state on the used stack.
    int value = 0;
    auto body = [&] { value += format("%d", 7) == "7"; };
    for (int i = 0; i < 10; ++i) run(body);
    EXPECT_EQ(value, 10);
}

TEST(StackTest, SizesAreRoundedUpToPowersOfTwo) {
    const std::pair<size_t, size_t> sizes[] = {
        {16384, 16384}, {16385, 32768}, {20000, 32768}, {65536, 65536}, {100000, 131072}, {3000000, 4194304},
    };
    for (const auto &[asked, given] : sizes) {
        Attributes attributes;
        auto body = [&, given = given] {
            const fiber_info_t about = info(self());
            EXPECT_EQ(about.stack_size, given);
            const uint64_t at = reinterpret_cast<uint64_t>(here());
            EXPECT_GT(at, about.stack_low);
            EXPECT_LE(at, about.stack_low + given);
        };
        fiber_t fiber = create(body, attributes.stack(asked));
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        join(fiber);
    }
}

TEST(StackTest, AllOfItCanBeUsedAtEverySize) {
    for (size_t size :
         {size_t(16) << 10, size_t(32) << 10, size_t(64) << 10, size_t(256) << 10, size_t(1) << 20, size_t(4) << 20}) {
        Attributes attributes;
        auto body = [&] {
            const fiber_info_t about = info(self());
            const uint64_t top = reinterpret_cast<uint64_t>(here());
            // At most 1 KiB at the top is kept back; the frames so far took a little. The guard comes in addition.
            EXPECT_GE(top - about.stack_low, size - 1024 - 2048);
            EXPECT_GT(descend_to(about.stack_low, 0), 10);
            EXPECT_EQ(fiber_reschedule(), 0);
        };
        fiber_t fiber = create(body, attributes.stack(size));
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        join(fiber);
    }
}

TEST(StackTest, TheSmallestIsEnoughForPlainCodeAndForPrinting) {
    Attributes attributes;
    attributes.stack(FIBER_STACK_MIN);
    int sum = 0;
    auto plain = [&] {
        for (int i = 0; i < 10; ++i) {
            sum += i;
            if (fiber_reschedule() != 0) sum = -1000;
        }
    };
    char text[64] = {};
    auto print = [&] {
        snprintf(text, sizeof text, "%d %s", 12345, "printed");
        if (fiber_reschedule() != 0) text[0] = 0;
    };
    fiber_t one = create(plain, attributes), two = create(print, attributes);
    EXPECT_EQ(fiber_wakeup(one), 0);
    EXPECT_EQ(fiber_wakeup(two), 0);
    join(one);
    join(two);
    EXPECT_EQ(sum, 45);
    EXPECT_STREQ(text, "12345 printed");
}

TEST(StackTest, LongjmpWithinAFiber) {
    auto body = [] {
        jmp_buf back;
        volatile int rounds = 0;
        if (setjmp(back) < 3) {
            rounds = rounds + 1;
            EXPECT_EQ(fiber_reschedule(), 0);
            longjmp(back, rounds);
        }
        EXPECT_EQ(rounds, 3);
    };
    fiber_t one = spawn(body), two = spawn(body);
    join(one);
    join(two);
}

// Is a byte of this process readable? The kernel says so without a signal.
bool readable(const Pipe &probe, uint64_t address) {
    const ssize_t put = ::write(probe.write_end, reinterpret_cast<const void *>(address), 1);
    char byte;
    if (put == 1) return ::read(probe.read_end, &byte, 1) == 1;
    EXPECT_EQ(errno, EFAULT);
    return false;
}

TEST(GuardTest, TenThousandFibersAtOnceAreAllGuarded) {
    constexpr int count = 10000;
    Pipe probe;
    Attributes attributes;
    attributes.stack(16384);
    auto body = [] { (void)fiber_yield(); };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < count; ++i) {
        fibers.push_back(create(body, attributes));
        ASSERT_EQ(fiber_wakeup(fibers.back()), 0);
    }
    ASSERT_EQ(fiber_reschedule(), 0);
    int usable = 0, guarded = 0;
    for (fiber_t fiber : fibers) {
        const fiber_info_t about = info(fiber);
        usable += about.stack_low != 0 && readable(probe, about.stack_low);
        guarded += !readable(probe, about.stack_low - 1) && !readable(probe, about.stack_low - 65536);
    }
    EXPECT_EQ(usable, count);
    EXPECT_EQ(guarded, count);
    for (fiber_t fiber : fibers) ASSERT_EQ(fiber_wakeup(fiber), 0);
    for (fiber_t fiber : fibers) ASSERT_EQ(fiber_join(fiber, nullptr), 0);
}

TEST(GuardTest, ReusedStacksAreGuardedStill) {
    Pipe probe;
    for (int i = 0; i < 20; ++i) {
        auto body = [&] {
            const fiber_info_t about = info(self());
            EXPECT_GT(descend_to(about.stack_low, 0), 10);
            EXPECT_TRUE(readable(probe, about.stack_low));
            EXPECT_FALSE(readable(probe, about.stack_low - 1));
        };
        run(body);
    }
}

class OverflowDeathTest : public testing::Test {
protected:
    void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

volatile bool go_on = true;

__attribute__((noinline)) int recurse_for_ever(int depth) {
    volatile char frame[512];
    for (volatile char &byte : frame) byte = static_cast<char>(depth);
    return (go_on ? recurse_for_ever(depth + 1) : 0) + frame[depth % 512];
}

uint64_t guard_begin, guard_end;

void overflow_in_a_fiber(size_t size) {
    Attributes attributes;
    auto body = [] {
        const fiber_info_t about = info(self());
        guard_end = about.stack_low;
        guard_begin = guard_end - FIBER_GUARD_SIZE_DEFAULT;
        (void)recurse_for_ever(0);
    };
    fiber_t fiber = create(body, attributes.stack(size));
    (void)fiber_wakeup(fiber);
    _exit(fiber_join(fiber, nullptr) == 0 ? 98 : 97);
}

TEST_F(OverflowDeathTest, ItIsASegmentationFault) {
    if (SANITIZED || FIBERRT_TEST_TSAN) {
        EXPECT_DEATH(overflow_in_a_fiber(65536), "stack-overflow|SEGV");
    } else {
        EXPECT_EXIT(overflow_in_a_fiber(65536), testing::KilledBySignal(SIGSEGV), "");
    }
}

TEST_F(OverflowDeathTest, TheFaultIsInTheGuard) {
    for (size_t size : {size_t(16384), FIBER_STACK_DEFAULT, size_t(4) << 20}) {
        EXPECT_EXIT(
            {
                static char signal_stack[65536];
                stack_t alternative = {};
                alternative.ss_sp = signal_stack;
                alternative.ss_size = sizeof signal_stack;
                (void)::sigaltstack(&alternative, nullptr);
                struct sigaction action = {};
                action.sa_flags = SA_SIGINFO | SA_ONSTACK;
                action.sa_sigaction = [](int, siginfo_t *fault, void *) {
                    const uint64_t at = reinterpret_cast<uint64_t>(fault->si_addr);
                    _exit(at >= guard_begin && at < guard_end ? 42 : 43);
                };
                (void)::sigaction(SIGSEGV, &action, nullptr);
                overflow_in_a_fiber(size);
            },
            testing::ExitedWithCode(42), "");
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Backtraces
// ---------------------------------------------------------------------------------------------------------------

constexpr size_t most_frames = 100;

struct Trace { // allocates nothing: it is also taken in a signal handler
    _Unwind_Reason_Code end = _URC_NO_REASON;
    size_t size = 0;
    void *functions[most_frames] = {};

    bool contains(void *function) const { return std::find(functions, functions + size, function) != functions + size; }
    bool same_functions(const Trace &other) const {
        return std::equal(functions, functions + size, other.functions, other.functions + other.size);
    }
};

_Unwind_Reason_Code add_frame(_Unwind_Context *context, void *argument) {
    Trace &trace = *static_cast<Trace *>(argument);
    if (trace.size == most_frames) return _URC_NORMAL_STOP; // it does not end
    int before_call = 0;
    const uintptr_t at = _Unwind_GetIPInfo(context, &before_call) - (before_call ? 0 : 1);
    trace.functions[trace.size++] = _Unwind_FindEnclosingFunction(reinterpret_cast<void *>(at));
    return _URC_NO_REASON;
}

__attribute__((noinline)) void take_trace(Trace &trace) {
    trace = Trace();
    trace.end = _Unwind_Backtrace(add_frame, &trace);
    __asm__ volatile("" : : "r"(&trace) : "memory"); // no tail call: this frame is part of the trace
}

void expect_ends(const Trace &trace, void *function, const char *where) {
    EXPECT_EQ(trace.end, _URC_END_OF_STACK) << where;
    EXPECT_LT(trace.size, most_frames) << where << ": it goes on for ever";
    EXPECT_GE(trace.size, 2u) << where;
    if (function) {
        EXPECT_TRUE(trace.contains(function)) << where << ": the fiber's function is not in it";
    }
}

Trace traces[3];

__attribute__((noinline)) void *traced_function(void *argument) {
    take_trace(traces[0]);
    (void)fiber_reschedule();
    take_trace(traces[1]);
    (void)fiber_sleep(FIBER_USEC(10));
    take_trace(traces[2]);
    return argument;
}

TEST(BacktraceTest, OfAFreshFiberAndAfterSwitches) {
    fiber_t spawned{}, started{};
    void *const function = reinterpret_cast<void *>(traced_function);
    ASSERT_EQ(fiber_spawn(&spawned, traced_function, nullptr), 0);
    join(spawned);
    for (const Trace &trace : traces) expect_ends(trace, function, "spawned");
    ASSERT_EQ(fiber_new(&started, nullptr, traced_function, nullptr), 0);
    ASSERT_EQ(fiber_start(started), 0);
    expect_ends(traces[0], function, "started");
    join(started);
    for (const Trace &trace : traces) expect_ends(trace, function, "started");
}

TEST(BacktraceTest, ItIsTheSameBeforeAndAfterASwitch) {
    fiber_t fiber{};
    ASSERT_EQ(fiber_spawn(&fiber, traced_function, nullptr), 0);
    join(fiber);
    EXPECT_TRUE(traces[0].same_functions(traces[1]));
    EXPECT_TRUE(traces[0].same_functions(traces[2]));
}

TEST(BacktraceTest, OfTheMainFlow) {
    Trace before, after;
    take_trace(before);
    auto body = [] { EXPECT_EQ(fiber_reschedule(), 0); };
    run(body);
    take_trace(after);
    expect_ends(after, nullptr, "main flow");
    EXPECT_TRUE(before.same_functions(after));
}

Trace destructor_trace;

void trace_in_destructor(void *) { take_trace(destructor_trace); }

__attribute__((noinline)) void *ends_by_return(void *key) {
    EXPECT_EQ(fiber_key_set(*static_cast<fiber_key_t *>(key), key), 0);
    return nullptr;
}

__attribute__((noinline)) void *ends_by_exit(void *key) {
    EXPECT_EQ(fiber_key_set(*static_cast<fiber_key_t *>(key), key), 0);
    (void)fiber_exit(nullptr);
    return key;
}

TEST(BacktraceTest, FromAKeysDestructor) {
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, trace_in_destructor), 0);
    fiber_t fiber{};
    ASSERT_EQ(fiber_spawn(&fiber, ends_by_return, &key), 0);
    join(fiber);
    expect_ends(destructor_trace, reinterpret_cast<void *>(trace_in_destructor), "after a return");
    destructor_trace = Trace();
    ASSERT_EQ(fiber_spawn(&fiber, ends_by_exit, &key), 0);
    join(fiber);
    expect_ends(destructor_trace, reinterpret_cast<void *>(trace_in_destructor), "in fiber_exit");
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(BacktraceTest, FromASignalHandlerInAFiber) {
    static Trace trace;
    struct sigaction action = {}, before = {};
    action.sa_handler = [](int) { take_trace(trace); };
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
    struct Raiser {
        __attribute__((noinline)) static void *function(void *argument) {
            (void)::raise(SIGUSR1);
            return argument;
        }
    };
    fiber_t fiber{};
    ASSERT_EQ(fiber_spawn(&fiber, Raiser::function, nullptr), 0);
    join(fiber);
    expect_ends(trace, reinterpret_cast<void *>(Raiser::function), "in a signal handler");
    ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

} // namespace
