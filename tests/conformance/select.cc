// SPDX-License-Identifier: MIT OR Apache-2.0
// Select: one of several wins, and the others leave no trace.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"
#include "family.h"

#include <memory>
#include <poll.h>
#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

fiber_case_t on(int kind) {
    fiber_case_t one{};
    one.kind = kind;
    return one;
}
fiber_case_t send(fiber_chan_t chan, int *item) {
    fiber_case_t one = on(FIBER_CASE_SEND);
    one.chan = chan;
    one.item = item;
    return one;
}
fiber_case_t receive(fiber_chan_t chan, int *item) {
    fiber_case_t one = send(chan, item);
    one.kind = FIBER_CASE_RECV;
    return one;
}
fiber_case_t timer(int64_t ns) {
    fiber_case_t one = on(FIBER_CASE_TIMER);
    one.number = ns;
    return one;
}
fiber_case_t ended(fiber_t fiber) {
    fiber_case_t one = on(FIBER_CASE_JOIN);
    one.fiber = fiber;
    return one;
}
fiber_case_t event_set(fiber_event_t *event) {
    fiber_case_t one = on(FIBER_CASE_EVENT);
    one.object = event;
    return one;
}
fiber_case_t permits(fiber_sem_t *sem, int64_t n) {
    fiber_case_t one = on(FIBER_CASE_SEM);
    one.object = sem;
    one.number = n;
    return one;
}
fiber_case_t ready(int fd, int events) {
    fiber_case_t one = on(FIBER_CASE_FD);
    one.fd = fd;
    one.number = events;
    return one;
}
fiber_case_t next_of(fiber_scope_t scope) {
    fiber_case_t one = on(FIBER_CASE_SCOPE);
    one.scope = scope;
    return one;
}

struct Channel {
    fiber_chan_t chan{};
    explicit Channel(size_t capacity) { EXPECT_EQ(fiber_chan_create(&chan, sizeof(int), capacity), 0); }
    ~Channel() { EXPECT_EQ(fiber_chan_destroy(chan), 0); } // no fiber is left in it
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;
    operator fiber_chan_t() const { return chan; }
    int put(int item) const { return fiber_chan_try_send(chan, &item); }
    int take() const {
        int item = -1;
        const int error = fiber_chan_try_recv(chan, &item);
        return error ? error : item;
    }
};

TEST(Select, OneReadyCaseIsTakenAndNothingElse) {
    Channel a(1), b(1);
    fiber_event_t event{};
    fiber_sem_t sem{};
    int got = 0, given = 5;
    fiber_case_t cases[] = {receive(a, &got), event_set(&event), permits(&sem, 2), timer(FIBER_SEC(1000))};
    EXPECT_EQ(fiber_select(cases, 4, 0), -ETIMEDOUT);
    EXPECT_EQ(b.put(1), 0);
    EXPECT_EQ(a.put(7), 0);
    EXPECT_EQ(fiber_select(cases, 4, 0), 0);
    EXPECT_EQ(cases[0].result, 0);
    EXPECT_EQ(got, 7);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_select(cases, 4, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_event_is_set(&event), 0);
    EXPECT_EQ(fiber_sem_post(&sem, 3), 0);
    EXPECT_EQ(fiber_select(cases, 4, FIBER_FOREVER), 2);
    EXPECT_EQ(fiber_sem_value(&sem), 1);
    fiber_case_t sends[] = {send(b, &given), send(a, &given)};
    EXPECT_EQ(fiber_select(sends, 2, FIBER_FOREVER), 1); // b is full
    EXPECT_EQ(a.take(), 5);
    EXPECT_EQ(b.take(), 1);
    fiber_case_t now[] = {on(FIBER_CASE_NONE), timer(0)};
    EXPECT_EQ(fiber_select(now, 2, FIBER_FOREVER), 1);
}

TEST(Select, TRAP_TheFirstOfEachKindWinsAndTheLosersLeaveNoTrace) {
    for (int selected = 0; selected < 5; selected++) {
        Channel in(0), out(0);
        fiber_event_t event{};
        fiber_sem_t sem{};
        int got = 0, given = 5, index = -9;
        auto wakes = [&] {
            EXPECT_EQ(fiber_yield(), 0);
            return pointer(77);
        };
        const fiber_t joined = start(wakes);
        fiber_case_t cases[] = {receive(in, &got), send(out, &given), event_set(&event),
                                permits(&sem, 1),  ended(joined),     timer(FIBER_SEC(1000))};
        auto body = [&] { index = fiber_select(cases, 6, FIBER_FOREVER); };
        const fiber_t fiber = start(body);
        EXPECT_TRUE(waits(fiber));
        EXPECT_EQ(fiber_event_destroy(&event), -EBUSY);
        switch (selected) {
        case 0: EXPECT_EQ(in.put(8), 0); break;
        case 1: EXPECT_EQ(out.take(), 5); break;
        case 2: EXPECT_EQ(fiber_event_set(&event), 0); break;
        case 3: EXPECT_EQ(fiber_sem_post(&sem, 1), 0); break;
        case 4: EXPECT_EQ(fiber_wakeup(joined), 0); break;
        }
        join(fiber);
        EXPECT_EQ(index, selected);
        EXPECT_EQ(cases[selected].result, 0);
        EXPECT_EQ(got, selected == 0 ? 8 : 0);
        if (selected == 4) {
            EXPECT_EQ(cases[4].value, pointer(77));
            EXPECT_EQ(fiber_join(joined, nullptr), -ESRCH); // it has been joined
        } else {
            EXPECT_EQ(fiber_wakeup(joined), 0);
            EXPECT_EQ(join(joined), pointer(77));
        }
        // The losers have left no trace.
        EXPECT_EQ(in.put(1), -EAGAIN);
        EXPECT_EQ(out.take(), -EAGAIN);
        EXPECT_EQ(fiber_event_destroy(&event), 0);
        EXPECT_EQ(fiber_sem_destroy(&sem), 0);
        EXPECT_EQ(fiber_event_set(&event), 0);
        EXPECT_EQ(fiber_event_is_set(&event), 1);
        EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
        EXPECT_EQ(fiber_sem_value(&sem), 1);
    }
}

TEST(Select, TimersAndTheTimeout) {
    Channel never(0);
    int got = 0;
    int64_t until = fiber_now() + FIBER_MSEC(2);
    fiber_case_t cases[] = {receive(never, &got), timer(FIBER_SEC(1000)), timer(FIBER_MSEC(2))};
    EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 2);
    EXPECT_GE(fiber_now(), until);
    until = fiber_now() + FIBER_MSEC(1);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_MSEC(1)), -ETIMEDOUT);
    EXPECT_GE(fiber_now(), until);
    EXPECT_EQ(fiber_select(nullptr, 0, FIBER_MSEC(1)), -ETIMEDOUT);
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), -ETIMEDOUT);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
}

TEST(Select, TimesCountFromTheCallOn) {
    fiber_case_t cases[] = {timer(100), timer(99), timer(99)};
    EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 1);
    cases[0] = timer(FIBER_MSEC(1));
    EXPECT_EQ(fiber_select(cases, 1, FIBER_MSEC(1)), 0); // an event comes before a timeout at the same time
    EXPECT_EQ(fiber_select(cases, 1, FIBER_MSEC(1) - 1), -ETIMEDOUT);
}

TEST(Select, EachReadyCaseHasItsTurn) {
    std::unique_ptr<Channel> channels[4];
    int items[4], counts[4] = {};
    std::vector<fiber_case_t> cases;
    for (int i = 0; i < 4; i++) {
        channels[i] = std::make_unique<Channel>(1);
        EXPECT_EQ(channels[i]->put(i), 0);
        cases.push_back(receive(*channels[i], &items[i]));
    }
    for (int i = 0; i < 100; i++) {
        const int index = fiber_select(cases.data(), 4, FIBER_FOREVER);
        counts[index]++;
        EXPECT_EQ(channels[index]->put(index), 0);
    }
    for (int count : counts) EXPECT_GE(count, 20);
}

TEST(Select, TRAP_SelectsThatAlternateDoNotStarveACase) {
    std::unique_ptr<Channel> channels[4];
    int items[4], counts[4] = {};
    std::vector<fiber_case_t> cases;
    for (int i = 0; i < 4; i++) {
        channels[i] = std::make_unique<Channel>(1);
        EXPECT_EQ(channels[i]->put(i), 0);
        cases.push_back(receive(*channels[i], &items[i]));
    }
    for (int i = 0; i < 200; i++) { // a period of two, and of four
        for (int pair : {0, 2, 0, 0}) {
            const int index = pair + fiber_select(cases.data() + pair, 2, FIBER_FOREVER);
            counts[index]++;
            EXPECT_EQ(channels[index]->put(index), 0);
        }
    }
    for (int i = 0; i < 4; i++) EXPECT_GE(counts[i], i < 2 ? 240 : 80) << i;
}

TEST(Select, MoreThanEightCasesAndOneCaseTwice) {
    fiber_event_t events[20] = {};
    std::vector<fiber_case_t> cases;
    for (fiber_event_t &event : events) cases.push_back(event_set(&event));
    cases.push_back(event_set(&events[3]));
    int index = -1;
    auto body = [&] { index = fiber_select(cases.data(), int(cases.size()), FIBER_FOREVER); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_event_set(&events[17]), 0);
    join(fiber);
    EXPECT_EQ(index, 17);
    fiber = start(body);
    EXPECT_EQ(fiber_event_set(&events[3]), 0);
    EXPECT_EQ(fiber_event_set(&events[3]), 0); // which it does not take too
    join(fiber);
    EXPECT_EQ(index, 3);
    EXPECT_EQ(fiber_event_is_set(&events[3]), 1);
    for (fiber_event_t &event : events) EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(Select, MisuseIsAnError) {
    int item = 0;
    fiber_case_t one = on(99);
    EXPECT_EQ(fiber_select(nullptr, 1, 0), -EINVAL);
    EXPECT_EQ(fiber_select(&one, -1, 0), -EINVAL);
    EXPECT_EQ(fiber_select(&one, 1, 0), -EINVAL);
    one = on(FIBER_CASE_NONE);
    EXPECT_EQ(fiber_select(&one, 1, -1), -EINVAL);
    EXPECT_EQ(fiber_select(&one, 1, 0), -ETIMEDOUT);
    for (fiber_case_t bad : {receive({}, nullptr), event_set(nullptr), permits(nullptr, 1), timer(-1), ready(0, 0)})
        EXPECT_EQ(fiber_select(&bad, 1, 0), -EINVAL);
    fiber_case_t gone[] = {receive({}, &item)}; // the error of fiber_chan_recv itself
    EXPECT_EQ(fiber_select(gone, 1, 0), 0);
    EXPECT_EQ(gone[0].result, -EINVAL);
    fiber_chan_t chan{};
    EXPECT_EQ(fiber_chan_create(&chan, sizeof item, 0), 0);
    EXPECT_EQ(fiber_chan_destroy(chan), 0);
    gone[0] = receive(chan, &item);
    EXPECT_EQ(fiber_select(gone, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(gone[0].result, -ESRCH);
    gone[0] = ended(self());
    EXPECT_EQ(fiber_select(gone, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(gone[0].result, -EDEADLK);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_select(gone, 1, 0), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
}

TEST(Select, AClosedChannelIsReady) {
    Channel a(0), b(0);
    int got = 0, given = 1, index = -1;
    fiber_case_t cases[] = {receive(a, &got), send(b, &given)};
    auto body = [&] { index = fiber_select(cases, 2, FIBER_FOREVER); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_chan_close(b), 0);
    join(fiber);
    EXPECT_EQ(index, 1);
    EXPECT_EQ(cases[1].result, -EPIPE);
    EXPECT_EQ(fiber_select(&cases[1], 1, 0), 0);
    EXPECT_EQ(cases[1].result, -EPIPE);
}

TEST(Select, SelectMeetsSelect) {
    Channel a(0), b(0);
    int to_b = 1, from_a = 0, index = -1;
    fiber_case_t theirs[] = {receive(a, &from_a), send(b, &to_b)};
    auto body = [&] { index = fiber_select(theirs, 2, FIBER_FOREVER); };
    const fiber_t fiber = start(body);
    int to_a = 2, from_b = 0;
    fiber_case_t ours[] = {send(a, &to_a), receive(b, &from_b)};
    const int own = fiber_select(ours, 2, FIBER_FOREVER);
    join(fiber);
    EXPECT_EQ(own, index); // one pair of cases, and not the other
    EXPECT_EQ(own == 0 ? from_a : from_b, own == 0 ? 2 : 1);
    EXPECT_EQ(own == 0 ? from_b : from_a, 0);
}

TEST(Select, ACaseDoesNotMeetAnotherOfTheSameSelect) {
    Channel a(0);
    int given = 1, got = 0;
    fiber_case_t both[] = {send(a, &given), receive(a, &got)};
    EXPECT_EQ(fiber_select(both, 2, FIBER_MSEC(1)), -ETIMEDOUT);
    int index = -1;
    auto body = [&] { index = fiber_select(both, 2, FIBER_FOREVER); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(a.put(9), 0);
    join(fiber);
    EXPECT_EQ(index, 1);
    EXPECT_EQ(got, 9);
}

// --- Cancel ----------------------------------------------------------------------------------------------------------

TEST(SelectCancel, LeavesNoTrace) {
    Channel a(0);
    fiber_event_t event{};
    fiber_sem_t sem{};
    auto sleeps = [] { return pointer(fiber_yield()); };
    const fiber_t target = start(sleeps);
    int got = 0;
    fiber_case_t cases[] = {receive(a, &got), event_set(&event), permits(&sem, 2), ended(target),
                            timer(FIBER_SEC(1000))};
    auto body = [&] { return pointer(fiber_select(cases, 5, FIBER_FOREVER)); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    EXPECT_EQ(fiber_event_destroy(&event), 0);
    EXPECT_EQ(fiber_sem_destroy(&sem), 0);
    EXPECT_EQ(a.put(1), -EAGAIN);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(join(target), pointer(0));
    run([&] {
        EXPECT_EQ(fiber_sem_post(&sem, 2), 0);
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), -ECANCELED);
        EXPECT_EQ(fiber_sem_value(&sem), 2);
    });
}

TEST(SelectCancel, TRAP_ALargeRequestThatLosesLetsTheOthersPass) {
    fiber_event_t event{};
    fiber_sem_t sem{};
    fiber_case_t cases[] = {event_set(&event), permits(&sem, 5)};
    auto selects = [&] { return pointer(fiber_select(cases, 2, FIBER_FOREVER)); };
    auto small = [&] { return pointer(fiber_sem_wait(&sem, 1)); };
    const fiber_t first = start(selects), second = start(small);
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    EXPECT_TRUE(waits(second));
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(join(first), pointer(0));
    EXPECT_EQ(join(second), pointer(0));
}

TEST(SelectCancel, TRAP_AGrantBeforeTheCancelCounts) {
    Channel a(0), b(0);
    int got = 0, other = 0;
    fiber_case_t cases[] = {receive(a, &got), receive(b, &other)};
    auto body = [&] {
        EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 0);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
    };
    const fiber_t fiber = start(body);
    EXPECT_EQ(a.put(3), 0);
    EXPECT_EQ(b.put(4), -EAGAIN); // it is claimed
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(got, 3);
    EXPECT_EQ(other, 0);
}

// --- Descriptors -----------------------------------------------------------------------------------------------------

TEST(SelectDescriptor, IsReadyNowOrLaterOrLoses) {
    NEEDS_IO();
    Pipe pipe;
    fiber_event_t event{};
    fiber_case_t cases[] = {ready(pipe.read_end, POLLIN), event_set(&event), ready(pipe.write_end, POLLOUT)};
    EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 2);
    EXPECT_EQ(cases[2].result, POLLOUT);
    auto body = [&] { return pointer(fiber_select(cases, 2, FIBER_FOREVER)); };
    const auto fibers = stats().fibers;
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(join(fiber), pointer(1));
    EXPECT_EQ(stats().fibers, fibers); // the helper that watched the descriptor is gone
    EXPECT_EQ(stats().ops_in_flight, 0u);
    fiber = start(body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    EXPECT_EQ(join(fiber), pointer(0));
    EXPECT_EQ(cases[0].result, POLLIN);
    char byte;
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1); // nothing was read
    EXPECT_EQ(fiber_select(cases, 1, FIBER_MSEC(1)), -ETIMEDOUT);
    fiber = start(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), pointer(-ECANCELED));
    EXPECT_EQ(stats().fibers, fibers);
    EXPECT_EQ(stats().ops_in_flight, 0u);
}

TEST(SelectDescriptor, ThatIsClosedOrNone) {
    NEEDS_IO();
    Pipe pipe;
    fiber_case_t one = ready(pipe.read_end, POLLIN);
    auto body = [&] { return pointer(fiber_select(&one, 1, FIBER_FOREVER)); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_close(pipe.read_end), 0);
    pipe.read_end = -1;
    EXPECT_EQ(join(fiber), pointer(0));
    EXPECT_EQ(one.result, -EBADF);
    EXPECT_EQ(fiber_select(&one, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(one.result, -EBADF);
}

// --- Scopes ----------------------------------------------------------------------------------------------------------

// The select of one scope with no timeout; returns the result that it reports for the ended child, 1 if there is none,
// -ETIMEDOUT.
int64_t told(const Family &family, fiber_t *child = nullptr, int64_t timeout_ns = 0) {
    fiber_case_t one = next_of(family.scope);
    one.number = 77;
    if (const int index = fiber_select(&one, 1, timeout_ns)) return index;
    EXPECT_TRUE(one.result == 0 || one.result == 1) << one.result;
    EXPECT_EQ(one.fiber.id != 0, one.result == 1);
    if (child) *child = one.fiber;
    return one.result == 1 ? one.number : 1;
}

TEST(SelectScope, ReturnsTheResultOfFiberScopeNext) {
    Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
    EXPECT_EQ(told(family), 1);
    EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), 1);
    auto fails = [] { return int64_t(-EIO); };
    auto works = [] { return int64_t(5); };
    auto waits = [] { return int64_t(fiber_yield()); };
    const fiber_t children[] = {family.spawn(fails), family.spawn(works), family.spawn(waits)};
    EXPECT_EQ(told(family), -ETIMEDOUT); // no end has come
    EXPECT_EQ(fiber_reschedule(), 0);
    fiber_t child{};
    EXPECT_EQ(told(family, &child), -EIO);
    EXPECT_EQ(child.id, children[0].id);
    EXPECT_EQ(family.next(), 5); // each end is reported once, by either call
    EXPECT_EQ(told(family), -ETIMEDOUT);
    EXPECT_EQ(told(family, nullptr, FIBER_MSEC(1)), -ETIMEDOUT);
    EXPECT_EQ(fiber_wakeup(children[2]), 0);
    EXPECT_EQ(told(family, &child, FIBER_FOREVER), 0);
    EXPECT_EQ(child.id, children[2].id);
    EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), 1); // all ends have been reported
    EXPECT_EQ(family.next(), 1);
    EXPECT_EQ(family.close(), 0);
    EXPECT_EQ(family.failure, -EIO);
}

TEST(SelectScope, OneWinsAndTheLosersLeaveNoTrace) {
    for (int selected = 0; selected < 5; selected++) {
        Channel in(0), out(0);
        fiber_event_t event{};
        int got = 0, given = 5, index = -9;
        bool has_child = false;
        fiber_t child{};
        fiber_case_t cases[5];
        auto waits_to_be_woken = [] {
            EXPECT_EQ(fiber_yield(), 0);
            return int64_t(8);
        };
        auto target_waits = [] { return pointer(fiber_yield()); };
        const fiber_t target = start(target_waits);
        auto body = [&] {
            Family family;
            child = family.spawn(waits_to_be_woken);
            EXPECT_EQ(fiber_reschedule(), 0);
            cases[0] = next_of(family.scope);
            cases[1] = receive(in, &got);
            cases[2] = send(out, &given);
            cases[3] = event_set(&event);
            cases[4] = ended(target);
            has_child = true;
            index = fiber_select(cases, 5, FIBER_FOREVER);
            if (selected) {
                EXPECT_EQ(told(family), -ETIMEDOUT);
                EXPECT_EQ(fiber_wakeup(child), 0);
                EXPECT_EQ(family.next(), 8); // the select did not report it
            }
            EXPECT_EQ(family.next(), 1);
            EXPECT_EQ(family.close(), 0);
        };
        const fiber_t fiber = start(body);
        await([&] { return has_child && waits(fiber); });
        switch (selected) {
        case 0: EXPECT_EQ(fiber_wakeup(child), 0); break;
        case 1: EXPECT_EQ(in.put(8), 0); break;
        case 2: EXPECT_EQ(out.take(), 5); break;
        case 3: EXPECT_EQ(fiber_event_set(&event), 0); break;
        case 4: EXPECT_EQ(fiber_wakeup(target), 0); break;
        }
        join(fiber);
        EXPECT_EQ(index, selected);
        EXPECT_EQ(cases[selected].result, selected == 0);
        EXPECT_EQ(cases[0].fiber.id, selected == 0 ? child.id : 0);
        EXPECT_EQ(cases[0].number, selected == 0 ? 8 : 0);
        if (selected != 4) {
            EXPECT_EQ(fiber_wakeup(target), 0);
            join(target);
        }
        EXPECT_EQ(in.put(1), -EAGAIN);
        EXPECT_EQ(out.take(), -EAGAIN);
        EXPECT_EQ(fiber_event_destroy(&event), 0);
    }
}

TEST(SelectScope, TwoEndsAtOnceAreTwo) {
    Family family;
    fiber_event_t event{};
    auto child = [] { return int64_t(fiber_yield() + 3); };
    const fiber_t children[] = {family.spawn(child), family.spawn(child)};
    EXPECT_EQ(fiber_reschedule(), 0);
    auto wakes = [&] {
        for (fiber_t one : children) EXPECT_EQ(fiber_wakeup(one), 0);
    };
    const fiber_t waker = spawn(wakes);
    fiber_case_t cases[] = {event_set(&event), next_of(family.scope)};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
        EXPECT_EQ(cases[1].result, 1);
        EXPECT_EQ(cases[1].number, 3);
        EXPECT_EQ(cases[1].fiber.id, children[i].id);
    }
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
    EXPECT_EQ(cases[1].result, 0);
    join(waker);
    EXPECT_EQ(family.close(), 0);
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(SelectScope, OneScopeTwiceAndOthersOfTheFiber) {
    Family outer, inner;
    auto child = [] { return int64_t(fiber_yield()); };
    const fiber_t first = outer.spawn(child), second = outer.spawn(child);
    inner.spawn(child);
    EXPECT_EQ(fiber_reschedule(), 0);
    for (fiber_t one : {first, second}) {
        auto wakes = [&] { EXPECT_EQ(fiber_wakeup(one), 0); };
        const fiber_t waker = spawn(wakes);
        fiber_case_t cases[] = {next_of(inner.scope), next_of(outer.scope), next_of(outer.scope)};
        const int index = fiber_select(cases, 3, FIBER_FOREVER);
        ASSERT_GT(index, 0);
        EXPECT_EQ(cases[index].result, 1);
        EXPECT_EQ(cases[index].fiber.id, one.id);
        EXPECT_EQ(cases[3 - index].fiber.id, 0u);
        join(waker);
    }
    EXPECT_EQ(fiber_scope_cancel(inner.scope, nullptr), 0);
    EXPECT_EQ(inner.close(), -ECANCELED);
    EXPECT_EQ(outer.next(), 1);
    EXPECT_EQ(outer.close(), 0);
}

TEST(SelectScope, TRAP_DetachedChildrenWinNothing) {
    Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
    fiber_attr_t *detached = nullptr;
    EXPECT_EQ(fiber_attr_create(&detached), 0);
    EXPECT_EQ(fiber_attr_set_detached(detached, 1), 0);
    auto child = [] { return int64_t(fiber_yield()); };
    fiber_t unreported = family.spawn(child, detached);
    EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), 1);
    const fiber_t reported = family.spawn(child);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_wakeup(unreported), 0);
    EXPECT_EQ(told(family, nullptr, FIBER_MSEC(1)), -ETIMEDOUT);
    EXPECT_TRUE(is_gone(unreported));
    unreported = family.spawn(child, detached);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_wakeup(reported), 0);
    EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), 0);
    EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_wakeup(unreported), 0);
    EXPECT_EQ(family.close(), 0);
    fiber_attr_destroy(detached);
}

TEST(SelectScope, AnEarlyEndLeavesTheChildToTheNextCall) {
    fiber_event_t event{};
    enum Why { cancelled, interrupted, timed_out, out_of_time, whys };
    for (int why = 0; why < whys; why++) {
        const int results[] = {-ECANCELED, -EINTR, -ETIMEDOUT, -ETIMEDOUT};
        const int verdicts[] = {-ECANCELED, 0, 0, -ETIMEDOUT};
        fiber_scope_t around{};
        auto child = [] { return int64_t(fiber_yield() + 4); };
        auto body = [&] {
            Family family;
            const fiber_t one = family.spawn(child);
            EXPECT_EQ(fiber_reschedule(), 0);
            Family inner(why == out_of_time ? FIBER_MSEC(1) : FIBER_FOREVER);
            around = inner.scope;
            fiber_case_t cases[] = {next_of(family.scope), event_set(&event)};
            EXPECT_EQ(fiber_select(cases, 2, why == timed_out ? FIBER_MSEC(1) : FIBER_FOREVER), results[why]);
            EXPECT_EQ(inner.close(), verdicts[why]);
            EXPECT_EQ(fiber_wakeup(one), 0);
            EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), 4);
            EXPECT_EQ(told(family), 1);
            EXPECT_EQ(family.close(), 0);
        };
        const fiber_t fiber = start(body);
        if (why == cancelled || why == interrupted) {
            await([&] { return around.id && waits(fiber); });
            EXPECT_EQ(why == cancelled ? fiber_scope_cancel(around, nullptr) : fiber_interrupt(fiber, nullptr), 0);
        }
        join(fiber);
    }
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(SelectScope, TRAP_AnEndThatCameBeforeTheCancelCounts) {
    fiber_t child{};
    bool selecting = false;
    auto waits_to_be_woken = [] { return int64_t(fiber_yield() + 4); };
    auto body = [&] {
        Family family;
        child = family.spawn(waits_to_be_woken);
        EXPECT_EQ(fiber_reschedule(), 0);
        selecting = true;
        EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), 4);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
        EXPECT_EQ(family.close(), 0);
    };
    const fiber_t fiber = start(body);
    await([&] { return selecting && waits(fiber) && waits(child); });
    auto cancels = [&] { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); };
    EXPECT_EQ(fiber_wakeup(child), 0);
    const fiber_t canceller = spawn(cancels); // runs after the child, and before the fiber that learns of the end
    join(canceller);
    join(fiber);
}

TEST(SelectScope, AFailureCancelsTheOthersWhoseEndsFollow) {
    Family family;
    Patient patient;
    fiber_event_t event{};
    auto fails = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        return int64_t(-EIO);
    };
    family.spawn(patient);
    family.spawn(patient);
    family.spawn(fails);
    EXPECT_EQ(fiber_reschedule(), 0); // all have had a turn
    fiber_case_t cases[] = {event_set(&event), next_of(family.scope)};
    for (int64_t result : {-EIO, -ECANCELED, -ECANCELED}) {
        EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
        EXPECT_EQ(cases[1].result, 1);
        EXPECT_EQ(cases[1].number, result);
    }
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
    EXPECT_EQ(cases[1].result, 0);
    EXPECT_EQ(patient.cancelled, 2);
    EXPECT_EQ(family.close(), 0);
    EXPECT_EQ(family.failure, -EIO);
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(SelectScope, ACancelledOrLateScopeEndsTheSelectInsideIt) {
    for (bool by_deadline : {false, true}) {
        run([&] {
            Family family;
            Patient patient;
            family.spawn(patient);
            EXPECT_EQ(fiber_reschedule(), 0);
            auto cancels = [&] {
                if (!by_deadline) {
                    EXPECT_EQ(fiber_scope_cancel(family.scope, nullptr), 0);
                }
            };
            if (by_deadline) family.limit(FIBER_MSEC(1));
            const fiber_t canceller = spawn(cancels);
            const int reason = by_deadline ? -ETIMEDOUT : -ECANCELED;
            EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), reason);
            EXPECT_EQ(told(family), reason);
            EXPECT_EQ(family.close(), reason);
            EXPECT_EQ(patient.cancelled, 1);
            join(canceller);
        });
    }
}

TEST(SelectScope, MisuseIsTheResultOfItsCase) {
    fiber_case_t one = next_of({});
    auto result = [&](fiber_scope_t scope) {
        one = next_of(scope);
        EXPECT_EQ(fiber_select(&one, 1, FIBER_FOREVER), 0);
        EXPECT_EQ(one.fiber.id, 0u);
        return one.result;
    };
    EXPECT_EQ(result({}), -EINVAL);
    EXPECT_EQ(result({self().id}), -EINVAL); // no scope's
    Family family;
    auto sleeps = [] { return int64_t(fiber_sleep(HOUR)); };
    family.spawn(sleeps);
    run([&] { EXPECT_EQ(result(family.scope), -EPERM); }); // not the fiber that opened it
    if (!simulated()) {
        in_thread([&] { EXPECT_EQ(result(family.scope), -EPERM); });
    }
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_select(&one, 1, 0), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_scope_cancel(family.scope, nullptr), 0);
    EXPECT_EQ(family.close(), -ECANCELED);
    EXPECT_EQ(result(family.scope), -ESRCH);
}

TEST(SelectScope, EightCasesTakeNoMemory) {
    NEEDS_THE_MEMORY_IN_USE();
    if (FIBERRT_TEST_TSAN || FIBERRT_TEST_ASAN)
        GTEST_SKIP() << "a sanitizer's allocator does not report the memory in use";
    auto sleeps = [] { return int64_t(fiber_sleep(HOUR)); };
    size_t taken = 0;
    auto body = [&] {
        Family families[9];
        fiber_case_t cases[9];
        for (int i = 0; i < 9; i++) {
            families[i].spawn(sleeps);
            cases[i] = next_of(families[i].scope);
        }
        EXPECT_EQ(fiber_select(cases, 9, FIBER_MSEC(1)), -ETIMEDOUT); // the memory that is taken once
        for (int count : {8, 9}) {
            auto looks = [&] { taken = allocated(); };
            const size_t before = allocated();
            const fiber_t looker = spawn(looks);
            EXPECT_EQ(fiber_select(cases, count, FIBER_MSEC(10)), -ETIMEDOUT);
            if (count == 8) {
                EXPECT_EQ(taken, before);
            }
            if (count == 9) {
                EXPECT_GT(taken, before);
            }
            join(looker);
            EXPECT_EQ(allocated(), before);
        }
        for (int i = 9; i-- > 0;) {
            EXPECT_EQ(fiber_scope_cancel(families[i].scope, nullptr), 0);
            EXPECT_EQ(families[i].close(), -ECANCELED);
        }
    };
    run(body);
}

TEST(SelectScopeElsewhere, TheEndsOfChildrenOfOtherCords) {
    Worker workers[2];
    run([&] {
        Family family;
        Channel mailbox(1);
        int got = 0;
        const int children = often(200, 10), letters = often(200, 10);
        auto body = [] {
            EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
            return int64_t(2);
        };
        auto writes = [&] {
            for (int i = 1; i <= letters; i++) EXPECT_EQ(fiber_chan_send(mailbox, &i), 0);
        };
        for (int i = 0; i < children; i++) family.spawn(body, On(workers[i % 2]));
        const fiber_t writer = spawn_on(workers[0], writes);
        int64_t ends = 0, sum = 0, items = 0;
        fiber_case_t cases[] = {next_of(family.scope), receive(mailbox, &got)};
        while (cases[0].kind || items < letters) {
            const int index = fiber_select(cases, 2, FIBER_FOREVER);
            ASSERT_GE(index, 0);
            if (index == 1) {
                EXPECT_EQ(got, ++items);
            } else if (cases[0].result == 1) {
                ends++;
                sum += cases[0].number;
            } else {
                EXPECT_EQ(cases[0].result, 0);
                cases[0].kind = FIBER_CASE_NONE;
            }
        }
        EXPECT_EQ(ends, children);
        EXPECT_EQ(sum, 2 * children);
        join(writer);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(family.failure, 0);
    });
}

TEST(SelectScopeElsewhere, AnotherCordCancelsTheScope) {
    Worker worker;
    std::atomic<uint64_t> scope{0};
    std::atomic<int> cancelled{0};
    auto patient = [&] {
        EXPECT_EQ(fiber_sleep(HOUR), -ECANCELED);
        cancelled++;
        return int64_t(-ECANCELED);
    };
    auto body = [&] {
        Family family;
        family.spawn(patient, On(worker));
        family.spawn(patient);
        EXPECT_EQ(fiber_reschedule(), 0);
        scope = family.scope.id;
        EXPECT_EQ(told(family, nullptr, FIBER_FOREVER), -ECANCELED);
        EXPECT_EQ(family.close(), -ECANCELED);
    };
    const fiber_t fiber = start(body);
    await([&] { return scope && waits(fiber); });
    run_on(worker, [&] { EXPECT_EQ(fiber_scope_cancel({scope}, nullptr), 0); });
    join(fiber);
    EXPECT_GE(cancelled, 1); // the other one may not have begun
}

// A handle whose fiber is still in the inbox is looked for there, and that takes all other messages too: also the end
// of a child, whose case may have been tried already.
TEST(SelectScopeElsewhere, TRAP_AnEndThatComesWhileTheCasesAreTried) {
    Worker worker;
    const fiber_cord_t here = this_cord_handle();
    for (int i = 0; i < 16; i++) {
        Family family;
        std::atomic<bool> go{false}, made{false};
        fiber_t arriving{};
        auto parks = [] { return pointer(fiber_yield()); };
        auto child = [&] {
            await([&] { return go.load(); });
            return int64_t(6);
        };
        auto makes = [&] {
            arriving = spawn_on(here, parks);
            made = true;
        };
        const fiber_t one = family.spawn(child, On(worker));
        const fiber_t maker = create_on(worker, makes);
        EXPECT_EQ(fiber_wakeup(maker), 0);
        go = true;
        await_holding_the_thread([&] { return is_set(made) && is_gone(one); });
        fiber_case_t cases[] = {next_of(family.scope), ended(arriving)};
        EXPECT_EQ(fiber_select(cases, 2, FIBER_SEC(60)), 0);
        EXPECT_EQ(cases[0].result, 1);
        EXPECT_EQ(cases[0].number, 6);
        EXPECT_EQ(family.next(), 1);
        EXPECT_EQ(family.close(), 0);
        join(maker);
        EXPECT_EQ(fiber_wakeup(arriving), 0);
        join(arriving);
    }
}

// The fiber never runs again: its children run on without it, and an item given to another case passes on.
TEST(SelectScopeElsewhere, TRAP_TheThreadEndsWhileItWaits) {
    enum How { waiting, told_of_a_child, given_an_item, hows };
    for (int how = 0; how < hows; how++) {
        Worker worker;
        Channel channel(0);
        std::atomic<bool> go{false};
        std::atomic<int> begun{0}, ended{0};
        auto child = [&] {
            begun++;
            while (!is_set(go) && fiber_sleep(FIBER_USEC(100)) == 0) {}
            ended++;
            return int64_t(1);
        };
        Doomed doomed([&] {
            Family family(FIBER_FOREVER, FIBER_SCOPE_COLLECT);
            for (int i = 0; i < 2; i++) family.spawn(child, On(worker));
            int got = 0;
            fiber_case_t cases[] = {receive(channel, &got), next_of(family.scope)};
            fiber_select(cases, 2, FIBER_FOREVER);
        });
        await([&] { return begun == 2; }); // else the cancelled fibers do not run
        if (how == told_of_a_child) {
            go = true;
            await([&] { return ended == 2; });
        }
        if (how == given_an_item) {
            EXPECT_EQ(channel.put(6), 0);
        }
        doomed.end();
        EXPECT_EQ(channel.take(), how == given_an_item ? 6 : -EAGAIN);
        EXPECT_EQ(channel.put(1), -EAGAIN);
        await([&] { return ended == 2; }); // cancelled, unless told to run
    }
}

// --- Threads ---------------------------------------------------------------------------------------------------------

TEST(SelectThreads, TheEndOfAFiberOfAnotherCord) {
    Worker worker;
    auto body = [] { return pointer(fiber_yield() + 5); };
    const fiber_t target = spawn_on(worker, body);
    fiber_event_t event{};
    fiber_case_t cases[] = {event_set(&event), ended(target)};
    EXPECT_EQ(fiber_select(cases, 2, FIBER_MSEC(2)), -ETIMEDOUT);
    await([&] { return waits(target); });
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
    EXPECT_EQ(cases[1].result, 0);
    EXPECT_EQ(cases[1].value, pointer(5));
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
    EXPECT_EQ(cases[1].result, -ESRCH);
    const fiber_t loser = spawn_on(worker, body); // one that loses can be joined afterwards
    cases[1] = ended(loser);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 0);
    await([&] { return waits(loser); });
    EXPECT_EQ(fiber_wakeup(loser), 0);
    EXPECT_EQ(join(loser), pointer(5));
}

TEST(SelectThreads, TRAP_SelectAgainstSelectAcrossCordsClaimsBothOrNeither) {
    Channel a(0), b(0);
    const int turns = often(2000, 10);
    std::atomic<long> sent{0}, received{0};
    std::atomic<int> exchanges{0};
    auto body = [&] { // each sends on one and receives on the other, whichever comes first
        for (int i = 1; i <= turns; i++) {
            int given = i, got = 0, given_too = i, got_too = 0;
            fiber_case_t cases[] = {send(a, &given), receive(b, &got), send(b, &given_too), receive(a, &got_too)};
            const int index = fiber_select(cases, 4, FIBER_MSEC(20));
            if (index == -ETIMEDOUT) return; // the others have ended
            EXPECT_GE(index, 0);
            EXPECT_EQ(cases[index].result, 0);
            if (index % 2 == 0) sent += i;
            received += index == 1 ? got : index == 3 ? got_too : 0;
            exchanges++;
        }
    };
    {
        Worker workers[2];
        std::vector<fiber_t> fibers;
        for (Worker &worker : workers)
            for (int i = 0; i < 2; i++) fibers.push_back(spawn_on(worker, body));
        Thread threads[] = {Thread(body), Thread(body)};
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(exchanges % 2, 0);
    EXPECT_GT(exchanges, 0);
}

TEST(SelectThreads, TRAP_AGrantToAFiberThatNeverRunsAgainPassesOn) {
    for (int kind = 0; kind < 3; kind++) {
        Channel a(0), losing(0);
        fiber_event_t event{};
        fiber_sem_t sem{};
        auto forever = [] { fiber_yield(); };
        const fiber_t target = start(forever);
        Doomed doomed([&] {
            int got = 0, other = 0;
            fiber_case_t cases[] = {receive(a, &got), event_set(&event), permits(&sem, 1), receive(losing, &other),
                                    ended(target)};
            fiber_select(cases, 5, FIBER_FOREVER);
        });
        if (kind == 0) {
            EXPECT_EQ(a.put(6), 0);
        }
        if (kind == 1) {
            EXPECT_EQ(fiber_event_set(&event), 0);
        }
        if (kind == 2) {
            EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
        }
        doomed.end();
        EXPECT_EQ(fiber_wakeup(target), 0);
        join(target);
        EXPECT_EQ(a.take(), kind == 0 ? 6 : -EAGAIN);
        EXPECT_EQ(fiber_event_is_set(&event), kind == 1);
        EXPECT_EQ(fiber_sem_value(&sem), kind == 2);
        EXPECT_EQ(fiber_event_destroy(&event), 0);
        EXPECT_EQ(fiber_sem_destroy(&sem), 0);
        EXPECT_EQ(losing.put(1), -EAGAIN);
    }
}

// When a select has won, the helper that watched its descriptor ends before the select returns; the thread may end
// before that.
TEST(SelectThreads, TRAP_AnItemIsNotLostWhileADescriptorIsLeft) {
    NEEDS_IO();
    Channel channel(0);
    for (int turns = 0; turns < 4; turns++) {
        Pipe pipe;
        int got = 0, index = -9;
        auto selects = [&] {
            fiber_case_t cases[] = {receive(channel, &got), ready(pipe.read_end, POLLIN)};
            index = fiber_select(cases, 2, FIBER_FOREVER);
        };
        auto body = [&] {
            const fiber_t fiber = create(selects, On(this_cord_handle()).daemon());
            EXPECT_EQ(fiber_start(fiber), 0);
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); // the helper has begun
            EXPECT_EQ(channel.put(7), 0);
            for (int i = 0; i < turns; i++) EXPECT_EQ(fiber_reschedule(), 0);
        };
        join_cord(start_cord(body));
        if (index == 0) {
            EXPECT_EQ(got, 7);
            EXPECT_EQ(channel.take(), -EAGAIN);
        } else {
            EXPECT_EQ(index, -9);
            EXPECT_EQ(channel.take(), 7);
        }
    }
}

TEST(SelectThreads, TRAP_TheMemoryOfFibersThatNeverRunAgainIsFreed) {
    NEEDS_IO();
    NEEDS_THE_MEMORY_IN_USE();
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer's allocator does not report the memory in use";
    enum How { waiting, completed, cancelled, leaving_a_descriptor, hows };
    const int many = often(200, 20), fiber_count = often(20, 4);
    for (int how = 0; how < hows; how++) {
        Pipe pipe;
        auto round = [&] {
            fiber_event_t events[200] = {};
            auto selects = [&] {
                fiber_case_t cases[201];
                for (int i = 0; i < many; i++) cases[i] = event_set(&events[i]);
                cases[many] = how == leaving_a_descriptor ? ready(pipe.read_end, POLLIN) : on(FIBER_CASE_NONE);
                fiber_select(cases, many + 1, FIBER_FOREVER);
            };
            auto body = [&] {
                std::vector<fiber_t> fibers(static_cast<size_t>(fiber_count));
                for (fiber_t &fiber : fibers) {
                    fiber = create(selects, On(this_cord_handle()).daemon());
                    EXPECT_EQ(fiber_start(fiber), 0);
                }
                if (how == leaving_a_descriptor) {
                    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
                }
                for (fiber_t fiber : fibers) {
                    if (how == completed) {
                        EXPECT_EQ(fiber_event_set(&events[5]), 0);
                    }
                    if (how >= cancelled) {
                        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
                    }
                }
                if (how == leaving_a_descriptor) {
                    EXPECT_EQ(fiber_reschedule(), 0);
                }
            };
            join_cord(start_cord(body));
            for (fiber_event_t &event : events) EXPECT_EQ(fiber_event_destroy(&event), 0);
        };
        round();
        const size_t before = allocated(); // 0 with AddressSanitizer, which detects leaks itself
        for (int i = 0; i < 3; i++) round();
        const size_t after = allocated();
        // Each case takes some 250 bytes.
        EXPECT_LT(after, before + 125 * static_cast<size_t>(many) * static_cast<size_t>(fiber_count)) << how;
    }
}

TEST(SelectThreads, APlainThreadSelects) {
    NEEDS_THREADS();
    Channel a(0);
    fiber_event_t event{};
    std::thread thread([&] {
        int got = 0;
        fiber_case_t cases[] = {receive(a, &got), event_set(&event), timer(FIBER_SEC(1000))};
        EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 0);
        EXPECT_EQ(got, 4);
        cases[2] = timer(FIBER_MSEC(1));
        EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 2);
        EXPECT_EQ(fiber_select(cases, 2, FIBER_MSEC(1)), -ETIMEDOUT);
    });
    await([&] { return a.put(4) == 0; });
    thread.join();
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

} // namespace
