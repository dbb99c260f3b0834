// SPDX-License-Identifier: MIT OR Apache-2.0
// The timers of a cord: a heap of deadlines, kept lazily.
//
// Most deadlines are moved or dropped long before they come. So a timer that is moved to a later time, or disarmed,
// stays where it is in the heap, under its old key; only when that key comes to the top is it looked at again. A fiber
// that waits over and over with a time limit thus touches the heap once per limit, not once per wait.
//
// reserve() is called for each fiber that is made: so arming never allocates and never fails.
#pragma once

#include <stdint.h>

namespace fiberrt {

constexpr int64_t never = INT64_MAX;

struct Timer {
    int64_t deadline; // when it fires; `never`: not armed
    uint64_t sequence; // of the last arming: equal deadlines fire in the order in which they were armed
    uint32_t position; // in the heap, from 1; 0: not in it

    void init() {
        deadline = never;
        position = 0;
    }
};

class Timers {
public:
    bool reserve(uint32_t timers); // room for that many in all; false: no memory, nothing has changed
    uint32_t capacity() const { return capacity_; }
    void set(Timer* timer, int64_t deadline); // `never` disarms
    void remove(Timer* timer);                // before its memory goes

    // The earliest deadline, `never` if there is none.
    int64_t next();

    // Takes out and returns a timer whose deadline is not after now; null: there is none. It is disarmed.
    Timer* expired(int64_t now);

    void release();

private:
    struct Entry {
        int64_t key; // not after timer->deadline
        Timer* timer;
    };

    static bool before(const Entry& a, const Entry& b) {
        if (a.key != b.key) return a.key < b.key;
        return a.timer->sequence < b.timer->sequence;
    }
    void place(uint32_t position, const Entry& entry) {
        heap_[position] = entry;
        entry.timer->position = position + 1;
    }
    void sift_up(uint32_t position, Entry entry);
    void sift_down(uint32_t position, Entry entry);
    void take_out(uint32_t position);
    bool settle_top(); // until the top's key is its deadline; false: the heap is empty

    Entry* heap_ = nullptr; // four children each: a cache line holds them
    uint32_t size_ = 0;
    uint32_t capacity_ = 0;
    uint64_t sequence_ = 0;
};

} // namespace fiberrt
