// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_event_...: events of sync/event.h in the user's memory.
// fuzz: waiting 95 %
#include "sync/event.h"

#include "api/api.h"
#include "api/in_place.h"

#include <bit>
#include <stddef.h>

using namespace fiberrt;
using api::in_place;

// The initialisers in the header set these members. The standard does not promise offsetof for these types, but the
// compilers that build this support it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(Event, manual) == 12 && offsetof(Event, is_set) == 13);
static_assert(std::endian::native == std::endian::little, "FIBER_EVENT_INITIALIZER has both bytes in one word");
#pragma GCC diagnostic pop

int fiber_event_init(fiber_event_t* event, unsigned flags) {
    if (!event || (flags & ~(FIBER_EVENT_MANUAL | FIBER_EVENT_SET))) return -EINVAL;
    auto* made = new (event) Event;
    made->manual = flags & FIBER_EVENT_MANUAL;
    made->is_set = flags & FIBER_EVENT_SET;
    return 0;
}

int fiber_event_wait_timeout(fiber_event_t* event, int64_t timeout_ns) {
    if (!event || timeout_ns < 0) return -EINVAL;
    return event_wait(in_place<Event>(event), Caller::here(), timeout_ns);
}

int fiber_event_wait(fiber_event_t* event) { return fiber_event_wait_timeout(event, FIBER_FOREVER); }

int fiber_event_set(fiber_event_t* event) {
    if (!event) return -EINVAL;
    event_set(in_place<Event>(event));
    return 0;
}

int fiber_event_reset(fiber_event_t* storage) {
    if (!storage) return -EINVAL;
    auto& event = in_place<Event>(storage);
    event.lock_list();
    bool was_set = event.is_set;
    event.is_set = false;
    event.unlock_list();
    return was_set;
}

int fiber_event_is_set(fiber_event_t* storage) {
    if (!storage) return -EINVAL;
    auto& event = in_place<Event>(storage);
    event.lock_list();
    bool is_set = event.is_set;
    event.unlock_list();
    return is_set;
}

int fiber_event_destroy(fiber_event_t* event) { return api::destroy<Event>(event); }
