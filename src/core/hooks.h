// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells sanitizers and Valgrind about stacks and switches. (embed/user_hooks.h tells the user.)
//
// The library finds the sanitizers by weak symbols. So a library built without sanitizers also works in a program built
// with them. Valgrind is told by its client requests, which have no effect elsewhere, if its headers were there at the
// build.
#pragma once

#include "base/order.h" // tsan_release(), tsan_acquire()

#include <stddef.h>
#include <stdint.h>

// 1 where ThreadSanitizer is compiled into the library itself, by either compiler.
#if defined(__SANITIZE_THREAD__)
#define FIBERRT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#define FIBERRT_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define FIBERRT_THREAD_SANITIZER 0
#endif

namespace fiberrt {

struct Cord;
struct Fiber;

namespace hooks {

// Whether a sanitizer must be told of every switch. Then cord.hooked says so, and all switches take the slow way,
// through switch_hooked.
bool wanted();

// Whether the program runs under Valgrind, which answers some system calls itself and does not know light guards.
bool on_valgrind();

// Tells LeakSanitizer of memory that is never unmapped and may hold pointers to allocated memory.
void pointers_made(void* memory, size_t size);

// Tell of a stack, without its guard: it may hold such pointers too. Made once, used by many fibers.
void stack_made(void* low, size_t size);
void stack_gone(void* low, size_t size);
void fiber_gone(Fiber* fiber);                       // the fiber will not run again
void fiber_ended(Cord& cord, Fiber* fiber);          // the current fiber has ended, and runs until the next switch
void memory_filled(const void* memory, size_t size); // the kernel has written there, unseen by Valgrind

// Whether ThreadSanitizer watches descriptors. It learns only from the C library's close that a number is free. So it
// takes a descriptor that a ring closed for open, and the number's next use on another thread for a race.
bool watches_descriptors();

// A stack that a simulated cord has left for another cord's: there all cords share one thread (sim/sim_cords.cc).
struct CordStack {
    const void* low = nullptr; // its bounds, as AddressSanitizer told them at the switch
    size_t size = 0;
    void* tsan_fiber = nullptr;
};

// Parks the running code in *from, or leaves it for good, and continues `to`. Returns when a later call continues
// *from.
void switch_to_other_cord(Cord& cord, Fiber* from, CordStack& left, Fiber* to, CordStack& there, bool for_good);
// Like switch_to_other_cord, but calls first(argument) on the new stack of `there`. first begins with
// begun_on_other_stack().
void start_other_cord(Cord& cord, Fiber* from, CordStack& left, Fiber* to, CordStack& there, bool for_good,
                      void* (*first)(void*), void* argument);
void begun_on_other_stack();
void cord_stack_gone(CordStack& left);

// Make one of arch/'s four switches, and tell the sanitizers and the user before and after it. from null: the running
// fiber has ended.
int switch_hooked(Cord& cord, Fiber* from, Fiber* to);

// Whether the function that begins at this address is the first frame of every fiber (arch/).
bool is_first_frame(uintptr_t function);

// Whether the function that begins at this address calls the functions of fibers in place of the assembly.
bool calls_fiber_function(uintptr_t function);
int start_hooked(Cord& cord, Fiber* from, Fiber* to, char* top);

} // namespace hooks
} // namespace fiberrt
