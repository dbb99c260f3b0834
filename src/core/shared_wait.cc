// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits that other cords may end.
#include "core/shared_wait.h"

#include "base/check.h"
#include "core/cord.h"
#include "core/relay.h"

namespace fiberrt {

namespace {

void come_home(Cord& cord, Message* message) {
    auto* wait = static_cast<SharedWait*>(message);
    cord.shared_waits--;
    wake(wait, wait->answer);
}

void stop_shared(Wait* base, int reason) {
    auto* wait = static_cast<SharedWait*>(base);
    {
        Locked locked(*wait->lock);
        if (!wait->linked()) return; // completed already: that counts, and is on its way
        wait->list->remove(wait);
    }
    wait->home->shared_waits--;
    wake(wait, reason);
}

// Completes a wait that has been taken out of its list. From any thread.
void complete(SharedWait* wait, int64_t result) {
    wait->answer = result;
    Cord* home = wait->home;
    if (home == this_cord) {
        if (wait->fiber) {
            come_home(*home, wait);
        } else {
            wait->list = nullptr; // its fiber is just about to find out itself
        }
    } else {
        FIBERRT_CHECK(send(*home, wait)); // a cord does not end while a shared wait of its is out
    }
}

} // namespace

void shared_wait_prepare(Cord& cord, SharedWait& wait, SpinLock& lock, ShortList<SharedWait>& list) {
    wait.stop = stop_shared;
    wait.on_deadline = -ETIMEDOUT;
    wait.receive = come_home;
    wait.home = &cord;
    wait.lock = &lock;
    wait.list = &list;
    cord.shared_waits++;
}

void shared_wait_drop(Cord& cord) { cord.shared_waits--; }

void shared_waits_complete(SharedWait* wait, void* value, int64_t result) {
    while (wait) {
        auto* next = static_cast<SharedWait*>(wait->Message::next); // the wait is its fiber's again when it is completed
        wait->value = value;
        complete(wait, result);
        wait = next;
    }
}

} // namespace fiberrt
