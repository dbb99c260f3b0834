// SPDX-License-Identifier: MIT OR Apache-2.0
// Joins of cords: waiting for a cord's end, and telling the joiners of it.
#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/scheduler.h"
#include "core/shared_wait.h"

namespace fiberrt {

void wake_cord_joiners(Cord& cord, void* result) {
    EndWait* ended;
    bool released;
    {
        Locked locked(cord.lock);
        ended = end_waits_take(cord.joiners, [](EndWait*) { return true; });
        cord.result = result;
        cord.ended = true;
        hooks::tsan_release(&cord);
        released = ended || cord.released;
        if (released) CordTable::end_use(&cord);
    }
    if (released) cord_free(&cord);
    end_waits_complete(ended, result, 0);
}

int cord_join(Cord& here, Cord* cord, uint32_t generation, void** result, int64_t deadline) {
    EndWait wait;
    end_wait_prepare(here, wait, cord->lock, cord->joiners);
    wait.what = WaitFor::cord;
    wait.target = make_id(Tag::cord, cord->index, generation);
    bool ended;
    {
        Locked locked(cord->lock);
        if (cord->generation.load(std::memory_order_relaxed) != generation) { // coverage: race
            shared_wait_drop(here);
            return -ESRCH;
        }
        ended = cord->ended;
        if (!ended) {
            cord->joiners.push_back(&wait); // from here on the wait is also the cord's that ends
        } else {
            wait.value = cord->result;
            CordTable::end_use(cord);
        }
    }
    if (ended) {
        hooks::tsan_acquire(cord);
        shared_wait_drop(here);
        KeepErrno keep;
        cord_free(cord);
    } else {
        int error = int(park(here, wait, deadline));
        if (error) return error;
    }
    if (result) *result = wait.value;
    return 0;
}

void cord_detach(Cord* cord, uint32_t generation) { // coverage: no memory
    {
        Locked locked(cord->lock);
        if (cord->generation.load(std::memory_order_relaxed) != generation) return;
        cord->released = true;
        if (!cord->ended) return;
        CordTable::end_use(cord);
    }
    KeepErrno keep;
    cord_free(cord);
}

} // namespace fiberrt
