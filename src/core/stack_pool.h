// SPDX-License-Identifier: MIT OR Apache-2.0
// The stacks of a cord, by class, reused last in first out: the stack that was left last is warm in the cache.
//
//   low - guard       low                                                        low + size
//   | guard region     |  ... the fiber's frames, growing down ...  | reserve | 0-960 bytes unused |
//
// The guard region is at least 64 KiB: a frame of up to that size cannot step over it into the stack of another fiber.
// The unused bytes differ from stack to stack, so that the tops of many stacks do not fall on the same cache sets.
// The reserve is the fiber's, not the pool's (Fiber::stack_reserve); most fibers have none.
// No link is kept inside a stack: a fiber that ends gives its stack back while it still runs on it.
//
// A class is a size and a size of guard, which may be none; a stack never changes its class. Guards that are mappings
// stay with idle stacks until the cord ends. So where mappings are short, many stacks of one size leave few for another
// size. Each class has its own address space, reserved in large pieces and committed slab by slab. A stack in this
// picture has its guard below it:
//
//   | stack | stack | stack | fresh .... | not committed: no access, no charge ............ |
//   memory                  fresh        committed                                        end
//
// Trimming. The stacks at the bottom of a list of free stacks have not been needed for long. A period is a second or
// more; the list is never shorter than `floor` in it. When the period is over, the memory of the stacks below `floor`
// goes back to the system, except for a reserve. take() and give_back() stay out of this: as long as the list moves
// between `floor` and `ceiling`, they are a few instructions, and no system call. Polls call trim().
#pragma once

#include <bit>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

class StackPool {
public:
    static constexpr int least_bits = 14; // FIBER_STACK_MIN
    static constexpr int most_bits = 30;  // FIBER_STACK_MAX

    // A class as a byte; the debugger's script reads it, too.
    static constexpr uint8_t class_mask = 127;
    static constexpr uint8_t bare = 3; // in the two bits of the guard: there is none; else the number of the size
    static constexpr int guard_step_bits = 4;
    static constexpr int size_shift = 2;

    enum class Guard : uint8_t { require, prefer, none }; // FIBER_GUARD_REQUIRE, …

    static constexpr size_t guard_default = size_t(64) << 10; // FIBER_GUARD_SIZE_DEFAULT
    static constexpr size_t guard_most = size_t(16) << 20;    // FIBER_GUARD_SIZE_MAX

    // The class of stacks that hold size bytes. Its stacks are a power of two, its guards 64 KiB, 1 MiB or 16 MiB.
    // While a fiber has no stack yet, the byte also says whether a stack of the other kind will do; take() then changes
    // the byte to the class of the stack that it gave.
    static constexpr uint8_t class_for(size_t size, Guard guard = Guard::require, size_t guard_bytes = guard_default) {
        int bits = int(std::bit_width(size - 1));
        return with_guard(uint8_t(bits <= least_bits ? 0 : (bits - least_bits) << size_shift), guard, guard_bytes);
    }
    static constexpr uint8_t with_guard(uint8_t stack_class, Guard guard, size_t guard_bytes = guard_default) {
        int step = 0;
        while (guard_default << step * guard_step_bits < guard_bytes) step++;
        return uint8_t((stack_class & ~(bare | either)) | (guard == Guard::none ? int(bare) : step) |
                       (guard == Guard::require ? 0 : either));
    }
    static constexpr size_t size_of(uint8_t stack_class) { return size_t(1) << bits_of(stack_class); }

    static size_t page_size();

    // The least size that a stack may have here: FIBER_STACK_MIN, or a page where pages are larger.
    static size_t least_size();

    // Bytes below a stack of a class that cannot be touched. A guard as large as its stack would make the distance
    // between stacks twice their size, and top() would use only half of the offsets: such a guard is doubled.
    static constexpr size_t guard_size(uint8_t stack_class) {
        int step = stack_class & bare;
        if (step == bare) return 0;
        size_t bytes = guard_default << step * guard_step_bits;
        return bytes == size_of(stack_class) ? 2 * bytes : bytes;
    }

    // Whether a fiber that asks for `wanted` may run on a stack of class `given`.
    static constexpr bool serves(uint8_t given, uint8_t wanted) {
        return ((given ^ wanted) & class_mask) == 0 ||
               ((wanted & either) && ((given ^ other_kind(wanted)) & class_mask) == 0);
    }

    // The class without a guard for one with a guard; the class with the default guard for one without.
    static constexpr uint8_t other_kind(uint8_t stack_class) {
        return uint8_t((stack_class & bare) == bare ? stack_class & ~bare : stack_class | bare);
    }

    // The class of a fiber that never has a stack. take() of this class always fails, by the slow way.
    static constexpr uint8_t no_stack = (most_bits - least_bits + 1) << size_shift;

    // Takes a stack and returns its low end. Null: there is no memory for a stack, or no guard can be made.
    char* take(uint8_t& stack_class) {
        Class& c = classes_[stack_class & class_mask];
        uint32_t count = c.count;
        if (count <= c.floor) [[unlikely]]
            return take_slowly(stack_class);
        c.count = count - 1;
        return c.free[count - 1];
    }

    // Gives a stack back. The caller may still run on it, until the next switch or take().
    void give_back(uint8_t stack_class, char* low) {
        Class& c = classes_[stack_class & class_mask];
        uint32_t count = c.count;
        c.free[count] = low;
        c.count = count + 1;
        if (count >= c.ceiling) [[unlikely]]
            watch(c);
    }

    // The address below which a stack is used; a multiple of 16. The fiber's reserve ends here (Fiber::stack_reserve).
    static char* top(uint8_t stack_class, char* low) {
        return low + size_of(stack_class) - ((reinterpret_cast<uintptr_t>(low) >> bits_of(stack_class)) & 15) * 64;
    }

    // Returns some memory that has been idle for a period, if trim_due() has come. A few stacks at a time: the next
    // calls return the rest.
    void trim(int64_t now) {
        if (now >= trim_due_) [[unlikely]]
            trim_some(now);
    }
    int64_t trim_due() const { return trim_due_; } // FIBER_FOREVER: there is nothing to return

    // Sums over the classes, for statistics; too slow for each switch.
    uint64_t in_use() const { return made() - free(); }
    uint64_t made() const { return sum(&Class::made); }
    uint64_t free() const { return sum(&Class::count); }
    uint64_t trimmed() const { return sum(&Class::trimmed); }
    uint64_t committed_bytes() const { return committed_bytes_; }
    int64_t guard_mappings() const { return guard_mappings_; } // of all guards: zero where guards are light

    static constexpr int64_t mappings_per_guard = 2; // where guards are not light: the guard, and the part behind it

    void release(); // unmaps all stacks; no thread runs on any of them

    static constexpr int64_t trim_period_ns = 1'000'000'000;
    static constexpr int64_t trim_pause_ns = 1'000'000; // from one part of the idle stacks to the next
    static constexpr uint32_t trim_part = 64;           // stacks: some 50 µs

private:
    static constexpr uint8_t classes = no_stack;
    static constexpr uint8_t either = 128; // in the class that a fiber asks for: the other kind will do

    // The distance from one stack to the next in a reservation.
    static constexpr size_t stride_of(uint8_t stack_class) { return size_of(stack_class) + guard_size(stack_class); }

    static constexpr int bits_of(uint8_t stack_class) {
        return least_bits + ((stack_class & class_mask) >> size_shift);
    }

    struct alignas(64) Class {
        char** free;       // the free stacks, last in first out; has room for all stacks made
        uint32_t count;    // free stacks
        uint32_t floor;    // at this count take() goes the slow way; count was never lower in this period
        uint32_t ceiling;  // at this count give_back() goes the slow way
        uint32_t trimmed;  // this many stacks at the begin of `free` hold no memory; at most floor
        uint32_t capacity; // of free
        uint32_t made;
        char* fresh;     // begin of the part of the reservation that was never used: the guard of the next stack
        char* committed; // begin of the part that cannot be touched
        char* end;       // of the reservation
        size_t reserved; // its bytes
    };
    struct Reservation {
        Reservation* next;
        char* memory;
        char* end;
        uint8_t stack_class;
    };

    char* take_slowly(uint8_t& stack_class);
    char* take_idle(uint8_t stack_class);
    char* make(uint8_t stack_class);
    bool grow_list(Class& c);
    bool commit(uint8_t stack_class);
    bool reserve(uint8_t stack_class);
    bool guard(char* begin, size_t bytes);
    void watch(Class& c);
    void trim_some(int64_t now);
    bool trim_class(uint8_t stack_class, uint32_t& part);

    uint64_t sum(uint32_t Class::*member) const {
        uint64_t total = 0;
        for (const Class& c : classes_) total += c.*member;
        return total;
    }

    static_assert(no_stack <= class_mask);
    static_assert(guard_most == guard_default << 2 * guard_step_bits);
    Class classes_[classes + 1] = {}; // the last: no_stack, always empty
    int64_t trim_due_ = INT64_MAX;
    Reservation* reservations_ = nullptr;
    uint64_t committed_bytes_ = 0;
    int64_t guard_mappings_ = 0; // mappings taken for guards
};

} // namespace fiberrt
