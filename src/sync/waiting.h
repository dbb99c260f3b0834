// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of all primitives of this layer: Waiters, a list of waiters with its lock, and SyncWait, a wait in one or
// several such lists. (caller.h has the caller, one_wait.h the wait in one list, which most primitives need.)
//
// A primitive lies in the user's memory: Waiters and a few numbers. A wait may have a waiter in each of several lists
// (select). It is claimed once, by claim(): either by a thread that holds the lock of one of these lists, which then
// completes it, or by its own thread, which stops it. The other waiters of a claimed wait stay in their lists until the
// wait's own thread removes them; other threads skip them. So a primitive with such a waiter must not be destroyed yet,
// and no thread touches a primitive after it has completed a wait of that primitive.
//
// A thread completes waits after it has released the lock, because completing may wake another thread: see Completions.
// fuzz: waiting 90 %
#pragma once

#include "base/list.h"
#include "base/one_thread.h"
#include "base/spin_lock.h"
#include "core/cord.h"
#include "core/scheduler.h"
#include "core/shared_wait.h"
#include "sync/caller.h"

#include <atomic>
#include <errno.h>
#include <stdint.h>

namespace fiberrt {

struct Waiters;
struct SyncWait;
class Completions;

// The kind of a waiter: its text, and the primitive's reactions to a wait that ends early.
struct WaiterKind {
    const char* text; // fiber_dump and gdb print it after "waits "
    // Called under the list's lock when a waiter has left the list without being completed: completes the waiters that
    // can continue now. Null: none can.
    void (*on_removed)(Waiters& list, Completions& done);
    // Gives back the grant: the permit, item or lock that wait.selected was given, because its fiber does not run any
    // more. Null: the primitive gives its waiters nothing.
    void (*return_grant)(SyncWait& wait);
    // Where the primitive keeps the identity of the holder (caller.h): the distance from the list in bytes; 0: it has no
    // holder.
    uint16_t holder_at = 0;
    uint16_t holder_flags = 0; // the bits of that word that are not
    WaitFor what = WaitFor::primitive;
};

// A wait's place in one list.
struct Waiter : Link {
    SyncWait* wait = nullptr;
    Waiters* list = nullptr;
    const WaiterKind* kind = nullptr; // null: it is never in a list
    uint64_t number; // semaphore: how many permits; lock: the waiter's identity; channel: its handle; condition and
                     // event: whether only this waiter was given the signal
    void* item;      // channel: the item to send, or the memory to receive into; barrier: a flag
    int64_t since;   // mutex: since when it waits
    bool owner_died; // mutex: whether a holder has died meanwhile
};

// The part of a primitive that waits need. All zero: there are no waiters.
struct Waiters : private ShortList<Waiter> {
    StampedLock lock; // protects the list, and the primitive's numbers

    void lock_list() {
        if (*no_lock_is_needed) { // the process has one thread, and makes no other under the lock
            lock.lock_alone();
        } else if (uint32_t word = lock.lock(); word != lock_word_free) [[unlikely]] {
            lock_list_slowly(word);
        }
        hooks::tsan_acquire(this);
    }
    void unlock_list() {
        hooks::tsan_release(this);
        lock.unlock();
    }

    using ShortList::empty; // false also if all waits are claimed
    using ShortList::remove;
    Waiter* following(Waiter* waiter) { return after(waiter); }

    Waiter* any() { return front(); } // the first, claimed or not

    // The first waiter whose wait is not claimed.
    inline Waiter* first();
    // Claims the wait of this waiter, which is in the list, and removes the waiter; the caller completes the wait.
    // False: the wait has been claimed already.
    inline bool claim(Waiter* waiter);
    // Claims the first waiter that it can; null: there is none.
    Waiter* claim_first() {
        while (Waiter* waiter = first()) {
            if (claim(waiter)) return waiter;
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

    // Empties the list in the child of a fork: its waiters wait in the parent.
    void drop_all() { static_cast<ShortList&>(*this) = {}; }

private:
    void lock_list_slowly(uint32_t word);
};

struct SyncWait : SharedWait {
    SyncWait(Waiter* waiters, uint32_t count) : count(count), waiters(waiters) {}
    SyncWait(const SyncWait&) = delete;
    SyncWait& operator=(const SyncWait&) = delete;

    // Claims the wait. True for the first caller, which must complete or stop it.
    bool claim() {
        uint32_t open = 0;
        if (!surely_one_thread()) return claimed.compare_exchange_strong(open, 1, std::memory_order_relaxed);
        open = claimed.load(std::memory_order_relaxed);
        claimed.store(1, std::memory_order_relaxed);
        return !open;
    }
    bool is_claimed() const { return claimed.load(std::memory_order_relaxed); }

    // Prepares the wait. To be called before its first waiter is added to a list.
    void begin(Cord* home) {
        on_orphaned = pass_on;
        shared_wait_prepare(home, *this, stop_early);
    }
    // Waits; all waiters are in their lists. Returns the result that the wait was completed or stopped with; then no
    // waiter is in a list any more.
    int64_t park(int64_t deadline);
    // For a call that did not have to wait: lets the other fibers run. If the thread ends meanwhile, the permit, item
    // or lock that `grant` stands for is given back to the list.
    void give_turn(Waiter& grant, Waiters& list);
    void remove_from_lists();

    static void stop_early(Wait* base, int reason);
    static bool stop_thread(SharedWait& wait); // for a thread without a cord
    static void pass_on(SharedWait* base);     // the fiber never runs again: gives back what the wait was given

    uint32_t count;
    Waiter* waiters; // count of them
    std::atomic<uint32_t> claimed{0};
    bool stoppable = true;                         // by cancels, interrupts and deadlines
    Waiter* selected = nullptr;                    // the waiter whose list has completed the wait
    void (*end_watches)(SyncWait& wait) = nullptr; // select: ends the watches, which are in no list of waiters
    // Called if the fiber never runs again: frees the memory of the call. Null: it has none.
    void (*free_memory)(SyncWait& wait) = nullptr;
};

// Collects waits, and completes them when it goes out of scope, after the lock has been released.
class Completions {
public:
    Completions() = default;
    ~Completions() {
        if (first_) complete_all(first_);
    }
    Completions(const Completions&) = delete;
    Completions& operator=(const Completions&) = delete;

    // waiter: claim() has returned true for it.
    void add(Waiter* waiter, int64_t result) {
        waiter->wait->result = result;
        Message* message = waiter->wait;
        message->next = nullptr;
        (last_ ? last_->next : first_) = message;
        last_ = message;
    }
    void claim_all(Waiters& list, int64_t result) {
        while (Waiter* waiter = list.claim_first()) add(waiter, result);
    }

private:
    static void complete_all(Message* message);

    Message* first_ = nullptr;
    Message* last_ = nullptr;
};

inline Waiter* Waiters::first() {
    Waiter* waiter = front();
    while (waiter && waiter->wait->is_claimed()) waiter = after(waiter);
    return waiter;
}

inline bool Waiters::claim(Waiter* waiter) {
    if (!waiter->wait->claim()) return false;
    waiter->wait->selected = waiter;
    remove(waiter);
    return true;
}

// Holds the lock of a list, and completes the added waits after it has released the lock.
class LockedList : public Completions {
public:
    explicit LockedList(Waiters& list) : list_(list) { list.lock_list(); }
    ~LockedList() { list_.unlock_list(); } // then the base class completes the waits
private:
    Waiters& list_;
};

} // namespace fiberrt
