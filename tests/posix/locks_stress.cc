// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers of several threads, and threads without fibers, use the same few locks of all kinds, by adopted code and by
// code that is not.
#include "locks.h"

#include <random>
#include <semaphore.h>

using namespace locks;

namespace {

constexpr int threads = 3, fibers_each = 6;

struct Shared {
    Mutex normal{{"normal", PTHREAD_MUTEX_NORMAL}};
    Mutex recursive{{"recursive", PTHREAD_MUTEX_RECURSIVE}};
    Mutex robust{{"robust", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST}};
    pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    sem_t semaphore;
    int by_normal = 0, by_recursive = 0, by_robust = 0, by_rwlock = 0, tokens = 0; // each under its lock

    Shared() { EXPECT_EQ(sem_init(&semaphore, 0, 2), 0); }
    ~Shared() { sem_destroy(&semaphore); }
};

void maybe_switch(std::minstd_rand &random) {
    if (fiber_here() && random() % 4 == 0) {
        EXPECT_EQ(fiber_reschedule(), 0);
    }
}

void add_under(pthread_mutex_t *mutex, int &count, std::minstd_rand &random) {
    int before = count;
    maybe_switch(random);
    count = before + 1;
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
}

void step(Shared &shared, std::minstd_rand &random) {
    timespec later = absolute(CLOCK_REALTIME, never);
    switch (random() % 7) {
    case 0:
        EXPECT_EQ(pthread_mutex_lock(shared.normal), 0);
        add_under(shared.normal, shared.by_normal, random);
        break;
    case 1:
        EXPECT_EQ(pthread_mutex_lock(shared.recursive), 0);
        EXPECT_EQ(pthread_mutex_lock(shared.recursive), 0);
        add_under(shared.recursive, shared.by_recursive, random);
        EXPECT_EQ(pthread_mutex_unlock(shared.recursive), 0);
        break;
    case 2:
        EXPECT_EQ(pthread_mutex_timedlock(shared.robust, &later), 0);
        add_under(shared.robust, shared.by_robust, random);
        break;
    case 3: {
        EXPECT_EQ(pthread_rwlock_wrlock(&shared.rwlock), 0);
        int before = shared.by_rwlock;
        maybe_switch(random);
        shared.by_rwlock = before + 1;
        EXPECT_EQ(pthread_rwlock_unlock(&shared.rwlock), 0);
        break;
    }
    case 4: {
        EXPECT_EQ(pthread_rwlock_rdlock(&shared.rwlock), 0);
        int before = shared.by_rwlock;
        maybe_switch(random);
        EXPECT_EQ(shared.by_rwlock, before);
        EXPECT_EQ(pthread_rwlock_unlock(&shared.rwlock), 0);
        break;
    }
    case 5:
        EXPECT_EQ(sem_wait(&shared.semaphore), 0);
        maybe_switch(random);
        EXPECT_EQ(sem_post(&shared.semaphore), 0);
        break;
    default: // puts a token, and takes one
        EXPECT_EQ(pthread_mutex_lock(shared.normal), 0);
        shared.tokens++;
        EXPECT_EQ(pthread_cond_signal(&shared.cond), 0);
        EXPECT_EQ(pthread_mutex_unlock(shared.normal), 0);
        maybe_switch(random);
        EXPECT_EQ(pthread_mutex_lock(shared.normal), 0);
        while (!shared.tokens) EXPECT_EQ(pthread_cond_wait(&shared.cond, shared.normal), 0);
        shared.tokens--;
        shared.by_normal++;
        EXPECT_EQ(pthread_mutex_unlock(shared.normal), 0);
        break;
    }
}

TEST(LocksStress, NoLockIsLostOrSharedByTwo) {
    constexpr int steps = 400;
    Shared shared;
    std::atomic<unsigned> seed = 1;
    std::atomic<int> counted[7] = {};
    auto many = [&] {
        std::minstd_rand random(seed++);
        for (int i = 0; i < steps; i++) {
            std::minstd_rand copy = random;
            counted[copy() % 7]++;
            step(shared, random);
        }
    };
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++) {
        all.emplace_back([&] {
            fiber_t fibers[fibers_each];
            for (fiber_t &fiber : fibers) fiber = spawn(many);
            for (fiber_t fiber : fibers) join(fiber);
        });
    }
    all.emplace_back(many);
    for (std::thread &thread : all) thread.join();
    EXPECT_EQ(shared.by_normal, counted[0] + counted[6]);
    EXPECT_EQ(shared.by_recursive, counted[1]);
    EXPECT_EQ(shared.by_robust, counted[2]);
    EXPECT_EQ(shared.by_rwlock, counted[3]);
    EXPECT_EQ(shared.tokens, 0);
}

// A thousand fibers of one thread want one mutex, which its holder keeps across a wait.
TEST(LocksStress, ManyWaitersOfOneMutex) {
    constexpr int many = 1000;
    Mutex mutex({"normal", PTHREAD_MUTEX_NORMAL});
    int count = 0;
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        count++;
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    std::vector<fiber_t> fibers(many);
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(count, many);
}

} // namespace
