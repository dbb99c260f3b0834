// SPDX-License-Identifier: MIT OR Apache-2.0
// The lists of waiters by lock. Their records are used again but never freed, so the caller that wakes a waiter may set
// its event after it has released the list: at worst it wakes the record's next user.
#include "posix/parking.h"

#include "base/list.h"
#include "base/spin_lock.h"
#include "posix/holders.h"

#include <stdlib.h>

namespace fiberrt::posix {

struct Waiter {
    Waiter* previous;
    Waiter* next; // also of the free records
    Waiter* made_before;
    const void* lock;
    uint64_t fiber;
    uint64_t ticket;
    bool shared;
    bool linked;
    bool used; // not among the free records
    fiber_event_t event;
};

struct alignas(64) Bucket {
    StampedLock lock;
    Waiter* first;
    Waiter* last;
    Waiter* free;
    Waiter* last_made; // the first of all records
    size_t records;    // how many there are
    size_t reap_at;    // how many there are at least when a fiber next looks for records of fibers that have ended
    unsigned vain;     // how often a caller has looked for waiters for a lock, and found none
    uint64_t tickets;
    int64_t idle_ns; // how long a condition's waiters wait before they look; grows while they look in vain
};

constinit std::atomic<uint32_t> parked[bucket_count] = {};

namespace {

constinit Bucket buckets[bucket_count] = {};

constexpr int64_t ms = 1'000'000;
constexpr int64_t shortest_slice = 1 * ms;
constexpr int64_t longest_slice = 20 * ms;
constexpr int64_t other_process_slice = 2 * ms;
constexpr int64_t first_idle = 4 * ms;
constexpr int64_t longest_idle = 100 * ms;

constexpr uint32_t waiters_per_slice = 32;

constexpr size_t fewest_to_reap = 4;
constexpr unsigned vain_before_reap = 64;

// When a thread ends, the records of the fibers that wait on it stay in the lists.
bool is_gone(const Waiter& waiter) { return fiber_state({waiter.fiber}) == -ESRCH; }

class LockedBucket {
public:
    explicit LockedBucket(const void* lock) : index_(bucket_of(lock)) {
        StampedLock& word = bucket().lock;
        if (uint32_t before = word.lock(); before != lock_word_free && word.await(before)) {
            // The child of a fork: the waiters are fibers of the parent.
            Bucket& mine = bucket();
            mine.first = mine.last = mine.free = nullptr;
            parked[index_].store(0, std::memory_order_relaxed);
            each_record([this](Waiter* waiter) { free(waiter); });
        }
        hooks::tsan_acquire(&bucket());
    }
    ~LockedBucket() {
        hooks::tsan_release(&bucket());
        bucket().lock.unlock();
    }
    LockedBucket(const LockedBucket&) = delete;
    LockedBucket& operator=(const LockedBucket&) = delete;
    Bucket* operator->() { return &bucket(); }

    void link(Waiter* waiter, bool first) {
        Bucket& mine = bucket();
        waiter->ticket = ++mine.tickets;
        waiter->linked = true;
        waiter->previous = first ? nullptr : mine.last;
        waiter->next = first ? mine.first : nullptr;
        (waiter->previous ? waiter->previous->next : mine.first) = waiter;
        (waiter->next ? waiter->next->previous : mine.last) = waiter;
        // Sequentially consistent: before the waiter's next try of the lock. See the top of parking.h.
        parked[index_].fetch_add(1, std::memory_order_seq_cst);
    }
    void unlink(Waiter* waiter) {
        Bucket& mine = bucket();
        (waiter->previous ? waiter->previous->next : mine.first) = waiter->next;
        (waiter->next ? waiter->next->previous : mine.last) = waiter->previous;
        waiter->linked = false;
        parked[index_].fetch_sub(1, std::memory_order_relaxed);
    }
    void free(Waiter* waiter) {
        waiter->used = waiter->linked = false;
        waiter->next = bucket().free;
        bucket().free = waiter;
    }

    // A free record; null: there is none.
    Waiter* use_free() {
        Waiter* waiter = bucket().free;
        if (!waiter) return nullptr;
        bucket().free = waiter->next;
        waiter->used = true;
        return waiter;
    }
    void add(Waiter* made) {
        Bucket& mine = bucket();
        made->used = true;
        made->made_before = mine.last_made;
        __atomic_store_n(&mine.last_made, made, __ATOMIC_RELEASE); // a fork sees a whole record
        mine.records++;
    }

    // Frees the records of fibers whose threads have ended.
    void reap() {
        size_t freed = 0;
        each_record([&](Waiter* waiter) {
            if (!waiter->used || !is_gone(*waiter)) return;
            if (waiter->linked) unlink(waiter);
            free(waiter);
            freed++;
        });
        size_t twice = 2 * (bucket().records - freed);
        bucket().reap_at = twice < fewest_to_reap ? fewest_to_reap : twice;
    }
    bool should_reap() { return bucket().records >= bucket().reap_at && bucket().records >= fewest_to_reap; }

private:
    template <class Visit>
    void each_record(Visit visit) {
        for (Waiter* one = bucket().last_made; one; one = one->made_before) visit(one);
    }
    Bucket& bucket() const { return buckets[index_]; }
    size_t index_;
};

struct Wakes {
    bool all; // of the waiters that joined before the call
    bool only_shared = false;
    uint64_t last_ticket = UINT64_MAX;
};

// Removes the next waiter to wake. Null: there is none.
Waiter* take_next(const void* lock, Wakes& wakes) {
    LockedBucket bucket(lock);
    if (wakes.last_ticket == UINT64_MAX) wakes.last_ticket = bucket->tickets;
    for (Waiter *at = bucket->first, *next; at; at = next) {
        next = at->next;
        if (at->lock != lock || at->ticket > wakes.last_ticket || (wakes.only_shared && !at->shared)) continue;
        bucket.unlink(at);
        if (is_gone(*at)) {
            bucket.free(at);
            continue;
        }
        bucket->idle_ns = 0;
        if (!wakes.all && !wakes.only_shared && !at->shared) wakes.last_ticket = 0; // wakes only this one
        if (!wakes.all) wakes.only_shared = true;
        return at;
    }
    // Waiters for other locks cost each unlock a search. Some may be gone for ever.
    if (++bucket->vain % vain_before_reap == 0) bucket.reap();
    return nullptr;
}

void wake(const void* lock, Wakes wakes) {
    while (Waiter* waiter = take_next(lock, wakes)) {
        (void)fiber_event_set(&waiter->event);
        if (!wakes.last_ticket) return;
    }
}

} // namespace

void wake_first(const void* lock) { wake(lock, {false}); }
void wake_all(const void* lock) { wake(lock, {true}); }

Place::~Place() {
    if (!waiter_) return;
    LockedBucket bucket(lock_);
    if (waiter_->linked) bucket.unlink(waiter_);
    bucket.free(waiter_);
}

void Place::join() {
    Waiter* made = nullptr;
    for (bool again = true; again;) {
        {
            LockedBucket bucket(lock_);
            if (!waiter_ && !made && !bucket->free && bucket.should_reap()) bucket.reap();
            if (made) bucket.add(made);
            if (!waiter_ && (made || bucket->free)) {
                waiter_ = made ? made : bucket.use_free();
                waiter_->lock = lock_;
                waiter_->shared = shared_;
                waiter_->fiber = this_fiber();
                (void)fiber_event_reset(&waiter_->event); // the waker of the record's last user may have been late
            }
            if (waiter_ && !waiter_->linked) {
                bucket.link(waiter_, joined_);
                joined_ = true;
            }
            again = !waiter_;
        }
        if (!again) break;
        KeepErrno keep;
        made = static_cast<Waiter*>(calloc(1, sizeof(Waiter)));
        again = made;
    }
    barrier_after_atomic();
}

bool Place::leave() {
    if (!waiter_) return false;
    LockedBucket bucket(lock_);
    bool was_woken = joined_ && !waiter_->linked;
    if (waiter_->linked) bucket.unlink(waiter_);
    joined_ = false;
    return was_woken;
}

// Many waiters look more seldom: if each looked every few milliseconds, a thousand would take the thread's whole time.
// A fiber still tries a free lock soon, because any of them may. But of a condition's waiters each must look.
int64_t Place::slice() {
    if (unlocks_ == Unlocks::signals) return slice_of_one();
    int64_t many = 1 + parked[bucket_of(lock_)].load(std::memory_order_relaxed) / waiters_per_slice;
    return many * slice_of_one();
}

int64_t Place::slice_of_one() {
    if (unlocks_ == Unlocks::elsewhere) return other_process_slice;
    if (unlocks_ == Unlocks::signals) {
        LockedBucket bucket(lock_);
        return bucket->idle_ns ? bucket->idle_ns : first_idle;
    }
    // A fraction of the time waited so far: the wait may last that much longer than needed.
    int64_t slice = since_ ? (fiber_now() - since_) / 8 : 0;
    if (!since_) since_ = fiber_now();
    return slice < shortest_slice ? shortest_slice : slice > longest_slice ? longest_slice : slice;
}

void Place::looks_in_vain() {
    LockedBucket bucket(lock_);
    int64_t longer = bucket->idle_ns ? bucket->idle_ns * 2 : first_idle * 2;
    bucket->idle_ns = longer > longest_idle ? longest_idle : longer;
}

Next Place::wait(const Limit& limit, bool* look) {
    int64_t left = limit.left();
    int64_t slice = this->slice();
    bool is_last = left <= slice;
    if (is_last) slice = left;
    int result = -ETIMEDOUT;
    if (waiter_) {
        result = fiber_event_wait_timeout(&waiter_->event, slice);
    } else if (int error = fiber_sleep(slice)) {
        result = error;
    }
    if (result == 0) {
        since_ = 0; // the lock may be free in a moment, if the waker is about to unlock it in the C library
        return Next::retry;
    }
    if (result != -ETIMEDOUT) return Next::block;
    if (is_last && !limit.left()) return leave() ? Next::retry : Next::timed_out;
    if (!look) return Next::retry;
    if (unlocks_ == Unlocks::signals) looks_in_vain();
    if (leave()) return Next::retry;
    *look = true;
    return Next::timed_out;
}

} // namespace fiberrt::posix
