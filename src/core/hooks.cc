// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells sanitizers about switches. (memory_hooks.cc tells them and Valgrind about memory.)
// coverage: sanitizer
#include "core/hooks.h"

#include "core/cord.h"
#include "core/switch.h"

#include <stdlib.h>
#include <sys/mman.h>

extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom, size_t* size);
[[gnu::weak]] void* __asan_region_is_poisoned(void* memory, size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* memory, size_t size);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
}

// Marks functions that run on two stacks, or between the call that tells a sanitizer and the switch: the sanitizer must
// not instrument them.
#define FIBERRT_UNSANITIZED __attribute__((no_sanitize("address", "thread"), noinline))

namespace fiberrt::hooks {

namespace {

// A pointer for each fiber, by slot index. In a separate table, because only sanitizers need it.
struct PointerTable {
    FIBERRT_UNSANITIZED void*& operator[](const Fiber* fiber) {
        using Table = SlotTable<Fiber, Tag::fiber>;
        void** pointers = pointers_.load(std::memory_order_acquire);
        if (!pointers) {
            void* memory = mmap(nullptr, Table::most * sizeof(void*), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (memory == MAP_FAILED) abort();
            auto** made = static_cast<void**>(memory);
            if (pointers_.compare_exchange_strong(pointers, made, std::memory_order_acq_rel)) {
                pointers = made;
            } else {
                munmap(memory, Table::most * sizeof(void*));
            }
        }
        return pointers[fiber->index];
    }
    FIBERRT_UNSANITIZED bool exists() const { return pointers_.load(std::memory_order_relaxed); }

private:
    std::atomic<void**> pointers_;
};

constinit PointerTable tsan_fibers; // ThreadSanitizer's records of the fibers
// AddressSanitizer's second stack of each parked fiber that has one; there it finds uses of locals after their
// functions have returned. A switch that leaves a fiber for good ends the second stack, and a parked fiber makes no
// such switch.
constinit PointerTable fake_stacks;

FIBERRT_UNSANITIZED void*& tsan_fiber(const Fiber* fiber) { return tsan_fibers[fiber]; }

FIBERRT_UNSANITIZED void left_fake_stack(const Fiber* fiber, void* fake_stack) {
    if (fake_stack && !fiber->main_flow()) fake_stacks[fiber] = fake_stack;
}
FIBERRT_UNSANITIZED void came_to_fake_stack(const Fiber* fiber, const void* fake_stack) {
    if (fake_stack && !fiber->main_flow()) fake_stacks[fiber] = nullptr;
}

// Ends the second stack of a fiber that will not run again: tells AddressSanitizer that this thread went to the fiber
// and left it for good, without any switch.
FIBERRT_UNSANITIZED void fake_stack_end(const Fiber* fiber) {
    if (!fake_stacks.exists() || fiber->main_flow()) return;
    void* gone = fake_stacks[fiber];
    if (!gone) return;
    fake_stacks[fiber] = nullptr;
    void* own = nullptr;
    const void* low = nullptr; // of the stack that this runs on
    size_t size = 0;
    __sanitizer_start_switch_fiber(&own, fiber->stack_low, StackPool::size_of(fiber->stack_class));
    __sanitizer_finish_switch_fiber(gone, &low, &size);
    __sanitizer_start_switch_fiber(nullptr, low, size);
    __sanitizer_finish_switch_fiber(own, &low, &size);
}

// Tells the sanitizers before the switch. fake_stack null: the running fiber has ended.
FIBERRT_UNSANITIZED void before(Cord& cord, Fiber* from, Fiber* to, void** fake_stack) {
    if (__sanitizer_start_switch_fiber) {
        const void* low = to->main_flow() ? cord.sanitizers.main_stack : to->stack_low;
        size_t size = to->main_flow() ? cord.sanitizers.main_stack_size : StackPool::size_of(to->stack_class);
        __sanitizer_start_switch_fiber(fake_stack, low, size);
    }
    if (__tsan_switch_to_fiber) {
        if (from && from->main_flow() && !tsan_fiber(from)) tsan_fiber(from) = __tsan_get_current_fiber();
        if (!tsan_fiber(to)) tsan_fiber(to) = __tsan_create_fiber(0);
        __tsan_switch_to_fiber(tsan_fiber(to), 0);
    }
}

// Tells the sanitizers after the switch, on the other stack.
FIBERRT_UNSANITIZED void after(Cord& cord, void* fake_stack) {
    cord.stack_in_use.hooked_from = nullptr; // the switch is over
    if (__sanitizer_finish_switch_fiber) {
        const void* left = nullptr;
        size_t size = 0;
        __sanitizer_finish_switch_fiber(fake_stack, &left, &size);
        if (!cord.sanitizers.main_stack) { // the first switch of all left the main flow
            cord.sanitizers.main_stack = left;
            cord.sanitizers.main_stack_size = size;
        }
    }
    if (cord.sanitizers.tsan_dead) {
        __tsan_destroy_fiber(cord.sanitizers.tsan_dead);
        cord.sanitizers.tsan_dead = nullptr;
    }
}

// Unpoisons a new fiber's stack: frames of the last fiber that did not return have left their red zones there. Looks
// for the first one, because unpoisoning all of a large stack would touch all of the stack's shadow memory.
FIBERRT_UNSANITIZED void unpoison_stack(Fiber* fiber) {
    if (!__asan_region_is_poisoned || !__asan_unpoison_memory_region) return;
    char* low = fiber->stack_low;
    char* end = low + StackPool::size_of(fiber->stack_class);
    void* first = __asan_region_is_poisoned(low, size_t(end - low));
    if (first) __asan_unpoison_memory_region(first, size_t(end - static_cast<char*>(first)));
}

// Calls a fiber's function. A child's function returns int64_t (core/spawn_child.h). Only here C++ calls it, and
// clang's sanitizer would check its type.
#if defined(__clang__)
#define FIBERRT_ANY_FUNCTION __attribute__((no_sanitize("function")))
#else
#define FIBERRT_ANY_FUNCTION
#endif
FIBERRT_ANY_FUNCTION FIBERRT_UNSANITIZED void* first_run(void* argument) {
    auto* fiber = static_cast<Fiber*>(argument);
    Cord& cord = *this_cord;
    if (cord.hooked & hooked_by_sanitizer) after(cord, nullptr);
    auto fn = fiber->call.fn; // the hook may wake it, which puts a value there
    if (fiber->extras.tag_kind && cord.observer.ops) cord.observer.ops->started(cord, fiber);
    return fn(fiber->call.arg);
}

} // namespace

bool is_first_frame(uintptr_t function) { return function == reinterpret_cast<uintptr_t>(&fiberrt_entry); }

bool calls_fiber_function(uintptr_t function) { return function == reinterpret_cast<uintptr_t>(&first_run); }

bool wanted() { return __sanitizer_start_switch_fiber || __tsan_switch_to_fiber; }

void fiber_gone(Fiber* fiber) {
    fake_stack_end(fiber);
    if (!__tsan_switch_to_fiber) return;
    void*& name = tsan_fiber(fiber);
    if (name && !fiber->main_flow()) __tsan_destroy_fiber(name);
    name = nullptr;
}

void fiber_ended(Cord& cord, Fiber* fiber) {
    if (!__tsan_switch_to_fiber) return;
    cord.sanitizers.tsan_dead = tsan_fiber(fiber);
    tsan_fiber(fiber) = nullptr;
}

namespace {

CordStack* last_left; // a simulation has one thread

// Stands for the cord in a switch from one cord to another, in which no fiber becomes the current one.
struct {
    CordWorld::ThreadState thread_state;
    Fiber* current;
} between_cords;

Cord* between(const Cord& cord) {
    between_cords.thread_state = cord.thread_state;
    return reinterpret_cast<Cord*>(&between_cords);
}

FIBERRT_UNSANITIZED void before_other_cord(CordStack& left, CordStack& there, void** fake_stack) {
    last_left = &left;
    if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(fake_stack, there.low, there.size);
    if (__tsan_switch_to_fiber) {
        left.tsan_fiber = __tsan_get_current_fiber();
        if (!there.tsan_fiber) there.tsan_fiber = __tsan_create_fiber(0);
        __tsan_switch_to_fiber(there.tsan_fiber, 0);
    }
}

FIBERRT_UNSANITIZED void after_other_cord(void* fake_stack) {
    if (__sanitizer_finish_switch_fiber) {
        __sanitizer_finish_switch_fiber(fake_stack, &last_left->low, &last_left->size);
    }
}

} // namespace

FIBERRT_UNSANITIZED void switch_to_other_cord(Cord& cord, Fiber* from, CordStack& left, Fiber* to, CordStack& there,
                                              bool for_good) {
    void* fake_stack = nullptr;
    before_other_cord(left, there, for_good ? nullptr : &fake_stack);
    if (for_good) fiberrt_leave(between(cord), to);
    fiberrt_switch(between(cord), to, from);
    after_other_cord(fake_stack);
}

FIBERRT_UNSANITIZED void start_other_cord(Cord& cord, Fiber* from, CordStack& left, Fiber* to, CordStack& there,
                                          bool for_good, void* (*first)(void*), void* argument) {
    void* fake_stack = nullptr;
    char* top = static_cast<char*>(const_cast<void*>(there.low)) + there.size;
    before_other_cord(left, there, for_good ? nullptr : &fake_stack);
    if (for_good) fiberrt_leave_start(between(cord), to, top, first, argument);
    fiberrt_start(between(cord), to, from, top, first, argument);
    after_other_cord(fake_stack);
}

FIBERRT_UNSANITIZED void begun_on_other_stack() { after_other_cord(nullptr); }

void cord_stack_gone(CordStack& left) {
    if (left.tsan_fiber) __tsan_destroy_fiber(left.tsan_fiber);
}

FIBERRT_UNSANITIZED int switch_hooked(Cord& cord, Fiber* from, Fiber* to) {
    if (cord.hooked & hooked_by_any_user) cord.observer.ops->switched(cord, from, to);
    if (!(cord.hooked & hooked_by_sanitizer)) return from ? fiberrt_switch(&cord, to, from) : fiberrt_leave(&cord, to);
    void* fake_stack = nullptr;
    before(cord, from, to, from ? &fake_stack : nullptr);
    if (!from) fiberrt_leave(&cord, to);
    left_fake_stack(from, fake_stack);
    int resume = fiberrt_switch(&cord, to, from);
    came_to_fake_stack(from, fake_stack);
    after(cord, fake_stack);
    return resume;
}

FIBERRT_UNSANITIZED int start_hooked(Cord& cord, Fiber* from, Fiber* to, char* top) {
    if (cord.hooked & hooked_by_any_user) {
        auto fn = to->call.fn;
        cord.observer.ops->switched(cord, from, to);
        // A hook may have woken the fiber, which overwrites fn. A wakeup before the first run has no effect.
        to->call.fn = fn;
        to->sched.permit = false;
    }
    if (!(cord.hooked & hooked_by_sanitizer)) {
        return from ? fiberrt_start(&cord, to, from, top, first_run, to)
                    : fiberrt_leave_start(&cord, to, top, first_run, to);
    }
    unpoison_stack(to);
    void* fake_stack = nullptr;
    before(cord, from, to, from ? &fake_stack : nullptr);
    if (!from) fiberrt_leave_start(&cord, to, top, first_run, to);
    left_fake_stack(from, fake_stack);
    int resume = fiberrt_start(&cord, to, from, top, first_run, to);
    came_to_fake_stack(from, fake_stack);
    after(cord, fake_stack);
    return resume;
}

} // namespace fiberrt::hooks
