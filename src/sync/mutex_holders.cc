// SPDX-License-Identifier: MIT OR Apache-2.0
// The lists of mutexes that a cord, or a thread without a cord, holds: orphans them when the holder ends, and keeps or
// orphans them in the child of a fork.
// fuzz: waiting 20 %
#include "sync/mutex.h"

#include "base/keep_errno.h"
#include "base/try_once.h"

#include <bit>
#include <pthread.h>

namespace fiberrt {

namespace {

pthread_key_t held_key; // for threads without a cord: the first of the mutexes that the thread holds
constinit TryOnce held_key_made;

using ThreadHeld = ShortList<HeldLock>;
static_assert(sizeof(ThreadHeld) == sizeof(void*));

void thread_ended(void* first) {
    auto held = std::bit_cast<ThreadHeld>(first);
    while (HeldLock* lock = held.pop_front()) mutex_orphan(*static_cast<Mutex*>(lock));
}

bool have_held_key() {
    return held_key_made([] { return pthread_key_create(&held_key, thread_ended) == 0; });
}

} // namespace

void Mutex::hold_by_thread() {
    KeepErrno keep;
    if (!have_held_key()) return;
    auto held = std::bit_cast<ThreadHeld>(pthread_getspecific(held_key));
    held.push_back(this);
    // If it fails, the thread's end will not be noticed.
    if (pthread_setspecific(held_key, std::bit_cast<void*>(held)) != 0) held.remove(this);
}

void Mutex::unhold_by_thread() {
    if (!linked()) return;
    KeepErrno keep;
    auto held = std::bit_cast<ThreadHeld>(pthread_getspecific(held_key));
    held.remove(this);
    pthread_setspecific(held_key, std::bit_cast<void*>(held)); // cannot fail: hold_by_thread() has set this key
}

namespace {

// Stores the holders' new identities in the words after a fork. There is no other thread that could change the words.
void restamp(ShortList<HeldLock>& held) {
    if (!identity_stamp) return; // identities have not changed
    constexpr uintptr_t lasting = (uintptr_t(1) << identity_stamp_shift) - 1;
    for (HeldLock* lock = held.front(); lock; lock = held.after(lock)) {
        auto& mutex = *static_cast<Mutex*>(lock);
        uintptr_t word = mutex.word.load(std::memory_order_relaxed);
        mutex.word.store((word & lasting) + identity_stamp, std::memory_order_relaxed);
    }
}

} // namespace

void mutexes_of_cord_forked(Cord& cord) { restamp(cord.sync.held_locks); }

void mutexes_of_thread_forked(bool lost) {
    if (!held_key_made.done()) return;
    auto held = std::bit_cast<ThreadHeld>(pthread_getspecific(held_key));
    if (lost) {
        pthread_setspecific(held_key, nullptr);
        return thread_ended(std::bit_cast<void*>(held));
    }
    restamp(held);
}

void mutex_holder_ended(Cord& cord, Fiber* holder) {
    uintptr_t identity = holder ? Caller::identity_of(cord, holder) : 0;
    HeldLock* next;
    for (HeldLock* lock = cord.sync.held_locks.front(); lock; lock = next) {
        next = cord.sync.held_locks.after(lock);
        auto& mutex = *static_cast<Mutex*>(lock);
        if (holder && Mutex::holder(mutex.word.load(std::memory_order_relaxed)) != identity) continue;
        cord.sync.held_locks.remove(lock);
        mutex_orphan(mutex);
    }
    if (holder) holder->extras.locks_held = 0;
}

} // namespace fiberrt
