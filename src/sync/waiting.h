// SPDX-License-Identifier: MIT OR Apache-2.0
// What all primitives of this layer are made of: who calls, a list of waiters, and a wait for one thing of several
// lists.
//
// A primitive lies in the user's memory and is a list of Waiters with its SpinLock, and a few numbers. A wait may stand
// in several lists (select). It is ended once, by whoever decides it: completed by somebody who has the lock of a list
// that it stands in, or stopped by its own side. A waiter whose wait is decided otherwise stays where it is until its
// own side takes it out, and is passed over: so a primitive that has one is not destroyed, and nobody touches one after
// its wait was completed by it.
//
// Waits are completed after the lock has been left, since that may ring: see Completions.
#pragma once

#include "base/list.h"
#include "base/spin_lock.h"
#include "core/cord.h"
#include "core/relay.h"
#include "core/shared_wait.h"

#include <atomic>
#include <errno.h>
#include <stdint.h>
#include <sys/single_threaded.h>

namespace fiberrt {

// What tells a holder of this process from one of another that it was forked from, and that had several threads: it is
// in those bits of an identity that an address of the user's does not have. Zero where there was no such fork: then each
// is of this process, and may have all bits. Elsewhere a wider address is taken for a lost holder's: Linux gives such to
// who asks for them, but RISC-V with five levels of tables (Sv57) to everybody from 5.18 to 6.5.
inline constinit uintptr_t identity_stamp = 0;
constexpr int identity_stamp_shift = 48;
inline void identity_stamp_renew() { // not to 0, ever
    do identity_stamp += uintptr_t(1) << identity_stamp_shift;
    while (!identity_stamp);
}
inline bool is_of_this_process(uintptr_t identity) {
    return !identity_stamp || !((identity ^ identity_stamp) >> identity_stamp_shift);
}

// Who makes a call: a fiber, or a thread without a cord.
struct Caller {
    Cord* cord; // null: there is none
    Fiber* fiber;

    static Caller of(Cord& cord) { return {&cord, cord.current}; }
    static Caller here() {
        Cord* cord = cord_if_any();
        return cord ? of(*cord) : Caller{nullptr, nullptr};
    }

    // By which mutexes know it, in this process alone.
    uintptr_t identity() const { return lasting_identity() + identity_stamp; }
    static uintptr_t identity_of(const Cord& cord, const Fiber* fiber) {
        return lasting_identity_of(cord, fiber) + identity_stamp;
    }
    // What stays the same in the child of a fork: of a main flow the thread's, as that may have held locks before it
    // had a cord.
    uintptr_t lasting_identity() const { return cord ? lasting_identity_of(*cord, fiber) : uintptr_t(pthread_self()); }
    static uintptr_t lasting_identity_of(const Cord& cord, const Fiber* fiber) {
        return fiber->kind == Kind::main_flow ? cord.main_identity : reinterpret_cast<uintptr_t>(fiber);
    }

    // What stands in the way of a call that may wait; 0: nothing. stoppable: a cancel does.
    int refused(bool stoppable = true) const {
        if (!fiber || !fiber->attention) return 0;
        return stoppable || (fiber->attention & attention_noswitch) ? attend(*cord, fiber) : 0;
    }
    int prepare() { // to wait. 0, -ENOTSUP, -ENOMEM
        if (this_cord) [[likely]]
            return 0;
        Caller prepared = *this; // a copy, so that this one can stay in registers
        int error = prepared.prepare_slowly();
        *this = prepared;
        return error;
    }
    int64_t deadline(int64_t timeout_ns) const { // absolute
        return timeout_ns == never ? never : clock_deadline(cord, timeout_ns);
    }
    // Both for a call that waits unless timeout_ns is 0.
    int begin(int64_t timeout_ns) {
        if (int error = timeout_ns ? prepare() : 0) return error; // which may bring a cancel
        return refused();
    }
    // Of a call that has done at once what it might have waited for: true, and the others of the cord are to have their
    // turn, by SyncWait::give_turn.
    bool turn_is_due() const { return this_cord && fiberrt::turn_is_due(*this_cord); }

private:
    int prepare_slowly();
    static int64_t clock_deadline(Cord* cord, int64_t timeout_ns); // saturating
};

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

// The part of a primitive that waits need. All zero: nobody waits.
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

    // The first waiter whose wait is not decided.
    inline Waiter* first();
    // Decides the wait of this one, which is in the list, and takes it out: it is to be completed. False: it is decided
    // otherwise by now.
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

    // In the child of a fork: who waits here, waits in the parent.
    void forget_all() { static_cast<ShortList&>(*this) = {}; }

private:
    void enter_slowly(uint32_t word);
};

struct SyncWait : SharedWait {
    SyncWait(Waiter* waiters, uint32_t count) : count(count), waiters(waiters) {}
    SyncWait(const SyncWait&) = delete;
    SyncWait& operator=(const SyncWait&) = delete;

    // Whoever wants to complete or to stop it: true, once, for one of them.
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
    // All its waiters are in their lists. Returns what it was completed or stopped with; it is in no list any more.
    int64_t park(int64_t deadline);
    // It need not begin. The others have their turn; if the thread ends in it, what was taken from the list of `taker`
    // is passed on.
    void give_turn(Waiter& taker, Waiters& list);
    void leave_lists();

    static void stop_early(Wait* base, int reason);
    static bool stop_thread(SharedWait& wait); // which has no cord
    static void pass_on(SharedWait* base);     // what it has been given, as its fiber does not run any more

    uint32_t count;
    Waiter* waiters; // count of them
    std::atomic<uint32_t> decided{0};
    bool stoppable = true;                          // by cancels, interrupts and deadlines
    Waiter* winner = nullptr;                       // whose list has completed it
    void (*leave_others)(SyncWait& wait) = nullptr; // what it waits for besides its waiters' lists, with leave_lists()
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

// A wait in one list.
struct OneWait {
    explicit OneWait(const WaiterKind& kind, uint64_t number = 0, void* item = nullptr) : wait(&waiter, 1) {
        wait.what = WaitFor::primitive;
        waiter.wait = &wait;
        waiter.kind = &kind;
        waiter.number = number;
        waiter.item = item;
    }

    void join(Waiters& list, Cord* home, bool first = false) { // which is locked
        wait.begin(home);
        first ? list.add_first(waiter) : list.add(waiter);
    }
    SyncWait wait;
    Waiter waiter;
};

// Both apart from the calls that need not wait, which would take twice as long with a wait on their stacks.
// In a list that is locked, and left: what the wait was completed with, or why it ended early; of a stackless fiber also
// must_wait.
int wait_in(Waiters& list, const WaiterKind& kind, uint64_t number, void* item, Cord* home, int64_t deadline);
// SyncWait::give_turn, of a waiter that would have been so.
void give_turn(Waiters& list, const WaiterKind& kind, uint64_t number, void* item = nullptr);

// A call that waits unless try_now(), called under the lock, says that it need not: 0, or an error; -EAGAIN: it must.
// Its result, what the wait was completed with, or why it ended early.
template <class Try>
int wait_unless(Waiters& list, Caller caller, int64_t timeout_ns, const WaiterKind& kind, uint64_t number,
                Try try_now) {
    if (int error = caller.begin(timeout_ns)) return error;
    list.enter();
    int result = try_now();
    if (result == -EAGAIN && timeout_ns)
        return wait_in(list, kind, number, nullptr, caller.cord, caller.deadline(timeout_ns));
    list.leave();
    if (result == -EAGAIN) return -ETIMEDOUT;
    if (caller.turn_is_due()) [[unlikely]]
        result ? turn_give(*this_cord) : give_turn(list, kind, number); // who is refused has taken nothing
    return result;
}

} // namespace fiberrt
