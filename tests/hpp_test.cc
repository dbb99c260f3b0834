// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt.hpp: its additions to fiberrt.h, here for fibers, cords, pools and scopes. Above all: each captured object is
// destroyed exactly once, and exceptions arrive where the header says. Compiled as C++17 and as C++20.
#include "hpp_support.h"

#include <functional>
#include <limits>
#include <memory>
#include <sched.h>
#include <stdexcept>
#include <thread>
#include <tuple>

// ---- errors, time ---------------------------------------------------------------------------------------------------

TEST(Error, IsASystemErrorWithTheErrno) {
    try {
        f::check(-EPIPE, "fiber_send");
        FAIL();
    } catch (const std::system_error& e) {
        EXPECT_EQ(e.code(), std::errc::broken_pipe);
        EXPECT_EQ(e.code().value(), EPIPE);
        EXPECT_EQ(std::string(e.what()).find("fiber_send: "), 0u);
    }
}

TEST(Error, ThreeKindsConcernTheCaller) {
    EXPECT_THROW(f::check(-ECANCELED), f::cancelled);
    EXPECT_THROW(f::check(-EINTR), f::interrupted);
    EXPECT_THROW(f::check(-ETIMEDOUT), f::timed_out);
    EXPECT_EQ(f::check(7), 7);
    EXPECT_EQ(f::check(std::int64_t(1) << 40), std::int64_t(1) << 40);
}

TEST(Time, IsRoundedUpAndKeptInBounds) {
    using f::detail::timeout;
    EXPECT_EQ(timeout(1ms), 1000000);
    EXPECT_EQ(timeout(-1s), 0);
    EXPECT_EQ(timeout(0s), 0);
    EXPECT_EQ(timeout(std::chrono::duration<double, std::nano>(1.5)), 2);
    EXPECT_EQ(timeout(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())), 0);
    EXPECT_EQ(timeout(std::chrono::hours::max()), FIBER_FOREVER);
    EXPECT_EQ(timeout(std::chrono::duration<double>(1e300)), FIBER_FOREVER);
    EXPECT_EQ(timeout(f::forever), FIBER_FOREVER);
    EXPECT_EQ(f::detail::timeout_until(f::clock::now() - 1s), 0);
    EXPECT_EQ(f::detail::timeout_until(std::chrono::steady_clock::time_point::min()), 0);
    EXPECT_EQ(f::detail::timeout_until(f::clock::time_point::max()), FIBER_FOREVER);
    using coarse = std::chrono::time_point<std::chrono::system_clock, std::chrono::seconds>;
    EXPECT_EQ(f::detail::timeout_until(coarse::max()), FIBER_FOREVER);
    EXPECT_EQ(f::detail::timeout_until(coarse::min()), 0);
    auto in_a_minute = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now()) + 61s;
    EXPECT_GT(f::detail::timeout_until(in_a_minute), 0);
    EXPECT_LE(f::detail::timeout_until(in_a_minute), FIBER_SEC(61));
}

TEST(Time, SleepsEndAfterTheirTime) {
    auto begun = f::clock::now();
    f::sleep_for(2ms);
    EXPECT_GE(f::clock::now() - begun, 2ms);
    f::sleep_until(begun + 5ms);
    EXPECT_GE(f::clock::now() - begun, 5ms);
    f::sleep_for(-1s);
}

// ---- fibers ---------------------------------------------------------------------------------------------------------

TEST(Fiber, ReturnsValuesOfAllSorts) {
    int variable = 0;
    EXPECT_EQ(f::spawn([] { return 42; }).join(), 42);
    EXPECT_EQ(f::spawn([] { return std::string(1000, 'x'); }).join().size(), 1000u);
    EXPECT_EQ(*f::spawn([] { return std::make_unique<int>(7); }).join(), 7);
    EXPECT_EQ(&f::spawn([&] { return std::ref(variable); }).join().get(), &variable);
    f::spawn([&] { variable = 5; }).join();
    EXPECT_EQ(variable, 5);
    struct NoDefault {
        explicit NoDefault(int n) : value(n) {}
        int value;
    };
    EXPECT_EQ(f::spawn([] { return NoDefault(3); }).join().value, 3);
}

TEST(Fiber, RunsFunctionsThatCanOnlyBeMovedAndDestroysThemOnItsOwnStack) {
    int alive = 0;
    int alive_after_end = -1;
    auto joined = f::spawn([token = Token(alive), words = std::make_unique<int>(3)] { return *words; });
    EXPECT_EQ(alive, 1);
    joined.wait();
    alive_after_end = alive; // not when it is joined
    EXPECT_EQ(alive_after_end, 0);
    EXPECT_EQ(joined.join(), 3);
    std::function<int()> copied = [] { return 9; };
    EXPECT_EQ(f::spawn(copied).join(), 9);
    EXPECT_EQ(f::spawn(std::move(copied)).join(), 9);
}

TEST(Fiber, CarriesExceptionsToJoin) {
    int alive = 0;
    auto thrower = f::spawn([token = Token(alive)] {
        f::sleep_for(1ms);
        throw std::out_of_range("far away");
    });
    EXPECT_EQ(message_of<std::out_of_range>([&] { thrower.join(); }), "far away");
    EXPECT_FALSE(thrower.joinable());
    EXPECT_EQ(alive, 0);
    auto number = f::spawn([]() -> int { throw 5; });
    try {
        number.join();
        FAIL();
    } catch (int n) {
        EXPECT_EQ(n, 5);
    }
}

TEST(Fiber, UnwindsWhenItIsCancelled) {
    int alive = 0;
    auto sleeper = f::spawn([&] {
        Token token(alive);
        f::sleep_for(hang);
    });
    f::this_fiber::reschedule();
    EXPECT_EQ(alive, 1);
    sleeper.cancel();
    sleeper.wait();
    EXPECT_EQ(alive, 0);
    EXPECT_THROW(sleeper.join(), f::cancelled);
}

TEST(Fiber, CancelledBeforeItRanHasDestroyedItsFunction) {
    int alive = 0;
    bool ran = false;
    auto never = f::spawn([&ran, token = Token(alive)] { ran = true; });
    never.cancel();
    EXPECT_EQ(code_of([&] { never.join(); }), ECANCELED);
    EXPECT_FALSE(ran);
    EXPECT_EQ(alive, 0);
    auto again = f::spawn([token = Token(alive)] {});
    again.cancel();
    again.wait(); // speaks of the caller, which is not cancelled
    EXPECT_NO_THROW(EXPECT_FALSE(f::this_fiber::cancelled()));
    try {
        again.join();
    } catch (const f::cancelled&) {
        FAIL() << "that would speak of the caller";
    } catch (const f::error& e) {
        EXPECT_EQ(e.code(), std::errc::operation_canceled);
    }
    EXPECT_EQ(alive, 0);
}

TEST(Fiber, DestroyedIsCancelledAndJoined) {
    int alive = 0;
    bool cancelled = false;
    {
        auto sleeper = f::spawn([&] {
            Token token(alive);
            try {
                f::sleep_for(hang);
            } catch (const f::cancelled&) {
                cancelled = true;
                f::shield here;
                f::sleep_for(1ms); // the handle's destructor waits for this too
                throw;
            }
        });
        auto never = f::spawn([token = Token(alive)] {});
        f::this_fiber::reschedule();
    }
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(alive, 0);
}

TEST(Fiber, DestructorWaitsAlsoInACancelledFiberAndDuringUnwinding) {
    int alive = 0;
    auto outer = f::spawn([&] {
        auto inner = f::spawn([&] {
            Token token(alive);
            try {
                f::sleep_for(hang);
            } catch (const f::cancelled&) {
                f::shield here;
                for (int i = 0; i < 3; i++) f::this_fiber::reschedule();
                throw;
            }
        });
        f::this_fiber::reschedule();
        f::sleep_for(hang); // throws; the inner one is awaited during the unwinding
    });
    auto bystander = f::spawn([] {
        for (int i = 0; i < 5; i++) {
            try {
                throw i;
            } catch (int caught) {
                f::this_fiber::reschedule();
                EXPECT_EQ(caught, i);
                EXPECT_EQ(std::uncaught_exceptions(), 0);
            }
        }
    });
    f::this_fiber::reschedule();
    f::this_fiber::reschedule();
    outer.cancel();
    EXPECT_THROW(outer.join(), f::cancelled);
    EXPECT_EQ(alive, 0);
    bystander.join();
}

TEST(Fiber, DestroyedWhereNothingMayWaitIsCancelledAndDetached) {
    int alive = 0;
    {
        f::noswitch section;
        auto left = f::spawn([token = Token(alive)] {});
    }
    f::this_fiber::reschedule();
    EXPECT_EQ(alive, 0);
}

TEST(Fiber, HandleIsMovedAndKnowsWhenItNamesNone) {
    f::fiber<int> none;
    EXPECT_FALSE(none.joinable());
    EXPECT_EQ(code_of([&] { none.join(); }), EINVAL);
    EXPECT_EQ(code_of([&] { none.cancel(); }), EINVAL);
    EXPECT_EQ(code_of([&] { none.detach(); }), EINVAL);
    f::fiber<int> one = f::spawn([] { return 1; });
    f::fiber<int> other = std::move(one);
    EXPECT_FALSE(one.joinable()); // NOLINT: the state after the move is under test
    EXPECT_TRUE(other.joinable());
    bool ended = false;
    auto sleeper = f::spawn([&] {
        try {
            return f::sleep_for(hang), 2;
        } catch (...) {
            ended = true;
            throw;
        }
    });
    f::this_fiber::reschedule();
    sleeper = std::move(other); // ends the one that it named
    EXPECT_TRUE(ended);
    f::fiber<int>& same = sleeper;
    sleeper = std::move(same);
    EXPECT_EQ(sleeper.join(), 1);
    EXPECT_EQ(code_of([&] { sleeper.join(); }), EINVAL);
}

TEST(Fiber, WaitsForATime) {
    f::event go;
    auto waiting = f::spawn([go] { return go.wait(), 8; });
    EXPECT_FALSE(waiting.wait_for(1ms));
    EXPECT_FALSE(waiting.wait_for(0s));
    EXPECT_FALSE(waiting.wait_until(f::clock::now() + 1ms));
    go.set();
    EXPECT_TRUE(waiting.wait_for(hang));
    EXPECT_TRUE(waiting.wait_for(0s));
    EXPECT_EQ(waiting.join(), 8);
}

TEST(Fiber, JoinThatIsInterruptedCanBeMadeAgain) {
    fiber_t me = f::this_fiber::self();
    f::event go;
    auto waiting = f::spawn([go] { return go.wait(), 8; });
    auto interrupter = f::spawn([me] { f::check(fiber_interrupt(me, nullptr)); });
    EXPECT_THROW(waiting.join(), f::interrupted);
    EXPECT_TRUE(waiting.joinable());
    go.set();
    EXPECT_EQ(waiting.join(), 8);
    auto parked = f::spawn([] { f::this_fiber::park(); });
    auto other = f::spawn([] { f::this_fiber::park(); });
    f::this_fiber::reschedule();
    parked.wakeup();
    parked.join();
    other.interrupt();
    EXPECT_THROW(other.join(), f::interrupted);
}

TEST(Fiber, DetachedDestroysItsFunctionWhetherItRunsOrNot) {
    int alive = 0, ran = 0;
    f::spawn([&ran, token = Token(alive)] { ran++; }).detach();
    f::spawn_detached([&ran, token = Token(alive)] { ran++; });
    f::this_fiber::reschedule();
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(alive, 0);
    auto cancelled = f::spawn([&ran, token = Token(alive)] { ran++; });
    fiber_t handle = cancelled.handle();
    cancelled.detach();
    EXPECT_EQ(fiber_cancel(handle, nullptr), 0);
    f::this_fiber::reschedule();
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(alive, 0);
    auto ended = f::spawn([]() -> int { throw std::runtime_error("nobody asks"); });
    ended.wait();
    ended.detach(); // that exception is dropped
}

TEST(Fiber, ItsCapturesMayEndOtherFibersWhereNothingMayWait) {
    int alive = 0;
    auto other = f::spawn([token = Token(alive)] { f::sleep_for(hang); });
    f::this_fiber::reschedule();
    auto never = f::spawn([other = std::move(other)] {});
    never.cancel(); // destroys the handle of the other, which is cancelled and detached
    EXPECT_EQ(code_of([&] { never.join(); }), ECANCELED);
    f::this_fiber::reschedule();
    EXPECT_EQ(alive, 0);
}

TEST(Fiber, HasTheAttributesThatItWasGiven) {
    f::attributes attr;
    attr.name("named")
        .stack_size(FIBER_STACK_MIN * 4)
        .stack_reserve(FIBER_STACK_MIN)
        .guard(FIBER_GUARD_PREFER)
        .guard_size(FIBER_GUARD_SIZE_DEFAULT)
        .daemon(false);
    for (int i = 0; i < 2; i++) {
        auto fiber = f::spawn(attr, [] {
            fiber_info_t info;
            f::check(fiber_info(f::this_fiber::self(), &info, sizeof info));
            auto depth = info.stack_high - reinterpret_cast<uint64_t>(__builtin_frame_address(0));
            return std::make_tuple(std::string(info.name), info.stack_size, depth);
        });
        auto [name, size, depth] = fiber.join();
        EXPECT_EQ(name, "named");
        EXPECT_EQ(size, FIBER_STACK_MIN * 4);
        EXPECT_GT(depth, FIBER_STACK_MIN);
    }
    EXPECT_EQ(code_of([&] { attr.stack_size(1); }), EINVAL);
}

using FiberDeathTest = ::testing::Test;

// The exception's text is reported, like a fiber's name, before the program ends.
TEST(FiberDeathTest, AnExceptionThatLeavesADetachedFiberTerminates) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (simulated()) GTEST_SKIP() << "a simulation ends differently";
    EXPECT_DEATH(
        {
            f::spawn_detached(f::attributes().name("loner"), [] { throw std::runtime_error("nobody joins"); });
            f::this_fiber::reschedule();
        },
        "an exception left the function of fiber \"loner\"");
    EXPECT_DEATH(
        {
            f::spawn(f::attributes().name("let go"), [] {
                f::this_fiber::reschedule();
                throw std::runtime_error("nobody joins");
            }).detach();
            f::sleep_for(hang);
        },
        "an exception left the function of fiber \"let go\"");
}

// ---- ends of threads ------------------------------------------------------------------------------------------------

TEST(Ends, OfAThreadDestroyFunctionsThatHaveNotRun) {
    NEEDS_THREADS();
    int alive = 0;
    std::optional<f::fiber<int>> joinable;
    std::thread([&] {
        f::spawn_detached([token = Token(alive)] {});
        joinable = f::spawn([token = Token(alive)] { return 1; });
    }).join();
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(code_of([&] { joinable->join(); }), ESRCH);
}

TEST(Ends, OfAThreadLeaveStartedFunctionsToTheirHandles) {
    NEEDS_THREADS();
    int alive = 0;
    std::optional<f::fiber<>> begun;
    std::optional<f::fiber<int>> finished;
    std::thread([&] {
        begun = f::spawn([token = Token(alive)] { f::sleep_for(hang); });
        finished = f::spawn([token = Token(alive)] { return 5; });
        f::this_fiber::reschedule();
    }).join();
    EXPECT_NE(code_of([&] { begun->join(); }), 0);
    EXPECT_EQ(finished->join(), 5); // it had ended before
    EXPECT_EQ(alive, 0);
}

// std::optional alone does not promise that: libstdc++'s has forgotten its value by the time it destroys it, libc++'s
// has not.
TEST(Ends, OfAThreadDuringADestructorDoNotDestroyTwice) {
    NEEDS_THREADS();
    struct Waits {
        int* begun;
        explicit Waits(int& count) : begun(&count) {}
        Waits(Waits&& other) noexcept : begun(std::exchange(other.begun, nullptr)) {}
        Waits& operator=(Waits&&) = delete;
        ~Waits() {
            if (!begun) return;
            ++*begun;
            f::detail::waits_shielded here;
            fiber_sleep(FIBER_SEC(60));
        }
    };
    int begun = 0;
    std::optional<f::fiber<>> fiber;
    std::thread([&] {
        fiber = f::spawn([waits = Waits(begun)] {});
        f::this_fiber::reschedule();
        EXPECT_EQ(begun, 1);
    }).join();
    EXPECT_NE(code_of([&] { fiber->join(); }), 0);
    EXPECT_EQ(begun, 1);
}

TEST(Ends, AJoinerElsewhereLearnsOfADeadThread) {
    NEEDS_THREADS();
    int alive = 0;
    f::event made, waiting;
    f::fiber<> begun;
    std::thread thread([&] {
        begun = f::spawn([token = Token(alive)] { f::sleep_for(hang); });
        f::this_fiber::reschedule();
        made.set();
        waiting.wait();
    });
    made.wait();
    auto joiner = f::spawn([&] { return code_of([&] { begun.join(); }); });
    f::this_fiber::reschedule();
    waiting.set();
    int code = joiner.join();
    EXPECT_TRUE(code == EOWNERDEAD || code == ESRCH) << code;
    thread.join();
    EXPECT_EQ(alive, 0);
}

// ---- cords ----------------------------------------------------------------------------------------------------------

TEST(Cord, RunsItsFunctionAndFibersMadeOnIt) {
    f::event stop(FIBER_EVENT_MANUAL);
    f::cord worker([stop] { stop.wait(); });
    fiber_cord_t here;
    f::check(fiber_cord_self(&here));
    auto there = f::spawn(f::attributes().on(worker.handle()), [] {
        fiber_cord_t own;
        f::check(fiber_cord_self(&own));
        return own.id;
    });
    EXPECT_EQ(there.join(), worker.handle().id);
    EXPECT_NE(here.id, worker.handle().id);
    auto thrower = f::spawn(f::attributes().on(worker.handle()), []() -> int { throw std::out_of_range("there"); });
    EXPECT_EQ(message_of<std::out_of_range>([&] { thrower.join(); }), "there");
    int alive = 0;
    f::wait_group posted(1);
    worker.post([posted, token = std::make_shared<Token>(alive)]() mutable {
        token.reset();
        posted.done();
    });
    posted.wait();
    EXPECT_EQ(alive, 0);
    stop.set();
    worker.join();
    EXPECT_FALSE(worker.joinable());
}

TEST(Cord, CarriesTheExceptionOfItsFunction) {
    f::cord worker([] { throw std::out_of_range("a thread"); });
    EXPECT_EQ(message_of<std::out_of_range>([&] { worker.join(); }), "a thread");
}

TEST(Cord, DestroyedIsShutDownAndPostedFunctionsAreDestroyed) {
    int unwound = 0;
    std::atomic<int> alive{0};
    struct Counted {
        std::atomic<int>* alive;
        explicit Counted(std::atomic<int>& count) : alive(&count) { ++count; }
        ~Counted() { --*alive; }
    };
    f::event begun;
    {
        f::cord worker([&] {
            begun.set();
            try {
                f::sleep_for(hang);
            } catch (const f::cancelled&) {
                unwound++;
                throw;
            }
        });
        begun.wait();
        for (int i = 0; i < 100; i++) worker.post([token = std::make_shared<Counted>(alive)] { f::sleep_for(hang); });
    }
    EXPECT_EQ(unwound, 1);
    EXPECT_EQ(alive, 0);
}

// ---- pools ----------------------------------------------------------------------------------------------------------

TEST(Pool, RunsTasksAndDestroysThem) {
    std::atomic<int> sum{0};
    std::weak_ptr<int> watched;
    {
        f::pool workers(f::pool_attributes().workers(2).stack_size(64 * 1024).name("task").spin(10us));
        auto shared = std::make_shared<int>(1);
        watched = shared;
        f::wait_group all(100);
        for (int i = 0; i < 100; i++) {
            workers.submit([&sum, shared, all] {
                sum += *shared;
                all.done();
            });
        }
        all.wait();
        shared.reset();
        workers.close();
        EXPECT_TRUE(watched.expired());
        EXPECT_NE(code_of([&] { workers.submit([] {}); }), 0);
    }
    EXPECT_EQ(sum, 100);
}

TEST(Pool, HasEveryAttribute) {
    std::atomic<int> begun{0};
    auto begins = [](void* arg, int) { ++*static_cast<std::atomic<int>*>(arg); };
    cpu_set_t may;
    ASSERT_EQ(sched_getaffinity(0, sizeof may, &may), 0);
    int cpu = 0;
    while (!CPU_ISSET(std::size_t(cpu), &may)) cpu++;
    f::pool_attributes attr;
    attr.workers(2).affinity({cpu}, FIBER_POOL_ONE_OF).init(begins, &begun).task_limit(1).bound_help(false);
    f::pool workers(attr);
    f::bound_to_pool us(workers);
    std::atomic<int> now{0}, most{0}, wrong{0};
    const auto here = std::this_thread::get_id();
    f::wait_group all(20);
    for (int i = 0; i < 20; i++) {
        workers.submit([&, all] {
            int running = ++now;
            if (running > most) most = running;
            // In a simulation all cords are on one thread.
            if (!simulated() && (std::this_thread::get_id() == here || sched_getcpu() != cpu)) wrong++;
            f::sleep_for(100us);
            now--;
            all.done();
        });
    }
    all.wait();
    EXPECT_EQ(begun, 2);
    EXPECT_LE(most, 2); // one on each worker
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(code_of([&] { attr.task_limit(-1); }), EINVAL);
}

TEST(Pool, WithoutWorkersRunsOnTheThreadThatIsBound) {
    f::pool nobody(f::pool_attributes().workers(0));
    int alive = 0;
    EXPECT_EQ(code_of([&] { nobody.submit([token = Token(alive)] {}); }), ENXIO);
    EXPECT_EQ(alive, 0);
    bool ran = false;
    {
        f::bound_to_pool us(nobody);
        nobody.submit([&, token = Token(alive)] { ran = true; }, FIBER_TASK_SAME_THREAD);
    }
    EXPECT_TRUE(ran);
    EXPECT_EQ(alive, 0);
}

// ---- scopes ---------------------------------------------------------------------------------------------------------

TEST(Scope, WaitsForItsChildren) {
    int ended = 0;
    f::scope all;
    for (int i = 0; i < 5; i++) {
        all.spawn([&, i] {
            f::sleep_for(std::chrono::milliseconds(i));
            ended++;
        });
    }
    all.close();
    EXPECT_EQ(ended, 5);
    all.close(); // nothing more
}

TEST(Scope, ThrowsTheExceptionOfTheFirstFailedChildAndCancelsTheOthers) {
    int cancelled = 0;
    f::scope all;
    all.spawn([&] {
        try {
            f::sleep_for(hang);
        } catch (const f::cancelled&) {
            cancelled++;
            throw;
        }
    });
    all.spawn([] {
        f::this_fiber::reschedule();
        throw std::out_of_range("a child");
    });
    EXPECT_EQ(message_of<std::out_of_range>([&] { all.close(); }), "a child");
    EXPECT_EQ(cancelled, 1);
}

TEST(Scope, LeftByAnExceptionCancelsAndAwaitsItsChildren) {
    int alive = 0;
    EXPECT_THROW(
        {
            f::scope all;
            all.spawn([&] {
                Token token(alive);
                f::sleep_for(hang);
            });
            all.spawn([token = Token(alive)] { f::sleep_for(hang); });
            f::this_fiber::reschedule();
            throw std::runtime_error("left");
        },
        std::runtime_error);
    EXPECT_EQ(alive, 0);
}

TEST(Scope, CloseReportsItsDeadline) {
    f::scope limit(1ms);
    limit.spawn([] { f::sleep_for(hang); });
    EXPECT_THROW(limit.close(), f::timed_out);
    f::scope longer(1ms);
    longer.set_timeout(hang);
    longer.spawn([] { f::sleep_for(5ms); });
    longer.close();
}

TEST(Scope, CancelIsNoErrorOfItsClose) {
    int alive = 0;
    f::scope all;
    all.spawn([token = Token(alive)] { f::sleep_for(hang); });
    all.cancel();
    all.spawn([token = Token(alive)] { FAIL() << "it has been cancelled before"; });
    EXPECT_THROW(f::sleep_for(1ms), f::cancelled);
    all.close();
    EXPECT_EQ(alive, 0);
    f::sleep_for(1ms);
}

TEST(Scope, AChildThatAnotherFiberCancelsHasFailed) {
    f::scope all;
    fiber_t child = all.spawn([] { f::sleep_for(hang); });
    fiber_cancel(child, nullptr);
    EXPECT_EQ(code_of([&] { all.close(); }), ECANCELED);
}

TEST(Scope, FirstNeedsOneSuccess) {
    f::scope race(FIBER_SCOPE_FIRST);
    race.spawn([] { throw std::runtime_error("it has failed"); });
    race.spawn([] { f::sleep_for(1ms); });
    race.spawn([] { f::sleep_for(hang); });
    race.close();
    f::scope lost(FIBER_SCOPE_FIRST);
    lost.spawn([] { throw std::out_of_range("all have failed"); });
    EXPECT_EQ(message_of<std::out_of_range>([&] { lost.close(); }), "all have failed");
}

TEST(Scope, CollectLetsTheOthersGoOn) {
    bool ended = false;
    f::scope all(FIBER_SCOPE_COLLECT);
    all.spawn([] { throw std::out_of_range("one"); });
    all.spawn([&] {
        f::sleep_for(2ms);
        ended = true;
    });
    EXPECT_THROW(all.close(), std::out_of_range);
    EXPECT_TRUE(ended);
}

TEST(Scope, ChildrenMayBeTasksOfAPoolOrFibersOfACord) {
    std::atomic<int> ran{0};
    f::event stop(FIBER_EVENT_MANUAL);
    f::pool workers(f::pool_attributes().workers(2));
    f::cord there([stop] { stop.wait(); });
    f::scope all;
    for (int i = 0; i < 10; i++) all.spawn(workers, [&] { ran++; });
    all.spawn(f::attributes().on(there.handle()), [&] { ran++; });
    all.close();
    EXPECT_EQ(ran, 11);
    f::scope failing;
    failing.spawn(workers, [] { throw std::out_of_range("a task"); });
    EXPECT_EQ(message_of<std::out_of_range>([&] { failing.close(); }), "a task");
    stop.set();
    there.join();
}

TEST(Scope, TasksThatNeverBeginAreDestroyed) {
    int alive = 0, ran = 0;
    f::pool nobody(f::pool_attributes().workers(0));
    f::bound_to_pool us(nobody);
    {
        f::scope all;
        for (int i = 0; i < 10; i++) all.spawn(nobody, [&ran, token = Token(alive)] { ran++; });
        all.cancel();
        for (int i = 0; i < 10; i++) all.spawn(nobody, [&ran, token = Token(alive)] { ran++; });
        all.close();
    }
    f::this_fiber::reschedule();
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(alive, 0);
}

TEST(WithTimeout, ReportsWhetherTheTimeoutEndedIt) {
    EXPECT_TRUE(f::with_timeout(hang, [] { f::sleep_for(1ms); }));
    EXPECT_FALSE(f::with_timeout(1ms, [] { f::sleep_for(hang); }));
    EXPECT_EQ(f::with_timeout(hang, [] { return 7; }), std::optional<int>(7));
    EXPECT_EQ(f::with_timeout(1ms, [] { return f::sleep_for(hang), 7; }), std::nullopt);
    EXPECT_THROW(f::with_timeout(hang, [] { throw std::out_of_range("inside"); }), std::out_of_range);
    EXPECT_EQ(**f::with_timeout(hang, [] { return std::make_unique<int>(3); }), 3);
    f::sleep_for(0s); // no scope is left open
}

TEST(WithTimeout, PassesTheDeadlineOfAnotherOn) {
    bool inner_passed = false;
    bool ended = f::with_timeout(1ms, [&] {
        f::with_timeout(hang, [] { f::sleep_for(hang); });
        inner_passed = true;
    });
    EXPECT_FALSE(ended);
    EXPECT_FALSE(inner_passed);
}

TEST(Shield, HoldsACancelBack) {
    bool brought_to_its_end = false;
    auto fiber = f::spawn([&] {
        f::shield from_cancels;
        f::sleep_for(2ms);
        brought_to_its_end = true;
    });
    f::this_fiber::reschedule();
    fiber.cancel();
    fiber.join();
    EXPECT_TRUE(brought_to_its_end);
}

TEST(Shield, AgainstCancelsAloneLetsInterruptsThrough) {
    bool interrupted = false;
    auto fiber = f::spawn([&] {
        f::shield from_cancels(FIBER_SCOPE_SHIELD_CANCEL);
        try {
            f::sleep_for(1h);
        } catch (const f::interrupted&) {
            interrupted = true;
        }
        f::sleep_for(1ms);
    });
    f::this_fiber::reschedule();
    fiber.cancel();
    fiber.interrupt();
    fiber.join();
    EXPECT_TRUE(interrupted);
}

TEST(Noswitch, RefusesToWait) {
    f::noswitch section;
    EXPECT_EQ(code_of([] { f::sleep_for(1ms); }), EPERM);
}
