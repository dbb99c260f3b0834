// SPDX-License-Identifier: MIT OR Apache-2.0
// The run queue of a cord: a ring of fibers in the order in which they will run.
//
// A fiber is in it at most once, and core/life.cc calls reserve() for each new fiber. So push() never allocates and
// never fails. It is a ring because a list cannot be looked ahead: while one fiber runs, prefetch() fetches the control
// blocks and the frames of the next ones into the cache, in whatever order they were woken.
// fuzz: runqueue 80 %
#pragma once

#include "base/aligned.h"
#include "base/planted.h"
#include "core/fiber.h"

#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

class RunQueue {
public:
    bool empty() const { return head_ == tail_; }
    uint32_t size() const { return uint32_t(((tail_ - head_) & (bytes() - 1)) / sizeof(Fiber*)); }
    uint32_t capacity() const { return ring_ ? uint32_t(bytes() / sizeof(Fiber*)) - 1 : 0; }

    void push(Fiber* fiber) {
        *at(tail_) = fiber;
        tail_ = wrap(tail_ + sizeof(Fiber*));
    }
    void push_front(Fiber* fiber) {
        auto first = reinterpret_cast<uintptr_t>(ring_);
        head_ = (head_ == first ? first + bytes() : head_) - sizeof(Fiber*);
        *at(head_) = fiber;
    }
    Fiber* front() const { return empty() ? nullptr : *at(head_); }
    Fiber* front_of_some() const { return *at(head_); } // front() when the queue is known not to be empty

    Fiber* pop() {
        if (empty()) return nullptr;
        Fiber* fiber = *at(head_);
        pop_front();
        return fiber;
    }
    void pop_front() { head_ = wrap(head_ + sizeof(Fiber*)); } // it is not empty

    // The fiber that runs after `ahead` others; the queue holds more than that.
    Fiber* nth(uint32_t ahead) const { return *at(wrapped(head_ + ahead * sizeof(Fiber*))); }

    // A place in the queue: its end at some time.
    struct Place {
        uintptr_t tail = 0;
        Fiber* const* ring = nullptr;
    };
    Place end() const { return {tail_, ring_}; }

    // Calls visit(fiber) for each fiber that was queued since, also if it has been taken off again meanwhile. (If the
    // ring has grown since, also for older ones, and only for fibers that are still queued. If more fibers were queued
    // than the ring holds, some are left out.)
    template <class Visit>
    [[gnu::always_inline]] void each_since(const Place& then, Visit visit) const {
        for (uintptr_t place = then.ring == ring_ ? then.tail : head_; place != tail_;
             place = wrap(place + sizeof(Fiber*)))
            visit(*at(place));
    }

    // Fetches the memory that the switches after the next need. Entries beyond the tail are old ones: slots are never
    // unmapped, so reading them is harmless.
    // (Always inlined: gcc takes a function of prefetches alone for one without effect, and drops the call.)
    [[gnu::always_inline]] void prefetch() const {
        Fiber* const* next = at(head_);
        auto frame =
            reinterpret_cast<uintptr_t>(next[3]->sp); // null before a first run: a number, which +64 may follow
        __builtin_prefetch(reinterpret_cast<const void*>(frame));
        __builtin_prefetch(reinterpret_cast<const void*>(frame + 64));
        __builtin_prefetch(next[look_ahead - 1]);
    }

    // prefetch() for fibers without a stack: fetches the memory that their steps need.
    [[gnu::always_inline]] void prefetch_users() const {
        Fiber* const* next = at(head_);
        __builtin_prefetch(next[3]->user());
        __builtin_prefetch(next[look_ahead - 1]);
    }

    // Makes room for this many fibers in all. False: there is no memory, and nothing has changed. filler: any fiber.
    bool reserve(uint32_t fibers, Fiber* filler) {
        if (fibers <= capacity()) return true;
        uintptr_t now = ring_ ? bytes() * 2 : 16 * sizeof(Fiber*);
        while (now / sizeof(Fiber*) - 1 < fibers) now *= 2;
        void* memory = aligned_allocate(2 * now, 2 * now);
        if (!memory) return false;
        auto** ring = static_cast<Fiber**>(memory);
        uint32_t count = 0;
        while (PLANTED(growth_forgets_the_head) && count < size()) { // as if the queue began where the ring does
            ring[count] = ring_[count];
            count++;
        }
        while (Fiber* fiber = PLANTED(growth_forgets_the_head) ? nullptr : pop()) ring[count++] = fiber;
        for (uint32_t i = count; i < now / sizeof(Fiber*) + look_ahead; i++) ring[i] = filler;
        free(ring_);
        ring_ = ring;
        within_ = ~now;
        head_ = reinterpret_cast<uintptr_t>(ring);
        tail_ = head_ + count * sizeof(Fiber*);
        return true;
    }

    void release() {
        free(ring_);
        *this = RunQueue();
    }

private:
    static constexpr uint32_t look_ahead = 8;

    static Fiber** at(uintptr_t address) { return reinterpret_cast<Fiber**>(address); }

    // The address within the ring, after any number of steps.
    uintptr_t wrapped(uintptr_t address) const {
        auto first = reinterpret_cast<uintptr_t>(ring_);
        return first + ((address - first) & (bytes() - 1));
    }

    // One step beyond the end sets the one bit that no address within the ring has.
    uintptr_t wrap(uintptr_t address) const { return address & within_; }

    uintptr_t bytes() const { return ~within_; } // of the ring, a power of two; it lies at a multiple of twice that

    uintptr_t within_ = ~uintptr_t{}; // all bits except the one of bytes(): each push and pop needs them
    uintptr_t head_ = 0;              // address of the next fiber to run
    uintptr_t tail_ = 0;              // one beyond the last; one entry always stays free
    Fiber** ring_ = nullptr;
};

} // namespace fiberrt
