// SPDX-License-Identifier: MIT OR Apache-2.0
// The switch: from the stack of one fiber to that of another. What it moves is drawn in arch/; nothing else in the
// library changes the stack pointer.
#pragma once

#include "arch/offsets.h"
#include "core/cord.h"

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

extern "C" {
// Parks from, goes on with to; returns, when from goes on, from->resume.
int fiberrt_switch(Cord* cord, Fiber* to, Fiber* from);
// The same to the first run of to: fn(arg) on the stack that ends at top.
int fiberrt_start(Cord* cord, Fiber* to, Fiber* from, char* top, void* (*fn)(void*), void* arg);
// Both once more, when what runs has ended: they do not return. It may have run on the very stack that to begins on.
int fiberrt_leave(Cord* cord, Fiber* to);
int fiberrt_leave_start(Cord* cord, Fiber* to, char* top, void* (*fn)(void*), void* arg);
}

// Of a function in which a switch lies and that returns to the user: it goes on there as the switch itself would (see
// arch/). `ret` would be predicted to return to whoever called it last, and that was another fiber. (Inlined it would
// lose the attribute.)
#if defined __x86_64__ && !defined __code_model_large__ && __has_attribute(function_return)
#define FIBERRT_RETURNS_BY_JUMP [[gnu::function_return("thunk-extern"), gnu::noinline]]
#else
#define FIBERRT_RETURNS_BY_JUMP [[gnu::noinline]]
#endif

static_assert(offsetof(Fiber, sp) == FIBER_SP);
static_assert(offsetof(Fiber, resume) == FIBER_RESUME);
static_assert(offsetof(Fiber, controls) == FIBER_CONTROLS);
static_assert(offsetof(Fiber, sched.exceptions_saved) == FIBER_EXCEPTIONS_SAVED);
static_assert(offsetof(CordWorld, thread_state.errno_address) == CORD_ERRNO);
static_assert(offsetof(CordWorld, thread_state.exceptions) == CORD_EXCEPTIONS);

} // namespace fiberrt
