// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of other threads to a fiber: to wake, cancel, interrupt, join or detach it, or to attach it when it is new.
//
// All requests to a fiber travel to its cord in one message, its RemoteRequests. A requester notes its request there,
// under the lock, and sends the message unless it is on its way already. So nothing is allocated, and ten wakeups are
// one message. The cord that receives the message performs the requests, and drops requests to a fiber that has ended.
//
// The record belongs to the slot, not to one fiber: a slot may be reused while its message is on its way, and tells the
// two fibers apart by their generation. If the slot has moved to another cord meanwhile, the message is sent on.
#pragma once

#include "base/list.h"
#include "base/spin_lock.h"
#include "core/inbox.h"
#include "core/shared_wait.h"

#include <stdint.h>

namespace fiberrt {

struct Fiber;

enum RemoteRequest : uint8_t {
    request_attach = 1, // the fiber is new, made for this cord
    request_wakeup = 2,
    request_cancel = 4,
    request_interrupt = 8,
    request_detach = 16,
    request_join = 32,   // the waits are in joiners
    request_scopes = 64, // cancel the scopes that Scope::asked_for names
};

enum Noted : uint8_t {
    noted_reason = 1,    // the fiber is cancelled: cancel_reason is valid
    noted_interrupt = 2, // the fiber has an interrupt pending: interrupt_value is valid
};

struct RemoteRequests {
    Message message; // first: remote_receive finds the RemoteRequests by it
    SpinLock lock;   // guards all members below
    bool on_its_way;
    uint8_t requested;   // RemoteRequest bits
    uint8_t noted;       // Noted bits
    uint32_t generation; // of the fiber to which the bits belong
    void* cancel_reason;
    void* interrupt_value;
    ShortList<EndWait> joiners; // of other cords; each with the generation it waits for
};

// Send a request to a fiber of another cord, of this generation. 0: its cord will perform the request; -ESRCH: the
// fiber is gone; or an error of the request. join_elsewhere and await_end_elsewhere also wait for the end.
int wakeup_elsewhere(Fiber* fiber, uint32_t generation);
int cancel_elsewhere(Fiber* fiber, uint32_t generation, void* reason);
int interrupt_elsewhere(Fiber* fiber, uint32_t generation, void* value);
int detach_elsewhere(Fiber* fiber, uint32_t generation);
int scopes_elsewhere(Fiber* fiber, uint32_t generation);
int join_elsewhere(Cord& here, Fiber* fiber, uint32_t generation, void** result, int64_t deadline);
int await_end_elsewhere(Cord& here, Fiber* fiber, uint32_t generation, int64_t deadline); // leaves it to be joined

// Adds a wait that stands for another to the waits for a fiber's end. The fiber may belong to any cord; if it belongs
// to `here`, it has not ended. On an error the wait is not in the list, and has been completed at most by -ESRCH.
int join_watch(Cord& here, Fiber* fiber, uint32_t generation, EndWait& wait);
void join_watch_new(Fiber* fiber, EndWait& wait); // for a fiber whose handle no other thread knows yet
bool join_unwatch(Fiber* fiber, EndWait& wait);   // false: the wait is not in the list any more

// Marks the waits of other cords for a fiber's end: the fiber has ended without having run.
void joiners_never_ran(Fiber* fiber);

// Reserves a slot's message for handing over the fiber that is made in it. False: it is on its way to an earlier fiber.
bool remote_reserve(Fiber* fiber);
void remote_unreserve(Fiber* fiber); // the fiber was not handed over, and is gone

// Hands a new fiber to the cord that it was made for. -ESRCH: the cord has ended.
int send_new(Cord& to, Fiber* fiber, bool scheduled);

// Note a request of this cord's, to the fiber that now has the slot. False: there is one already.
bool note_reason(Fiber* fiber, void* reason);
bool note_interrupt(Fiber* fiber, void* value);
bool note_detach(Fiber* fiber);
void* reason_of(Fiber* fiber);
void* take_interrupt(Fiber* fiber); // the interrupt is no longer pending

// Takes the waits of other cords for the end of a fiber that has ended, also those of requests still on their way. The
// caller completes them after it has given the slot back, so that a joiner finds the fiber's handle stale.
EndWait* take_remote_joiners(Fiber* fiber);

// Takes the waits of other cords for a main flow whose function has returned; the caller completes them. Later waits
// are refused.
EndWait* main_flow_returned(Fiber* main);

// Whether another cord's request to detach is on its way to the fiber that now has the slot.
bool detach_is_coming(Fiber* fiber);

// Receives a fiber's message and performs the requests: Message::receive of every RemoteRequests.
void remote_receive(Cord& cord, Message* message);

} // namespace fiberrt
