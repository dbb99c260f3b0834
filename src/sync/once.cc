// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls a function once: the mutex makes later callers wait for the first.
// fuzz: waiting 95 %
#include "sync/once.h"

namespace fiberrt {

int once_run(Once& once, Caller caller, int (*fn)(void*), void* arg) {
    int error = mutex_lock(once.mutex, caller, FIBER_FOREVER, true);
    if (error && error != -EOWNERDEAD) return error; // -EOWNERDEAD: a holder died before the call was finished
    int result = 0;
    if (!once.is_done()) {
        result = fn(arg);
        if (!result) {
            hooks::tsan_release(&once.done);
            once.done.store(1, std::memory_order_release);
        }
    }
    mutex_unlock(once.mutex, Caller::here()); // a thread may have got its cord meanwhile
    return result;
}

} // namespace fiberrt
