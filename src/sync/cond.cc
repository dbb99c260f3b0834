// SPDX-License-Identifier: MIT OR Apache-2.0
// Condition variables: waiting and signalling.
// fuzz: waiting 80 %
#include "sync/cond.h"

#include "core/noswitch.h"
#include "sync/one_wait.h"

namespace fiberrt {

namespace {

// Passes a signal on to the next waiter. A broadcast has woken all waiters, so it need not be passed on.
void return_signal(SyncWait& wait) {
    if (wait.selected->number) cond_signal(static_cast<Cond&>(*wait.selected->list));
}

constexpr WaiterKind to_be_signalled = {"for a condition", nullptr, return_signal};

// Returns why the wait does not begin. If other fibers run meanwhile, the mutex is unlocked for that time: the fiber
// that the caller waits for may need to lock it.
int refuse(Mutex& mutex, Caller caller) {
    if (noswitch_refuses(caller.fiber)) return -EPERM;
    if (caller.charge_makes_poll_due()) { // before the interrupt is consumed, as in check_pending()
        mutex_unlock(mutex, caller);
        poll_and_give_way(*caller.cord);
        if (int locked = mutex_lock(mutex, caller, FIBER_FOREVER, false)) return locked;
    }
    return why_refused(*caller.cord, caller.fiber);
}

} // namespace

int cond_wait(Cond& cond, Mutex& mutex, Caller caller, int64_t timeout_ns) {
    if (!mutex.held_by(caller.identity())) return -EPERM;
    if (int error = caller.prepare()) return error; // a cancel may arrive in prepare()
    if (caller.fiber && caller.fiber->sched.pending) return refuse(mutex, caller);
    int64_t deadline = caller.deadline(timeout_ns);
    OneWait one(to_be_signalled);
    cond.lock_list();
    one.join(cond, caller.cord); // before the mutex is unlocked, so a signal given under the mutex finds the waiter
    cond.unlock_list();
    mutex_unlock(mutex, caller);
    int result = int(one.wait.park(deadline));
    bool may_pass_on = !result && caller.cord; // passes the signal on if the thread ends before it has locked the mutex
    if (may_pass_on) caller.cord->shared.ended.push_back(&one.wait);
    int locked = mutex_lock(mutex, caller, FIBER_FOREVER, false);
    if (may_pass_on) caller.cord->shared.ended.remove(&one.wait);
    return locked ? locked : result; // locked: -EOWNERDEAD, or -EDEADLK if the wait could never end
}

void cond_signal(Cond& cond) {
    LockedList locked(cond);
    Waiter* waiter = cond.claim_first();
    if (!waiter) return;
    waiter->number = 1;
    locked.add(waiter, 0);
}

void cond_broadcast(Cond& cond) {
    LockedList locked(cond);
    locked.claim_all(cond, 0);
}

} // namespace fiberrt
