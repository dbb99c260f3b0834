// SPDX-License-Identifier: MIT OR Apache-2.0
// No-switch sections: what refuses a call in one. Builds for debugging (FIBERRT_DEBUG) also tell, on the standard error
// stream, where the call was made and where the section was entered.
#pragma once

#include "core/cord.h"

namespace fiberrt {

#ifndef FIBERRT_DEBUG
inline void noswitch_entered() {}
inline void noswitch_refused() {}
#else
void noswitch_entered(); // the outermost section of this thread
void noswitch_refused();
#endif

// How deep a section is, at least, in which a hook runs, or what puts ambient values into force: deeper than the user's
// can be, and what the library adds to these. A multiple of 2^16, so that those that a hook enters are counted below.
constexpr uint32_t hook_section = 2 * (UINT16_MAX + 1);

// Whether such a function runs.
inline bool in_hook(const Cord& cord) { return cord.no_switch.floor >= hook_section; }

// Enters a section, and leaves it: of the current fiber. (Always inlined: builds for debugging tell the caller's frame.)
[[gnu::always_inline]] inline void noswitch_enter(Cord& cord) {
    if (cord.no_switch.depth++ == 0) noswitch_entered();
    Fiber* me = cord.sched.current;
    me->sched.attention |= attention_noswitch;
    me->sched.turn &= uint8_t(~turn_plain); // a step may leave the section open
}
[[gnu::always_inline]] inline void noswitch_leave(Cord& cord) {
    Fiber* me = cord.sched.current;
    if (--cord.no_switch.depth == 0 && me->uses_stack()) me->sched.attention &= uint8_t(~attention_noswitch);
}

// Whether the calling fiber may not wait. Then that is told.
inline bool noswitch_refuses(const Fiber* me) {
    if (!(me->sched.attention & attention_noswitch)) [[likely]]
        return false;
    noswitch_refused();
    return true;
}

} // namespace fiberrt
