// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of other threads to a fiber: how they are sent, and what the fiber's cord does when they arrive.
#include "core/mail.h"

#include "base/planted.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/cancel.h"
#include "core/life.h"
#include "core/relay.h"

#include <errno.h>
#include <sched.h>

namespace fiberrt {

namespace {

uint32_t generation_of(const Fiber* fiber) { return fiber->generation.load(std::memory_order_relaxed); }

// Makes the mail that of the fiber of this generation: drops requests to an earlier one. Under the lock.
void make_current(Mail& mail, uint32_t generation) {
    if (mail.generation == generation) return;
    mail.generation = generation;
    mail.wanted = 0;
    mail.held = 0;
}

// Takes the waits for the fiber of this generation out of the list, or all other waits. Under the lock.
EndWait* take_joiners(Mail& mail, uint32_t generation, bool of_it) {
    return end_waits_take(mail.joiners, [=](EndWait* wait) { return (wait->generation == generation) == of_it; });
}

// Sends mail that is marked as on its way to the fiber's cord. -ESRCH: the fiber has ended, or its cord is ending.
int bring(Fiber* fiber) {
    Mail& mail = fiber->mail;
    for (;;) {
        // Acquire: pairs with the releases in life.h. A thread that sees the cord here sees it made; one that sees null
        // sees that the fiber has ended.
        Cord* cord = fiber->cord.load(std::memory_order_acquire);
        if (cord && send(*cord, &mail.message)) return 0;
        EndWait* refused = nullptr;
        EndWait* bereft = nullptr;
        bool gone, ending = false;
        {
            Locked locked(mail.lock);
            // Read again under the lock: the fiber that has the slot by now may rely on this mail.
            uint32_t generation = fiber->generation.load(std::memory_order_acquire);
            gone = generation != mail.generation;
            if (!gone && cord && fiber->cord.load(std::memory_order_relaxed) == cord) {
                // Read again as well: another cord may have the record by now, and the fiber may be that cord's. Else
                // the fiber's cord is ending, and the fiber never runs again. Not waited for: that cord may be waiting
                // for us.
                ending = cord->inbox.is_closed();
            }
            if (gone || ending) {
                mail.on_its_way = false;
                refused = take_joiners(mail, generation, false);
            }
            if (ending) bereft = take_joiners(mail, generation, true);
        }
        end_waits_complete(refused, nullptr, -ESRCH);
        end_waits_complete(bereft, nullptr, -EOWNERDEAD);
        if (gone || ending) return -ESRCH;
        // coverage: race
        sched_yield(); // another cord has just taken the slot
    }
}

// Makes a request: note(mail), under the lock, notes it and returns 0 or an error. Then sends the mail, unless it is on
// its way.
template <class Note>
int request(Fiber* fiber, uint32_t generation, Note note) {
    Mail& mail = fiber->mail;
    {
        Locked locked(mail.lock);
        if (generation_of(fiber) != generation || mail.generation > generation) return -ESRCH;
        make_current(mail, generation);
        hooks::given(&mail); // mail already on its way carries no order for this thread's earlier writes
        int error = note(mail);
        if (error || mail.on_its_way || !mail.wanted) return error;
        mail.on_its_way = true;
    }
    return bring(fiber);
}

} // namespace

int wakeup_elsewhere(Fiber* fiber, uint32_t generation) {
    return request(fiber, generation, [](Mail& mail) {
        mail.wanted |= want_wakeup;
        return 0;
    });
}

int cancel_elsewhere(Fiber* fiber, uint32_t generation, void* reason) {
    return request(fiber, generation, [=](Mail& mail) {
        if (!PLANTED(last_reason_stays) && mail.held & held_reason) return 0;
        mail.held |= held_reason;
        mail.cancel_reason = reason;
        mail.wanted |= want_cancel;
        return 0;
    });
}

int interrupt_elsewhere(Fiber* fiber, uint32_t generation, void* value) {
    return request(fiber, generation, [=](Mail& mail) {
        if (mail.held & held_interrupt) return -EBUSY;
        mail.held |= held_interrupt;
        mail.interrupt_value = value;
        mail.wanted |= want_interrupt;
        return 0;
    });
}

int scopes_elsewhere(Fiber* fiber, uint32_t generation) {
    return request(fiber, generation, [](Mail& mail) {
        mail.wanted |= want_scopes;
        return 0;
    });
}

int detach_elsewhere(Fiber* fiber, uint32_t generation) {
    return request(fiber, generation, [=](Mail& mail) {
        if (fiber->life.detached || fiber->main_flow() || (mail.wanted & want_detach)) return -EINVAL;
        mail.wanted |= want_detach;
        fiber->requests.asked_elsewhere = true;
        return 0;
    });
}

namespace {

// Why a fiber of another cord may not wait for this one's end; 0: it may. takes: the wait joins. Under the lock.
int why_not_awaited(const Fiber* fiber, bool takes) {
    if (fiber->main_flow() && fiber->life.detached) return -EOWNERDEAD; // its function has returned
    return takes && (fiber->life.detached || (fiber->mail.wanted & want_detach)) ? -EINVAL : 0;
}

int wait_for_end(Cord& here, Fiber* fiber, uint32_t generation, void** result, int64_t deadline, bool takes) {
    EndWait wait;
    wait.takes = takes;
    end_wait_prepare(here, wait, fiber->mail.lock, fiber->mail.joiners);
    wait.what = WaitFor::foreign_fiber;
    wait.whom = make_id(Tag::fiber, fiber->index, generation);
    wait.generation = generation;
    bool listed = false;
    int error = request(fiber, generation, [&](Mail& mail) {
        if (int refused = why_not_awaited(fiber, takes)) return refused;
        mail.joiners.push_back(&wait);
        listed = true;
        mail.wanted |= want_join;
        fiber->requests.asked_elsewhere = true;
        return 0;
    });
    // The wait was never in the list, or bring() took it out. Else the fiber's end has taken it out meanwhile, and
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
    Locked locked(fiber->mail.lock);
    wait.generation = generation_of(fiber);
    fiber->mail.joiners.push_back(&wait);
    fiber->requests.asked_elsewhere = true;
}

int join_watch(Cord& here, Fiber* fiber, uint32_t generation, EndWait& wait) {
    if (fiber->cord.load(std::memory_order_relaxed) == &here) {
        join_watch_new(fiber, wait);
        return 0;
    }
    wait.generation = generation;
    return request(fiber, generation, [&](Mail& mail) {
        if (int refused = why_not_awaited(fiber, true)) return refused;
        mail.joiners.push_back(&wait);
        mail.wanted |= want_join;
        fiber->requests.asked_elsewhere = true;
        return 0;
    });
}

bool join_unwatch(Fiber* fiber, EndWait& wait) {
    Locked locked(fiber->mail.lock);
    if (!wait.linked()) return false;
    fiber->mail.joiners.remove(&wait);
    return true;
}

void joiners_never_ran(Fiber* fiber) {
    ShortList<EndWait>& joiners = fiber->mail.joiners;
    Locked locked(fiber->mail.lock);
    for (EndWait* wait = joiners.front(); wait; wait = joiners.after(wait)) {
        if (wait->generation == generation_of(fiber)) wait->unrun = true;
    }
}

bool mail_reserve(Fiber* fiber) {
    Mail& mail = fiber->mail;
    Locked locked(mail.lock);
    if (mail.on_its_way) return false;
    make_current(mail, generation_of(fiber));
    mail.on_its_way = true;
    return true;
}

void mail_unreserve(Fiber* fiber) {
    Locked locked(fiber->mail.lock);
    fiber->mail.on_its_way = false;
}

int send_new(Cord& to, Fiber* fiber, bool scheduled) {
    Mail& mail = fiber->mail;
    {
        Locked locked(mail.lock);
        mail.wanted |= uint8_t(want_adopt | (scheduled ? want_wakeup : 0));
    }
    return send(to, &mail.message) ? 0 : -ESRCH;
}

bool note_reason(Fiber* fiber, void* reason) {
    Mail& mail = fiber->mail;
    Locked locked(mail.lock);
    make_current(mail, generation_of(fiber));
    if (mail.held & held_reason) return false;
    mail.held |= held_reason;
    mail.cancel_reason = reason;
    return true;
}

bool note_interrupt(Fiber* fiber, void* value) {
    Mail& mail = fiber->mail;
    Locked locked(mail.lock);
    make_current(mail, generation_of(fiber));
    if (mail.held & held_interrupt) return false;
    mail.held |= held_interrupt;
    mail.interrupt_value = value;
    return true;
}

bool note_detach(Fiber* fiber) {
    Mail& mail = fiber->mail;
    Locked locked(mail.lock);
    make_current(mail, generation_of(fiber));
    if (fiber->life.detached || (mail.wanted & want_detach)) return false;
    fiber->life.detached = true; // a later request finds it here
    return true;
}

void* reason_of(Fiber* fiber) {
    Locked locked(fiber->mail.lock);
    return fiber->mail.cancel_reason;
}

void* take_interrupt(Fiber* fiber) {
    Locked locked(fiber->mail.lock);
    fiber->mail.held &= uint8_t(~held_interrupt);
    return fiber->mail.interrupt_value;
}

EndWait* joiners_in_mail(Fiber* fiber) {
    Locked locked(fiber->mail.lock);
    return take_joiners(fiber->mail, generation_of(fiber), true);
}

EndWait* main_flow_returned(Fiber* main) {
    Locked locked(main->mail.lock);
    main->life.detached = true;
    return take_joiners(main->mail, generation_of(main), true);
}

bool detach_is_coming(Fiber* fiber) {
    Mail& mail = fiber->mail;
    Locked locked(mail.lock);
    return mail.generation == generation_of(fiber) && (mail.wanted & want_detach);
}

void mail_receive(Cord& cord, Message* message) {
    Mail& mail = *reinterpret_cast<Mail*>(message);
    Fiber* fiber = fiber_of(&mail);
    Cord* owner = fiber->cord.load(std::memory_order_relaxed);
    if (owner != &cord && owner != bound_for(&cord)) {
        bring(fiber); // the slot is free, or another cord's by now
        return;
    }
    // The fiber is ours from here on. Before the mail may be sent again: senders send it to the cord that this names.
    fiber->cord.store(&cord, std::memory_order_release);
    uint32_t generation = generation_of(fiber);
    uint8_t wanted;
    EndWait* stale;
    {
        Locked locked(mail.lock);
        hooks::taken(&mail);
        wanted = mail.generation == generation ? mail.wanted : 0;
        mail.wanted = 0;
        mail.on_its_way = false;
        if (wanted & want_detach) fiber->life.detached = true; // a later request finds it here
        stale = take_joiners(mail, generation, false);
    }
    end_waits_complete(stale, nullptr, -ESRCH);
    // Each of these may free the fiber.
    auto freed = [&] { return generation_of(fiber) != generation; };
    if (wanted & want_adopt) adopt(cord, fiber);
    if (freed()) return;
    if (wanted & want_join) joined_from_elsewhere(cord, fiber);
    if (freed()) return;
    if (wanted & want_wakeup) wake_up(cord, fiber, nullptr);
    if (wanted & want_cancel) cancel(cord, fiber);
    if (freed()) return;
    if (wanted & want_scopes) scopes_asked(cord, fiber);
    if (wanted & want_interrupt) interrupt(cord, fiber);
    if (wanted & want_detach) detach(cord, fiber);
}

} // namespace fiberrt
