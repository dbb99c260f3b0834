// SPDX-License-Identifier: MIT OR Apache-2.0
// What is to be done once: a mutex around it, and whether it has been done.
#pragma once

#include "sync/mutex.h"

namespace fiberrt {

struct Once {
    std::atomic<uint32_t> done{0};
    Mutex mutex; // of who does it

    // Acquire: what was done is seen. Pairs with run().
    bool is_done() const {
        bool is_done = done.load(std::memory_order_acquire);
        if (is_done) hooks::taken(&done);
        return is_done;
    }
};

// What fn returned if it is not 0: then the next one to come does it.
int once_run(Once& once, Caller caller, int (*fn)(void*), void* arg);

} // namespace fiberrt
