// SPDX-License-Identifier: MIT OR Apache-2.0
// All primitives at once, shared by four cords and four plain threads, with timeouts and interrupts: at the end nothing
// is missing, and nothing is held.
#include "conformance.h"
#include "cord_support.h"

#include <functional>
#include <thread>
#include <vector>

using namespace support;

namespace {

// The objects that the users share.
struct World {
    fiber_mutex_t mutex{};
    fiber_cond_t cond{};
    fiber_sem_t sem{};
    fiber_event_t event{};
    fiber_rwlock_t rwlock{};
    fiber_wg_t group{};
    fiber_chan_t queue{}, rendezvous{};
    long counted = 0;     // under the mutex
    long written[2] = {}; // under the rwlock
    std::atomic<long> locked{0}, wrote{0}, sent{0}, received{0};
};

bool early(int result) { return result == -ETIMEDOUT || result == -EINTR; }

// A user of these objects: a fiber or a thread.
struct User {
    World *world;
    uint32_t seed;
    int turns;

    uint32_t pick(uint32_t n) { // xorshift
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        return seed % n;
    }
    int64_t timeout() { return pick(4) ? FIBER_USEC(pick(200)) : 0; }

    void lock() {
        const bool timed = pick(2);
        const int result = timed ? fiber_mutex_lock_timeout(&world->mutex, timeout()) : fiber_mutex_lock(&world->mutex);
        if (timed && early(result)) return;
        EXPECT_EQ(result, 0);
        world->counted++;
        world->locked++;
        if (pick(2)) {
            const int waited = fiber_cond_wait_timeout(&world->cond, &world->mutex, timeout());
            EXPECT_TRUE(waited == 0 || early(waited)) << waited;
            world->counted++; // it is held again
            world->locked++;
        }
        EXPECT_EQ(fiber_mutex_unlock(&world->mutex), 0);
        EXPECT_EQ(pick(2) ? fiber_cond_signal(&world->cond) : fiber_cond_broadcast(&world->cond), 0);
    }
    void permit() {
        const int64_t n = 1 + pick(3);
        const int result = fiber_sem_wait_timeout(&world->sem, n, timeout());
        if (result == 0)
            result_is(0, fiber_sem_post(&world->sem, n));
        else
            EXPECT_TRUE(early(result)) << result;
    }
    void read_or_write() {
        const bool write = pick(2);
        const int result = write ? fiber_rwlock_wrlock_timeout(&world->rwlock, timeout())
                                 : fiber_rwlock_rdlock_timeout(&world->rwlock, timeout());
        if (early(result)) return;
        EXPECT_EQ(result, 0);
        EXPECT_EQ(world->written[0], world->written[1]);
        if (write) {
            world->written[0]++;
            world->written[1]++;
            world->wrote++;
        }
        EXPECT_EQ(fiber_rwlock_unlock(&world->rwlock), 0);
    }
    void signal_or_wait() {
        EXPECT_EQ(fiber_event_set(&world->event), 0);
        const int result = fiber_event_wait_timeout(&world->event, timeout());
        EXPECT_TRUE(result == 0 || early(result)) << result;
    }
    void exchange() {
        const fiber_chan_t chan = pick(2) ? world->queue : world->rendezvous;
        int item = 1 + int(pick(1000)), got = 0;
        if (pick(2)) {
            const int result = fiber_chan_send_timeout(chan, &item, timeout());
            if (result == 0)
                world->sent += item;
            else
                EXPECT_TRUE(early(result)) << result;
        } else {
            const int result = fiber_chan_recv_timeout(chan, &got, timeout());
            EXPECT_TRUE(result == 0 || early(result)) << result;
            world->received += got;
        }
    }
    void select() {
        int items[2] = {1 + int(pick(1000)), 1 + int(pick(1000))}, got[2] = {};
        fiber_case_t cases[6] = {};
        const fiber_chan_t chans[] = {world->queue, world->rendezvous};
        for (int i = 0; i < 2; i++) {
            cases[i].kind = FIBER_CASE_SEND;
            cases[i].item = &items[i];
            cases[2 + i].kind = FIBER_CASE_RECV;
            cases[2 + i].item = &got[i];
            cases[i].chan = cases[2 + i].chan = chans[i];
        }
        cases[4].kind = FIBER_CASE_SEM;
        cases[4].object = &world->sem;
        cases[4].number = 2;
        cases[5].kind = FIBER_CASE_EVENT;
        cases[5].object = &world->event;
        const uint32_t first = pick(5);
        const int index = fiber_select(cases + first, int(6 - first), timeout());
        if (index < 0) {
            EXPECT_TRUE(early(index)) << index;
            return;
        }
        const int which = int(first) + index;
        EXPECT_EQ(cases[which].result, 0);
        if (which < 2) world->sent += items[which];
        if (which == 4) result_is(0, fiber_sem_post(&world->sem, 2));
        world->received += got[0] + got[1];
    }
    static void result_is(int expected, int result) { EXPECT_EQ(result, expected); }

    void operator()() {
        for (int i = 0; i < turns; i++) {
            switch (pick(6)) {
            case 0: lock(); break;
            case 1: permit(); break;
            case 2: read_or_write(); break;
            case 3: signal_or_wait(); break;
            case 4: exchange(); break;
            case 5: select(); break;
            }
        }
        EXPECT_GE(fiber_wg_done(&world->group), 0);
    }
};

void make(World &world, int users) {
    EXPECT_EQ(fiber_sem_init(&world.sem, 3), 0);
    EXPECT_EQ(fiber_chan_create(&world.queue, sizeof(int), 3), 0);
    EXPECT_EQ(fiber_chan_create(&world.rendezvous, sizeof(int), 0), 0);
    EXPECT_EQ(fiber_wg_add(&world.group, users), 0);
}

void nothing_is_missing(World &world) {
    int item;
    while (fiber_chan_try_recv(world.queue, &item) == 0) world.received += item;
    EXPECT_EQ(world.sent, world.received);
    EXPECT_EQ(fiber_chan_try_recv(world.rendezvous, &item), -EAGAIN);
    EXPECT_EQ(world.counted, world.locked);
    EXPECT_EQ(world.written[0], world.wrote);
    EXPECT_EQ(fiber_sem_value(&world.sem), 3);
    EXPECT_EQ(fiber_mutex_destroy(&world.mutex), 0);
    EXPECT_EQ(fiber_cond_destroy(&world.cond), 0);
    EXPECT_EQ(fiber_sem_destroy(&world.sem), 0);
    EXPECT_EQ(fiber_event_destroy(&world.event), 0);
    EXPECT_EQ(fiber_rwlock_destroy(&world.rwlock), 0);
    EXPECT_EQ(fiber_wg_destroy(&world.group), 0);
    EXPECT_EQ(fiber_chan_destroy(world.queue), 0);
    EXPECT_EQ(fiber_chan_destroy(world.rendezvous), 0);
}

TEST(WaitingMix, OfFibersOfOneCord) {
    World world;
    std::vector<User> users;
    for (uint32_t i = 0; i < 8; i++) users.push_back({&world, i + 1, often(500, 20)});
    make(world, int(users.size()));
    std::vector<fiber_t> fibers;
    for (User &user : users) fibers.push_back(spawn(user));
    while (fiber_wg_wait_timeout(&world.group, FIBER_USEC(300)) == -ETIMEDOUT)
        for (fiber_t fiber : fibers) fiber_interrupt(fiber, nullptr);
    for (fiber_t fiber : fibers) join(fiber);
    nothing_is_missing(world);
}

TEST(WaitingMix, OfFourCordsAndFourPlainThreads) {
    World world;
    std::vector<User> users;
    for (uint32_t i = 0; i < 20; i++) users.push_back({&world, i + 1, often(200, 5)});
    make(world, int(users.size()));
    {
        Worker workers[4];
        std::vector<fiber_t> fibers;
        std::vector<Thread> threads;
        for (size_t i = 0; i < 16; i++) fibers.push_back(spawn_on(workers[i % 4], users[i]));
        for (size_t i = 16; i < 20; i++) threads.emplace_back(std::ref(users[i]));
        while (fiber_wg_wait_timeout(&world.group, FIBER_MSEC(1)) == -ETIMEDOUT)
            for (fiber_t fiber : fibers) fiber_interrupt(fiber, nullptr);
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    nothing_is_missing(world);
}

} // namespace
