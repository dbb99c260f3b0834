// SPDX-License-Identifier: MIT OR Apache-2.0
// What ThreadSanitizer is told of the order of things on different threads. (The rest that it is told: core/hooks.h.)
#pragma once

extern "C" {
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void __tsan_ignore_thread_begin();
[[gnu::weak]] void __tsan_ignore_thread_end();
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}

namespace fiberrt::hooks {

// What this thread did before given(x) comes before what another does after taken(x): an order that it cannot see, being
// made by the kernel, or by atomics of a library that was built without it. Spin locks say so by themselves. That it is
// there is told by what it has for fibers: a Go program with the race detector has acquire and release, too, but those are
// for the threads of goroutines.
inline void given(const void* x) {
    if (__tsan_switch_to_fiber) __tsan_release(const_cast<void*>(x));
}
inline void taken(const void* x) {
    if (__tsan_switch_to_fiber) __tsan_acquire(const_cast<void*>(x));
}

// What this thread does between these two needs no order, and is none of ThreadSanitizer's business.
inline void orderless_begins() {
    if (__tsan_switch_to_fiber && __tsan_ignore_thread_begin) __tsan_ignore_thread_begin();
}
inline void orderless_ends() {
    if (__tsan_switch_to_fiber && __tsan_ignore_thread_end) __tsan_ignore_thread_end();
}

} // namespace fiberrt::hooks
