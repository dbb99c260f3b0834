// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads without fibers at adopted locks, code that is not adopted, and threads that end.
#include "locks.h"

#include <malloc.h>
#include <optional>
#include <semaphore.h>

using namespace locks;

namespace {

struct Condition {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    int value = 0;

    // The number of threads that wait for the condition in the C library. The caller holds the mutex.
    unsigned in_c_library() const { return cond.__data.__wrefs >> 3; }
};

// One side of an exchange: adopted code, or code that is not.
struct Side {
    const char *name;
    int (*lock)(pthread_mutex_t *);
    int (*unlock)(pthread_mutex_t *);
    int (*wait)(pthread_cond_t *, pthread_mutex_t *);
    int (*signal)(pthread_cond_t *);
    int (*broadcast)(pthread_cond_t *);

    void take(Condition &condition) const {
        EXPECT_EQ(lock(&condition.mutex), 0);
        while (!condition.value) EXPECT_EQ(wait(&condition.cond, &condition.mutex), 0);
        condition.value--;
        EXPECT_EQ(unlock(&condition.mutex), 0);
    }
    void put(Condition &condition, int more) const {
        EXPECT_EQ(lock(&condition.mutex), 0);
        condition.value += more;
        EXPECT_EQ(unlock(&condition.mutex), 0);
        EXPECT_EQ(more == 1 ? signal(&condition.cond) : broadcast(&condition.cond), 0);
    }
};

std::vector<Side> sides() {
    return {{"adopted", [](pthread_mutex_t *mutex) { return pthread_mutex_lock(mutex); },
             [](pthread_mutex_t *mutex) { return pthread_mutex_unlock(mutex); },
             [](pthread_cond_t *cond, pthread_mutex_t *mutex) { return pthread_cond_wait(cond, mutex); },
             [](pthread_cond_t *cond) { return pthread_cond_signal(cond); },
             [](pthread_cond_t *cond) { return pthread_cond_broadcast(cond); }},
            {"not adopted", NOT_ADOPTED(pthread_mutex_lock), NOT_ADOPTED(pthread_mutex_unlock),
             NOT_ADOPTED(pthread_cond_wait), NOT_ADOPTED(pthread_cond_signal), NOT_ADOPTED(pthread_cond_broadcast)}};
}

// Returns when this number of threads waits in the C library.
void until_in_c_library(Condition &condition, unsigned threads) {
    for (bool waiting = false; !waiting; sched_yield()) {
        EXPECT_EQ(pthread_mutex_lock(&condition.mutex), 0);
        waiting = condition.in_c_library() == threads;
        EXPECT_EQ(pthread_mutex_unlock(&condition.mutex), 0);
    }
}

TEST(CondOfThreads, AFiberSignalsAThreadAndAThreadAFiber) {
    for (const Side &waiter : sides()) {
        for (const Side &signaller : sides()) {
            SCOPED_TRACE(std::string(waiter.name) + " waits, signalled by " + signaller.name);
            Condition condition;
            std::thread thread([&] { waiter.take(condition); });
            until_in_c_library(condition, 1);
            run([&] { signaller.put(condition, 1); });
            thread.join();
            if (waiter.name != std::string("adopted")) continue;
            auto body = [&] { waiter.take(condition); };
            fiber_t fiber = start(body);
            until_waiting(fiber);
            std::thread([&] { signaller.put(condition, 1); }).join();
            join(fiber);
        }
    }
}

TEST(CondOfThreads, ABroadcastWakesBothKinds) {
    for (const Side &caller : sides()) {
        SCOPED_TRACE(caller.name);
        Condition condition;
        std::vector<Side> both = sides();
        std::thread threads[] = {std::thread([&] { both[0].take(condition); }),
                                 std::thread([&] { both[1].take(condition); })};
        until_in_c_library(condition, 2);
        auto body = [&] { both[0].take(condition); };
        fiber_t fibers[2];
        for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
        caller.put(condition, 4);
        for (std::thread &thread : threads) thread.join();
        for (fiber_t fiber : fibers) join(fiber);
        EXPECT_EQ(condition.value, 0);
    }
}

// A thread without fibers gets the C library's function, even if a fiber waits for the mutex, which the thread unlocks
// there. Else a signal by code that is not adopted would not reach the thread.
TEST(CondOfThreads, AThreadWaitsInTheCLibraryWhileAFiberWaitsForTheMutex) {
    Condition condition;
    std::atomic<bool> held = false, go_on = false;
    std::thread thread([&] {
        EXPECT_EQ(pthread_mutex_lock(&condition.mutex), 0);
        held = true;
        until_set(go_on);
        while (!condition.value) EXPECT_EQ(pthread_cond_wait(&condition.cond, &condition.mutex), 0);
        EXPECT_EQ(fiber_here(), 0);
        EXPECT_EQ(pthread_mutex_unlock(&condition.mutex), 0);
    });
    until_set(held);
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(&condition.mutex), 0);
        EXPECT_EQ(condition.in_c_library(), 1u);
        condition.value = 1;
        EXPECT_EQ(NOT_ADOPTED(pthread_cond_signal)(&condition.cond), 0);
        EXPECT_EQ(pthread_mutex_unlock(&condition.mutex), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    go_on = true;
    join(fiber);
    thread.join();
}

// No event tells the library of such an unlock: the fiber looks for itself.
TEST(NotAdopted, UnlockOfARwlockIsNoticed) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    std::atomic<bool> held = false, go_on = false;
    std::thread thread([&] {
        EXPECT_EQ(NOT_ADOPTED(pthread_rwlock_wrlock)(&lock), 0);
        held = true;
        until_set(go_on);
        EXPECT_EQ(NOT_ADOPTED(pthread_rwlock_unlock)(&lock), 0);
    });
    until_set(held);
    auto read = [&] {
        EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0);
        EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
    };
    auto write = [&] {
        EXPECT_EQ(pthread_rwlock_wrlock(&lock), 0);
        EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
    };
    fiber_t fibers[] = {start(read), start(write)};
    for (fiber_t fiber : fibers) until_waiting(fiber);
    go_on = true;
    for (fiber_t fiber : fibers) join(fiber);
    thread.join();
}

pthread_once_t once = PTHREAD_ONCE_INIT;
std::atomic<bool> once_begun, once_may_end;

TEST(NotAdopted, EndOfOnceIsNoticed) {
    auto function = [] {
        once_begun = true;
        until_set(once_may_end);
    };
    std::thread thread([&] { EXPECT_EQ(NOT_ADOPTED(pthread_once)(&once, function), 0); });
    until_set(once_begun);
    auto body = [] { EXPECT_EQ(pthread_once(&once, [] { ADD_FAILURE(); }), 0); };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    once_may_end = true;
    join(fiber);
    thread.join();
}

// Each thread uses all kinds of locks, and ends while one of its fibers waits for a lock that no other thread uses.
TEST(ThreadsThatEnd, LeaveNoMemory) {
    constexpr int threads = FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN ? 300 : 600, first = threads / 4;
    constexpr size_t most = 16 * 1024;
    struct Locks {
        pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
        Condition condition;
        Mutex recursive{{"recursive", PTHREAD_MUTEX_RECURSIVE}};
        sem_t semaphore;
        Locks() { EXPECT_EQ(sem_init(&semaphore, 0, 1), 0); }
        ~Locks() { sem_destroy(&semaphore); }
    };
    std::optional<Locks> locks; // always at one address, so that the records are in one list
    size_t used = 0;
    for (int i = 0; i < threads; i++) {
        if (i == first) used = mallinfo2().uordblks;
        locks.emplace();
        std::thread([&locks = *locks, by_condition = i % 2] {
            EXPECT_EQ(pthread_mutex_lock(locks.recursive), 0);
            EXPECT_EQ(pthread_mutex_unlock(locks.recursive), 0);
            EXPECT_EQ(sem_wait(&locks.semaphore), 0);
            EXPECT_EQ(sem_post(&locks.semaphore), 0);
            EXPECT_EQ(pthread_mutex_lock(&locks.held), 0);
            auto waits = [&] {
                if (by_condition) {
                    EXPECT_EQ(pthread_mutex_lock(&locks.condition.mutex), 0);
                    while (!locks.condition.value) pthread_cond_wait(&locks.condition.cond, &locks.condition.mutex);
                } else {
                    pthread_mutex_lock(&locks.held);
                }
            };
            until_waiting(start(waits));
        }).join();
    }
    EXPECT_LT(mallinfo2().uordblks, used + most);
}

} // namespace
