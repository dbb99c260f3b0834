// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the kind and the owner of the C library's mutex from its members. The members have been part of glibc's ABI
// since 2.4, because static initialisers and debuggers use them. layout.h checks them.
#pragma once

#include <linux/futex.h>
#include <pthread.h>

namespace fiberrt::posix {

class MutexKind {
public:
    explicit MutexKind(const pthread_mutex_t* mutex)
        : mutex_(mutex), kind_(__atomic_load_n(&mutex->__data.__kind, __ATOMIC_RELAXED)) {}

    // Whether the mutex has an owner, so that only the owner may unlock it. Any thread may unlock another mutex.
    bool knows_owner() const { return (kind_ & (robust | inherits | protects)) || is_recursive() || checks_errors(); }
    bool is_recursive() const { return (kind_ & type) == PTHREAD_MUTEX_RECURSIVE; }
    bool checks_errors() const { return (kind_ & type) == PTHREAD_MUTEX_ERRORCHECK; }
    bool is_shared() const { return kind_ & shared; }

    // The number of the thread that holds the mutex. If no thread holds it: 0, or a number that is not a thread's.
    int owner() const {
        if (kind_ & (robust | inherits))
            return __atomic_load_n(&mutex_->__data.__lock, __ATOMIC_RELAXED) & int(FUTEX_TID_MASK);
        return __atomic_load_n(&mutex_->__data.__owner, __ATOMIC_RELAXED);
    }
    // How often its owner has locked a recursive mutex. Only the owner may ask.
    unsigned count() const { return mutex_->__data.__count; }

private:
    static constexpr int type = 3, robust = 16, inherits = 32, protects = 64, shared = 128;
    const pthread_mutex_t* mutex_;
    int kind_;
};

} // namespace fiberrt::posix
