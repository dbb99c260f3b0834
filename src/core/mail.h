// SPDX-License-Identifier: MIT OR Apache-2.0
// What other threads want of a fiber: to be woken, cancelled, interrupted, joined, detached, taken over when it is
// made.
//
// A fiber's mail is the one message by which all of that travels to the fiber's cord. Who wants something says so in
// the mail, under its lock, and sends it unless it is on its way already: so nothing is allocated, and ten wakeups are
// one message. The cord that receives it does what is wanted; what was meant for a fiber that has ended is dropped.
//
// The mail belongs to the slot, not to one fiber: a slot may be reused while its mail is on its way, and it tells the
// two fibers apart by their generation. If the slot has moved to another cord meanwhile, the mail is sent on.
#pragma once

#include "base/list.h"
#include "base/spin_lock.h"
#include "core/inbox.h"
#include "core/shared_wait.h"

#include <stdint.h>

namespace fiberrt {

struct Fiber;

enum Want : uint8_t {
    want_adopt = 1, // it was made for this cord
    want_wakeup = 2,
    want_cancel = 4,
    want_interrupt = 8,
    want_detach = 16,
    want_join = 32,   // by those in joiners
    want_scopes = 64, // to look which of its scopes are to be cancelled
};

enum Held : uint8_t {
    held_reason = 1,    // it is cancelled: cancel_reason is valid
    held_interrupt = 2, // it has an interrupt pending: interrupt_value is valid
};

struct Mail {
    Message message; // first: mail_receive finds the Mail by it
    SpinLock lock;   // of all below
    bool on_its_way;
    uint8_t wanted; // Want bits, and
    uint8_t held;   // Held bits, of the fiber of this generation
    uint32_t generation;
    void* cancel_reason;
    void* interrupt_value;
    ShortList<EndWait> joiners; // of other cords; each with the generation it waits for
};

// Each does its work on a fiber of another cord, of a certain generation. 0: its cord will see to it; -ESRCH: it is
// gone; and each its own errors.
int wakeup_elsewhere(Fiber* fiber, uint32_t generation);
int cancel_elsewhere(Fiber* fiber, uint32_t generation, void* reason);
int interrupt_elsewhere(Fiber* fiber, uint32_t generation, void* value);
int detach_elsewhere(Fiber* fiber, uint32_t generation);
int scopes_elsewhere(Fiber* fiber, uint32_t generation);
int join_elsewhere(Cord& here, Fiber* fiber, uint32_t generation, void** result, int64_t deadline);
int await_end_elsewhere(Cord& here, Fiber* fiber, uint32_t generation, int64_t deadline); // and leaves it to be joined

// Puts a wait that stands for another into the list of those that wait for a fiber's end; of any cord, if it has not
// ended on this one. 0, or why not: then it is not in the list, and has been completed at most by -ESRCH.
int join_watch(Cord& here, Fiber* fiber, uint32_t generation, EndWait& wait);
void join_watch_new(Fiber* fiber, EndWait& wait); // the same of a fiber that nobody knows yet
bool join_unwatch(Fiber* fiber, EndWait& wait);   // false: it is in the list no more

// The fiber has ended without having run: says so to those who wait for that on other cords.
void joiners_never_ran(Fiber* fiber);

// Keeps a slot's mail for handing over the fiber that is made in it. False: it is under way for an earlier one.
bool mail_reserve(Fiber* fiber);
void mail_unreserve(Fiber* fiber); // it was not handed over, and its use has ended

// Hands a fiber that was made here to its cord. -ESRCH: the cord has ended.
int send_new(Cord& to, Fiber* fiber, bool scheduled);

// Notes a cancel's reason, or an interrupt, of the fiber that has the slot now. False: there was one already.
bool note_reason(Fiber* fiber, void* reason);
bool note_interrupt(Fiber* fiber, void* value);
bool note_detach(Fiber* fiber); // the same: it is detached from here on
void* reason_of(Fiber* fiber);
void* take_interrupt(Fiber* fiber); // it is no longer pending

// The fiber has ended: takes those who wait for that on other cords, also those of whom its cord has not heard yet, out
// of its list, to be completed once the slot is given back: whoever has joined a fiber finds its handle stale.
EndWait* joiners_in_mail(Fiber* fiber);

// The function of a main flow has returned: takes the waits of other cords for its end out of the list, to be
// completed. Later ones are refused.
EndWait* main_flow_returned(Fiber* main);

// Whether a detach from elsewhere is on its way to the fiber that has the slot now: its cord has not heard of it yet.
bool detach_is_coming(Fiber* fiber);

void mail_receive(Cord& cord, Message* message);

} // namespace fiberrt
