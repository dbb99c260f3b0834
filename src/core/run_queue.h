// SPDX-License-Identifier: MIT OR Apache-2.0
// The run queue of a cord: a ring of fibers in the order in which they will run.
//
// A fiber is in it at most once, and reserve() is called for each fiber that is made: so pushing never allocates and
// never fails. A ring, because only a ring can be looked ahead: while one fiber runs, the control blocks and the frames
// of the next ones are fetched into the cache, in whatever order they were woken.
#pragma once

#include "core/fiber.h"

#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

class RunQueue {
public:
    bool empty() const { return head_ == tail_; }
    uint32_t size() const { return tail_ - head_; }

    void push(Fiber* fiber) { ring_[tail_++ & mask_] = fiber; }
    void push_front(Fiber* fiber) { ring_[--head_ & mask_] = fiber; }
    Fiber* front() const { return empty() ? nullptr : ring_[head_ & mask_]; }

    Fiber* pop() {
        if (empty()) return nullptr;
        return ring_[head_++ & mask_];
    }

    // Fetches what the switches after the next need. Entries beyond the tail are old ones: slots are never unmapped,
    // so to look at them is harmless.
    // (Always inlined: gcc takes a function of prefetches alone for one without effect, and drops the call.)
    [[gnu::always_inline]] void prefetch() const {
        const Fiber* near = ring_[(head_ + 3) & mask_];
        auto frame = reinterpret_cast<uintptr_t>(near->sp); // null before a first run: a number, to count on from there
        __builtin_prefetch(reinterpret_cast<const void*>(frame));
        __builtin_prefetch(reinterpret_cast<const void*>(frame + 64));
        __builtin_prefetch(ring_[(head_ + 7) & mask_]);
    }

    // Makes room for that many fibers in all; false: no memory, and nothing has changed. filler: any fiber.
    bool reserve(uint32_t fibers, Fiber* filler) {
        if (ring_ && fibers <= mask_ + 1) return true;
        uint32_t capacity = ring_ ? (mask_ + 1) * 2 : 16;
        while (capacity < fibers) capacity *= 2;
        auto** ring = static_cast<Fiber**>(malloc(capacity * sizeof(Fiber*)));
        if (!ring) return false;
        uint32_t count = size();
        for (uint32_t i = 0; i < count; i++) ring[i] = ring_[(head_ + i) & mask_];
        for (uint32_t i = count; i < capacity; i++) ring[i] = filler;
        free(ring_);
        ring_ = ring;
        mask_ = capacity - 1;
        head_ = 0;
        tail_ = count;
        return true;
    }

    uint32_t capacity() const { return ring_ ? mask_ + 1 : 0; }

    void release() {
        free(ring_);
        *this = RunQueue();
    }

private:
    Fiber** ring_ = nullptr;
    uint32_t mask_ = 0;
    uint32_t head_ = 0; // of the next fiber to run; both run free and are cut by the mask
    uint32_t tail_ = 0; // one beyond the last
};

} // namespace fiberrt
