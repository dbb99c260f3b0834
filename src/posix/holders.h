// SPDX-License-Identifier: MIT OR Apache-2.0
// Which fiber holds a lock. The C library knows only the thread: it would let another fiber of the holder's thread
// lock a recursive mutex. Each thread has its own records, which need no lock because a fiber never changes its
// thread.
#pragma once

#include <stdint.h>

namespace fiberrt::posix {

// A held lock of a kind that has an owner.
struct Held {
    const void* lock; // null: the record is free
    uint64_t fiber;
    int owner; // the thread's number that the C library stores in the lock
};

struct Holders;
extern constinit thread_local Holders* holders; // null: no fiber of the thread has locked anything

// Whether a fiber of the calling thread may hold a lock.
inline bool fibers_hold_locks() { return holders; }

// The id of the calling fiber. Opens a cord on a thread that has none.
uint64_t this_fiber();

// The record of a lock; null if there is none. Valid until the next call of a function of this file.
Held* find_held(const void* lock);

// The record of a lock, or the free record that the lock would get; null: there is no memory. The caller may fill in a
// free record by note_held, before it calls another function of this file.
Held* make_held(const void* lock);
void note_held(Held* record, const void* lock, uint64_t fiber, int owner);
void forget_held(Held* record);

// Notes that this fiber of the thread has locked a lock of a kind that has no owner. Only reports need the note, and a
// later note may replace it.
void note_locker(const void* lock, uint64_t fiber);

// Reports a deadlock on standard error: the calling fiber, which may not switch now, blocks its thread in this call
// for a lock that another fiber of the thread holds, so neither fiber will run again. holder: 0 if it is not known.
void report_deadlock(const char* call, const void* lock, uint64_t holder);
uint64_t last_locker(const void* lock); // the fiber of note_locker; 0: not known

} // namespace fiberrt::posix
