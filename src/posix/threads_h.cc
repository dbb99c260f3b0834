// SPDX-License-Identifier: MIT OR Apache-2.0
// The locks of C's <threads.h>, whose objects are those of <pthread.h>.
#include "posix/locks.h"
#include "posix/wait.h"

namespace fiberrt::posix {

namespace {

int result_of(int error) {
    switch (error) {
    case 0: return thrd_success;
    case ENOMEM: return thrd_nomem;
    case ETIMEDOUT: return thrd_timedout;
    case EBUSY: return thrd_busy;
    default: return thrd_error;
    }
}

pthread_mutex_t* mutex_of(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }
pthread_cond_t* cond_of(cnd_t* condition) { return reinterpret_cast<pthread_cond_t*>(condition); }

} // namespace

int mtx_lock(mtx_t* mutex) { return result_of(posix::pthread_mutex_lock(mutex_of(mutex))); }
int mtx_trylock(mtx_t* mutex) { return result_of(posix::pthread_mutex_trylock(mutex_of(mutex))); }
int mtx_unlock(mtx_t* mutex) { return result_of(posix::pthread_mutex_unlock(mutex_of(mutex))); }
int mtx_timedlock(mtx_t* mutex, const timespec* time) {
    return result_of(posix::pthread_mutex_timedlock(mutex_of(mutex), time));
}

int cnd_wait(cnd_t* condition, mtx_t* mutex) {
    return result_of(posix::pthread_cond_wait(cond_of(condition), mutex_of(mutex)));
}
int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* time) {
    return result_of(posix::pthread_cond_timedwait(cond_of(condition), mutex_of(mutex), time));
}
int cnd_signal(cnd_t* condition) { return result_of(posix::pthread_cond_signal(cond_of(condition))); }
int cnd_broadcast(cnd_t* condition) { return result_of(posix::pthread_cond_broadcast(cond_of(condition))); }

int thrd_join(thrd_t thread, int* result) {
    void* value = nullptr;
    int error = posix::pthread_join(thread, &value);
    if (!error && result) *result = int(intptr_t(value));
    return result_of(error);
}

} // namespace fiberrt::posix
