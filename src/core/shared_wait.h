// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait that another cord may end. It stands in a list with a lock, and whoever takes it out of that list ends it: the
// one side to complete it, the waiter's own side to end it early. Never both.
//
// Who completes it on another cord sends the wait itself home, as a message; the waiter does not return before that has
// come. So a wait on a stack is not touched after its fiber has gone on.
#pragma once

#include "base/list.h"
#include "base/spin_lock.h"
#include "core/inbox.h"
#include "core/wait.h"

#include <stdint.h>

namespace fiberrt {

struct SharedWait : Link, Wait, Message {
    Cord* home = nullptr;
    SpinLock* lock = nullptr; // of the list
    ShortList<SharedWait>* list = nullptr;
    uint64_t whom = 0;       // the handle of whose end it waits for: told by fiber_dump
    uint32_t generation = 0; // of what is waited for, where the list outlives it
    void* value = nullptr;   // that completing it brings beside the result
    int64_t answer = 0;      // the result, on its way home
};

// Makes a wait ready to be put into a list, which the caller then does under that list's lock.
void shared_wait_prepare(Cord& cord, SharedWait& wait, SpinLock& lock, ShortList<SharedWait>& list);

// The wait was not put into the list, or was taken out again by its own fiber.
void shared_wait_drop(Cord& cord);

// Takes the waits that pick(wait) chooses out of a list, under its lock: the first of them, from which the others hang
// by their messages. They are completed without the lock, as that may ring.
template <class Pick>
SharedWait* shared_waits_take(ShortList<SharedWait>& list, Pick pick) {
    ShortList<SharedWait> stay;
    SharedWait* first = nullptr;
    Message* last = nullptr;
    while (SharedWait* wait = list.pop_front()) {
        if (!pick(wait)) {
            stay.push_back(wait);
            continue;
        }
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
void shared_waits_complete(SharedWait* first, void* value, int64_t result);

} // namespace fiberrt
