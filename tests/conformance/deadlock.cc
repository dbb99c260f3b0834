// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait of the main flow that can certainly never end returns -EDEADLK; one that may end does not.
//
// "Certainly" means among other things that no thread was ever made. So each test runs in its own process, whatever ran
// before in this one.
#include "conformance.h"
#include "cord_support.h"

#include <csignal>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

using namespace support;

namespace {

class Deadlock : public testing::Test {
protected:
    void SetUp() override {
        if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer makes a thread, so no deadlock is certain";
        if (simulated()) return;
        GTEST_FLAG_SET(death_test_style, "threadsafe");
    }
};

// Runs a function in a new process, which must end with status 0 by CHILD_CHECK's account. In a simulation there is
// never another thread, so that a deadlock is certain here too.
void in_new_process(void (*body)()) {
    if (simulated()) return body();
    EXPECT_EXIT(
        {
            body();
            _exit(0);
        },
        testing::ExitedWithCode(0), "");
}

void *yield_once(void *result_out) {
    *static_cast<int *>(result_out) = fiber_yield();
    return nullptr;
}

fiber_t started_yielder(int *result) {
    fiber_t fiber{};
    CHILD_CHECK(fiber_new(&fiber, nullptr, yield_once, result) == 0);
    CHILD_CHECK(fiber_start(fiber) == 0);
    return fiber;
}

} // namespace

TEST_F(Deadlock, YieldOfALoneMainFlow) {
    in_new_process([] {
        CHILD_CHECK(fiber_yield() == -EDEADLK);
        void *value = nullptr;
        CHILD_CHECK(fiber_yield_value(&value) == -EDEADLK);
        CHILD_CHECK(fiber_yield_timeout(FIBER_FOREVER) == -EDEADLK);
        CHILD_CHECK(fiber_reschedule() == 0); // the main flow goes on
    });
}

// A main flow that works for a pool and then runs on is no longer idle: the pool gives a task submitted then to a
// waiting worker.
TEST_F(Deadlock, OfAThreadBoundToAPool) {
    in_new_process([] {
        fiber_pool_attr_t *attr = nullptr;
        fiber_pool_t pool{};
        CHILD_CHECK(fiber_pool_attr_create(&attr) == 0 && fiber_pool_attr_set_workers(attr, 0) == 0);
        CHILD_CHECK(fiber_pool_create(&pool, attr) == 0 && fiber_pool_attr_destroy(attr) == 0);
        CHILD_CHECK(fiber_pool_bind(pool) == 0);
        CHILD_CHECK(fiber_yield() == -EDEADLK);
        std::atomic<bool> bound{false}, ran{false};
        fiber_event_t event{};
        CHILD_CHECK(fiber_event_init(&event, FIBER_EVENT_MANUAL) == 0);
        auto task = [&] {
            ran = true;
            CHILD_CHECK(fiber_event_set(&event) == 0);
        };
        Thread waits([&] {
            CHILD_CHECK(fiber_pool_bind(pool) == 0);
            bound = true;
            CHILD_CHECK(fiber_event_wait(&event) == 0);
            CHILD_CHECK(fiber_pool_unbind(pool) == 0);
        });
        CHILD_CHECK(await_holding_the_thread([&] { return bound.load(); }));
        const int64_t asleep = fiber_now() + FIBER_MSEC(20); // if all goes well
        CHILD_CHECK(await_holding_the_thread([&] { return fiber_now() >= asleep; }));
        Thread submits([&] { CHILD_CHECK(fiber_pool_submit(pool, entry<decltype(task)>, &task) == 0); });
        CHILD_CHECK(await_holding_the_thread([&] { return ran.load(); }));
        submits.join();
        waits.join();
        CHILD_CHECK(fiber_pool_close(pool) == 0);
    });
}

TEST_F(Deadlock, ARunOfTheCordThatWaitsForEver) {
    in_new_process([] {
        CHILD_CHECK(fiber_cord_run(FIBER_FOREVER) == -EDEADLK);
        int result = 1;
        fiber_t fiber = started_yielder(&result);
        CHILD_CHECK(fiber_cord_run(FIBER_FOREVER) == -EDEADLK);
        CHILD_CHECK(fiber_cord_run(FIBER_MSEC(1)) == 0); // this wait ends
        CHILD_CHECK(fiber_wakeup(fiber) == 0);
        CHILD_CHECK(fiber_cord_run(FIBER_FOREVER) == 0);
        CHILD_CHECK(result == 0);
    });
}

TEST_F(Deadlock, YieldTakesAPermitThatIsThere) {
    in_new_process([] {
        CHILD_CHECK(fiber_wakeup(self()) == 0);
        CHILD_CHECK(fiber_yield() == 0);
        CHILD_CHECK(fiber_yield() == -EDEADLK);
    });
}

TEST_F(Deadlock, SleepForEverOfALoneMainFlow) {
    in_new_process([] {
        CHILD_CHECK(fiber_sleep(FIBER_FOREVER) == -EDEADLK);
        int64_t tick = 0;
        CHILD_CHECK(fiber_every(&tick, FIBER_FOREVER) == -EDEADLK);
    });
}

TEST_F(Deadlock, JoinOfAFiberThatWasNeverStarted) {
    in_new_process([] {
        int result = 1;
        fiber_t fiber{};
        CHILD_CHECK(fiber_new(&fiber, nullptr, yield_once, &result) == 0);
        CHILD_CHECK(fiber_join(fiber, nullptr) == -EDEADLK);
        CHILD_CHECK(fiber_join_timeout(fiber, nullptr, FIBER_FOREVER) == -EDEADLK);
        CHILD_CHECK(fiber_state(fiber) == FIBER_NEW);
    });
}

TEST_F(Deadlock, JoinOfAParkedFiberWhichStaysJoinable) {
    in_new_process([] {
        int result = 1;
        fiber_t fiber = started_yielder(&result);
        CHILD_CHECK(fiber_join(fiber, nullptr) == -EDEADLK);
        CHILD_CHECK(fiber_state(fiber) == FIBER_WAITING);
        CHILD_CHECK(fiber_wakeup(fiber) == 0);
        CHILD_CHECK(fiber_join(fiber, nullptr) == 0);
        CHILD_CHECK(result == 0);
    });
}

TEST_F(Deadlock, IsNoticedWhenAFiberParksLast) {
    in_new_process([] {
        int result = 1;
        fiber_t fiber{};
        CHILD_CHECK(fiber_spawn(&fiber, yield_once, &result) == 0);
        CHILD_CHECK(fiber_join(fiber, nullptr) == -EDEADLK); // it runs first, then parks
        CHILD_CHECK(fiber_state(fiber) == FIBER_WAITING);
        CHILD_CHECK(fiber_cancel(fiber, nullptr) == 0);
        CHILD_CHECK(fiber_join(fiber, nullptr) == 0);
        CHILD_CHECK(result == -ECANCELED);
    });
}

TEST_F(Deadlock, TransferToAFiberThatParks) {
    in_new_process([] {
        int result = 1;
        fiber_t fiber{};
        CHILD_CHECK(fiber_new(&fiber, nullptr, yield_once, &result) == 0);
        CHILD_CHECK(fiber_transfer(fiber, nullptr, nullptr) == -EDEADLK);
        CHILD_CHECK(fiber_state(fiber) == FIBER_WAITING);
        CHILD_CHECK(fiber_transfer(fiber, nullptr, nullptr) == 1);
        CHILD_CHECK(result == 0);
    });
}

TEST_F(Deadlock, JoinOfAFiberThatJoinsTheMainFlow) {
    in_new_process([] {
        static fiber_t main_flow;
        static int result;
        main_flow = self();
        result = 1;
        fiber_t fiber{};
        CHILD_CHECK(fiber_spawn(
                        &fiber,
                        [](void *) -> void * {
                            result = fiber_join(main_flow, nullptr);
                            return nullptr;
                        },
                        nullptr) == 0);
        CHILD_CHECK(fiber_join(fiber, nullptr) == -EDEADLK);
        CHILD_CHECK(fiber_cancel(fiber, nullptr) == 0);
        CHILD_CHECK(fiber_join(fiber, nullptr) == 0);
        CHILD_CHECK(result == -ECANCELED);
    });
}

TEST_F(Deadlock, IsStillNoticedAfterTimersAndOperationsAreOver) {
    NEEDS_IO();
    in_new_process([] {
        CHILD_CHECK(fiber_sleep(FIBER_MSEC(1)) == 0);
        int ends[2];
        CHILD_CHECK(pipe2(ends, O_CLOEXEC) == 0);
        char byte = 0;
        CHILD_CHECK(fiber_write(ends[1], "x", 1) == 1);
        CHILD_CHECK(fiber_read(ends[0], &byte, 1) == 1);
        fiber_scope_t scope{};
        CHILD_CHECK(fiber_scope_open(&scope, FIBER_MSEC(1), 0) == 0);
        CHILD_CHECK(fiber_read(ends[0], &byte, 1) == -ETIMEDOUT);
        CHILD_CHECK(fiber_scope_close(scope, nullptr) == -ETIMEDOUT);
        CHILD_CHECK(fiber_scope_open(&scope, FIBER_SEC(3600), 0) == 0);
        CHILD_CHECK(fiber_scope_close(scope, nullptr) == 0);
        CHILD_CHECK(fiber_yield() == -EDEADLK);
    });
}

// Joins a fiber that comes to its end by itself, with 1.
void join_in_child(void *(*body)(void *)) {
    fiber_t fiber{};
    CHILD_CHECK(fiber_spawn(&fiber, body, nullptr) == 0);
    void *result = nullptr;
    CHILD_CHECK(fiber_join(fiber, &result) == 0);
    CHILD_CHECK(result == pointer(1));
}

TEST_F(Deadlock, TRAP_NoneWhileATimerOfAnotherFiberRuns) {
    in_new_process([] {
        join_in_child([](void *) -> void * {
            CHILD_CHECK(fiber_sleep(FIBER_MSEC(10)) == 0);
            return pointer(1);
        });
    });
}

TEST_F(Deadlock, TRAP_NoneWhileATimerWillWakeTheMainFlow) {
    in_new_process([] {
        static fiber_t main_flow;
        main_flow = self();
        CHILD_CHECK(fiber_spawn(
                        nullptr,
                        [](void *) -> void * {
                            CHILD_CHECK(fiber_sleep(FIBER_MSEC(10)) == 0);
                            CHILD_CHECK(fiber_wakeup(main_flow) == 0);
                            return nullptr;
                        },
                        nullptr) == 0);
        CHILD_CHECK(fiber_yield() == 0);
        CHILD_CHECK(fiber_yield_timeout(FIBER_MSEC(5)) == -ETIMEDOUT);
    });
}

TEST_F(Deadlock, OfAScopesCloseLeavesItOpen) {
    in_new_process([] {
        fiber_scope_t scope{};
        fiber_t child{};
        int64_t result = 1;
        CHILD_CHECK(fiber_scope_open(&scope, FIBER_FOREVER, 0) == 0);
        CHILD_CHECK(fiber_scope_spawn(
                        scope, &child, [](void *) -> int64_t { return fiber_yield() == 0 ? -ENOENT : 0; }, nullptr) ==
                    0);
        CHILD_CHECK(fiber_scope_next(scope, nullptr, &result) == -EDEADLK);
        CHILD_CHECK(fiber_scope_close(scope, nullptr) == -EDEADLK);
        CHILD_CHECK(fiber_wakeup(child) == 0);
        CHILD_CHECK(fiber_scope_close(scope, &result) == 0);
        CHILD_CHECK(result == -ENOENT);
    });
}

TEST_F(Deadlock, TRAP_NoneWhileADeadlineOfTheMainFlowRuns) {
    in_new_process([] {
        fiber_scope_t scope{};
        int64_t begin = fiber_now();
        CHILD_CHECK(fiber_scope_open(&scope, FIBER_MSEC(10), 0) == 0);
        CHILD_CHECK(fiber_yield() == -ETIMEDOUT);
        CHILD_CHECK(fiber_now() - begin >= FIBER_MSEC(10));
        CHILD_CHECK(fiber_scope_close(scope, nullptr) == -ETIMEDOUT);
    });
}

TEST_F(Deadlock, TRAP_NoneWhileADeadlineOfAnotherFiberRuns) {
    in_new_process([] {
        join_in_child([](void *) -> void * {
            fiber_scope_t scope{};
            CHILD_CHECK(fiber_scope_open(&scope, FIBER_MSEC(10), 0) == 0);
            CHILD_CHECK(fiber_yield() == -ETIMEDOUT);
            return pointer(1);
        });
    });
}

// The other end of the pipe is held by another process, so no timer and no thread is needed for the byte to come.
TEST_F(Deadlock, TRAP_NoneWhileAnOperationIsUnderWay) {
    NOT_ON_SIM("has no peers outside the process");
    NEEDS_IO();
    in_new_process([] {
        static int ends[2];
        CHILD_CHECK(pipe2(ends, O_CLOEXEC) == 0);
        fiber_t fiber{};
        CHILD_CHECK(fiber_spawn(
                        &fiber,
                        [](void *) -> void * {
                            char byte = 0;
                            CHILD_CHECK(fiber_read(ends[0], &byte, 1) == 1);
                            return pointer(byte);
                        },
                        nullptr) == 0);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        char shell[] = "/bin/sh", option[] = "-c", script[] = "sleep 0.05; printf y";
        char *arguments[] = {shell, option, script, nullptr};
        pid_t child = 0;
        CHILD_CHECK(posix_spawn(&child, shell, &actions, nullptr, arguments, environ) == 0);
        void *result = nullptr;
        CHILD_CHECK(fiber_join(fiber, &result) == 0);
        CHILD_CHECK(result == pointer('y'));
        CHILD_CHECK(waitpid(child, nullptr, 0) == child);
    });
}

TEST_F(Deadlock, TRAP_NoneWhenAnotherThreadExists) {
    NEEDS_THREADS();
    in_new_process([] {
        std::thread([] {
            usleep(50000);
            _exit(0); // the main flow still waits: right
        }).detach();
        fiber_yield();
        _exit(1);
    });
}

TEST_F(Deadlock, TRAP_NoneOnceAThreadWasMade) {
    NEEDS_THREADS();
    NEEDS_A_FLAG_OF_THREADS();
    in_new_process([] {
        in_thread([] {});
        signal(SIGALRM, [](int) { _exit(0); });
        ualarm(50000, 0);
        fiber_yield();
        _exit(1);
    });
}

TEST_F(Deadlock, TRAP_NoneOnTheMainFlowOfAnotherThread) {
    NEEDS_THREADS();
    in_new_process([] {
        std::thread([] {
            fiber_yield();
            _exit(1);
        }).detach();
        usleep(50000);
        _exit(0);
    });
}

TEST_F(Deadlock, AFiberThatIsNotTheMainFlowGetsNoReport) {
    in_new_process([] {
        int result = 1;
        fiber_t fiber = started_yielder(&result);
        for (int i = 0; i < 3; i++) CHILD_CHECK(fiber_yield() == -EDEADLK);
        CHILD_CHECK(result == 1); // its wait goes on
        CHILD_CHECK(fiber_state(fiber) == FIBER_WAITING);
    });
}

namespace {

fiber_mutex_t mutex;

void *lock_and_park(void *) {
    CHILD_CHECK(fiber_mutex_lock(&mutex) == 0);
    return reinterpret_cast<void *>(intptr_t(fiber_yield()));
}

// All the waits for an event that user code would have to cause, when no fiber is left to cause it.
void wait_in_vain() {
    fiber_cond_t cond{};
    fiber_sem_t sem{};
    fiber_event_t event{};
    fiber_wg_t group{};
    fiber_rwlock_t rwlock{};
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(2);
    fiber_chan_t chan{};
    fiber_mutex_t own{};
    int item = 0;
    CHILD_CHECK(fiber_mutex_lock(&own) == 0);
    CHILD_CHECK(fiber_cond_wait(&cond, &own) == -EDEADLK);
    CHILD_CHECK(fiber_mutex_unlock(&own) == 0); // it was held
    CHILD_CHECK(fiber_sem_wait(&sem, 1) == -EDEADLK);
    CHILD_CHECK(fiber_event_wait(&event) == -EDEADLK);
    CHILD_CHECK(fiber_wg_add(&group, 1) == 0);
    CHILD_CHECK(fiber_wg_wait(&group) == -EDEADLK);
    CHILD_CHECK(fiber_rwlock_rdlock(&rwlock) == 0);
    CHILD_CHECK(fiber_rwlock_wrlock(&rwlock) == -EDEADLK);
    CHILD_CHECK(fiber_barrier_wait(&barrier) == -EDEADLK);
    CHILD_CHECK(fiber_barrier_destroy(&barrier) == 0); // it has not arrived
    CHILD_CHECK(fiber_chan_create(&chan, sizeof item, 0) == 0);
    CHILD_CHECK(fiber_chan_send(chan, &item) == -EDEADLK);
    CHILD_CHECK(fiber_chan_recv(chan, &item) == -EDEADLK);
    fiber_case_t cases[2] = {};
    cases[0].kind = FIBER_CASE_RECV;
    cases[0].chan = chan;
    cases[0].item = &item;
    cases[1].kind = FIBER_CASE_EVENT;
    cases[1].object = &event;
    CHILD_CHECK(fiber_select(cases, 2, FIBER_FOREVER) == -EDEADLK);
    CHILD_CHECK(fiber_select(cases, 2, FIBER_USEC(10)) == -ETIMEDOUT);
    CHILD_CHECK(fiber_chan_destroy(chan) == 0);
    CHILD_CHECK(fiber_event_destroy(&event) == 0);
}

void select_a_child_in_vain() {
    fiber_scope_t scope{};
    fiber_t child{}, told{};
    CHILD_CHECK(fiber_scope_open(&scope, FIBER_FOREVER, 0) == 0);
    CHILD_CHECK(fiber_scope_spawn(
                    scope, &child, [](void *) -> int64_t { return fiber_yield(); }, nullptr) == 0);
    fiber_case_t one{};
    one.kind = FIBER_CASE_SCOPE;
    one.scope = scope;
    CHILD_CHECK(fiber_select(&one, 1, FIBER_FOREVER) == -EDEADLK);
    CHILD_CHECK(fiber_wakeup(child) == 0);
    CHILD_CHECK(fiber_scope_next(scope, &told, nullptr) == 1);
    CHILD_CHECK(told.id == child.id);
    CHILD_CHECK(fiber_scope_close(scope, nullptr) == 0);
}

} // namespace

TEST_F(Deadlock, WaitsForLocksAndChannels) {
    in_new_process([] {
        wait_in_vain(); // on a thread without a cord
        fiber_t fiber{};
        CHILD_CHECK(fiber_spawn(&fiber, lock_and_park, nullptr) == 0);
        CHILD_CHECK(fiber_reschedule() == 0);
        CHILD_CHECK(fiber_mutex_lock(&mutex) == -EDEADLK);
        CHILD_CHECK(fiber_mutex_lock_timeout(&mutex, FIBER_FOREVER) == -EDEADLK);
        wait_in_vain();
        CHILD_CHECK(fiber_wakeup(fiber) == 0);
        CHILD_CHECK(fiber_mutex_lock(&mutex) == -EOWNERDEAD);
        CHILD_CHECK(fiber_mutex_unlock(&mutex) == 0);
        CHILD_CHECK(fiber_join(fiber, nullptr) == 0);
        select_a_child_in_vain();
    });
}
