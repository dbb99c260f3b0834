// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes: deadlines, their nesting and their verdicts, and FIBER_WITH_TIMEOUT.
#include "conformance.h"
#include "support.h"

#include <limits>
#include <stdexcept>
#include <vector>

using namespace support;

namespace {

fiber_scope_t open_scope(int64_t timeout_ns, unsigned flags = 0) {
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, timeout_ns, flags), 0);
    return scope;
}

int close_scope(fiber_scope_t scope) { return fiber_scope_close(scope, nullptr); }

constexpr int64_t HOUR = FIBER_SEC(3600);

} // namespace

// ---- one scope ------------------------------------------------------------------------------------------------------

TEST(Scope, ThatDoesNotFireClosesWithZero) {
    run([] {
        fiber_scope_t scope = open_scope(HOUR);
        EXPECT_NE(scope.id, 0u);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        int64_t failure = 5;
        EXPECT_EQ(fiber_scope_close(scope, &failure), 0);
        EXPECT_EQ(failure, 0);
    });
}

TEST(Scope, DeadlineEndsAWaitNotBeforeItsTime) {
    run([] {
        int64_t begin = fiber_now();
        fiber_scope_t scope = open_scope(FIBER_MSEC(5));
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(5));
        int64_t failure = 5;
        EXPECT_EQ(fiber_scope_close(scope, &failure), -ETIMEDOUT);
        EXPECT_EQ(failure, 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    });
}

TEST(Scope, EveryKindOfWaitIsEndedByTheDeadline) {
    NEEDS_IO();
    Pipe pipe;
    auto body = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t other = start(body);
    auto transferred_body = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t transferred = create(transferred_body);
    int waits = 0;
    run([&] {
        auto timed = [&](auto wait) {
            fiber_scope_t scope = open_scope(FIBER_MSEC(1));
            EXPECT_EQ(wait(), -ETIMEDOUT) << "wait " << waits;
            EXPECT_EQ(close_scope(scope), -ETIMEDOUT) << "wait " << waits;
            waits++;
        };
        char byte = 0;
        void *value = nullptr;
        timed([&] { return fiber_yield(); });
        timed([&] { return fiber_yield_timeout(HOUR); });
        timed([&] { return fiber_yield_value(&value); });
        timed([&] { return fiber_sleep(FIBER_FOREVER); });
        timed([&] { return fiber_join(other, nullptr); });
        timed([&] { return fiber_join_timeout(other, nullptr, HOUR); });
        // On a busy machine the deadline may pass before the call, which is then refused: the other fiber has not run.
        do {
            timed([&] { return fiber_transfer(transferred, nullptr, nullptr); });
        } while (fiber_state(transferred) == FIBER_NEW);
        timed([&] { return static_cast<int>(fiber_read(pipe.read_end, &byte, 1)); });
        timed([&] { return fiber_poll_fd(pipe.read_end, 1); });
    });
    EXPECT_GE(waits, 9);
    EXPECT_EQ(fiber_state(other), FIBER_WAITING); // still joinable
    EXPECT_EQ(fiber_wakeup(other), 0);
    EXPECT_EQ(fiber_wakeup(transferred), 0);
    join(other);
    join(transferred);
}

TEST(Scope, AfterItFiredEveryCallThatSwitchesIsRefusedUntilItIsClosed) {
    NEEDS_IO();
    int runs = 0;
    auto other_body = [&] { runs++; };
    fiber_t fresh = create(other_body);
    Pipe pipe;
    EXPECT_EQ(write(pipe.write_end, "x", 1), 1);
    run([&] {
        fiber_scope_t scope = open_scope(FIBER_MSEC(1));
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        char byte = 0;
        for (int round = 0; round < 2; round++) {
            EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
            EXPECT_EQ(fiber_sleep(0), -ETIMEDOUT);
            EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
            EXPECT_EQ(fiber_start(fresh), -ETIMEDOUT);
            EXPECT_EQ(fiber_transfer(fresh, nullptr, nullptr), -ETIMEDOUT);
            EXPECT_EQ(fiber_join(fresh, nullptr), -ETIMEDOUT);
            EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), -ETIMEDOUT);
        }
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1); // no operation has taken it
    });
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(fiber_state(fresh), FIBER_NEW);
    EXPECT_EQ(fiber_start(fresh), 0);
    join(fresh);
}

TEST(Scope, DeadlineZeroEndsTheFirstCallThatMustWait) {
    NEEDS_IO();
    Pipe pipe;
    run([&] {
        char byte = 0;
        fiber_scope_t scope = open_scope(0);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
        scope = open_scope(0);
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
        scope = open_scope(0);
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), -ETIMEDOUT);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
    });
}

TEST(Scope, DeadlineThatPassedBeforeTheCallEndsIt) {
    NEEDS_IO();
    Pipe pipe;
    run([&] {
        char byte = 0;
        fiber_scope_t scope = open_scope(FIBER_USEC(100));
        burn(FIBER_MSEC(1));
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), -ETIMEDOUT);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
        scope = open_scope(FIBER_USEC(100));
        burn(FIBER_MSEC(1));
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
    });
}

TEST(Scope, OneHundredDeadlinesInARowAllFire) {
    run([] {
        for (int i = 0; i < 100; i++) {
            int64_t begin = fiber_now();
            fiber_scope_t scope = open_scope(FIBER_USEC(200));
            ASSERT_EQ(fiber_yield(), -ETIMEDOUT) << i;
            ASSERT_GE(fiber_now() - begin, FIBER_USEC(200)) << i;
            ASSERT_EQ(close_scope(scope), -ETIMEDOUT) << i;
        }
    });
}

TEST(Scope, OneHundredFibersWithDeadlinesOfTheirOwnAllTimeOut) {
    int fired = 0, next = 0;
    auto body = [&] {
        int64_t duration = FIBER_USEC(100) * (1 + next++ * 37 % 100);
        int64_t begin = fiber_now();
        fiber_scope_t scope = open_scope(duration);
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_GE(fiber_now() - begin, duration);
        if (close_scope(scope) == -ETIMEDOUT) fired++;
    };
    std::vector<fiber_t> fibers(100);
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(fired, 100);
}

TEST(Scope, DeadlinePushedBackOneHundredTimesNeverFiresEarly) {
    run([] {
        constexpr int64_t DURATION = FIBER_MSEC(20);
        int64_t set = fiber_now();
        fiber_scope_t scope = open_scope(DURATION);
        for (int i = 0; i < 100; i++) {
            int result = fiber_sleep(FIBER_USEC(500));
            // On a machine that stalls for long it may fire, but then its time has come.
            if (result != 0) {
                ASSERT_EQ(result, -ETIMEDOUT);
                ASSERT_GE(fiber_now() - set, DURATION) << i;
            }
            set = fiber_now();
            ASSERT_EQ(fiber_scope_set_timeout(scope, DURATION), 0);
        }
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_GE(fiber_now() - set, DURATION);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
    });
}

TEST(Scope, DeadlineCanBeBroughtForward) {
    run([] {
        fiber_scope_t scope = open_scope(HOUR);
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_scope_set_timeout(scope, FIBER_MSEC(2)), 0);
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(2));
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
        scope = open_scope(FIBER_FOREVER);
        EXPECT_EQ(fiber_scope_set_timeout(scope, 0), 0);
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
    });
}

TEST(Scope, DeadlineCanBeTakenAway) {
    run([] {
        fiber_scope_t scope = open_scope(FIBER_MSEC(2));
        EXPECT_EQ(fiber_scope_set_timeout(scope, FIBER_FOREVER), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(6)), 0);
        EXPECT_EQ(close_scope(scope), 0);
    });
}

TEST(Scope, DeadlineThatFiredAndIsMovedAheadCountsAsNotFired) {
    run([] {
        fiber_scope_t scope = open_scope(FIBER_MSEC(1));
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_set_timeout(scope, HOUR), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(close_scope(scope), 0);
    });
}

TEST(Scope, AWaitThatCompletesInTimeIsNotEndedLater) {
    run([] {
        int64_t limit = FIBER_MSEC(3);
        for (int verdict = -ETIMEDOUT; verdict == -ETIMEDOUT && limit < HOUR; limit *= 2) { // on a busy machine
            fiber_scope_t scope = open_scope(limit);
            EXPECT_EQ(fiber_wakeup(self()), 0);
            EXPECT_EQ(fiber_yield(), 0);
            verdict = close_scope(scope);
        }
        ASSERT_LT(limit, HOUR);
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_sleep(limit), 0); // the closed scope's deadline passes meanwhile
        EXPECT_GE(fiber_now() - begin, limit);
    });
}

// Where one did, no timer of the cord might fire any more, and nothing would end the test: the alarm ends the process.
TEST(Scope, LongDurationsDoNotOverflow) {
    ::alarm(60);
    run([] {
        for (int64_t duration : {FIBER_FOREVER, FIBER_FOREVER - 1, FIBER_FOREVER / 2}) {
            fiber_scope_t scope = open_scope(duration);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            EXPECT_EQ(fiber_scope_set_timeout(scope, duration), 0);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            EXPECT_EQ(close_scope(scope), 0);
        }
    });
    ::alarm(0);
}

// The verdict names the stronger of two reasons, whichever came first.
TEST(Scope, ThatIsCancelledAfterItTimedOutSaysCancelled) {
    run([] {
        fiber_scope_t scope = open_scope(0);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
        EXPECT_EQ(close_scope(scope), -ECANCELED);
        scope = open_scope(0);
        EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
        EXPECT_EQ(fiber_scope_set_timeout(scope, 0), 0);
        EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
        EXPECT_EQ(close_scope(scope), -ECANCELED);
    });
}

// One look finds the end of a sleep and the deadline of the scope around it: the sleep may have succeeded, but the
// scope's children are cancelled. The rescuer ends the child's wait if they are not.
TEST(Scope, TRAP_ADeadlineThatComesWithTheEndOfASleepCancelsTheChildren) {
    for (int64_t time : {int64_t{0}, FIBER_MSEC(1)}) {
        fiber_event_t event{}, closing{};
        int64_t of_child = 1;
        auto rescuer = [&] {
            EXPECT_EQ(fiber_event_wait(&closing), 0);
            for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_event_set(&event), 0);
        };
        struct Child {
            fiber_event_t *event;
            int64_t *result;
        } child = {&event, &of_child};
        const fiber_t fiber = start(rescuer);
        run([&] {
            fiber_scope_t scope = open_scope(HOUR);
            auto waits = [](void *arg) -> int64_t {
                auto *it = static_cast<Child *>(arg);
                *it->result = fiber_event_wait(it->event);
                return 0;
            };
            EXPECT_EQ(fiber_scope_spawn(scope, nullptr, waits, &child), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_scope_set_timeout(scope, time), 0);
            const int slept = fiber_sleep(time ? time : 1);
            EXPECT_TRUE(slept == 0 || slept == -ETIMEDOUT) << slept;
            EXPECT_EQ(fiber_event_set(&closing), 0);
            EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
        });
        join(fiber);
        EXPECT_EQ(of_child, -ECANCELED);
    }
}

TEST(Scope, RefusesNullNegativeAndUnknown) {
    fiber_scope_t scope{77};
    EXPECT_EQ(fiber_scope_open(nullptr, FIBER_SEC(1), 0), -EINVAL);
    EXPECT_EQ(fiber_scope_open(&scope, -1, 0), -EINVAL);
    EXPECT_EQ(fiber_scope_open(&scope, std::numeric_limits<int64_t>::min(), 0), -EINVAL);
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_SEC(1), 1u << 31), -EINVAL);
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_SEC(1), ~FIBER_SCOPE_SHIELD), -EINVAL);
    EXPECT_EQ(fiber_reschedule(), 0);
    run([] {
        fiber_scope_t live = open_scope(FIBER_SEC(10));
        EXPECT_EQ(fiber_scope_set_timeout(live, -1), -EINVAL);
        EXPECT_EQ(fiber_scope_set_timeout(live, std::numeric_limits<int64_t>::min()), -EINVAL);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(close_scope(live), 0);
    });
}

TEST(Scope, OfTheMainFlow) {
    fiber_scope_t scope = open_scope(FIBER_MSEC(2));
    EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
    EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
    EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
    EXPECT_EQ(fiber_reschedule(), 0);
}

TEST(Scope, DeadlineOfOneFiberDoesNotConcernAnother) {
    auto other_body = [] {
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(6)), 0);
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(6));
    };
    run([&] {
        fiber_scope_t scope = open_scope(FIBER_MSEC(2));
        fiber_t other = spawn(other_body); // made inside the scope, but not bound by it
        EXPECT_EQ(fiber_join(other, nullptr), -ETIMEDOUT);
        EXPECT_EQ(close_scope(scope), -ETIMEDOUT);
        join(other);
    });
}

// ---- nesting --------------------------------------------------------------------------------------------------------

TEST(ScopeNesting, OuterShorterWinsWithTheOutersVerdict) {
    run([] {
        fiber_scope_t outer = open_scope(FIBER_MSEC(2)), inner = open_scope(HOUR);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(close_scope(inner), 0);
        EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
        EXPECT_EQ(close_scope(outer), -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(ScopeNesting, InnerShorterWinsWithTheInnersVerdict) {
    run([] {
        fiber_scope_t outer = open_scope(HOUR), inner = open_scope(FIBER_MSEC(2));
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(close_scope(inner), -ETIMEDOUT);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(close_scope(outer), 0);
    });
}

TEST(ScopeNesting, TRAP_AnOuterTimeoutIsNotSwallowedByAnInnerOne) {
    run([] {
        fiber_scope_t outer = open_scope(FIBER_MSEC(2)), inner = open_scope(FIBER_MSEC(2));
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        burn(FIBER_MSEC(1)); // by now both have passed
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        int inner_verdict = close_scope(inner);
        EXPECT_TRUE(inner_verdict == 0 || inner_verdict == -ETIMEDOUT) << inner_verdict;
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT); // still refused, for the outer one's sake
        EXPECT_EQ(close_scope(outer), -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(ScopeNesting, TRAP_AnInnerTimeoutFollowedByTheOuterEachHasItsOwnVerdict) {
    run([] {
        fiber_scope_t outer = open_scope(FIBER_MSEC(40)), inner = open_scope(FIBER_MSEC(2));
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(close_scope(inner), -ETIMEDOUT);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(close_scope(outer), -ETIMEDOUT);
    });
}

TEST(ScopeNesting, TRAP_AForeignCancelPassesThroughAnInnerScope) {
    int first = 0, verdict = 1, second = 0, outer_verdict = 1;
    auto body = [&] {
        fiber_scope_t outer = open_scope(HOUR), inner = open_scope(HOUR);
        first = fiber_sleep(HOUR);
        verdict = close_scope(inner);
        second = fiber_sleep(HOUR);
        outer_verdict = close_scope(outer);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(first, -ECANCELED);
    EXPECT_EQ(verdict, 0);
    EXPECT_EQ(second, -ECANCELED);
    EXPECT_EQ(outer_verdict, 0);
}

TEST(ScopeNesting, MatchingIsByIdentityThroughTenLevels) {
    run([] {
        for (int shortest = 0; shortest < 10; shortest++) {
            fiber_scope_t scopes[10];
            for (int i = 0; i < 10; i++) scopes[i] = open_scope(i == shortest ? FIBER_MSEC(1) : HOUR);
            EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
            for (int i = 9; i >= 0; i--) {
                EXPECT_EQ(close_scope(scopes[i]), i == shortest ? -ETIMEDOUT : 0) << i << " of " << shortest;
                EXPECT_EQ(fiber_reschedule(), i > shortest ? -ETIMEDOUT : 0) << i << " of " << shortest;
            }
        }
    });
}

TEST(ScopeNesting, ClosingAnOuterScopeClosesTheInnerOnes) {
    run([] {
        fiber_scope_t outer = open_scope(HOUR), middle = open_scope(HOUR), inner = open_scope(FIBER_MSEC(2));
        EXPECT_EQ(close_scope(outer), 0);
        EXPECT_EQ(close_scope(inner), -ESRCH);
        EXPECT_EQ(close_scope(middle), -ESRCH);
        EXPECT_EQ(close_scope(outer), -ESRCH);
        EXPECT_EQ(fiber_scope_set_timeout(inner, HOUR), -ESRCH);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0); // the inner deadline is gone
    });
}

TEST(ScopeNesting, AnOutersVerdictIsNotThatOfAnInnerThatFired) {
    run([] {
        fiber_scope_t outer = open_scope(HOUR), inner = open_scope(FIBER_MSEC(1));
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(close_scope(outer), 0);
        EXPECT_EQ(close_scope(inner), -ESRCH);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(ScopeNesting, ClosingAMiddleScopeLeavesTheOuterOpen) {
    run([] {
        fiber_scope_t outer = open_scope(FIBER_MSEC(3)), middle = open_scope(HOUR), inner = open_scope(HOUR);
        EXPECT_EQ(close_scope(middle), 0);
        EXPECT_EQ(close_scope(inner), -ESRCH);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(close_scope(outer), -ETIMEDOUT);
    });
}

TEST(ScopeNesting, MovingAnOuterDeadlineCountsInsideToo) {
    run([] {
        fiber_scope_t outer = open_scope(HOUR), inner = open_scope(HOUR);
        EXPECT_EQ(fiber_scope_set_timeout(outer, FIBER_MSEC(2)), 0);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_set_timeout(outer, HOUR), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(close_scope(inner), 0);
        EXPECT_EQ(close_scope(outer), 0);
    });
}

TEST(ScopeNesting, TenThousandScopesDeep) {
    run([] {
        std::vector<fiber_scope_t> scopes(often<size_t>(10000, 50));
        for (fiber_scope_t &scope : scopes) scope = open_scope(HOUR);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(close_scope(scopes[0]), 0);
        for (fiber_scope_t scope : scopes) ASSERT_EQ(close_scope(scope), -ESRCH);
    });
}

// ---- ownership and ends ---------------------------------------------------------------------------------------------

TEST(ScopeOwner, AnotherFiberMayNeitherCloseNorMoveIt) {
    fiber_scope_t scope{};
    int verdict = 1;
    auto owner_body = [&] {
        scope = open_scope(FIBER_SEC(100));
        EXPECT_EQ(fiber_yield(), 0);
        verdict = close_scope(scope);
    };
    fiber_t owner = start(owner_body);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -EPERM);
    EXPECT_EQ(fiber_scope_set_timeout(scope, 0), -EPERM);
    run([&] {
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -EPERM);
        EXPECT_EQ(fiber_scope_set_timeout(scope, 0), -EPERM);
    });
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_state(owner), FIBER_WAITING);
    EXPECT_EQ(fiber_wakeup(owner), 0);
    join(owner);
    EXPECT_EQ(verdict, 0);
}

TEST(ScopeOwner, CloseTwiceIsGone) {
    run([] {
        fiber_scope_t scope = open_scope(HOUR);
        EXPECT_EQ(close_scope(scope), 0);
        EXPECT_EQ(close_scope(scope), -ESRCH);
        EXPECT_EQ(fiber_scope_set_timeout(scope, HOUR), -ESRCH);
        fiber_scope_t next = open_scope(HOUR); // perhaps in the same record
        EXPECT_EQ(close_scope(scope), -ESRCH);
        EXPECT_EQ(fiber_scope_set_timeout(scope, 0), -ESRCH);
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        EXPECT_EQ(close_scope(next), 0);
    });
}

TEST(ScopeEnd, AScopeLeftOpenAtTheFibersEndIsClosed) {
    fiber_scope_t outer{}, inner{}, shield{};
    auto body = [&] {
        outer = open_scope(FIBER_MSEC(2));
        inner = open_scope(HOUR);
        shield = open_scope(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        return pointer(3);
    };
    EXPECT_EQ(join(spawn(body)), pointer(3));
    for (fiber_scope_t scope : {outer, inner, shield}) {
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ESRCH);
        EXPECT_EQ(fiber_scope_set_timeout(scope, HOUR), -ESRCH);
    }
    // Neither its deadline nor its shield has passed to the next fiber.
    auto next = [] {
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(5));
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_reschedule(), -ECANCELED);
    };
    run(next);
}

TEST(ScopeEnd, FiberExitClosesOpenScopes) {
    fiber_scope_t scope{};
    auto body = [&] {
        scope = open_scope(HOUR);
        fiber_exit(pointer(3));
    };
    EXPECT_EQ(join(spawn(body)), pointer(3));
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ESRCH);
}

// ---- FIBER_WITH_TIMEOUT ---------------------------------------------------------------------------------------------

namespace {

int returns_from_the_block(int *verdict) {
    FIBER_WITH_TIMEOUT(FIBER_MSEC(2), verdict) { return fiber_sleep(HOUR); }
    return 1;
}

int returns_in_time(int *verdict) {
    FIBER_WITH_TIMEOUT(FIBER_MSEC(2), verdict) { return 7; }
    return 1;
}

} // namespace

TEST(WithTimeout, VerdictIsZeroInTime) {
    run([] {
        int verdict = 1, runs = 0;
        FIBER_WITH_TIMEOUT(HOUR, &verdict) {
            runs++;
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        }
        EXPECT_EQ(verdict, 0);
        EXPECT_EQ(runs, 1);
    });
}

TEST(WithTimeout, VerdictIsTimedOutWhenItFired) {
    run([] {
        int verdict = 1;
        FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &verdict) {
            EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
            EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
        }
        EXPECT_EQ(verdict, -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(WithTimeout, VerdictMayBeNull) {
    run([] {
        FIBER_WITH_TIMEOUT(FIBER_MSEC(1), nullptr) { EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT); }
        EXPECT_EQ(fiber_reschedule(), 0);
        bool ran = false;
        FIBER_WITH_TIMEOUT(-1, nullptr) { ran = true; }
        EXPECT_FALSE(ran);
    });
}

TEST(WithTimeout, ReturnClosesTheScope) {
    run([] {
        int verdict = 1;
        EXPECT_EQ(returns_from_the_block(&verdict), -ETIMEDOUT);
        EXPECT_EQ(verdict, -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(returns_in_time(&verdict), 7);
        EXPECT_EQ(verdict, 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
    });
}

TEST(WithTimeout, BreakLeavesTheBlockNotTheLoopAroundIt) {
    run([] {
        int verdict = 1, turns = 0, after_break = 0;
        for (int i = 0; i < 3; i++) {
            turns++;
            verdict = 1;
            FIBER_WITH_TIMEOUT(FIBER_MSEC(2), &verdict) {
                if (i >= 0) break;
                after_break++;
            }
            EXPECT_EQ(verdict, 0);
        }
        EXPECT_EQ(turns, 3);
        EXPECT_EQ(after_break, 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0); // closed each time
    });
}

TEST(WithTimeout, GotoClosesTheScope) {
    run([] {
        int verdict = 1;
        FIBER_WITH_TIMEOUT(FIBER_MSEC(2), &verdict) {
            if (verdict == 1) goto out;
        }
    out:
        EXPECT_EQ(verdict, 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
    });
}

TEST(WithTimeout, AnExceptionClosesTheScope) {
    run([] {
        int verdict = 1;
        try {
            FIBER_WITH_TIMEOUT(FIBER_MSEC(2), &verdict) { throw std::runtime_error("out"); }
        } catch (const std::runtime_error &) {}
        EXPECT_EQ(verdict, 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
    });
}

TEST(WithTimeout, BlocksNest) {
    run([] {
        int outer = 1, inner = 1;
        FIBER_WITH_TIMEOUT(HOUR, &outer) {
            FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &inner) { EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT); }
            EXPECT_EQ(inner, -ETIMEDOUT);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        }
        EXPECT_EQ(outer, 0);
        outer = inner = 1;
        FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &outer) {
            FIBER_WITH_TIMEOUT(HOUR, &inner) { EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT); }
            EXPECT_EQ(inner, 0);
            EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
        }
        EXPECT_EQ(outer, -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(WithTimeout, ANegativeTimeDoesNotRunTheBlock) {
    run([] {
        int verdict = 1;
        bool ran = false;
        FIBER_WITH_TIMEOUT(-1, &verdict) { ran = true; }
        EXPECT_FALSE(ran);
        EXPECT_EQ(verdict, -EINVAL);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(WithTimeout, TimeZeroRunsTheBlockOnce) {
    run([] {
        int verdict = 1, runs = 0;
        FIBER_WITH_TIMEOUT(0, &verdict) {
            runs++;
            EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        }
        EXPECT_EQ(runs, 1);
        EXPECT_EQ(verdict, -ETIMEDOUT);
    });
}

TEST(WithTimeout, AScopeLeftOpenInsideIsClosedWithTheBlock) {
    run([] {
        int verdict = 1;
        fiber_scope_t left{};
        FIBER_WITH_TIMEOUT(HOUR, &verdict) { left = open_scope(FIBER_MSEC(2)); }
        EXPECT_EQ(verdict, 0);
        EXPECT_EQ(close_scope(left), -ESRCH);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
    });
}

TEST(WithTimeout, FiberExitInsideLeavesNothingBehind) {
    int verdict = 1;
    auto body = [&] {
        FIBER_WITH_TIMEOUT(FIBER_MSEC(2), &verdict) { fiber_exit(pointer(1)); }
    };
    EXPECT_EQ(join(spawn(body)), pointer(1));
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
    EXPECT_EQ(verdict, 1); // never written: the block was left open, and the fiber's end closed it
}

TEST(ScopeSetTimeout, TRAP_ToNowDoesNotUndoADeadlineThatHasFired) {
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
    EXPECT_EQ(fiber_sleep(FIBER_SEC(5)), -ETIMEDOUT);
    EXPECT_EQ(fiber_scope_set_timeout(scope, 0), 0);
    EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
}

// ---- shields against cancels alone ----------------------------------------------------------------------------------

TEST(ShieldCancel, HoldsBackTheCancelOfTheFiber) {
    auto body = [] {
        fiber_scope_t shield = open_scope(HOUR, FIBER_SCOPE_SHIELD_CANCEL);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0); // the cancel comes meanwhile
        EXPECT_EQ(fiber_cancelled(nullptr), 1);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(close_scope(shield), 0);
        EXPECT_EQ(fiber_reschedule(), -ECANCELED); // it was not lost
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
}

TEST(ShieldCancel, LetsInterruptsThrough) {
    auto body = [] {
        fiber_scope_t shield = open_scope(HOUR, FIBER_SCOPE_SHIELD_CANCEL);
        EXPECT_EQ(fiber_sleep(HOUR), -EINTR);
        void *value = nullptr;
        EXPECT_EQ(fiber_interrupted(&value), 1);
        EXPECT_EQ(value, pointer(5));
        EXPECT_EQ(close_scope(shield), 0);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); // held back
    EXPECT_EQ(fiber_interrupt(fiber, pointer(5)), 0);
    join(fiber);
}

TEST(ShieldCancel, LetsDeadlinesAroundItThrough) {
    run([] {
        fiber_scope_t outer = open_scope(FIBER_MSEC(2));
        fiber_scope_t shield = open_scope(HOUR, FIBER_SCOPE_SHIELD_CANCEL);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
        EXPECT_EQ(close_scope(shield), 0);
        EXPECT_EQ(close_scope(outer), -ETIMEDOUT);
    });
}

TEST(ShieldCancel, HoldsBackTheCancelOfAScopeAroundItAndNotItsOwn) {
    run([] {
        fiber_scope_t outer = open_scope(HOUR);
        fiber_scope_t shield = open_scope(HOUR, FIBER_SCOPE_SHIELD_CANCEL);
        EXPECT_EQ(fiber_scope_cancel(outer, nullptr), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_scope_cancel(shield, nullptr), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), -ECANCELED);
        EXPECT_EQ(close_scope(shield), -ECANCELED);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), -ECANCELED);
        EXPECT_EQ(close_scope(outer), -ECANCELED);
    });
}

TEST(ShieldCancel, ItsChildrenLiveThroughACancelAndNotThroughADeadline) {
    for (bool by_deadline : {false, true}) {
        auto body = [by_deadline] {
            fiber_scope_t outer = open_scope(by_deadline ? FIBER_MSEC(2) : HOUR);
            fiber_scope_t shield = open_scope(HOUR, FIBER_SCOPE_SHIELD_CANCEL | FIBER_SCOPE_COLLECT);
            auto child = [](void *) -> int64_t { return fiber_sleep(FIBER_MSEC(4)) ? -ECANCELED : 1; };
            EXPECT_EQ(fiber_scope_spawn(shield, nullptr, child, nullptr), 0);
            EXPECT_EQ(fiber_yield(), by_deadline ? -ETIMEDOUT : 0);
            int64_t result = 0;
            if (!by_deadline) {
                EXPECT_EQ(fiber_scope_next(shield, nullptr, &result), 1);
                EXPECT_EQ(result, 1);
            }
            EXPECT_EQ(close_scope(shield), 0);
            EXPECT_EQ(close_scope(outer), by_deadline ? -ETIMEDOUT : 0);
        };
        fiber_t fiber = start(body);
        if (!by_deadline) {
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
            EXPECT_EQ(fiber_wakeup(fiber), 0);
        }
        join(fiber);
    }
}

TEST(ShieldCancel, InsideAWholeShieldAddsNothing) {
    auto body = [] {
        fiber_scope_t whole = open_scope(HOUR, FIBER_SCOPE_SHIELD);
        fiber_scope_t both = open_scope(HOUR, FIBER_SCOPE_SHIELD | FIBER_SCOPE_SHIELD_CANCEL);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(close_scope(both), 0);
        fiber_scope_t inner = open_scope(HOUR, FIBER_SCOPE_SHIELD_CANCEL);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(close_scope(inner), 0);
        EXPECT_EQ(close_scope(whole), 0);
        EXPECT_EQ(fiber_reschedule(), -ECANCELED);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
}
