// SPDX-License-Identifier: MIT OR Apache-2.0
// fork: in the child nobody waits for anything any more, what the fibers of its thread were given and have not come to is
// passed on, and what they hold has lost its holder.
//
// Lists that other threads could be changing are not looked at. Whoever is the first to take such a list in the child
// empties it (Waiters::enter), and whoever wants a mutex sees by its word whether its holder is no more (inherit() in
// mutex.cc): from the fork on identities are others, but for what the forking thread holds.
#include "sync/fork.h"

#include "sync/channel.h"
#include "sync/mutex.h"

namespace fiberrt {

namespace {

template <class Visit>
void each_fiber_of(const Cord& cord, Visit visit) {
    fibers.each([&](Fiber* fiber) {
        if (fiber->cord.load(std::memory_order_relaxed) == &cord) visit(fiber);
    });
}

// Without other threads the locks know of no stamps: see Waiters::enter. But then the lists are whole.
void empty_lists(const Cord& cord) { // coverage: forked
    each_fiber_of(cord, [](Fiber* fiber) {
        if (fiber->sched.state != State::waiting || fiber->wait->stop != SyncWait::stop_early) return;
        auto& wait = *static_cast<SyncWait*>(fiber->wait);
        for (uint32_t i = 0; i < wait.count; i++) {
            if (Waiters* list = wait.waiters[i].list) list->forget_all();
        }
    });
}

void pass_on(Cord& cord) { // coverage: forked
    while (SharedWait* shared = cord.shared.woken.pop_front()) {
        if (shared->unwanted != SyncWait::pass_on) continue; // a function that was offloaded: it is the parent's
        auto& wait = *static_cast<SyncWait*>(shared);
        for (uint32_t i = 0; i < wait.count; i++) {
            if (&wait.waiters[i] != wait.winner) wait.waiters[i].list = nullptr;
        }
        wait.leave_others = nullptr;
        SyncWait::pass_on(&wait);
    }
}

void in_child(const Survivor& survivor) {
    Cord* cord = survivor.cord;
    if (!survivor.alone) {
        lock_stamp_renew();
        identity_stamp_renew();
    }
    if (cord) {
        mutexes_of_cord_forked(*cord);
        if (survivor.alone) empty_lists(*cord);
        pass_on(*cord);
        each_fiber_of(*cord, [&](Fiber* fiber) {
            if (fiber != survivor.fiber && fiber->extras.held) cord->sync.holder_ended(*cord, fiber);
        });
    }
    mutexes_of_thread_forked(cord && survivor.fiber != cord->main_flow.fiber);
}

} // namespace

constinit const ForkPart fork_part_of_sync = {channels_hold, channels_let_go, in_child};

} // namespace fiberrt
