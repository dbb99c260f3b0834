// SPDX-License-Identifier: MIT OR Apache-2.0
// Cords: started, named, bound to processors, joined, shut down; how they and their threads end.
#include "conformance.h"
#include "cord_support.h"

#include <pthread.h>
#include <sys/resource.h>
#include <vector>

using namespace support;

namespace {

void *return_arg(void *arg) { return arg; }
void *return_null(void *) { return nullptr; }

TEST(Cord, RunsItsFunctionAndJoinReportsTheResult) {
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, return_arg, pointer(5)), 0);
    void *result = nullptr;
    expect_joined(fiber_cord_join(cord, &result));
    EXPECT_EQ(result, pointer(5));
    EXPECT_EQ(fiber_cord_join(cord, &result), -ESRCH);
}

TEST(Cord, BadArgumentsAreRefused) {
    fiber_cord_t cord{};
    EXPECT_EQ(fiber_cord_start(nullptr, nullptr, return_arg, nullptr), -EINVAL);
    EXPECT_EQ(fiber_cord_start(&cord, nullptr, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(cord.id, 0u);
    EXPECT_EQ(fiber_cord_self(nullptr), -EINVAL);
    EXPECT_EQ(fiber_cord_attr_create(nullptr), -EINVAL);
    EXPECT_EQ(fiber_cord_attr_destroy(nullptr), 0);
    EXPECT_EQ(fiber_cord_attr_set_name(nullptr, "x"), -EINVAL);
    const int cpu = 0;
    EXPECT_EQ(fiber_cord_attr_set_affinity(nullptr, &cpu, 1), -EINVAL);
    Worker worker;
    char name[16];
    EXPECT_EQ(fiber_cord_name(worker, nullptr, sizeof name), -EINVAL);
    EXPECT_EQ(fiber_cord_name(worker, name, 0), -EINVAL);
    EXPECT_EQ(fiber_cord_join_timeout(worker, nullptr, -1), -EINVAL);
    EXPECT_EQ(fiber_cord_shutdown(worker, -1, 0), -EINVAL);
    EXPECT_EQ(fiber_cord_shutdown(worker, 2, 1), -EINVAL);
    EXPECT_EQ(fiber_post(worker, nullptr, nullptr), -EINVAL);
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_cord(nullptr, worker), -EINVAL);
    EXPECT_EQ(fiber_attr_set_cord(attr, {0}), -EINVAL);
    EXPECT_EQ(fiber_attr_set_daemon(nullptr, 1), -EINVAL);
    fiber_attr_destroy(attr);
}

// The results of every call that takes a cord's handle.
void expect_refused(fiber_cord_t cord, int error) {
    char name[16];
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_cord_join(cord, nullptr), error);
    EXPECT_EQ(fiber_cord_join_timeout(cord, nullptr, 0), error);
    EXPECT_EQ(fiber_cord_name(cord, name, sizeof name), error);
    EXPECT_EQ(fiber_cord_shutdown(cord, 0, 0), error);
    EXPECT_EQ(fiber_post(cord, return_null, nullptr), error);
    EXPECT_EQ(fiber_attr_set_cord(attr, cord), error);
    fiber_attr_destroy(attr);
}

TEST(Cord, HandlesThatWereNeverGivenOutAreInvalid) {
    const fiber_cord_t mine = this_cord_handle();
    expect_refused({0}, -EINVAL);
    expect_refused({~uint64_t(0)}, -EINVAL);
    expect_refused({self().id}, -EINVAL);                          // a fiber's
    expect_refused({mine.id + 2}, -EINVAL);                        // a later use of the record
    expect_refused({mine.id | uint64_t(0xffffff) << 32}, -EINVAL); // a record beyond the last
    EXPECT_EQ(fiber_wakeup({mine.id}), -EINVAL);                   // and a cord's is no fiber's
}

TEST(Cord, AHandleIsStaleOnceTheCordIsJoinedAndStaysSoWhenTheRecordIsReused) {
    fiber_cord_t first{};
    ASSERT_EQ(fiber_cord_start(&first, nullptr, return_null, nullptr), 0);
    join_cord(first);
    expect_refused(first, -ESRCH);
    Worker next;
    EXPECT_NE(next.cord.id, first.id);
    expect_refused(first, -ESRCH);
}

TEST(Cord, AttributesOfACordThatHasEndedMakeNoFiber) {
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    {
        Worker worker;
        ASSERT_EQ(fiber_attr_set_cord(attr, worker), 0);
    }
    fiber_t fiber{};
    EXPECT_EQ(fiber_new(&fiber, attr, return_null, nullptr), -ESRCH);
    EXPECT_EQ(fiber.id, 0u);
    fiber_attr_destroy(attr);
}

std::string name_of(fiber_cord_t cord) {
    char name[64] = "untouched";
    const int length = fiber_cord_name(cord, name, sizeof name);
    EXPECT_EQ(length, int(strlen(name)));
    return name;
}

TEST(Cord, ItsNameIsCutAtFifteenBytesAndIsThatOfItsThread) {
    fiber_cord_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_cord_attr_create(&attr), 0);
    EXPECT_EQ(fiber_cord_attr_set_name(attr, nullptr), -EINVAL);
    ASSERT_EQ(fiber_cord_attr_set_name(attr, "0123456789abcdefg"), 0);
    std::string of_thread;
    fiber_cord_t own{};
    auto body = [&] {
        char name[16] = "";
        pthread_getname_np(pthread_self(), name, sizeof name);
        of_thread = name;
        own = this_cord_handle();
        fiber_yield();
    };
    const fiber_cord_t cord = start_cord(body, attr);
    fiber_cord_attr_destroy(attr);
    EXPECT_EQ(name_of(cord), "0123456789abcde");
    char small[4] = "xxx";
    EXPECT_EQ(fiber_cord_name(cord, small, sizeof small), 15);
    EXPECT_STREQ(small, "012");
    EXPECT_EQ(fiber_cord_shutdown(cord, 0, FIBER_FOREVER), 0);
    join_cord(cord);
    if (!simulated()) {
        EXPECT_EQ(of_thread, "0123456789abcde");
    } // there the cord has no own thread
    EXPECT_EQ(own.id, cord.id);
    EXPECT_EQ(name_of(this_cord_handle()), ""); // of one that was given none
}

TEST(Cord, AffinityHoldsItsThreadOnTheProcessorsNamed) {
    NOT_ON_SIM("ignores affinities: its cords have no threads");
    const std::vector<int> here = allowed_cpus();
    const int last = here.back();
    fiber_cord_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_cord_attr_create(&attr), 0);
    ASSERT_EQ(fiber_cord_attr_set_affinity(attr, &last, 1), 0);
    std::vector<int> there;
    auto body = [&] { there = allowed_cpus(); };
    join_cord(start_cord(body, attr));
    EXPECT_EQ(there, std::vector<int>{last});
    ASSERT_EQ(fiber_cord_attr_set_affinity(attr, nullptr, 0), 0); // taken back
    join_cord(start_cord(body, attr));
    EXPECT_EQ(there, here);
    fiber_cord_attr_destroy(attr);
}

TEST(Cord, ProcessorsThatCannotBeAreRefused) {
    NOT_ON_SIM("ignores affinities: its cords have no threads");
    fiber_cord_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_cord_attr_create(&attr), 0);
    for (int cpu : {-1, 1024, INT32_MAX, INT32_MIN}) EXPECT_EQ(fiber_cord_attr_set_affinity(attr, &cpu, 1), -EINVAL);
    EXPECT_EQ(fiber_cord_attr_set_affinity(attr, nullptr, 1), -EINVAL);
    fiber_cord_t cord{};
    EXPECT_EQ(fiber_cord_start(&cord, attr, return_arg, nullptr), 0); // a refused setting is none
    join_cord(cord);
    const int absent = 1023; // a number that is allowed, of a processor that hardly a machine has
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(absent, &set);
    ASSERT_EQ(fiber_cord_attr_set_affinity(attr, &absent, 1), 0);
    const int threads = entry_count("/proc/self/task");
    EXPECT_EQ(fiber_cord_start(&cord, attr, return_arg, nullptr), -EINVAL);
    EXPECT_TRUE(await([&] { return entry_count("/proc/self/task") <= threads; })); // a thread may just be going
    fiber_cord_attr_destroy(attr);
}

// --- Join ------------------------------------------------------------------------------------------------------------

TEST(CordJoin, OfOneselfIsADeadLock) {
    int result = 0;
    auto body = [&] { result = fiber_cord_join(this_cord_handle(), nullptr); };
    join_cord(start_cord(body));
    EXPECT_EQ(result, -EDEADLK);
}

TEST(CordJoin, OfAThreadThatWasNotMadeByTheLibraryIsInvalid) {
    NEEDS_THREADS();
    EXPECT_EQ(fiber_cord_join(this_cord_handle(), nullptr), -EINVAL);
    std::atomic<uint64_t> implicit{0};
    std::atomic<bool> release{false};
    std::thread thread([&] {
        implicit = this_cord_handle().id;
        await([&] { return release.load(); });
    });
    ASSERT_TRUE(await([&] { return implicit != 0; }));
    EXPECT_EQ(fiber_cord_join({implicit}, nullptr), -EINVAL);
    EXPECT_EQ(fiber_cord_join_timeout({implicit}, nullptr, 0), -EINVAL);
    release = true;
    thread.join();
    EXPECT_EQ(fiber_cord_join({implicit}, nullptr), -ESRCH);
}

TEST(CordJoin, TimesOutAndCanBeRepeated) {
    Worker worker;
    EXPECT_EQ(fiber_cord_join_timeout(worker, nullptr, 0), -ETIMEDOUT);
    const int64_t begun = fiber_now();
    EXPECT_EQ(fiber_cord_join_timeout(worker, nullptr, FIBER_MSEC(5)), -ETIMEDOUT);
    EXPECT_GE(fiber_now() - begun, FIBER_MSEC(5));
    int verdict = 0;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &verdict) EXPECT_EQ(fiber_cord_join(worker, nullptr), -ETIMEDOUT);
    EXPECT_EQ(verdict, -ETIMEDOUT);
}

// Linux 6.16 and newer lose a ring's wait on a private futex that began when the process had one thread. (So this fails
// only as the first scenario of a process.)
TEST(CordJoin, TRAP_WakesAMainFlowThatSleptInItsBackendBeforeThereWasAnotherThread) {
    NEEDS_IO();
    Pipe pipe;
    char byte = 0;
    auto reading = [&] { EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1); };
    fiber_t reader = start(reading);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
    auto body = [] { EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0); };
    fiber_cord_t cord = start_cord(body);
    const int64_t begun = fiber_now();
    expect_joined(fiber_cord_join_timeout(cord, nullptr, FIBER_SEC(10)));
    EXPECT_LT(fiber_now() - begun, FIBER_SEC(9)); // woken, not found at the timeout
    EXPECT_EQ(write(pipe.write_end, "x", 1), 1);
    join(reader);
}

TEST(CordJoin, MayComeAfterTheEnd) {
    std::atomic<bool> ends{false};
    auto body = [&] {
        ends = true;
        return pointer(7);
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return ends.load(); });
    fiber_sleep(FIBER_MSEC(5));
    EXPECT_EQ(join_cord(cord), pointer(7));
}

TEST(CordJoin, AllJoinersAtTheEndGetTheResult) {
    constexpr int joiners = 12;
    Worker elsewhere[2];
    std::atomic<bool> release{false};
    std::atomic<int> waiting{0}, right{0};
    auto body = [&] {
        await([&] { return release.load(); });
        return pointer(9);
    };
    const fiber_cord_t cord = start_cord(body);
    auto joiner = [&] {
        waiting++;
        right += join_cord(cord) == pointer(9);
    };
    fiber_t fibers[joiners];
    for (int i = 0; i < joiners; i++) fibers[i] = i % 3 == 2 ? spawn(joiner) : spawn_on(elsewhere[i % 3], joiner);
    await([&] {
        int parked = 0;
        for (fiber_t fiber : fibers) parked += fiber_state(fiber) == FIBER_WAITING;
        return waiting == joiners && parked == joiners;
    });
    release = true;
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(right, joiners);
    EXPECT_EQ(fiber_cord_join(cord, nullptr), -ESRCH);
}

TEST(CordJoin, TheJoinersOwnCancelLeavesTheCordJoinable) {
    Worker worker;
    int result = 0;
    auto body = [&] { result = fiber_cord_join(worker, nullptr); };
    const fiber_t joiner = start(body);
    EXPECT_EQ(fiber_cancel(joiner, nullptr), 0);
    join(joiner);
    EXPECT_EQ(result, -ECANCELED);
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    join(interrupted);
    EXPECT_EQ(result, -EINTR);
    EXPECT_EQ(fiber_cord_join_timeout(worker, nullptr, 0), -ETIMEDOUT); // Worker's end joins it
}

// --- When a cord ends ------------------------------------------------------------------------------------------------

TEST(CordEnd, WaitsForAllItsFibers) {
    std::atomic<bool> release{false};
    std::atomic<int> ended{0};
    auto fiber = [&] {
        await([&] { return release.load(); });
        ended++;
    };
    auto last = [&] { ended++; };
    auto spawner = [&] {
        await([&] { return release.load(); });
        for (int i = 0; i < 100; i++) fiber_reschedule();
        fiber_spawn(nullptr, entry<decltype(last)>, &last); // when the main flow has long returned
        ended++;
    };
    auto body = [&] {
        for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(fiber)>, &fiber), 0);
        EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(spawner)>, &spawner), 0);
    };
    const fiber_cord_t cord = start_cord(body);
    EXPECT_EQ(fiber_cord_join_timeout(cord, nullptr, FIBER_MSEC(5)), -ETIMEDOUT);
    release = true;
    join_cord(cord);
    EXPECT_EQ(ended, 12);
}

TEST(CordEnd, DoesNotWaitForDaemons) {
    std::atomic<bool> began{false}, went_on{false};
    auto daemon = [&] {
        began = true;
        fiber_sleep(FIBER_FOREVER);
        went_on = true;
    };
    auto body = [&] {
        fiber_t fiber = create(daemon, On(this_cord_handle()).daemon());
        EXPECT_EQ(fiber_start(fiber), 0);
    };
    join_cord(start_cord(body));
    EXPECT_TRUE(began);
    EXPECT_FALSE(went_on);
}

TEST(CordEnd, DaemonsThatWaitForOthersAreDropped) {
    Worker other;
    auto sleeper = [] { fiber_sleep(FIBER_FOREVER); };
    const fiber_t target = spawn_on(other, sleeper);
    auto joins = [&] {
        const int result = fiber_join(target, nullptr);
        ADD_FAILURE() << "ran again: " << result;
    };
    auto joins_cord = [&] {
        const int result = fiber_cord_join(other, nullptr);
        ADD_FAILURE() << "ran again: " << result;
    };
    auto body = [&] {
        On here(this_cord_handle());
        here.daemon();
        EXPECT_EQ(fiber_start(create(joins, here)), 0);
        EXPECT_EQ(fiber_start(create(joins_cord, here)), 0);
        fiber_sleep(FIBER_MSEC(1)); // their requests leave
    };
    join_cord(start_cord(body));
    EXPECT_EQ(fiber_cancel(target, nullptr), 0);
    join(target); // it does not stumble over a joiner that is gone
}

// A completed join stays completed, though the caller does not live to see it.
TEST(CordEnd, ADaemonThatIsDroppedAfterItsJoinCompletedHasTakenTheResult) {
    NEEDS_THREADS();
    Worker other;
    auto yields = [] { fiber_yield(); };
    const fiber_t target = spawn_on(other, yields);
    await([&] { return fiber_state(target) == FIBER_WAITING; });
    std::atomic<int> phase{0};
    auto joins = [&] {
        const int result = fiber_join(target, nullptr);
        ADD_FAILURE() << "ran again: " << result;
    };
    auto body = [&] {
        EXPECT_EQ(fiber_start(create(joins, On(this_cord_handle()).daemon())), 0);
        phase = 1;
        await_holding_the_thread([&] { return phase == 2; }); // the answer comes, and is not looked at
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return phase == 1; });
    EXPECT_EQ(fiber_wakeup(target), 0);
    await([&] { return fiber_state(target) == -ESRCH; });
    phase = 2;
    join_cord(cord);
    EXPECT_EQ(fiber_join(target, nullptr), -ESRCH);
}

TEST(CordEnd, DaemonsThatWaitForIoAreDropped) {
    NEEDS_IO();
    Pipe pipe;
    char byte = 0;
    auto reads = [&] {
        fiber_read(pipe.read_end, &byte, 1);
        ADD_FAILURE() << "ran again";
    };
    auto body = [&] {
        EXPECT_EQ(fiber_start(create(reads, On(this_cord_handle()).daemon())), 0);
        fiber_sleep(FIBER_MSEC(1)); // its request leaves
    };
    join_cord(start_cord(body));
}

TEST(CordEnd, AFiberThatNeverStartedKeepsItUntilItIsCancelled) {
    fiber_t idle{};
    std::atomic<bool> made{false};
    auto never_runs = [] { ADD_FAILURE() << "ran"; };
    auto body = [&] {
        idle = create(never_runs);
        made = true;
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return made.load(); });
    EXPECT_EQ(fiber_cord_join_timeout(cord, nullptr, FIBER_MSEC(5)), -ETIMEDOUT);
    EXPECT_EQ(fiber_cancel(idle, nullptr), 0);
    join_cord(cord);
    EXPECT_EQ(fiber_state(idle), -ESRCH);
}

// They may take long, and may even wait for the fiber that asks.
TEST(CordEnd, TRAP_ARequestToItDoesNotWaitForItsDestructors) {
    NEEDS_THREADS();
    static std::atomic<int> phase{0};
    phase = 0;
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key,
                               [](void *) {
                                   phase = 1;
                                   await_holding_the_thread([] { return phase == 2; });
                               }),
              0);
    std::atomic<uint64_t> main{0};
    auto body = [&] {
        main = self().id;
        EXPECT_EQ(fiber_key_set(key, &main), 0);
    };
    const fiber_cord_t cord = start_cord(body);
    await([] { return phase == 1; });
    const fiber_t ending{main};
    EXPECT_EQ(fiber_wakeup(ending), -ESRCH);
    EXPECT_EQ(fiber_cancel(ending, nullptr), -ESRCH);
    const int joined = fiber_join_timeout(ending, nullptr, FIBER_SEC(30));
    EXPECT_TRUE(joined == -EOWNERDEAD || joined == -ESRCH || joined == -EINVAL) << joined;
    phase = 2;
    join_cord(cord);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(CordEnd, ItsHandlesAreStaleAfterwards) {
    fiber_t main{}, dead{};
    auto body = [&] {
        main = self();
        auto nothing = [] {};
        dead = start(nothing); // ended, and never joined
    };
    join_cord(start_cord(body));
    EXPECT_EQ(fiber_state(main), -ESRCH);
    EXPECT_EQ(fiber_join(dead, nullptr), -ESRCH);
    EXPECT_EQ(fiber_wakeup(main), -ESRCH);
}

TEST(CordEnd, ComesAlsoWhenItsFunctionLeavesByPthreadExit) {
    NOT_ON_SIM("has one thread, which pthread_exit would end");
    fiber_t left_behind{};
    auto fiber = [] { fiber_sleep(FIBER_FOREVER); };
    auto body = [&]() -> void * {
        left_behind = start(fiber);
        pthread_exit(pointer(1));
    };
    const fiber_cord_t cord = start_cord(body);
    expect_joined(fiber_cord_join_timeout(cord, nullptr, FIBER_SEC(60)));
    EXPECT_EQ(fiber_state(left_behind), -ESRCH);
}

TEST(CordEnd, OfAThreadWithLiveFibersFreesThemAndWakesTheirJoiners) {
    NEEDS_THREADS();
    fiber_t sleeper{}, fresh{}, reader{};
    std::atomic<bool> made{false}, release{false};
    std::thread thread([&] {
        Pipe pipe;
        char byte = 0;
        auto sleeps = [] { fiber_sleep(FIBER_FOREVER); };
        auto reads = [&] { fiber_read(pipe.read_end, &byte, 1); };
        sleeper = start(sleeps);
        fresh = create(sleeps);
        reader = start(reads);
        fiber_sleep(0);
        made = true;
        await([&] { return release.load(); });
        // The thread's cord ends after this frame is gone; a read would then write into memory that is no longer there.
        EXPECT_EQ(fiber_cancel(reader, nullptr), 0);
        join(reader);
    });
    await([&] { return made.load(); });
    int results[2] = {1, 1};
    auto joins = [&] { results[0] = fiber_join(sleeper, nullptr); };
    auto joins_fresh = [&] { results[1] = fiber_join(fresh, nullptr); };
    Worker worker;
    const fiber_t here = start(joins), there = spawn_on(worker, joins_fresh);
    await([&] { return fiber_state(there) == FIBER_WAITING; });
    fiber_sleep(FIBER_MSEC(2));
    release = true;
    join(here);
    join(there);
    thread.join();
    EXPECT_EQ(results[0], -EOWNERDEAD);
    EXPECT_EQ(results[1], -EOWNERDEAD);
    for (fiber_t gone : {sleeper, fresh, reader}) EXPECT_EQ(fiber_state(gone), -ESRCH);
}

TEST(CordEnd, OfTheJoinersThreadWithdrawsItFromTheTarget) {
    NEEDS_THREADS();
    Worker worker;
    for (int i = 0; i < 50; i++) {
        std::atomic<bool> release{false};
        auto body = [&] {
            while (!release) fiber_reschedule();
            return pointer(3);
        };
        const fiber_t target = spawn_on(worker, body);
        std::thread thread([&] {
            auto joins = [&] { return pointer(fiber_join(target, nullptr)); };
            fiber_t joiner = start(joins);
            EXPECT_EQ(fiber_detach(joiner), 0);
            if (i % 2) fiber_sleep(FIBER_USEC(i * 10)); // at different stages of the request
            if (i % 4 == 3) release = true;             // also while the answer is on its way
        });
        thread.join();
        release = true;
        void *result = nullptr;
        const int error = fiber_join(target, &result);
        EXPECT_TRUE(error == -ESRCH || (error == 0 && result == pointer(3))) << error;
    }
}

TEST(CordEnd, ExitInOneCordEndsTheProcessWhileOthersRun) {
    NOT_ON_SIM("has one process");
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto exits = [] {
        static auto busy = [] {
            for (;;) fiber_reschedule();
        };
        static auto idle = [] { fiber_sleep(FIBER_FOREVER); };
        start_cord(busy);
        start_cord(idle);
        Worker worker;
        spawn(idle);
        exit(7);
    };
    EXPECT_EXIT(exits(), testing::ExitedWithCode(7), "");
}

void make_a_thousand_cords(bool with_io) {
    constexpr int at_once = 20;
    const int rounds = often(50, 1);
    auto nothing = [] {};
    auto body = [&] {
        Pipe pipe;
        char byte = 0;
        EXPECT_EQ(fiber_write(pipe.write_end, &byte, 1), 1); // which opens a ring
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        run(nothing);
    };
    auto plain = [&] { run(nothing); };
    auto round = [&] {
        fiber_cord_t cords[at_once];
        for (int i = 0; i < at_once; i++) cords[i] = with_io && i % 10 == 0 ? start_cord(body) : start_cord(plain);
        for (fiber_cord_t cord : cords) join_cord(cord);
    };
    round();
    round();
    const int threads = entry_count("/proc/self/task"), descriptors = entry_count("/proc/self/fd");
    const int mappings = mapping_count();
    const long resident = resident_kib();
    for (int i = 0; i < rounds; i++) round();
    await([&] { return entry_count("/proc/self/task") <= threads; }); // the kernel's own end of a thread
    EXPECT_EQ(entry_count("/proc/self/fd"), descriptors);
    EXPECT_LE(mapping_count(), mappings + mapping_slack + 2 * at_once); // the C library keeps stacks of threads
    if (under_qemu()) {
        std::printf("resident memory is not looked at: qemu keeps hundreds of KiB for every thread that has ended\n");
    } else {
        EXPECT_LE(resident_kib(), resident + resident_slack_kib);
    }
}

TEST(CordEnd, AThousandCordsLeaveNothing) { make_a_thousand_cords(false); }

TEST(CordEnd, AThousandCordsAHundredWithIoLeaveNothing) {
    NEEDS_IO();
    make_a_thousand_cords(true);
}

// --- Posts -----------------------------------------------------------------------------------------------------------

TEST(Post, RunsInTheOrderInWhichEachProducerPosted) {
    constexpr int producers = 4;
    const int each = often(500, 10);
    struct Item {
        int producer, number;
    };
    static std::vector<Item> seen;
    seen.clear();
    static std::vector<std::vector<Item>> items;
    items.assign(producers, std::vector<Item>(each));
    Worker worker;
    auto post = [&](int producer) {
        for (int i = 0; i < each; i++) {
            items[producer][i] = {producer, i};
            auto append = [](void *item) -> void * {
                seen.push_back(*static_cast<Item *>(item));
                return nullptr;
            };
            ASSERT_EQ(fiber_post(worker, append, &items[producer][i]), 0);
        }
    };
    std::vector<Thread> threads;
    for (int p = 0; p < producers; p++) threads.emplace_back([&, p] { post(p); }); // plain threads, without cords
    for (Thread &thread : threads) thread.join();
    run_on(worker, [] {}); // after all of them
    ASSERT_EQ(seen.size(), size_t(producers * each));
    int next[producers] = {};
    for (Item item : seen) EXPECT_EQ(item.number, next[item.producer]++);
}

TEST(Post, ToOnesOwnCordRunsAtItsTurn) {
    Trace log;
    auto first = [&] { log += 'a'; };
    auto second = [&] { log += 'b'; };
    EXPECT_EQ(fiber_post(this_cord_handle(), entry<decltype(first)>, &first), 0);
    EXPECT_EQ(fiber_post(this_cord_handle(), entry<decltype(second)>, &second), 0);
    EXPECT_EQ(log, "");
    fiber_reschedule();
    EXPECT_EQ(log, "ab");
}

TEST(Post, RunsOnItsCord) {
    Worker worker;
    std::atomic<uint64_t> ran_on{0};
    auto body = [&] { ran_on = this_cord_handle().id; };
    EXPECT_EQ(fiber_post(worker, entry<decltype(body)>, &body), 0);
    await([&] { return ran_on != 0; });
    EXPECT_EQ(ran_on, worker.cord.id);
}

// A function posted while a cord ends was refused, or it runs.
TEST(Post, TRAP_ToAnEndingCordRunsOrIsRefused) {
    static std::atomic<int> ran;
    for (int round = 0; round < often(200, 5); round++) {
        ran = 0;
        std::atomic<bool> begun{false};
        auto body = [&] { begun = true; };
        fiber_cord_t cord = start_cord(body);
        int accepted = 0, error = 0;
        await_holding_the_thread([&] { return begun.load(); });
        auto count = [](void *) -> void * {
            ran++;
            return nullptr;
        };
        // Not for ever: a cord that is given ever more to do does not end.
        while (accepted < often(200, 20) && (error = fiber_post(cord, count, nullptr)) == 0) accepted++;
        EXPECT_TRUE(error == 0 || error == -ESRCH) << error;
        join_cord(cord);
        EXPECT_EQ(ran, accepted);
    }
}

// A cord's record serves the next cord: a function posted to the old cord must not run on the new one.
TEST(Post, TRAP_NeverRunsOnTheCordThatHasTheRecordNext) {
    static std::atomic<int> astray;
    astray = 0;
    std::atomic<uint64_t> newest{0};
    std::atomic<bool> stop{false};
    auto check = [](void *meant) -> void * {
        if (this_cord_handle().id != reinterpret_cast<uintptr_t>(meant)) astray++;
        return nullptr;
    };
    auto produce = [&] {
        while (!is_set(stop)) {
            const uint64_t id = newest;
            if (!id) continue;
            fiber_post({id}, check, reinterpret_cast<void *>(id));
            fiber_cord_shutdown({id}, 0, 0); // as well; opens the thread's cord
        }
    };
    Thread producers[2] = {Thread(produce), Thread(produce)};
    auto body = [] { fiber_yield_timeout(FIBER_USEC(50)); };
    for (int i = 0; i < often(200, 5); i++) {
        const fiber_cord_t cord = start_cord(body);
        newest = cord.id;
        join_cord(cord);
    }
    stop = true;
    for (Thread &thread : producers) thread.join();
    EXPECT_EQ(astray, 0);
}

// --- Shutdown --------------------------------------------------------------------------------------------------------

TEST(Shutdown, WithEnoughTimeCancelsNoFiber) {
    std::atomic<int> cancelled{0}, ended{0};
    auto fiber = [&] {
        for (int i = 0; i < 5; i++) fiber_sleep(FIBER_USEC(200));
        cancelled += fiber_cancelled(nullptr);
        ended++;
    };
    std::atomic<bool> begun{false};
    auto body = [&] {
        for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(fiber)>, &fiber), 0);
        begun = true;
        fiber_sleep(FIBER_MSEC(2));
        cancelled += fiber_cancelled(nullptr);
    };
    const fiber_cord_t cord = start_cord(body);
    await_holding_the_thread([&] { return begun.load(); });
    const int left = fiber_cord_shutdown(cord, FIBER_FOREVER, FIBER_FOREVER);
    EXPECT_TRUE(left == 0 || left == -ESRCH) << left;
    join_cord(cord);
    EXPECT_EQ(ended, 10);
    EXPECT_EQ(cancelled, 0);
}

TEST(Shutdown, CancelsTheRemainingFibersAfterTheGrace) {
    std::atomic<int> cancelled{0}, begun{0};
    auto fiber = [&] {
        begun++;
        cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED;
    };
    auto body = [&] {
        for (int i = 0; i < 5; i++) EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(fiber)>, &fiber), 0);
        EXPECT_EQ(fiber_start(create(fiber, On(this_cord_handle()).daemon().detached())), 0);
        cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED;
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return begun == 6; });
    const int64_t at = fiber_now();
    EXPECT_EQ(fiber_cord_shutdown(cord, FIBER_MSEC(2), FIBER_FOREVER), 0);
    EXPECT_GE(fiber_now() - at, FIBER_MSEC(2));
    join_cord(cord);
    EXPECT_EQ(cancelled, 7);
}

// The main flow has returned long before.
TEST(Shutdown, WaitsForDaemonsThatTakeTheirTime) {
    for (const int64_t longest : {FIBER_FOREVER, int64_t{0}}) {
        std::atomic<int> begun{0}, ended{0};
        auto daemon = [&] {
            begun++;
            EXPECT_EQ(fiber_sleep(FIBER_FOREVER), -ECANCELED);
            fiber_scope_t scope{};
            EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
            for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_reschedule(), 0);
            if (longest == 0) fiber_sleep(FIBER_FOREVER); // it is lost with its thread
            EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
            ended++;
        };
        auto body = [&] {
            EXPECT_EQ(fiber_start(create(daemon, On(this_cord_handle()).daemon().detached())), 0);
            fiber_sleep(FIBER_FOREVER);
        };
        const fiber_cord_t cord = start_cord(body);
        await([&] { return begun == 1; });
        const int left = fiber_cord_shutdown(cord, 0, longest);
        EXPECT_LE(left, longest ? 0 : 1); // 0 also if the cord ended before it could count the fibers left
        EXPECT_GE(left, 0);
        join_cord(cord);
        EXPECT_EQ(ended, longest ? 1 : 0);
    }
}

// The main flow and the last of the others end during the grace.
TEST(Shutdown, CancelsDaemonsAlsoIfAllOthersEndWithinTheGrace) {
    std::atomic<int> begun{0}, cancelled{0};
    auto daemon = [&] {
        begun++;
        cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED;
    };
    auto until_it_is_shut_down = [] { // then it takes no new fibers
        auto nothing = [](void *) -> void * { return nullptr; };
        while (fiber_spawn(nullptr, nothing, nullptr) == 0) fiber_sleep(FIBER_USEC(100));
    };
    auto other = [&] {
        begun++;
        until_it_is_shut_down();
    };
    for (const bool main_flow_last : {false, true}) {
        begun = cancelled = 0;
        auto body = [&] {
            EXPECT_EQ(fiber_start(create(daemon, On(this_cord_handle()).daemon().detached())), 0);
            EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(other)>, &other), 0);
            if (main_flow_last) until_it_is_shut_down();
        };
        const fiber_cord_t cord = start_cord(body);
        await([&] { return begun == 2; });
        EXPECT_EQ(fiber_cord_shutdown(cord, FIBER_SEC(60), FIBER_FOREVER), 0);
        join_cord(cord);
        EXPECT_EQ(cancelled, 1);
    }
}

TEST(Shutdown, CountsTheSurvivors) {
    Worker worker; // whose main flow does not mind a cancel: one survivor
    std::atomic<bool> release{false};
    std::atomic<int> begun{0};
    struct Stay {
        std::atomic<bool> &release;
        std::atomic<int> &begun;
        void operator()() const {
            fiber_scope_t shield{};
            fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD);
            begun++;
            await([&] { return release.load(); });
            fiber_scope_close(shield, nullptr);
        }
    } stay{release, begun};
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 3; i++) fibers.push_back(spawn_on(worker, stay));
    await([&] { return begun == 3; });
    EXPECT_EQ(fiber_cord_shutdown(worker, 0, FIBER_MSEC(2)), 4);
    fiber_t refused{};
    EXPECT_EQ(fiber_new(&refused, On(worker), return_null, nullptr), -EPIPE);
    EXPECT_EQ(fiber_post(worker, return_null, nullptr), -EPIPE);
    release = true;
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(fiber_cord_shutdown(worker, 0, FIBER_MSEC(2)), 1);
}

TEST(Shutdown, FromAFiberOfTheCordLeavesTheCallerAlone) {
    std::atomic<int> cancelled{0};
    int left = -1, refused = 0, self_cancelled = -1;
    auto sleeper = [&] { cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED; };
    auto closer = [&] {
        left = fiber_cord_shutdown(this_cord_handle(), 0, FIBER_FOREVER);
        refused = fiber_spawn(nullptr, return_null, nullptr);
        self_cancelled = fiber_cancelled(nullptr);
    };
    auto body = [&] {
        start(sleeper);
        start(closer);
        cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED;
    };
    join_cord(start_cord(body));
    EXPECT_EQ(left, 0);
    EXPECT_EQ(refused, -EPIPE);
    EXPECT_EQ(self_cancelled, 0);
    EXPECT_EQ(cancelled, 2);
}

TEST(Shutdown, FromTheMainFlowOfAPlainThread) {
    NEEDS_THREADS();
    in_thread([] {
        std::atomic<int> cancelled{0};
        auto sleeper = [&] { cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED; };
        const fiber_t fiber = start(sleeper);
        EXPECT_EQ(fiber_cord_shutdown(this_cord_handle(), 0, FIBER_FOREVER), 0);
        EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
        EXPECT_EQ(cancelled, 1);
        EXPECT_EQ(fiber_spawn(nullptr, return_null, nullptr), -EPIPE);
        EXPECT_EQ(fiber_sleep(1), 0); // it goes on as before
        join(fiber);
    });
}

TEST(Shutdown, AskedForBySeveralAtOnceAnswersAll) {
    std::atomic<int> begun{0}, cancelled{0};
    auto body = [&] {
        begun++;
        cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED;
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return begun == 1; });
    Worker other;
    std::atomic<int> answered{0};
    auto shuts = [&] {
        const int left = fiber_cord_shutdown(cord, FIBER_MSEC(1), FIBER_FOREVER);
        EXPECT_TRUE(left == 0 || left == -ESRCH) << left;
        answered++;
    };
    const fiber_t fibers[] = {spawn(shuts), spawn(shuts), spawn_on(other, shuts), spawn_on(other, shuts)};
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(answered, 4);
    join_cord(cord);
    EXPECT_EQ(cancelled, 1);
}

TEST(Shutdown, GoesOnWhenItsCallerIsCancelled) {
    std::atomic<int> begun{0}, cancelled{0};
    auto body = [&] {
        begun++;
        cancelled += fiber_sleep(FIBER_FOREVER) == -ECANCELED;
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return begun == 1; });
    int result = 0;
    auto shuts = [&] { result = fiber_cord_shutdown(cord, FIBER_MSEC(200), FIBER_FOREVER); };
    const fiber_t caller = start(shuts);
    EXPECT_EQ(fiber_cancel(caller, nullptr), 0);
    join(caller);
    EXPECT_EQ(result, -ECANCELED);
    join_cord(cord);
    EXPECT_EQ(cancelled, 1);
}

TEST(Shutdown, CancelsFibersThatAreOnTheirWay) {
    static std::atomic<int> ran;
    ran = 0;
    std::atomic<int> phase{0};
    fiber_t fresh{};
    auto body = [&] {
        phase = 1;
        await_holding_the_thread([&] { return phase == 2; });
        EXPECT_EQ(fiber_cord_shutdown(this_cord_handle(), 0, FIBER_FOREVER), 0);
    };
    auto count = [](void *) -> void * {
        ran++;
        return nullptr;
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return phase == 1; });
    EXPECT_EQ(fiber_post(cord, count, nullptr), 0);
    EXPECT_EQ(fiber_new(&fresh, On(cord), count, nullptr), 0);
    int error = 1;
    void *result = nullptr;
    auto joins = [&] { error = fiber_join(fresh, &result); };
    const fiber_t joiner = start(joins); // its request is on its way too
    phase = 2;
    join(joiner);
    EXPECT_TRUE(error == -EOWNERDEAD || (error == 0 && result == FIBER_CANCELLED)) << error;
    join_cord(cord);
    EXPECT_EQ(ran, 0);
}

// A fiber that arrives while others are cancelled is counted though it never ran. It must not be mistaken for one of
// the cord's fibers.
TEST(Shutdown, TRAP_RacingPostsKeepTheCountsRight) {
    const int rounds = FIBERRT_TEST_TSAN ? 10 : 60; // there each fiber takes half a millisecond
    for (int round = 0; round < often(rounds, 3); round++) {
        std::atomic<int> begun{0};
        std::atomic<bool> stop{false};
        auto fiber = [&] { fiber_sleep(FIBER_FOREVER); };
        auto body = [&] {
            for (int i = 0; i < 20; i++) EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(fiber)>, &fiber), 0);
            begun++;
            fiber_sleep(FIBER_FOREVER);
        };
        const fiber_cord_t cord = start_cord(body);
        await([&] { return begun == 1; });
        auto produce = [&] {
            for (int posts = 0; posts < often(500, 20) && !stop;
                 posts++) // not for ever: it would have no time for its own end
                if (fiber_post(cord, return_null, nullptr) != 0) break;
        };
        Thread producers[2] = {Thread(produce), Thread(produce)};
        EXPECT_EQ(fiber_cord_shutdown(cord, 0, FIBER_FOREVER), 0);
        join_cord(cord);
        stop = true;
        for (Thread &thread : producers) thread.join();
    }
}

// --- Idle ------------------------------------------------------------------------------------------------------------

int64_t thread_cpu_ns() {
    rusage usage;
    EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * FIBER_SEC(1) +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * FIBER_USEC(1);
}

int64_t used_by_a_cord_that_waits(bool with_ring) {
    int64_t used = 0;
    auto body = [&] {
        Pipe pipe;
        char byte = 0;
        if (with_ring) {
            EXPECT_EQ(fiber_write(pipe.write_end, &byte, 1), 1);
        }
        const int64_t before = thread_cpu_ns();
        fiber_yield_timeout(FIBER_MSEC(300));
        used = thread_cpu_ns() - before;
    };
    join_cord(start_cord(body));
    return used;
}

TEST(Cord, ThatWaitsUsesNoProcessor) {
    NOT_ON_SIM("measures nothing");
    EXPECT_LT(used_by_a_cord_that_waits(false), FIBER_MSEC(20));
}

TEST(Cord, ThatWaitsInItsRingUsesNoProcessor) {
    NOT_ON_SIM("measures nothing");
    NEEDS_IO();
    EXPECT_LT(used_by_a_cord_that_waits(true), FIBER_MSEC(20));
}

} // namespace

namespace {

// A scope that the cord's function leaves open ends with the function: its deadline must not end the cord.
TEST(End, AScopeThatTheFunctionLeftOpenDoesNotEndTheCordEarly) {
    static std::atomic<bool> finished{false};
    auto late = [](void *) -> void * {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(60)), 0);
        finished = true;
        return nullptr;
    };
    static void *(*const run_late)(void *) = late;
    auto function = [](void *) -> void * {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_spawn(nullptr, run_late, nullptr), 0);
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(5), 0), 0);
        return nullptr;
    };
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, function, nullptr), 0);
    expect_joined(fiber_cord_join(cord, nullptr));
    EXPECT_TRUE(finished);
}

// The joiner does not wait for the thread-local destructors that run after a cord's end.
TEST(Join, DoesNotBlockTheThreadForTheDestructorsOfThreadLocals) {
    NOT_ON_SIM("has cords without their own thread-local variables");
    struct Slow {
        ~Slow() { usleep(400'000); }
    };
    auto function = [](void *) -> void * {
        thread_local Slow slow;
        (void)&slow;
        return nullptr;
    };
    int ticks = 0;
    auto ticking = [&] {
        while (fiber_sleep(FIBER_MSEC(1)) == 0) ticks++;
    };
    fiber_t ticker = spawn(ticking);
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, function, nullptr), 0);
    int64_t begun = fiber_now();
    expect_joined(fiber_cord_join(cord, nullptr));
    int64_t joined = fiber_now();
    EXPECT_EQ(fiber_cancel(ticker, nullptr), 0);
    join(ticker);
    EXPECT_TRUE(joined - begun < FIBER_MSEC(350) || ticks > 0);
}

} // namespace
