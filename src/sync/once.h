// SPDX-License-Identifier: MIT OR Apache-2.0
// A function that is called once: a flag that a call has succeeded, and a mutex that is held during a call.
// fuzz: waiting 95 %
#pragma once

#include "sync/mutex.h"

namespace fiberrt {

struct Once {
    std::atomic<uint32_t> done{0};
    Mutex mutex; // the caller that runs the function holds it

    // Acquire: the caller sees the writes of the function. Pairs with once_run().
    bool is_done() const {
        bool is_done = done.load(std::memory_order_acquire);
        if (is_done) hooks::tsan_acquire(&done);
        return is_done;
    }
};

// Calls fn unless a call has succeeded already; waits while another caller runs its fn. Returns the result of fn, 0 if
// it was not called, or an error of the wait. If fn returns another number than 0, the next caller calls its fn.
int once_run(Once& once, Caller caller, int (*fn)(void*), void* arg);

} // namespace fiberrt
