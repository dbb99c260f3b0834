// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosted fibers: those without a stack, whose frames their hosts run.
//
// To timers, scopes, cancels, joiners and whatever wakes it, a hosted fiber is a Fiber like others. When it is at the
// head of the run queue, one that has a step is run on the stack of the cord's carrier: a fiber that is in no queue,
// and that gives way as soon as somebody else is the next. The relay tells a hosted fiber by its having no `sp`: so it
// meets one on the way of first runs, and to other switches nothing was added. One without a step is offered, to whoever
// is in fiber_exchange.
//
// It waits as others do, in a Wait, but that lies in its operation's record, and nobody parks: a call that would has
// linked the Wait, and says `hosted_waits`. When the wait has ended, and it is the fiber's turn, `go_on` does what a
// fiber with a stack would do after park(): it reads the result, or waits again.
//
//   op_start ── begin ──▶ a result: at once
//                 └─────▶ hosted_waits ┄┄ wake: into the run queue ┄┄ its turn ── go_on ──▶ the result: step, or handed out
//                              ▲                                                     └────▶ hosted_waits
//                              └─────────────────────────────────────────────────────────────────┘
#pragma once

#include "core/cord.h"
#include "core/relay.h"
#include "core/wait.h"

#include <new>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// The result of what goes on later: no call has it.
constexpr int hosted_waits = must_wait;

// The library's part of an operation's record.
struct HostedOp {
    int64_t (*go_on)(Cord& cord, Fiber* fiber, HostedOp& op); // its result, or hosted_waits
    int64_t* result;                                          // where that goes
    union {
        int64_t deadline;                                         // of all its waits
        int64_t returned;                                         // when it has been done, and only has to be told
        int64_t (*begin)(Cord& cord, Fiber* fiber, HostedOp& op); // while it is put off
    };
    alignas(8) char storage[264]; // what it waits in

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

// While one is in scope the hosted fiber is the current one, and its calls may wait: they say hosted_waits.
class Acting {
public:
    Acting(Cord& cord, Fiber* fiber) : cord_(cord), before_(cord.sched.current), fiber_(fiber) {
        cord.sched.current = fiber;
        fiber->sched.attention &= uint8_t(~attention_noswitch);
    }
    ~Acting() {
        fiber_->sched.attention |= attention_noswitch;
        cord_.sched.current = before_;
    }
    Acting(const Acting&) = delete;
    Acting& operator=(const Acting&) = delete;

private:
    Cord& cord_;
    Fiber* before_;
    Fiber* fiber_;
};

// Makes one; carrier_class: the stack of the carrier, if there is none yet. 0, -ENOMEM, -EAGAIN.
int hosted_create(Cord& cord, Kind kind, fiber_step_t step, void* user, uint8_t carrier_class, Fiber** out);

// Starts an operation of a fiber that runs: its result, or hosted_waits.
int64_t hosted_start(Cord& cord, Fiber* fiber, HostedOp& op, int64_t (*begin)(Cord& cord, Fiber* fiber, HostedOp& op));

// park() of a hosted fiber, which does not park: the caller returns hosted_waits.
inline int hosted_park(Cord& cord, Fiber* fiber, Wait& wait, int64_t deadline) {
    wait.fiber = fiber;
    fiber->wait = &wait;
    fiber->sched.state = State::waiting;
    if (deadline != never) wait_deadline_set(cord, fiber, deadline);
    return hosted_waits;
}

// It ends, on whatever stack. error: what its joiners get instead.
void hosted_end(Cord& cord, Fiber* fiber, void* result, int error = 0);

// One that is handed out is the current fiber, in the place of the one that is, its host.
void hosted_enter(Cord& cord, Fiber* fiber);
// Its host is the current one again. Also when that, or its thread, ends without having said so.
void hosted_leave(Cord& cord);

// It is runnable, and its host is to take it.
void hosted_offer(Cord& cord, Fiber* fiber);
// The same of one whose operation has been done: the result is there, and its host is to be told.
void hosted_offer_done(Cord& cord, Fiber* fiber, HostedOp& op);

// Takes the next one that is offered or at the head of the queue, with what its turn is called with; null: none.
Fiber* hosted_take(Cord& cord, int64_t* result, HostedOp** done);

} // namespace fiberrt
