// SPDX-License-Identifier: MIT OR Apache-2.0
// A mutex of fibers and threads.
//
// Its word is 0, or its holder, with two flags: `contended` while there are waiters, which unlock must look after;
// `holder_died` between the death of a holder and the next lock. Lock and unlock without contention are one
// compare-and-swap each.
//
// Unlock wakes the first waiter, which then competes with newcomers: a newcomer that runs already need not wait for
// it. One is woken at a time; if it loses it is the first again. Once it has waited for more than a millisecond, unlock
// gives the lock to it instead, also if it was woken and has not come yet.
//
//   word        holder          waiters       woken
//   0           none            none          none      lock: one compare-and-swap
//   A           A               none          none      unlock: the same
//   A|contended A               W, X          none      unlock: word = contended, woken = W
//   contended   none            X             W         the first to come takes it: W or a newcomer
//   B|contended B               X             W         W comes: first in the list again; or unlock: word = W|contended
//   ?|contended any or none     none          none      all have given up: the next unlock takes the flag away, before it
//                                                       unlocks, so that the next holder may free the mutex
//
// A fiber that ends, or never runs again as its thread ends, leaves the mutexes that it holds: the next lock returns
// -EOWNERDEAD. In the child of a fork the same goes for all fibers except the one that forked. The mutexes of the other
// fibers of its thread are in that thread's list; a mutex that another thread held is recognised by the first lock, since
// the word tells the process of its holder.
// fuzz: waiting 90 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

// What a thread holds: in a list of its cord, or, of a thread without one, of the thread. Only the holder's thread
// touches the links and the list.
struct HeldLock : Link {};

struct Mutex : Waiters, HeldLock {
    static constexpr uintptr_t contended = 1;
    static constexpr uintptr_t holder_died = 2;
    static constexpr uintptr_t flags = 3;

    std::atomic<uintptr_t> word{0};
    Cord* home = nullptr;       // while it is held: in whose list it is; null: the thread's
    uintptr_t woken = 0;        // the waiter that was woken to compete and has not come yet,
    int64_t woken_since = 0;    // since when that has waited,
    bool woken_is_heir = false; // and whether a holder has died since it was woken

    static uintptr_t holder(uintptr_t word) { return word & ~flags; }
    bool somebody_is_woken() const { return woken && is_of_this_process(woken); } // else it is no more
    bool held_by(uintptr_t identity) const { return holder(word.load(std::memory_order_relaxed)) == identity; }

    // Compare-and-swap; without the bus lock while the process has one thread. A lock acquires, an unlock releases: a
    // holder sees what the one before did.
    inline bool change(uintptr_t from, uintptr_t to);

    // For the holder, which has just got it, or is about to leave it.
    inline void hold(Cord* cord, Fiber* fiber);
    inline void unhold(Fiber* fiber);
    void hold_by_thread();
    void unhold_by_thread();
};

// The holder has died, and the mutex is in no list of held ones: the next lock returns -EOWNERDEAD.
void mutex_orphan(Mutex& mutex);

// The fiber, or all of the cord if it is null, leaves the mutexes that it holds.
void mutex_holder_ended(Cord& cord, Fiber* holder);

// Both in the child of a fork, for the forking thread alone: the mutexes of its fibers are held in this process, and so
// are those that the thread itself holds. lost: the main flow is lost, and leaves its mutexes.
void mutexes_of_cord_forked(Cord& cord);
void mutexes_of_thread_forked(bool lost);

// 0; -EOWNERDEAD, and it is held; -EDEADLK; -EPERM in a no-switch section. stoppable: also what ends a wait early.
int mutex_lock(Mutex& mutex, Caller caller, int64_t timeout_ns, bool stoppable);
int mutex_trylock(Mutex& mutex, Caller caller); // 0, -EOWNERDEAD, -EBUSY
bool mutex_is_busy(Mutex& mutex);               // it has a holder or a waiter
// By its holder, when it is no longer in the list of what that holds.
void mutex_unlock_slowly(Mutex& mutex, uintptr_t identity);

inline void Mutex::hold(Cord* cord, Fiber* fiber) {
    hooks::taken(&word);
    home = cord;
    if (!cord) return hold_by_thread();
    if (cord->sync.held.empty()) cord->sync.holder_ended = mutex_holder_ended;
    cord->sync.held.push_back(this);
    if (++fiber->extras.held == 0) [[unlikely]]
        fiber->extras.held = UINT16_MAX; // coverage: rare
}

inline void Mutex::unhold(Fiber* fiber) {
    hooks::given(&word);
    if (!home) return unhold_by_thread();
    home->sync.held.remove(this);
    if (fiber->extras.held != UINT16_MAX) fiber->extras.held--;
}

inline bool Mutex::change(uintptr_t from, uintptr_t to) {
    if (!__libc_single_threaded)
        return word.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_relaxed);
    if (word.load(std::memory_order_relaxed) != from) return false;
    word.store(to, std::memory_order_relaxed);
    return true;
}

inline int mutex_unlock(Mutex& mutex, Caller caller) {
    uintptr_t identity = caller.identity();
    if (!mutex.held_by(identity)) return -EPERM;
    mutex.unhold(caller.fiber);
    // Nothing of the mutex is touched after this.
    if (!mutex.change(identity, 0)) [[unlikely]]
        mutex_unlock_slowly(mutex, identity);
    return 0;
}

} // namespace fiberrt
