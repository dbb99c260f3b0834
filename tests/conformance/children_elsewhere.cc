// SPDX-License-Identifier: MIT OR Apache-2.0
// Children of scopes on other cords: their ends, cancels in both directions, cords that end before or in the middle.
#include "cord_support.h"
#include "family.h"

#include <atomic>
#include <vector>

using namespace support;

namespace {

// The Patient of other cords.
struct Remote {
    std::atomic<int> ran{0}, cancelled{0};
    std::atomic<void *> reason{nullptr};
    int64_t operator()() {
        ran++;
        const int result = fiber_sleep(HOUR);
        EXPECT_EQ(result, -ECANCELED);
        void *why = nullptr;
        EXPECT_EQ(fiber_cancelled(&why), 1);
        reason = why;
        cancelled++;
        return result;
    }
};

} // namespace

TEST(ChildrenElsewhere, TheScopeEndsAfterAllOfThem) {
    Worker workers[2];
    run([&] {
        Family family;
        std::atomic<int> ended{0};
        auto body = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            return int64_t(ended++);
        };
        std::vector<fiber_t> children;
        for (int i = 0; i < 10; i++) {
            children.push_back(family.spawn(body, On(workers[i % 2])));
            children.push_back(family.spawn(body));
        }
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ended, 20);
        EXPECT_EQ(family.failure, 0);
        for (fiber_t child : children) EXPECT_TRUE(is_gone(child));
    });
}

// The parent waits for all children. The end of the last running child comes to the parent's cord before the news that
// a pool has refused another child: only that news ends the wait.
TEST(ChildrenElsewhere, TheScopeEndsWhenTheLastIsRefused) {
    NEEDS_THREADS();
    Worker worker;
    run([&] {
        fiber_pool_attr_t *none = nullptr;
        ASSERT_EQ(fiber_pool_attr_create(&none), 0);
        ASSERT_EQ(fiber_pool_attr_set_workers(none, 0), 0);
        fiber_pool_t pool{};
        ASSERT_EQ(fiber_pool_create(&pool, none), 0); // no thread takes its tasks
        EXPECT_EQ(fiber_pool_attr_destroy(none), 0);
        fiber_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_pool(attr, pool), 0);
        Family family;
        std::atomic<bool> refused{false};
        auto never = [] { return int64_t(1); };
        auto spawns = [&] {
            auto *const entry = child_entry<decltype(never)>;
            EXPECT_EQ(fiber_scope_spawn_attr(family.scope, nullptr, attr, entry, pass(never)), -ENXIO);
            refused = true;
        };
        auto keeps_the_thread = [&] {
            EXPECT_EQ(fiber_reschedule(), 0); // the parent waits now
            const fiber_t spawner = spawn_on(worker, spawns);
            EXPECT_TRUE(await_holding_the_thread([&] { return refused.load(); }));
            EXPECT_EQ(fiber_detach(spawner), 0);
            return int64_t(0);
        };
        family.spawn(keeps_the_thread);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, 0);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
        EXPECT_EQ(fiber_pool_close(pool), 0);
    });
}

TEST(ChildrenElsewhere, RunOnTheCordOfTheirAttributes) {
    Worker worker;
    run([&] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        auto body = [&] { return int64_t(this_cord_handle().id == worker.cord.id ? 1 : -1); };
        family.spawn(body, On(worker));
        family.spawn(body);
        const int64_t results[] = {family.next(), family.next()};
        EXPECT_EQ(results[0] + results[1], 0);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -1);
    });
}

TEST(ChildrenElsewhere, AFailureThereCancelsTheSiblingsEverywhere) {
    Worker workers[2];
    run([&] {
        Family family;
        Remote remote;
        auto fails = [&] {
            await([&] { return remote.ran == 2; });
            return int64_t(-EIO);
        };
        family.spawn(remote);
        family.spawn(remote, On(workers[0]));
        family.spawn(fails, On(workers[1]));
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -EIO);
        EXPECT_EQ(remote.cancelled, 2);
    });
}

TEST(ChildrenElsewhere, TheFirstSuccessThereCancelsTheRest) {
    Worker workers[2];
    run([&] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_FIRST);
        Remote remote;
        auto succeeds = [&] {
            await([&] { return remote.ran == 2; });
            return int64_t(0);
        };
        auto fails = [] { return int64_t(-ENOENT); };
        family.spawn(remote);
        family.spawn(remote, On(workers[0]));
        family.spawn(fails, On(workers[0]));
        EXPECT_EQ(family.next(), -ENOENT);
        family.spawn(succeeds, On(workers[1]));
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -ENOENT);
        EXPECT_EQ(remote.cancelled, 2);
    });
}

TEST(ChildrenElsewhere, ADeadlineReachesThem) {
    Worker worker;
    run([&] {
        Family family(FIBER_MSEC(1));
        Remote remote;
        family.spawn(remote, On(worker));
        family.spawn(remote, On(worker));
        EXPECT_EQ(family.close(), -ETIMEDOUT);
        EXPECT_EQ(remote.cancelled, remote.ran); // it may have come before they ran
        EXPECT_EQ(family.failure, 0);
    });
}

TEST(ChildrenElsewhere, CancellingTheFiberReachesGrandchildren) {
    Worker workers[2];
    Remote remote;
    auto child = [&] {
        Family family;
        family.spawn(remote, On(workers[1]));
        family.spawn(remote);
        EXPECT_EQ(family.close(), 0);
        return int64_t(fiber_reschedule());
    };
    auto body = [&] {
        Family family;
        family.spawn(child, On(workers[0]));
        family.spawn(child);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, 0);
    };
    fiber_t fiber = spawn(body);
    await([&] { return remote.ran == 4; });
    EXPECT_EQ(fiber_cancel(fiber, pointer(6)), 0);
    join(fiber);
    EXPECT_EQ(remote.cancelled, 4);
    EXPECT_EQ(remote.reason.load(), pointer(6));
}

TEST(ChildrenElsewhere, TheScopeIsCancelledFromOtherCordsAndThreads) {
    Worker worker;
    for (bool by_thread : {false, true}) {
        Remote remote;
        std::atomic<uint64_t> scope{0};
        auto body = [&] {
            Family family;
            family.spawn(remote);
            family.spawn(remote, On(worker));
            await([&] { return remote.ran == 2; });
            scope = family.scope.id;
            EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
            EXPECT_EQ(fiber_cancelled(nullptr), 0);
            EXPECT_EQ(family.close(), -ECANCELED);
            EXPECT_EQ(fiber_reschedule(), 0);
        };
        fiber_t fiber = spawn(body);
        await([&] { return scope.load() != 0; });
        auto cancels = [&] {
            EXPECT_EQ(fiber_scope_cancel({scope}, pointer(1)), 0);
            const int second = fiber_scope_cancel({scope}, pointer(2));
            EXPECT_TRUE(second == 0 || second == -ESRCH) << second;
        };
        if (by_thread) {
            Thread thread(cancels);
            join(fiber);
            thread.join();
        } else {
            run_on(worker, cancels);
            join(fiber);
        }
        EXPECT_EQ(remote.cancelled, 2);
        EXPECT_EQ(remote.reason.load(), pointer(1));
        EXPECT_EQ(fiber_scope_cancel({scope}, nullptr), -ESRCH);
    }
}

TEST(ChildrenElsewhere, TRAP_AnOuterScopeIsCancelledFromAnotherCordThroughInnerOnes) {
    Worker worker;
    for (bool innermost_has_children : {false, true}) {
        Remote remote;
        std::atomic<uint64_t> scope{0};
        auto body = [&] {
            Family outer, middle, inner;
            const int children = innermost_has_children ? 2 : 1;
            outer.spawn(remote);
            if (innermost_has_children) inner.spawn(remote);
            await([&] { return remote.ran == children; });
            scope = outer.scope.id;
            EXPECT_EQ(fiber_sleep(FIBER_SEC(10)), -ECANCELED);
            EXPECT_EQ(fiber_cancelled(nullptr), 0);
            EXPECT_EQ(fiber_scope_cancel(outer.scope, pointer(2)), 0); // the children end if the first one is lost
            EXPECT_EQ(inner.close(), 0);
            EXPECT_EQ(middle.close(), 0);
            EXPECT_EQ(outer.close(), -ECANCELED);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(remote.cancelled, children);
        };
        fiber_t fiber = spawn(body);
        await([&] { return scope.load() != 0; });
        auto cancels = [&] { EXPECT_EQ(fiber_scope_cancel({scope}, pointer(1)), 0); };
        run_on(worker, cancels);
        join(fiber);
        EXPECT_EQ(remote.reason.load(), pointer(1));
    }
}

TEST(ChildrenElsewhere, TRAP_ACancelOnItsWayDoesNotReachTheNextScopeInTheRecord) {
    Worker worker;
    std::atomic<uint64_t> scope{0};
    std::atomic<bool> sent{false};
    auto body = [&] {
        Family family;
        scope = family.scope.id;
        await_holding_the_thread([&] { return sent.load(); }); // it is on its way, and the thread has not looked
        EXPECT_EQ(family.close(), 0);
        Family next;
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(next.close(), 0);
    };
    auto cancels = [&] {
        await([&] { return scope.load() != 0; });
        EXPECT_EQ(fiber_scope_cancel({scope}, nullptr), 0);
        sent = true;
    };
    const fiber_t canceller = spawn_on(worker, cancels);
    run(body);
    join(canceller);
}

TEST(ChildrenElsewhere, MaySpawnSiblingsOnTheirOwnCord) {
    Worker workers[2];
    run([&] {
        Family family;
        std::atomic<int> ran{0};
        auto grand = [&] { return int64_t(ran++); };
        auto child = [&] {
            for (int i = 0; i < 5; i++) family.spawn(grand);
            family.spawn(grand, On(workers[0]));
            family.spawn(grand, On(workers[1]));
            return int64_t(ran++);
        };
        family.spawn(child, On(workers[0]));
        family.spawn(child, On(workers[1]));
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ran, 16);
        EXPECT_EQ(family.failure, 0);
    });
}

TEST(ChildrenElsewhere, TheFirstChildIsMadeOnTheScopesCord) {
    Worker worker;
    run([&] {
        Family family;
        std::atomic<int> ran{0}; // the two run at the same time, perhaps
        auto child = [&] { return int64_t(ran++); };
        run_on(worker, [&] {
            using Child = decltype(child);
            EXPECT_EQ(fiber_scope_spawn(family.scope, nullptr, child_entry<Child>, &child), -EPERM);
        });
        family.spawn(child);
        run_on(worker, [&] { family.spawn(child); });
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ran, 2);
        run_on(worker, [&] {
            using Child = decltype(child);
            EXPECT_EQ(fiber_scope_spawn(family.scope, nullptr, child_entry<Child>, &child), -ESRCH);
            EXPECT_EQ(fiber_scope_next(family.scope, nullptr, nullptr), -ESRCH);
        });
    });
}

TEST(ChildrenElsewhere, AChildSpawnedThereWhileTheScopeIsCancelledNeverRuns) {
    Worker worker;
    run([&] {
        Family family;
        Remote never;
        std::atomic<bool> waits{false};
        auto stubborn = [&] {
            waits = true;
            EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
            for (int i = 0; i < 3; i++) family.spawn(never);
            return int64_t(0);
        };
        family.spawn(stubborn, On(worker));
        await([&] { return waits.load(); });
        EXPECT_EQ(fiber_scope_cancel(family.scope, nullptr), 0);
        family.spawn(never, On(worker));
        EXPECT_EQ(family.close(), -ECANCELED);
        EXPECT_EQ(never.ran, 0);
    });
}

// The close has seen that none is left, and is busy with the scopes inside when one comes from another cord.
TEST(ChildrenElsewhere, AChildSpawnedDuringACloseInANoSwitchSectionKeepsTheScopeOpen) {
    NEEDS_THREADS();
    Worker worker;
    auto sibling = [] { return int64_t(fiber_sleep(FIBER_MSEC(1))); };
    for (int round = 0; round < 50; round++) {
        run([&] {
            Family outer;
            auto first = [] { return int64_t(0); };
            outer.spawn(first); // so that others may spawn
            EXPECT_EQ(outer.next(), 0);
            std::vector<std::unique_ptr<Family>> inner;
            for (int i = 0; i < 1000; i++) inner.push_back(std::make_unique<Family>());
            std::atomic<bool> ready{false}, closing{false};
            auto spawns = [&] {
                ready = true;
                await_holding_the_thread([&] { return closing.load(); });
                burn(FIBER_USEC(round));
                const int error = fiber_scope_spawn(outer.scope, nullptr, child_entry<decltype(sibling)>, &sibling);
                EXPECT_TRUE(error == 0 || error == -ESRCH) << error;
            };
            const fiber_t spawner = spawn_on(worker, spawns);
            await_holding_the_thread([&] { return ready.load(); });
            bool switched = false;
            auto other_body = [&] { switched = true; };
            const fiber_t other = spawn(other_body);
            EXPECT_EQ(fiber_noswitch_enter(), 0);
            closing = true;
            const int verdict = outer.close();
            EXPECT_FALSE(switched);
            EXPECT_EQ(fiber_noswitch_leave(), 0);
            EXPECT_TRUE(verdict == 0 || verdict == -EPERM) << verdict;
            if (verdict == -EPERM) {
                EXPECT_EQ(outer.close(), 0);
            }
            join(other);
            join(spawner);
        });
    }
}

TEST(ChildrenElsewhere, NextReportsEachEndOnce) {
    Worker workers[2];
    run([&] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        const int count = often(300, 20);
        std::atomic<int> turn{0};
        auto body = [&] { return int64_t(-1 - turn++); };
        int64_t sum = 0;
        for (int i = 0; i < count; i++) family.spawn(body, On(workers[i % 2]));
        for (int i = 0; i < count; i++) sum -= family.next();
        EXPECT_EQ(family.next(), 1);
        EXPECT_EQ(sum, int64_t(count) * (count + 1) / 2);
        EXPECT_EQ(family.close(), 0);
    });
}

// ---- cords that end -------------------------------------------------------------------------------------------------

TEST(ChildrenElsewhere, AChildWhoseThreadExitsHasFailedWithOwnerDead) {
    run([] {
        Family family;
        Patient patient;
        std::atomic<bool> waits{false};
        auto never_ends = [&] {
            waits = true;
            fiber_yield();
            ADD_FAILURE() << "it ran";
            return int64_t(0);
        };
        auto main = [&] { await([&] { return waits.load(); }); };
        fiber_cord_t cord = start_cord(main);
        family.spawn(patient);
        await([&] { return patient.ran == 1; }); // else it may be cancelled before it runs
        family.spawn(never_ends, On(cord).daemon());
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -EOWNERDEAD);
        EXPECT_EQ(patient.cancelled, 1);
        join_cord(cord);
    });
}

TEST(ChildrenElsewhere, SpawnOnACordThatHasEndedFails) {
    run([] {
        Family family;
        Patient patient;
        fiber_attr_t *attr = nullptr;
        EXPECT_EQ(fiber_attr_create(&attr), 0);
        {
            Worker worker;
            EXPECT_EQ(fiber_attr_set_cord(attr, worker), 0);
        }
        EXPECT_EQ(fiber_scope_spawn_attr(family.scope, nullptr, attr, child_entry<Patient>, &patient), -ESRCH);
        EXPECT_EQ(family.next(), 1);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    });
}

TEST(ChildrenElsewhere, SpawnOnACordThatHasEndedAndIsNotJoinedFails) {
    auto main = [] {};
    const fiber_cord_t cord = start_cord(main);
    run([&] {
        Family family;
        Patient patient;
        auto no_more_are_made_there = [&] {
            fiber_t fiber{};
            return fiber_new(&fiber, On(cord).daemon().detached(), entry<decltype(main)>, &main) == -ESRCH;
        };
        await(no_more_are_made_there);
        EXPECT_EQ(fiber_scope_spawn_attr(family.scope, nullptr, On(cord), child_entry<Patient>, &patient), -ESRCH);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, 0);
    });
    join_cord(cord);
}

// However far the cord's end has come, and whether the child has arrived: the scope hears of it.
TEST(ChildrenElsewhere, EachChildThatRacesTheEndOfItsCordIsReportedOnce) {
    for (int round = 0; round < often(200, 5); round++) {
        auto main = [] {};
        fiber_cord_t cord = start_cord(main);
        run([&] {
            Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
            std::atomic<int> ran{0};
            auto body = [&] { return int64_t(ran++); };
            fiber_attr_t *attr = nullptr;
            int spawned = 0, told = 0, whole = 0;
            EXPECT_EQ(fiber_attr_create(&attr), 0);
            const bool there = fiber_attr_set_cord(attr, cord) == 0;
            for (int i = 0; there && i < 5; i++) {
                using Body = decltype(body);
                const int error = fiber_scope_spawn_attr(family.scope, nullptr, attr, child_entry<Body>, &body);
                EXPECT_TRUE(error == 0 || error == -ESRCH) << error;
                if (!error) spawned++;
            }
            int64_t result;
            while (fiber_scope_next(family.scope, nullptr, &result) == 1) {
                told++;
                EXPECT_TRUE(result >= 0 || result == -EOWNERDEAD) << result;
                if (result >= 0) whole++;
            }
            EXPECT_EQ(told, spawned);
            EXPECT_EQ(whole, ran);
            EXPECT_EQ(family.close(), 0);
            EXPECT_EQ(fiber_attr_destroy(attr), 0);
        });
        join_cord(cord);
    }
}

// The cancel finds that the thread of one of the children ends, which is a failure, and goes on with the others. The
// scope reports one of two reasons, that of the cancel or that of the failure, whichever came first; not both.
TEST(ChildrenElsewhere, ACancelDuringTheEndOfACordGivesAllOneReason) {
    const int half = often(200, 4);
    for (int round = 0; round < often(20, 3); round++) {
        std::atomic<bool> end{false};
        std::atomic<int> waiting{0};
        auto main = [&] { await([&] { return end.load(); }); };
        auto never_ends = [&] {
            waiting++;
            fiber_yield();
            ADD_FAILURE() << "it ran";
            return int64_t(0);
        };
        bool over = false;
        auto keeps_the_thread_awake = [&] {
            while (!over) EXPECT_EQ(fiber_reschedule(), 0);
        };
        const fiber_cord_t cord = start_cord(main);
        const fiber_t awake = spawn(keeps_the_thread_awake);
        run([&] {
            Family others(FIBER_FOREVER, FIBER_SCOPE_COLLECT), family;
            Patient before, after;
            On there(cord);
            there.daemon();
            family.spawn(before);
            for (int i = 0; i < half; i++) others.spawn(never_ends, there);
            family.spawn(never_ends, there); // in the middle of the fibers that the thread leaves behind
            for (int i = 0; i < half; i++) others.spawn(never_ends, there);
            family.spawn(after);
            await([&] { return waiting == 2 * half + 1 && after.ran == 1; });
            end = true;
            EXPECT_EQ(others.next(), -EOWNERDEAD); // the first that is left behind
            EXPECT_EQ(fiber_scope_cancel(family.scope, &family), 0);
            EXPECT_EQ(family.close(), -ECANCELED);
            EXPECT_EQ(before.reason, after.reason);
            EXPECT_EQ(before.cancelled + after.cancelled, 2);
            EXPECT_EQ(others.close(), 0);
        });
        over = true;
        join(awake);
        join_cord(cord);
    }
}

// The fiber never runs again, nor does its scope end: its children elsewhere are cancelled, and no fiber waits for
// them.
TEST(ChildrenElsewhere, AChildOfAnOwnerWhoseThreadExitsIsCancelled) {
    Worker worker;
    Remote remote, own;
    std::atomic<uint64_t> scope{0};
    fiber_t children[2];
    auto main = [&] {
        auto owner = [&] {
            Family family;
            for (fiber_t &child : children) child = family.spawn(remote, On(worker));
            family.spawn(own, On(this_cord_handle()).daemon()); // which never runs again either
            scope = family.scope.id;
            fiber_scope_next(family.scope, nullptr, nullptr);
            ADD_FAILURE() << "it ran";
        };
        const fiber_t fiber = create(owner, On(this_cord_handle()).daemon());
        EXPECT_EQ(fiber_start(fiber), 0);
        await([&] { return remote.ran == 2; });
    };
    join_cord(start_cord(main));
    await([&] { return remote.cancelled == 2; });
    EXPECT_EQ(own.cancelled, 0);
    for (fiber_t child : children) await([&] { return is_gone(child); }); // no child waits to be joined
    run_on(worker, [&] { EXPECT_EQ(fiber_scope_spawn({scope}, nullptr, child_entry<Remote>, &remote), -ESRCH); });
}

TEST(ChildrenElsewhere, AChildOfAnOwnerInCloseWhoseThreadExitsIsCancelled) {
    Worker worker;
    Remote remote;
    fiber_t children[3];
    auto main = [&] {
        auto owner = [&] {
            Family family;
            for (fiber_t &child : children) child = family.spawn(remote, On(worker));
            family.close();
            ADD_FAILURE() << "it ran";
        };
        EXPECT_EQ(fiber_start(create(owner, On(this_cord_handle()).daemon())), 0);
        await([&] { return remote.ran == 3; });
    };
    join_cord(start_cord(main));
    await([&] { return remote.cancelled == 3; });
    for (fiber_t child : children) await([&] { return is_gone(child); });
}

// One of them has not begun: its cord is busy, and the cancel arrives before its first run.
TEST(ChildrenElsewhere, AChildThatNeverRanIsGoneToo) {
    Worker worker;
    Remote never;
    fiber_t child{};
    Busy busy(worker);
    auto main = [&] {
        auto owner = [&] {
            Family family;
            child = family.spawn(never, On(worker));
            fiber_scope_next(family.scope, nullptr, nullptr);
            ADD_FAILURE() << "it ran";
        };
        EXPECT_EQ(fiber_start(create(owner, On(this_cord_handle()).daemon())), 0);
    };
    join_cord(start_cord(main));
    busy.end();
    await([&] { return is_gone(child); });
    EXPECT_EQ(never.ran, 0);
}

// When a cord's own thread ends, it takes no messages while the destructors of its main flow's keys run. A plain thread
// still takes them then, and afterwards abandons the children that the destructors started.
TEST(ChildrenElsewhere, AKeysDestructorAtTheEndOfACordHasNone) {
    struct Late {
        fiber_cord_t cord{};
        Remote remote;
        fiber_t child{};
        int here = 1, there = 1;
        static void begin(void *arg) {
            auto *late = static_cast<Late *>(arg);
            Family family;
            late->there =
                fiber_scope_spawn_attr(family.scope, &late->child, On(late->cord), child_entry<Remote>, &late->remote);
            late->here = fiber_scope_spawn(family.scope, nullptr, child_entry<Remote>, &late->remote);
        }
    };
    Worker worker;
    Late late;
    late.cord = worker;
    fiber_key_t key{};
    EXPECT_EQ(fiber_key_create(&key, Late::begin), 0);
    auto main = [&] { EXPECT_EQ(fiber_key_set(key, &late), 0); };
    join_cord(start_cord(main));
    EXPECT_EQ(late.there, -EPIPE);
    EXPECT_EQ(late.here, -EPIPE);
    if (!simulated()) {
        in_thread(main);
        EXPECT_EQ(late.there, 0);
        EXPECT_EQ(late.here, 0);
        await([&] { return is_gone(late.child); });
        EXPECT_EQ(late.remote.ran, late.remote.cancelled);
    }
    EXPECT_EQ(fiber_key_delete(key), 0);
}

// Children end and spawn siblings while the owner's thread exits.
TEST(ChildrenElsewhere, ChildrenMayRaceTheEndOfTheOwnersThread) {
    struct Child {
        fiber_scope_t scope{};
        std::atomic<int> ran{0}, ended{0};
        int64_t operator()() {
            ran++;
            int spawned = 0;
            for (int i = 0; i < 3 && spawned == 0 && ran - ended < 100; i++) {
                if (fiber_reschedule() != 0) break;
                spawned = fiber_scope_spawn(scope, nullptr, child_entry<Child>, this);
                EXPECT_TRUE(spawned == 0 || spawned == -ESRCH) << spawned;
            }
            ended++;
            return 0;
        }
    };
    for (int round = 0; round < often(50, 5); round++) {
        Child child;
        std::atomic<bool> begun{false};
        {
            Worker worker;
            auto owner = [&] {
                Family family;
                child.scope = family.scope;
                family.spawn(child, On(worker));
                family.spawn(child, On(worker));
                begun = true;
                family.close();
            };
            auto main = [&] {
                EXPECT_EQ(fiber_start(create(owner, On(this_cord_handle()).daemon().detached())), 0);
                await_holding_the_thread([&] { return begun.load() && child.ran > round % 4; });
            };
            join_cord(start_cord(main));
        } // which waits for all that are still there
        EXPECT_EQ(child.ran, child.ended);
    }
}

TEST(ChildrenElsewhere, AScopeThatACordsFunctionLeftOpenIsCancelledAwaitedAndClosed) {
    Worker worker;
    Remote remote;
    std::atomic<int> cleared{0};
    auto slow = [&] {
        const int64_t result = remote();
        Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(shield.close(), 0);
        cleared++;
        return result;
    };
    auto main = [&] {
        Family family;
        family.spawn(slow, On(worker));
        family.spawn(slow);
        await([&] { return remote.ran == 2; });
    };
    join_cord(start_cord(main));
    EXPECT_EQ(remote.cancelled, 2);
    EXPECT_EQ(cleared, 2);
}

TEST(ChildrenElsewhere, AShutdownOfTheirCordCancelsThem) {
    Worker worker;
    run([&] {
        Family family;
        Remote remote;
        Patient sibling;
        family.spawn(remote, On(worker));
        family.spawn(sibling);
        await([&] { return remote.ran == 1; });
        run_on(worker, [&] { EXPECT_GE(fiber_cord_shutdown(worker, 0, 0), 1); }); // which does not wait for it
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -ECANCELED); // not by the scope: so that is a failure
        EXPECT_EQ(remote.cancelled, 1);
        EXPECT_EQ(sibling.cancelled, sibling.ran);
        fiber_attr_t *attr = nullptr;
        EXPECT_EQ(fiber_attr_create(&attr), 0);
        EXPECT_EQ(fiber_attr_set_cord(attr, worker), 0);
        Family next;
        EXPECT_EQ(fiber_scope_spawn_attr(next.scope, nullptr, attr, child_entry<Remote>, &remote), -EPIPE);
        EXPECT_EQ(next.close(), 0);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    });
}

// ---- all at once ----------------------------------------------------------------------------------------------------

// Scopes whose children are on four cords, spawn, fail, finish, and are cancelled from anywhere: each child that was
// begun ends before its scope, and no end is reported twice.
TEST(ChildrenElsewhere, AllAtOnce) {
    Worker workers[4];
    std::atomic<int> alive{0};
    struct Turn {
        std::atomic<int> *alive;
        Worker *workers;
        fiber_scope_t scope;
        uint32_t seed;
        uint32_t pick(uint32_t n) {
            seed = seed * 1664525 + 1013904223;
            return (seed >> 16) % n;
        }
        int64_t operator()() {
            alive->fetch_add(1);
            const int64_t result = work();
            alive->fetch_sub(1);
            return result;
        }
        int64_t work() {
            switch (pick(6)) {
            case 0: return -EIO;
            case 1: return fiber_sleep(FIBER_USEC(pick(200)));
            case 2: return fiber_scope_cancel(scope, nullptr) == 0 ? 0 : -EBADF;
            case 3: return fiber_sleep(HOUR);
            default: return fiber_reschedule();
            }
        }
    };
    auto round = [&](uint32_t seed) {
        Turn turns[12];
        const unsigned kinds[] = {0, FIBER_SCOPE_COLLECT, FIBER_SCOPE_FIRST};
        std::atomic<int> mine{0};
        Family family(FIBER_MSEC(2), kinds[seed % 3]);
        for (Turn &turn : turns) {
            turn = {&mine, workers, family.scope, seed = seed * 22695477 + 1};
            family.spawn(turn, On(workers[turn.pick(4)]));
        }
        int told = 0;
        while (fiber_scope_next(family.scope, nullptr, nullptr) == 1) told++;
        EXPECT_LE(told, 12);
        const int verdict = family.close();
        EXPECT_TRUE(verdict == 0 || verdict == -ETIMEDOUT || verdict == -ECANCELED) << verdict;
        EXPECT_EQ(mine, 0);
        alive++;
    };
    std::vector<fiber_t> fibers;
    auto owner = [&] {
        for (int i = 0; i < often(50, 3); i++) round(uint32_t(i * 7 + fibers.size()));
    };
    for (Worker &worker : workers) fibers.push_back(create_on(worker, owner));
    for (fiber_t fiber : fibers) EXPECT_EQ(fiber_wakeup(fiber), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(alive, 4 * often(50, 3));
}
