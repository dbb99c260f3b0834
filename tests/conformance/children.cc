// SPDX-License-Identifier: MIT OR Apache-2.0
// Children of scopes on one cord: which children a scope waits for, whose end cancels the others, the verdict, and the
// reported ends.
#include "cord_support.h"
#include "family.h"

#include <vector>

using namespace support;

// ---- ends -----------------------------------------------------------------------------------------------------------

TEST(Children, TheScopeEndsAfterAllOfThem) {
    run([] {
        Family family;
        int ended = 0;
        auto body = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            return int64_t(++ended);
        };
        fiber_t children[10];
        for (fiber_t &child : children) child = family.spawn(body);
        EXPECT_EQ(ended, 0);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ended, 10);
        EXPECT_EQ(family.failure, 0);
        for (fiber_t child : children) EXPECT_TRUE(is_gone(child));
        EXPECT_EQ(family.close(), -ESRCH);
    });
}

TEST(Children, TheFirstFailureCancelsTheSiblings) {
    run([] {
        Family family;
        Patient patient;
        auto fails = [] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            return int64_t(-EIO);
        };
        family.spawn(patient);
        family.spawn(fails);
        family.spawn(patient);
        EXPECT_EQ(family.close(), 0); // that is no verdict
        EXPECT_EQ(family.failure, -EIO);
        EXPECT_EQ(patient.cancelled, 2);
        EXPECT_EQ(patient.reason, nullptr);
        EXPECT_EQ(fiber_reschedule(), 0); // nor does the owner's fiber count as cancelled
    });
}

TEST(Children, OfSeveralFailuresTheFirstIsReported) {
    run([] {
        Family family;
        auto one = [] { return int64_t(-EIO); };
        auto other = [] {
            EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
            return int64_t(-ENOSPC); // an error during its cleanup
        };
        family.spawn(other);
        family.spawn(one);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -EIO);
    });
}

TEST(Children, AFailureDoesNotEndTheOwnersCalls) {
    run([] {
        Family family;
        auto fails = [] { return int64_t(-EIO); };
        family.spawn(fails);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(family.next(), -EIO);
        EXPECT_EQ(family.close(), 0);
    });
}

TEST(Children, CollectLetsTheOthersGoOn) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        int whole = 0;
        auto fails = [] { return int64_t(-EIO); };
        auto fails_later = [] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            return int64_t(-ENOENT);
        };
        auto works = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
            return int64_t(whole++);
        };
        family.spawn(works);
        family.spawn(fails);
        family.spawn(fails_later);
        family.spawn(works);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -EIO);
        EXPECT_EQ(whole, 2);
    });
}

TEST(Children, FirstCancelsTheRestWhenOneSucceeds) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_FIRST);
        Patient patient;
        auto fails = [] { return int64_t(-ECONNREFUSED); };
        auto succeeds = [] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            return int64_t(3);
        };
        family.spawn(patient);
        family.spawn(fails); // which cancels no fiber
        family.spawn(succeeds);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -ECONNREFUSED);
        EXPECT_EQ(patient.cancelled, 1);
    });
}

TEST(Children, FirstWithoutASuccessWaitsForAllAndReportsTheFirstFailure) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_FIRST);
        int ended = 0;
        auto fails = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            return int64_t(-++ended);
        };
        for (int i = 0; i < 3; i++) family.spawn(fails);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ended, 3);
        EXPECT_EQ(family.failure, -1);
    });
}

TEST(Children, FirstIsNotWonByAChildThatGaveUpWhenCancelled) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_FIRST);
        Patient patient;
        family.spawn(patient);
        family.spawn(patient);
        family.limit(FIBER_MSEC(1));
        EXPECT_EQ(family.close(), -ETIMEDOUT);
        EXPECT_EQ(family.failure, 0);
        EXPECT_EQ(patient.cancelled, 2);
    });
}

TEST(Children, AResultIsTheWholeNumber) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        static constexpr int64_t results[] = {0, INT64_MAX, INT64_MIN, -1, 1ll << 40, -ECANCELED};
        size_t turn = 0;
        auto body = [&] { return results[turn++]; };
        for (size_t i = 0; i < std::size(results); i++) family.spawn(body);
        for (int64_t result : results) {
            int64_t told = 77;
            EXPECT_EQ(fiber_scope_next(family.scope, nullptr, &told), 1);
            EXPECT_EQ(told, result);
        }
        EXPECT_EQ(fiber_scope_next(family.scope, nullptr, nullptr), 0);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, INT64_MIN);
    });
}

TEST(Children, MayEndByFiberExit) {
    run([] {
        Family family;
        auto body = []() -> int64_t {
            fiber_exit(pointer(-ENOENT));
            return 0;
        };
        family.spawn(body);
        EXPECT_EQ(family.next(), -ENOENT);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -ENOENT);
    });
}

TEST(Children, AChildThatIsCancelledBeforeItRunsHasFailed) {
    run([] {
        Family family;
        Patient patient;
        family.spawn(patient);
        fiber_t child = family.spawn(patient);
        EXPECT_EQ(fiber_cancel(child, nullptr), 0);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -ECANCELED);
        EXPECT_EQ(patient.ran, 1);
        EXPECT_EQ(patient.cancelled, 1);
    });
}

TEST(Children, OneThousandEndCleanly) {
    run([] {
        const int count = often(1000, 100);
        int ran = 0;
        auto warm = [] { return int64_t(0); };
        auto body = [&] {
            ran++;
            return int64_t(fiber_sleep(FIBER_USEC(ran % 7)));
        };
        for (int round = 0; round < 3; round++) {
            Family family;
            const fiber_t first = family.spawn(warm);
            for (int i = 1; i < count; i++) family.spawn(body);
            for (int i = 0; i < count; i++) EXPECT_EQ(family.next(), 0);
            EXPECT_EQ(family.next(), 1);
            EXPECT_TRUE(is_gone(first));
            EXPECT_EQ(family.close(), 0);
        }
        EXPECT_EQ(ran, 3 * (count - 1));
    });
}

TEST(Children, OneThousandAreCancelledTogether) {
    run([] {
        Family family;
        Patient patient;
        const int count = often(1000, 100);
        for (int i = 0; i < count; i++) family.spawn(patient);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(patient.ran, count);
        EXPECT_EQ(fiber_scope_cancel(family.scope, &patient), 0);
        EXPECT_EQ(family.close(), -ECANCELED);
        EXPECT_EQ(patient.cancelled, count);
        EXPECT_EQ(patient.reason, &patient);
    });
}

TEST(Children, OthersMayJoinDetachAndCancelThem) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        auto body = [] {
            fiber_yield();
            return int64_t(5);
        };
        const fiber_t joined = family.spawn(body), detached = family.spawn(body), cancelled = family.spawn(body);
        auto joiner_body = [&] { return join(joined); };
        const fiber_t joiner = start(joiner_body);
        EXPECT_EQ(fiber_detach(detached), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_wakeup(joined), 0);
        EXPECT_EQ(fiber_wakeup(detached), 0);
        EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
        for (int i = 0; i < 3; i++) EXPECT_EQ(family.next(), 5);
        EXPECT_EQ(join(joiner), pointer(5));
        EXPECT_EQ(family.close(), 0);
    });
}

TEST(Children, TRAP_ASiblingThatTransferredToAFailingChildGoesOnOnce) {
    run([] {
        Family family;
        Trace trace;
        auto fails_body = [] {
            EXPECT_EQ(fiber_yield(), 0);
            return int64_t(-EIO);
        };
        const fiber_t fails = family.spawn(fails_body);
        EXPECT_EQ(fiber_reschedule(), 0);
        auto transfers = [&] {
            void *out = nullptr;
            EXPECT_EQ(fiber_transfer(fails, nullptr, &out), 1);
            EXPECT_EQ(out, pointer(-EIO));
            trace += 'a';
            EXPECT_EQ(fiber_reschedule(), -ECANCELED); // the failure has cancelled it meanwhile
            trace += 'b';
            return int64_t(0);
        };
        family.spawn(transfers);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(trace, "ab");
        EXPECT_EQ(family.failure, -EIO);
    });
}

// ---- cancels and deadlines ------------------------------------------------------------------------------------------

TEST(ChildrenCancel, OfTheScopeIsTheResultOfItsCloseAndEndsTheOwnersCallsInIt) {
    run([] {
        Family family;
        Patient patient;
        family.spawn(patient);
        auto canceller = [&] {
            EXPECT_EQ(fiber_scope_cancel(family.scope, pointer(1)), 0);
            EXPECT_EQ(fiber_scope_cancel(family.scope, pointer(2)), 0);
            return int64_t(0);
        };
        family.spawn(canceller);
        EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
        EXPECT_EQ(fiber_reschedule(), -ECANCELED);
        EXPECT_EQ(fiber_cancelled(nullptr), 0);
        int64_t result;
        EXPECT_EQ(fiber_scope_next(family.scope, nullptr, &result), -ECANCELED);
        EXPECT_EQ(family.close(), -ECANCELED);
        EXPECT_EQ(family.failure, 0);
        EXPECT_EQ(patient.reason, pointer(1));
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_scope_cancel(family.scope, nullptr), -ESRCH);
    });
}

TEST(ChildrenCancel, OfAScopeWithoutChildren) {
    run([] {
        Family family(FIBER_MSEC(1));
        EXPECT_EQ(fiber_scope_cancel(family.scope, nullptr), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), -ECANCELED);
        Patient patient;
        fiber_t child = family.spawn(patient); // which never runs
        EXPECT_TRUE(is_gone(child));
        EXPECT_EQ(family.close(), -ECANCELED);
        EXPECT_EQ(patient.ran, 0);
    });
}

TEST(ChildrenCancel, OfAnOuterScopeReachesTheChildrenOfTheInner) {
    run([] {
        Family outer, inner;
        Patient patient;
        inner.spawn(patient);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_scope_cancel(outer.scope, nullptr), 0);
        EXPECT_EQ(inner.close(), 0); // each child reports only itself
        EXPECT_EQ(patient.cancelled, 1);
        EXPECT_EQ(fiber_reschedule(), -ECANCELED);
        EXPECT_EQ(outer.close(), -ECANCELED);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(ChildrenCancel, OfAnInnerScopeLeavesTheOuterAlone) {
    run([] {
        Family outer, inner;
        int ended = 0;
        auto body = [&] {
            EXPECT_EQ(fiber_yield(), 0);
            return int64_t(ended++);
        };
        Patient patient;
        const fiber_t child = outer.spawn(body);
        inner.spawn(patient);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_scope_cancel(inner.scope, nullptr), 0);
        EXPECT_EQ(inner.close(), -ECANCELED);
        EXPECT_EQ(ended, 0);
        EXPECT_EQ(fiber_wakeup(child), 0);
        EXPECT_EQ(outer.close(), 0);
        EXPECT_EQ(ended, 1);
    });
}

TEST(ChildrenCancel, OfTheFiberReachesGrandchildren) {
    Patient patient;
    int verdicts[2] = {1, 1};
    auto child = [&] {
        Family family;
        family.spawn(patient);
        family.spawn(patient);
        verdicts[0] = family.close();
        return int64_t(fiber_reschedule());
    };
    auto body = [&] {
        Family family;
        family.spawn(child);
        verdicts[1] = family.close();
    };
    fiber_t fiber = spawn(body);
    while (patient.ran < 2) EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_cancel(fiber, pointer(4)), 0);
    join(fiber);
    EXPECT_EQ(patient.cancelled, 2);
    EXPECT_EQ(patient.reason, pointer(4));
    EXPECT_EQ(verdicts[0], 0); // the fibers were cancelled, not the scopes
    EXPECT_EQ(verdicts[1], 0);
}

TEST(ChildrenCancel, TRAP_NeitherCancelNorInterruptEndsTheClose) {
    int ended = 0;
    fiber_t child{};
    auto body = [&] {
        Family family;
        auto child_body = [&] {
            Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
            EXPECT_EQ(fiber_yield(), 0);
            EXPECT_EQ(shield.close(), 0);
            return int64_t(ended++);
        };
        child = family.spawn(child_body);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ended, 1);
        EXPECT_EQ(fiber_reschedule(), -ECANCELED);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(fiber_wakeup(child), 0);
    join(fiber);
    EXPECT_EQ(ended, 1);
}

TEST(ChildrenCancel, AnInterruptThatComesDuringTheCloseIsSeenAfterwards) {
    auto body = [&] {
        Family family;
        auto child = [] { return int64_t(fiber_sleep(FIBER_MSEC(2))); };
        family.spawn(child);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, 0);
        EXPECT_EQ(fiber_reschedule(), -EINTR);
        EXPECT_EQ(fiber_reschedule(), 0);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    join(fiber);
}

TEST(ChildrenCancel, AChildSpawnedWhileTheScopeIsCancelledNeverRuns) {
    run([] {
        Family family;
        Patient patient;
        int refused = 1;
        auto stubborn = [&] {
            EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
            refused = fiber_scope_spawn(family.scope, nullptr, child_entry<Patient>, &patient);
            return int64_t(0);
        };
        family.spawn(stubborn);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_scope_cancel(family.scope, nullptr), 0);
        const fiber_t late = family.spawn(patient);
        EXPECT_TRUE(is_gone(late));
        {
            Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
            fiber_t child{};
            EXPECT_EQ(family.next(&child), -ECANCELED);
            EXPECT_EQ(child.id, late.id);
            EXPECT_EQ(family.next(), -ECANCELED); // whom the other has spawned
            EXPECT_EQ(family.next(), 0);
            EXPECT_EQ(family.next(), 1);
            EXPECT_EQ(shield.close(), 0);
        }
        EXPECT_EQ(family.close(), -ECANCELED);
        EXPECT_EQ(refused, 0);
        EXPECT_EQ(patient.ran, 0);
    });
}

TEST(ChildrenCancel, AChildOfACancelledFiberNeverRuns) {
    Patient patient;
    auto body = [&] {
        EXPECT_EQ(fiber_cancel(self(), pointer(9)), 0);
        Family family;
        family.spawn(patient);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, 0);
        int ran = 0;
        Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD); // but inside a shield it does
        auto child = [&] { return int64_t(ran++); };
        shield.spawn(child);
        EXPECT_EQ(shield.close(), 0);
        EXPECT_EQ(ran, 1);
    };
    run(body);
    EXPECT_EQ(patient.ran, 0);
}

TEST(ChildrenCancel, AFailedScopeStartsNoMore) {
    run([] {
        Family family;
        Patient patient;
        auto fails = [] { return int64_t(-EIO); };
        family.spawn(fails);
        EXPECT_EQ(family.next(), -EIO);
        family.spawn(patient);
        EXPECT_EQ(family.next(), -ECANCELED);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(patient.ran, 0);
    });
}

TEST(ChildrenDeadline, CancelsThemAndIsTheVerdict) {
    run([] {
        Family family;
        Patient patient;
        family.spawn(patient);
        family.spawn(patient);
        const int64_t begin = fiber_now();
        family.limit(FIBER_MSEC(2));
        EXPECT_EQ(family.close(), -ETIMEDOUT);
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(2));
        EXPECT_EQ(patient.cancelled, 2);
        EXPECT_EQ(family.failure, 0);
    });
}

TEST(ChildrenDeadline, TRAP_OfTheOuterIsNotTheInnersVerdict) {
    run([] {
        Family outer, inner(HOUR);
        Patient patient;
        inner.spawn(patient);
        outer.limit(FIBER_MSEC(2));
        EXPECT_EQ(inner.close(), 0);
        EXPECT_EQ(patient.cancelled, 1);
        EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
        EXPECT_EQ(outer.close(), -ETIMEDOUT);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(ChildrenDeadline, OfTheInnerLeavesTheOutersChildrenAlone) {
    run([] {
        Family outer(HOUR);
        Patient patient;
        int ended = 0;
        auto body = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(4)), 0);
            return int64_t(ended++);
        };
        outer.spawn(body);
        Family inner;
        inner.spawn(patient);
        inner.limit(FIBER_MSEC(1));
        EXPECT_EQ(inner.close(), -ETIMEDOUT);
        EXPECT_EQ(outer.close(), 0);
        EXPECT_EQ(ended, 1);
        EXPECT_EQ(patient.cancelled, 1);
    });
}

TEST(ChildrenDeadline, PushedBackOneHundredTimesNeverFires) {
    run([] {
        Family family(HOUR);
        Patient patient;
        family.spawn(patient);
        for (int i = 0; i < 100; i++) {
            EXPECT_EQ(fiber_scope_set_timeout(family.scope, HOUR), 0);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
        }
        EXPECT_EQ(patient.cancelled, 0);
        EXPECT_EQ(fiber_scope_set_timeout(family.scope, FIBER_USEC(10)), 0);
        EXPECT_EQ(family.close(), -ETIMEDOUT);
        EXPECT_EQ(patient.cancelled, 1);
    });
}

TEST(ChildrenDeadline, ThatFiredAndIsMovedAheadStartsNoMore) {
    run([] {
        Family family(FIBER_USEC(10));
        Patient patient;
        family.spawn(patient);
        EXPECT_EQ(fiber_sleep(HOUR), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_set_timeout(family.scope, HOUR), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        const int ran = patient.ran;
        family.spawn(patient);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(patient.ran, ran);
        EXPECT_EQ(patient.cancelled, ran);
    });
}

TEST(ChildrenDeadline, ZeroEndsChildrenThatWait) {
    run([] {
        Family family(0);
        Patient patient;
        family.spawn(patient);
        EXPECT_EQ(family.close(), -ETIMEDOUT);
        EXPECT_EQ(patient.cancelled, patient.ran);
        EXPECT_EQ(family.failure, 0);
    });
}

// ---- shields --------------------------------------------------------------------------------------------------------

TEST(ChildrenShield, HoldsBackACancelFromOutside) {
    int ended = 0;
    auto body = [&] {
        Family outer(FIBER_MSEC(1));
        Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        auto child = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(3)), 0);
            return int64_t(ended++);
        };
        shield.spawn(child);
        Family inner; // without its own shield, but inside one
        inner.spawn(child);
        EXPECT_EQ(fiber_scope_cancel(outer.scope, nullptr), 0);
        EXPECT_EQ(inner.close(), 0);
        EXPECT_EQ(shield.close(), 0);
        EXPECT_EQ(outer.close(), -ECANCELED);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(ended, 2);
}

TEST(ChildrenShield, DoesNotProtectTheChildrenOutsideOfIt) {
    run([] {
        Family outer, middle;
        Patient of_outer, of_middle;
        outer.spawn(of_outer);
        middle.spawn(of_middle);
        outer.limit(FIBER_MSEC(1));
        Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(10)), 0); // nor is the owner's own wait ended
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(of_outer.cancelled, 1);
        EXPECT_EQ(of_middle.cancelled, 1);
        EXPECT_EQ(shield.close(), 0);
        EXPECT_EQ(fiber_reschedule(), -ETIMEDOUT);
        EXPECT_EQ(middle.close(), 0);
        EXPECT_EQ(outer.close(), -ETIMEDOUT);
    });
}

TEST(ChildrenShield, DoesNotProtectTheChildrenOutsideOfItFromTheFibersCancel) {
    Patient patient;
    auto body = [&] {
        Family outer;
        outer.spawn(patient);
        Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(3)), 0);
        while (!patient.cancelled) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(shield.close(), 0);
        EXPECT_EQ(outer.close(), 0);
    };
    fiber_t fiber = start(body);
    while (!patient.ran) EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
}

TEST(ChildrenShield, ItsOwnDeadlineAndCancelCount) {
    run([] {
        Patient patient;
        Family timed(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        timed.spawn(patient);
        timed.limit(FIBER_MSEC(1));
        EXPECT_EQ(timed.close(), -ETIMEDOUT);
        Family cancelled(FIBER_FOREVER, FIBER_SCOPE_SHIELD | FIBER_SCOPE_COLLECT);
        cancelled.spawn(patient);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_scope_cancel(cancelled.scope, nullptr), 0);
        EXPECT_EQ(cancelled.close(), -ECANCELED);
        EXPECT_EQ(patient.cancelled, 2);
    });
}

// ---- next -----------------------------------------------------------------------------------------------------------

TEST(ChildrenNext, ReportsEachEndOnceInOrder) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        EXPECT_EQ(family.next(), 1);
        Trace trace;
        fiber_t children[3];
        int turn = 3;
        auto body = [&] {
            const int mine = turn--;
            EXPECT_EQ(fiber_yield(), 0);
            return int64_t(-mine);
        };
        for (fiber_t &child : children) child = family.spawn(body);
        EXPECT_EQ(fiber_reschedule(), 0);
        for (int i = 3; i-- > 0;) EXPECT_EQ(fiber_wakeup(children[i]), 0); // the last ends first
        for (int i = 3; i-- > 0;) {
            fiber_t child{};
            EXPECT_EQ(family.next(&child), i - 3);
            EXPECT_EQ(child.id, children[i].id);
            trace += char('0' + i);
        }
        EXPECT_EQ(family.next(), 1);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, -1);
    });
}

TEST(ChildrenNext, IsEndedEarlyAndLosesNothing) {
    fiber_t owner{};
    auto body = [&] {
        Family family;
        auto child = [] {
            fiber_yield();
            return int64_t(8);
        };
        const fiber_t fiber = family.spawn(child);
        int64_t result = 0;
        {
            Family timed(FIBER_MSEC(1));
            EXPECT_EQ(fiber_scope_next(family.scope, nullptr, &result), -ETIMEDOUT);
            EXPECT_EQ(timed.close(), -ETIMEDOUT);
        }
        EXPECT_EQ(fiber_interrupt(owner, nullptr), 0);
        EXPECT_EQ(fiber_scope_next(family.scope, nullptr, &result), -EINTR);
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(family.next(), 8);
        EXPECT_EQ(fiber_cancel(owner, nullptr), 0);
        EXPECT_EQ(fiber_scope_next(family.scope, nullptr, &result), -ECANCELED);
        EXPECT_EQ(family.close(), 0);
    };
    owner = create(body);
    EXPECT_EQ(fiber_wakeup(owner), 0);
    join(owner);
}

TEST(ChildrenNext, TRAP_AnEndBeforeTheCancelIsReturnedAndTheCancelIsSeenAtTheNextCall) {
    int64_t first = 0;
    int second = 0;
    fiber_t child{};
    auto body = [&] {
        Family family;
        auto child_body = [] { return int64_t(fiber_yield()); };
        child = family.spawn(child_body);
        first = family.next();
        second = fiber_scope_next(family.scope, nullptr, nullptr);
        EXPECT_EQ(family.close(), 0);
    };
    fiber_t owner = start(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_wakeup(child), 0);
    auto canceller = [&] { EXPECT_EQ(fiber_cancel(owner, nullptr), 0); }; // its turn is after the child's
    join(spawn(canceller));
    join(owner);
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, -ECANCELED);
}

TEST(ChildrenNext, DoesNotReportDetachedChildren) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        int ended = 0;
        auto body = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            ended++;
            return int64_t(-ENOENT);
        };
        On detached(this_cord_handle());
        detached.detached();
        for (int i = 0; i < 3; i++) family.spawn(body, detached);
        EXPECT_EQ(family.next(), 1); // at once
        EXPECT_EQ(ended, 0);
        const fiber_t told = family.spawn(body);
        fiber_t child{};
        EXPECT_EQ(family.next(&child), -ENOENT);
        EXPECT_EQ(child.id, told.id);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ended, 4);
        EXPECT_EQ(family.failure, -ENOENT); // their failures count nevertheless
    });
}

TEST(ChildrenNext, ASupervisorStartsThemAgain) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        int attempts = 0;
        auto body = [&] { return int64_t(++attempts % 5 ? -EIO : 0); };
        family.spawn(body);
        while (family.next() == -EIO) family.spawn(body);
        EXPECT_EQ(attempts, 5);
        EXPECT_EQ(family.close(), 0);
    });
}

// ---- who may what ---------------------------------------------------------------------------------------------------

TEST(ChildrenOwner, OthersOfItsCordMaySpawnButNotWait) {
    run([] {
        Family family;
        int ran = 0;
        auto child = [&] { return int64_t(ran++); };
        auto other = [&] {
            EXPECT_EQ(fiber_scope_next(family.scope, nullptr, nullptr), -EPERM);
            EXPECT_EQ(fiber_scope_close(family.scope, nullptr), -EPERM);
            family.spawn(child);
        };
        const fiber_t fiber = spawn(other);
        join(fiber);
        EXPECT_EQ(family.next(), 0);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(ran, 1);
    });
}

TEST(ChildrenOwner, ChildrenMaySpawnSiblingsWhileTheScopeIsBeingClosed) {
    run([] {
        Family family;
        int left = 20;
        struct Child {
            Family *family;
            int *left;
            int64_t operator()() const {
                EXPECT_EQ(fiber_reschedule(), 0);
                if (--*left > 0) family->spawn(*this);
                return 0;
            }
        };
        Child child{&family, &left};
        auto spawned = [&child] { return child(); };
        family.spawn(spawned);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(left, 0);
    });
}

TEST(ChildrenOwner, StaleForeignAndGarbageHandlesAreErrors) {
    run([] {
        Patient patient;
        fiber_t child{55};
        Family family;
        EXPECT_EQ(family.close(), 0);
        Family next; // perhaps in the same record
        for (fiber_scope_t gone : {family.scope}) {
            EXPECT_EQ(fiber_scope_spawn(gone, &child, child_entry<Patient>, &patient), -ESRCH);
            EXPECT_EQ(fiber_scope_next(gone, nullptr, nullptr), -ESRCH);
            EXPECT_EQ(fiber_scope_cancel(gone, nullptr), -ESRCH);
        }
        for (fiber_scope_t garbage : {fiber_scope_t{0}, fiber_scope_t{self().id}, fiber_scope_t{~0ull},
                                      fiber_scope_t{next.scope.id + 2}, fiber_scope_t{next.scope.id ^ 1}}) {
            EXPECT_LT(fiber_scope_spawn(garbage, &child, child_entry<Patient>, &patient), 0);
            EXPECT_LT(fiber_scope_next(garbage, nullptr, nullptr), 0);
            EXPECT_LT(fiber_scope_cancel(garbage, nullptr), 0);
        }
        EXPECT_EQ(fiber_scope_spawn(next.scope, &child, nullptr, nullptr), -EINVAL);
        EXPECT_EQ(child.id, 55u);
        EXPECT_EQ(next.close(), 0);
        EXPECT_EQ(patient.ran, 0);
        fiber_scope_t both{};
        EXPECT_EQ(fiber_scope_open(&both, FIBER_FOREVER, FIBER_SCOPE_COLLECT | FIBER_SCOPE_FIRST), -EINVAL);
    });
}

TEST(ChildrenOwner, InANoSwitchSectionAScopeWithChildrenStaysOpen) {
    run([] {
        Family outer;
        Family inner;
        int ran = 0;
        auto child = [&] { return int64_t(ran++); };
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        inner.spawn(child);
        EXPECT_EQ(inner.close(), -EPERM);
        EXPECT_EQ(outer.close(), -EPERM);
        EXPECT_EQ(fiber_scope_next(inner.scope, nullptr, nullptr), -EPERM);
        EXPECT_EQ(fiber_noswitch_leave(), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        EXPECT_EQ(inner.close(), 0); // no child is left to wait for
        EXPECT_EQ(fiber_noswitch_leave(), 0);
        EXPECT_EQ(outer.close(), 0);
        EXPECT_EQ(ran, 1);
    });
}

// ---- scopes left open -----------------------------------------------------------------------------------------------

TEST(ChildrenEnd, AScopeThatAFiberLeftOpenIsCancelledAwaitedAndClosed) {
    Patient patient;
    int cleared = 0;
    auto slow = [&] {
        EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
        Family shield(FIBER_FOREVER, FIBER_SCOPE_SHIELD);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(shield.close(), 0);
        cleared++;
        return int64_t(0);
    };
    fiber_scope_t left{};
    auto body = [&] {
        Family outer, inner;
        left = outer.scope;
        outer.spawn(patient);
        outer.spawn(slow);
        inner.spawn(patient);
        EXPECT_EQ(fiber_reschedule(), 0);
    };
    run(body);
    EXPECT_EQ(patient.cancelled, 2);
    EXPECT_EQ(cleared, 1);
    EXPECT_EQ(fiber_scope_cancel(left, nullptr), -ESRCH);
}

// The inner child's wait is no cancellation point; it ends when the outer child, which is cancelled too, gives it the
// event.
TEST(ChildrenEnd, AllOpenScopesAreCancelledBeforeAnyIsAwaited) {
    fiber_mutex_t mutex{};
    Patient patient;
    auto holder = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        const int64_t result = patient();
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        return result;
    };
    auto locker = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        return int64_t(0);
    };
    auto leaves_open = [&] {
        Family outer, inner;
        outer.spawn(holder);
        EXPECT_EQ(fiber_reschedule(), 0);
        inner.spawn(locker);
        EXPECT_EQ(fiber_reschedule(), 0);
    };
    auto exits = [&] {
        leaves_open();
        fiber_exit(nullptr);
    };
    expect_joined(fiber_join_timeout(spawn(leaves_open), nullptr, FIBER_SEC(20)));
    expect_joined(fiber_join_timeout(spawn(exits), nullptr, FIBER_SEC(20)));
    EXPECT_EQ(patient.cancelled, 2);
}

TEST(ChildrenEnd, ALockThatItsHolderLeftIsPassedOnBeforeTheChildrenAreAwaited) {
    fiber_mutex_t mutex{};
    int locked = 1;
    auto locker = [&] {
        locked = fiber_mutex_lock(&mutex); // no cancellation point
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        return int64_t(0);
    };
    auto leaves_open = [&] {
        Family family;
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        family.spawn(locker);
        EXPECT_EQ(fiber_reschedule(), 0);
    };
    expect_joined(fiber_join_timeout(spawn(leaves_open), nullptr, FIBER_SEC(20)));
    EXPECT_EQ(locked, -EOWNERDEAD);
    locked = 1;
    fiber_scope_t limit{};
    EXPECT_EQ(fiber_scope_open(&limit, FIBER_SEC(20), 0), 0);
    expect_joined(fiber_cord_join(start_cord(leaves_open), nullptr));
    EXPECT_EQ(fiber_scope_close(limit, nullptr), 0);
    EXPECT_EQ(locked, -EOWNERDEAD);
}

TEST(ChildrenEnd, FiberExitDoesTheSame) {
    Patient patient;
    auto body = [&] {
        Family family;
        family.spawn(patient);
        fiber_reschedule();
        fiber_exit(pointer(3));
    };
    EXPECT_EQ(join(spawn(body)), pointer(3));
    EXPECT_EQ(patient.cancelled, 1);
}

TEST(ChildrenEnd, AnOuterScopesCloseClosesTheInnerOnes) {
    run([] {
        Family outer, inner;
        int ended = 0;
        auto child = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            return int64_t(ended++);
        };
        inner.spawn(child);
        outer.spawn(child);
        EXPECT_EQ(outer.close(), 0);
        EXPECT_EQ(ended, 2);
        EXPECT_EQ(inner.close(), -ESRCH);
    });
}

TEST(ChildrenEnd, AChildsOwnScopesEndBeforeIt) {
    run([] {
        Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
        Trace trace;
        auto grandchild = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            trace += 'g';
            return int64_t(-EIO);
        };
        auto child = [&] {
            Family inner;
            inner.spawn(grandchild);
            EXPECT_EQ(inner.close(), 0);
            trace += 'c';
            return inner.failure;
        };
        family.spawn(child);
        EXPECT_EQ(family.next(), -EIO);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(trace, "gc");
    });
}

TEST(ChildrenEnd, OfTheMainFlow) {
    Patient patient;
    in_thread([&] {
        Family family;
        auto child = [] { return int64_t(fiber_sleep(FIBER_MSEC(1))); };
        family.spawn(child);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, 0);
        Family left;
        left.spawn(patient);
        EXPECT_EQ(fiber_reschedule(), 0);
    }); // on a plain thread its fibers never run again; a cord's are awaited
    EXPECT_EQ(patient.ran, 1);
}

// ---- deep families --------------------------------------------------------------------------------------------------

namespace {

// Fibers on small stacks, each the only child of a scope of the one before; the last waits.
struct Chain {
    Chain() {
        const bool sanitizer = FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN; // instrumented code needs more
        depth = sanitizer ? 300 : often(10000, 300);
        EXPECT_EQ(fiber_attr_create(&small), 0);
        EXPECT_EQ(fiber_attr_set_stack_size(small, sanitizer ? 65536 : FIBER_STACK_MIN), 0);
    }
    ~Chain() { EXPECT_EQ(fiber_attr_destroy(small), 0); }
    Chain(const Chain &) = delete;
    Chain &operator=(const Chain &) = delete;

    // Nothing of the test's framework is called on the small stacks.
    static int64_t link(void *arg) {
        auto *chain = static_cast<Chain *>(arg);
        void *why = nullptr;
        if (++chain->length == chain->depth) {
            chain->wrong += fiber_sleep(HOUR) != -ECANCELED;
        } else {
            fiber_scope_t scope{};
            chain->wrong += fiber_scope_open(&scope, FIBER_FOREVER, 0) != 0;
            chain->wrong += fiber_scope_spawn_attr(scope, nullptr, chain->small, link, chain) != 0;
            chain->wrong += fiber_scope_close(scope, nullptr) != 0;
        }
        chain->cancelled += fiber_cancelled(&why) == 1 && why == chain->reason;
        return -ECANCELED;
    }

    // Once it is complete, one(family) has it cancelled.
    template <class One>
    void is_cancelled(int verdict, int64_t failure, One one) {
        run([&] {
            Family family;
            EXPECT_EQ(fiber_scope_spawn_attr(family.scope, nullptr, small, link, this), 0);
            while (length < depth && !wrong) EXPECT_EQ(fiber_reschedule(), 0);
            ASSERT_EQ(wrong, 0);
            one(family);
            EXPECT_EQ(family.close(), verdict);
            EXPECT_EQ(family.failure, failure);
        });
        EXPECT_EQ(cancelled, depth);
        EXPECT_EQ(wrong, 0);
    }

    fiber_attr_t *small = nullptr;
    int depth = 0, length = 0, cancelled = 0, wrong = 0;
    void *reason = nullptr;
};

} // namespace

TEST(ChildrenDeep, ACancelNeedsNoStackForEachLevel) {
    Chain chain;
    chain.reason = &chain;
    chain.is_cancelled(-ECANCELED, 0, [&](Family &family) {
        auto body = [&] { return pointer(fiber_scope_cancel(family.scope, chain.reason)); };
        const fiber_t canceller = create(body, chain.small);
        EXPECT_EQ(fiber_wakeup(canceller), 0);
        fiber_scope_t shield{};
        EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        EXPECT_EQ(join(canceller), pointer(0));
        EXPECT_EQ(fiber_scope_close(shield, nullptr), 0);
    });
}

TEST(ChildrenDeep, ADeadlineNeedsNoneOfTheFiberThatPolls) {
    Chain chain;
    bool over = false;
    int wrong = 0;
    auto innocent = [&] {
        while (!over) wrong += fiber_reschedule() != 0;
    };
    const fiber_t polls = create(innocent, chain.small);
    chain.is_cancelled(-ETIMEDOUT, 0, [&](Family &family) {
        EXPECT_EQ(fiber_wakeup(polls), 0);
        family.limit(FIBER_MSEC(2));
    });
    over = true;
    join(polls);
    EXPECT_EQ(wrong, 0);
}

TEST(ChildrenDeep, AFailureNeedsNoneOfTheChildThatEnds) {
    Chain chain;
    auto fails = [] { return int64_t(-EIO); };
    chain.is_cancelled(0, -EIO, [&](Family &family) { family.spawn(fails, chain.small); });
}
