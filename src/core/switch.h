// SPDX-License-Identifier: MIT OR Apache-2.0
// The switch from the stack of one fiber to the stack of another, written in assembly. arch/*.S draws the frame that it
// saves; no other code of the library changes the stack pointer.
#pragma once

#include "arch/offsets.h"
#include "core/cord.h"

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

extern "C" {
// Parks from, makes to the current fiber, and continues to. Returns from->resume when from continues.
int fiberrt_switch(Cord* cord, Fiber* to, Fiber* from);
// Parks from, makes to the current fiber, and starts the first run of to: fn(arg) on the stack that ends at top.
int fiberrt_start(Cord* cord, Fiber* to, Fiber* from, char* top, void* (*fn)(void*), void* arg);
// Continue or start to, which the caller has made the current fiber, when the running fiber has ended: they do not return. to may start on the stack of that fiber.
int fiberrt_leave(Cord* cord, Fiber* to);
int fiberrt_leave_start(Cord* cord, Fiber* to, char* top, void* (*fn)(void*), void* arg);
void fiberrt_entry(); // the first frame of every fiber
}

// Marks a function that contains a switch and returns to the user: it returns by a jump, as the switch itself does (see
// arch/). The processor would predict a `ret` to return to the last caller, and that was another fiber. (Not inlined,
// because the function would lose the attribute.)
#if defined __x86_64__ && !defined __code_model_large__ && __has_attribute(function_return)
#define FIBERRT_RETURNS_BY_JUMP [[gnu::function_return("thunk-extern"), gnu::noinline]]
#else
#define FIBERRT_RETURNS_BY_JUMP [[gnu::noinline]]
#endif

static_assert(offsetof(Fiber, sp) == FIBER_SP);
static_assert(offsetof(Fiber, resume) == FIBER_RESUME);
static_assert(offsetof(Fiber, controls) == FIBER_CONTROLS);
static_assert(offsetof(Fiber, sched.marks) == FIBER_MARKS && mark_exceptions == 1);
static_assert(offsetof(CordWorld, thread_state.errno_address) == CORD_ERRNO);
static_assert(offsetof(CordWorld, thread_state.exceptions) == CORD_EXCEPTIONS);
static_assert(offsetof(CordWorld, sched.current) == CORD_CURRENT);

} // namespace fiberrt
