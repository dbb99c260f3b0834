// SPDX-License-Identifier: MIT OR Apache-2.0
// The queue of tasks that have not begun: a ring that moves to a larger one and back. Other threads read its counts
// without its lock, which ThreadSanitizer checks.
#include "base/spin_lock.h"
#include "pool/tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace fiberrt;

namespace {

void *nothing(void *) { return nullptr; }

Task task(uintptr_t number) { return {nothing, reinterpret_cast<void *>(number), nullptr}; }

void move(TaskQueue &queue, uint32_t capacity) {
    free(queue.move_to(static_cast<Task *>(malloc(capacity * sizeof(Task))), capacity));
}

TEST(TaskQueue, IsFifoForEveryRingPosition) {
    TaskQueue queue;
    EXPECT_EQ(queue.room(), 0u);
    uintptr_t in = 0, out = 0;
    auto take = [&](int n) {
        for (Task taken; n-- > 0 && queue.pop(&taken); out++) EXPECT_EQ(taken.arg, task(out).arg);
    };
    for (uint32_t capacity : {2u, 8u, 4u, 64u, 8u, 8u}) {
        move(queue, capacity);
        EXPECT_EQ(queue.capacity(), capacity);
        EXPECT_EQ(queue.count(), uint32_t(in - out));
        for (int round = 0; round < 3; round++) { // so that the ring is gone around
            while (queue.room()) queue.push(task(in++));
            EXPECT_EQ(queue.count(), capacity);
            take(int(capacity / 2 + 1));
        }
        while (queue.count() > 3) take(1); // fits the next one
        if (queue.count() > 1) take(1);
    }
    take(1000);
    EXPECT_EQ(in, out);
    Task none;
    EXPECT_FALSE(queue.pop(&none));
    queue.release();
}

TEST(TaskQueue, IsLookedAtWithoutItsLock) {
    TaskQueue queue;
    SpinLock lock{};
    move(queue, TaskQueue::first_room);
    // All relaxed: an order between the threads would hide the races that this test looks for.
    std::atomic<bool> begun{false}, done{false};
    uint64_t seen = 0;
    std::thread looks([&] {
        while (!done.load(std::memory_order_relaxed)) {
            seen += queue.count() + queue.capacity() + queue.room();
            begun.store(true, std::memory_order_relaxed);
        }
    });
    while (!begun.load(std::memory_order_relaxed)) std::this_thread::yield();
    for (uint32_t i = 0; i < 2000; i++) {
        Locked locked(lock);
        move(queue, i % 2 ? 2 * TaskQueue::first_room : TaskQueue::first_room);
        queue.push(task(i));
        Task taken;
        EXPECT_TRUE(queue.pop(&taken));
    }
    done.store(true, std::memory_order_relaxed);
    looks.join();
    EXPECT_GT(seen, 0u);
    queue.release();
}

} // namespace
