// SPDX-License-Identifier: MIT OR Apache-2.0
// Accounting: the times of fibers and cords, and their sums. In a simulation time passes only by sleeps, polls and looks
// at the clock, so there times are exact; elsewhere the scenarios check bounds that hold on any machine.
#include "conformance.h"
#include "cord_support.h"
#include "hosted_support.h"
#include "io_support.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <sys/wait.h>
#include <time.h>
#include <vector>

using namespace support;

namespace {

// Accounting that begins with the object, also if it was on before.
struct Accounting {
    Accounting() {
        off();
        EXPECT_EQ(expect_memory(fiber_accounting_start()), 0);
    }
    ~Accounting() { off(); }
    Accounting(const Accounting &) = delete;
    Accounting &operator=(const Accounting &) = delete;
    static void off() {
        int result = fiber_accounting_stop();
        EXPECT_TRUE(result == 0 || result == -EALREADY) << result;
    }
};

fiber_times_t times(fiber_t fiber) {
    fiber_times_t out{};
    EXPECT_EQ(fiber_times(fiber, &out, sizeof out), 0);
    return out;
}

fiber_cord_times_t cord_times(fiber_cord_t cord = this_cord_handle()) {
    fiber_cord_times_t out{};
    EXPECT_EQ(fiber_cord_times(cord, &out, sizeof out), 0);
    return out;
}

int collect(const fiber_times_sum_t *sum, void *all) {
    static_cast<std::vector<fiber_times_sum_t> *>(all)->push_back(*sum);
    return 0;
}

std::vector<fiber_times_sum_t> sums(int by) {
    std::vector<fiber_times_sum_t> all;
    EXPECT_EQ(expect_memory(fiber_times_each(by, collect, &all)), 0);
    return all;
}

template <class Function>
uint64_t address(Function *function) {
    return reinterpret_cast<uintptr_t>(function);
}

fiber_times_t sum_of_function(uint64_t function) {
    for (const fiber_times_sum_t &sum : sums(FIBER_BY_FUNCTION)) {
        if (sum.function == function && !sum.others) return sum.times;
    }
    return {};
}

int64_t waited(const fiber_times_t &all) {
    int64_t sum = 0;
    for (int64_t wait : all.wait_ns) sum += wait;
    return sum;
}

// Checks that all the waits of a fiber are of one kind, and, where no other program takes time, at least so long.
void expect_only(const fiber_times_t &all, int kind, int64_t least) {
    EXPECT_GE(all.wait_ns[kind], simulated() ? least : 1);
    EXPECT_EQ(waited(all), all.wait_ns[kind]) << "of kind " << kind;
}

constexpr int64_t some_ns = FIBER_MSEC(2);

} // namespace

TEST(Accounting, IsOffAtFirst) {
    Accounting::off();
    fiber_times_t times{};
    fiber_cord_times_t of_cord{};
    EXPECT_EQ(fiber_times(self(), &times, sizeof times), -ENODATA);
    EXPECT_EQ(fiber_cord_times(this_cord_handle(), &of_cord, sizeof of_cord), -ENODATA);
    std::vector<fiber_times_sum_t> none;
    EXPECT_EQ(fiber_times_each(FIBER_BY_NAME, collect, &none), -ENODATA);
    EXPECT_EQ(fiber_accounting_stop(), -EALREADY);
    EXPECT_EQ(expect_memory(fiber_accounting_start()), 0);
    EXPECT_EQ(fiber_accounting_start(), -EALREADY);
    EXPECT_EQ(fiber_times(self(), &times, sizeof times), 0);
    EXPECT_EQ(fiber_accounting_stop(), 0);
    EXPECT_EQ(fiber_times(self(), &times, sizeof times), -ENODATA);
}

TEST(Accounting, RefusesWrongArguments) {
    Accounting on;
    fiber_times_t times{};
    fiber_cord_times_t of_cord{};
    std::vector<fiber_times_sum_t> none;
    EXPECT_EQ(fiber_times(self(), nullptr, sizeof times), -EINVAL);
    EXPECT_EQ(fiber_times(self(), &times, 0), -EINVAL);
    EXPECT_EQ(fiber_times({0}, &times, sizeof times), -EINVAL);
    EXPECT_EQ(fiber_times({this_cord_handle().id}, &times, sizeof times), -EINVAL);
    EXPECT_EQ(fiber_cord_times(this_cord_handle(), nullptr, sizeof of_cord), -EINVAL);
    EXPECT_EQ(fiber_cord_times(this_cord_handle(), &of_cord, 0), -EINVAL);
    EXPECT_EQ(fiber_cord_times({self().id}, &of_cord, sizeof of_cord), -EINVAL);
    EXPECT_EQ(fiber_times_each(FIBER_BY_NAME, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_times_each(-1, collect, &none), -EINVAL);
    EXPECT_EQ(fiber_times_each(FIBER_BY_SCOPE + 1, collect, &none), -EINVAL);
    EXPECT_TRUE(none.empty());
    auto nothing = [] {};
    fiber_t gone = spawn(nothing);
    join(gone);
    EXPECT_EQ(fiber_times(gone, &times, sizeof times), -ESRCH);
    fiber_cord_t cord = start_cord(nothing);
    join_cord(cord);
    EXPECT_EQ(fiber_cord_times(cord, &of_cord, sizeof of_cord), -ESRCH);
}

TEST(Accounting, FillsAsManyBytesAsAreAskedFor) {
    Accounting on;
    struct {
        fiber_times_t known;
        uint64_t unknown;
    } larger;
    memset(&larger, 0xff, sizeof larger);
    EXPECT_EQ(fiber_times(self(), reinterpret_cast<fiber_times_t *>(&larger), sizeof larger), 0);
    EXPECT_EQ(larger.known.fibers, 1u);
    EXPECT_EQ(larger.unknown, 0u);
    fiber_times_t smaller;
    memset(&smaller, 0xff, sizeof smaller);
    EXPECT_EQ(fiber_times(self(), &smaller, sizeof smaller.fibers), 0);
    EXPECT_EQ(smaller.fibers, 1u);
    EXPECT_EQ(smaller.turns, ~uint64_t{});
}

TEST(Accounting, CountsRunsAndTheTimeUntilAFiberRuns) {
    auto burns = [] { burn(some_ns); };
    Accounting on;
    fiber_t first = spawn(burns);
    fiber_t second = spawn(burns);
    fiber_t never = create(burns);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
    int64_t passed = cord_times().elapsed_ns;
    for (fiber_t fiber : {first, second}) {
        fiber_times_t of = times(fiber); // it has ended, and is not joined
        EXPECT_GE(of.run_ns, some_ns);
        EXPECT_LE(of.run_ns + of.runnable_ns, passed);
        EXPECT_EQ(waited(of), 0);
        EXPECT_EQ(of.turns, 1u);
        EXPECT_EQ(of.fibers, 1u);
    }
    EXPECT_GE(times(second).runnable_ns, some_ns); // while the first had the thread
    if (simulated()) {
        EXPECT_LE(times(first).runnable_ns, FIBER_USEC(10)); // a poll
    }
    fiber_times_t unrun = times(never);
    EXPECT_EQ(unrun.run_ns, 0);
    EXPECT_EQ(unrun.runnable_ns, 0);
    EXPECT_EQ(waited(unrun), 0);
    fiber_times_t mine = times(self());
    // The timer starts before the fiber waits, and a busy machine may take the thread in between.
    EXPECT_GE(mine.run_ns + mine.wait_ns[FIBER_WAIT_TIME], FIBER_MSEC(15));
    EXPECT_GE(mine.wait_ns[FIBER_WAIT_TIME], simulated() ? FIBER_MSEC(15) : 1);
    EXPECT_LE(mine.run_ns + mine.runnable_ns + waited(mine), cord_times().elapsed_ns);
    join(first);
    join(second);
    EXPECT_EQ(fiber_cancel(never, nullptr), 0);
    join(never);
}

TEST(Accounting, TellsTheKindsOfWaits) {
    fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    fiber_chan_t channel{};
    ASSERT_EQ(expect_memory(fiber_chan_create(&channel, sizeof(int), 0)), 0);
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    Accounting on;
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(some_ns), 0); };
    auto locks = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    auto receives = [&] {
        int item;
        EXPECT_EQ(fiber_chan_recv(channel, &item), 0);
    };
    auto selects = [&] {
        int item;
        fiber_case_t one{};
        one.kind = FIBER_CASE_RECV;
        one.chan = channel;
        one.item = &item;
        EXPECT_EQ(fiber_select(&one, 1, FIBER_FOREVER), 0);
    };
    auto yields = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto opens = [&] {
        fiber_scope_t scope;
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
        auto waits = [](void *event) -> int64_t { return fiber_event_wait(static_cast<fiber_event_t *>(event)); };
        EXPECT_EQ(expect_memory(fiber_scope_spawn(scope, nullptr, waits, &over)), 0);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    };
    fiber_t sleeper{};
    auto joins = [&] { join(sleeper); };
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    sleeper = spawn(sleeps);
    fiber_t locker = spawn(locks);
    fiber_t receiver = spawn(receives);
    fiber_t selector = spawn(selects);
    fiber_t parker = spawn(yields);
    fiber_t parent = spawn(opens);
    fiber_t joiner = spawn(joins);
    EXPECT_EQ(fiber_sleep(3 * some_ns), 0);
    expect_only(times(locker), FIBER_WAIT_LOCK, 2 * some_ns); // a wait that has not ended counts up to now
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    int item = 0;
    EXPECT_EQ(fiber_chan_send(channel, &item), 0);
    EXPECT_EQ(fiber_chan_send(channel, &item), 0);
    EXPECT_EQ(fiber_wakeup(parker), 0);
    EXPECT_EQ(fiber_event_set(&over), 0);
    for (fiber_t fiber : {joiner, locker, receiver, selector, parker, parent}) {
        EXPECT_EQ(expect_memory(fiber_await(fiber)), 0);
    }
    expect_only(times(locker), FIBER_WAIT_LOCK, 2 * some_ns);
    expect_only(times(receiver), FIBER_WAIT_CHANNEL, 2 * some_ns);
    expect_only(times(selector), FIBER_WAIT_CHANNEL, 2 * some_ns);
    expect_only(times(parker), FIBER_WAIT_WAKEUP, 2 * some_ns);
    expect_only(times(parent), FIBER_WAIT_CHILDREN, 2 * some_ns);
    expect_only(times(joiner), FIBER_WAIT_FIBER, 1);
    for (fiber_t fiber : {joiner, locker, receiver, selector, parker, parent}) join(fiber);
    EXPECT_EQ(fiber_chan_destroy(channel), 0);
}

TEST(Accounting, CountsWaitsForDescriptors) {
    NEEDS_IO();
    Accounting on;
    Pipe pipe;
    auto reads = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    fiber_t reader = spawn(reads);
    EXPECT_EQ(fiber_sleep(some_ns), 0);
    EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    EXPECT_EQ(expect_memory(fiber_await(reader)), 0);
    fiber_times_t of = times(reader);
    EXPECT_GT(of.wait_ns[FIBER_WAIT_IO], 0);
    EXPECT_EQ(waited(of), of.wait_ns[FIBER_WAIT_IO]);
    join(reader);
}

// The fibers of a cord run one after the other, so their run times add up to the cord's.
TEST(Accounting, RunTimesAddUpToTheCords) {
    std::atomic<bool> over{false};
    auto runs = [&] {
        while (!over) {
            burn(FIBER_USEC(20));
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    auto sleeps = [&] {
        while (!over) EXPECT_EQ(fiber_sleep(FIBER_USEC(50)), 0);
    };
    Accounting on;
    std::vector<fiber_t> all;
    for (int i = 0; i < 4; i++) {
        all.push_back(spawn(runs));
        all.push_back(spawn(sleeps));
    }
    fiber_t me = self();
    for (int i = 0; i < often(50, 10); i++) {
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        fiber_t ends = spawn(sleeps);
        EXPECT_EQ(fiber_cancel(ends, nullptr), 0); // before its first run
        join(ends);
        fiber_cord_times_t before = cord_times();
        int64_t sum = times(me).run_ns;
        for (fiber_t fiber : all) sum += times(fiber).run_ns;
        fiber_cord_times_t after = cord_times();
        int64_t rounded = int64_t(all.size()) + 2; // each time has been rounded down
        EXPECT_GE(sum, before.run_ns - rounded);
        EXPECT_LE(sum, after.run_ns + rounded);
        for (const fiber_cord_times_t &cord : {before, after}) {
            EXPECT_EQ(cord.run_ns + cord.poll_ns + cord.sleep_ns, cord.elapsed_ns);
            EXPECT_GE(cord.poll_ns, 0);
            EXPECT_GE(cord.sleep_ns, 0);
        }
    }
    over = true;
    for (fiber_t fiber : all) join(fiber);
    int64_t of_all = 0;
    for (const fiber_times_sum_t &sum : sums(FIBER_BY_FUNCTION)) of_all += sum.times.run_ns;
    if (simulated()) {
        EXPECT_EQ(of_all, cord_times().run_ns);
    }
}

TEST(Accounting, TheElapsedTimeIsThatOfTheClock) {
    EXPECT_EQ(fiber_reschedule(), 0); // opens the cord, whose times would begin later otherwise
    int64_t before = fiber_now();
    Accounting on;
    int64_t begun = fiber_now();
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
    int64_t first = fiber_now();
    fiber_cord_times_t cord = cord_times();
    int64_t after = fiber_now();
    constexpr int64_t rate_of = 1000; // the rate that is measured of a counter is exact to far less than a thousandth
    EXPECT_GE(cord.elapsed_ns, (first - begun) * (rate_of - 1) / rate_of);
    EXPECT_LE(cord.elapsed_ns, (after - before) * (rate_of + 1) / rate_of);
    EXPECT_GE(cord.sleep_ns, 0);
    EXPECT_LE(cord.sleep_ns, cord.elapsed_ns);
    if (simulated()) {
        EXPECT_GE(cord.sleep_ns, FIBER_MSEC(19));
    }
}

TEST(Accounting, SpreadsOfSlicesAreInOrder) {
    Accounting on;
    auto runs = [] {
        for (int i = 0; i < 10; i++) {
            burn(i == 5 ? FIBER_MSEC(1) : FIBER_USEC(10));
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    fiber_t one = spawn(runs);
    fiber_t other = spawn(runs);
    join(one);
    join(other);
    EXPECT_EQ(fiber_sleep(0), 0); // polls
    fiber_cord_times_t cord = cord_times();
    EXPECT_GE(cord.slice.count, 20u);
    EXPECT_GE(cord.slice.p50_ns, FIBER_USEC(9));
    EXPECT_GE(cord.slice.most_ns, FIBER_MSEC(1));
    EXPECT_GE(cord.poll.count, 1u);
    EXPECT_GE(cord.lag.count, 1u);
    for (const fiber_spread_t &spread : {cord.slice, cord.lag, cord.poll}) {
        EXPECT_LE(spread.p50_ns, spread.p90_ns);
        EXPECT_LE(spread.p90_ns, spread.p99_ns);
        EXPECT_LE(spread.p99_ns, spread.p999_ns);
        EXPECT_LE(spread.p999_ns, spread.most_ns);
    }
    if (simulated()) { // most slices are of 10 looks at the clock, some of 1000
        EXPECT_LE(cord.slice.most_ns, FIBER_MSEC(1) * 17 / 16 + FIBER_USEC(20));
    }
}

TEST(Accounting, PollsCountWithoutTheirSleeps) {
    Accounting on;
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(50)), 0);
    fiber_cord_times_t cord = cord_times();
    EXPECT_LE(cord.poll.most_ns, cord.poll_ns + cord.poll_ns / 16 + 16); // a bucket is a sixteenth wide
}

// A fiber's wait that began before accounting counts from its begin on.
TEST(Accounting, CountsAWaitThatHasBegunBefore) {
    Accounting::off();
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto waits = [&] { EXPECT_EQ(fiber_event_wait(&over), 0); };
    auto yields = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(4 * some_ns), 0); };
    fiber_t waiter = start(waits);
    fiber_t parker = start(yields);
    fiber_t sleeper = start(sleeps);
    Accounting on;
    expect_only(times(waiter), FIBER_WAIT_LOCK, 0);
    EXPECT_EQ(fiber_sleep(some_ns), 0);
    expect_only(times(waiter), FIBER_WAIT_LOCK, some_ns);
    expect_only(times(parker), FIBER_WAIT_WAKEUP, some_ns);
    expect_only(times(sleeper), FIBER_WAIT_TIME, some_ns);
    EXPECT_EQ(times(sleeper).turns, 0u);
    EXPECT_EQ(fiber_event_set(&over), 0);
    EXPECT_EQ(fiber_wakeup(parker), 0);
    for (fiber_t fiber : {waiter, parker, sleeper}) EXPECT_EQ(expect_memory(fiber_await(fiber)), 0);
    expect_only(times(waiter), FIBER_WAIT_LOCK, some_ns);
    expect_only(times(parker), FIBER_WAIT_WAKEUP, some_ns);
    expect_only(times(sleeper), FIBER_WAIT_TIME, some_ns);
    EXPECT_EQ(times(waiter).turns, 1u);
    for (fiber_t fiber : {waiter, parker, sleeper}) join(fiber);
}

TEST(Accounting, BeginsAnewWhenItIsTurnedOnAgain) {
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto waits = [&] { EXPECT_EQ(fiber_event_wait(&over), 0); };
    auto nothing = [] {};
    fiber_t waiter = start(waits);
    for (int i = 0; i < 3; i++) {
        Accounting on;
        fiber_times_t at_first = times(waiter);
        EXPECT_EQ(sum_of_function(address(entry<decltype(nothing)>)).fibers, 0u);
        run(nothing);
        EXPECT_EQ(sum_of_function(address(entry<decltype(nothing)>)).fibers, 1u);
        EXPECT_EQ(fiber_sleep(some_ns), 0);
        EXPECT_GE(times(waiter).wait_ns[FIBER_WAIT_LOCK], at_first.wait_ns[FIBER_WAIT_LOCK] + some_ns);
        int64_t at_most = waited(times(waiter));
        EXPECT_LE(at_most, cord_times().elapsed_ns);
    }
    EXPECT_EQ(fiber_event_set(&over), 0);
    join(waiter);
}

TEST(Accounting, ReachesACordThatSleeps) {
    Accounting::off();
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    std::atomic<uint64_t> waiter{0};
    auto waits = [&] {
        waiter = self().id;
        EXPECT_EQ(fiber_event_wait(&over), 0);
    };
    fiber_cord_t cord = start_cord(waits);
    await([&] { return waiter.load() != 0 && info({waiter}).state == FIBER_WAITING; });
    Accounting on;
    fiber_times_t seen{};
    await([&] { return fiber_times({waiter}, &seen, sizeof seen) != -EAGAIN; });
    await([&] { return cord_times(cord).elapsed_ns > some_ns && times({waiter}).wait_ns[FIBER_WAIT_LOCK] > some_ns; });
    fiber_cord_times_t there = cord_times(cord);
    EXPECT_EQ(there.run_ns, 0); // its only fiber has not run since
    EXPECT_EQ(fiber_event_set(&over), 0);
    join_cord(cord);
}

TEST(Accounting, ReachesABusyCordAtItsNextPoll) {
    NEEDS_THREADS();
    Accounting::off();
    std::atomic<bool> busy{false}, enough{false}, over{false};
    std::atomic<uint64_t> hog{0};
    auto keeps_the_thread = [&] {
        hog = self().id;
        for (busy = true; !enough;) {}
        while (!over) EXPECT_EQ(fiber_reschedule_if_due(), 0);
    };
    fiber_cord_t cord = start_cord(keeps_the_thread);
    await([&] { return busy.load(); });
    Accounting on;
    fiber_times_t seen{};
    fiber_cord_times_t of_cord{};
    EXPECT_EQ(fiber_times({hog}, &seen, sizeof seen), -EAGAIN);
    EXPECT_EQ(fiber_cord_times(cord, &of_cord, sizeof of_cord), -EAGAIN);
    enough = true;
    await([&] { return fiber_times({hog}, &seen, sizeof seen) == 0 && seen.run_ns > 0; });
    EXPECT_EQ(fiber_cord_times(cord, &of_cord, sizeof of_cord), 0);
    over = true;
    join_cord(cord);
}

// A program that repeats the call while it returns -EAGAIN comes to an end.
TEST(Accounting, ACordThatHasEndedHasNoTimes) {
    Accounting on;
    auto nothing = [] {};
    fiber_cord_t cord = start_cord(nothing);
    fiber_cord_times_t of_cord{};
    await([&] {
        int result = fiber_cord_times(cord, &of_cord, sizeof of_cord);
        EXPECT_TRUE(result == 0 || result == -EAGAIN || result == -ESRCH) << result;
        return result == -ESRCH;
    });
    join_cord(cord);
}

TEST(Accounting, ReachesCordsThatAreMadeLater) {
    Accounting on;
    std::atomic<uint64_t> fiber{0};
    auto burns = [&] {
        fiber = self().id;
        burn(some_ns);
        EXPECT_GE(times(self()).run_ns, some_ns / 2);
    };
    join_cord(start_cord(burns));
    in_thread([&] { // a thread that is not the library's: its cord begins with the first call
        EXPECT_EQ(times(self()).fibers, 1u);
        burn(some_ns);
        EXPECT_GE(times(self()).run_ns, some_ns / 2);
    });
}

namespace {

void *burns(void *) {
    burn(FIBER_USEC(100));
    return nullptr;
}

void *sleeps_and_burns(void *) {
    EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
    burn(FIBER_USEC(100));
    return nullptr;
}

int64_t child_burns(void *) {
    burn(FIBER_USEC(100));
    return 0;
}

} // namespace

TEST(Accounting, SumsByFunctionHaveTheFibersThatHaveEnded) {
    Accounting on;
    for (int i = 0; i < 10; i++) {
        fiber_t one{}, other{};
        EXPECT_EQ(expect_memory(fiber_spawn(&one, burns, nullptr)), 0);
        EXPECT_EQ(expect_memory(fiber_spawn(&other, sleeps_and_burns, nullptr)), 0);
        join(one);
        join(other);
    }
    fiber_times_t first = sum_of_function(address(burns));
    EXPECT_EQ(first.fibers, 10u);
    EXPECT_EQ(first.turns, 10u);
    EXPECT_GE(first.run_ns, 10 * FIBER_USEC(99));
    EXPECT_EQ(waited(first), 0);
    fiber_times_t second = sum_of_function(address(sleeps_and_burns));
    EXPECT_EQ(second.fibers, 10u);
    EXPECT_EQ(second.turns, 20u);
    expect_only(second, FIBER_WAIT_TIME, 10 * FIBER_USEC(99));

    fiber_t living{}; // and those that have not ended
    EXPECT_EQ(expect_memory(fiber_spawn(&living, sleeps_and_burns, nullptr)), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(sum_of_function(address(sleeps_and_burns)).fibers, 11u);
    join(living);
    auto elsewhere = [] {
        fiber_t one{};
        EXPECT_EQ(expect_memory(fiber_spawn(&one, burns, nullptr)), 0);
        join(one);
    };
    join_cord(start_cord(elsewhere));
    EXPECT_EQ(sum_of_function(address(burns)).fibers, 11u); // of a cord that has ended, too
}

TEST(Accounting, SumsByName) {
    Accounting on;
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(fiber_attr_set_name(attr, i % 2 ? "odd" : "even"), 0);
        fiber_t fiber{};
        EXPECT_EQ(expect_memory(fiber_spawn_attr(&fiber, attr, burns, nullptr)), 0);
        join(fiber);
    }
    auto renamed = [] { EXPECT_EQ(fiber_set_name(self(), "odd"), 0); };
    run(renamed);
    std::map<std::string, uint64_t> counts;
    for (const fiber_times_sum_t &sum : sums(FIBER_BY_NAME)) counts[sum.name] += sum.times.fibers;
    EXPECT_EQ(counts["odd"], 4u);
    EXPECT_EQ(counts["even"], 3u);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

TEST(Accounting, SumsByScope) {
    Accounting on;
    fiber_scope_t one{}, other{};
    EXPECT_EQ(expect_memory(fiber_scope_open(&one, FIBER_FOREVER, 0)), 0);
    EXPECT_EQ(expect_memory(fiber_scope_spawn(one, nullptr, child_burns, nullptr)), 0);
    EXPECT_EQ(expect_memory(fiber_scope_open(&other, FIBER_FOREVER, 0)), 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ(expect_memory(fiber_scope_spawn(other, nullptr, child_burns, nullptr)), 0);
    std::map<uint64_t, uint64_t> counts;
    for (int i = 0; i < 2; i++) {
        counts.clear();
        EXPECT_EQ(fiber_reschedule(), 0);
        for (const fiber_times_sum_t &sum : sums(FIBER_BY_SCOPE)) counts[sum.scope] += sum.times.fibers;
        EXPECT_EQ(counts[one.id], 1u);
        EXPECT_EQ(counts[other.id], 3u);
        EXPECT_GE(counts[0], 1u);
    }
    EXPECT_EQ(fiber_scope_close(other, nullptr), 0);
    EXPECT_EQ(fiber_scope_close(one, nullptr), 0);
}

// The tables have a fixed size, and no fiber is lost.
TEST(Accounting, ManyNamesAndScopesAreSummedUpTogether) {
    Accounting on;
    int count = often(2000, 700);
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    auto nothing = [](void *) -> void * { return nullptr; };
    auto child = [](void *) -> int64_t { return 0; };
    for (int i = 0; i < count; i++) {
        EXPECT_EQ(fiber_attr_set_name(attr, ("fiber " + std::to_string(i)).c_str()), 0);
        fiber_t fiber{};
        EXPECT_EQ(expect_memory(fiber_spawn_attr(&fiber, attr, nothing, nullptr)), 0);
        join(fiber);
        fiber_scope_t scope{};
        EXPECT_EQ(expect_memory(fiber_scope_open(&scope, FIBER_FOREVER, 0)), 0);
        EXPECT_EQ(expect_memory(fiber_scope_spawn(scope, nullptr, child, nullptr)), 0);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    }
    for (int by : {FIBER_BY_NAME, FIBER_BY_SCOPE}) {
        uint64_t fibers = 0, others = 0;
        for (const fiber_times_sum_t &sum : sums(by)) {
            fibers += sum.times.fibers;
            if (sum.others) others += sum.times.fibers;
        }
        EXPECT_GE(fibers, 2 * uint64_t(count));
        EXPECT_GE(others, 1u);
        EXPECT_LE(others, uint64_t(count));
    }
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

TEST(Accounting, TheLongestRunComesFirst) {
    Accounting on;
    auto longer = [] { burn(FIBER_MSEC(3)); };
    auto shorter = [] { burn(FIBER_USEC(10)); };
    run(shorter);
    run(longer);
    int64_t before = FIBER_FOREVER;
    for (const fiber_times_sum_t &sum : sums(FIBER_BY_FUNCTION)) {
        EXPECT_LE(sum.times.run_ns, before);
        before = sum.times.run_ns;
    }
    int visits = 0;
    auto stop = [](const fiber_times_sum_t *, void *count) {
        ++*static_cast<int *>(count);
        return -4711;
    };
    EXPECT_EQ(expect_memory(fiber_times_each(FIBER_BY_FUNCTION, stop, &visits)), -4711);
    EXPECT_EQ(visits, 1);
}

TEST(Accounting, CountsTheTasksOfAPool) {
    Accounting on;
    fiber_pool_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 2), 0);
    fiber_pool_t pool{};
    ASSERT_EQ(expect_memory(fiber_pool_create(&pool, attr)), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    int count = often(200, 40);
    for (int i = 0; i < count; i++) {
        EXPECT_EQ(expect_memory(fiber_pool_submit(pool, i % 4 ? burns : sleeps_and_burns, nullptr)), 0);
    }
    EXPECT_EQ(fiber_pool_close(pool), 0);
    EXPECT_EQ(sum_of_function(address(burns)).fibers, uint64_t(count) * 3 / 4);
    EXPECT_GE(sum_of_function(address(burns)).run_ns, count * FIBER_USEC(99) * 3 / 4);
    fiber_times_t sleeping = sum_of_function(address(sleeps_and_burns));
    EXPECT_EQ(sleeping.fibers, uint64_t(count) / 4);
    expect_only(sleeping, FIBER_WAIT_TIME, count * FIBER_USEC(99) / 4);
}

namespace {

int step_burns(void *turns, int64_t) {
    burn(FIBER_USEC(100));
    return --*static_cast<int *>(turns) ? FIBER_STEP_AGAIN : FIBER_STEP_END;
}

} // namespace

TEST(Accounting, CountsTheStepsOfHostedFibers) {
    Accounting on;
    int turns[2] = {5, 5};
    fiber_t hosted[2] = {};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(expect_memory(fiber_hosted_new(&hosted[i], nullptr, step_burns, &turns[i])), 0);
        EXPECT_EQ(fiber_wakeup(hosted[i]), 0);
    }
    join(hosted[0]);
    join(hosted[1]);
    fiber_times_t steps = sum_of_function(address(step_burns));
    EXPECT_EQ(steps.fibers, 2u);
    EXPECT_GE(steps.run_ns, 10 * FIBER_USEC(99));
    EXPECT_GE(steps.runnable_ns, 4 * FIBER_USEC(99)); // while the other one ran
    EXPECT_LE(steps.run_ns, cord_times().run_ns);
}

// A fiber without a step: it sleeps, is runnable, and is its host's, one after the other.
TEST(Accounting, CountsTheWaitsOfFibersThatAreHandedOut) {
    Accounting on;
    fiber_t hosted{};
    fiber_completion_t out{};
    fiber_op_t record{};
    fiber_op_t *op = &record;
    const int64_t begin = fiber_now();
    EXPECT_EQ(expect_memory(fiber_hosted_new(&hosted, nullptr, nullptr, nullptr)), 0);
    EXPECT_EQ(fiber_wakeup(hosted), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, &out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(3)), 0); // the host has the fiber meanwhile
    record.code = FIBER_OP_SLEEP;
    record.fiber = hosted;
    record.number = FIBER_MSEC(5);
    const int64_t gave = fiber_now();
    ASSERT_EQ(fiber_exchange(&op, 1, &out, 1, FIBER_FOREVER), 1);
    const int64_t again = fiber_now();
    fiber_times_t times{};
    ASSERT_EQ(fiber_times(hosted, &times, sizeof times), 0);
    // The timer starts before the fiber waits, and a busy machine may take the thread in between.
    EXPECT_GE(times.wait_ns[FIBER_WAIT_TIME], simulated() ? FIBER_MSEC(4) : 1);
    EXPECT_GE(times.wait_ns[FIBER_WAIT_TIME] + times.wait_ns[FIBER_WAIT_OTHER], FIBER_MSEC(7));
    EXPECT_LE(times.wait_ns[FIBER_WAIT_TIME], again - gave + FIBER_USEC(100));
    EXPECT_GE(times.wait_ns[FIBER_WAIT_OTHER], FIBER_MSEC(2));
    EXPECT_LE(times.wait_ns[FIBER_WAIT_OTHER] + times.wait_ns[FIBER_WAIT_TIME], fiber_now() - begin + FIBER_USEC(100));
    EXPECT_EQ(times.run_ns, 0);
    EXPECT_EQ(fiber_hosted_end(hosted, nullptr), 0);
    join(hosted);
}

TEST(Accounting, AFiberThatTransfersWaitsForAWakeup) {
    Accounting on;
    fiber_t me = self();
    auto transfers = [&] {
        void *value;
        burn(FIBER_USEC(100));
        EXPECT_EQ(fiber_transfer(me, nullptr, &value), 0);
        burn(FIBER_USEC(100));
    };
    fiber_t other = create(transfers);
    void *value;
    auto goes = [&] { return fiber_transfer(other, nullptr, &value); };
    EXPECT_EQ(goes(), 0);
    burn(FIBER_MSEC(1));
    EXPECT_GE(times(other).wait_ns[FIBER_WAIT_WAKEUP], FIBER_USEC(900));
    EXPECT_EQ(goes(), 1); // it has ended
    join(other);
}

// Its thread's clock and the time that the thread was runnable without a processor, as the kernel tells it, are the
// time in which the cord had the thread.
TEST(Accounting, AgreesWithTheKernelsClockOfTheThread) {
    NOT_ON_SIM("has its own time");
    NOT_UNDER_QEMU("has no such file");
    struct Usage {
        int64_t ns = -1;
        static Usage now() {
            Usage usage;
            std::ifstream file("/proc/thread-self/schedstat");
            int64_t ran, waited;
            if (file >> ran >> waited) {
                timespec cpu{};
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
                usage.ns = cpu.tv_sec * FIBER_SEC(1) + cpu.tv_nsec + waited;
            }
            return usage;
        }
    };
    if (Usage::now().ns <= 0) GTEST_SKIP() << "the kernel does not tell how long a thread waits for a processor";
    Accounting on;
    bool agrees = false;
    for (int i = 0; i < 50 && !agrees; i++) { // interrupts, and a machine below this one, take time as well
        fiber_cord_times_t begun = cord_times();
        Usage before = Usage::now();
        auto burns = [] { burn(FIBER_MSEC(5)); };
        fiber_t one = spawn(burns);
        fiber_t other = spawn(burns);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        join(one);
        join(other);
        Usage after = Usage::now();
        fiber_cord_times_t end = cord_times();
        int64_t by_kernel = after.ns - before.ns;
        int64_t by_us = end.run_ns + end.poll_ns - begun.run_ns - begun.poll_ns;
        agrees = by_us < by_kernel * 105 / 100 && by_us > by_kernel * 95 / 100;
    }
    EXPECT_TRUE(agrees);
}

TEST(Accounting, GoesOnInTheChildOfAFork) {
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    Accounting on;
    run([] { burn(FIBER_USEC(100)); });
    burn(some_ns);
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        fiber_times_t mine{};
        CHILD_CHECK(fiber_times(self(), &mine, sizeof mine) == 0);
        CHILD_CHECK(mine.fibers == 1 && waited(mine) == 0);
        int64_t begun = fiber_now();
        burn(some_ns);
        CHILD_CHECK(fiber_times(self(), &mine, sizeof mine) == 0);
        CHILD_CHECK(mine.run_ns >= some_ns * 9 / 10);
        CHILD_CHECK(!simulated() || mine.run_ns <= fiber_now() - begun + some_ns);
        std::vector<fiber_times_sum_t> all;
        CHILD_CHECK(fiber_times_each(FIBER_BY_FUNCTION, collect, &all) == 0);
        uint64_t fibers = 0;
        for (const fiber_times_sum_t &sum : all) fibers += sum.times.fibers;
        CHILD_CHECK(fibers == 1); // the times of the parent are not the child's
        CHILD_CHECK(fiber_accounting_stop() == 0);
        CHILD_CHECK(fiber_accounting_start() == 0);
        CHILD_CHECK(fiber_times(self(), &mine, sizeof mine) == 0);
        _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_GE(times(self()).run_ns, some_ns * 9 / 10);
}

// The thread that forks has no cord; the child's first cord begins later.
TEST(Accounting, BeginsAnewInTheChildOfAThreadWithoutACord) {
    NEEDS_THREADS();
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    Accounting on;
    run([] { burn(FIBER_USEC(100)); });
    in_thread([&] {
        fflush(nullptr);
        pid_t child = fork();
        if (child == 0) {
            std::vector<fiber_times_sum_t> all;
            CHILD_CHECK(fiber_times_each(FIBER_BY_FUNCTION, collect, &all) == 0);
            CHILD_CHECK(all.empty()); // the times of the parent are not the child's
            fiber_times_t mine{};
            CHILD_CHECK(fiber_times(self(), &mine, sizeof mine) == 0); // opens a cord
            CHILD_CHECK(mine.fibers == 1 && waited(mine) == 0);
            CHILD_CHECK(fiber_times_each(FIBER_BY_FUNCTION, collect, &all) == 0);
            CHILD_CHECK(all.size() == 1 && all[0].times.fibers == 1);
            _exit(0);
        }
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    });
}

namespace {

// The library refuses all use of fibers in the child of such a fork.
int step_forks(void *, int64_t) {
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        std::vector<fiber_times_sum_t> all;
        CHILD_CHECK(fiber_times_each(FIBER_BY_FUNCTION, collect, &all) == 0);
        CHILD_CHECK(all.empty()); // the times of the parent are not the child's
        _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return FIBER_STEP_END;
}

} // namespace

TEST(Accounting, HasNoTimesInTheChildOfAHostedFiber) {
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    Accounting on;
    run([] { burn(FIBER_USEC(100)); });
    fiber_t hosted{};
    EXPECT_EQ(expect_memory(fiber_hosted_new(&hosted, nullptr, step_forks, nullptr)), 0);
    EXPECT_EQ(fiber_wakeup(hosted), 0);
    join(hosted);
}

// Turned on and off by one thread, while other cords begin, run fibers and end, and are read by it.
TEST(Accounting, MayBeTurnedOnAndOffAtAnyTime) {
    std::atomic<bool> over{false};
    auto churns = [&] {
        fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
        auto locks = [&] {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        };
        while (!is_set(over)) {
            fiber_t some[3];
            for (fiber_t &fiber : some) fiber = spawn(locks);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(20)), 0);
            for (fiber_t fiber : some) join(fiber);
        }
    };
    auto short_lived = [&] {
        while (!is_set(over)) {
            auto nothing = [] { run([] {}); };
            join_cord(start_cord(nothing));
        }
    };
    fiber_cord_t cords[] = {start_cord(churns), start_cord(short_lived)};
    Accounting::off();
    for (int i = 0; i < often(size_of_test(60), 10); i++) {
        EXPECT_EQ(expect_memory(fiber_accounting_start()), 0);
        for (int k = 0; k < 5; k++) {
            auto read = [](fiber_t fiber, void *) {
                fiber_times_t out{};
                int result = fiber_times(fiber, &out, sizeof out);
                EXPECT_TRUE(result == 0 || result == -EAGAIN || result == -ESRCH) << result;
                EXPECT_GE(out.run_ns, 0);
                EXPECT_GE(out.runnable_ns, 0);
                EXPECT_LE(out.run_ns, FIBER_SEC(600));
                EXPECT_LE(waited(out), FIBER_SEC(600));
                return 0;
            };
            EXPECT_EQ(fiber_each(read, nullptr), 0);
            for (fiber_cord_t cord : cords) {
                fiber_cord_times_t out{};
                int result = fiber_cord_times(cord, &out, sizeof out);
                EXPECT_TRUE(result == 0 || result == -EAGAIN) << result;
                EXPECT_GE(out.run_ns, 0);
            }
            for (int by : {FIBER_BY_FUNCTION, FIBER_BY_NAME, FIBER_BY_SCOPE}) sums(by);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(30)), 0);
        }
        EXPECT_EQ(fiber_accounting_stop(), 0);
    }
    over = true;
    for (fiber_cord_t cord : cords) join_cord(cord);
}
