// SPDX-License-Identifier: MIT OR Apache-2.0
// The lazily kept wheel of timers.h.
// fuzz: runqueue 90 %
#include "core/timers.h"

#include "base/planted.h"

#include <stdlib.h>

namespace fiberrt {

bool Timers::reserve(uint32_t timers) {
    if (timers <= capacity_) return true;
    uint32_t capacity = capacity_ ? capacity_ * 2 : 1024; // so large that it is mapped: growing copies nothing
    while (capacity < timers) {
        capacity *= 2;
        if (PLANTED(growth_doubles_once)) break;
    }
    auto* entries = static_cast<Entry*>(realloc(entries_, (size_t(heads_) + capacity) * sizeof(Entry)));
    if (!entries) return false;
    if (!entries_) {
        entries[due_].next = entries[due_].prev = due_;
        fresh_ = heads_;
    }
    entries_ = entries;
    capacity_ = capacity;
    return true;
}

void Timers::set(Timer* timer, int64_t deadline) {
    timer->deadline = deadline;
    if (deadline == never) return;
    timer->sequence = sequence_++;
    if (timer->position) {
        uint64_t key = entries_[timer->position].key;
        if (key <= uint64_t(deadline) && (PLANTED(due_keep_their_place) || key > base_))
            return; // stays at its old key; but a due timer is moved, as the due list is in order
    }
    move(timer);
}

// Puts the timer where its deadline belongs.
void Timers::move(Timer* timer) {
    uint32_t id = timer->position;
    if (id) {
        unlink(id);
    } else {
        id = free_ ? free_ : fresh_++;
        if (id == free_) free_ = entries_[id].next;
        size_++;
        timer->position = id;
        entries_[id].timer = timer;
    }
    entries_[id].key = uint64_t(timer->deadline);
    place(id);
}

void Timers::remove(Timer* timer) {
    timer->deadline = never;
    if (!timer->position) return;
    unlink(timer->position);
    give_back(timer->position);
}

int64_t Timers::next() {
    while (size_) {
        uint32_t id = entries_[due_].next;
        if (id == due_) id = least_;
        if (id && !stale(entries_[id])) return int64_t(entries_[id].key);
        if (id) {
            unlink(id);
            place_anew(id);
        } else {
            uint32_t slot = first_slot(); // no timer is due, so one is in a slot
            if (scan(slot)) continue;
            uint64_t start = start_of(slot);
            return int64_t(start > soonest_ ? start : soonest_); // before soonest_, expired() would not look
        }
    }
    return never;
}

Timer* Timers::expired(int64_t now, int64_t* deadline) {
    while (size_ && uint64_t(now) >= soonest_) {
        uint32_t id = entries_[due_].next;
        uint64_t begins = id != due_ ? entries_[id].key : start_of(first_slot());
        if (begins > uint64_t(now)) {
            soonest_ = begins;
            if (uint64_t(now) > base_) base_ = uint64_t(now); // all slots that have begun are empty
        } else if (id == due_) {
            open(first_slot(), now);
        } else {
            Timer* timer = entries_[id].timer;
            bool fires = !stale(entries_[id]);
            if (fires) {
                if (deadline) *deadline = timer->deadline;
                timer->deadline = never;
            }
            unlink(id);
            place_anew(id);
            if (fires) return timer;
        }
    }
    return nullptr;
}

void Timers::release() {
    free(entries_);
    *this = Timers();
}

uint32_t Timers::first_slot() const {
    unsigned level = unsigned(__builtin_ctz(level_mask_));
    return level * 64 + unsigned(__builtin_ctzll(slot_mask_[level]));
}

uint32_t Timers::any_in(uint32_t slot) const {
    for (uint32_t head = slot * lists_, end = head + lists(slot / 64); head < end; head++) {
        if (entries_[head].next != head) return entries_[head].next;
    }
    return 0;
}

uint64_t Timers::start_of(uint32_t slot) const {
    unsigned bits = shift(slot / 64);
    return entries_[any_in(slot)].key >> bits << bits;
}

void Timers::link(uint32_t id, uint32_t after) {
    uint32_t next = entries_[after].next;
    entries_[id].prev = after;
    entries_[id].next = next;
    entries_[after].next = entries_[next].prev = id;
}

void Timers::unlink(uint32_t id) {
    uint32_t next = entries_[id].next;
    uint32_t prev = entries_[id].prev;
    entries_[prev].next = next;
    entries_[next].prev = prev;
    if (next == prev && next < due_ && !any_in(next / lists_)) vacate(next / lists_);
    if (id == least_) least_ = 0;
}

void Timers::vacate(uint32_t slot) {
    unsigned level = slot / 64;
    slot_mask_[level] &= ~(uint64_t(1) << (slot % 64));
    if (!slot_mask_[level]) level_mask_ &= ~(1u << level);
}

void Timers::place(uint32_t id) {
    const Entry& entry = entries_[id];
    if (entry.key < soonest_) soonest_ = entry.key;
    if (entry.key <= base_) { // most belong at the list's end
        uint32_t after = entries_[due_].prev;
        while (after != due_ && before(entry, entries_[after])) after = entries_[after].prev;
        link(id, after);
        return;
    }
    if (!PLANTED(earlier_one_is_not_the_next) && least_ && entry.key < entries_[least_].key) least_ = id;
    unsigned highest = 63 - unsigned(__builtin_clzll((entry.key ^ base_) | (1u << finest_)));
    unsigned level = (highest - finest_) / 6;
    unsigned number = entry.key >> shift(level) & 63;
    uint32_t slot = level * 64 + number;
    if (!(slot_mask_[level] >> number & 1)) {
        level_mask_ |= 1u << level;
        slot_mask_[level] |= uint64_t(1) << number;
        for (uint32_t head = slot * lists_, end = head + lists(level); head < end; head++)
            entries_[head].next = entries_[head].prev = head;
    }
    uint32_t head = slot * lists_ + id % lists(level);
    link(id, entries_[head].prev);
}

void Timers::place_anew(uint32_t id) {
    Entry& entry = entries_[id];
    if (entry.timer->deadline == never) {
        give_back(id);
    } else {
        entry.key = uint64_t(entry.timer->deadline);
        place(id);
    }
}

void Timers::give_back(uint32_t id) {
    entries_[id].timer->position = 0;
    entries_[id].next = free_;
    free_ = id;
    if (--size_ == 0) soonest_ = UINT64_MAX; // no key
}

// Spreads the timers of the first slot, which time has reached, over lower levels, or sorts them into the due list.
void Timers::open(uint32_t slot, int64_t now) {
    unsigned level = slot / 64;
    uint64_t start = start_of(slot);
    uint64_t last = start + ((uint64_t(1) << shift(level)) - 1);
    bool sorted = level == 0;
    base_ = sorted ? last : start;
    least_ = 0;
    vacate(slot);
    uint32_t lists = Timers::lists(level);
    uint32_t at[lists_];
    for (uint32_t i = 0; i < lists; i++) at[i] = entries_[slot * lists_ + i].next;
    for (;;) {
        // Many at a time: the fibers' control blocks have long been out of every cache, and are fetched together.
        uint32_t batch[batch_];
        unsigned count = 0;
        unsigned before;
        do {
            before = count;
            for (uint32_t i = 0; i < lists; i++) {
                if (at[i] < heads_) continue; // at the list's end
                batch[count++] = at[i];
                at[i] = entries_[at[i]].next;
            }
        } while (count > before && count <= batch_ - lists_);
        bool all = count == before;
        if (level == near_level_) {
            for (unsigned i = 0; i < count; i++) {
                const auto* timer = reinterpret_cast<const char*>(entries_[batch[i]].timer);
                __builtin_prefetch(timer, 1);
                __builtin_prefetch(timer - 64, 1); // the state and the Wait of a fiber that has the timer
            }
        } else if (!sorted && all && count <= a_few_ && last <= uint64_t(now)) {
            base_ = last; // so few are sorted quickly without the levels below
        }
        for (unsigned i = 0; i < count; i++) {
            if (level <= near_level_) {
                place_anew(batch[i]);
            } else {
                place(batch[i]);
            }
        }
        if (all) return;
        sorted = true;
    }
}

// Looks for the earliest entry in the first slot. False: there are too many. True: least_ is set, or entries were moved
// and the caller must look again.
bool Timers::scan(uint32_t slot) {
    uint32_t least = 0;
    unsigned count = 0;
    bool moved = false; // an entry may have moved to a part of the slot that this loop has passed
    for (uint32_t head = slot * lists_, end = head + lists(slot / 64); head < end; head++) {
        for (uint32_t id = entries_[head].next; id != head;) {
            if (count++ == few_) return false;
            uint32_t next = entries_[id].next;
            if (stale(entries_[id])) {
                unlink(id);
                place_anew(id);
                moved = true;
            } else if (!least || entries_[id].key < entries_[least].key) {
                least = id;
            }
            id = next;
        }
    }
    least_ = moved ? 0 : least;
    return true;
}

} // namespace fiberrt
