// SPDX-License-Identifier: MIT OR Apache-2.0
// A mutex for fibers and threads. The public mutex, once.h and cond.h use it.
//
// Its word is 0 or the holder's identity (caller.h: the fiber's address or the thread's pthread_self(), plus the stamp
// of the process), with two flags: `contended` while there are waiters, so that unlock takes the slow path;
// `holder_died` between the death of a holder and the next lock. Lock and unlock without contention are one
// compare-and-swap each.
//
// Unlock wakes the first waiter, which then competes with newcomers: a newcomer that is running need not wait for the
// woken one. At most one waiter is woken at a time; if it loses, it becomes the first in the list again. Once the woken
// waiter, or if none is woken the first one, has waited for more than a millisecond, unlock gives the lock to it
// directly, even if it has not run since it was woken. Until the new holder runs, the mutex is in no list of held ones:
// if its thread ends first, return_lock() in mutex.cc passes the lock on.
//
//   word          holder  waiters  woken
//   0             none    none     none   lock: one compare-and-swap (api/mutex.cc)
//   A             A       none     none   unlock: one compare-and-swap
//   A|contended   A       W, X     none   unlock: word = contended, woken = W; if W has waited for more than a
//                                         millisecond: word = W|contended, and W wakes as the holder
//   contended     none    X        W      W or a newcomer takes it, the first that tries
//   B|contended   B       X        W      W tries: first in the list again; or unlock, if W has waited for more than a
//                                         millisecond: word = W|contended
//   contended     none    X        W      A has died, and W and X waited: the next lock returns -EOWNERDEAD, and so do
//    |holder_died                         those of W and X
//   ?|contended   any or  none     none   all have given up: the last waiter clears the flag when it leaves the list,
//                 none                    or the next unlock before it unlocks, so that the next holder may free the
//                                         mutex
//
// If a fiber ends, or never runs again because its thread ends, the mutexes that it holds become available: the next
// lock returns -EOWNERDEAD, and so does the lock of each caller that waits at that moment. The same holds in the child
// of a fork for the mutexes of all fibers except the one that forked. The mutexes of the other fibers of the forking
// thread are in that thread's list. A mutex that another thread held is found by the first lock, because the identity
// in the word shows that its holder is not in this process.
// fuzz: waiting 90 %
#pragma once

#include "base/one_thread.h"
#include "sync/waiting.h"

namespace fiberrt {

// A place in the list of held mutexes, which each cord has, and each thread without a cord. Only the holder's thread
// touches the links and the list.
struct HeldLock : Link {};

struct Mutex : Waiters, HeldLock {
    static constexpr uintptr_t contended = 1;
    static constexpr uintptr_t holder_died = 2;
    static constexpr uintptr_t flags = 3;

    std::atomic<uintptr_t> word{0};
    Cord* holder_home = nullptr;   // while it is held: the cord whose list it is in; null: the thread's list
    uintptr_t woken = 0;           // the waiter that was woken to compete and has not tried yet
    int64_t woken_since = 0;       // since when the woken waiter has waited
    bool woken_owner_died = false; // a holder has died since it was woken; it tells when it tries, or has the lock

    static uintptr_t holder(uintptr_t word) { return word & ~flags; }
    bool has_woken_waiter() const { return woken && is_of_this_process(woken); } // false: it is in a fork's parent
    bool held_by(uintptr_t identity) const { return holder(word.load(std::memory_order_relaxed)) == identity; }

    // Compare-and-swap; without the bus lock while the process has one thread. Acquire for lock and release for unlock:
    // a holder sees the writes of the previous holder.
    inline bool change(uintptr_t from, uintptr_t to);

    // Add the mutex to the list of held ones, and remove it. The holder calls hold() when it has just got the mutex,
    // and unhold() before it unlocks.
    inline void hold(Cord* cord, Fiber* fiber);
    inline void unhold(Fiber* fiber);
    void hold_by_thread();
    void unhold_by_thread();
};

// Makes the next lock return -EOWNERDEAD. The holder has died, and the mutex is in no list of held ones.
void mutex_orphan(Mutex& mutex);

// Orphans the mutexes that a fiber holds, or if holder is null, that any fiber of the cord holds.
void mutex_holder_ended(Cord& cord, Fiber* holder);

// For the forking thread in the child of a fork: give the mutexes that its fibers hold, and those that the thread
// itself holds, the identities of this process. (sync/fork.cc orphans those of the other fibers afterwards, which needs
// the new identities.) lost: the main flow does not exist in the child, so the thread's mutexes are orphaned.
void mutexes_of_cord_forked(Cord& cord);
void mutexes_of_thread_forked(bool lost);

// Locks the mutex. 0; -EOWNERDEAD: it is held, and its last holder died; -EDEADLK: the caller holds it, or nothing can
// end the wait; -ETIMEDOUT; -EPERM in a no-switch section; errors of Caller::prepare(). stoppable: cancels, interrupts,
// deadlines of scopes and the timeout end the wait; if false, timeout_ns must be FIBER_FOREVER.
int mutex_lock(Mutex& mutex, Caller caller, int64_t timeout_ns, bool stoppable);
int mutex_trylock(Mutex& mutex, Caller caller); // 0, -EOWNERDEAD, -EBUSY
bool mutex_is_busy(Mutex& mutex);               // it has a holder or a waiter

// Unlocks a mutex whose word has the flag contended. The holder has called unhold().
void mutex_unlock_slowly(Mutex& mutex, uintptr_t identity);

inline void Mutex::hold(Cord* cord, Fiber* fiber) {
    hooks::tsan_acquire(&word);
    holder_home = cord;
    if (!cord) return hold_by_thread();
    if (cord->sync.held_locks.empty()) cord->sync.holder_ended = mutex_holder_ended;
    cord->sync.held_locks.push_back(this);
    if (++fiber->extras.locks_held == 0) [[unlikely]]
        fiber->extras.locks_held = UINT16_MAX; // coverage: rare
}

inline void Mutex::unhold(Fiber* fiber) {
    hooks::tsan_release(&word);
    if (!holder_home) return unhold_by_thread();
    holder_home->sync.held_locks.remove(this);
    if (fiber->extras.locks_held != UINT16_MAX) fiber->extras.locks_held--;
}

inline bool Mutex::change(uintptr_t from, uintptr_t to) {
    if (!surely_one_thread())
        return word.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_relaxed);
    if (word.load(std::memory_order_relaxed) != from) return false;
    word.store(to, std::memory_order_relaxed);
    return true;
}

inline int mutex_unlock(Mutex& mutex, Caller caller) {
    uintptr_t identity = caller.identity();
    if (!mutex.held_by(identity)) return -EPERM;
    mutex.unhold(caller.fiber);
    // The mutex must not be touched after this: its next holder may free it.
    if (!mutex.change(identity, 0)) [[unlikely]]
        mutex_unlock_slowly(mutex, identity);
    return 0;
}

} // namespace fiberrt
