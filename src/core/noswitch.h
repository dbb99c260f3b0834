// SPDX-License-Identifier: MIT OR Apache-2.0
// No-switch sections, in which calls that may wait are refused. Builds for debugging (FIBERRT_DEBUG) also tell, on the
// standard error stream, where the call was made and where the section was entered.
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

// The least depth of a section in which a hook of the user's runs, or a function that applies ambient values. Deeper
// than the user's sections and the library's can be otherwise. A multiple of 2^16: sections that the hook enters count
// in the low bits.
constexpr uint32_t hook_section = 2 * (UINT16_MAX + 1);

// Whether the thread is in a hook, or in a function that applies ambient values.
inline bool in_hook(const Cord& cord) { return cord.no_switch.floor >= hook_section; }

// Enter and leave a section of the current fiber. (Always inlined: builds for debugging report the caller's frame.)
[[gnu::always_inline]] inline void noswitch_enter(Cord& cord) {
    if (cord.no_switch.depth++ == 0) noswitch_entered();
    Fiber* me = cord.sched.current;
    me->sched.pending |= pending_noswitch;
    if (!me->uses_stack()) me->sched.drop_step_flags(step_flag_plain); // a step may leave the section open
}
[[gnu::always_inline]] inline void noswitch_leave(Cord& cord) {
    Fiber* me = cord.sched.current;
    if (--cord.no_switch.depth == 0 && me->uses_stack()) me->sched.pending &= uint8_t(~pending_noswitch);
}

// Whether the calling fiber is in a section and may not wait. Builds for debugging then report it.
inline bool noswitch_refuses(const Fiber* me) {
    if (!(me->sched.pending & pending_noswitch)) [[likely]]
        return false;
    noswitch_refused();
    return true;
}

} // namespace fiberrt
