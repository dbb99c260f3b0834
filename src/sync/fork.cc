// SPDX-License-Identifier: MIT OR Apache-2.0
// Repairs the primitives in the child of a fork, where only the forking fiber continues: empties the lists of waiters,
// passes on the permits, items and signals that other fibers of the thread were given and have not taken, and orphans
// the mutexes that these fibers hold.
//
// Lists that another thread may have been changing are not touched. The first caller that locks such a list in the
// child empties it (Waiters::lock_list). The first caller that locks a mutex sees by its word whether the holder exists
// in this process (recover() in mutex.cc): the fork changes the stamp of identities, and the mutexes of the forking
// thread get the new stamp.
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

// Empties the lists of a process without other threads: Waiters::lock_list would not do it, as there are no stamps
// then. No list was being changed.
void empty_lists(const Cord& cord) { // coverage: forked
    each_fiber_of(cord, [](Fiber* fiber) {
        if (fiber->sched.state != State::waiting || fiber->wait->stop != SyncWait::stop_early) return;
        auto& wait = *static_cast<SyncWait*>(fiber->wait);
        for (uint32_t i = 0; i < wait.count; i++) {
            if (Waiters* list = wait.waiters[i].list) list->drop_all();
        }
    });
}

// Passes on the permits, items and signals that fibers of the cord were given.
void pass_on(Cord& cord) { // coverage: forked
    while (SharedWait* shared = cord.shared.ended.pop_front()) {
        if (shared->on_orphaned != SyncWait::pass_on) continue; // an offloaded function: it belongs to the parent
        auto& wait = *static_cast<SyncWait*>(shared);
        for (uint32_t i = 0; i < wait.count; i++) {
            if (&wait.waiters[i] != wait.selected) wait.waiters[i].list = nullptr;
        }
        wait.end_watches = nullptr;
        SyncWait::pass_on(&wait);
    }
}

void sync_in_child(const Forked& forked) {
    Cord* cord = forked.cord;
    if (!forked.alone) {
        lock_stamp_renew();
        identity_stamp_renew();
    }
    if (cord) {
        mutexes_of_cord_forked(*cord);
        if (forked.alone) empty_lists(*cord);
        pass_on(*cord);
        each_fiber_of(*cord, [&](Fiber* fiber) {
            if (fiber != forked.fiber && fiber->extras.locks_held) cord->sync.holder_ended(*cord, fiber);
        });
    }
    mutexes_of_thread_forked(cord && forked.fiber != cord->main_flow.fiber);
}

} // namespace

constinit const ForkPart fork_part_of_sync = {channels_lock, channels_unlock, sync_in_child};

} // namespace fiberrt
