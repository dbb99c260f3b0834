// SPDX-License-Identifier: MIT OR Apache-2.0
// A mutex of the process, held for as long as a scope lasts.
#pragma once

#include <pthread.h>

namespace fiberrt {

class MutexGuard {
public:
    explicit MutexGuard(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
    ~MutexGuard() { pthread_mutex_unlock(&mutex_); }
    MutexGuard(const MutexGuard&) = delete;
    MutexGuard& operator=(const MutexGuard&) = delete;

private:
    pthread_mutex_t& mutex_;
};

} // namespace fiberrt
