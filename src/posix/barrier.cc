// SPDX-License-Identifier: MIT OR Apache-2.0
// Barriers. A barrier has no call that tries, so a fiber does what glibc does on its object, and waits in the parking
// lot where glibc waits for the kernel. Fibers and threads, also of other processes, may meet at one barrier.
#include "base/order.h"
#include "posix/locks.h"
#include "posix/parking.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

namespace fiberrt::posix {

namespace {

// The words of glibc's object since 2.25.
struct Barrier {
    unsigned in;            // arrivals in all rounds
    unsigned current_round; // arrivals whose rounds are complete
    unsigned count;         // arrivals that make a round
    int shared;             // not 0: with other processes
    unsigned out;           // callers that have left
};
static_assert(sizeof(Barrier) <= sizeof(pthread_barrier_t));

// The number of arrivals after which a barrier counts anew. `out` reaches this number when the last of their callers has
// left.
unsigned most_arrivals(const Barrier& barrier) {
    constexpr unsigned limit = UINT_MAX / 2;
    return limit - limit % barrier.count;
}

// ThreadSanitizer's runtime reads the object's first byte in its own pthread_barrier_wait, as if the C library did not
// change it. So it must not see the changes here either; pthread_barrier_wait below tells it of the order.
#define UNSEEN_BY_TSAN __attribute__((no_sanitize("thread")))

UNSEEN_BY_TSAN unsigned load(const unsigned& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

// Wakes the threads in the C library that wait for the word to change, and the fibers in the parking lot. The barrier may
// have been destroyed.
void wake(Barrier& barrier, unsigned& word, bool shared) {
    KeepErrno keep;
    syscall(SYS_futex, &word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    barrier_after_atomic();
    if (any_parked(&barrier)) wake_all(&barrier);
}

// Waits until is_done() as a fiber; if the fiber cannot wait here, blocks the thread.
template <class Done>
void wait_until(Barrier& barrier, Done is_done) {
    int result;
    Unlocks unlocks = barrier.shared ? Unlocks::elsewhere : Unlocks::here;
    auto try_once = [&] { return is_done() ? 0 : EBUSY; };
    if (until_free(&barrier, unlocks, true, {}, try_once, &result)) return;
    constexpr timespec between_looks = {0, 1'000'000};
    while (!is_done()) ::nanosleep(&between_looks, nullptr);
}

// Counts the caller in. Returns its number, which is not above `most`.
UNSEEN_BY_TSAN unsigned arrive(Barrier& barrier, unsigned most) {
    for (;;) {
        unsigned number = __atomic_add_fetch(&barrier.in, 1, __ATOMIC_ACQ_REL);
        if (number <= most) return number;
        wait_until(barrier, [&] { return load(barrier.in) <= most; }); // the last to leave sets it to 0
    }
}

// Completes the rounds that the arrivals up to this number make. Returns the arrivals of complete rounds.
UNSEEN_BY_TSAN unsigned complete_rounds(Barrier& barrier, unsigned number) {
    unsigned complete = load(barrier.current_round);
    while (complete + barrier.count <= number) {
        unsigned more = number - number % barrier.count;
        if (!__atomic_compare_exchange_n(&barrier.current_round, &complete, more, true, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            continue;
        wake(barrier, barrier.current_round, barrier.shared);
        return more;
    }
    return complete;
}

// Counts the caller out. Only the last caller touches the barrier afterwards: pthread_barrier_destroy waits until it has
// reset the barrier.
UNSEEN_BY_TSAN void leave(Barrier& barrier, unsigned most) {
    if (__atomic_add_fetch(&barrier.out, 1, __ATOMIC_RELEASE) != most) return;
    __atomic_load_n(&barrier.out, __ATOMIC_ACQUIRE);
    bool shared = barrier.shared;
    __atomic_store_n(&barrier.current_round, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier.out, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier.in, 0, __ATOMIC_RELEASE);
    wake(barrier, barrier.in, shared);
}

} // namespace

int pthread_barrier_wait(pthread_barrier_t* object) noexcept {
    auto& barrier = *reinterpret_cast<Barrier*>(object);
    if (!may_wait()) {
        // If code that is not adopted completes the round instead, the fibers look by themselves.
        int result = ::pthread_barrier_wait(object);
        if (any_parked(object)) wake_all(object);
        return result;
    }
    unsigned count = barrier.count;
    unsigned most = most_arrivals(barrier);
    hooks::tsan_release(object);
    unsigned number = arrive(barrier, most);
    if (complete_rounds(barrier, number) < number)
        wait_until(barrier, [&] { return load(barrier.current_round) >= number; });
    hooks::tsan_acquire(object);
    leave(barrier, most);
    return number % count == 0 ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

// The callers of a complete round may still be on their way out. They may be fibers of this thread, for which glibc's
// function would wait for ever.
UNSEEN_BY_TSAN int pthread_barrier_destroy(pthread_barrier_t* object) noexcept {
    if (!may_wait()) return ::pthread_barrier_destroy(object);
    auto& barrier = *reinterpret_cast<Barrier*>(object);
    unsigned in = load(barrier.in);
    // As if callers up to the limit had come and left: the last caller to leave resets the barrier.
    if (__atomic_fetch_add(&barrier.out, most_arrivals(barrier) - in, __ATOMIC_ACQ_REL) < in)
        wait_until(barrier, [&] { return !load(barrier.in); });
    return 0;
}

} // namespace fiberrt::posix
