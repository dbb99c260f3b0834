// SPDX-License-Identifier: MIT OR Apache-2.0
// Introspection: the state, name and figures of a fiber of any cord, and the statistics of a cord. The calls of
// api/introspection.cc use it.
#pragma once

#include "core/cord.h"
#include "debug/look.h"
#include "debug/unwind.h"
#include "fiberrt.h"

namespace fiberrt {

// The state by its public name (FIBER_NEW, ...).
int public_state(State state);

// Read the state (FIBER_NEW, ...), all public members, and the name of a fiber. It may belong to another cord. If it
// ends meanwhile, they return -ESRCH.
int state_of(Fiber* fiber, fiber_t handle);
int describe(Fiber* fiber, fiber_t handle, fiber_info_t* out);
int describe_briefly(Fiber* fiber, fiber_t handle, fiber_info_t* out); // without a look: the members up to `cord`
// The members that a snapshot tells. function: as Backtrace has it.
void info_of(const Snapshot& seen, uintptr_t function, fiber_info_t* out);
int name_of(Fiber* fiber, fiber_t handle, char (&name)[FIBER_NAME_MAX]);

// Names a fiber. A name that is too long is cut.
void set_name(Fiber* fiber, const char* name);

// A cord as it is known to other threads.
struct CordSnapshot {
    uint64_t id;
    int thread; // Linux's number of its thread
    bool ended; // it has ended, and is not joined yet
    bool closing;
    char name[cord_name_max];
};

// Reads a cord's record. False: it is not in use.
bool describe_cord(Cord* cord, CordSnapshot& out);

// The statistics of the calling thread's cord.
fiber_stats_t stats_of(const Cord& cord);

// The statistics of any cord, read while the cord runs. 0; -ESRCH: the cord of this generation has ended.
int stats_of_any(Cord& cord, uint32_t generation, fiber_stats_t* out);

// Stores the return addresses of the fiber's frames; of the calling fiber from `caller` on, an address in one of its
// functions. Returns how many; -EBUSY: it runs, or gives no chance to look; -ESRCH.
int backtrace_of(Fiber* fiber, fiber_t handle, const void* caller, void** frames, int most);

// The earliest deadline that ends the fiber's wait; `never`: there is none.
int64_t deadline_of(const Snapshot& fiber);

// Follows the stack of a fiber during a look of it, for use as its LookMore. trace: a Backtrace; its count is -1 if the
// fiber's thread runs on the stack.
void follow_stack(const Snapshot& seen, void* trace);

// Follows the stack of the calling fiber, from the frame with the address out.from on.
void follow_own_stack(Backtrace& out);

// Whether the fiber is the one that makes the call.
bool is_caller(const Fiber* fiber);

// Calls visit for each fiber of the process until it returns a value other than 0. Returns the last value.
int each_fiber(int (*visit)(fiber_t fiber, void* arg), void* arg);

} // namespace fiberrt
