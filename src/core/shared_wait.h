// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait that another cord may end. It stands in a list with a lock, and whoever takes it out of that list ends it: the
// one side to complete it, the waiter's own side to end it early. Never both.
//
// Who completes it on another cord sends the wait itself home, as a message; the waiter does not return before that has
// come. So a wait on a stack is not touched after its fiber has gone on.
//
// A thread without a cord can wait so too: it sleeps on a word of the wait.
//
// A wait that was completed may have been given something: a lock, a permit, an item. If its fiber never runs again,
// since the thread ends first, `unwanted` passes that on.
#pragma once

#include "base/list.h"
#include "base/spin_lock.h"
#include "core/inbox.h"
#include "core/wait.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct SharedWait : Link, Wait, Message {
    Cord* home = nullptr; // null: it is a thread without a cord that waits
    // Null: nothing is given to it. Else it stands in its cord's list of woken waits until its fiber goes on.
    void (*unwanted)(SharedWait* wait) = nullptr;
    // 1 once the result is there, if its thread is to find that out itself: one without a cord sleeps on this.
    std::atomic<uint32_t> answered{0};
};

// One for the end of a fiber or of a cord, in a list of those.
struct EndWait : SharedWait {
    SpinLock* lock = nullptr; // of the list
    ShortList<EndWait>* list = nullptr;
    uint64_t whom = 0;       // the handle of whose end it waits for: told by fiber_dump
    uint32_t generation = 0; // of what is waited for, where the list outlives it
    void* value = nullptr;   // that completing it brings beside the result
    bool unrun = false;      // the fiber whose end it was has never run
    bool takes = true;       // the end is told to it alone and others that take it; false: it stays to be joined
    // One of the things that another wait waits for: that one is completed in its place, if wins(this) says so under
    // the lock of the list.
    SharedWait* stands_for = nullptr;
    bool (*wins)(EndWait* wait) = nullptr;
};

// Makes a wait ready to be put into a list, which the caller then does under that list's lock.
void end_wait_prepare(Cord& cord, EndWait& wait, SpinLock& lock, ShortList<EndWait>& list);

// Of one that has its own way to leave what it stands in, `stop` calls this once it has.
void shared_wait_stopped(SharedWait& wait, int reason);

// core/relay.h has what else there is to such waits: shared_wait_prepare, shared_wait_park and shared_wait_complete.
void shared_wait_come_home(Cord& cord, Message* message);
void shared_wait_complete_slowly(SharedWait* wait);
int64_t shared_wait_park_thread(SharedWait& wait, int64_t deadline, bool (*leave)(SharedWait& wait));

// Stores the result and completes it, or what it stands for: see shared_wait_complete.
void end_wait_complete(EndWait* wait, int64_t result);

// The cord's thread ends: passes on what was given to fibers that will not run.
void shared_waits_unwanted(Cord& cord);

// The wait was not put into the list, or was taken out again by its own fiber.
void shared_wait_drop(Cord& cord);

// Takes the waits that pick(wait) chooses out of a list, under its lock: the first of them, from which the others hang
// by their messages. They are completed without the lock, as that may ring.
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
        if (wait->wins && !wait->wins(wait)) continue;
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
