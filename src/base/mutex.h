// SPDX-License-Identifier: MIT OR Apache-2.0
// A mutex of the process, held for as long as a scope lasts.
#pragma once

#include <pthread.h>

namespace fiberrt {

class MutexHeld {
public:
    explicit MutexHeld(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
    ~MutexHeld() { pthread_mutex_unlock(&mutex_); }
    MutexHeld(const MutexHeld&) = delete;
    MutexHeld& operator=(const MutexHeld&) = delete;

private:
    pthread_mutex_t& mutex_;
};

} // namespace fiberrt
