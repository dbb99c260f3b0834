// SPDX-License-Identifier: MIT OR Apache-2.0
// From fiber_new to the join: states, results, joiners, detaching, ending, attributes.
#include "conformance.h"
#include "support.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace support;

// ---- states ---------------------------------------------------------------------------------------------------------

TEST(State, GoesFromNewThroughRunnableRunningWaitingToDead) {
    int inside = -1;
    auto body = [&] {
        inside = fiber_state(self());
        EXPECT_EQ(fiber_yield(), 0);
    };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_state(fiber), FIBER_NEW);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_RUNNABLE);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(inside, FIBER_RUNNING);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(info(fiber).state, FIBER_WAITING);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_RUNNABLE);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    EXPECT_EQ(info(fiber).state, FIBER_DEAD);
    join(fiber);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
}

TEST(State, IsWaitingInASleepAReadAndAJoin) {
    NEEDS_IO();
    Pipe pipe;
    auto sleeping = [] { EXPECT_EQ(fiber_sleep(FIBER_MSEC(100)), 0); };
    auto reading = [&] {
        char byte = 0;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    fiber_t sleeper = start(sleeping), reader = start(reading);
    auto joining = [&] { join(sleeper); };
    fiber_t joiner = start(joining);
    EXPECT_EQ(fiber_sleep(0), 0); // the reader may have given the others a turn before it waits
    for (fiber_t fiber : {sleeper, reader, joiner}) EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(write(pipe.write_end, "x", 1), 1);
    join(reader);
    join(joiner);
}

TEST(State, StarterIsRunnableWhileTheStartedFiberRuns) {
    fiber_t main_flow = self();
    int state = -1;
    auto body = [&] { state = fiber_state(main_flow); };
    join(start(body));
    EXPECT_EQ(state, FIBER_RUNNABLE);
    EXPECT_EQ(fiber_state(main_flow), FIBER_RUNNING);
}

// ---- join -----------------------------------------------------------------------------------------------------------

TEST(Join, BeforeTheDeathWaitsAndGivesTheResult) {
    bool ended = false;
    auto body = [&] {
        EXPECT_EQ(fiber_reschedule(), 0);
        ended = true;
        return pointer(42);
    };
    fiber_t fiber = spawn(body);
    void *result = nullptr;
    expect_joined(fiber_join(fiber, &result));
    EXPECT_TRUE(ended);
    EXPECT_EQ(result, pointer(42));
}

TEST(Join, AfterTheDeathGivesTheResultOnce) {
    auto body = [] { return pointer(42); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    EXPECT_EQ(join(fiber), pointer(42));
    void *result = pointer(1);
    EXPECT_EQ(fiber_join(fiber, &result), -ESRCH);
    EXPECT_EQ(fiber_join(fiber, nullptr), -ESRCH);
    EXPECT_EQ(fiber_join_timeout(fiber, nullptr, 0), -ESRCH);
}

TEST(Join, OfANewFiberWaitsUntilItWasStartedAndEnded) {
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = create(body);
    auto joining = [&] { join(fiber); };
    fiber_t joiner = start(joining);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    join(joiner);
    EXPECT_EQ(runs, 1);
}

TEST(Join, ResultMayBeNull) {
    auto body = [] { return pointer(42); };
    expect_joined(fiber_join(spawn(body), nullptr));
    expect_joined(fiber_join(start(body), nullptr));
    expect_joined(fiber_join_timeout(spawn(body), nullptr, FIBER_SEC(10)));
}

TEST(Join, OfAFiberThatReturnsNullGivesNull) {
    void *result = pointer(1);
    auto body = [] {};
    expect_joined(fiber_join(spawn(body), &result));
    EXPECT_EQ(result, nullptr);
}

TEST(Join, AllJoinersWaitingAtTheDeathGetTheResultInFifoOrder) {
    Trace log;
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(9);
    };
    fiber_t target = start(body);
    int next = 0;
    auto joining = [&] {
        char name = static_cast<char>('a' + next++);
        void *result = nullptr;
        expect_joined(fiber_join(target, &result));
        EXPECT_EQ(result, pointer(9));
        log += name;
    };
    fiber_t joiners[5];
    for (fiber_t &joiner : joiners) joiner = start(joining);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(fiber_reschedule(), 0); // the target ends
    EXPECT_EQ(fiber_reschedule(), 0); // the joiners go on
    EXPECT_EQ(log, "abcde");
    EXPECT_EQ(fiber_join(target, nullptr), -ESRCH); // later ones come too late
    for (fiber_t joiner : joiners) join(joiner);
}

TEST(Join, TheMainFlowIsAJoinerLikeTheOthers) {
    void *other = nullptr;
    auto body = [] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        return pointer(9);
    };
    fiber_t target = start(body);
    auto joining = [&] { other = join(target); };
    fiber_t joiner = start(joining);
    EXPECT_EQ(join(target), pointer(9));
    join(joiner);
    EXPECT_EQ(other, pointer(9));
}

TEST(Join, OneHundredJoinersEverySecondCancelledInTime) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(9);
    };
    fiber_t target = start(body);
    int joined = 0, cancelled = 0;
    auto joining = [&] {
        void *result = nullptr;
        int error = fiber_join(target, &result);
        if (error == 0 && result == pointer(9)) joined++;
        if (error == -ECANCELED) cancelled++;
    };
    std::vector<fiber_t> joiners(100);
    for (fiber_t &joiner : joiners) joiner = start(joining);
    for (size_t i = 0; i < joiners.size(); i += 2) EXPECT_EQ(fiber_cancel(joiners[i], nullptr), 0);
    EXPECT_EQ(fiber_wakeup(target), 0);
    for (fiber_t joiner : joiners) join(joiner);
    EXPECT_EQ(joined, 50);
    EXPECT_EQ(cancelled, 50);
}

TEST(Join, OfOneselfIsADeadlock) {
    EXPECT_EQ(fiber_join(self(), nullptr), -EDEADLK);
    EXPECT_EQ(fiber_join_timeout(self(), nullptr, FIBER_SEC(10)), -EDEADLK);
    run([] {
        EXPECT_EQ(fiber_join(self(), nullptr), -EDEADLK);
        EXPECT_EQ(fiber_join_timeout(self(), nullptr, 0), -EDEADLK);
    });
}

TEST(Join, OfADetachedFiberIsInvalid) {
    auto body = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_join(fiber, nullptr), -EINVAL);
    EXPECT_EQ(fiber_join_timeout(fiber, nullptr, FIBER_SEC(10)), -EINVAL);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_join(fiber, nullptr), -ESRCH);
}

TEST(Join, TRAP_TimeoutAndThenJoinAgainWorks) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(3);
    };
    fiber_t fiber = start(body);
    void *result = nullptr;
    for (int i = 0; i < 3; i++) {
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_join_timeout(fiber, &result, FIBER_MSEC(2)), -ETIMEDOUT);
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(2));
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    }
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    expect_joined(fiber_join_timeout(fiber, &result, FIBER_SEC(60)));
    EXPECT_EQ(result, pointer(3));
    EXPECT_EQ(fiber_join(fiber, &result), -ESRCH);
}

TEST(Join, WithTimeoutZeroTriesOnce) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(3);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_join_timeout(fiber, nullptr, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    void *result = nullptr;
    expect_joined(fiber_join_timeout(fiber, &result, 0));
    EXPECT_EQ(result, pointer(3));
}

TEST(Join, WithNegativeTimeoutIsInvalidAndTheFiberStaysJoinable) {
    auto body = [] { return pointer(3); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_join_timeout(fiber, nullptr, -1), -EINVAL);
    EXPECT_EQ(fiber_join_timeout(fiber, nullptr, std::numeric_limits<int64_t>::min()), -EINVAL);
    EXPECT_EQ(join(fiber), pointer(3));
}

TEST(Join, TheMainFlowCanBeWaitedFor) {
    fiber_t main_flow = self();
    run([&] {
        EXPECT_EQ(fiber_join_timeout(main_flow, nullptr, FIBER_MSEC(2)), -ETIMEDOUT);
        EXPECT_EQ(fiber_join_timeout(main_flow, nullptr, FIBER_MSEC(2)), -ETIMEDOUT);
    });
    EXPECT_EQ(fiber_state(main_flow), FIBER_RUNNING);
}

TEST(Join, TheJoinersOwnCancelIsReportedAsSuchAndTheTargetStaysJoinable) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(3);
    };
    fiber_t target = start(body);
    int result = 0;
    auto joining = [&] { result = fiber_join(target, nullptr); };
    fiber_t joiner = start(joining);
    EXPECT_EQ(fiber_cancel(joiner, nullptr), 0);
    join(joiner);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(info(target).cancelled, 0);
    EXPECT_EQ(fiber_state(target), FIBER_WAITING);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(join(target), pointer(3));
}

TEST(Join, TheTargetsCancelIsNoErrorOfTheJoiner) {
    int inside = 0;
    auto body = [&] {
        inside = fiber_yield();
        return pointer(3);
    };
    fiber_t target = start(body);
    EXPECT_EQ(fiber_cancel(target, nullptr), 0);
    EXPECT_EQ(join(target), pointer(3));
    EXPECT_EQ(inside, -ECANCELED);
}

TEST(Join, AnInterruptedJoinCanBeRepeated) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(3);
    };
    fiber_t target = start(body);
    int first = 0;
    void *result = nullptr;
    auto joining = [&] {
        first = fiber_join(target, &result);
        expect_joined(fiber_join(target, &result));
    };
    fiber_t joiner = start(joining);
    EXPECT_EQ(fiber_interrupt(joiner, nullptr), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(first, -EINTR);
    EXPECT_EQ(fiber_wakeup(target), 0);
    join(joiner);
    EXPECT_EQ(result, pointer(3));
}

TEST(Join, OfAFiberThatNeverRanGivesCancelled) {
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    void *result = nullptr;
    expect_joined(fiber_join(fiber, &result));
    EXPECT_EQ(result, FIBER_CANCELLED);
    EXPECT_EQ(runs, 0);
}

// ---- detach ---------------------------------------------------------------------------------------------------------

TEST(Await, TakesNothingAndTheResultIsStillThere) {
    auto body = [] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        return pointer(7);
    };
    fiber_t fiber = spawn(body);
    auto awaits = [&] { return pointer(fiber_await(fiber)); };
    fiber_t others[] = {start(awaits), start(awaits)};
    EXPECT_EQ(fiber_await(fiber), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    EXPECT_EQ(fiber_await(fiber), 0); // and again, afterwards
    EXPECT_EQ(fiber_await_timeout(fiber, 0), 0);
    for (fiber_t other : others) EXPECT_EQ(join(other), pointer(0));
    EXPECT_EQ(join(fiber), pointer(7));
    EXPECT_EQ(fiber_await(fiber), -ESRCH);
}

TEST(Await, WithAJoinerThatTakesTheResult) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(7);
    };
    fiber_t fiber = start(body);
    auto awaits = [&] { return pointer(fiber_await(fiber)); };
    auto joins = [&] { return join(fiber); };
    fiber_t before = start(awaits), joiner = start(joins), after = start(awaits);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(join(before), pointer(0));
    EXPECT_EQ(join(joiner), pointer(7));
    EXPECT_EQ(join(after), pointer(0));
    EXPECT_EQ(fiber_await(fiber), -ESRCH);
}

TEST(Await, OfADetachedFiberAndOfOneThatNeverRuns) {
    auto yields = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t detached = start(yields);
    EXPECT_EQ(fiber_detach(detached), 0);
    auto awaits = [&] { return pointer(fiber_await(detached)); };
    fiber_t other = start(awaits);
    EXPECT_EQ(fiber_wakeup(detached), 0);
    EXPECT_EQ(join(other), pointer(0));
    EXPECT_EQ(fiber_await(detached), -ESRCH);
    fiber_t never = create(yields);
    auto awaits_it = [&] { return pointer(fiber_await(never)); };
    other = start(awaits_it);
    EXPECT_EQ(fiber_cancel(never, nullptr), 0);
    EXPECT_EQ(join(other), pointer(0));
    EXPECT_EQ(join(never), FIBER_CANCELLED);
}

TEST(Await, EndsEarlyAndRefusesMisuse) {
    auto yields = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t fiber = start(yields);
    EXPECT_EQ(fiber_await_timeout(fiber, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_await_timeout(fiber, FIBER_USEC(100)), -ETIMEDOUT);
    EXPECT_EQ(fiber_await_timeout(fiber, -1), -EINVAL);
    EXPECT_EQ(fiber_await(fiber_t{0}), -EINVAL);
    EXPECT_EQ(fiber_await(self()), -EDEADLK);
    auto awaits = [&] { return pointer(fiber_await(fiber)); };
    fiber_t other = start(awaits);
    EXPECT_EQ(fiber_interrupt(other, nullptr), 0);
    EXPECT_EQ(join(other), pointer(-EINTR));
    other = start(awaits);
    EXPECT_EQ(fiber_cancel(other, nullptr), 0);
    EXPECT_EQ(join(other), pointer(-ECANCELED));
    run([&] {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(fiber_await(fiber), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    });
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_await(fiber), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_await(fiber), 0);
    join(fiber);
}

TEST(SpawnAttr, IsASpawnWithAttributes) {
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_name(attr, "named"), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, 64 * 1024), 0);
    auto body = [] { return pointer(intptr_t(info(self()).stack_size)); };
    fiber_t fiber{}, plain{};
    EXPECT_EQ(fiber_spawn_attr(&fiber, attr, entry<decltype(body)>, &body), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_RUNNABLE);
    EXPECT_STREQ(info(fiber).name, "named");
    EXPECT_EQ(fiber_spawn_attr(&plain, nullptr, entry<decltype(body)>, &body), 0);
    EXPECT_EQ(join(fiber), pointer(64 * 1024));
    EXPECT_EQ(join(plain), pointer(FIBER_STACK_DEFAULT));
    fiber_t seen{};
    auto tells = [&] { seen = self(); };
    EXPECT_EQ(fiber_spawn_attr(nullptr, attr, entry<decltype(tells)>, &tells), 0); // detached
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_NE(seen.id, 0u);
    EXPECT_EQ(fiber_state(seen), -ESRCH);
    EXPECT_EQ(fiber_spawn_attr(&fiber, attr, nullptr, nullptr), -EINVAL);
    fiber_pool_attr_t *pool_attr = nullptr;
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_attr_create(&pool_attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(pool_attr, 0), 0);
    EXPECT_EQ(fiber_pool_create(&pool, pool_attr), 0);
    EXPECT_EQ(fiber_attr_set_pool(attr, pool), 0);
    EXPECT_EQ(fiber_spawn_attr(&fiber, attr, entry<decltype(body)>, &body), -EINVAL);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    fiber_pool_attr_destroy(pool_attr);
    fiber_attr_destroy(attr);
}

TEST(Detach, BeforeTheEndMakesTheHandleStaleAtTheEnd) {
    uint64_t before = stats().fibers;
    auto body = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t fiber = start(body);
    EXPECT_EQ(info(fiber).detached, 0);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(info(fiber).detached, 1);
    EXPECT_EQ(fiber_detach(fiber), -EINVAL);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
    EXPECT_EQ(fiber_detach(fiber), -ESRCH);
    EXPECT_EQ(stats().fibers, before);
}

TEST(Detach, OfANewFiberThenRun) {
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
}

TEST(Detach, OfANewFiberThenCancelled) {
    uint64_t before = stats().fibers;
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(stats().fibers, before);
}

TEST(Detach, AfterTheEndMakesTheHandleStaleAtOnce) {
    uint64_t before = stats().fibers;
    auto body = [] {};
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
    EXPECT_EQ(stats().fibers, before);
}

TEST(Detach, OfOneself) {
    fiber_t fiber{};
    auto body = [&] {
        EXPECT_EQ(fiber_detach(self()), 0);
        EXPECT_EQ(fiber_detach(self()), -EINVAL);
        EXPECT_EQ(fiber_reschedule(), 0);
    };
    fiber = start(body);
    EXPECT_EQ(fiber_state(fiber), FIBER_RUNNABLE);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
}

TEST(Detach, FibersAlreadyJoiningStillGetTheResult) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(4);
    };
    fiber_t target = start(body);
    int got = 0;
    auto joining = [&] {
        if (join(target) == pointer(4)) got++;
    };
    fiber_t a = start(joining), b = start(joining);
    EXPECT_EQ(fiber_detach(target), 0);
    EXPECT_EQ(fiber_join(target, nullptr), -EINVAL);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_join(target, nullptr), -ESRCH);
    join(a);
    join(b);
    EXPECT_EQ(got, 2);
}

TEST(Detach, AtTheEndWhileAJoinerHasItsResultButHasNotRun) {
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(4);
    };
    fiber_t target = start(body);
    void *result = nullptr;
    auto joining = [&] { result = join(target); };
    fiber_t joiner = start(joining);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(fiber_reschedule(), 0); // the target has ended, the joiner is queued
    int error = fiber_detach(target);
    EXPECT_TRUE(error == 0 || error == -ESRCH) << error; // ESRCH: the joiner ran in the same turn
    join(joiner);
    EXPECT_EQ(result, pointer(4));
    EXPECT_EQ(fiber_state(target), -ESRCH);
}

TEST(Detach, OfAMainFlowIsInvalid) {
    fiber_t main_flow = self();
    EXPECT_EQ(fiber_detach(main_flow), -EINVAL);
    run([&] { EXPECT_EQ(fiber_detach(main_flow), -EINVAL); });
}

TEST(Detach, ByAttributeIsFromTheBeginning) {
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_detached(attr, 1), 0);
    int runs = 0;
    auto body = [&] { runs++; };
    fiber_t detached = create(body, attr);
    EXPECT_EQ(info(detached).detached, 1);
    EXPECT_EQ(fiber_detach(detached), -EINVAL);
    EXPECT_EQ(fiber_join(detached, nullptr), -EINVAL);
    EXPECT_EQ(fiber_attr_set_detached(attr, 0), 0);
    fiber_t joinable = create(body, attr);
    EXPECT_EQ(info(joinable).detached, 0);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    EXPECT_EQ(fiber_wakeup(detached), 0);
    EXPECT_EQ(fiber_wakeup(joinable), 0);
    join(joinable);
    EXPECT_EQ(fiber_state(detached), -ESRCH);
    EXPECT_EQ(runs, 2);
}

// ---- ends -----------------------------------------------------------------------------------------------------------

namespace {

struct Counted {
    int &count;
    explicit Counted(int &counter) : count(counter) {}
    Counted(const Counted &) = delete;
    ~Counted() { count++; }
};

void exit_three_calls_deep(int depth) {
    if (depth > 0) return exit_three_calls_deep(depth - 1);
    fiber_exit(pointer(8));
    ADD_FAILURE() << "fiber_exit returned";
}

} // namespace

TEST(End, ByReturnRunsDestructorsExactlyOnce) {
    int destroyed = 0;
    auto body = [&] {
        Counted outer{destroyed};
        auto inner = std::make_unique<Counted>(destroyed);
        EXPECT_EQ(fiber_reschedule(), 0);
        return pointer(1);
    };
    EXPECT_EQ(join(spawn(body)), pointer(1));
    EXPECT_EQ(destroyed, 2);
}

TEST(End, ByAnExceptionCaughtInTheFiberRunsDestructorsExactlyOnce) {
    int destroyed = 0, caught = 0;
    auto body = [&] {
        try {
            Counted object{destroyed};
            EXPECT_EQ(fiber_reschedule(), 0);
            throw std::runtime_error("unwind");
        } catch (const std::runtime_error &) {
            caught++;
        }
    };
    join(spawn(body));
    EXPECT_EQ(destroyed, 1);
    EXPECT_EQ(caught, 1);
}

TEST(End, ByCancelLetsTheFiberUnwindAndRunsDestructorsExactlyOnce) {
    int destroyed = 0;
    auto body = [&] {
        Counted object{destroyed};
        if (fiber_yield() == -ECANCELED) return pointer(1);
        return pointer(2);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), pointer(1));
    EXPECT_EQ(destroyed, 1);
}

TEST(End, ByFiberExitGivesItsResultToJoiners) {
    auto body = [] { exit_three_calls_deep(3); };
    EXPECT_EQ(join(spawn(body)), pointer(8));
}

TEST(End, ByFiberExitInACancelledFiber) {
    auto body = [] {
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        fiber_exit(pointer(8));
        ADD_FAILURE() << "fiber_exit returned";
    };
    EXPECT_EQ(join(spawn(body)), pointer(8));
}

TEST(End, ByFiberExitInAScopeThatHasTimedOut) {
    fiber_scope_t scope{};
    auto body = [&] {
        EXPECT_EQ(fiber_scope_open(&scope, 0, 0), 0);
        EXPECT_EQ(fiber_sleep(FIBER_SEC(60)), -ETIMEDOUT);
        fiber_exit(pointer(8));
        ADD_FAILURE() << "fiber_exit returned";
    };
    EXPECT_EQ(join(spawn(body)), pointer(8));
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ESRCH);
}

TEST(End, FiberExitOfAMainFlowIsRefused) {
    EXPECT_EQ(fiber_exit(nullptr), -EPERM);
    EXPECT_EQ(fiber_state(self()), FIBER_RUNNING);
    in_thread([] { EXPECT_EQ(fiber_exit(nullptr), -EPERM); });
}

TEST(End, CancelAndWakeupAfterDeathAreHarmless) {
    auto body = [] { return pointer(5); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_cancel(fiber, pointer(1)), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    EXPECT_EQ(join(fiber), pointer(5)); // not FIBER_CANCELLED
    EXPECT_EQ(fiber_wakeup(fiber), -ESRCH);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), -ESRCH);
}

TEST(End, TheStackIsGivenBackBeforeTheJoin) {
    uint64_t before = stats().stacks;
    auto body = [] {};
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(stats().stacks, before); // a dead fiber keeps its slot, not its stack
    join(fiber);
}

// ---- creation and attributes ----------------------------------------------------------------------------------------

TEST(New, PassesTheArgumentAndTakesNoStackUntilTheFirstRun) {
    uint64_t before = stats().stacks;
    fiber_t fiber{};
    ASSERT_EQ(fiber_new(
                  &fiber, nullptr, [](void *arg) -> void * { return arg; }, pointer(11)),
              0);
    EXPECT_EQ(stats().stacks, before);
    EXPECT_EQ(info(fiber).stack_size, 0u);
    EXPECT_EQ(info(fiber).stack_low, 0u);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(join(fiber), pointer(11));
}

TEST(New, RefusesNullArguments) {
    uint64_t before = stats().fibers;
    fiber_t fiber{123};
    auto body = [](void *arg) -> void * { return arg; };
    EXPECT_EQ(fiber_new(nullptr, nullptr, body, nullptr), -EINVAL);
    EXPECT_EQ(fiber_new(&fiber, nullptr, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_spawn(&fiber, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_spawn(nullptr, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(stats().fibers, before);
}

TEST(New, CallsCanBeMadeFromAFiber) {
    run([] {
        auto inner = [] { return pointer(1); };
        EXPECT_EQ(join(spawn(inner)), pointer(1));
        EXPECT_EQ(join(start(inner)), pointer(1));
    });
}

TEST(Attr, StackSizeIsRoundedUpToAPowerOfTwo) {
    struct {
        size_t asked, given;
    } cases[] = {
        {FIBER_STACK_MIN, 16384},
        {16385, 32768},
        {20000, 32768},
        {32768, 32768},
        {100000, 131072},
        {FIBER_STACK_DEFAULT, 262144},
        {FIBER_STACK_DEFAULT + 1, 524288},
        {3u << 20, 4u << 20},
    };
    for (const auto &c : cases) {
        fiber_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        EXPECT_EQ(fiber_attr_set_stack_size(attr, c.asked), 0);
        fiber_info_t seen{};
        auto body = [&] {
            // Not the address of a local, which AddressSanitizer may have put elsewhere.
            auto address = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
            seen = info(self());
            // Not EXPECT_*: it may want more stack than the smallest has.
            bool inside = address >= seen.stack_low && address < seen.stack_low + seen.stack_size;
            return pointer(inside);
        };
        fiber_t fiber = create(body, attr);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
        EXPECT_EQ(fiber_start(fiber), 0);
        EXPECT_EQ(join(fiber), pointer(true)) << c.asked;
        EXPECT_EQ(seen.stack_size, c.given) << c.asked;
    }
}

TEST(Attr, WithoutAttributesTheStackHasTheDefaultSize) {
    fiber_info_t seen{};
    run([&] { seen = info(self()); });
    EXPECT_EQ(seen.stack_size, FIBER_STACK_DEFAULT);
}

TEST(Attr, MostOfTheStackIsUsable) {
    for (size_t size : {FIBER_STACK_MIN, size_t{65536}, FIBER_STACK_DEFAULT}) {
        fiber_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        EXPECT_EQ(fiber_attr_set_stack_size(attr, size), 0);
        auto body = [&] {
            // Up to 1 KiB is unused at the high end, and the guard comes in addition. Some is left for the frames of the test itself,
            // and under a sanitizer for the dynamic linker, which binds the sanitizer's calls when they are first made.
            size_t usable = size - 1024 - (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN ? 7168 : 2048);
            auto *memory = static_cast<volatile char *>(__builtin_alloca(usable));
            for (size_t i = 0; i < usable; i += 512) memory[i] = 1;
            memory[usable - 1] = 2;
            return pointer(memory[0]);
        };
        fiber_t fiber = create(body, attr);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(join(fiber), pointer(1));
    }
}

TEST(Attr, TheLargestStackIsAddressSpaceOnly) {
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, FIBER_STACK_MAX), 0);
    long resident = resident_kib();
    auto body = [&] { return pointer(static_cast<intptr_t>(info(self()).stack_size)); };
    fiber_t fiber = create(body, attr);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    EXPECT_EQ(join(fiber), pointer(static_cast<intptr_t>(FIBER_STACK_MAX)));
    EXPECT_LT(resident_kib() - resident, 64 * 1024);
}

TEST(Attr, RefusesTinyAndHugeStacksAndKeepsTheSizeItHad) {
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, 65536), 0);
    for (size_t bytes : {size_t{0}, size_t{1}, FIBER_STACK_MIN - 1, FIBER_STACK_MAX + 1, SIZE_MAX})
        EXPECT_EQ(fiber_attr_set_stack_size(attr, bytes), -EINVAL) << bytes;
    auto body = [] { return pointer(static_cast<intptr_t>(info(self()).stack_size)); };
    fiber_t fiber = create(body, attr);
    EXPECT_EQ(fiber_start(fiber), 0);
    EXPECT_EQ(join(fiber), pointer(65536));
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

TEST(Attr, OneObjectServesManyFibersAndMayGoBeforeTheyRun) {
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_name(attr, "worker"), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, 32768), 0);
    auto body = [] {
        fiber_info_t seen{};
        if (fiber_info(self(), &seen, sizeof seen) != 0) return pointer(1);
        return pointer(seen.stack_size == 32768 && std::strcmp(seen.name, "worker") == 0 ? 0 : 2);
    };
    fiber_t fibers[10];
    for (fiber_t &fiber : fibers) fiber = create(body, attr);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    for (fiber_t fiber : fibers) {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(join(fiber), nullptr);
    }
}

TEST(Attr, NullIsRefusedAndDestroyingNullDoesNothing) {
    EXPECT_EQ(fiber_attr_create(nullptr), -EINVAL);
    EXPECT_EQ(fiber_attr_set_stack_size(nullptr, 65536), -EINVAL);
    EXPECT_EQ(fiber_attr_set_name(nullptr, "x"), -EINVAL);
    EXPECT_EQ(fiber_attr_set_detached(nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_attr_destroy(nullptr), 0);
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_name(attr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

// ---- the library ----------------------------------------------------------------------------------------------------

TEST(Library, VersionIsThatOfTheHeader) {
    EXPECT_EQ(fiber_version(), FIBERRT_VERSION_MAJOR * 10000 + FIBERRT_VERSION_MINOR * 100 + FIBERRT_VERSION_PATCH);
}

TEST(Library, StrerrorKnowsEveryErrorThatCallsReturnBySignAndWithout) {
    std::string unknown = fiber_strerror(100000);
    EXPECT_EQ(unknown, "unknown error");
    EXPECT_EQ(fiber_strerror(-100000), unknown);
    EXPECT_EQ(fiber_strerror(std::numeric_limits<int>::min()), unknown);
    EXPECT_EQ(fiber_strerror(std::numeric_limits<int>::max()), unknown);
    std::vector<std::string> seen;
    for (int error : {EINVAL, ESRCH, EPERM, EDEADLK, ECANCELED, ETIMEDOUT, EINTR, EBUSY, EAGAIN, ENOMEM, EPIPE, ENOTSUP,
                      EBADF, ESPIPE}) {
        std::string text = fiber_strerror(error);
        EXPECT_NE(text, unknown) << error;
        EXPECT_FALSE(text.empty()) << error;
        EXPECT_EQ(fiber_strerror(-error), text);
        EXPECT_EQ(std::count(seen.begin(), seen.end(), text), 0) << text;
        seen.push_back(text);
    }
    EXPECT_NE(fiber_strerror(0), nullptr);
}

TEST(Library, NowIsTheMonotonicClock) {
    NOT_ON_SIM("has its own clock");
    timespec before{}, after{};
    clock_gettime(CLOCK_MONOTONIC, &before);
    int64_t now = fiber_now();
    clock_gettime(CLOCK_MONOTONIC, &after);
    EXPECT_GE(now, FIBER_SEC(before.tv_sec) + before.tv_nsec);
    EXPECT_LE(now, FIBER_SEC(after.tv_sec) + after.tv_nsec);
}

TEST(Library, DurationsAreNanoseconds) {
    EXPECT_EQ(FIBER_USEC(3), 3000);
    EXPECT_EQ(FIBER_MSEC(3), 3000000);
    EXPECT_EQ(FIBER_SEC(3), 3000000000);
    EXPECT_EQ(FIBER_FOREVER, std::numeric_limits<int64_t>::max());
}

TEST(Library, NoCallSetsErrno) {
    errno = 4711;
    EXPECT_EQ(fiber_sleep(-1), -EINVAL);
    EXPECT_EQ(fiber_join(fiber_t{}, nullptr), -EINVAL);
    char byte = 0;
    EXPECT_EQ(fiber_read(-1, &byte, 1), FIBERRT_TEST_IO ? -EBADF : -ENOTSUP);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    auto body = [] {};
    fiber_t fiber{};
    EXPECT_EQ(fiber_spawn(&fiber, entry<decltype(body)>, &body), 0);
    expect_joined(fiber_join(fiber, nullptr));
    EXPECT_EQ(errno, 4711);
}
