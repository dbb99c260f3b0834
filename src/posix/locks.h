// SPDX-License-Identifier: MIT OR Apache-2.0
// The list of the C library's functions that wait for locks and threads. posix/calls.h lists those that wait for
// descriptors. An adoption with FIBER_POSIX_NO_LOCKS does not replace the functions of this file.
#pragma once

#include "posix/replacements.h"

#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

// X(name, alias): the library's import `alias` is replaced by posix::name.
#define FIBERRT_POSIX_MUTEXES(X)                              \
    X(pthread_mutex_lock, pthread_mutex_lock)                 \
    X(pthread_mutex_lock, __pthread_mutex_lock)               \
    X(pthread_mutex_timedlock, pthread_mutex_timedlock)       \
    X(pthread_mutex_clocklock, pthread_mutex_clocklock)       \
    X(pthread_mutex_trylock, pthread_mutex_trylock)           \
    X(pthread_mutex_trylock, __pthread_mutex_trylock)         \
    X(pthread_mutex_unlock, pthread_mutex_unlock)             \
    X(pthread_mutex_unlock, __pthread_mutex_unlock)           \
    X(pthread_spin_lock, pthread_spin_lock)                   \
    X(pthread_rwlock_rdlock, pthread_rwlock_rdlock)           \
    X(pthread_rwlock_rdlock, __pthread_rwlock_rdlock)         \
    X(pthread_rwlock_timedrdlock, pthread_rwlock_timedrdlock) \
    X(pthread_rwlock_clockrdlock, pthread_rwlock_clockrdlock) \
    X(pthread_rwlock_tryrdlock, pthread_rwlock_tryrdlock)     \
    X(pthread_rwlock_tryrdlock, __pthread_rwlock_tryrdlock)   \
    X(pthread_rwlock_wrlock, pthread_rwlock_wrlock)           \
    X(pthread_rwlock_wrlock, __pthread_rwlock_wrlock)         \
    X(pthread_rwlock_timedwrlock, pthread_rwlock_timedwrlock) \
    X(pthread_rwlock_clockwrlock, pthread_rwlock_clockwrlock) \
    X(pthread_rwlock_trywrlock, pthread_rwlock_trywrlock)     \
    X(pthread_rwlock_trywrlock, __pthread_rwlock_trywrlock)   \
    X(pthread_rwlock_unlock, pthread_rwlock_unlock)           \
    X(pthread_rwlock_unlock, __pthread_rwlock_unlock)

#define FIBERRT_POSIX_CONDITIONS(X)                                                       \
    X(pthread_cond_wait, pthread_cond_wait)                                               \
    X(pthread_cond_timedwait, pthread_cond_timedwait)                                     \
    X(pthread_cond_clockwait, pthread_cond_clockwait)                                     \
    X(pthread_cond_signal, pthread_cond_signal)                                           \
    X(pthread_cond_broadcast, pthread_cond_broadcast)                                     \
    X(condition_variable_wait, _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE) \
    X(condition_variable_notify_one, _ZNSt18condition_variable10notify_oneEv)             \
    X(condition_variable_notify_all, _ZNSt18condition_variable10notify_allEv)

#define FIBERRT_POSIX_MEETINGS(X)                       \
    X(sem_wait, sem_wait)                               \
    X(sem_timedwait, sem_timedwait)                     \
    X(sem_clockwait, sem_clockwait)                     \
    X(sem_trywait, sem_trywait)                         \
    X(sem_post, sem_post)                               \
    X(pthread_barrier_wait, pthread_barrier_wait)       \
    X(pthread_barrier_destroy, pthread_barrier_destroy) \
    X(pthread_join, pthread_join)                       \
    X(pthread_timedjoin_np, pthread_timedjoin_np)       \
    X(pthread_clockjoin_np, pthread_clockjoin_np)

#define FIBERRT_POSIX_ONCE(X)             \
    X(pthread_once, pthread_once)         \
    X(pthread_once, __pthread_once)       \
    X(guard_acquire, __cxa_guard_acquire) \
    X(guard_release, __cxa_guard_release) \
    X(guard_abort, __cxa_guard_abort)

#define FIBERRT_POSIX_C11(X)        \
    X(mtx_lock, mtx_lock)           \
    X(mtx_timedlock, mtx_timedlock) \
    X(mtx_trylock, mtx_trylock)     \
    X(mtx_unlock, mtx_unlock)       \
    X(cnd_wait, cnd_wait)           \
    X(cnd_timedwait, cnd_timedwait) \
    X(cnd_signal, cnd_signal)       \
    X(cnd_broadcast, cnd_broadcast) \
    X(thrd_join, thrd_join)         \
    X(call_once, call_once)

#define FIBERRT_POSIX_LOCKS(X)  \
    FIBERRT_POSIX_MUTEXES(X)    \
    FIBERRT_POSIX_CONDITIONS(X) \
    FIBERRT_POSIX_MEETINGS(X)   \
    FIBERRT_POSIX_ONCE(X)       \
    FIBERRT_POSIX_C11(X)

namespace fiberrt::posix {

// The function that replaces an import, or null if none does. version: that of the import, or null.
const Replacement* find_lock(const char* name, const char* version);

decltype(::pthread_mutex_lock) pthread_mutex_lock;
decltype(::pthread_mutex_timedlock) pthread_mutex_timedlock;
decltype(::pthread_mutex_clocklock) pthread_mutex_clocklock;
decltype(::pthread_mutex_trylock) pthread_mutex_trylock;
decltype(::pthread_mutex_unlock) pthread_mutex_unlock;
decltype(::pthread_spin_lock) pthread_spin_lock;
decltype(::pthread_rwlock_rdlock) pthread_rwlock_rdlock;
decltype(::pthread_rwlock_timedrdlock) pthread_rwlock_timedrdlock;
decltype(::pthread_rwlock_clockrdlock) pthread_rwlock_clockrdlock;
decltype(::pthread_rwlock_tryrdlock) pthread_rwlock_tryrdlock;
decltype(::pthread_rwlock_wrlock) pthread_rwlock_wrlock;
decltype(::pthread_rwlock_timedwrlock) pthread_rwlock_timedwrlock;
decltype(::pthread_rwlock_clockwrlock) pthread_rwlock_clockwrlock;
decltype(::pthread_rwlock_trywrlock) pthread_rwlock_trywrlock;
decltype(::pthread_rwlock_unlock) pthread_rwlock_unlock;

decltype(::pthread_cond_wait) pthread_cond_wait;
decltype(::pthread_cond_timedwait) pthread_cond_timedwait;
decltype(::pthread_cond_clockwait) pthread_cond_clockwait;
decltype(::pthread_cond_signal) pthread_cond_signal;
decltype(::pthread_cond_broadcast) pthread_cond_broadcast;
void condition_variable_wait(void* condition, void* unique_lock);
void condition_variable_notify_one(void* condition);
void condition_variable_notify_all(void* condition);

decltype(::sem_wait) sem_wait;
decltype(::sem_timedwait) sem_timedwait;
decltype(::sem_clockwait) sem_clockwait;
decltype(::sem_trywait) sem_trywait;
decltype(::sem_post) sem_post;
decltype(::pthread_barrier_wait) pthread_barrier_wait;
decltype(::pthread_barrier_destroy) pthread_barrier_destroy;
decltype(::pthread_join) pthread_join;
decltype(::pthread_timedjoin_np) pthread_timedjoin_np;
decltype(::pthread_clockjoin_np) pthread_clockjoin_np;
decltype(::pthread_once) pthread_once;
int guard_acquire(void* guard);
void guard_release(void* guard);
void guard_abort(void* guard);

decltype(::mtx_lock) mtx_lock;
decltype(::mtx_timedlock) mtx_timedlock;
decltype(::mtx_trylock) mtx_trylock;
decltype(::mtx_unlock) mtx_unlock;
decltype(::cnd_wait) cnd_wait;
decltype(::cnd_timedwait) cnd_timedwait;
decltype(::cnd_signal) cnd_signal;
decltype(::cnd_broadcast) cnd_broadcast;
decltype(::thrd_join) thrd_join;
decltype(::call_once) call_once;

} // namespace fiberrt::posix
