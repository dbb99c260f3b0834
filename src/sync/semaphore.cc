// SPDX-License-Identifier: MIT OR Apache-2.0
// Counting semaphores: taking and posting permits.
// fuzz: waiting 80 %
#include "sync/semaphore.h"

#include "base/planted.h"
#include "sync/one_wait.h"

namespace fiberrt {

namespace {

// Completes the waiters at the front for which there are permits.
void semaphore_serve(Waiters& list, Completions& done) {
    auto& semaphore = static_cast<Semaphore&>(list);
    while (Waiter* waiter = semaphore.first()) {
        if (waiter->number > semaphore.permits) return;
        if (!semaphore.claim(waiter)) continue;
        semaphore.permits -= waiter->number;
        done.add(waiter, 0);
        if (PLANTED(post_serves_one)) return;
    }
}

void return_permits(SyncWait& wait) {
    semaphore_post(static_cast<Semaphore&>(*wait.selected->list), wait.selected->number);
}

} // namespace

constinit const WaiterKind semaphore_waiter = {"for a semaphore", semaphore_serve, return_permits};

int semaphore_wait(Semaphore& semaphore, Caller caller, uint64_t amount, int64_t timeout_ns) {
    return wait_unless(semaphore, caller, timeout_ns, semaphore_waiter, amount,
                       [&] { return semaphore.try_take(amount) ? 0 : -EAGAIN; });
}

int semaphore_post(Semaphore& semaphore, uint64_t amount) {
    LockedList locked(semaphore);
    if (amount > uint64_t(INT64_MAX) - semaphore.permits) return -EOVERFLOW;
    semaphore.permits += amount;
    semaphore_serve(semaphore, locked);
    return 0;
}

} // namespace fiberrt
