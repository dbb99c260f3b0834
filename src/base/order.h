// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells ThreadSanitizer of orders between threads that it cannot see. (core/hooks.h tells it of fibers.)
#pragma once

extern "C" {
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void __tsan_ignore_thread_begin();
[[gnu::weak]] void __tsan_ignore_thread_end();
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}

namespace fiberrt::hooks {

// All accesses of this thread before tsan_release(x) come before those of another thread after tsan_acquire(x). The
// kernel makes such an order, or atomics of a library that was built without ThreadSanitizer. Spin locks call these two
// themselves.
// ThreadSanitizer is found by its function for fibers: acquire and release are in a Go program with the race detector,
// too, where they serve the threads of goroutines.
inline void tsan_release(const void* x) {
    if (__tsan_switch_to_fiber) __tsan_release(const_cast<void*>(x));
}
inline void tsan_acquire(const void* x) {
    if (__tsan_switch_to_fiber) __tsan_acquire(const_cast<void*>(x));
}

// ThreadSanitizer ignores the accesses of this thread between these two: they need no order.
inline void tsan_ignore_begin() {
    if (__tsan_switch_to_fiber && __tsan_ignore_thread_begin) __tsan_ignore_thread_begin();
}
inline void tsan_ignore_end() {
    if (__tsan_switch_to_fiber && __tsan_ignore_thread_end) __tsan_ignore_thread_end();
}

} // namespace fiberrt::hooks
