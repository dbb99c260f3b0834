// SPDX-License-Identifier: MIT OR Apache-2.0
// A function that is called once: a mutex around the call, and whether it has succeeded.
// fuzz: waiting 95 %
#pragma once

#include "sync/mutex.h"

namespace fiberrt {

struct Once {
    std::atomic<uint32_t> done{0};
    Mutex mutex; // the caller that runs the function holds it

    // Acquire: what was done is seen. Pairs with run().
    bool is_done() const {
        bool is_done = done.load(std::memory_order_acquire);
        if (is_done) hooks::taken(&done);
        return is_done;
    }
};

// Returns what fn returned; if that is not 0, the next caller runs fn again.
int once_run(Once& once, Caller caller, int (*fn)(void*), void* arg);

} // namespace fiberrt
