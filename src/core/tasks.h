// SPDX-License-Identifier: MIT OR Apache-2.0
// Tasks that have not begun, and a queue of them: a ring that grows.
#pragma once

#include "base/relaxed.h"

#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

struct Child;

struct Task {
    void* (*fn)(void*);
    void* arg;
    Child* child; // of a scope; null: nobody is told of its end
};

// Under a lock of whoever has it. Memory is taken and given back without that: see grow().
class TaskQueue {
public:
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

} // namespace fiberrt
