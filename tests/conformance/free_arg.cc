// SPDX-License-Identifier: MIT OR Apache-2.0
// The argument of a fiber, or of a task, that never runs: it is freed once, and only then.
#include "conformance.h"
#include "cord_support.h"
#include "support.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <unistd.h>
#include <vector>

using namespace support;

namespace {

// An argument that records what happened to it.
struct Argument {
    std::atomic<int> ran{0}, freed{0};
    std::atomic<int> refused{0}; // the result of a wait in free_arg
    std::atomic<bool> had_a_self{false};
    bool slow = false; // freeing it takes time, in which others could go on
};

void *use(void *argument) {
    static_cast<Argument *>(argument)->ran++;
    return nullptr;
}

int64_t use_as_child(void *argument) {
    static_cast<Argument *>(argument)->ran++;
    return 0;
}

void free_it(void *argument) {
    auto *it = static_cast<Argument *>(argument);
    fiber_t me{};
    it->had_a_self = fiber_self(&me) == 0 && me.id != 0;
    it->refused = fiber_sleep(0);
    if (it->slow && !simulated()) usleep(20000);
    it->freed++;
}

class Attr {
public:
    Attr() {
        EXPECT_EQ(fiber_attr_create(&attr_), 0);
        EXPECT_EQ(fiber_attr_set_free_arg(attr_, free_it), 0);
    }
    ~Attr() { fiber_attr_destroy(attr_); }
    Attr(const Attr &) = delete;
    Attr &operator=(const Attr &) = delete;
    operator fiber_attr_t *() const { return attr_; }

private:
    fiber_attr_t *attr_ = nullptr;
};

fiber_t make(Argument &argument, const fiber_attr_t *attr) {
    fiber_t fiber{};
    EXPECT_EQ(fiber_new(&fiber, attr, use, &argument), 0);
    return fiber;
}

void expect_freed(const Argument &argument) {
    EXPECT_EQ(argument.ran, 0);
    EXPECT_EQ(argument.freed, 1);
    EXPECT_EQ(argument.refused, -EPERM) << "it is called in a no-switch section";
    EXPECT_TRUE(argument.had_a_self);
}

} // namespace

TEST(FreeArg, IsNotCalledForAFiberThatHasRun) {
    Argument argument;
    Attr attr;
    fiber_t fiber = make(argument, attr);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(argument.ran, 1);
    EXPECT_EQ(argument.freed, 0);
    EXPECT_EQ(fiber_attr_set_free_arg(nullptr, free_it), -EINVAL);
    EXPECT_EQ(fiber_attr_set_free_arg(attr, nullptr), 0);
    fiber = make(argument, attr);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    EXPECT_EQ(argument.freed, 0);
    EXPECT_EQ(fiber_new(&fiber, attr, nullptr, &argument), -EINVAL);
}

TEST(FreeArg, IsNotCalledForAFiberCancelledAfterItHasBegun) {
    Attr attr;
    int freed = 0;
    struct Body {
        int *freed;
        static void *run(void *) { return pointer(fiber_sleep(FIBER_SEC(60)) == -ECANCELED); }
        static void free_arg(void *body) { ++*static_cast<Body *>(body)->freed; }
    } body{&freed};
    EXPECT_EQ(fiber_attr_set_free_arg(attr, Body::free_arg), 0);
    fiber_t fiber{};
    ASSERT_EQ(fiber_new(&fiber, attr, Body::run, &body), 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), pointer(1));
    EXPECT_EQ(freed, 0);
}

TEST(FreeArg, IsCalledForAFiberCancelledBeforeItBegins) {
    Attr attr;
    Argument created, scheduled, detached;
    fiber_t fiber = make(created, attr);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    expect_freed(created);
    EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    fiber = make(scheduled, attr);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_interrupt(fiber, &attr), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    expect_freed(scheduled);
    fiber = make(detached, attr);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    expect_freed(detached);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
}

// An ending fiber looks for the next fiber to run, and finds those: no fiber is the current one then.
TEST(FreeArg, IsCalledBetweenTheEndOfAFiberAndTheNextTurnToo) {
    Attr attr;
    std::vector<std::unique_ptr<Argument>> arguments;
    auto ending = [&] {
        for (int i = 0; i < 10; i++) {
            arguments.push_back(std::make_unique<Argument>());
            fiber_t fiber = make(*arguments.back(), attr);
            EXPECT_EQ(fiber_wakeup(fiber), 0);
            EXPECT_EQ(fiber_detach(fiber), 0);
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        }
    };
    fiber_t fiber = spawn(ending);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    for (auto &argument : arguments) expect_freed(*argument);
    join(fiber);
    EXPECT_EQ(fiber_sleep(0), 0); // the main flow may wait
}

TEST(FreeArg, MayCancelOthersAndMakeSome) {
    struct Chain {
        fiber_t next{};
        int *freed = nullptr;
        fiber_attr_t *attr = nullptr;
        static void *run(void *) { return nullptr; }
        static void free_arg(void *chain) {
            auto *it = static_cast<Chain *>(chain);
            ++*it->freed;
            fiber_t made{};
            EXPECT_EQ(fiber_spawn(&made, run, nullptr), 0);
            EXPECT_EQ(fiber_detach(made), 0);
            if (it->next.id) {
                EXPECT_EQ(fiber_cancel(it->next, nullptr), 0);
            }
        }
    };
    int freed = 0;
    Attr attr;
    EXPECT_EQ(fiber_attr_set_free_arg(attr, Chain::free_arg), 0);
    std::vector<Chain> chain(20);
    std::vector<fiber_t> fibers(chain.size());
    for (size_t i = 0; i < chain.size(); i++) {
        chain[i].freed = &freed;
        EXPECT_EQ(fiber_new(&fibers[i], attr, Chain::run, &chain[i]), 0);
        if (i) chain[i - 1].next = fibers[i];
    }
    EXPECT_EQ(fiber_cancel(fibers[0], nullptr), 0);
    EXPECT_EQ(freed, 20);
    for (fiber_t fiber : fibers) EXPECT_EQ(join(fiber), FIBER_CANCELLED);
}

TEST(FreeArg, IsCalledForChildrenOfAScopeThatIsStopped) {
    Attr attr;
    Argument before, after, ran;
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &ran), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &before), 0);
    EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &after), 0);
    int64_t failure = -1;
    EXPECT_EQ(fiber_scope_close(scope, &failure), -ECANCELED);
    EXPECT_EQ(failure, 0);
    expect_freed(before);
    expect_freed(after);
    EXPECT_EQ(ran.ran, 1);
    EXPECT_EQ(ran.freed, 0);
    Argument late;
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &late), -ESRCH);
    EXPECT_EQ(late.freed, 0);
}

TEST(FreeArg, IsCalledForTasksThatNeverBegin) {
    fiber_pool_attr_t *none = nullptr;
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_attr_create(&none), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(none, 0), 0);
    ASSERT_EQ(fiber_pool_create(&pool, none), 0);
    fiber_pool_attr_destroy(none);
    EXPECT_EQ(fiber_pool_bind(pool), 0);
    Attr attr;
    EXPECT_EQ(fiber_attr_set_pool(attr, pool), 0);
    Argument before, after, ran;
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &ran), 0);
    EXPECT_EQ(fiber_scope_next(scope, nullptr, nullptr), 1);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &before), 0);
    EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &after), 0);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ECANCELED);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    expect_freed(before);
    expect_freed(after);
    EXPECT_EQ(ran.ran, 1);
    EXPECT_EQ(ran.freed, 0);
}

TEST(FreeArg, IsCalledWhenTheThreadExits) {
    Argument created, scheduled, cancelled, ran;
    in_thread([&] {
        Attr attr;
        make(created, attr);
        fiber_t fiber = make(ran, attr);
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        join(fiber);
        for (Argument *argument : {&scheduled, &cancelled}) {
            fiber = make(*argument, attr);
            EXPECT_EQ(fiber_wakeup(fiber), 0);
        }
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        if (simulated()) { // that is a started cord, which waits for its fibers
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_cord_shutdown(this_cord_handle(), 0, 0), 0);
        }
    });
    expect_freed(created);
    if (!simulated()) expect_freed(scheduled);
    expect_freed(cancelled);
    EXPECT_EQ(ran.freed, 0);
}

TEST(FreeArg, IsCalledOnAnotherCord) {
    Argument cancelled, shut_down, ran;
    {
        Worker worker;
        Attr attr;
        EXPECT_EQ(fiber_attr_set_cord(attr, worker.cord), 0);
        fiber_t fiber = make(cancelled, attr);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        expect_joined(fiber_join(fiber, nullptr));
        fiber = make(ran, attr);
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        expect_joined(fiber_join(fiber, nullptr));
        EXPECT_EQ(fiber_detach(make(shut_down, attr)), 0);    // never started: it keeps its cord
        EXPECT_GE(fiber_cord_shutdown(worker.cord, 0, 0), 0); // the worker's own function is left perhaps
    }
    expect_freed(cancelled);
    expect_freed(shut_down);
    EXPECT_EQ(ran.ran, 1);
    EXPECT_EQ(ran.freed, 0);
}

// So a joiner may free the object that the argument refers to.
TEST(FreeArg, HasReturnedBeforeTheEndIsReported) {
    struct Looker {
        fiber_t fiber{};
        bool detaches = false;
        int state = 0;
        static void *run(void *) { return nullptr; }
        static void free_arg(void *looker) { // and no call on the fiber in it starts or ends the fiber
            auto *it = static_cast<Looker *>(looker);
            it->state = fiber_state(it->fiber);
            EXPECT_EQ(fiber_cancel(it->fiber, nullptr), 0);
            EXPECT_EQ(fiber_wakeup(it->fiber), 0);
            EXPECT_EQ(fiber_interrupt(it->fiber, nullptr), 0);
            EXPECT_EQ(fiber_join(it->fiber, nullptr), -EPERM);
            if (it->detaches) {
                EXPECT_EQ(fiber_detach(it->fiber), 0);
            }
        }
    };
    Worker worker;
    Attr here, there;
    EXPECT_EQ(fiber_attr_set_cord(there, worker.cord), 0);
    for (fiber_attr_t *attr : {static_cast<fiber_attr_t *>(here), static_cast<fiber_attr_t *>(there)}) {
        EXPECT_EQ(fiber_attr_set_free_arg(attr, Looker::free_arg), 0);
        for (bool scheduled : {false, true}) {
            if (scheduled && attr == there) continue; // it might run before the cancel comes
            for (bool detaches : {false, true}) {
                Looker looker;
                looker.detaches = detaches && attr == here;
                ASSERT_EQ(fiber_new(&looker.fiber, attr, Looker::run, &looker), 0);
                if (scheduled) {
                    EXPECT_EQ(fiber_wakeup(looker.fiber), 0);
                }
                EXPECT_EQ(fiber_cancel(looker.fiber, nullptr), 0);
                if (scheduled) {
                    EXPECT_EQ(fiber_reschedule(), 0);
                }
                void *result = nullptr;
                EXPECT_EQ(fiber_join(looker.fiber, &result), looker.detaches ? -ESRCH : 0);
                EXPECT_EQ(result, looker.detaches ? nullptr : FIBER_CANCELLED);
                EXPECT_EQ(looker.state, FIBER_RUNNING);
            }
        }
    }
}

TEST(FreeArg, HasReturnedBeforeAJoinerOrAScopeOfAnotherCordGoesOn) {
    Worker worker;
    Attr attr;
    EXPECT_EQ(fiber_attr_set_cord(attr, worker.cord), 0);
    Argument joined, child;
    joined.slow = child.slow = true;
    fiber_t fiber = make(joined, attr);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    expect_freed(joined);
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    Busy busy(worker.cord); // so that the child does not begin before it is cancelled
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &child), 0);
    EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
    fiber_scope_t shield{};
    ASSERT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
    busy.end();
    EXPECT_EQ(fiber_scope_close(shield, nullptr), 0);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ECANCELED);
    expect_freed(child);
}

TEST(FreeArg, OfATaskHasReturnedBeforeItsScopeGoesOn) {
    fiber_pool_attr_t *one = nullptr;
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_attr_create(&one), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(one, 1), 0);
    ASSERT_EQ(fiber_pool_create(&pool, one), 0);
    fiber_pool_attr_destroy(one);
    struct Gate {
        std::atomic<bool> holds{false}, release{false};
        static void *hold(void *gate) {
            auto *it = static_cast<Gate *>(gate);
            it->holds = true;
            await_holding_the_thread([&] { return it->release.load(); });
            return nullptr;
        }
    } gate;
    EXPECT_EQ(fiber_pool_submit(pool, Gate::hold, &gate), 0);
    await_holding_the_thread([&] { return gate.holds.load(); });
    Attr attr;
    EXPECT_EQ(fiber_attr_set_pool(attr, pool), 0);
    Argument task;
    task.slow = true;
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, &task), 0);
    EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
    gate.release = true;
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ECANCELED);
    expect_freed(task);
    EXPECT_EQ(fiber_pool_close(pool), 0);
}

// Each accepted task runs, or its argument is freed: never both, never neither.
TEST(FreeArg, OrTheFunctionRunsForEachTaskSentToACordThatEnds) {
    const int rounds = often(30, 3);
    for (int round = 0; round < rounds; round++) {
        std::vector<std::unique_ptr<Argument>> sent;
        auto nothing = [] {};
        fiber_cord_t cord = start_cord(nothing);
        Attr attr;
        if (fiber_attr_set_cord(attr, cord) == 0) {
            for (int i = 0; i < 20; i++) {
                auto argument = std::make_unique<Argument>();
                fiber_t fiber{};
                if (fiber_new(&fiber, attr, use, argument.get()) == 0) {
                    fiber_detach(fiber);
                    fiber_wakeup(fiber);
                    sent.push_back(std::move(argument));
                } else {
                    EXPECT_EQ(argument->freed, 0);
                }
            }
        }
        join_cord(cord);
        for (auto &argument : sent) EXPECT_EQ(argument->ran + argument->freed, 1);
    }
}

// Its scope learns of the end only afterwards, whatever the end is.
TEST(FreeArg, OrTheFunctionRunsBeforeTheScopeOfAChildOnAnEndingCordGoesOn) {
    const int rounds = often(30, 3);
    for (int round = 0; round < rounds; round++) {
        std::vector<std::unique_ptr<Argument>> spawned;
        auto nothing = [] {};
        fiber_cord_t cord = start_cord(nothing);
        Attr attr;
        fiber_scope_t scope{};
        ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT), 0);
        if (fiber_attr_set_cord(attr, cord) == 0) {
            for (int i = 0; i < 20; i++) {
                auto argument = std::make_unique<Argument>();
                if (fiber_scope_spawn_attr(scope, nullptr, attr, use_as_child, argument.get()) == 0) {
                    spawned.push_back(std::move(argument));
                } else {
                    EXPECT_EQ(argument->freed, 0);
                }
            }
        }
        fiber_scope_close(scope, nullptr);
        for (auto &argument : spawned) EXPECT_EQ(argument->ran + argument->freed, 1);
        join_cord(cord);
    }
}
