// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock of one byte, held for a few instructions at a time. A thread that holds one must not wait, allocate or switch.
#pragma once

#include "base/one_thread.h"
#include "base/order.h"

#include <atomic>
#include <sched.h>
#include <stdint.h>

namespace fiberrt {

// Tells the processor that a loop only waits.
inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
    __asm__ volatile("");
#endif
}

// The number of spin locks that this thread holds, in builds that check that it does not switch then.
#ifndef FIBERRT_DEBUG
inline void spin_locks_held_add(int) {}
inline bool holds_spin_lock() { return false; }
#else
inline thread_local int spin_locks_held;
inline void spin_locks_held_add(int n) { spin_locks_held += n; }
inline bool holds_spin_lock() { return spin_locks_held != 0; }
#endif

class SpinLock {
public:
    void lock() {
        spin_locks_held_add(1);
        if (take()) [[unlikely]]
            await();
        hooks::tsan_acquire(this);
    }
    void lock_alone() { spin_locks_held_add(1); } // in place of lock(), where there can be no other thread
    void unlock() {
        hooks::tsan_release(this);
        taken_.store(0, std::memory_order_release);
        spin_locks_held_add(-1);
    }
    void reset() { taken_.store(0, std::memory_order_relaxed); } // in the child of a fork: its holder is gone

private:
    // Not inlined, so that a caller that finds the lock free saves few registers.
    [[gnu::noinline]] void await() {
        int turns = 0;
        do {
            if (turns++ < 64) {
                relax();
            } else {
                sched_yield(); // the holder may have lost its processor
            }
        } while (take());
    }

    // Takes the lock; true: it was taken already. Acquire: pairs with the release in unlock(), so that the last
    // holder's writes are seen.
    bool take() {
#if defined(__riscv)
        // The base architecture has no exchange of one byte, and older gcc calls libatomic for it. So this sets the
        // byte's lowest bit within the word around it; the instruction leaves the word's other bytes alone.
        auto at = reinterpret_cast<uintptr_t>(&taken_);
        uint32_t bit = uint32_t(1) << at % 4 * 8, before;
        __asm__ volatile("amoor.w.aq %0, %2, %1"
                         : "=r"(before), "+A"(*reinterpret_cast<uint32_t*>(at & ~uintptr_t(3)))
                         : "r"(bit)
                         : "memory");
        return before & bit;
#else
        return taken_.exchange(1, std::memory_order_acquire);
#endif
    }

    std::atomic<uint8_t> taken_;
};

// The values of a StampedLock's word while it is free, and while it is taken: the stamp of the process, and one bit.
// The stamp differs from the parent process's, if the parent had several threads.
inline constinit uint32_t lock_word_free = 0;
inline constinit uint32_t lock_word_taken = 1;
// Points to a value that is not zero while lock_alone() is enough: there is no other thread, and no process that this
// one was forked from had one. In the child of a process with threads, lock() is needed even by a single thread,
// because it stores this process's stamp. A pointer costs no more than the C library's variable. That variable alone
// would not do: it may become true again once a process has only one thread left.
inline constexpr char locks_are_needed = 0;
#if FIBERRT_GLIBC(2, 32)
inline constinit const char* no_lock_is_needed = &__libc_single_threaded;
#else
inline constinit const char* no_lock_is_needed = &locks_are_needed;
#endif
inline void lock_stamp_renew() { // in the child of a fork
    lock_word_free += 0x100;
    lock_word_taken += 0x100;
    no_lock_is_needed = &locks_are_needed;
}

// A spin lock for records in the user's memory, where the library cannot find and reset it after a fork. The first
// thread that takes it in the child learns that it is the first, also if the lock was held by a thread that is gone.
// The one comparison that tells whether the lock was free tells this, too.
class StampedLock {
public:
    // Tries to take the lock, and returns the word's old value. lock_word_free: the lock is taken. Else the caller must
    // call await() with that value.
    uint32_t lock() {
        spin_locks_held_add(1);
        return take();
    }
    void lock_alone() { spin_locks_held_add(1); } // in place of lock(), while *no_lock_is_needed
    void unlock() {
        __atomic_store_n(reinterpret_cast<uint8_t*>(&word_), uint8_t(0), __ATOMIC_RELEASE); // the stamp stays
        spin_locks_held_add(-1);
    }

    // Takes the lock after lock() has returned `word`. True: no thread has held it in this process before.
    [[gnu::noinline]] bool await(uint32_t word) {
        for (int turns = 0; word == lock_word_taken; turns++) {
            if (turns < 64) {
                relax();
            } else {
                sched_yield(); // the holder may have lost its processor
            }
            word = take();
        }
        return word != lock_word_free;
    }

private:
    uint32_t take() { return word_.exchange(lock_word_taken, std::memory_order_acquire); } // as SpinLock::take

    std::atomic<uint32_t> word_{0};
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "unlock() writes the low byte");
};

class Locked {
public:
    explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
    ~Locked() { lock_.unlock(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

private:
    SpinLock& lock_;
};

} // namespace fiberrt
