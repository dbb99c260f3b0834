// SPDX-License-Identifier: MIT OR Apache-2.0
// The slow paths of the mutex: contention, and mutexes whose holders have died.
// fuzz: waiting 80 %
#include "sync/mutex.h"

#include "base/check.h"
#include "base/planted.h"
#include "sync/one_wait.h"
#include "sync/perform.h"

#include <new>

namespace fiberrt {

namespace {

constexpr int64_t overtaken_most_ns = 1'000'000;

// Clears the flag contended if there is no waiter. Under the list's lock.
void contended_update(Mutex& mutex) {
    if (mutex.empty() && !mutex.has_woken_waiter()) mutex.word.fetch_and(~Mutex::contended, std::memory_order_relaxed);
}

void mutex_waiter_removed(Waiters& list, Completions&) { contended_update(static_cast<Mutex&>(list)); }

// Wakes the first waiter, unless one is woken already. The mutex is free, and its word has the flag contended. Under
// the list's lock.
void wake_next(Mutex& mutex, Completions& done) {
    if (mutex.has_woken_waiter()) return;
    if (Waiter* next = mutex.claim_first()) {
        mutex.woken = next->number;
        mutex.woken_since = next->since;
        mutex.woken_owner_died = false;
        done.add(next, 0);
    } // else the flag contended may be set without a waiter: the next unlock clears it before it unlocks
}

// Makes a waiter that is not in the list the holder. Under the list's lock.
void give_to(Mutex& mutex, uintptr_t identity) {
    // Release: see Mutex::change.
    mutex.word.store(identity | (mutex.empty() ? 0 : Mutex::contended), std::memory_order_release);
}

// Unlocks the mutex for the holder: wakes a waiter, or gives it the lock if it has waited too long. Under the list's
// lock.
void release(Mutex& mutex, Completions& done) {
    Waiter* next = mutex.has_woken_waiter() ? nullptr : mutex.first();
    int64_t since = mutex.has_woken_waiter() ? mutex.woken_since : next ? next->since : INT64_MAX;
    bool starved = since != INT64_MAX && clock_now() - since > overtaken_most_ns;
    if (starved && mutex.has_woken_waiter()) { // when it tries, it finds that it holds the lock
        uintptr_t identity = mutex.woken;
        mutex.woken = 0;
        give_to(mutex, identity);
    } else if (starved && mutex.claim(next)) {
        mutex.woken_owner_died = false; // may be left from a woken waiter that never ran
        give_to(mutex, next->number);
        done.add(next, 0);
    } else {
        mutex.word.store(Mutex::contended, std::memory_order_release);
        if (PLANTED(unlock_wakes_no_waiter)) return;
        wake_next(mutex, done);
    }
}

// The thread of a fiber that was woken or given the lock has ended: wakes another waiter.
void return_lock(SyncWait& wait) {
    auto& mutex = static_cast<Mutex&>(*wait.selected->list);
    uintptr_t identity = wait.selected->number;
    LockedList locked(mutex);
    if (mutex.held_by(identity)) {
        release(mutex, locked);
    } else if (mutex.woken == identity) {
        mutex.woken = 0;
        if (!Mutex::holder(mutex.word.load(std::memory_order_relaxed))) wake_next(mutex, locked);
    }
}

// mutex_orphan(), under the list's lock.
void orphan_locked(Mutex& mutex, Completions& done) {
    for (Waiter* waiter = mutex.first(); waiter; waiter = mutex.following(waiter)) waiter->owner_died = true;
    if (mutex.has_woken_waiter()) mutex.woken_owner_died = true;
    hooks::tsan_release(&mutex.word);
    mutex.word.store(Mutex::contended | Mutex::holder_died, std::memory_order_release);
    wake_next(mutex, done);
    contended_update(mutex);
}

// Orphans the mutex if its holder was in another thread of the process that this one was forked from. The mutexes of
// the forking thread's own fibers were handled in the fork. Under the list's lock.
void orphan_if_lost(Mutex& mutex, Completions& done) {
    uintptr_t word = mutex.word.load(std::memory_order_relaxed);
    if (!Mutex::holder(word) || is_of_this_process(word)) return;
    mutex.prev = mutex.next = nullptr; // the list that it was in does not exist in this process
    orphan_locked(mutex, done);
}

// Handles a word whose holder is not in this process. Returns the new word.
[[gnu::noinline, gnu::cold]] uintptr_t recover(Mutex& mutex) {
    LockedList locked(mutex);
    orphan_if_lost(mutex, locked);
    return mutex.word.load(std::memory_order_relaxed);
}

// Like Mutex::change for a lock, but may fail spuriously; on failure it stores the present word in `from`.
bool swap(Mutex& mutex, uintptr_t& from, uintptr_t to) {
    return mutex.word.compare_exchange_weak(from, to, std::memory_order_acquire, std::memory_order_relaxed);
}

enum class LockResult { busy, locked, owner_died };

// How the lock was taken. word: the mutex's word before that.
LockResult result_of(uintptr_t word) { return word & Mutex::holder_died ? LockResult::owner_died : LockResult::locked; }

// Takes the lock if it is free, else sets the flag contended. Under the list's lock.
LockResult lock_or_contend(Mutex& mutex, uintptr_t identity) {
    uintptr_t word = mutex.word.load(std::memory_order_relaxed);
    for (;;) {
        bool free = !Mutex::holder(word);
        if (!free && (word & Mutex::contended)) return LockResult::busy;
        bool others = !mutex.empty() || mutex.has_woken_waiter();
        uintptr_t wanted = free ? identity | (others ? Mutex::contended : 0) : word | Mutex::contended;
        if (!swap(mutex, word, wanted)) continue;
        return free ? result_of(word) : LockResult::busy;
    }
}

// The try of a waiter that was woken, or given the lock. Sets *owner_died if a holder has died since it was woken.
// Under the list's lock.
LockResult try_after_wake(Mutex& mutex, uintptr_t identity, bool* owner_died) {
    bool given = Mutex::holder(mutex.word.load(std::memory_order_acquire)) == identity;
    if (mutex.woken_owner_died) *owner_died = true;
    mutex.woken_owner_died = false;
    if (given) return LockResult::locked;
    mutex.woken = 0;
    return lock_or_contend(mutex, identity);
}

// Takes the lock without a wait, if it is free.
LockResult try_lock(Mutex& mutex, Caller caller) {
    uintptr_t identity = caller.identity();
    uintptr_t word = mutex.word.load(std::memory_order_relaxed);
    if (Mutex::holder(word) && !is_of_this_process(word)) [[unlikely]]
        word = recover(mutex);
    while (!Mutex::holder(word)) {
        uintptr_t mine = identity | (word & Mutex::contended);
        if (!swap(mutex, word, mine)) continue;
        if (word & Mutex::holder_died) {
            // The thread that set the flag may still hold the list's lock. Waits until it has released that, because
            // the caller may free the mutex after it has unlocked it.
            mutex.lock_list();
            mutex.unlock_list();
        }
        mutex.hold(caller.cord, caller.fiber);
        return result_of(word);
    }
    return LockResult::busy;
}

// Tries once more after the timeout: the lock may have become free while the cord was too busy to notice. Tries as a
// newcomer does, without a place in the list.
int last_try(Mutex& mutex, Caller caller, bool owner_died) {
    LockResult result = try_lock(mutex, caller);
    if (result == LockResult::busy) return -ETIMEDOUT;
    return owner_died || result == LockResult::owner_died ? -EOWNERDEAD : 0;
}

// The standard does not promise offsetof for this class; the compilers that build this support it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
constexpr WaiterKind locker = {"for a lock", mutex_waiter_removed, return_lock, offsetof(Mutex, word), Mutex::flags};
#pragma GCC diagnostic pop

// The operation of a lock that must wait, for perform(). In rounds: each tries the lock, and waits if it is held, since
// newcomers may be faster.
class Locking {
public:
    static constexpr bool waits_once = false;
    Locking(Mutex* mutex, Caller caller, bool stoppable) : mutex_(*mutex), caller_(caller), stoppable_(stoppable) {}
    ~Locking() {}
    Locking(const Locking&) = delete;
    Locking& operator=(const Locking&) = delete;

    // Begins a round. 0 or -EOWNERDEAD: the lock has been taken; must_wait; or why it may not wait.
    int begin() {
        mutex_.lock_list();
        uintptr_t identity = caller_.identity();
        LockResult result = woken_ ? try_after_wake(mutex_, identity, &owner_died_) : lock_or_contend(mutex_, identity);
        if (result != LockResult::busy) {
            mutex_.unlock_list();
            mutex_.hold(caller_.cord, caller_.fiber);
            return owner_died_ || result == LockResult::owner_died ? -EOWNERDEAD : 0;
        }
        if (stoppable_ && caller_.fiber && caller_.fiber->sched.pending) {
            contended_update(mutex_);
            mutex_.unlock_list();
            return check_pending(*caller_.cord, caller_.fiber);
        }
        if (!since_) since_ = clock_now();
        new (&one_) OneWait(locker, identity);
        one_.wait.stoppable = stoppable_;
        one_.waiter.since = since_;
        one_.waiter.owner_died = false;
        one_.join(mutex_, caller_.cord, woken_);
        mutex_.unlock_list();
        return must_wait;
    }

    int go_on(int64_t ended) {
        if (one_.waiter.owner_died) owner_died_ = true;
        woken_ = true;
        if (ended == -ETIMEDOUT) return last_try(mutex_, caller_, owner_died_);
        return ended ? int(ended) : begin();
    }

    SharedWait& wait() { return one_.wait; }

private:
    Mutex& mutex_;
    Caller caller_;
    bool stoppable_;
    bool owner_died_ = false;
    bool woken_ = false;
    int64_t since_ = 0;
    union {
        OneWait one_; // made anew in each round
    };
};

// Not inlined: locks that need not wait would take longer with a Locking on their stacks.
[[gnu::noinline]] int lock_slowly(Mutex& mutex, Caller caller, bool stoppable, int64_t deadline) {
    return int(perform<Locking>(caller.cord, deadline, &mutex, caller, stoppable));
}

} // namespace

int mutex_trylock(Mutex& mutex, Caller caller) {
    switch (try_lock(mutex, caller)) {
    case LockResult::locked: return 0;
    case LockResult::owner_died: return -EOWNERDEAD;
    default: return -EBUSY;
    }
}

bool mutex_is_busy(Mutex& mutex) {
    LockedList locked(mutex);
    orphan_if_lost(mutex, locked);
    return Mutex::holder(mutex.word.load(std::memory_order_relaxed)) || mutex.has_woken_waiter() || !mutex.empty();
}

int mutex_lock(Mutex& mutex, Caller caller, int64_t timeout_ns, bool stoppable) {
    if (int error = caller.refused(stoppable)) return error;
    int result = mutex_trylock(mutex, caller);
    if (result != -EBUSY) return result;
    if (mutex.held_by(caller.identity())) return -EDEADLK;
    if (timeout_ns == 0) return -ETIMEDOUT;
    if (int error = caller.prepare()) return error;
    return lock_slowly(mutex, caller, stoppable, caller.deadline(timeout_ns));
}

void mutex_unlock_slowly(Mutex& mutex, uintptr_t identity) {
    do {
        LockedList locked(mutex);
        if (!mutex.empty() || mutex.has_woken_waiter()) return release(mutex, locked);
        contended_update(mutex); // all waiters have given up
    } while (!mutex.change(identity, 0));
}

void mutex_orphan(Mutex& mutex) {
    LockedList locked(mutex);
    orphan_locked(mutex, locked);
}

} // namespace fiberrt
