// SPDX-License-Identifier: MIT OR Apache-2.0
// The timers of a cord: a wheel of wheels, kept lazily.
//
// Time is cut into slots of 256 ns; 64 slots make a slot of the next level, and so on. A timer lies at the level of the
// highest bit in which its deadline differs from base_, the time of the last look. When time reaches a slot of a higher
// level, its timers are spread over the levels below; when it reaches a slot of the lowest level, its timers are sorted
// into the list of due timers. So arming a timer appends it to a list, and the exact order of deadlines costs a
// comparison or two per timer.
//
// Most deadlines are moved or dropped long before they come. So a timer that is moved to a later time, or disarmed,
// stays where it is, under its old key, and is moved only when time reaches that key. A fiber that waits again and
// again with a time limit thus touches the wheel once per limit, not once per wait.
//
// core/life.cc calls reserve() for each new fiber, so arming never allocates and never fails. The wheel's entries are
// in an array, not in the timers: a walk through a slot does not fetch the control blocks of fibers that sleep on.
// fuzz: runqueue 85 %
#pragma once

#include <stdint.h>

namespace fiberrt {

constexpr int64_t never = INT64_MAX;

struct Timer {
    int64_t deadline;  // when it fires, not negative; `never`: not armed
    uint64_t sequence; // number of the last arming: timers with equal deadlines fire in this order
    uint32_t position; // its entry; 0: it has none

    void init() {
        deadline = never;
        position = 0;
    }
};

class Timers {
public:
    bool reserve(uint32_t timers); // makes room for this many in all; false: no memory, nothing has changed
    uint32_t capacity() const { return capacity_; }
    void set(Timer* timer, int64_t deadline); // arms; `never` disarms
    void remove(Timer* timer);                // needed before the timer's memory is freed

    // The earliest deadline, or `never`. Where more than a few timers lie close together the answer may be earlier than
    // that; then expired() at that time finds no timer, and the next answer is closer.
    int64_t next();

    // Takes out, disarms and returns the earliest timer, if its deadline is not after now; null: there is none. now
    // must not decrease. Stores the timer's deadline in *deadline, if that is not null.
    Timer* expired(int64_t now, int64_t* deadline = nullptr);

    void release();

private:
    struct Entry {
        uint64_t key; // not after timer->deadline
        Timer* timer;
        uint32_t next; // a ring through the head of the slot's list. While the entry is free: the next free one
        uint32_t prev;
    };

    static constexpr unsigned finest_ = 8; // log2 of a slot's length at level 0
    static constexpr unsigned levels_ = 10;
    static constexpr unsigned near_level_ = 2; // slots of a millisecond: timers in a slot at this level fire soon
    static constexpr unsigned few_ = 32;       // next() compares at most this many timers of a slot
    static constexpr unsigned a_few_ = 8;      // if at most this many are in a slot and all are due, sort them at once
    static constexpr unsigned batch_ = 32;     // about this many are fetched into the cache together
    // The first entries are heads of lists: some for each slot, set up when its first timer comes, and one for the due
    // timers. Slots that may hold many have several lists, so that a walk waits for several cache misses at a time.
    static constexpr uint32_t lists_ = 8;
    static constexpr uint32_t due_ = levels_ * 64 * lists_;
    static constexpr uint32_t heads_ = due_ + 1;

    static unsigned shift(unsigned level) { return finest_ + 6 * level; }
    bool before(const Entry& a, const Entry& b) const {
        if (a.key != b.key) return a.key < b.key;
        return a.timer->sequence < b.timer->sequence;
    }
    bool stale(const Entry& entry) const { return uint64_t(entry.timer->deadline) != entry.key; }
    static uint32_t lists(unsigned level) { return level < near_level_ ? 1 : lists_; }
    uint32_t first_slot() const;               // the slots must not all be empty
    uint64_t start_of(uint32_t slot) const;    // the slot must not be empty
    uint32_t any_in(uint32_t slot) const;      // an entry of the slot; 0: none
    [[gnu::noinline]] void move(Timer* timer); // not inlined into set(), which mostly need not move the timer
    void link(uint32_t id, uint32_t after);
    void unlink(uint32_t id);
    void place(uint32_t id);
    void place_anew(uint32_t id); // at its deadline, or nowhere if it is disarmed; it is in no list
    void give_back(uint32_t id);
    void vacate(uint32_t slot);
    void open(uint32_t slot, int64_t now);
    bool scan(uint32_t slot);

    Entry* entries_ = nullptr;
    uint32_t capacity_ = 0;   // without the heads
    uint32_t size_ = 0;       // entries in use
    uint32_t fresh_ = 0;      // the first entry that was never used
    uint32_t free_ = 0;       // the first entry that was given back; 0: none
    uint32_t least_ = 0;      // the earliest entry of the wheel, if it is known; else 0
    uint32_t level_mask_ = 0; // a bit for each level that is not empty
    uint64_t slot_mask_[levels_] = {};
    uint64_t base_ = 0;    // entries up to this time are in the due list, sorted; at most the end of now's slot
    uint64_t soonest_ = 0; // no key is earlier
    uint64_t sequence_ = 0;
};

} // namespace fiberrt
