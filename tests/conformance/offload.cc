// SPDX-License-Identifier: MIT OR Apache-2.0
// Offloaded functions: they run once or not at all, on another thread, and the caller waits for them; for detached
// functions it waits only as long as it wants. In a simulation they run on the one thread, so functions that block
// until a fiber releases them are left out there.
#include "conformance.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <pthread.h>
#include <semaphore>
#include <vector>

using namespace support;

namespace {

int64_t call_function(void *function) { return (*static_cast<std::function<int64_t()> *>(function))(); }

// Of a lambda, which stays where it is until the call returns.
int64_t offloaded(std::function<int64_t()> function, int *error = nullptr) {
    int64_t result = -9999;
    const int told = fiber_offload(call_function, &function, &result);
    if (error)
        *error = told;
    else
        EXPECT_EQ(told, 0);
    return result;
}

// For threads: a thread waits in a function until a fiber lets it go on, and reports that it has begun.
class Block {
public:
    int64_t hold() {
        begun_++;
        let_.acquire();
        ended_++;
        return 7;
    }
    void let_go(int count = 1) { let_.release(count); }
    void await_begun(int count = 1) { await(begun_, count); }
    void await_ended(int count = 1) { await(ended_, count); }
    int begun() const { return begun_; }
    int ended() const { return ended_; }

private:
    static void await(const std::atomic<int> &what, int count) {
        const int64_t give_up = fiber_now() + FIBER_SEC(20);
        while (what < count && fiber_now() < give_up) ASSERT_EQ(fiber_sleep(FIBER_USEC(200)), 0);
        ASSERT_GE(what, count);
    }
    std::counting_semaphore<> let_{0};
    std::atomic<int> begun_{0}, ended_{0};
};

// The limit of the process, as it is again afterwards.
struct Limit {
    explicit Limit(int threads) { EXPECT_EQ(fiber_offload_set_limit(threads), 0); }
    ~Limit() { EXPECT_EQ(fiber_offload_set_limit(64), 0); }
};

// The argument of a detached function, which counts how often it was freed.
struct Shared {
    std::function<int64_t()> function;
    std::atomic<int> freed{0};
    std::atomic<bool> running{false}, freed_while_running{false};

    static int64_t call(void *shared) {
        auto &it = *static_cast<Shared *>(shared);
        it.running = true;
        const int64_t result = it.function();
        it.running = false;
        return result;
    }
    static void free(void *shared) {
        auto &it = *static_cast<Shared *>(shared);
        if (it.running) it.freed_while_running = true;
        it.freed++;
    }
    int offload(int64_t *result = nullptr) { return fiber_offload_detached(call, this, free, result); }
};

template <class Condition>
void await(Condition condition) {
    const int64_t give_up = fiber_now() + FIBER_SEC(20);
    while (!condition() && fiber_now() < give_up) ASSERT_EQ(fiber_sleep(FIBER_USEC(200)), 0);
    ASSERT_TRUE(condition());
}

TEST(Offload, CallsTheFunctionOnceAndReturnsItsResult) {
    int calls = 0;
    EXPECT_EQ(offloaded([&] { return ++calls + (int64_t(1) << 40); }), (int64_t(1) << 40) + 1);
    auto body = [&] { EXPECT_EQ(offloaded([&] { return -int64_t(++calls); }), -2); };
    run(body);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(fiber_offload([](void *) -> int64_t { return 3; }, nullptr, nullptr), 0);
}

TEST(Offload, RefusesBadArguments) {
    int64_t result = 5;
    EXPECT_EQ(fiber_offload(nullptr, nullptr, &result), -EINVAL);
    EXPECT_EQ(fiber_offload_detached(
                  nullptr, nullptr, [](void *) { FAIL(); }, &result),
              -EINVAL);
    EXPECT_EQ(result, 5);
    for (int limit : {0, -1, 1025, INT32_MAX, INT32_MIN}) EXPECT_EQ(fiber_offload_set_limit(limit), -EINVAL) << limit;
    EXPECT_EQ(fiber_offload_set_limit(1024), 0);
    EXPECT_EQ(fiber_offload_set_limit(64), 0);
}

TEST(Offload, LeavesErrnoToTheCaller) {
    run([] {
        errno = ELOOP;
        offloaded([] {
            errno = EXDEV;
            return 0;
        });
        EXPECT_EQ(errno, ELOOP);
    });
}

TEST(Offload, RunsOnAnotherThreadWhileOtherFibersGoOn) {
    NEEDS_THREADS();
    Trace trace;
    Block block;
    pthread_t there{};
    auto waits = [&] {
        const int64_t result = offloaded([&] {
            there = pthread_self();
            return block.hold();
        });
        EXPECT_EQ(result, 7);
        trace += 'd';
    };
    auto goes_on = [&] {
        for (int i = 0; i < 3; i++) {
            trace += 'g';
            ASSERT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        }
    };
    fiber_t waiting = spawn(waits), going = spawn(goes_on);
    block.await_begun();
    join(going);
    EXPECT_EQ(block.ended(), 0);
    block.let_go();
    join(waiting);
    EXPECT_FALSE(pthread_equal(there, pthread_self()));
    EXPECT_EQ(trace, "gggd");
}

TEST(Offload, BlocksAllSignalsThere) {
    NEEDS_THREADS();
    sigset_t there;
    offloaded([&] { return pthread_sigmask(SIG_SETMASK, nullptr, &there); });
    for (int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1}) EXPECT_EQ(sigismember(&there, signal), 1) << signal;
}

// Whatever the order: either it has run, and the cancel is there for the next call, or neither.
TEST(Offload, ACancelledFunctionHasRunOrNeverWill) {
    for (int turns = 0; turns < 6; turns++) {
        int calls = 0, error = 1, next = 1;
        int64_t result = 0;
        auto body = [&] {
            result = offloaded([&] { return ++calls; }, &error);
            next = fiber_reschedule();
        };
        fiber_t fiber = start(body);
        for (int i = 0; i < turns; i++) ASSERT_EQ(fiber_reschedule(), 0);
        const bool in_time = fiber_state(fiber) != FIBER_DEAD;
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
        EXPECT_EQ(calls, error == 0);
        EXPECT_TRUE(error == 0 || error == -ECANCELED) << error;
        EXPECT_EQ(result, error == 0 ? 1 : -9999);
        if (in_time && error) {
            EXPECT_EQ(next, -ECANCELED);
        }
    }
}

TEST(Offload, ARunningFunctionIsAwaitedAndTheCancelStays) {
    NEEDS_THREADS();
    Block block;
    int64_t result = 0;
    int next = 1;
    auto body = [&] {
        result = offloaded([&] { return block.hold(); });
        next = fiber_reschedule();
    };
    fiber_t fiber = start(body);
    block.await_begun();
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    ASSERT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
    EXPECT_EQ(result, 0);
    block.let_go();
    join(fiber);
    EXPECT_EQ(result, 7);
    EXPECT_EQ(next, -ECANCELED);
}

TEST(Offload, ARunningFunctionIsAwaitedAndTheInterruptStays) {
    NEEDS_THREADS();
    Block block;
    int next = 1, after = 1;
    auto body = [&] {
        EXPECT_EQ(offloaded([&] { return block.hold(); }), 7);
        next = fiber_reschedule();
        after = fiber_reschedule();
    };
    fiber_t fiber = start(body);
    block.await_begun();
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), -EBUSY);
    block.let_go();
    join(fiber);
    EXPECT_EQ(next, -EINTR);
    EXPECT_EQ(after, 0);
}

TEST(Offload, ARunningFunctionIsAwaitedBeyondADeadline) {
    NEEDS_THREADS();
    Block block;
    int verdict = 0, error = -ETIMEDOUT;
    int64_t limit_ns = FIBER_MSEC(1);
    auto body = [&] {
        while (error == -ETIMEDOUT) { // until it has begun by then
            limit_ns *= 2;
            FIBER_WITH_TIMEOUT(limit_ns, &verdict) {
                offloaded([&] { return block.hold(); }, &error);
                EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
            }
            EXPECT_EQ(verdict, -ETIMEDOUT);
        }
    };
    fiber_t fiber = start(body);
    block.await_begun();
    ASSERT_EQ(fiber_sleep(limit_ns + FIBER_MSEC(1)), 0);
    block.let_go();
    join(fiber);
    EXPECT_EQ(error, 0);
    EXPECT_EQ(block.ended(), 1);
}

// Whatever ends its wait: cancel, interrupt, deadline.
TEST(Offload, AFunctionThatWaitsForAThreadIsWithdrawn) {
    NEEDS_THREADS();
    Limit limit(1);
    Block block;
    auto holds = [&] { EXPECT_EQ(offloaded([&] { return block.hold(); }), 7); };
    fiber_t holder = start(holds);
    block.await_begun();
    int calls = 0, cancelled = 1, interrupted = 1, late = 1;
    auto count = [&] { return int64_t(++calls); };
    auto of_cancelled = [&] { offloaded(count, &cancelled); };
    auto of_interrupted = [&] { offloaded(count, &interrupted); };
    auto of_late = [&] {
        FIBER_WITH_TIMEOUT(FIBER_MSEC(1), nullptr) { offloaded(count, &late); }
    };
    fiber_t first = start(of_cancelled), second = start(of_interrupted), third = start(of_late);
    EXPECT_EQ(fiber_cancel(first, nullptr), 0);
    EXPECT_EQ(fiber_interrupt(second, nullptr), 0);
    for (fiber_t fiber : {first, second, third}) join(fiber); // while the only thread is taken
    EXPECT_EQ(cancelled, -ECANCELED);
    EXPECT_EQ(interrupted, -EINTR);
    EXPECT_EQ(late, -ETIMEDOUT);
    block.let_go();
    join(holder);
    EXPECT_EQ(offloaded(count), 1);
}

TEST(Offload, ACancelledFiberIsRefused) {
    run([] {
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        int error = 0, calls = 0;
        offloaded([&] { return ++calls; }, &error);
        EXPECT_EQ(error, -ECANCELED);
        EXPECT_EQ(calls, 0);
    });
}

TEST(Offload, NoMoreRunAtOnceThanTheLimitAndEachOnce) {
    Limit limit(4);
    const int count = often(1000, 40);
    std::atomic<int> now{0}, most{0}, calls{0};
    auto body = [&] {
        offloaded([&] {
            const int others = ++now;
            for (int seen = most; others > seen && !most.compare_exchange_weak(seen, others);) {}
            calls++;
            now--;
            return 0;
        });
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < count; i++) fibers.push_back(spawn(body));
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(calls, count);
    EXPECT_LE(most, 4);
}

TEST(Offload, AHigherLimitLetsWaitingFunctionsBegin) {
    NEEDS_THREADS();
    Limit limit(1);
    Block block;
    auto body = [&] { EXPECT_EQ(offloaded([&] { return block.hold(); }), 7); };
    fiber_t fibers[] = {start(body), start(body), start(body)};
    block.await_begun();
    ASSERT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
    EXPECT_EQ(block.begun(), 1);
    EXPECT_EQ(fiber_offload_set_limit(3), 0);
    block.await_begun(3);
    block.let_go(3);
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(Offload, BeginInTheOrderInWhichTheyCame) {
    NEEDS_THREADS();
    Limit limit(1);
    Trace trace;
    Block block;
    auto holds = [&] { offloaded([&] { return block.hold(); }); };
    fiber_t holder = start(holds);
    block.await_begun();
    std::vector<std::function<void()>> bodies;
    std::vector<fiber_t> fibers;
    for (char c = 'a'; c <= 'e'; c++) {
        bodies.push_back([&trace, c] {
            offloaded([&] {
                trace += c;
                return 0;
            });
        });
    }
    for (auto &body : bodies) fibers.push_back(start(body));
    block.let_go();
    for (fiber_t fiber : fibers) join(fiber);
    join(holder);
    EXPECT_EQ(trace, "abcde");
}

// With one thread it would wait for itself.
TEST(Offload, InsideAnOffloadedFunctionIsAPlainCall) {
    Limit limit(1);
    int64_t inner = 0, detached = 0;
    int freed = 0;
    bool same_thread = false;
    auto outer = [&] {
        const pthread_t here = pthread_self();
        inner = offloaded([&] {
            same_thread = pthread_equal(here, pthread_self());
            return 5;
        });
        EXPECT_EQ(fiber_offload_detached([](void *) -> int64_t { return 6; }, &freed,
                                         [](void *count) { ++*static_cast<int *>(count); }, &detached),
                  0);
        return inner + 1;
    };
    EXPECT_EQ(offloaded(outer), 6);
    EXPECT_TRUE(same_thread);
    EXPECT_EQ(detached, 6);
    EXPECT_EQ(freed, 1);
}

TEST(Offload, TheFunctionMayWakeFibers) {
    fiber_sem_t sem{};
    auto body = [&] { EXPECT_EQ(fiber_sem_wait(&sem, 2), 0); };
    fiber_t fiber = start(body);
    EXPECT_EQ(offloaded([&] { return fiber_sem_post(&sem, 2); }), 0);
    join(fiber);
    EXPECT_EQ(fiber_sem_destroy(&sem), 0);
}

TEST(Offload, TheFunctionMayHaveACordWhichEndsWithIt) {
    NEEDS_THREADS();
    Limit limit(1);
    fiber_t left{};
    fiber_cord_t first{}, second{};
    int in_vain = 0;
    auto never_ends = [&] {
        in_vain = fiber_sleep(FIBER_FOREVER);
        FAIL();
    };
    auto adds = [] { EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); };
    const int64_t result = offloaded([&]() -> int64_t {
        left = start(never_ends);
        join(spawn(adds));
        EXPECT_EQ(fiber_cord_self(&first), 0);
        return fiber_sleep(FIBER_USEC(10)) + 4;
    });
    EXPECT_EQ(result, 4);
    EXPECT_EQ(fiber_state(left), -ESRCH);
    offloaded([&] { return fiber_cord_self(&second); });
    EXPECT_NE(first.id, second.id);
    EXPECT_EQ(in_vain, 0);
}

TEST(Offload, OfTwoCordsAtOnce) {
    const int count = often(200, 5);
    std::atomic<int64_t> sum{0};
    auto body = [&] {
        for (int i = 0; i < count; i++) sum += offloaded([] { return 1; });
    };
    auto cord = [&] {
        fiber_t fibers[] = {spawn(body), spawn(body)};
        for (fiber_t fiber : fibers) join(fiber);
    };
    fiber_cord_t other{};
    EXPECT_EQ(fiber_cord_start(&other, nullptr, entry<decltype(cord)>, &cord), 0);
    cord();
    expect_joined(fiber_cord_join(other, nullptr));
    EXPECT_EQ(sum, 4 * count);
}

// The memory that it works on may lie on one of the thread's stacks.
TEST(OffloadEnd, AThreadThatExitsWaitsForTheFunction) {
    NEEDS_THREADS();
    Block block;
    std::atomic<bool> exits{false};
    int ended = -1;
    auto waits = [&] {
        offloaded([&] { return block.hold(); });
        FAIL() << "its thread has exited";
    };
    std::thread thread([&] {
        start(waits);
        block.await_begun();
        exits = true;
    });
    auto lets_go = [&] {
        await([&] { return exits.load(); });
        ASSERT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
        EXPECT_EQ(block.ended(), 0);
        block.let_go();
    };
    run(lets_go);
    thread.join();
    ended = block.ended();
    EXPECT_EQ(ended, 1);
}

TEST(OffloadEnd, AThreadThatExitsWithdrawsFunctionsThatHaveNotBegun) {
    NEEDS_THREADS();
    Limit limit(1);
    Block block;
    int calls = 0;
    Shared shared;
    shared.function = [&] { return ++calls; };
    auto holds = [&] { offloaded([&] { return block.hold(); }); };
    fiber_t holder = start(holds);
    block.await_begun();
    auto waits = [&] { offloaded([&] { return ++calls; }); };
    auto waits_detached = [&] { shared.offload(); };
    in_thread([&] {
        start(waits);
        start(waits_detached);
    });
    EXPECT_EQ(shared.freed, 1);
    block.let_go();
    join(holder);
    offloaded([] { return 0; }); // and all earlier functions have run by now
    EXPECT_EQ(calls, 0);
}

TEST(OffloadEnd, AThreadThatExitsDoesNotWaitForADetachedFunction) {
    NEEDS_THREADS();
    Block block;
    Shared shared;
    shared.function = [&] { return block.hold(); };
    auto waits = [&] {
        int result = shared.offload();
        ADD_FAILURE() << "it ran on: "
                      << result; // not before: no code would free a message on a stack that is given back
    };
    in_thread([&] {
        start(waits);
        block.await_begun();
    });
    EXPECT_EQ(block.ended(), 0);
    EXPECT_EQ(shared.freed, 0);
    block.let_go();
    await([&] { return shared.freed == 1; });
    EXPECT_FALSE(shared.freed_while_running);
}

TEST(OffloadDetached, ReturnsTheResultAndFreesOnce) {
    Shared shared;
    shared.function = [] { return 9; };
    int64_t result = 0;
    EXPECT_EQ(shared.offload(&result), 0);
    EXPECT_EQ(result, 9);
    EXPECT_EQ(shared.freed, 1);
    EXPECT_EQ(fiber_offload_detached([](void *) -> int64_t { return 1; }, nullptr, nullptr, &result), 0);
    EXPECT_EQ(result, 1);
}

TEST(OffloadDetached, ARefusedCallFreesAtOnce) {
    Shared shared;
    int calls = 0;
    shared.function = [&] { return ++calls; };
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(shared.offload(), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(shared.freed, 1);
    run([&] {
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(shared.offload(), -ECANCELED);
    });
    EXPECT_EQ(shared.freed, 2);
    EXPECT_EQ(calls, 0);
}

TEST(OffloadDetached, ReturnsEarlyWhileTheFunctionGoesOn) {
    NEEDS_THREADS();
    Block block;
    Shared shared;
    shared.function = [&] { return block.hold(); };
    int error = 0;
    int64_t result = 1;
    auto body = [&] {
        error = shared.offload(&result);
        EXPECT_EQ(error, -ECANCELED);
    };
    fiber_t fiber = start(body);
    block.await_begun();
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(result, 1);
    EXPECT_EQ(shared.freed, 0);
    block.let_go();
    await([&] { return shared.freed == 1; });
    EXPECT_EQ(block.ended(), 1);
    EXPECT_FALSE(shared.freed_while_running);
}

TEST(OffloadDetached, AFunctionThatHasNotBegunIsFreedByTheCaller) {
    NEEDS_THREADS();
    Limit limit(1);
    Block block;
    auto holds = [&] { offloaded([&] { return block.hold(); }); };
    fiber_t holder = start(holds);
    block.await_begun();
    Shared shared;
    int calls = 0, error = 0;
    shared.function = [&] { return ++calls; };
    auto body = [&] {
        error = shared.offload();
        EXPECT_EQ(shared.freed, 1);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(error, -ECANCELED);
    block.let_go();
    join(holder);
    EXPECT_EQ(calls, 0);
}

// A cord that free_arg opens is not there for the next function on that thread.
TEST(OffloadDetached, ACordOfItsFreeArgEndsToo) {
    NEEDS_THREADS();
    Limit limit(1);
    struct Arg {
        Block block;
        fiber_cord_t cord{};
        pthread_t thread{};
        std::atomic<bool> freed{false};
    } arg;
    auto body = [&] {
        auto hold = [](void *arg) { return static_cast<Arg *>(arg)->block.hold(); };
        auto free_it = [](void *memory) {
            auto &arg = *static_cast<Arg *>(memory);
            EXPECT_EQ(fiber_cord_self(&arg.cord), 0);
            arg.thread = pthread_self();
            arg.freed = true;
        };
        EXPECT_EQ(fiber_offload_detached(hold, &arg, free_it, nullptr), -ECANCELED);
    };
    fiber_t fiber = start(body);
    arg.block.await_begun();
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    arg.block.let_go();
    await([&] { return arg.freed.load(); });
    bool same = false;
    for (int i = 0; i < 1000 && !same; i++) {
        offloaded([&] {
            fiber_cord_t cord{};
            EXPECT_EQ(fiber_cord_self(&cord), 0);
            EXPECT_NE(cord.id, arg.cord.id);
            same = pthread_equal(pthread_self(), arg.thread);
            return 0;
        });
    }
    EXPECT_TRUE(same);
}

// Cancels at all times: each argument is freed once, never while its function runs, and reported once.
TEST(OffloadDetached, IsFreedOnceWheneverItIsCancelled) {
    const int count = often(400, 20);
    Limit limit(3);
    struct One : Shared {
        std::atomic<int> calls{0};
        int error = 1;
    };
    std::vector<std::unique_ptr<One>> all;
    std::vector<std::function<void()>> bodies;
    for (int i = 0; i < count; i++) {
        all.push_back(std::make_unique<One>());
        One *one = all.back().get();
        one->function = [one] { return ++one->calls; };
        bodies.push_back([one] { one->error = one->offload(); });
    }
    std::vector<fiber_t> fibers;
    for (auto &body : bodies) fibers.push_back(start(body));
    for (int i = 0; i < count; i++) {
        if (i % 3 == 0) {
            ASSERT_EQ(fiber_cancel(fibers[size_t(i)], nullptr), 0);
        }
        if (i % 7 == 0) {
            ASSERT_EQ(fiber_reschedule(), 0);
        }
    }
    for (fiber_t fiber : fibers) join(fiber);
    for (int i = 0; i < count; i++) {
        One &one = *all[size_t(i)];
        await([&] { return one.freed == 1; });
        EXPECT_FALSE(one.freed_while_running) << i;
        EXPECT_TRUE(one.error == 0 || (one.error == -ECANCELED && i % 3 == 0)) << i << ": " << one.error;
        if (one.error == 0) {
            EXPECT_EQ(one.calls, 1) << i;
        }
    }
}

} // namespace
