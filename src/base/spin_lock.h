// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock of one byte for a few instructions at a time. Nothing that may wait, allocate or switch happens under one.
#pragma once

#include "base/order.h"

#include <atomic>
#include <sched.h>
#include <stdint.h>
#include <sys/single_threaded.h>

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

// How many this thread holds, in builds that look whether it switches then.
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
        hooks::taken(this);
    }
    void lock_alone() { spin_locks_held_add(1); } // instead, where no other thread can be
    void unlock() {
        hooks::given(this);
        taken_.store(0, std::memory_order_release);
        spin_locks_held_add(-1);
    }
    void reset() { taken_.store(0, std::memory_order_relaxed); } // in the child of a fork: whoever had it is no more

private:
    // Apart, so that who finds it free keeps few registers for it.
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

    // Whether it was taken already. Acquire: what the last holder did is seen. Pairs with the release in unlock().
    bool take() {
#if defined(__riscv)
        // The base architecture has no exchange of one byte, and older gcc calls libatomic for it: so its lowest bit is
        // set within the word around it, whose other bytes the instruction leaves alone.
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

// What the word of a StampedLock is while nobody has it, and while somebody has: the stamp of the process, which
// differs from that of the process it was forked from, if that had several threads; and one bit.
inline constinit uint32_t lock_word_free = 0;
inline constinit uint32_t lock_word_taken = 1;
// Whether no other thread can be, nor was in any process that this one was forked from: else whoever comes later could
// not tell by the stamp that somebody has had the lock in this process. By a pointer, as that costs what the C
// library's variable does, which may say so again of a process that has become alone.
inline constinit const char* no_lock_is_needed = &__libc_single_threaded;
inline constexpr char locks_are_needed = 0;
inline void lock_stamp_renew() { // in the child of a fork
    lock_word_free += 0x100;
    lock_word_taken += 0x100;
    no_lock_is_needed = &locks_are_needed;
}

// The same for what lies in memory of the user's, where nobody can find it after a fork: whoever is the first to take
// it in the child finds that out, also if a thread had it that is no more. The comparison which tells that it was free
// tells that, too.
class StampedLock {
public:
    // What the word was. lock_word_free: it is had. Else await() gets it.
    uint32_t lock() {
        spin_locks_held_add(1);
        return take();
    }
    void lock_alone() { spin_locks_held_add(1); } // instead, while *no_lock_is_needed
    void unlock() {
        __atomic_store_n(reinterpret_cast<uint8_t*>(&word_), uint8_t(0), __ATOMIC_RELEASE); // the stamp stays
        spin_locks_held_add(-1);
    }

    // word: what lock() found. True: nobody has had it in this process before.
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
