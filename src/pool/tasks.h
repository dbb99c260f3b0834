// SPDX-License-Identifier: MIT OR Apache-2.0
// Tasks that have not begun; a queue of them, which is a ring that grows; and a batch, which a worker takes from its
// queue at one time. pool/worker.h says who uses which.
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
    Child* child; // its record in a scope; null: no scope has it
};

// A queue of tasks. Its owner's lock protects it. Memory is allocated and freed outside that lock: see
// worker_make_room().
class TaskQueue {
public:
    static constexpr uint32_t first_room = 64; // tasks: the capacity of a new queue

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

    // Moves the tasks to another ring, which has room for them. Returns the old ring, which the caller frees. capacity:
    // a power of two.
    Task* move_to(Task* ring, uint32_t capacity) {
        uint32_t count = count_;
        for (uint32_t i = 0; i < count; i++) ring[i] = ring_[(first_ + i) & (capacity_ - 1)];
        Task* old = ring_;
        ring_ = ring;
        capacity_ = capacity;
        first_ = 0;
        return old;
    }

    void release() { free(ring_); } // the queue must not be used after this

private:
    Relaxed<uint32_t> count_;
    uint32_t first_ = 0;
    Relaxed<uint32_t> capacity_; // thieves read it without the lock
    Task* ring_ = nullptr;
};

// The tasks that a worker runs next, taken from its queue under one lock: so it competes with submitters once per
// batch. Other workers may still steal from it. The worker's thread fills the batch under the queue's lock, and pops
// without that; other threads pop under the queue's lock.
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

    void fill(TaskQueue& queue) { // the batch is empty
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
