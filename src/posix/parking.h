// SPDX-License-Identifier: MIT OR Apache-2.0
// A parking lot: fibers wait here for the C library's locks. The C library's functions still lock and unlock the lock.
// A fiber that finds the lock held joins the waiters for the lock's address, tries once more, and waits for an event.
// The caller that unlocks wakes the first waiter for the address, which tries again. Wakes may be spurious.
//
// No wake is lost: the waiter counts itself before it tries, and the unlocker looks at the count after it has
// unlocked. Full barriers on both sides order each store before the load that follows, so at least one of the two sees
// the other. Code that is not adopted, and other processes, unlock without a look at the count. So each wait consists
// of slices, and after each slice the waiter tries by itself.
#pragma once

#include "posix/clock.h"
#include "posix/wait.h"

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt::posix {

struct Waiter;

// The waiters for the locks whose addresses have the same hash share a bucket.
constexpr size_t bucket_count = 256;
extern std::atomic<uint32_t> parked[bucket_count]; // the number of waiters in each bucket

inline size_t bucket_of(const void* lock) {
    return size_t((uintptr_t(lock) >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 56);
}

// A full barrier, after an unlock by the C library or an atomic addition.
inline void barrier_after_atomic() {
#if defined(__x86_64__) || FIBERRT_THREAD_SANITIZER
    // Both are locked instructions of the processor, which are full barriers; the C library unlocks by a plain store
    // only while the process has one thread. (ThreadSanitizer does not know fences.)
    std::atomic_signal_fence(std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

inline bool any_parked(const void* lock) { return parked[bucket_of(lock)].load(std::memory_order_relaxed); }

// wake_first wakes the first waiter; if that one shares the lock (as readers do), it wakes all waiters that share it.
void wake_first(const void* lock);
void wake_all(const void* lock);

// Called after an unlock. The lock's memory may have been freed since.
inline void unlocked(const void* lock) {
    barrier_after_atomic();
    if (any_parked(lock)) [[unlikely]]
        wake_first(lock);
}

// Which code unlocks the lock. This decides how long a slice is.
enum class Unlocks : uint8_t {
    here,      // adopted code of this process probably makes all unlocks
    elsewhere, // another process may unlock
    signals,   // a condition: the caller must look at its condition, so a wait returns after one slice
};

// The calling fiber's place among the waiters for a lock, as long as this object lives.
class Place {
public:
    explicit Place(const void* lock, Unlocks unlocks, bool shared = false)
        : lock_(lock), unlocks_(unlocks), shared_(shared) {}
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Joins the waiters, unless the caller is among them: as the last one, or as the first one if the caller was woken
    // before. Acts as a full barrier. If there is no memory, the caller gets no place, and wait() sleeps instead.
    void join();

    // Waits for one slice, or until a wake or the limit. retry: the lock may be free, or the slice is over; timed_out:
    // the limit has passed; block: the caller cannot wait here. With `look` (for a condition), the end of a slice gives
    // timed_out and sets *look.
    Next wait(const Limit& limit, bool* look = nullptr);

    // Leaves the waiters. True: the caller had been woken.
    bool leave();

    // Leaves, and hands a wake that the caller has received to the next waiter.
    void pass_on() {
        if (leave()) wake_first(lock_);
    }

private:
    int64_t slice();
    int64_t slice_of_one();
    void looks_in_vain();

    const void* lock_;
    Waiter* waiter_ = nullptr;
    int64_t since_ = 0; // the time of the first wait since the last wake
    Unlocks unlocks_;
    bool shared_;
    bool joined_ = false; // since the last leave(); the caller may have been woken meanwhile
};

// Calls try_once() until its result is not EBUSY, and waits as a fiber in between. True: *result is the last result of
// try_once(), or ETIMEDOUT. False: the fiber cannot wait here.
template <class Try>
bool until_free(const void* lock, Unlocks unlocks, bool shared, const Limit& limit, Try try_once, int* result) {
    Shielded shielded;
    if (!shielded) return false;
    Place place(lock, unlocks, shared);
    for (;;) {
        place.join();
        *result = try_once();
        if (*result != EBUSY) return true;
        switch (place.wait(limit)) {
        case Next::retry: continue;
        case Next::timed_out: *result = ETIMEDOUT; return true;
        default: place.pass_on(); return false;
        }
    }
}

} // namespace fiberrt::posix
