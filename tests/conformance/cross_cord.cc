// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of fibers of one cord, and of threads without a cord, on fibers of another cord: wake, cancel, interrupt,
// join, detach, look.
#include "conformance.h"
#include "cord_support.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

using namespace support;

namespace {

auto nothing = [] {};

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

// --- Wakeup ----------------------------------------------------------------------------------------------------------

TEST(CrossWakeup, SchedulesTheFirstRunOfANewFiber) {
    Worker worker;
    uint64_t ran_on = 0;
    auto body = [&] { ran_on = this_cord_handle().id; };
    const fiber_t fiber = create_on(worker, body);
    EXPECT_EQ(fiber_state(fiber), FIBER_NEW);
    EXPECT_EQ(info(fiber).cord, worker.cord.id);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(ran_on, worker.cord.id);
}

TEST(CrossWakeup, EndsAYield) {
    Worker worker;
    auto body = [] { return pointer(fiber_yield()); };
    const fiber_t fiber = spawn_on(worker, body);
    await([&] { return waits(fiber); });
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(join(fiber), pointer(0));
}

TEST(CrossWakeup, OfARunningFiberLeavesOnePermitHoweverOftenItCame) {
    Worker worker;
    std::atomic<int> phase{0};
    auto body = [&] {
        phase = 1;
        await_holding_the_thread([&] { return phase == 2; });
        fiber_sleep(FIBER_MSEC(1)); // they arrive
        return pointer(take_permits());
    };
    const fiber_t fiber = spawn_on(worker, body);
    await([&] { return phase == 1; });
    in_thread([&] { // which opens no cord for it
        for (int i = 0; i < 1000; i++) EXPECT_EQ(fiber_wakeup(fiber), 0);
    });
    phase = 2;
    EXPECT_EQ(join(fiber), pointer(1));
}

TEST(CrossWakeup, TRAP_EndsNoSleepAndNoJoin) {
    Worker worker;
    auto forever = [] { fiber_yield(); };
    const fiber_t target = spawn_on(worker, forever);
    await([&] { return waits(target); }); // a wakeup before its first run would be absorbed
    std::atomic<bool> sleeps{false};
    auto sleeper = [&] {
        const int64_t until = fiber_now() + FIBER_MSEC(20);
        sleeps = true;
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
        EXPECT_GE(fiber_now(), until);
        return pointer(take_permits());
    };
    auto joiner = [&] {
        expect_joined(fiber_join(target, nullptr));
        return pointer(take_permits());
    };
    const fiber_t fibers[] = {spawn_on(worker, sleeper), spawn_on(worker, joiner), spawn(joiner)};
    for (fiber_t fiber : fibers) await([&] { return fiber_state(fiber) >= FIBER_WAITING; }); // or it has slept already
    Worker other;
    run_on(other, [&] {
        for (fiber_t fiber : fibers) EXPECT_EQ(fiber_wakeup(fiber), 0);
    });
    join(fibers[0]);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(join(fibers[1]), pointer(1));
    EXPECT_EQ(join(fibers[2]), pointer(1));
}

TEST(CrossWakeup, TRAP_ArrivesUnderABusyRescheduleLoop) {
    for (int busy = 1; busy <= 2; busy++) { // a lone fiber that gives way to itself polls too
        std::atomic<bool> woken{false};
        fiber_t waiter{};
        std::atomic<bool> ready{false};
        auto waits_for_it = [&] {
            EXPECT_EQ(fiber_yield(), 0);
            woken = true;
        };
        auto spins = [&] {
            while (!woken) fiber_reschedule();
        };
        auto body = [&] {
            waiter = start(waits_for_it);
            if (busy == 2) {
                EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(spins)>, &spins), 0);
            }
            ready = true;
            spins();
            join(waiter);
        };
        const fiber_cord_t cord = start_cord(body);
        await([&] { return ready.load(); });
        EXPECT_EQ(fiber_wakeup(waiter), 0);
        join_cord(cord);
    }
}

TEST(CrossWakeup, OfAFiberThatHasEndedIsHarmless) {
    Worker worker;
    const fiber_t fiber = spawn_on(worker, nothing);
    await([&] { return fiber_state(fiber) == FIBER_DEAD; });
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    join(fiber);
}

TEST(CrossWakeup, NoneIsLostBetweenTwoCords) {
    Worker a, b;
    ping_pong(a, b, often(2000, 20));
}

// --- Start -----------------------------------------------------------------------------------------------------------

TEST(CrossStart, SchedulesAndIsRefusedTheSecondTime) {
    Worker worker;
    Busy busy(worker);
    const auto thread = std::make_unique<std::thread::id>();
    auto body = [&] { *thread = std::this_thread::get_id(); };
    const fiber_t fiber = create_on(worker, body);
    EXPECT_EQ(fiber_start(fiber), 0);
    busy.end();
    await([&] { return fiber_state(fiber) == FIBER_DEAD; });
    EXPECT_EQ(fiber_start(fiber), -ESRCH);
    join(fiber);
    if (!simulated()) {
        EXPECT_NE(*thread, std::this_thread::get_id());
    } // there all cords have one thread
    auto yields = [] { fiber_yield(); };
    const fiber_t started = spawn_on(worker, yields);
    await([&] { return waits(started); });
    EXPECT_EQ(fiber_start(started), -EBUSY);
    EXPECT_EQ(fiber_wakeup(started), 0);
    join(started);
}

// The poll inside fiber_start may itself bring the wakeup or the cancel of the fiber that is being started.
TEST(CrossStart, TRAP_MeetsAWakeupOrACancelOnItsWay) {
    for (int cancels = 0; cancels < 2; cancels++) {
        int ran = 0, unrun = 0;
        auto body = [&] { ran++; };
        for (int i = 0; i < often(300, 5); i++) {
            const fiber_t fiber = create(body);
            in_thread([&] { EXPECT_EQ(cancels ? fiber_cancel(fiber, nullptr) : fiber_wakeup(fiber), 0); });
            const int error = fiber_start(fiber);
            EXPECT_TRUE(error == 0 || error == (cancels ? -ESRCH : -EBUSY)) << error;
            void *result = nullptr;
            expect_joined(fiber_join(fiber, &result));
            unrun += result == FIBER_CANCELLED;
        }
        EXPECT_EQ(ran + unrun, often(300, 5));
    }
}

TEST(CrossTransfer, TRAP_MeetsACancelOnItsWay) {
    auto body = [] {};
    for (int i = 0; i < often(300, 5); i++) {
        fiber_t fiber = create(body);
        EXPECT_EQ(fiber_detach(fiber), 0); // so that the cancel frees it
        in_thread([&] { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
        const int error = fiber_transfer(fiber, nullptr, nullptr);
        EXPECT_TRUE(error == 1 || error == -ESRCH) << error;
        fiber_sleep(0);
    }
}

// --- Calls that only a fiber's own cord may make ---------------------------------------------------------------------

TEST(CrossCord, ValuesTransfersAndNamesAreForTheOwnCord) {
    Worker worker;
    auto body = [] { fiber_yield(); };
    const fiber_t fiber = spawn_on(worker, body);
    await([&] { return waits(fiber); });
    EXPECT_EQ(fiber_wakeup_value(fiber, nullptr), -EPERM);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), -EPERM);
    EXPECT_EQ(fiber_set_name(fiber, "x"), -EPERM);
    in_thread([&] {
        EXPECT_EQ(fiber_wakeup_value(fiber, nullptr), -EPERM);
        EXPECT_EQ(fiber_set_name(fiber, "x"), -EPERM);
    });
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
}

TEST(CrossCord, StateNameAndInfoDescribeFibersElsewhere) {
    Worker worker;
    std::atomic<int> phase{0};
    auto body = [&] {
        phase = 1;
        await_holding_the_thread([&] { return phase == 2; });
        fiber_set_name(self(), "renamed");
        fiber_yield();
    };
    const fiber_t fiber = create(body, On(worker).name("a name"));
    char name[FIBER_NAME_MAX];
    EXPECT_EQ(fiber_name(fiber, name, sizeof name), 6);
    EXPECT_STREQ(name, "a name");
    fiber_info_t told = info(fiber);
    EXPECT_EQ(told.id, fiber.id);
    EXPECT_EQ(told.state, FIBER_NEW);
    EXPECT_EQ(told.stack_size, 0u);
    EXPECT_EQ(told.cord, worker.cord.id);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    await([&] { return phase == 1; });
    told = info(fiber);
    EXPECT_EQ(told.state, FIBER_RUNNING);
    EXPECT_EQ(told.stack_size, FIBER_STACK_DEFAULT);
    EXPECT_NE(told.stack_low, 0u);
    EXPECT_STREQ(told.name, "a name");
    EXPECT_EQ(info(worker.main).main_flow, 1);
    phase = 2;
    await([&] { return waits(fiber); });
    EXPECT_EQ(fiber_name(fiber, name, sizeof name), 7);
    EXPECT_STREQ(name, "renamed");
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    await([&] { return fiber_state(fiber) == FIBER_DEAD; });
    EXPECT_EQ(info(fiber).cancelled, 1);
    join(fiber);
    EXPECT_EQ(fiber_state(fiber), -ESRCH);
}

TEST(CrossCord, AHandleIsStaleEverywhereAsSoonAsTheFiberIsJoined) {
    Worker worker, other;
    for (int i = 0; i < often(50, 3); i++) {
        const fiber_t fiber = spawn_on(worker, nothing);
        join(fiber);
        auto checks = [&] {
            char name[8];
            fiber_info_t told;
            EXPECT_EQ(fiber_state(fiber), -ESRCH);
            EXPECT_EQ(fiber_name(fiber, name, sizeof name), -ESRCH);
            EXPECT_EQ(fiber_info(fiber, &told, sizeof told), -ESRCH);
            EXPECT_EQ(fiber_wakeup(fiber), -ESRCH);
            EXPECT_EQ(fiber_cancel(fiber, nullptr), -ESRCH);
            EXPECT_EQ(fiber_interrupt(fiber, nullptr), -ESRCH);
            EXPECT_EQ(fiber_detach(fiber), -ESRCH);
            EXPECT_EQ(fiber_join(fiber, nullptr), -ESRCH);
            EXPECT_EQ(fiber_start(fiber), -ESRCH);
            EXPECT_EQ(fiber_set_name(fiber, "x"), -ESRCH);
            EXPECT_EQ(fiber_wakeup_value(fiber, nullptr), -ESRCH);
            EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), -ESRCH);
        };
        checks();
        run_on(other, checks);
        run_on(worker, checks);
    }
}

TEST(CrossCord, IdsAreUniqueInTheProcess) {
    constexpr int cords = 8;
    const int each = often(500, 10);
    std::vector<uint64_t> ids;
    std::mutex mutex;
    auto nothing = [] {};
    auto body = [&] {
        std::vector<uint64_t> mine;
        mine.push_back(self().id);
        for (int i = 0; i < each; i++) {
            const fiber_t fiber = spawn(nothing);
            mine.push_back(fiber.id);
            join(fiber);
        }
        std::lock_guard lock(mutex);
        ids.insert(ids.end(), mine.begin(), mine.end());
    };
    for (int round = 0; round < 2; round++) {
        fiber_cord_t started[cords];
        for (fiber_cord_t &cord : started) cord = start_cord(body);
        for (fiber_cord_t cord : started) join_cord(cord);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids.size(), size_t(2 * cords * (each + 1)));
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

// A fiber that was made for a cord may be used by that cord before the cord has looked at its inbox.
TEST(CrossCord, TRAP_AFiberIsKnownToItsCordAsSoonAsItsHandleIs) {
    for (int i = 0; i < often(100, 4); i++) {
        std::atomic<uint64_t> handle{0};
        std::atomic<int> ran{0};
        auto fiber = [&] {
            ran++;
            return pointer(1);
        };
        auto body = [&] {
            await_holding_the_thread([&] { return handle != 0; });
            const fiber_t other{handle};
            if (i % 2) {
                EXPECT_EQ(fiber_wakeup(other), 0);
            }
            EXPECT_EQ(fiber_start(other), i % 2 ? -EBUSY : 0);
            EXPECT_EQ(join(other), pointer(1));
        };
        const fiber_cord_t cord = start_cord(body);
        handle = create_on(cord, fiber).id;
        join_cord(cord);
        EXPECT_EQ(ran, 1);
    }
}

// --- Cancel and interrupt
// ----------------------------------------------------------------------------------------------

TEST(CrossCancel, EndsASleepAndItsFirstReasonStays) {
    Worker worker;
    void *reason = nullptr;
    auto body = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_FOREVER), -ECANCELED);
        EXPECT_EQ(fiber_yield(), -ECANCELED); // for good
        EXPECT_EQ(fiber_cancelled(&reason), 1);
    };
    const fiber_t fiber = spawn_on(worker, body);
    await([&] { return waits(fiber); });
    Busy busy(worker); // so that they meet on the way
    EXPECT_EQ(fiber_cancel(fiber, pointer(1)), 0);
    in_thread([&] { EXPECT_EQ(fiber_cancel(fiber, pointer(2)), 0); });
    busy.end();
    join(fiber);
    EXPECT_EQ(reason, pointer(1));
}

// The results that fiberrt.h promises for requests that meet on the way, in whichever order they were sent.
TEST(CrossCancel, BeatsAnInterruptThatComesWithIt) {
    Worker worker;
    auto body = [] { EXPECT_EQ(fiber_sleep(FIBER_FOREVER), -ECANCELED); };
    const fiber_t fiber = spawn_on(worker, body);
    await([&] { return waits(fiber); });
    Busy busy(worker);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    busy.end();
    join(fiber);
}

TEST(CrossCancel, ANewFiberNeverRuns) {
    Worker worker;
    auto body = [] { ADD_FAILURE() << "ran"; };
    const fiber_t fiber = create_on(worker, body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    Busy busy(worker);
    const fiber_t scheduled = spawn_on(worker, body);
    EXPECT_EQ(fiber_cancel(scheduled, nullptr), 0);
    busy.end();
    EXPECT_EQ(join(scheduled), FIBER_CANCELLED);
}

TEST(CrossCancel, EndsAnOperation) {
    NEEDS_IO();
    Pipe pipe; // which outlives the cord: libev learns only afterwards that no operation waits for it
    Worker worker;
    char byte = 0;
    auto body = [&] { EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), -ECANCELED); };
    for (int i = 0; i < often(20, 4); i++) {
        const fiber_t fiber = spawn_on(worker, body);
        if (i % 2) await([&] { return waits(fiber); });
        if (i % 4 == 3) fiber_sleep(FIBER_MSEC(1));
        const bool too_early = !(i % 2);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        void *result = join(fiber);
        EXPECT_TRUE(!result || (too_early && result == FIBER_CANCELLED));
    }
}

TEST(CrossCancel, LosesNothingThatWasCompleted) {
    NEEDS_IO();
    Pipe pipe; // which outlives the cord: libev learns only afterwards that no operation waits for it
    Worker worker;
    int taken = 0, put = 0;
    auto body = [&] {
        char byte = 0;
        int64_t got;
        while ((got = fiber_read(pipe.read_end, &byte, 1)) == 1) taken++;
        EXPECT_EQ(got, -ECANCELED);
    };
    for (int i = 0; i < often(100, 5); i++) {
        const fiber_t fiber = spawn_on(worker, body);
        await([&] { return waits(fiber); });
        EXPECT_EQ(::write(pipe.write_end, "xy", 2), 2);
        put += 2;
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
    }
    char rest[4096];
    ASSERT_EQ(fcntl(pipe.read_end, F_SETFL, O_NONBLOCK), 0);
    for (ssize_t got; (got = ::read(pipe.read_end, rest, sizeof rest)) > 0;) taken += int(got);
    EXPECT_EQ(taken, put);
}

TEST(CrossInterrupt, BringsItsValueOnceAndTheSecondIsRefused) {
    Worker worker;
    auto body = [] {
        void *value = nullptr;
        EXPECT_EQ(fiber_sleep(FIBER_FOREVER), -EINTR);
        EXPECT_EQ(fiber_interrupted(&value), 1);
        EXPECT_EQ(value, pointer(1));
        EXPECT_EQ(fiber_sleep(1), 0);
    };
    const fiber_t fiber = spawn_on(worker, body);
    await([&] { return waits(fiber); });
    Busy busy(worker);
    EXPECT_EQ(fiber_interrupt(fiber, pointer(1)), 0);
    EXPECT_EQ(fiber_interrupt(fiber, pointer(2)), -EBUSY);
    in_thread([&] { EXPECT_EQ(fiber_interrupt(fiber, pointer(3)), -EBUSY); });
    busy.end();
    join(fiber);
}

TEST(CrossInterrupt, MeetsANewFiberAtItsFirstWait) {
    Worker worker;
    auto body = [] {
        void *value = nullptr;
        EXPECT_EQ(fiber_yield(), -EINTR);
        EXPECT_EQ(fiber_interrupted(&value), 1);
        EXPECT_EQ(value, pointer(4));
    };
    const fiber_t fiber = create_on(worker, body);
    EXPECT_EQ(fiber_interrupt(fiber, pointer(4)), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
}

TEST(CrossInterrupt, ArrivesAfterTheWakeupAndBeforeTheDetach) {
    Worker worker;
    std::atomic<bool> ended{false};
    auto body = [&] {
        EXPECT_EQ(fiber_yield(), -EINTR);
        EXPECT_EQ(fiber_yield(), 0); // the permit
        ended = true;
    };
    const fiber_t fiber = create_on(worker, body);
    Busy busy(worker);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_detach(fiber), -EINVAL);
    EXPECT_EQ(fiber_join(fiber, nullptr), -EINVAL); // detached, though its cord has not handled the request yet
    busy.end();
    await([&] {
        fiber_wakeup(fiber);
        return ended.load();
    });
}

// --- Join
// --------------------------------------------------------------------------------------------------------------

TEST(CrossJoin, BeforeAtAndAfterTheEnd) {
    Worker worker;
    std::atomic<bool> release{false};
    auto body = [&] {
        await([&] { return release.load(); });
        return pointer(6);
    };
    const fiber_t early = spawn_on(worker, body);
    Thread releaser([&] {
        simulated() ? void(fiber_sleep(FIBER_MSEC(2))) : void(usleep(2000));
        release = true;
    });
    EXPECT_EQ(join(early), pointer(6)); // before
    releaser.join();
    for (int i = 0; i < often(200, 10); i++) EXPECT_EQ(join(spawn_on(worker, body)), pointer(6)); // about the same time
    const fiber_t late = spawn_on(worker, body);
    await([&] { return fiber_state(late) == FIBER_DEAD; });
    EXPECT_EQ(join(late), pointer(6)); // after
    EXPECT_EQ(fiber_join(late, nullptr), -ESRCH);
}

TEST(CrossJoin, AllJoinersOnAllCordsGetTheResult) {
    constexpr int joiners = 30;
    Worker workers[3];
    std::atomic<int> right{0}, counted{0};
    auto body = [] {
        fiber_yield();
        return pointer(8);
    };
    const fiber_t target = spawn_on(workers[0], body);
    auto joins = [&] {
        counted++;
        right += join(target) == pointer(8);
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < joiners; i++) fibers.push_back(spawn_on(workers[i % 3], joins)); // on its own cord as well
    await([&] { return counted == joiners && std::all_of(fibers.begin(), fibers.end(), waits); });
    run_on(workers[0], [] { fiber_sleep(0); }); // the requests have come
    await([&] { return waits(target); });
    EXPECT_EQ(fiber_wakeup(target), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(right, joiners);
    EXPECT_EQ(fiber_state(target), -ESRCH);
}

TEST(CrossJoin, TimesOutThoughTheTargetsCordIsBusyAndCanBeRepeated) {
    Worker worker;
    auto body = [] {
        fiber_yield();
        return pointer(2);
    };
    const fiber_t target = spawn_on(worker, body);
    await([&] { return waits(target); });
    {
        Busy busy(worker); // it does not take the request before we have given up
        EXPECT_EQ(fiber_join_timeout(target, nullptr, 0), -ETIMEDOUT);
        EXPECT_EQ(fiber_join_timeout(target, nullptr, FIBER_MSEC(3)), -ETIMEDOUT);
        int verdict = 0;
        FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &verdict) EXPECT_EQ(fiber_join(target, nullptr), -ETIMEDOUT);
        EXPECT_EQ(verdict, -ETIMEDOUT);
    }
    EXPECT_EQ(fiber_join_timeout(target, nullptr, FIBER_MSEC(1)), -ETIMEDOUT);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(join(target), pointer(2));
    EXPECT_EQ(fiber_join_timeout(target, nullptr, -1), -EINVAL);
}

TEST(CrossJoin, TheJoinersCancelAndInterruptConcernTheJoiner) {
    Worker worker, other;
    auto body = [] { fiber_yield(); };
    const fiber_t target = spawn_on(worker, body);
    auto joins = [&] { return pointer(fiber_join(target, nullptr)); };
    const fiber_t cancelled = spawn_on(other, joins), interrupted = spawn(joins);
    await([&] { return waits(cancelled) && waits(interrupted) && waits(target); });
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    EXPECT_EQ(fiber_wakeup(target), 0);
    expect_joined(fiber_join(target, nullptr)); // it stayed joinable
}

TEST(CrossJoin, RacingCancelsAndEndsAnswerEachJoinerOnce) {
    Worker workers[2];
    for (int i = 0; i < often(300, 15); i++) {
        std::atomic<bool> go{i % 3 == 0};
        auto body = [&] {
            while (!go) fiber_yield();
            return pointer(1);
        };
        const fiber_t target = spawn_on(workers[0], body);
        auto joins = [&] {
            return pointer(fiber_join_timeout(target, nullptr, i % 5 ? FIBER_FOREVER : FIBER_USEC(i)));
        };
        const fiber_t joiners[] = {spawn_on(workers[1], joins), spawn_on(workers[1], joins), spawn(joins)};
        if (i % 2) fiber_sleep(FIBER_USEC(i % 50));
        go = true;
        fiber_wakeup(target);
        fiber_cancel(joiners[i % 3], nullptr);
        int told = 0;
        for (fiber_t joiner : joiners) {
            void *result = join(joiner);
            const intptr_t error = reinterpret_cast<intptr_t>(result);
            told += error == 0;
            EXPECT_TRUE(error == 0 || error == -ESRCH || error == -ECANCELED || error == -ETIMEDOUT ||
                        result == FIBER_CANCELLED)
                << error;
        }
        const int after = fiber_join(target, nullptr);
        EXPECT_EQ(after, told ? -ESRCH : 0);
    }
}

TEST(CrossJoin, OfADetachedFiberIsInvalid) {
    Worker worker;
    auto body = [] { fiber_yield(); };
    const fiber_t target = create(body, On(worker).detached());
    EXPECT_EQ(fiber_join(target, nullptr), -EINVAL);
    EXPECT_EQ(fiber_detach(target), -EINVAL);
    EXPECT_EQ(fiber_cancel(target, nullptr), 0);
    await([&] { return fiber_state(target) == -ESRCH; });
    EXPECT_EQ(fiber_detach(worker.main), -EINVAL);
}

TEST(CrossAwait, TakesNothingAndTheResultIsStillThere) {
    Worker worker;
    std::atomic<bool> stop{false};
    auto body = [&] {
        await([&] { return stop.load(); });
        return pointer(7);
    };
    const fiber_t fiber = spawn_on(worker, body);
    EXPECT_EQ(fiber_await_timeout(fiber, FIBER_USEC(100)), -ETIMEDOUT);
    auto awaits = [&] { return pointer(fiber_await(fiber)); };
    fiber_t others[] = {start(awaits), start(awaits)};
    stop = true;
    for (fiber_t other : others) EXPECT_EQ(join(other), pointer(0));
    EXPECT_EQ(fiber_await(fiber), 0); // its cord answers that it has ended
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    EXPECT_EQ(join(fiber), pointer(7));
    EXPECT_EQ(fiber_await(fiber), -ESRCH);
}

TEST(CrossAwait, WithJoinersAndOfADetachedFiber) {
    Worker worker;
    auto yields = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(7);
    };
    fiber_t fiber = spawn_on(worker, yields);
    auto awaits = [&] { return pointer(fiber_await(fiber)); };
    auto joins = [&] { return join(fiber); };
    fiber_t before = start(awaits), joiner = start(joins), after = start(awaits);
    await([&] { return fiber_state(fiber) == FIBER_WAITING; });
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(join(before), pointer(0));
    EXPECT_EQ(join(joiner), pointer(7));
    EXPECT_EQ(join(after), pointer(0));
    EXPECT_EQ(fiber_await(fiber), -ESRCH);
    fiber = create(yields, On(worker).detached());
    EXPECT_EQ(fiber_join(fiber, nullptr), -EINVAL);
    before = start(awaits);
    EXPECT_EQ(fiber_wakeup(fiber), 0); // it starts
    await([&] { return fiber_state(fiber) == FIBER_WAITING; });
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(join(before), pointer(0));
}

TEST(CrossAwait, OfAFiberWhoseThreadExits) {
    fiber_t fiber{};
    std::atomic<bool> ready{false}, stop{false};
    auto waits = [] { return pointer(fiber_sleep(FIBER_FOREVER)); };
    Thread thread([&] {
        fiber = start(waits);
        ready = true;
        await_holding_the_thread([&] { return stop.load(); });
    });
    await([&] { return ready.load(); });
    auto awaits = [&] { return pointer(fiber_await(fiber)); };
    if (simulated()) { // there it is a cord, which ends when its fibers have
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    }
    fiber_t other = start(awaits);
    stop = true;
    thread.join();
    EXPECT_EQ(join(other), pointer(simulated() ? 0 : -EOWNERDEAD));
}

TEST(CrossSpawnAttr, MakesItOnTheCordOfItsAttributes) {
    Worker worker;
    auto where = [] { return pointer(intptr_t(this_cord_handle().id)); };
    fiber_t fiber{};
    EXPECT_EQ(fiber_spawn_attr(&fiber, On(worker), entry<decltype(where)>, &where), 0);
    EXPECT_EQ(join(fiber), pointer(intptr_t(worker.cord.id)));
    std::atomic<bool> ran{false};
    auto tells = [&] { ran = true; };
    EXPECT_EQ(fiber_spawn_attr(nullptr, On(worker), entry<decltype(tells)>, &tells), 0);
    await([&] { return ran.load(); });
}

TEST(CrossDetach, MakesTheHandleStaleAtTheEnd) {
    Worker worker;
    auto body = [] { fiber_yield(); };
    const fiber_t live = spawn_on(worker, body);
    await([&] { return waits(live); });
    EXPECT_EQ(fiber_detach(live), 0);
    EXPECT_EQ(fiber_wakeup(live), 0);
    await([&] { return fiber_state(live) == -ESRCH; });
    const fiber_t dead = spawn_on(worker, nothing);
    await([&] { return fiber_state(dead) == FIBER_DEAD; });
    EXPECT_EQ(fiber_detach(dead), 0);
    await([&] { return fiber_state(dead) == -ESRCH; });
}

TEST(CrossDetach, ThatHasNotArrivedRefusesASecondDetach) {
    const fiber_t fiber = create(nothing);
    in_thread([&] { EXPECT_EQ(fiber_detach(fiber), 0); });
    EXPECT_EQ(fiber_detach(fiber), -EINVAL); // nothing was received in between
    EXPECT_EQ(fiber_start(fiber), 0);
    await([&] { return fiber_state(fiber) == -ESRCH; });
}

TEST(CrossDetach, ThatHasNotArrivedRefusesEveryJoin) {
    NEEDS_THREADS();
    const fiber_t fresh = create(nothing), dead = start(nothing);
    for (fiber_t fiber : {fresh, dead}) {
        in_thread([&] { EXPECT_EQ(fiber_detach(fiber), 0); });
        EXPECT_EQ(fiber_join_timeout(fiber, nullptr, 0), -EINVAL); // nothing was received in between
        EXPECT_EQ(fiber_join(fiber, nullptr), -EINVAL);
        fiber_info_t seen{};
        EXPECT_EQ(fiber_info(fiber, &seen, sizeof seen), 0);
        EXPECT_TRUE(seen.detached);
    }
    EXPECT_EQ(fiber_start(fresh), 0);
    for (fiber_t fiber : {fresh, dead}) await([&] { return fiber_state(fiber) == -ESRCH; });
    for (int i = 0; i < 100; i++) EXPECT_EQ(join(spawn(nothing)), nullptr); // their slots serve joinable fibers
}

TEST(CrossDetach, LeavesEarlierJoinersTheirResult) {
    Worker worker;
    auto body = [] {
        fiber_yield();
        return pointer(5);
    };
    const fiber_t target = spawn_on(worker, body);
    auto joins = [&] { return join(target); };
    const fiber_t joiner = spawn(joins);
    await([&] { return waits(joiner) && waits(target); });
    EXPECT_EQ(fiber_detach(target), 0);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(join(joiner), pointer(5));
}

// The result of a join from here of a new fiber of another cord. While the request is on its way, a fiber of that cord
// acts without switching, and so without handling the request.
template <class Before, class Meanwhile>
void *joined_on_its_way(Before before, Meanwhile meanwhile) {
    Worker worker;
    std::atomic<uint64_t> id{0};
    std::atomic<bool> asked{false};
    auto body = [&] {
        const fiber_t target = create(nothing);
        before(target);
        id = target.id;
        await_holding_the_thread([&] { return asked.load(); });
        meanwhile(target);
    };
    const fiber_t there = spawn_on(worker, body);
    await([&] { return id != 0; });
    auto joins = [&] { return join({id}); };
    const fiber_t joiner = start(joins);
    asked = true;
    void *result = join(joiner);
    join(there);
    return result;
}

void ends(fiber_t fiber) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); } // at once, as it has not run

// A fiber that waits for another's end gets its result, whether or not the other's cord has heard of the join.
TEST(CrossJoin, TRAP_OnItsWayAtTheEndComesInTime) {
    NEEDS_THREADS();
    EXPECT_EQ(joined_on_its_way([](fiber_t) {}, ends), FIBER_CANCELLED);
    EXPECT_EQ(joined_on_its_way([](fiber_t) {},
                                [](fiber_t target) {
                                    ends(target);
                                    EXPECT_EQ(fiber_join(target, nullptr), -ESRCH);
                                    EXPECT_EQ(fiber_detach(target), -ESRCH);
                                }),
              FIBER_CANCELLED);
}

TEST(CrossJoin, TRAP_OnItsWayIsNotForgottenForAnotherJoiner) {
    NEEDS_THREADS();
    static fiber_t target;
    auto joins_too = [] { return join(target); };
    fiber_t other{};
    EXPECT_EQ(joined_on_its_way(
                  [&](fiber_t fiber) {
                      target = fiber;
                      other = start(joins_too);
                  },
                  [&](fiber_t fiber) {
                      ends(fiber);
                      EXPECT_EQ(join(other), FIBER_CANCELLED);
                  }),
              FIBER_CANCELLED);
}

TEST(CrossJoin, TRAP_OnItsWayIsNotForgottenForADetach) {
    NEEDS_THREADS();
    auto detach = [](fiber_t fiber) { EXPECT_EQ(fiber_detach(fiber), 0); };
    EXPECT_EQ(joined_on_its_way([](fiber_t) {},
                                [&](fiber_t fiber) {
                                    detach(fiber);
                                    ends(fiber);
                                }),
              FIBER_CANCELLED);
    EXPECT_EQ(joined_on_its_way(ends, detach), FIBER_CANCELLED);
}

TEST(CrossJoin, TRAP_OnItsWayIsNotForgottenForAJoinOfTheDead) {
    NEEDS_THREADS();
    EXPECT_EQ(joined_on_its_way(ends, [](fiber_t fiber) { EXPECT_EQ(join(fiber), FIBER_CANCELLED); }), FIBER_CANCELLED);
}

// The request to join is still on its way when the fiber is gone and its slot has had another since.
TEST(CrossJoin, TRAP_IsAnsweredThoughTheSlotHasBeenReusedMeanwhile) {
    for (int i = 0; i < often(100, 4); i++) {
        fiber_t target{};
        std::atomic<int> phase{0};
        auto fiber = [] {};
        auto body = [&] {
            target = start(fiber); // it has ended, else its end would answer
            fiber_sleep(0);        // polls now, so as not to do it below
            phase = 1;
            await_holding_the_thread([&] { return phase == 2; });
            expect_joined(fiber_join(target, nullptr));
            const fiber_t next = create(fiber); // in the same slot
            EXPECT_EQ(fiber_cancel(next, nullptr), 0);
            expect_joined(fiber_join(next, nullptr));
        };
        const fiber_cord_t cord = start_cord(body);
        await([&] { return phase == 1; });
        auto joins = [&] { return pointer(fiber_join(target, nullptr)); };
        const fiber_t joiner = start(joins);
        phase = 2;
        void *result = join(joiner);
        EXPECT_TRUE(result == pointer(-ESRCH) || result == nullptr) << result;
        join_cord(cord);
    }
}

TEST(CrossJoin, AFiberThatTheCordRefusesOnArrivalIsReportedToItsJoiner) {
    std::atomic<int> phase{0};
    auto never_runs = [] { ADD_FAILURE() << "ran"; };
    auto body = [&] {
        phase = 1;
        await_holding_the_thread([&] { return phase == 2; });
        auto closes = [] { EXPECT_EQ(fiber_cord_shutdown(this_cord_handle(), 0, FIBER_FOREVER), 0); };
        fiber_scope_t shield{};
        fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        const fiber_t closer = create(closes);
        EXPECT_EQ(fiber_wakeup(closer), 0);
        fiber_yield_timeout(FIBER_MSEC(2));
        fiber_scope_close(shield, nullptr);
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return phase == 1; });
    const fiber_t target = create_on(cord, never_runs), detached = create_on(cord, never_runs);
    EXPECT_EQ(fiber_detach(detached), 0);
    auto joins = [&] { return join(target); };
    const fiber_t joiner = start(joins);
    phase = 2;
    EXPECT_EQ(join(joiner), FIBER_CANCELLED);
    join_cord(cord);
}

// Requests hit fibers at every stage of short lives. None may reach another fiber that has the slot later.
TEST(CrossCord, TRAP_RequestsNeverReachTheNextFiberOfTheSlot) {
    const int lives = often(1500, 20);
    Worker workers[2];
    std::atomic<uint64_t> newest{0};
    std::atomic<bool> stop{false};
    std::atomic<int> astray{0};
    auto life = [&] {
        const uint64_t me = self().id;
        newest = me;
        void *value = nullptr;
        if (me % 3 == 0) fiber_reschedule();
        if (me % 5 == 0) fiber_yield_timeout(FIBER_USEC(20));
        if (fiber_cancelled(&value) && reinterpret_cast<uintptr_t>(value) != me) astray++;
        if (fiber_interrupted(&value) && reinterpret_cast<uintptr_t>(value) != me) astray++;
    };
    auto lives_on = [&] {
        const fiber_cord_t here = this_cord_handle();
        for (int i = 0; i < lives; i++) {
            const fiber_t fiber = i % 2 ? create(life) : create(life, On(i % 4 ? here : workers[0].cord));
            fiber_wakeup(fiber);
            EXPECT_LE(fiber_join(fiber, nullptr), 0); // a bothered fiber's joiner may be the second
        }
    };
    auto bothers = [&] {
        while (!is_set(stop)) {
            const fiber_t fiber{newest};
            void *const value = reinterpret_cast<void *>(fiber.id);
            for (int error : {fiber_wakeup(fiber), fiber_interrupt(fiber, value), fiber_cancel(fiber, value)})
                EXPECT_TRUE(error == 0 || error == -ESRCH || error == -EBUSY || (!fiber.id && error == -EINVAL))
                    << error;
        }
    };
    Thread plain(bothers);
    Thread joining([&] {
        while (!is_set(stop)) {
            const fiber_t fiber{newest};
            const int error = fiber_join_timeout(fiber, nullptr, FIBER_USEC(30));
            EXPECT_TRUE(error == 0 || error == -ESRCH || error == -ETIMEDOUT || (!fiber.id && error == -EINVAL))
                << error;
        }
    });
    const fiber_t first = spawn_on(workers[0], lives_on), second = spawn_on(workers[1], lives_on);
    join(first);
    join(second);
    stop = true;
    plain.join();
    joining.join();
    EXPECT_EQ(astray, 0);
}

TEST(CrossCord, NamesAreReadWhileTheirFibersComeAndGo) {
    Worker worker;
    std::atomic<uint64_t> newest{0};
    std::atomic<bool> stop{false};
    auto body = [&] {
        newest = self().id;
        fiber_set_name(self(), "own name");
        fiber_reschedule();
    };
    auto lives_on = [&] {
        for (int i = 0; i < often(1000, 20); i++) join(spawn_on(worker, body));
    };
    Thread reader([&] {
        while (!is_set(stop)) {
            char name[FIBER_NAME_MAX];
            fiber_info_t told;
            if (fiber_name({newest}, name, sizeof name) > 0) {
                EXPECT_STREQ(name, "own name");
            }
            if (fiber_info({newest}, &told, sizeof told) == 0) {
                EXPECT_EQ(told.cord, worker.cord.id);
            }
        }
    });
    join(spawn(lives_on));
    stop = true;
    reader.join();
}

} // namespace
