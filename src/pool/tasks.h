// SPDX-License-Identifier: MIT OR Apache-2.0
// Tasks that have not begun, and a queue of them: a ring that grows; and what a worker takes from it at once.
#pragma once

#include "base/relaxed.h"
#include "base/spin_lock.h"

#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

struct Child;

struct Task {
    void* (*fn)(void*);
    void* arg;
    Child* child; // of a scope; null: nobody is told of its end
};

// Under a lock of whoever has it. Memory is taken and given back without that: see worker_make_room().
class TaskQueue {
public:
    static constexpr uint32_t first_room = 64; // for so many tasks

    uint32_t count() const { return count_; } // also without the lock, as a guess
    uint32_t capacity() const { return capacity_; }
    uint32_t room() const { return capacity_ - count_; }

    void push(const Task& task) { // there is room
        uint32_t count = count_;
        ring_[(first_ + count) & (capacity_ - 1)] = task;
        count_ = count + 1;
    }
    bool pop(Task* out) {
        uint32_t count = count_;
        if (!count) return false;
        *out = ring_[first_];
        first_ = (first_ + 1) & (capacity_ - 1);
        count_ = count - 1;
        return true;
    }

    // Goes on in `ring`, which has room for more; returns the old one, to be freed. capacity: a power of two.
    Task* move_to(Task* ring, uint32_t capacity) {
        uint32_t count = count_;
        for (uint32_t i = 0; i < count; i++) ring[i] = ring_[(first_ + i) & (capacity_ - 1)];
        Task* old = ring_;
        ring_ = ring;
        capacity_ = capacity;
        first_ = 0;
        return old;
    }

    void release() { free(ring_); } // the queue is not used any more

private:
    Relaxed<uint32_t> count_;
    uint32_t first_ = 0;
    Relaxed<uint32_t> capacity_; // looked at by thieves without the lock
    Task* ring_ = nullptr;
};

// What a worker has taken from its queue at once, and runs next: so it meets those who submit once per batch. Others may
// still steal from it. The worker's thread fills it and pops, anybody else pops under the queue's lock, under which it
// is filled, too.
class TaskBatch {
public:
    uint32_t count() const { return count_; } // also without a lock, as a guess

    bool pop(Task* out) {
        Locked locked(lock_);
        uint32_t count = count_;
        if (!count) return false;
        *out = tasks_[end_ - count];
        count_ = count - 1;
        return true;
    }

    void fill(TaskQueue& queue) { // it is empty
        uint32_t n = 0;
        while (n < most && queue.pop(&tasks_[n])) n++;
        end_ = n;
        count_ = n;
    }

private:
    static constexpr uint32_t most = 32;

    SpinLock lock_;
    Relaxed<uint32_t> count_;
    uint32_t end_ = 0;
    Task tasks_[most];
};

} // namespace fiberrt
