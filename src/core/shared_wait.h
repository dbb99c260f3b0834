// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait that another cord may end. One side ends it, never both: another cord completes it, or the waiter's cord ends
// it early. For an `EndWait` that is the side that takes it out of its list. For a `SyncWait` (sync/waiting.h) it is
// the side that claims it; a wait that was ended early leaves its lists afterwards.
//
// A completing thread of another cord sends the wait itself to the waiter's cord, as a message. The waiter returns only
// once that message has arrived. So no thread touches a wait on a stack after its fiber has continued.
//
// A thread without a cord can wait in the same way: it sleeps on a word of the wait.
//
// A completed wait may have been given a lock, a permit or an item. If its fiber never runs again, because the thread
// ends first, `on_orphaned` passes that on.
#pragma once

#include "base/list.h"
#include "base/spin_lock.h"
#include "core/inbox.h"
#include "core/wait.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct SharedWait : Link, Wait, Message {
    Cord* home = nullptr; // the waiter's cord; null: a thread without a cord waits
    // Called if the fiber of the completed wait never runs again: passes on the lock, permit or item, if the wait was
    // given one, or frees memory of the call. Until the fiber continues, the completed wait is in the list `ended` of
    // its cord. Null: the wait leaves nothing to pass on or free, and is not in that list.
    void (*on_orphaned)(SharedWait* wait) = nullptr;
    // 1 once the result is stored, if no message brings it: a thread without a cord sleeps on this word, and a fiber
    // whose own thread completes the wait before it parks reads it.
    std::atomic<uint32_t> answered{0};
};

// A wait for the end of a fiber, or of a cord.
struct EndWait : SharedWait {
    SpinLock* lock = nullptr; // guards the list
    ShortList<EndWait>* list = nullptr;
    uint64_t target = 0;     // handle of the fiber or cord; fiber_dump prints it
    uint32_t generation = 0; // of the fiber: the list belongs to its slot, and outlives it
    void* value = nullptr;   // a second result: the value that the fiber or cord returned
    bool unrun = false;      // the fiber has ended without having run
    bool joins = true;       // the wait joins; false: it leaves the fiber to be joined
    // If not null, this is a case of a select, and this points to the select's wait. That one is completed in place of
    // this one, if claim(this), called under the list's lock, returns true.
    SharedWait* select_wait = nullptr;
    bool (*claim)(EndWait* wait) = nullptr;
};

// Prepares a wait for a list; the caller then adds it under that list's lock.
void end_wait_prepare(Cord& cord, EndWait& wait, SpinLock& lock, ShortList<EndWait>& list);

// Ends a wait early. The wait's own `stop` calls this once it has taken the wait out of the list.
void shared_wait_stopped(SharedWait& wait, int reason);

// The slow parts of core/scheduler.h's shared_wait_prepare, shared_wait_complete and shared_wait_park.
void shared_wait_come_home(Cord& cord, Message* message);
void shared_wait_complete_slowly(SharedWait* wait);
int64_t shared_wait_park_thread(SharedWait& wait, int64_t deadline, bool (*withdraw)(SharedWait& wait));

// Stores the result and completes the wait, or the wait that it stands for: see shared_wait_complete.
void end_wait_complete(EndWait* wait, int64_t result);

// Calls `on_orphaned` for all waits whose fibers will not run, when the cord's thread ends.
void shared_waits_orphaned(Cord& cord);

// Drops a prepared wait that was not put into its list, or that its own fiber has taken out again.
void shared_wait_drop(Cord& cord);

// Takes the waits that pick(wait) chooses out of a list, under its lock. Returns the first; its message links to the
// others. The caller completes them by end_waits_complete, without the lock, because that may ring.
template <class Pick>
EndWait* end_waits_take(ShortList<EndWait>& list, Pick pick) {
    ShortList<EndWait> stay;
    EndWait* first = nullptr;
    Message* last = nullptr;
    while (EndWait* wait = list.pop_front()) {
        if (!pick(wait)) {
            stay.push_back(wait);
            continue;
        }
        if (wait->claim && !wait->claim(wait)) continue;
        Message* message = wait;
        message->next = nullptr;
        if (last) {
            last->next = message;
        } else {
            first = wait;
        }
        last = message;
    }
    list = stay;
    return first;
}
void end_waits_complete(EndWait* wait, void* value, int64_t result);

} // namespace fiberrt
