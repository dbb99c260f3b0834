// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosted fibers: fibers without a stack, also called stackless. Their frames belong to a host: a C++ or other runtime.
//
// To timers, scopes, cancels, joiners and wakers, a hosted fiber is a Fiber like others. A hosted fiber with a step is
// a task that is polled: when it is at the head of the run queue, the cord's executor calls its step. The executor is a
// fiber with a stack that is in no queue, and gives way as soon as the next fiber has no step. A hosted fiber without a
// step is offered to the host, which takes it by fiber_exchange. The scheduler recognizes a hosted fiber by its null
// `sp`, as it does a first run, so other switches cost nothing more.
//
// A hosted fiber waits in a Wait, too, which lies in its operation's record. No code parks: a call that would park
// links the Wait and returns `hosted_waits`. When the wait has ended and the fiber's turn has come, `go_on` reads the
// result or waits again, as a fiber with a stack would after park().
//
//   op_start ── begin ──▶ a result: at once
//                 └─────▶ hosted_waits ┄┄ wake: into the run queue ┄┄ its turn ── go_on ──▶ result: step, or handed out
//                              ▲                                                     └────▶ hosted_waits
//                              └─────────────────────────────────────────────────────────────────┘
#pragma once

#include "core/cord.h"
#include "core/scheduler.h"
#include "core/wait.h"

#include <new>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// The result of a call that will continue by go_on. No public call returns it.
constexpr int hosted_waits = must_wait;

// The library's part of an operation's record.
struct HostedOp {
    int64_t (*go_on)(Cord& cord, Fiber* fiber, HostedOp& op); // returns the operation's result, or hosted_waits
    int64_t* result;                                          // the place to store the result
    union {
        int64_t deadline;                                         // of all the operation's waits
        int64_t returned;                                         // the result, once only the host must learn of it
        int64_t (*begin)(Cord& cord, Fiber* fiber, HostedOp& op); // while the operation's begin is put off
    };
    alignas(8) char storage[264]; // the Wait, with the record around it

    template <class T, class... Arguments>
    T& make(Arguments&&... arguments) {
        static_assert(sizeof(T) <= sizeof storage && alignof(T) <= 8);
        return *new (storage) T(static_cast<Arguments&&>(arguments)...);
    }
    template <class T>
    T& in() {
        return *std::launder(reinterpret_cast<T*>(storage));
    }
};

// While an object exists, the hosted fiber is the current one, and its calls may wait: they return hosted_waits.
class Acting {
public:
    Acting(Cord& cord, Fiber* fiber) : cord_(cord), before_(cord.sched.current), fiber_(fiber) {
        cord.sched.current = fiber;
        fiber->sched.pending &= uint8_t(~pending_noswitch);
    }
    ~Acting() {
        fiber_->sched.pending |= pending_noswitch;
        cord_.sched.current = before_;
    }
    Acting(const Acting&) = delete;
    Acting& operator=(const Acting&) = delete;

private:
    Cord& cord_;
    Fiber* before_;
    Fiber* fiber_;
};

// Makes a hosted fiber. executor_class: the class of the executor's stack, if the cord has no executor yet. 0, -ENOMEM,
// -EAGAIN.
int hosted_create(Cord& cord, Kind kind, fiber_step_t step, void* user, uint8_t executor_class, Fiber** out);

// Starts an operation of a running hosted fiber. Returns the operation's result, or hosted_waits. An operation that is
// done at once counts against the budget; when the budget is used up, the next operation begins at a later turn. So a
// fiber that waits for its turn never holds a lock that such an operation took.
int64_t hosted_start(Cord& cord, Fiber* fiber, HostedOp& op, int64_t (*begin)(Cord& cord, Fiber* fiber, HostedOp& op));

// Sets a hosted fiber waiting, in place of park(); the caller returns hosted_waits.
inline int hosted_park(Cord& cord, Fiber* fiber, Wait& wait, int64_t deadline) {
    wait.fiber = fiber;
    fiber->wait = &wait;
    fiber->sched.state = State::waiting;
    if (deadline != never) wait_deadline_set(cord, fiber, deadline);
    return hosted_waits;
}

// Ends a hosted fiber; called on any stack. error: the joiners' result, if not 0.
void hosted_end(Cord& cord, Fiber* fiber, void* result, int error = 0);

// Makes a hosted fiber that is handed out the current fiber, in place of the calling one.
void hosted_enter(Cord& cord, Fiber* fiber);
// Makes the fiber that entered a hosted fiber the current one again. Also called when that fiber or the thread ends
// while a hosted fiber is entered.
void hosted_leave(Cord& cord);

// Offers a runnable hosted fiber to its host.
void hosted_offer(Cord& cord, Fiber* fiber);
// Offers a hosted fiber whose operation is done: the host takes the fiber with the result.
void hosted_offer_done(Cord& cord, Fiber* fiber, HostedOp& op);

// Takes the next fiber that is offered or at the head of the run queue, with the result for its turn; null: none.
Fiber* hosted_take(Cord& cord, int64_t* result, HostedOp** done);

} // namespace fiberrt
