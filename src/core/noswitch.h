// SPDX-License-Identifier: MIT OR Apache-2.0
// No-switch sections: what refuses a call in one. Builds for debugging (FIBERRT_DEBUG) also tell, on the standard error stream, where
// the call was made and where the section was entered.
#pragma once

#include "core/fiber.h"

namespace fiberrt {

#ifndef FIBERRT_DEBUG
inline void noswitch_entered() {}
inline void noswitch_refused() {}
#else
void noswitch_entered(); // the outermost section of this thread
void noswitch_refused();
#endif

// Whether the calling fiber may not wait. Then that is told.
inline bool noswitch_refuses(const Fiber* me) {
    if (!(me->attention & attention_noswitch)) [[likely]]
        return false;
    noswitch_refused();
    return true;
}

} // namespace fiberrt
