// SPDX-License-Identifier: MIT OR Apache-2.0
// Events: waiting for one and setting one.
// fuzz: waiting 75 %
#include "sync/event.h"

#include "sync/one_wait.h"

namespace fiberrt {

namespace {

void event_unwanted(SyncWait& wait) {
    auto& event = static_cast<Event&>(*wait.winner->list);
    if (wait.winner->number) event_set(event); // else the event is manual, and still set
}

} // namespace

constinit const WaiterKind event_waiter = {"for an event", nullptr, event_unwanted};

int event_wait(Event& event, Caller caller, int64_t timeout_ns) {
    return wait_unless(event, caller, timeout_ns, event_waiter, event.alone(),
                       [&] { return event.try_take() ? 0 : -EAGAIN; });
}

void event_set(Event& event) {
    Changing changing(event);
    if (event.manual) {
        event.is_set = true;
        changing.take_all(event, 0);
    } else if (Waiter* waiter = event.take_first()) {
        changing.add(waiter, 0);
    } else {
        event.is_set = true;
    }
}

} // namespace fiberrt
