// SPDX-License-Identifier: MIT OR Apache-2.0
// Main flows are fibers too; and the fate of fibers when their thread or the process ends.
#include "conformance.h"
#include "support.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace support;

namespace {

void a_main_flow_is_a_fiber() {
    fiber_t me = self();
    EXPECT_EQ(fiber_state(me), FIBER_RUNNING);
    EXPECT_EQ(info(me).main_flow, 1);
    EXPECT_EQ(info(me).stack_size, 0u); // its stack is not the library's
    EXPECT_EQ(info(me).stack_low, 0u);
    EXPECT_EQ(self().id, me.id);

    int state = -1;
    auto waking = [&] {
        state = fiber_state(me);
        EXPECT_EQ(fiber_wakeup_value(me, pointer(6)), 0);
    };
    fiber_t waker = spawn(waking);
    void *value = nullptr;
    EXPECT_EQ(fiber_yield_value(&value), 0);
    EXPECT_EQ(value, pointer(6));
    EXPECT_EQ(state, FIBER_WAITING);
    join(waker);

    int64_t begin = fiber_now();
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
    EXPECT_GE(fiber_now() - begin, FIBER_MSEC(2));
    EXPECT_EQ(fiber_yield_timeout(FIBER_MSEC(1)), -ETIMEDOUT);

    fiber_t seen{};
    auto joinable = [&] {
        seen = self();
        EXPECT_EQ(info(seen).main_flow, 0);
        EXPECT_EQ(fiber_state(me), FIBER_WAITING);
        return pointer(7);
    };
    EXPECT_EQ(run(joinable), pointer(7));
    EXPECT_NE(seen.id, me.id);

    if (!FIBERRT_TEST_IO) return;
    Pipe pipe;
    char byte = 0;
    EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
}

// Fibers in every state, to be left behind when their thread ends. None of them may ever run on.
struct LeftBehind {
    std::vector<fiber_t> fibers;
    Pipe pipe;
    bool ran_on = false;

    std::function<void()> sleeping = [this] {
        fiber_sleep(FIBER_SEC(3600));
        ran_on = true;
    };
    std::function<void()> yielding = [this] {
        fiber_yield();
        ran_on = true;
    };
    std::function<void()> rescheduling = [this] {
        fiber_reschedule();
        ran_on = true;
    };
    std::function<void()> reading = [this] {
        char buffer[64]; // on its stack: the kernel must let go of it before the stack is freed
        if (fiber_read(pipe.read_end, buffer, sizeof buffer) == -ENOTSUP) fiber_yield(); // built without I/O
        ran_on = true;
    };
    std::function<void()> joining = [this] { ran_on = fiber_join(fibers[0], nullptr) <= 0; };
    std::function<void()> in_a_scope = [this] {
        fiber_scope_t scope{};
        fiber_scope_open(&scope, FIBER_SEC(3600), 0);
        fiber_yield();
        ran_on = true;
    };
    std::function<void()> ending = [] {};
    std::function<void()> never = [this] { ran_on = true; };

    void make() {
        for (auto *body : {&sleeping, &yielding, &reading, &joining, &in_a_scope, &ending})
            fibers.push_back(start(*body));
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0); // the read reaches the kernel
        fibers.push_back(start(rescheduling));
        fibers.push_back(spawn(never));
        fibers.push_back(create(never));
    }
};

} // namespace

TEST(MainFlow, OfTheFirstThreadIsAFiber) { a_main_flow_is_a_fiber(); }

TEST(MainFlow, OfAnotherThreadIsAFiber) {
    in_thread([] { a_main_flow_is_a_fiber(); });
}

TEST(MainFlow, OfEveryThreadIsAFiberOfItsOwn) {
    fiber_t here = self(), there{};
    in_thread([&] { there = self(); });
    EXPECT_NE(here.id, there.id);
    EXPECT_EQ(self().id, here.id);
}

TEST(MainFlow, CanBeJoinedByItsFibersUntilTheyGiveUp) {
    fiber_t main_flow = self();
    run([&] { EXPECT_EQ(fiber_join_timeout(main_flow, nullptr, FIBER_MSEC(1)), -ETIMEDOUT); });
}

// Else the cord would wait for the fiber, and the fiber for the cord's main flow.
TEST(MainFlow, ThatHasReturnedIsAwaitedByNoFiberOfItsCord) {
    struct Told {
        fiber_t main_flow{};
        int await = 1, join = 1, later_await = 1, later_join = 1;
    } told;
    auto function = [](void *argument) -> void * {
        auto &its = *static_cast<Told *>(argument);
        its.main_flow = self();
        auto awaits = [](void *argument) -> void * {
            auto &its = *static_cast<Told *>(argument);
            its.await = fiber_await(its.main_flow);
            its.later_await = fiber_await(its.main_flow);
            its.later_join = fiber_join(its.main_flow, nullptr);
            return nullptr;
        };
        auto joins = [](void *argument) -> void * {
            auto &its = *static_cast<Told *>(argument);
            its.join = fiber_join(its.main_flow, nullptr);
            return nullptr;
        };
        EXPECT_EQ(fiber_spawn(nullptr, awaits, argument), 0);
        EXPECT_EQ(fiber_spawn(nullptr, joins, argument), 0);
        EXPECT_EQ(fiber_reschedule(), 0); // both wait
        return nullptr;
    };
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, function, &told), 0);
    ASSERT_EQ(fiber_cord_join(cord, nullptr), 0);
    EXPECT_EQ(told.await, -EOWNERDEAD);
    EXPECT_EQ(told.join, -EOWNERDEAD);
    EXPECT_EQ(told.later_await, -EOWNERDEAD);
    EXPECT_EQ(told.later_join, -EOWNERDEAD);
}

// From another cord, too: two cords whose fibers await each other's main flows would never end.
TEST(MainFlow, ThatHasReturnedIsAwaitedByNoFiberOfAnotherCord) {
    NEEDS_THREADS();
    struct There {
        fiber_t main_flow{};
        std::atomic<bool> returned{false}, may_end{false};
    } there;
    auto function = [](void *argument) -> void * {
        auto &its = *static_cast<There *>(argument);
        its.main_flow = self();
        auto lasts = [](void *argument) -> void * {
            auto &its = *static_cast<There *>(argument);
            its.returned = true; // it runs first when the main flow's function has given the thread away
            while (!its.may_end) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            return nullptr;
        };
        EXPECT_EQ(fiber_spawn(nullptr, lasts, argument), 0);
        return nullptr;
    };
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, function, &there), 0);
    while (!there.returned) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
    EXPECT_EQ(fiber_join(there.main_flow, nullptr), -EOWNERDEAD);
    EXPECT_EQ(fiber_await(there.main_flow), -EOWNERDEAD);
    fiber_case_t one{};
    one.kind = FIBER_CASE_JOIN;
    one.fiber = there.main_flow;
    EXPECT_EQ(fiber_select(&one, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(one.result, -EOWNERDEAD);
    there.may_end = true;
    ASSERT_EQ(fiber_cord_join(cord, nullptr), 0);
}

TEST(MainFlow, TwoThreadsRunTheirFibersSideBySide) {
    NEEDS_THREADS();
    int total[2] = {};
    auto work = [](int *count) {
        auto body = [&] {
            for (int i = 0; i < 1000; i++) {
                (*count)++;
                EXPECT_EQ(fiber_reschedule(), 0);
            }
        };
        fiber_t fibers[4];
        for (fiber_t &fiber : fibers) fiber = spawn(body);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        for (fiber_t fiber : fibers) join(fiber);
    };
    std::thread a(work, &total[0]), b(work, &total[1]);
    a.join();
    b.join();
    EXPECT_EQ(total[0], 4000);
    EXPECT_EQ(total[1], 4000);
}

// ---- the end of a thread --------------------------------------------------------------------------------------------

TEST(ThreadEnd, WithLiveFibersFreesThemAndTheirHandlesAreStale) {
    NEEDS_THREADS();
    LeftBehind left;
    fiber_t main_flow{};
    in_thread([&] {
        main_flow = self();
        left.make();
    });
    EXPECT_FALSE(left.ran_on);
    EXPECT_EQ(left.fibers.size(), 9u);
    for (fiber_t fiber : left.fibers) {
        EXPECT_EQ(fiber_state(fiber), -ESRCH);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), -ESRCH);
        EXPECT_EQ(fiber_wakeup(fiber), -ESRCH);
        EXPECT_EQ(fiber_join(fiber, nullptr), -ESRCH);
    }
    EXPECT_EQ(fiber_state(main_flow), -ESRCH);
    // The read was taken back: no operation takes the bytes that are written now.
    EXPECT_EQ(write(left.pipe.write_end, "mine", 4), 4);
    char buffer[8] = {};
    EXPECT_EQ(read(left.pipe.read_end, buffer, sizeof buffer), 4);
    EXPECT_STREQ(buffer, "mine");
}

TEST(ThreadEnd, LaterThreadsDoNotMeetTheFibersOfAnEarlierOne) {
    NEEDS_THREADS();
    LeftBehind left;
    in_thread([&] { left.make(); });
    in_thread([&] {
        auto body = [] { EXPECT_EQ(fiber_reschedule(), 0); };
        std::vector<fiber_t> fibers(20);
        for (fiber_t &fiber : fibers) fiber = spawn(body);
        for (fiber_t fiber : left.fibers) {
            EXPECT_EQ(fiber_state(fiber), -ESRCH);
            EXPECT_EQ(fiber_cancel(fiber, nullptr), -ESRCH);
        }
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        for (fiber_t fiber : fibers) join(fiber);
    });
    EXPECT_FALSE(left.ran_on);
}

TEST(ThreadEnd, ByPthreadExitOfTheMainFlow) {
    NEEDS_THREADS();
    LeftBehind left;
    pthread_t thread;
    auto body = [](void *arg) -> void * {
        static_cast<LeftBehind *>(arg)->make();
        pthread_exit(arg);
    };
    ASSERT_EQ(pthread_create(&thread, nullptr, body, &left), 0);
    void *result = nullptr;
    EXPECT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, &left);
    EXPECT_FALSE(left.ran_on);
    for (fiber_t fiber : left.fibers) EXPECT_EQ(fiber_state(fiber), -ESRCH);
}

TEST(ThreadEnd, OneHundredThreadsInTurnLeaveNothing) {
    NEEDS_THREADS();
    std::set<uint64_t> ids;
    auto round = [&] {
        in_thread([&] {
            LeftBehind left;
            left.make();
            for (fiber_t fiber : left.fibers) EXPECT_TRUE(ids.insert(fiber.id).second);
            EXPECT_TRUE(ids.insert(self().id).second);
            // LeftBehind is gone before the thread's cord is, as any object on a thread's stack: close its pipe only
            // after the reader that is left behind has been stopped.
            EXPECT_EQ(fiber_cancel(left.fibers[2], nullptr), 0);
            expect_joined(fiber_join(left.fibers[2], nullptr));
            auto body = [] {
                volatile char memory[64 * 1024]; // a stack of the pool that was really used
                for (size_t i = 0; i < sizeof memory; i += 4096) memory[i] = 1;
                EXPECT_EQ(fiber_reschedule(), 0);
            };
            for (int i = 0; i < 10; i++) start(body);
        });
    };
    for (int i = 0; i < 10; i++) round();
    int mappings = mapping_count();
    long resident = resident_kib();
    for (int i = 0; i < 100; i++) round();
    EXPECT_LE(mapping_count(), mappings + mapping_slack);
    // Each round used more than 640 KiB of stacks, all of them 64 MB.
    if (under_qemu()) {
        puts("resident memory was not checked: qemu keeps some for each thread");
    } else {
        EXPECT_LT(resident_kib() - resident, resident_slack_kib);
    }
}

TEST(ThreadEnd, WithoutACordIsNothingSpecial) {
    in_thread([] {
        EXPECT_EQ(fiber_wakeup(fiber_t{}), -EINVAL);
        EXPECT_GT(fiber_now(), 0);
    });
}

// ---- the end of the process -----------------------------------------------------------------------------------------

namespace {

bool leaks_are_not_checked = false;

// Fibers that must never run again; they would end the process with another status.
void leave_fibers_that_would_tell() {
    auto telling = [](void *wait) -> void * {
        int (*call)() = reinterpret_cast<int (*)()>(wait);
        call();
        _exit(99);
    };
    int (*const waits[])() = {
        [] { return fiber_yield(); },
        [] { return fiber_sleep(FIBER_MSEC(1)); },
        [] { return fiber_reschedule(); },
        [] {
            char byte;
            const int64_t result = fiber_read(0, &byte, 1);
            return result == -ENOTSUP ? fiber_yield() : static_cast<int>(result); // built without I/O
        },
    };
    for (auto *wait : waits) {
        fiber_t fiber{};
        CHILD_CHECK(fiber_new(&fiber, nullptr, telling, reinterpret_cast<void *>(wait)) == 0);
        CHILD_CHECK(fiber_start(fiber) == 0);
    }
    CHILD_CHECK(fiber_spawn(nullptr, telling, reinterpret_cast<void *>(waits[0])) == 0);
}

// LeakSanitizer searches the stack that the process ends on, and the main flow's objects are not on a fiber's.
void end_without_leak_check() { leaks_are_not_checked = true; }

// Standard input that never becomes readable.
void silent_stdin() {
    int ends[2];
    CHILD_CHECK(::pipe(ends) == 0);
    CHILD_CHECK(dup2(ends[0], 0) == 0);
}

} // namespace

// LeakSanitizer asks this of the program, if it is linked in.
extern "C" int __lsan_is_turned_off() { return leaks_are_not_checked; }

TEST(ProcessEnd, ByExitInTheMainFlowNoFiberRunsAgain) {
    NOT_ON_SIM("has one process");
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            silent_stdin();
            leave_fibers_that_would_tell();
            burn(FIBER_MSEC(2)); // the sleeper is due
            std::exit(7);
        },
        testing::ExitedWithCode(7), "");
}

TEST(ProcessEnd, ByExitInAFiberNoFiberRunsAgainAndExitHandlersRun) {
    NOT_ON_SIM("has one process");
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            silent_stdin();
            auto exiting = [](void *) -> void * {
                std::atexit([] {
                    static const char text[] = "exit handler ran\n";
                    if (write(2, text, sizeof text - 1) < 0) _exit(98);
                });
                leave_fibers_that_would_tell();
                burn(FIBER_MSEC(2));
                end_without_leak_check();
                std::exit(8);
            };
            fiber_t fiber{};
            CHILD_CHECK(fiber_new(&fiber, nullptr, exiting, nullptr) == 0);
            fiber_start(fiber);
            _exit(97);
        },
        testing::ExitedWithCode(8), "exit handler ran");
}

// A function that exit() calls is as any other of the main flow.
TEST(ProcessEnd, AFiberThatAnExitHandlerSpawnsRuns) {
    NOT_ON_SIM("has one process");
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            silent_stdin();
            CHILD_CHECK(fiber_sleep(0) == 0); // there is a cord
            std::atexit([] {
                auto body = [](void *) -> void * { return fiber_sleep(FIBER_MSEC(1)) ? nullptr : pointer(5); };
                fiber_t fiber{};
                void *result = nullptr;
                if (fiber_spawn(&fiber, body, nullptr) || fiber_join(fiber, &result)) _exit(97);
                end_without_leak_check();
                _exit(result == pointer(5) ? 6 : 98);
            });
            std::exit(7);
        },
        testing::ExitedWithCode(6), "");
}

TEST(ProcessEnd, ByExitInAThreadWithLiveFibers) {
    NEEDS_THREADS();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            silent_stdin();
            std::thread thread([] {
                leave_fibers_that_would_tell();
                std::exit(9);
            });
            thread.join();
        },
        testing::ExitedWithCode(9), "");
}

TEST(ProcessEnd, AnExceptionThatLeavesAFiberTerminates) {
    NOT_ON_SIM("has one process");
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            auto throwing = [](void *) -> void * { throw 1; };
            fiber_t fiber{};
            CHILD_CHECK(fiber_new(&fiber, nullptr, throwing, nullptr) == 0);
            fiber_start(fiber);
            _exit(0);
        },
        testing::KilledBySignal(SIGABRT), "");
}
