// SPDX-License-Identifier: MIT OR Apache-2.0
// Everything that sanitizers and Valgrind are told about stacks and switches, in one place.
//
// The sanitizers are found by weak symbols: a library built without them tells a program built with them all the same.
// Valgrind is told by its client requests, a few instructions without effect elsewhere, if its headers were there.
#pragma once

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

// Whether a sanitizer wants to hear of every switch. Then all switches take the slow way, through switch_hooked.
bool wanted();

// Valgrind answers some system calls itself, and falls over guards that it does not know of.
bool on_valgrind();

// Memory that is never unmapped and may hold pointers that matter to LeakSanitizer.
void pointers_made(void* memory, size_t size);

// A stack without its guard page, which nobody may read: it may hold such pointers too. Made once, used many times.
void stack_made(void* low, size_t size);
void stack_gone(void* low, size_t size);
void fiber_gone(Fiber* fiber); // it will not run again
void memory_filled(const void* memory, size_t size); // the kernel has written there, unseen by Valgrind

// ThreadSanitizer is told that what this thread did before given(x) comes before what another does after taken(x): an order
// that it cannot see, being made by the kernel, or by atomics of a library that was built without it.
void given(const void* x);
void taken(const void* x);

// ThreadSanitizer follows a number that goes from one descriptor to the next, on another thread, by the C library's close
// alone: what a ring closes it takes for open, and the next use for a race.
bool watches_descriptors();

// The four switches of arch/, between the calls that tell the sanitizers. from null: what runs ends for good.
int switch_hooked(Cord& cord, Fiber* from, Fiber* to);
int start_hooked(Cord& cord, Fiber* from, Fiber* to, char* top);

} // namespace hooks
} // namespace fiberrt
