// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_sem_...: semaphores of sync/semaphore.h in the user's memory.
// fuzz: waiting 95 %
#include "sync/semaphore.h"

#include "api/api.h"
#include "api/in_place.h"

#include <stddef.h>

using namespace fiberrt;
using api::in_place;

// The initialisers in the header set these members. The standard does not promise offsetof for these types, but the
// compilers that build this support it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(Semaphore, permits) == 16);
#pragma GCC diagnostic pop

int fiber_sem_init(fiber_sem_t* sem, int64_t permits) {
    if (!sem || permits < 0) return -EINVAL;
    (new (sem) Semaphore)->permits = uint64_t(permits);
    return 0;
}

int fiber_sem_wait_timeout(fiber_sem_t* sem, int64_t n, int64_t timeout_ns) {
    if (!sem || n <= 0 || timeout_ns < 0) return -EINVAL;
    return semaphore_wait(in_place<Semaphore>(sem), Caller::here(), uint64_t(n), timeout_ns);
}

int fiber_sem_wait(fiber_sem_t* sem, int64_t n) { return fiber_sem_wait_timeout(sem, n, FIBER_FOREVER); }

int fiber_sem_trywait(fiber_sem_t* sem, int64_t n) {
    if (!sem || n <= 0) return -EINVAL;
    auto& semaphore = in_place<Semaphore>(sem);
    semaphore.lock_list();
    bool taken = semaphore.try_take(uint64_t(n));
    semaphore.unlock_list();
    return taken ? 0 : -EAGAIN;
}

int fiber_sem_post(fiber_sem_t* sem, int64_t n) {
    if (!sem || n <= 0) return -EINVAL;
    return semaphore_post(in_place<Semaphore>(sem), uint64_t(n));
}

int64_t fiber_sem_value(fiber_sem_t* sem) {
    if (!sem) return -EINVAL;
    auto& semaphore = in_place<Semaphore>(sem);
    semaphore.lock_list();
    int64_t permits = int64_t(semaphore.permits);
    semaphore.unlock_list();
    return permits;
}

int fiber_sem_destroy(fiber_sem_t* sem) { return api::destroy<Semaphore>(sem); }
