// SPDX-License-Identifier: MIT OR Apache-2.0
// The timers of a cord: a wheel of wheels, kept lazily.
//
// Time is cut into slots of 256 ns; 64 of them make a slot of the next level, and so on. A timer lies at the level of
// the highest bit in which its deadline differs from the time that was last looked at (base_). When time reaches a slot
// of a higher level, its timers are spread over the levels below; when it reaches one of the lowest, they are sorted
// into the list of those that are due. So to arm one is to append it to a list, and the exact order of deadlines costs
// a comparison or two per timer.
//
// Most deadlines are moved or dropped long before they come. So a timer that is moved to a later time, or disarmed,
// stays where it is, under its old key; only when that is about to come is it looked at again. A fiber that waits over
// and over with a time limit thus touches the wheel once per limit, not once per wait.
//
// reserve() is called for each fiber that is made: so arming never allocates and never fails. What lies in the wheel is
// in an array, not in the timers: to walk through a slot does not fetch the control blocks of fibers that sleep on.
// fuzz: runqueue 85 %
#pragma once

#include <stdint.h>

namespace fiberrt {

constexpr int64_t never = INT64_MAX;

struct Timer {
    int64_t deadline;  // when it fires, not negative; `never`: not armed
    uint64_t sequence; // of the last arming: equal deadlines fire in the order in which they were armed
    uint32_t position; // its entry; 0: it has none

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

    // The earliest deadline, `never` if there is none. Where more than a few timers lie close together it may be a time
    // before that; then expired() at that time finds nothing, and the next answer is nearer.
    int64_t next();

    // Takes out and returns the earliest timer if its deadline is not after now, which does not go back; null: there is
    // none. It is disarmed; *deadline, if that is not null, is when it was to fire.
    Timer* expired(int64_t now, int64_t* deadline = nullptr);

    void release();

private:
    struct Entry {
        uint64_t key; // not after timer->deadline
        Timer* timer;
        uint32_t next; // a ring through the slot's head. While it is free: next is the next free one
        uint32_t prev;
    };

    static constexpr unsigned finest_ = 8; // log2 of a slot's length at level 0
    static constexpr unsigned levels_ = 10;
    static constexpr unsigned near_level_ = 2; // slots of a millisecond: what is in one fires soon
    static constexpr unsigned few_ = 32;       // so many next() looks at
    static constexpr unsigned a_few_ = 8;      // so many are sorted where they are, if all are due
    static constexpr unsigned batch_ = 32;     // so many are fetched into the cache together
    // The first entries are heads of lists: some for each slot, set up when its first timer comes, and one of those
    // due. Slots that may hold many have several lists: to walk through them is to wait for several misses at a time.
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
    uint32_t first_slot() const;               // there is one
    uint64_t start_of(uint32_t slot) const;    // of one that is not empty
    uint32_t any_in(uint32_t slot) const;      // 0: none
    [[gnu::noinline]] void move(Timer* timer); // out of the way of set(), which mostly has nothing to do
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
    uint32_t size_ = 0;       // in use
    uint32_t fresh_ = 0;      // never used since the memory was new: from here on
    uint32_t free_ = 0;       // the first that was given back; 0: none
    uint32_t least_ = 0;      // the earliest of the wheel, if it is known; else 0
    uint32_t level_mask_ = 0; // a bit for each level that is not empty
    uint64_t slot_mask_[levels_] = {};
    uint64_t base_ = 0;    // what is not later is in the list of those due, sorted; at most the end of now's slot
    uint64_t soonest_ = 0; // no key is earlier
    uint64_t sequence_ = 0;
};

} // namespace fiberrt
