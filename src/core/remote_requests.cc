// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of other threads to a fiber: how they are sent, and what the fiber's cord does when they arrive.
#include "core/remote_requests.h"

#include "base/planted.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/cancel.h"
#include "core/life.h"
#include "core/scheduler.h"

#include <errno.h>
#include <sched.h>

namespace fiberrt {

namespace {

uint32_t generation_of(const Fiber* fiber) { return fiber->generation.load(std::memory_order_relaxed); }

// Makes the record that of the fiber of this generation: drops requests to an earlier one. Under the lock.
void make_current(RemoteRequests& remote, uint32_t generation) {
    if (remote.generation == generation) return;
    remote.generation = generation;
    remote.requested = 0;
    remote.noted = 0;
}

// Takes the waits for the fiber of this generation out of the list, or all other waits. Under the lock.
EndWait* take_joiners(RemoteRequests& remote, uint32_t generation, bool of_it) {
    return end_waits_take(remote.joiners, [=](EndWait* wait) { return (wait->generation == generation) == of_it; });
}

// Sends a record that is marked as on its way to the fiber's cord. -ESRCH: the fiber has ended, or its cord is ending.
int deliver(Fiber* fiber) {
    RemoteRequests& remote = fiber->remote;
    for (;;) {
        // Acquire: pairs with the releases in life.h. A thread that sees the cord here sees it made; one that sees null
        // sees that the fiber has ended.
        Cord* cord = fiber->cord.load(std::memory_order_acquire);
        if (cord && send(*cord, &remote.message)) return 0;
        EndWait* refused = nullptr;
        EndWait* orphaned = nullptr;
        bool gone, ending = false;
        {
            Locked locked(remote.lock);
            // Read again under the lock: the fiber that has the slot by now may rely on this record.
            uint32_t generation = fiber->generation.load(std::memory_order_acquire);
            gone = generation != remote.generation;
            if (!gone && cord && fiber->cord.load(std::memory_order_relaxed) == cord) {
                // Read again as well: another cord may have the record by now, and the fiber may be that cord's. Else
                // the fiber's cord is ending, and the fiber never runs again. Not waited for: that cord may be waiting
                // for us.
                ending = cord->inbox.is_closed();
            }
            if (gone || ending) {
                remote.on_its_way = false;
                refused = take_joiners(remote, generation, false);
            }
            if (ending) orphaned = take_joiners(remote, generation, true);
        }
        end_waits_complete(refused, nullptr, -ESRCH);
        end_waits_complete(orphaned, nullptr, -EOWNERDEAD);
        if (gone || ending) return -ESRCH;
        // coverage: race
        sched_yield(); // another cord has just taken the slot
    }
}

// Makes a request: note(remote), under the lock, notes it and returns 0 or an error. Then sends the record, unless it
// is on its way.
template <class Note>
int request(Fiber* fiber, uint32_t generation, Note note) {
    RemoteRequests& remote = fiber->remote;
    {
        Locked locked(remote.lock);
        if (generation_of(fiber) != generation || remote.generation > generation) return -ESRCH;
        make_current(remote, generation);
        hooks::tsan_release(&remote); // a record already on its way carries no order for this thread's earlier writes
        int error = note(remote);
        if (error || remote.on_its_way || !remote.requested) return error;
        remote.on_its_way = true;
    }
    return deliver(fiber);
}

} // namespace

int wakeup_elsewhere(Fiber* fiber, uint32_t generation) {
    return request(fiber, generation, [](RemoteRequests& remote) {
        remote.requested |= request_wakeup;
        return 0;
    });
}

int cancel_elsewhere(Fiber* fiber, uint32_t generation, void* reason) {
    return request(fiber, generation, [=](RemoteRequests& remote) {
        if (!PLANTED(last_reason_stays) && remote.noted & noted_reason) return 0;
        remote.noted |= noted_reason;
        remote.cancel_reason = reason;
        remote.requested |= request_cancel;
        return 0;
    });
}

int interrupt_elsewhere(Fiber* fiber, uint32_t generation, void* value) {
    return request(fiber, generation, [=](RemoteRequests& remote) {
        if (remote.noted & noted_interrupt) return -EBUSY;
        remote.noted |= noted_interrupt;
        remote.interrupt_value = value;
        remote.requested |= request_interrupt;
        return 0;
    });
}

int scopes_elsewhere(Fiber* fiber, uint32_t generation) {
    return request(fiber, generation, [](RemoteRequests& remote) {
        remote.requested |= request_scopes;
        return 0;
    });
}

int detach_elsewhere(Fiber* fiber, uint32_t generation) {
    return request(fiber, generation, [=](RemoteRequests& remote) {
        if (fiber->life.detached || fiber->main_flow() || (remote.requested & request_detach)) return -EINVAL;
        remote.requested |= request_detach;
        fiber->requests.asked_elsewhere = true;
        return 0;
    });
}

namespace {

// Why a fiber of another cord may not wait for this one's end; 0: it may. joins: the wait joins. Under the lock.
int why_not_awaited(const Fiber* fiber, bool joins) {
    if (fiber->main_flow() && fiber->life.detached) return -EOWNERDEAD; // its function has returned
    return joins && (fiber->life.detached || (fiber->remote.requested & request_detach)) ? -EINVAL : 0;
}

int wait_for_end(Cord& here, Fiber* fiber, uint32_t generation, void** result, int64_t deadline, bool joins) {
    EndWait wait;
    wait.joins = joins;
    end_wait_prepare(here, wait, fiber->remote.lock, fiber->remote.joiners);
    wait.what = WaitFor::foreign_fiber;
    wait.target = make_id(Tag::fiber, fiber->index, generation);
    wait.generation = generation;
    bool listed = false;
    int error = request(fiber, generation, [&](RemoteRequests& remote) {
        if (int refused = why_not_awaited(fiber, joins)) return refused;
        remote.joiners.push_back(&wait);
        listed = true;
        remote.requested |= request_join;
        fiber->requests.asked_elsewhere = true;
        return 0;
    });
    // The wait was never in the list, or deliver() took it out. Else the fiber's end has taken it out meanwhile, and
    // sends it home.
    if (error && (!listed || wait.answered.load(std::memory_order_relaxed))) {
        shared_wait_drop(here);
        return listed ? int(wait.result) : error;
    }
    error = int(park(here, wait, deadline));
    if (!error && result) *result = wait.value;
    return error;
}

} // namespace

int join_elsewhere(Cord& here, Fiber* fiber, uint32_t generation, void** result, int64_t deadline) {
    return wait_for_end(here, fiber, generation, result, deadline, true);
}

int await_end_elsewhere(Cord& here, Fiber* fiber, uint32_t generation, int64_t deadline) {
    return awaited(wait_for_end(here, fiber, generation, nullptr, deadline, false));
}

void join_watch_new(Fiber* fiber, EndWait& wait) {
    Locked locked(fiber->remote.lock);
    wait.generation = generation_of(fiber);
    fiber->remote.joiners.push_back(&wait);
    fiber->requests.asked_elsewhere = true;
}

int join_watch(Cord& here, Fiber* fiber, uint32_t generation, EndWait& wait) {
    if (fiber->cord.load(std::memory_order_relaxed) == &here) {
        join_watch_new(fiber, wait);
        return 0;
    }
    wait.generation = generation;
    return request(fiber, generation, [&](RemoteRequests& remote) {
        if (int refused = why_not_awaited(fiber, true)) return refused;
        remote.joiners.push_back(&wait);
        remote.requested |= request_join;
        fiber->requests.asked_elsewhere = true;
        return 0;
    });
}

bool join_unwatch(Fiber* fiber, EndWait& wait) {
    Locked locked(fiber->remote.lock);
    if (!wait.linked()) return false;
    fiber->remote.joiners.remove(&wait);
    return true;
}

void joiners_never_ran(Fiber* fiber) {
    ShortList<EndWait>& joiners = fiber->remote.joiners;
    Locked locked(fiber->remote.lock);
    for (EndWait* wait = joiners.front(); wait; wait = joiners.after(wait)) {
        if (wait->generation == generation_of(fiber)) wait->unrun = true;
    }
}

bool remote_reserve(Fiber* fiber) {
    RemoteRequests& remote = fiber->remote;
    Locked locked(remote.lock);
    if (remote.on_its_way) return false;
    make_current(remote, generation_of(fiber));
    remote.on_its_way = true;
    return true;
}

void remote_unreserve(Fiber* fiber) {
    Locked locked(fiber->remote.lock);
    fiber->remote.on_its_way = false;
}

int send_new(Cord& to, Fiber* fiber, bool scheduled) {
    RemoteRequests& remote = fiber->remote;
    {
        Locked locked(remote.lock);
        remote.requested |= uint8_t(request_attach | (scheduled ? request_wakeup : 0));
    }
    return send(to, &remote.message) ? 0 : -ESRCH;
}

bool note_reason(Fiber* fiber, void* reason) {
    RemoteRequests& remote = fiber->remote;
    Locked locked(remote.lock);
    make_current(remote, generation_of(fiber));
    if (remote.noted & noted_reason) return false;
    remote.noted |= noted_reason;
    remote.cancel_reason = reason;
    return true;
}

bool note_interrupt(Fiber* fiber, void* value) {
    RemoteRequests& remote = fiber->remote;
    Locked locked(remote.lock);
    make_current(remote, generation_of(fiber));
    if (remote.noted & noted_interrupt) return false;
    remote.noted |= noted_interrupt;
    remote.interrupt_value = value;
    return true;
}

bool note_detach(Fiber* fiber) {
    RemoteRequests& remote = fiber->remote;
    Locked locked(remote.lock);
    make_current(remote, generation_of(fiber));
    if (fiber->life.detached || (remote.requested & request_detach)) return false;
    fiber->life.detached = true; // a later request finds it here
    return true;
}

void* reason_of(Fiber* fiber) {
    Locked locked(fiber->remote.lock);
    return fiber->remote.cancel_reason;
}

void* take_interrupt(Fiber* fiber) {
    Locked locked(fiber->remote.lock);
    fiber->remote.noted &= uint8_t(~noted_interrupt);
    return fiber->remote.interrupt_value;
}

EndWait* take_remote_joiners(Fiber* fiber) {
    Locked locked(fiber->remote.lock);
    return take_joiners(fiber->remote, generation_of(fiber), true);
}

EndWait* main_flow_returned(Fiber* main) {
    Locked locked(main->remote.lock);
    main->life.detached = true;
    return take_joiners(main->remote, generation_of(main), true);
}

bool detach_is_coming(Fiber* fiber) {
    RemoteRequests& remote = fiber->remote;
    Locked locked(remote.lock);
    return remote.generation == generation_of(fiber) && (remote.requested & request_detach);
}

void remote_receive(Cord& cord, Message* message) {
    RemoteRequests& remote = *reinterpret_cast<RemoteRequests*>(message);
    Fiber* fiber = fiber_of(&remote);
    Cord* owner = fiber->cord.load(std::memory_order_relaxed);
    if (owner != &cord && owner != bound_for(&cord)) {
        deliver(fiber); // the slot is free, or another cord's by now
        return;
    }
    // The fiber is ours from here on. Before the record may be sent again: senders send it to the cord that this names.
    fiber->cord.store(&cord, std::memory_order_release);
    uint32_t generation = generation_of(fiber);
    uint8_t requested;
    EndWait* stale;
    {
        Locked locked(remote.lock);
        hooks::tsan_acquire(&remote);
        requested = remote.generation == generation ? remote.requested : 0;
        remote.requested = 0;
        remote.on_its_way = false;
        if (requested & request_detach) fiber->life.detached = true; // a later request finds it here
        stale = take_joiners(remote, generation, false);
    }
    end_waits_complete(stale, nullptr, -ESRCH);
    // Each of these may free the fiber.
    auto freed = [&] { return generation_of(fiber) != generation; };
    if (requested & request_attach) fiber_attach(cord, fiber);
    if (freed()) return;
    if (requested & request_join) joined_from_elsewhere(cord, fiber);
    if (freed()) return;
    if (requested & request_wakeup) wake_up(cord, fiber, nullptr);
    if (requested & request_cancel) cancel(cord, fiber);
    if (freed()) return;
    if (requested & request_scopes) scopes_asked(cord, fiber);
    if (requested & request_interrupt) interrupt(cord, fiber);
    if (requested & request_detach) detach(cord, fiber);
}

} // namespace fiberrt
