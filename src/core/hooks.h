// SPDX-License-Identifier: MIT OR Apache-2.0
// Everything that sanitizers and Valgrind are told about stacks and switches, in one place. (What users are told is in
// embed/user_hooks.h.)
//
// The sanitizers are found by weak symbols: a library built without them tells a program built with them all the same.
// Valgrind is told by its client requests, a few instructions without effect elsewhere, if its headers were there.
#pragma once

#include "base/order.h" // given(), taken()

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

// Whether a sanitizer wants to hear of every switch. Then cord.hooked says so, and all switches take the slow way, through
// switch_hooked.
bool wanted();

// Valgrind answers some system calls itself, and falls over guards that it does not know of.
bool on_valgrind();

// Memory that is never unmapped and may hold pointers that matter to LeakSanitizer.
void pointers_made(void* memory, size_t size);

// A stack without its guard page, which nobody may read: it may hold such pointers too. Made once, used many times.
void stack_made(void* low, size_t size);
void stack_gone(void* low, size_t size);
void fiber_gone(Fiber* fiber);                       // it will not run again
void fiber_ended(Cord& cord, Fiber* fiber);          // the same of the one that runs, until the next switch
void memory_filled(const void* memory, size_t size); // the kernel has written there, unseen by Valgrind

// ThreadSanitizer follows a number that goes from one descriptor to the next, on another thread, by the C library's
// close alone: what a ring closes it takes for open, and the next use for a race.
bool watches_descriptors();

// A stack that was left for another cord's, in a simulation: there all cords share one thread (sim/sim_cords.cc).
struct LeftStack {
    const void* low = nullptr; // its bounds, as AddressSanitizer told them when it was left
    size_t size = 0;
    void* tsan_fiber = nullptr;
};

// Parks what runs in *from, or leaves it for good, and goes on with `to`; returns when that is gone on with.
void leave_for_other_cord(Cord& cord, Fiber* from, LeftStack& left, Fiber* to, LeftStack& there, bool for_good);
// The same with first(argument), which begins with begun_on_other_stack, on a new stack, that of `there`.
void start_other_cord(Cord& cord, Fiber* from, LeftStack& left, Fiber* to, LeftStack& there, bool for_good,
                      void* (*first)(void*), void* argument);
void begun_on_other_stack();
void left_stack_gone(LeftStack& left);

// The four switches of arch/, between the calls that tell the sanitizers, and the user. from null: what runs ends for
// good.
int switch_hooked(Cord& cord, Fiber* from, Fiber* to);
int start_hooked(Cord& cord, Fiber* from, Fiber* to, char* top);

} // namespace hooks
} // namespace fiberrt
