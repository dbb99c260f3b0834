// SPDX-License-Identifier: MIT OR Apache-2.0
// Signal handlers of adopted libraries. A handler runs on the stack of the code that it interrupted, which may be code
// of libfiberrt, so a blocking call in the handler must block the thread. A function of handlers.cc calls the handler,
// and notes where it runs. A handler may leave by siglongjmp, so a note is valid only while the stack shows that the
// handler still runs. If it has left a fiber's wait, the scheduler still counts that fiber among the waiting ones, and
// the operation has addresses on the stack: so from then on each call of the thread blocks it.
#pragma once

#include "fiberrt.h"

#include <stdint.h>

namespace fiberrt::posix {

// The outermost handler that runs on the thread, on a stack of fibers or on the alternative stack.
struct HandlerNotes {
    uintptr_t frame = 0; // of the function that called the handler; 0: no handler runs on a stack of fibers
    fiber_t fiber = {};  // the fiber on whose stack the frame is
    uintptr_t alternative_begin = 0;
    uintptr_t alternative_end = 0; // 0: no handler runs there
    bool in_wait = false;          // the handler interrupted a wait of the fiber on whose stack the thread waits
    bool has_left_wait = false;    // a handler has left a wait; frame is not 0 from then on
};
extern constinit thread_local HandlerNotes handler_notes;

bool still_in_handler();

// Whether the thread runs a signal handler of an adopted library, or must block because a handler has left a wait.
inline bool in_handler() {
    if (!handler_notes.frame && !handler_notes.alternative_end) [[likely]]
        return false;
    return still_in_handler();
}

} // namespace fiberrt::posix
