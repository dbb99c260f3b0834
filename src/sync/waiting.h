// SPDX-License-Identifier: MIT OR Apache-2.0
// What all primitives of this layer are made of: a list of waiters, and a wait for one thing of several lists. (caller.h
// has the caller, one_wait.h the wait in one list, which most primitives need.)
//
// A primitive lies in the user's memory and is a list of Waiters with its SpinLock, and a few numbers. A wait may stand
// in several lists (select). It is ended once, by the side that decides it: a thread that has the lock of a list that
// the wait stands in completes it, or its own side stops it. A waiter whose wait is decided otherwise stays where it is
// until its own side takes it out, and is passed over: so a primitive that has one is not destroyed, and no thread
// touches a primitive after the wait that it completed.
//
// Waits are completed after the lock has been left, since that may ring: see Completions.
// fuzz: waiting 90 %
#pragma once

#include "base/list.h"
#include "base/spin_lock.h"
#include "core/cord.h"
#include "core/relay.h"
#include "core/shared_wait.h"
#include "sync/caller.h"

#include <atomic>
#include <errno.h>
#include <stdint.h>
#include <sys/single_threaded.h>

namespace fiberrt {

struct Waiters;
struct SyncWait;
class Completions;

// What all waiters of a kind have in common.
struct WaiterKind {
    const char* text; // what its fiber waits for, after "waits ": told by fiber_dump and gdb
    // Under the list's lock, when a waiter has left the list without being completed: completes those whose turn it is
    // now. Null: nothing follows from that.
    void (*left)(Waiters& list, Completions& done);
    // Passes on what wait.winner was given, as the fiber does not run any more. Null: that was nothing.
    void (*give_back)(SyncWait& wait);
};

// A wait's place in one list.
struct Waiter : Link {
    SyncWait* wait = nullptr;
    Waiters* list = nullptr;
    const WaiterKind* kind = nullptr; // null: it never is in a list
    uint64_t number; // of a semaphore: how many permits; of a lock: whose it will be; of a channel: its handle; of a
                     // condition or an event: whether it was given to this one alone
    void* item;      // of a channel: what to copy from or to
    int64_t since;   // of a mutex, which sets it: since when it waits,
    bool heir;       // and whether a holder has died meanwhile
};

// The part of a primitive that waits need. All zero: there are no waiters.
struct Waiters : private ShortList<Waiter> {
    StampedLock lock; // of all below, and of the primitive's numbers

    void enter() {
        if (*no_lock_is_needed) { // no thread is made under it
            lock.lock_alone();
        } else if (uint32_t word = lock.lock(); word != lock_word_free) [[unlikely]] {
            enter_slowly(word);
        }
        hooks::taken(this);
    }
    void leave() {
        hooks::given(this);
        lock.unlock();
    }

    using ShortList::empty; // of those that are decided too
    using ShortList::remove;
    Waiter* following(Waiter* waiter) { return after(waiter); }

    Waiter* any() { return front(); } // the first, decided or not

    // The first waiter whose wait is not decided.
    inline Waiter* first();
    // Decides the wait of this waiter, which is in the list, and takes the waiter out; the caller completes the wait.
    // False: the wait has been decided otherwise.
    inline bool take(Waiter* waiter);
    // Takes the first that it can; null: there is none.
    Waiter* take_first() {
        while (Waiter* waiter = first()) {
            if (take(waiter)) return waiter;
        }
        return nullptr;
    }

    void add(Waiter& waiter) {
        waiter.list = this;
        push_back(&waiter);
    }
    void add_first(Waiter& waiter) {
        waiter.list = this;
        push_front(&waiter);
    }

    // In the child of a fork: the waiters of this list wait in the parent.
    void forget_all() { static_cast<ShortList&>(*this) = {}; }

private:
    void enter_slowly(uint32_t word);
};

struct SyncWait : SharedWait {
    SyncWait(Waiter* waiters, uint32_t count) : count(count), waiters(waiters) {}
    SyncWait(const SyncWait&) = delete;
    SyncWait& operator=(const SyncWait&) = delete;

    // Called before the wait is completed or stopped. True, once: the caller does it.
    bool decide() {
        uint32_t open = 0;
        if (!__libc_single_threaded) return decided.compare_exchange_strong(open, 1, std::memory_order_relaxed);
        open = decided.load(std::memory_order_relaxed);
        decided.store(1, std::memory_order_relaxed);
        return !open;
    }
    bool is_decided() const { return decided.load(std::memory_order_relaxed); }

    // Before the first of its waiters is put into a list.
    void begin(Cord* home) {
        unwanted = pass_on;
        shared_wait_prepare(home, *this, stop_early);
    }
    // Waits; all waiters are in their lists. Returns what the wait was completed or stopped with, in no list any more.
    int64_t park(int64_t deadline);
    // It need not begin. The others have their turn; if the thread ends in it, what was taken from the list of `taker`
    // is passed on.
    void give_turn(Waiter& taker, Waiters& list);
    void leave_lists();

    static void stop_early(Wait* base, int reason);
    static bool stop_thread(SharedWait& wait); // which has no cord
    static void pass_on(SharedWait* base);     // what the wait was given, as its fiber never runs again

    uint32_t count;
    Waiter* waiters; // count of them
    std::atomic<uint32_t> decided{0};
    bool stoppable = true;                          // by cancels, interrupts and deadlines
    Waiter* winner = nullptr;                       // whose list has completed it
    void (*leave_others)(SyncWait& wait) = nullptr; // leaves what it waits for besides the lists
    // Its fiber never runs again: frees what the call has taken. Null: that was nothing.
    void (*abandon)(SyncWait& wait) = nullptr;
};

// Waits that are completed when this goes out of scope: after the lock.
class Completions {
public:
    Completions() = default;
    ~Completions() {
        if (first_) complete_all(first_);
    }
    Completions(const Completions&) = delete;
    Completions& operator=(const Completions&) = delete;

    // waiter: that take() has taken.
    void add(Waiter* waiter, int64_t result) {
        waiter->wait->result = result;
        Message* message = waiter->wait;
        message->next = nullptr;
        (last_ ? last_->next : first_) = message;
        last_ = message;
    }
    void take_all(Waiters& list, int64_t result) {
        while (Waiter* waiter = list.take_first()) add(waiter, result);
    }

private:
    static void complete_all(Message* message);

    Message* first_ = nullptr;
    Message* last_ = nullptr;
};

inline Waiter* Waiters::first() {
    Waiter* waiter = front();
    while (waiter && waiter->wait->is_decided()) waiter = after(waiter);
    return waiter;
}

inline bool Waiters::take(Waiter* waiter) {
    if (!waiter->wait->decide()) return false;
    waiter->wait->winner = waiter;
    remove(waiter);
    return true;
}

// The lock of a list, with the completions that follow after it.
class Changing : public Completions {
public:
    explicit Changing(Waiters& list) : list_(list) { list.enter(); }
    ~Changing() { list_.leave(); } // and then the completions, by the base
private:
    Waiters& list_;
};

} // namespace fiberrt
