// SPDX-License-Identifier: MIT OR Apache-2.0
// The mutex's slower half: contention, and locks whose holders have died.
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

// Under the lock, as all here.
void contended_update(Mutex& mutex) {
    if (mutex.empty() && !mutex.somebody_is_woken()) mutex.word.fetch_and(~Mutex::contended, std::memory_order_relaxed);
}

void waiter_left(Waiters& list, Completions&) { contended_update(static_cast<Mutex&>(list)); }

// The lock is free, and the word says contended: the first waiter is to come.
void wake_next(Mutex& mutex, Completions& done) {
    if (mutex.somebody_is_woken()) return;
    if (Waiter* next = mutex.take_first()) {
        mutex.woken = next->number;
        mutex.woken_since = next->since;
        mutex.woken_is_heir = false;
        done.add(next, 0);
    } // else the word may say contended in vain: the next unlock mends it, and is the last to touch the mutex
}

void give_to(Mutex& mutex, uintptr_t identity) {
    // Release: see Mutex::change.
    mutex.word.store(identity | (mutex.empty() ? 0 : Mutex::contended), std::memory_order_release);
}

// The holder leaves the mutex.
void release(Mutex& mutex, Completions& done) {
    Waiter* next = mutex.somebody_is_woken() ? nullptr : mutex.first();
    int64_t since = mutex.somebody_is_woken() ? mutex.woken_since : next ? next->since : INT64_MAX;
    bool starved = since != INT64_MAX && clock_now() - since > overtaken_most_ns;
    if (starved && mutex.somebody_is_woken()) { // it finds the lock its own when it comes
        uintptr_t identity = mutex.woken;
        mutex.woken = 0;
        give_to(mutex, identity);
    } else if (starved && mutex.take(next)) {
        give_to(mutex, next->number);
        done.add(next, 0);
    } else {
        mutex.word.store(Mutex::contended, std::memory_order_release);
        if (PLANTED(unlock_wakes_nobody)) return;
        wake_next(mutex, done);
    }
}

// The thread of a fiber that was woken, or given the lock, ends.
void lock_unwanted(SyncWait& wait) {
    auto& mutex = static_cast<Mutex&>(*wait.winner->list);
    uintptr_t identity = wait.winner->number;
    Changing changing(mutex);
    if (mutex.held_by(identity)) {
        release(mutex, changing);
    } else if (mutex.woken == identity) {
        mutex.woken = 0;
        if (!Mutex::holder(mutex.word.load(std::memory_order_relaxed))) wake_next(mutex, changing);
    }
}

// Its holder has died, and the mutex is in no list of held ones.
void orphan_locked(Mutex& mutex, Completions& done) {
    for (Waiter* waiter = mutex.first(); waiter; waiter = mutex.following(waiter)) waiter->heir = true;
    if (mutex.somebody_is_woken()) mutex.woken_is_heir = true;
    hooks::given(&mutex.word);
    mutex.word.store(Mutex::contended | Mutex::holder_died, std::memory_order_release);
    wake_next(mutex, done);
    contended_update(mutex);
}

// Its holder was another thread's, of the process that this one was forked from: what the forking thread's own fibers
// held has been seen to.
void orphan_if_lost(Mutex& mutex, Completions& done) {
    uintptr_t word = mutex.word.load(std::memory_order_relaxed);
    if (!Mutex::holder(word) || is_of_this_process(word)) return;
    mutex.prev = mutex.next = nullptr; // the list that it was in is no more
    orphan_locked(mutex, done);
}

// Of a holder that is not of this process. What the word is now.
[[gnu::noinline, gnu::cold]] uintptr_t inherit(Mutex& mutex) {
    Changing changing(mutex);
    orphan_if_lost(mutex, changing);
    return mutex.word.load(std::memory_order_relaxed);
}

// As Mutex::change, and stores the word in `from` if it is another.
bool swap(Mutex& mutex, uintptr_t& from, uintptr_t to) {
    return mutex.word.compare_exchange_weak(from, to, std::memory_order_acquire, std::memory_order_relaxed);
}

enum class Taken { no, yes, by_heir };

// word: what was there before.
Taken taken(uintptr_t word) { return word & Mutex::holder_died ? Taken::by_heir : Taken::yes; }

// Takes the lock if it is free; else makes sure that the word says contended.
Taken take_or_contend(Mutex& mutex, uintptr_t identity) {
    uintptr_t word = mutex.word.load(std::memory_order_relaxed);
    for (;;) {
        bool free = !Mutex::holder(word);
        if (!free && (word & Mutex::contended)) return Taken::no;
        bool others = !mutex.empty() || mutex.somebody_is_woken();
        uintptr_t wanted = free ? identity | (others ? Mutex::contended : 0) : word | Mutex::contended;
        if (!swap(mutex, word, wanted)) continue;
        return free ? taken(word) : Taken::no;
    }
}

// The next round of a waiter that was woken. *heir: a holder has died since then.
Taken come(Mutex& mutex, uintptr_t identity, bool* heir) {
    bool given = Mutex::holder(mutex.word.load(std::memory_order_acquire)) == identity;
    if (mutex.woken_is_heir) *heir = true;
    mutex.woken_is_heir = false;
    if (given) return Taken::yes;
    mutex.woken = 0;
    return take_or_contend(mutex, identity);
}

// Takes it without a wait, if it is free.
Taken take(Mutex& mutex, Caller caller) {
    uintptr_t identity = caller.identity();
    uintptr_t word = mutex.word.load(std::memory_order_relaxed);
    if (Mutex::holder(word) && !is_of_this_process(word)) [[unlikely]]
        word = inherit(mutex);
    while (!Mutex::holder(word)) {
        uintptr_t mine = identity | (word & Mutex::contended);
        if (!swap(mutex, word, mine)) continue;
        if (word & Mutex::holder_died) {
            // Waits until the thread that set the flag has left: the mutex may be gone once it is unlocked.
            mutex.enter();
            mutex.leave();
        }
        mutex.hold(caller.cord, caller.fiber);
        return taken(word);
    }
    return Taken::no;
}

// The time is over; but the lock may be free for a waiter that was woken and whose cord is busy.
int last_try(Mutex& mutex, Caller caller, bool heir) {
    Taken taken = take(mutex, caller);
    if (taken == Taken::no) return -ETIMEDOUT;
    return heir || taken == Taken::by_heir ? -EOWNERDEAD : 0;
}

constexpr WaiterKind locker = {"for a lock", waiter_left, lock_unwanted};

// A lock that has to wait, in rounds: each tries it, and waits if that fails, as others may be faster.
class Locking {
public:
    static constexpr bool waits_once = false;
    Locking(Mutex* mutex, Caller caller, bool stoppable) : mutex_(*mutex), caller_(caller), stoppable_(stoppable) {}
    ~Locking() {}
    Locking(const Locking&) = delete;
    Locking& operator=(const Locking&) = delete;

    // 0 or -EOWNERDEAD: it has been taken; must_wait; or why it may not wait.
    int begin() {
        mutex_.enter();
        uintptr_t identity = caller_.identity();
        Taken taken = woken_ ? come(mutex_, identity, &heir_) : take_or_contend(mutex_, identity);
        if (taken != Taken::no) {
            mutex_.leave();
            mutex_.hold(caller_.cord, caller_.fiber);
            return heir_ || taken == Taken::by_heir ? -EOWNERDEAD : 0;
        }
        if (stoppable_ && caller_.fiber && caller_.fiber->sched.attention) {
            contended_update(mutex_);
            mutex_.leave();
            return attend(*caller_.cord, caller_.fiber);
        }
        if (!since_) since_ = clock_now();
        new (&one_) OneWait(locker, identity);
        one_.wait.stoppable = stoppable_;
        one_.waiter.since = since_;
        one_.waiter.heir = false;
        one_.join(mutex_, caller_.cord, woken_);
        mutex_.leave();
        return must_wait;
    }

    int go_on(int64_t ended) {
        if (one_.waiter.heir) heir_ = true;
        woken_ = true;
        if (ended == -ETIMEDOUT) return last_try(mutex_, caller_, heir_);
        return ended ? int(ended) : begin();
    }

    SharedWait& wait() { return one_.wait; }

private:
    Mutex& mutex_;
    Caller caller_;
    bool stoppable_;
    bool heir_ = false;
    bool woken_ = false;
    int64_t since_ = 0;
    union {
        OneWait one_; // of the present round
    };
};

// Apart from the locks that need not wait, which would take longer with this on their stacks.
[[gnu::noinline]] int lock_slowly(Mutex& mutex, Caller caller, bool stoppable, int64_t deadline) {
    return int(perform<Locking>(caller.cord, deadline, &mutex, caller, stoppable));
}

} // namespace

int mutex_trylock(Mutex& mutex, Caller caller) {
    switch (take(mutex, caller)) {
    case Taken::yes: return 0;
    case Taken::by_heir: return -EOWNERDEAD;
    default: return -EBUSY;
    }
}

bool mutex_is_busy(Mutex& mutex) {
    Changing changing(mutex);
    orphan_if_lost(mutex, changing);
    return Mutex::holder(mutex.word.load(std::memory_order_relaxed)) || mutex.somebody_is_woken() || !mutex.empty();
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
        Changing changing(mutex);
        if (!mutex.empty() || mutex.somebody_is_woken()) return release(mutex, changing);
        contended_update(mutex); // the waiters have given up
    } while (!mutex.change(identity, 0));
}

void mutex_orphan(Mutex& mutex) {
    Changing changing(mutex);
    orphan_locked(mutex, changing);
}

} // namespace fiberrt
