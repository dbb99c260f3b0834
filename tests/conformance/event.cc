// SPDX-License-Identifier: MIT OR Apache-2.0
// Events, and wait groups.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"

#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

TEST(Event, TRAP_ThreeSignalsBeforeAWaitAreOneWakeOfAnAutoEvent) {
    fiber_event_t event{};
    for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_event_is_set(&event), 1);
    EXPECT_EQ(fiber_event_wait(&event), 0);
    EXPECT_EQ(fiber_event_is_set(&event), 0);
    EXPECT_EQ(fiber_event_wait_timeout(&event, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_event_wait_timeout(&event, FIBER_MSEC(1)), -ETIMEDOUT);
}

TEST(Event, AManualOneStaysSetForAllUntilItIsReset) {
    fiber_event_t event;
    EXPECT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
    auto body = [&] { EXPECT_EQ(fiber_event_wait(&event), 0); };
    const fiber_t fibers[] = {start(body), start(body), start(body)};
    for (fiber_t fiber : fibers) EXPECT_TRUE(waits(fiber));
    for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_event_set(&event), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(fiber_event_wait(&event), 0);
    EXPECT_EQ(fiber_event_wait_timeout(&event, 0), 0);
    EXPECT_EQ(fiber_event_reset(&event), 1);
    EXPECT_EQ(fiber_event_reset(&event), 0);
    EXPECT_EQ(fiber_event_wait_timeout(&event, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_event_init(&event, FIBER_EVENT_SET), 0);
    EXPECT_EQ(fiber_event_wait(&event), 0);
    EXPECT_EQ(fiber_event_is_set(&event), 0);
}

TEST(Event, AnAutoOneWakesOneByOneInOrder) {
    fiber_event_t event{};
    Trace trace;
    struct Waiter {
        fiber_event_t *event;
        Trace *trace;
        char name;
        void operator()() const {
            EXPECT_EQ(fiber_event_wait(event), 0);
            *trace += name;
        }
    };
    Waiter waiters[] = {{&event, &trace, 'a'}, {&event, &trace, 'b'}};
    const fiber_t fibers[] = {start(waiters[0]), start(waiters[1])};
    EXPECT_EQ(fiber_event_destroy(&event), -EBUSY);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_event_is_set(&event), 0); // it is the first waiter's already
    join(fibers[0]);
    EXPECT_TRUE(waits(fibers[1]));
    EXPECT_EQ(fiber_event_set(&event), 0);
    join(fibers[1]);
    EXPECT_EQ(trace, "ab");
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(Event, MisuseIsAnError) {
    fiber_event_t event{};
    EXPECT_EQ(fiber_event_init(nullptr, 0), -EINVAL);
    EXPECT_EQ(fiber_event_init(&event, 4), -EINVAL);
    EXPECT_EQ(fiber_event_wait(nullptr), -EINVAL);
    EXPECT_EQ(fiber_event_wait_timeout(&event, -1), -EINVAL);
    EXPECT_EQ(fiber_event_set(nullptr), -EINVAL);
    EXPECT_EQ(fiber_event_reset(nullptr), -EINVAL);
    EXPECT_EQ(fiber_event_is_set(nullptr), -EINVAL);
    EXPECT_EQ(fiber_event_destroy(nullptr), -EINVAL);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_event_wait(&event), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_event_is_set(&event), 1);
}

TEST(EventCancel, EndsAWaitUnlessTheEventCameFirst) {
    fiber_event_t event{};
    auto body = [&] { return pointer(fiber_event_wait(&event)); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(fiber_event_set(&event), 0); // too late for it
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    EXPECT_EQ(fiber_event_reset(&event), 1);
    const fiber_t in_time = start(body);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_cancel(in_time, nullptr), 0);
    EXPECT_EQ(join(in_time), pointer(0));
    EXPECT_EQ(fiber_event_is_set(&event), 0);
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(EventThreads, TRAP_ASignalOfAFiberThatNeverRunsAgainPassesOn) {
    fiber_event_t event{};
    Doomed doomed([&] { return fiber_event_wait(&event); });
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_event_is_set(&event), 0);
    doomed.end();
    EXPECT_EQ(fiber_event_wait_timeout(&event, 0), 0);
}

TEST(EventThreads, PingPongBetweenAPlainThreadAndAFiberOfAnotherCord) {
    fiber_event_t ping{}, pong{};
    const int rounds = often(1000, 20);
    {
        Worker worker;
        auto body = [&] {
            for (int i = 0; i < rounds; i++) {
                EXPECT_EQ(fiber_event_wait(&ping), 0);
                EXPECT_EQ(fiber_event_set(&pong), 0);
            }
        };
        const fiber_t fiber = spawn_on(worker, body);
        Thread thread([&] {
            for (int i = 0; i < rounds; i++) {
                EXPECT_EQ(fiber_event_set(&ping), 0);
                EXPECT_EQ(fiber_event_wait(&pong), 0);
            }
        });
        join(fiber);
        thread.join();
    }
}

TEST(EventThreads, AThousandWaitersOfFourCordsAndFourThreadsAreReleasedByOne) {
    fiber_event_t event;
    EXPECT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
    const int on_each = often(250, 5);
    std::atomic<int> released{0};
    auto body = [&] {
        EXPECT_EQ(fiber_event_wait(&event), 0);
        released++;
    };
    {
        Worker workers[4];
        std::vector<fiber_t> fibers;
        for (Worker &worker : workers)
            for (int i = 0; i < on_each; i++) fibers.push_back(spawn_on(worker, body));
        std::vector<Thread> threads;
        for (int i = 0; i < 4; i++) threads.emplace_back(body);
        for (fiber_t fiber : fibers) await([&] { return waits(fiber); });
        EXPECT_EQ(released, 0);
        EXPECT_EQ(fiber_event_set(&event), 0);
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    EXPECT_EQ(released, 4 * on_each + 4);
}

// --- Wait groups -----------------------------------------------------------------------------------------------------

TEST(WaitGroup, EndsTheWaitsWhenTheCountIsZero) {
    fiber_wg_t group{};
    EXPECT_EQ(fiber_wg_wait(&group), 0);
    EXPECT_EQ(fiber_wg_add(&group, 3), 0);
    auto waiter = [&] { EXPECT_EQ(fiber_wg_wait(&group), 0); };
    const fiber_t waiters[] = {start(waiter), start(waiter)};
    EXPECT_EQ(fiber_wg_destroy(&group), -EBUSY);
    int last = 0; // the result of fiber_wg_done
    auto done = [&] { last = fiber_wg_done(&group); };
    for (int i = 0; i < 2; i++) {
        run(done);
        EXPECT_EQ(last, 0);
    }
    for (fiber_t fiber : waiters) EXPECT_TRUE(waits(fiber));
    EXPECT_EQ(fiber_wg_wait_timeout(&group, 0), -ETIMEDOUT);
    run(done);
    EXPECT_EQ(last, 1);
    for (fiber_t fiber : waiters) join(fiber);
    EXPECT_EQ(fiber_wg_add(&group, 1), 0); // it can be used again
    EXPECT_EQ(fiber_wg_add(&group, -1), 0);
    EXPECT_EQ(fiber_wg_wait(&group), 0);
    EXPECT_EQ(fiber_wg_destroy(&group), 0);
}

TEST(WaitGroup, OneOfManyThreadsLearnsThatItWasTheLast) {
    const int rounds = often(200, 5);
    for (int round = 0; round < rounds; round++) {
        fiber_wg_t group = FIBER_WG_INITIALIZER(4);
        std::atomic<int> last{0};
        auto done = [&] { last += fiber_wg_done(&group); };
        Thread others[] = {Thread(done), Thread(done), Thread(done)};
        done();
        EXPECT_EQ(fiber_wg_wait(&group), 0);
        for (Thread &thread : others) thread.join();
        ASSERT_EQ(last, 1);
    }
}

TEST(Initialisers, AreConstantsAndMakeFreshOnes) {
    static fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    static fiber_cond_t cond = FIBER_COND_INITIALIZER;
    static fiber_rwlock_t rwlock = FIBER_RWLOCK_INITIALIZER;
    static fiber_once_t once = FIBER_ONCE_INITIALIZER;
    EXPECT_EQ(fiber_mutex_trylock(&mutex), 0);
    EXPECT_EQ(fiber_cond_wait_timeout(&cond, &mutex, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_rwlock_trywrlock(&rwlock), 0);
    EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
    int calls = 0;
    auto call = [](void *arg) { return ++*static_cast<int *>(arg), 0; };
    EXPECT_EQ(fiber_once(&once, call, &calls), 0);
    EXPECT_EQ(fiber_once(&once, call, &calls), 0);
    EXPECT_EQ(calls, 1);
}

TEST(Initialisers, HaveTheNumbersAndFlagsThatTheyAreGiven) {
    static constexpr fiber_sem_t three = FIBER_SEM_INITIALIZER(3), most = FIBER_SEM_INITIALIZER(INT64_MAX);
    fiber_sem_t sem = three;
    EXPECT_EQ(fiber_sem_value(&sem), 3);
    sem = most;
    EXPECT_EQ(fiber_sem_value(&sem), INT64_MAX);
    static constexpr fiber_wg_t two = FIBER_WG_INITIALIZER(2);
    fiber_wg_t group = two;
    EXPECT_EQ(fiber_wg_done(&group), 0);
    EXPECT_EQ(fiber_wg_done(&group), 1);
    for (unsigned flags = 0; flags < 4; flags++) {
        fiber_event_t made = FIBER_EVENT_INITIALIZER(flags), same{};
        EXPECT_EQ(fiber_event_init(&same, flags), 0);
        EXPECT_EQ(memcmp(&made, &same, sizeof made), 0) << flags;
        EXPECT_EQ(fiber_event_is_set(&made), (flags & FIBER_EVENT_SET) != 0);
        EXPECT_EQ(fiber_event_set(&made), 0);
        EXPECT_EQ(fiber_event_wait(&made), 0);
        EXPECT_EQ(fiber_event_is_set(&made), (flags & FIBER_EVENT_MANUAL) != 0);
    }
}

TEST(WaitGroup, TRAP_BelowZeroIsAnErrorAndChangesNothing) {
    fiber_wg_t group{};
    EXPECT_EQ(fiber_wg_done(&group), -EINVAL);
    EXPECT_EQ(fiber_wg_add(&group, 2), 0);
    EXPECT_EQ(fiber_wg_add(&group, -3), -EINVAL);
    EXPECT_EQ(fiber_wg_add(&group, INT64_MAX), -EOVERFLOW);
    EXPECT_EQ(fiber_wg_add(&group, -2), 0);
    EXPECT_EQ(fiber_wg_wait(&group), 0);
    EXPECT_EQ(fiber_wg_add(nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_wg_done(nullptr), -EINVAL);
    EXPECT_EQ(fiber_wg_wait(nullptr), -EINVAL);
    EXPECT_EQ(fiber_wg_wait_timeout(&group, -1), -EINVAL);
    EXPECT_EQ(fiber_wg_destroy(nullptr), -EINVAL);
}

TEST(WaitGroupCancel, EndsAWait) {
    fiber_wg_t group{};
    EXPECT_EQ(fiber_wg_add(&group, 1), 0);
    auto body = [&] { return pointer(fiber_wg_wait(&group)); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    EXPECT_EQ(fiber_wg_wait_timeout(&group, FIBER_MSEC(1)), -ETIMEDOUT);
    EXPECT_EQ(fiber_wg_destroy(&group), 0);
}

TEST(WaitGroupThreads, WorkOfSeveralCordsAndThreads) {
    fiber_wg_t group{};
    long sums[8] = {};
    {
        Worker workers[4];
        EXPECT_EQ(fiber_wg_add(&group, 8), 0);
        struct Work {
            fiber_wg_t *group;
            long *sum;
            void operator()() const {
                for (long i = 0; i <= 1000; i++) *sum += i;
                EXPECT_GE(fiber_wg_done(group), 0);
            }
        };
        std::vector<Work> works;
        for (long &sum : sums) works.push_back({&group, &sum});
        std::vector<fiber_t> fibers;
        for (int i = 0; i < 4; i++) fibers.push_back(spawn_on(workers[i], works[i]));
        std::vector<Thread> threads;
        for (int i = 4; i < 8; i++) threads.emplace_back(works[i]);
        EXPECT_EQ(fiber_wg_wait(&group), 0);
        for (long sum : sums) EXPECT_EQ(sum, 500500); // work done before is visible
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
}

} // namespace
