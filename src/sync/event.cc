// SPDX-License-Identifier: MIT OR Apache-2.0
// Events: waiting for one and setting one.
// fuzz: waiting 75 %
#include "sync/event.h"

#include "sync/one_wait.h"

namespace fiberrt {

namespace {

void return_event(SyncWait& wait) {
    auto& event = static_cast<Event&>(*wait.selected->list);
    if (wait.selected->number) event_set(event); // else the event is manual, and still set
}

} // namespace

constinit const WaiterKind event_waiter = {"for an event", nullptr, return_event};

int event_wait(Event& event, Caller caller, int64_t timeout_ns) {
    return wait_unless(event, caller, timeout_ns, event_waiter, event.serves_one(),
                       [&] { return event.try_take() ? 0 : -EAGAIN; });
}

void event_set(Event& event) {
    LockedList locked(event);
    if (event.manual) {
        event.is_set = true;
        locked.claim_all(event, 0);
    } else if (Waiter* waiter = event.claim_first()) {
        locked.add(waiter, 0);
    } else {
        event.is_set = true;
    }
}

} // namespace fiberrt
