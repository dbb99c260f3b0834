// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_transfer: ping-pong, generators, their ends, and the transfers that it refuses.
#include "conformance.h"
#include "support.h"

#include <string>
#include <vector>

using namespace support;

TEST(Transfer, PingPongCarriesValuesBothWays) {
    fiber_t main_flow = self();
    std::vector<intptr_t> got;
    auto pong = [&] {
        fiber_t from{};
        void *value = nullptr;
        EXPECT_EQ(fiber_transferrer(&from, &value), 0);
        EXPECT_EQ(from.id, main_flow.id);
        for (;;) {
            got.push_back(reinterpret_cast<intptr_t>(value));
            intptr_t reply = -reinterpret_cast<intptr_t>(value);
            if (reply == -1000) return pointer(reply);
            EXPECT_EQ(fiber_transfer(from, pointer(reply), &value), 0);
        }
    };
    fiber_t fiber = create(pong);
    for (intptr_t i = 1; i <= 999; i++) {
        void *reply = nullptr;
        ASSERT_EQ(fiber_transfer(fiber, pointer(i), &reply), 0);
        ASSERT_EQ(reply, pointer(-i));
    }
    void *last = nullptr;
    EXPECT_EQ(fiber_transfer(fiber, pointer(1000), &last), 1);
    EXPECT_EQ(last, pointer(-1000));
    ASSERT_EQ(got.size(), 1000u);
    for (intptr_t i = 1; i <= 1000; i++) EXPECT_EQ(got[static_cast<size_t>(i - 1)], i);
    EXPECT_EQ(join(fiber), pointer(-1000));
}

TEST(Transfer, GeneratorThatEndsReturnsOneWithItsResultAndCanStillBeJoined) {
    auto generator = [] {
        fiber_t caller{};
        EXPECT_EQ(fiber_transferrer(&caller, nullptr), 0);
        for (intptr_t i = 1; i <= 3; i++) EXPECT_EQ(fiber_transfer(caller, pointer(i * i), nullptr), 0);
        return pointer(77);
    };
    fiber_t fiber = create(generator);
    void *out = nullptr;
    for (intptr_t i = 1; i <= 3; i++) {
        EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), 0);
        EXPECT_EQ(out, pointer(i * i));
    }
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), 1);
    EXPECT_EQ(out, pointer(77));
    EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), -ESRCH);
    EXPECT_EQ(join(fiber), pointer(77));
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), -ESRCH);
}

TEST(Transfer, ToANewFiberThatEndsAtOnceReturnsOne) {
    auto body = [] { return pointer(5); };
    fiber_t fiber = create(body);
    void *out = nullptr;
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), 1);
    EXPECT_EQ(out, pointer(5));
    join(fiber);
}

TEST(Transfer, EndByFiberExitReturnsOneToo) {
    auto body = [] { fiber_exit(pointer(6)); };
    fiber_t fiber = create(body);
    void *out = nullptr;
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), 1);
    EXPECT_EQ(out, pointer(6));
    EXPECT_EQ(join(fiber), pointer(6));
}

TEST(Transfer, OutMayBeNull) {
    fiber_t main_flow = self();
    auto body = [&] { EXPECT_EQ(fiber_transfer(main_flow, pointer(1), nullptr), 0); };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), 0);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), 1);
    join(fiber);
}

TEST(Transfer, LeavesTheRunQueueAsItIs) {
    Trace log;
    fiber_t main_flow = self();
    auto queued_body = [&] { log += 'q'; };
    auto generator = [&] {
        log += 'g';
        EXPECT_EQ(fiber_transfer(main_flow, nullptr, nullptr), 0);
        log += 'h';
    };
    fiber_t queued = spawn(queued_body);
    fiber_t fiber = create(generator);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), 0);
    log += 'm';
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), 1);
    log += 'm';
    EXPECT_EQ(log, "gmhm");
    EXPECT_EQ(fiber_state(queued), FIBER_RUNNABLE);
    join(queued);
    join(fiber);
    EXPECT_EQ(log, "gmhmq");
}

TEST(Transfer, AbandonedGeneratorIsCancelledAndJoined) {
    int result = 0;
    fiber_t main_flow = self();
    auto generator = [&] {
        for (intptr_t i = 0;; i++) {
            result = fiber_transfer(main_flow, pointer(i), nullptr);
            if (result < 0) return pointer(-1000);
        }
    };
    fiber_t fiber = create(generator);
    void *out = nullptr;
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), 0);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), 0);
    EXPECT_EQ(out, pointer(1));
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    // It ends while its last transferrer waits in a join: the join must get the result, not a transfer that is over.
    EXPECT_EQ(join(fiber), pointer(-1000));
    EXPECT_EQ(result, -ECANCELED);
}

TEST(Transfer, AGeneratorNeverUsedIsCancelledAndJoined) {
    int runs = 0;
    auto generator = [&] { runs++; };
    fiber_t fiber = create(generator);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    EXPECT_EQ(runs, 0);
}

TEST(Transfer, ToAFiberParkedInYieldEndsTheYieldWithTheValue) {
    void *value = nullptr;
    int result = 1;
    auto body = [&] {
        result = fiber_yield_value(&value);
        return pointer(2);
    };
    fiber_t fiber = start(body);
    void *out = nullptr;
    EXPECT_EQ(fiber_transfer(fiber, pointer(1), &out), 1);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(value, pointer(1));
    EXPECT_EQ(out, pointer(2));
    join(fiber);
}

TEST(Transfer, ToAFiberInATimedYieldEndsItAndItsTimerIsGone) {
    int result = 1;
    int64_t slept = 0;
    auto body = [&] {
        result = fiber_yield_timeout(FIBER_MSEC(5));
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(15)), 0); // the old deadline must not end this
        slept = fiber_now() - begin;
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), 1);
    EXPECT_EQ(result, 0);
    EXPECT_GE(slept, FIBER_MSEC(15));
    join(fiber);
}

TEST(Transfer, ToTheMainFlowParkedInYield) {
    fiber_t main_flow = self();
    auto body = [&] { EXPECT_EQ(fiber_transfer(main_flow, pointer(3), nullptr), 0); };
    fiber_t fiber = spawn(body);
    void *value = nullptr;
    EXPECT_EQ(fiber_yield_value(&value), 0);
    EXPECT_EQ(value, pointer(3));
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), 1);
    join(fiber);
}

TEST(Transfer, ToOneselfIsBusy) {
    EXPECT_EQ(fiber_transfer(self(), nullptr, nullptr), -EBUSY);
    run([] { EXPECT_EQ(fiber_transfer(self(), nullptr, nullptr), -EBUSY); });
}

// Nothing but a new fiber and one parked in a yield or a transfer can be transferred to; the others are left alone.
TEST(Transfer, ToAFiberThatIsNotParkedInAYieldOrATransferIsBusy) {
    NEEDS_IO();
    Pipe pipe;
    bool stop = false;
    auto sleeping = [] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
        return pointer(1);
    };
    auto rescheduling = [&] {
        while (!stop) EXPECT_EQ(fiber_reschedule(), 0);
        return pointer(1);
    };
    auto reading = [&] {
        char byte = 0;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        return pointer(1);
    };
    auto yielding = [] {
        EXPECT_EQ(fiber_yield(), 0);
        return pointer(1);
    };
    auto plain = [] { return pointer(1); };
    fiber_t sleeper = start(sleeping);
    auto joining = [&] {
        EXPECT_EQ(join(sleeper), pointer(1));
        return pointer(1);
    };
    fiber_t rescheduler = start(rescheduling), reader = start(reading), joiner = start(joining);
    fiber_t woken = start(yielding), queued = spawn(plain);
    EXPECT_EQ(fiber_wakeup(woken), 0);
    struct {
        const char *what;
        fiber_t fiber;
    } cases[] = {
        {"sleeping", sleeper}, {"rescheduling", rescheduler},        {"reading", reader}, {"joining", joiner},
        {"woken", woken},      {"queued for its first run", queued},
    };
    for (const auto &c : cases) EXPECT_EQ(fiber_transfer(c.fiber, pointer(9), nullptr), -EBUSY) << c.what;
    stop = true;
    EXPECT_EQ(write(pipe.write_end, "x", 1), 1);
    for (fiber_t fiber : {rescheduler, reader, joiner, woken, queued}) EXPECT_EQ(join(fiber), pointer(1));
}

TEST(Transfer, ToAMainFlowThatJoinsOrSleepsIsBusy) {
    fiber_t main_flow = self();
    run([&] { EXPECT_EQ(fiber_transfer(main_flow, nullptr, nullptr), -EBUSY); });
    auto body = [&] { EXPECT_EQ(fiber_transfer(main_flow, nullptr, nullptr), -EBUSY); };
    fiber_t fiber = spawn(body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    join(fiber);
}

TEST(Transfer, ToAnEndedFiberIsGone) {
    auto body = [] {};
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), -ESRCH);
    join(fiber);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), -ESRCH);
}

TEST(Transfer, ARefusedTransferLeavesTheTransferrerOfTheOtherAsItWas) {
    int result = 0;
    auto body = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
        result = fiber_transferrer(nullptr, nullptr);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), -EBUSY);
    join(fiber);
    EXPECT_EQ(result, -ESRCH);
}

TEST(Transfer, ControlReturnsToTheLastTransferrerOnly) {
    fiber_t main_flow = self();
    fiber_t g{};
    int a_result = 99;
    void *a_out = nullptr;
    auto generator = [&] {
        EXPECT_EQ(fiber_transfer(main_flow, pointer(1), nullptr), 0); // not back to a, which transferred here
        return pointer(2);
    };
    auto a_body = [&] { a_result = fiber_transfer(g, nullptr, &a_out); };
    g = create(generator);
    fiber_t a = create(a_body);
    void *out = nullptr;
    EXPECT_EQ(fiber_transfer(a, nullptr, &out), 0);
    EXPECT_EQ(out, pointer(1));
    EXPECT_EQ(fiber_transfer(g, nullptr, &out), 1);
    EXPECT_EQ(out, pointer(2));
    EXPECT_EQ(fiber_state(a), FIBER_WAITING); // still parked: the generator's end was not for it
    EXPECT_EQ(a_result, 99);
    EXPECT_EQ(fiber_transfer(a, pointer(3), nullptr), 1);
    EXPECT_EQ(a_result, 0);
    EXPECT_EQ(a_out, pointer(3));
    join(a);
    join(g);
}

TEST(Transfer, TheEndOfAnEarlierTargetDoesNotEndALaterTransfer) {
    fiber_t main_flow = self();
    fiber_t g{}, k{}, a{};
    int first = 99, second = 99;
    void *second_out = nullptr;
    auto g_body = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
        return pointer(1);
    };
    auto k_body = [&] {
        EXPECT_EQ(join(g), pointer(1)); // g, to which a transferred before, has ended by then
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_transfer(a, pointer(3), nullptr), 0);
    };
    auto a_body = [&] {
        first = fiber_transfer(g, nullptr, nullptr);
        second = fiber_transfer(k, nullptr, &second_out);
        EXPECT_EQ(fiber_transfer(main_flow, nullptr, nullptr), 0);
    };
    auto waker = [&] { EXPECT_EQ(fiber_transfer(a, pointer(2), nullptr), 0); };
    g = create(g_body);
    k = create(k_body);
    a = create(a_body);
    fiber_t waker_fiber = spawn(waker);
    EXPECT_EQ(fiber_transfer(a, nullptr, nullptr), 0);
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 0);
    EXPECT_EQ(second_out, pointer(3));
    EXPECT_EQ(fiber_transfer(a, nullptr, nullptr), 1);
    EXPECT_EQ(fiber_transfer(k, nullptr, nullptr), 1);
    EXPECT_EQ(fiber_transfer(waker_fiber, nullptr, nullptr), 1);
    for (fiber_t fiber : {a, k, waker_fiber}) join(fiber);
}

TEST(Transfer, TransferrerWhoseTransferTimedOutIsNotResumedByTheEnd) {
    int64_t limit = FIBER_MSEC(2);
    auto body = [&] {
        EXPECT_EQ(fiber_sleep(5 * limit), 0);
        return pointer(4);
    };
    fiber_t fiber{};
    for (;; limit *= 4) {
        fiber = create(body);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, limit, 0), 0);
        void *out = nullptr;
        EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
        if (fiber_state(fiber) != FIBER_NEW) break; // else the time was up before the transfer began
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    }
    while (fiber_state(fiber) != FIBER_DEAD) {
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_sleep(10 * limit), 0); // the other ends meanwhile
        EXPECT_GE(fiber_now() - begin, 10 * limit);
    }
    EXPECT_EQ(join(fiber), pointer(4));
}

// The slot of a transferrer that is gone may belong to another fiber by the time the target ends.
TEST(Transfer, TRAP_TheEndResumesNoFiberInTheTransferrersRecycledSlot) {
    fiber_t g{};
    auto g_body = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto a_body = [&] { EXPECT_EQ(fiber_transfer(g, nullptr, nullptr), -ECANCELED); };
    g = create(g_body);
    fiber_t a = start(a_body);
    EXPECT_EQ(fiber_cancel(a, nullptr), 0);
    join(a);

    fiber_t target{};
    int result = 99;
    auto target_body = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto b_body = [&] { result = fiber_transfer(target, nullptr, nullptr); };
    target = create(target_body);
    fiber_t b = start(b_body); // in the slot that a had, if slots are reused at all

    EXPECT_EQ(fiber_wakeup(g), 0);
    join(g);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_state(b), FIBER_WAITING);
    EXPECT_EQ(result, 99);
    EXPECT_EQ(fiber_transfer(b, nullptr, nullptr), 1);
    EXPECT_EQ(result, 0);
    join(b);
    EXPECT_EQ(fiber_wakeup(target), 0);
    join(target);
}

TEST(Transfer, TargetThatYieldsOrSleepsLeavesTheTransferrerParked) {
    fiber_t main_flow = self();
    Trace log;
    int state = -1;
    auto generator = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        state = fiber_state(main_flow);
        log += 'g';
        return pointer(1);
    };
    fiber_t fiber = create(generator);
    void *out = nullptr;
    EXPECT_EQ(fiber_transfer(fiber, nullptr, &out), 1);
    log += 'm';
    EXPECT_EQ(log, "gm");
    EXPECT_EQ(state, FIBER_WAITING);
    EXPECT_EQ(out, pointer(1));
    join(fiber);
}

TEST(Transfer, ChainOfTransfersUnwindsFromTheEnd) {
    Trace log;
    fiber_t b{}, c{};
    void *from_b = nullptr, *from_c = nullptr;
    auto c_body = [&] {
        log += 'c';
        return pointer(3);
    };
    auto b_body = [&] {
        EXPECT_EQ(fiber_transfer(c, nullptr, &from_c), 1);
        log += 'b';
        return pointer(2);
    };
    auto a_body = [&] {
        EXPECT_EQ(fiber_transfer(b, nullptr, &from_b), 1);
        log += 'a';
        return pointer(1);
    };
    fiber_t a = create(a_body);
    b = create(b_body);
    c = create(c_body);
    void *from_a = nullptr;
    EXPECT_EQ(fiber_transfer(a, nullptr, &from_a), 1);
    EXPECT_EQ(log, "cba");
    EXPECT_EQ(from_a, pointer(1));
    EXPECT_EQ(from_b, pointer(2));
    EXPECT_EQ(from_c, pointer(3));
    for (fiber_t fiber : {a, b, c}) join(fiber);
}

TEST(Transfer, CancelEndsTheWaitInATransfer) {
    int result = 0;
    fiber_t target{};
    auto target_body = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto body = [&] { result = fiber_transfer(target, nullptr, nullptr); };
    target = create(target_body);
    fiber_t fiber = start(body); // its target yields, so main goes on
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(fiber_wakeup(target), 0);
    join(target);
}

TEST(Transfer, InterruptEndsTheWaitInATransferOnce) {
    int first = 0, second = 0;
    fiber_t target{};
    void *value = nullptr;
    auto target_body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        EXPECT_EQ(fiber_yield(), 0);
    };
    auto body = [&] {
        first = fiber_transfer(target, nullptr, nullptr);
        second = fiber_transfer(target, nullptr, &value);
    };
    target = create(target_body);
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(first, -EINTR);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(fiber_transfer(fiber, pointer(8), nullptr), 1);
    EXPECT_EQ(second, 0);
    EXPECT_EQ(value, pointer(8));
    EXPECT_EQ(fiber_wakeup(target), 0);
    join(target);
    join(fiber);
}

TEST(Transfer, ByACancelledFiberFailsBeforeItDoesAnything) {
    int runs = 0;
    auto target_body = [&] { runs++; };
    fiber_t target = create(target_body);
    run([&] {
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_transfer(target, pointer(1), nullptr), -ECANCELED);
    });
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(fiber_state(target), FIBER_NEW);
    EXPECT_EQ(fiber_wakeup(target), 0);
    join(target);
    EXPECT_EQ(runs, 1);
}

TEST(Transferrer, IsUnknownUntilTheFirstTransfer) {
    run([] {
        fiber_t from{};
        void *value = nullptr;
        EXPECT_EQ(fiber_transferrer(&from, &value), -ESRCH);
        EXPECT_EQ(fiber_transferrer(nullptr, nullptr), -ESRCH);
    });
    auto body = [] { EXPECT_EQ(fiber_transferrer(nullptr, nullptr), -ESRCH); };
    join(start(body)); // starting is not transferring
}

TEST(Transferrer, IsTheLastFiberThatTransferredAndItsValue) {
    fiber_t main_flow = self();
    auto body = [&] {
        fiber_t from{};
        void *value = nullptr;
        for (intptr_t i = 1; i <= 2; i++) {
            EXPECT_EQ(fiber_transferrer(&from, &value), 0);
            EXPECT_EQ(fiber_transferrer(nullptr, nullptr), 0);
            EXPECT_EQ(from.id, main_flow.id);
            EXPECT_EQ(value, pointer(i * 10));
            EXPECT_EQ(fiber_transfer(from, nullptr, nullptr), 0);
        }
    };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_transfer(fiber, pointer(10), nullptr), 0);
    EXPECT_EQ(fiber_transfer(fiber, pointer(20), nullptr), 0);
    EXPECT_EQ(fiber_transfer(fiber, pointer(30), nullptr), 1);
    join(fiber);
}

TEST(Transferrer, TRAP_AWakeupDoesNotChangeItsValue) {
    auto body = [] {
        void *value = nullptr;
        EXPECT_EQ(fiber_transferrer(nullptr, &value), 0);
        EXPECT_EQ(value, pointer(0x11));
        EXPECT_EQ(fiber_wakeup_value(self(), pointer(0x22)), 0);
        EXPECT_EQ(fiber_transferrer(nullptr, &value), 0);
        EXPECT_EQ(value, pointer(0x11));
        EXPECT_EQ(fiber_yield_value(&value), 0);
        EXPECT_EQ(value, pointer(0x22));
        EXPECT_EQ(fiber_transferrer(nullptr, &value), 0);
        EXPECT_EQ(value, pointer(0x11));
    };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_transfer(fiber, pointer(0x11), nullptr), 1);
    join(fiber);
}

TEST(Transfer, ThatIsRefusedIsNoSwitch) {
    auto body = [] { EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0); };
    fiber_t sleeper = start(body);
    const fiber_stats_t before = stats();
    for (int i = 0; i < 1000; i++) EXPECT_EQ(fiber_transfer(sleeper, nullptr, nullptr), -EBUSY);
    const fiber_stats_t after = stats();
    EXPECT_EQ(after.switches, before.switches);
    EXPECT_EQ(after.polls, before.polls);
    join(sleeper);
}
