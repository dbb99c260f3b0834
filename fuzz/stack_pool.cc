// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `stack_pool`: core/stack_pool.h, with a system that refuses address space, access, guard pages and memory when
// the input says so. The target records every stack: its holder, its class, and the words written at its ends. A stack
// is never given out twice, never reaches into another, is guarded exactly if its class says so, keeps the words that
// its holder wrote, and goes back to where it came from; a refused call leaves everything unchanged; in the end nothing
// is left mapped.
#include "check.h"

#include "core/stack_pool.h"

#include <errno.h>
#include <map>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using fiberrt::StackPool;
using Guard = StackPool::Guard;

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

// ---- the system, in the hands of the input --------------------------------------------------------------------------

namespace {

struct System {
    size_t largest_mapping = SIZE_MAX; // mmap refuses more
    size_t largest_commit = SIZE_MAX;  // so does mprotect
    bool refuses_markers = false;      // light guard pages
    bool refuses_guards = false;       // guard pages by mprotect
    bool refuses_mappings = false;     // their admission
    bool refuses_memory = false;
    bool refuses_anything() const {
        return largest_mapping != SIZE_MAX || largest_commit != SIZE_MAX || refuses_markers || refuses_guards ||
               refuses_mappings || refuses_memory;
    }
};
System the_system;
std::map<char*, size_t> mapped; // the mappings of the pool
int64_t admitted;               // mappings for guard pages

template <class T>
T refuse(T failure) {
    errno = ENOMEM;
    return failure;
}

} // namespace

extern "C" {
void* __real_mmap(void* address, size_t size, int rights, int flags, int fd, off_t offset);
int __real_munmap(void* address, size_t size);
int __real_mprotect(void* address, size_t size, int rights);
int __real_madvise(void* address, size_t size, int advice);
void* __real_malloc(size_t size);
void* __real_realloc(void* memory, size_t size);

void* __wrap_mmap(void* address, size_t size, int rights, int flags, int fd, off_t offset) {
    if (size > the_system.largest_mapping) return refuse(MAP_FAILED);
    void* memory = __real_mmap(address, size, rights, flags, fd, offset);
    if (memory != MAP_FAILED) mapped[static_cast<char*>(memory)] = size;
    return memory;
}
int __wrap_munmap(void* address, size_t size) {
    auto it = mapped.find(static_cast<char*>(address));
    FUZZ_CHECK(it != mapped.end() && it->second == size);
    mapped.erase(it);
    return __real_munmap(address, size);
}
int __wrap_mprotect(void* address, size_t size, int rights) {
    if (rights == PROT_NONE ? the_system.refuses_guards : size > the_system.largest_commit) return refuse(-1);
    return __real_mprotect(address, size, rights);
}
int __wrap_madvise(void* address, size_t size, int advice) {
    // Not by EINVAL: the process would conclude for good that there are no guard pages.
    if (advice == MADV_GUARD_INSTALL && the_system.refuses_markers) return refuse(-1);
    return __real_madvise(address, size, advice);
}
void* __wrap_malloc(size_t size) { return the_system.refuses_memory ? refuse<void*>(nullptr) : __real_malloc(size); }
void* __wrap_realloc(void* memory, size_t size) {
    return the_system.refuses_memory ? refuse<void*>(nullptr) : __real_realloc(memory, size);
}
bool __wrap_fiberrt_mappings_take(int64_t count) {
    if (the_system.refuses_mappings) return false;
    admitted += count;
    return true;
}
void __wrap_fiberrt_mappings_give_back(int64_t count) {
    admitted -= count;
    FUZZ_CHECK(admitted >= 0);
}
}

namespace {

// Whether the kernel can read there: it looks for a file of that name, which need not exist.
bool accessible(const char* address) { return access(address, F_OK) == 0 || errno != EFAULT; }

// The process detects the kernel's kind of guard pages once: this does it while nothing is refused.
void learn_of_the_kernel() {
    static bool learnt;
    if (learnt) return;
    learnt = true;
    StackPool pool;
    uint8_t stack_class = StackPool::class_for(16384);
    FUZZ_CHECK(pool.take(stack_class));
    pool.release();
}

class Trial {
public:
    ~Trial() {
        the_system = {};
        settle();
        for (const Held& held : held_) check(held);
        pool_.release();
        FUZZ_CHECK(mapped.empty());
        FUZZ_CHECK_EQ(admitted, 0);
        FUZZ_CHECK_EQ(pool_.made() + pool_.free() + pool_.committed_bytes() + pool_.trimmed(), 0);
    }

    void take(size_t size, Guard guard, size_t guard_bytes) {
        const uint8_t wanted = StackPool::class_for(size, guard, guard_bytes);
        FUZZ_CHECK(StackPool::size_of(wanted) >= size && (StackPool::size_of(wanted) < 2 * size || size < 16384));
        FUZZ_CHECK(guard == Guard::none ? StackPool::guard_size(wanted) == 0
                                        : StackPool::guard_size(wanted) >= guard_bytes);
        uint8_t stack_class = wanted;
        uint64_t made = pool_.made();
        errno = 77;
        char* low = pool_.take(stack_class);
        FUZZ_CHECK_EQ(errno, 77);
        auto& idle = idle_[kind_of(wanted)];
        auto& other = idle_[kind_of(StackPool::other_kind(wanted))];
        bool either = guard != Guard::require;
        if (!low) {
            FUZZ_CHECK(the_system.refuses_anything());
            FUZZ_CHECK_EQ(stack_class, wanted);
            FUZZ_CHECK(idle.empty() && (!either || other.empty()));
            FUZZ_CHECK_EQ(pool_.made(), made);
            return;
        }
        FUZZ_CHECK(StackPool::serves(stack_class, wanted));
        FUZZ_CHECK_EQ(StackPool::size_of(stack_class), StackPool::size_of(wanted));
        bool guarded = StackPool::guard_size(stack_class) != 0;
        FUZZ_CHECK(guarded || guard != Guard::require);
        if (!idle.empty()) { // the last that came back
            FUZZ_CHECK(kind_of(stack_class) == kind_of(wanted) && low == idle.back());
            idle.pop_back();
        } else if (pool_.made() == made) { // one of the other kind
            FUZZ_CHECK(either && kind_of(stack_class) != kind_of(wanted) && !other.empty() && low == other.back());
            other.pop_back();
        } else {
            // A caller that prefers a guard gets one if possible; a caller that wants none gets no new one.
            if (guard == Guard::none) FUZZ_CHECK(!guarded);
            if (guard == Guard::prefer && !the_system.refuses_anything()) FUZZ_CHECK(guarded);
            FUZZ_CHECK_EQ(pool_.made(), made + 1);
            note_new(low, stack_class);
        }
        Held held = {low, stack_class, ++tokens_};
        FUZZ_CHECK(!guarded || (!accessible(low - 1) && !accessible(low - StackPool::guard_size(stack_class))));
        char* bottom = low;
        FUZZ_CHECK(accessible(bottom));
        char* top = StackPool::top(stack_class, low);
        FUZZ_CHECK(reinterpret_cast<uintptr_t>(top) % 16 == 0 && top > bottom + StackPool::page_size() / 2);
        FUZZ_CHECK(top <= low + StackPool::size_of(stack_class));
        memcpy(bottom, &held.token, sizeof held.token);
        memcpy(top - sizeof held.token, &held.token, sizeof held.token);
        held_.push_back(held);
    }

    void give_back(unsigned which) {
        if (held_.empty()) return;
        Held held = held_[which % held_.size()];
        check(held);
        held_[which % held_.size()] = held_.back();
        held_.pop_back();
        pool_.give_back(held.stack_class, held.low);
        check(held); // its fiber still runs on it
        idle_[kind_of(held.stack_class)].push_back(held.low);
    }

    void trim(int64_t later) {
        now_ += later;
        bool was_due = pool_.trim_due() <= now_;
        uint64_t trimmed = pool_.trimmed();
        pool_.trim(now_);
        FUZZ_CHECK(pool_.trim_due() > now_);
        FUZZ_CHECK(pool_.trimmed() <= trimmed + (was_due ? StackPool::trim_part : 0));
    }

    // Idles until all stacks that are not kept have gone back. (Some of the stacks that had gone back before one was
    // taken count as if they had not, until one comes back.)
    void settle() {
        uint64_t steps = 0;
        while (pool_.trim_due() != INT64_MAX) {
            FUZZ_CHECK(steps++ < 100 + pool_.free());
            int64_t due = pool_.trim_due();
            trim(due > now_ ? due - now_ : 0);
        }
        uint64_t more_than_kept = 0;
        for (auto& [kind, idle] : idle_) {
            size_t kept = (size_t(16) << 20) / size_of(kind);
            kept = (kept ? kept : 1) + 64;
            if (idle.size() > kept) more_than_kept += idle.size() - kept;
        }
        FUZZ_CHECK(pool_.trimmed() >= more_than_kept);
        agree();
    }

    void agree() const {
        uint64_t idle_count = 0;
        for (auto& [kind, idle] : idle_) idle_count += idle.size();
        FUZZ_CHECK_EQ(pool_.free(), idle_count);
        FUZZ_CHECK_EQ(pool_.in_use(), held_.size());
        FUZZ_CHECK_EQ(pool_.made(), all_.size());
        FUZZ_CHECK(pool_.trimmed() <= idle_count);
        FUZZ_CHECK(pool_.committed_bytes() >= bytes_);
        FUZZ_CHECK_EQ(pool_.guard_mappings(), admitted);
        if (!held_.empty()) check(held_[held_.size() / 2]);
    }

    bool full() const { return held_.size() >= 4096 || bytes_ > size_t(8) << 30; }

private:
    struct Held {
        char* low;
        uint8_t stack_class;
        uint64_t token;
    };

    // The parts of a class that concern stacks: their size and whether they have guards. Leaves out its part for fibers
    // that have no stack.
    static unsigned kind_of(uint8_t stack_class) {
        auto guard = unsigned(std::bit_width(StackPool::guard_size(stack_class)));
        return unsigned(std::bit_width(StackPool::size_of(stack_class))) << 8 | guard;
    }
    static size_t size_of(unsigned kind) { return size_t(1) << ((kind >> 8) - 1); }

    // It lies in mapped memory, with its guard, and apart from all others.
    void note_new(char* low, uint8_t stack_class) {
        low -= StackPool::guard_size(stack_class);
        size_t size = StackPool::size_of(stack_class) + StackPool::guard_size(stack_class);
        auto in = mapped.upper_bound(low);
        FUZZ_CHECK(in != mapped.begin());
        --in;
        FUZZ_CHECK(low >= in->first && low + size <= in->first + in->second);
        auto next = all_.lower_bound(low);
        FUZZ_CHECK(next == all_.end() || next->first >= low + size);
        if (next != all_.begin()) {
            --next;
            FUZZ_CHECK(next->first + next->second <= low);
        }
        all_[low] = size;
        bytes_ += size;
    }

    void check(const Held& held) const {
        uint64_t at_bottom, at_top;
        memcpy(&at_bottom, held.low, sizeof at_bottom);
        memcpy(&at_top, StackPool::top(held.stack_class, held.low) - sizeof at_top, sizeof at_top);
        FUZZ_CHECK_EQ(at_bottom, held.token);
        FUZZ_CHECK_EQ(at_top, held.token);
    }

    StackPool pool_;
    int64_t now_ = 1;
    uint64_t tokens_ = 0;
    uint64_t bytes_ = 0; // of all stacks
    std::vector<Held> held_;
    std::map<unsigned, std::vector<char*>> idle_; // by kind, the last that came back last
    std::map<char*, size_t> all_;
};

size_t size_of(Input& input) {
    uint8_t how = input.byte();
    unsigned bits = how & 7;
    if (bits == 7) return size_t(1) << (14 + (how >> 3) % 17); // any of them
    size_t size = size_t(16384) << (bits < 4 ? bits : 2 * bits - 4);
    return how & 8 ? size - (how >> 4) : size;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    learn_of_the_kernel();
    Input input(data, size);
    Trial trial;
    unsigned budget = 1500; // of stacks taken by operations that take many
    while (!input.done()) {
        uint8_t op = input.byte();
        unsigned few = op >> 4;
        auto guard = Guard(few % 3);
        size_t guard_bytes = few < 9 || few == 15 ? StackPool::guard_default
                             : few < 12           ? StackPool::guard_default << StackPool::guard_step_bits
                                                  : StackPool::guard_most;
        switch (op & 15) {
        case 0:
        case 1:
        case 2: {
            size_t bytes = size_of(input);
            if (!trial.full()) trial.take(bytes, guard, guard_bytes);
            break;
        }
        case 3: {
            size_t bytes = size_of(input);
            for (unsigned i = 0; i < few * few * 5 && budget && !trial.full(); i++, budget--)
                trial.take(bytes, guard, StackPool::guard_default); // many of one class: idle memory is given back
            break;
        }
        case 4:
        case 5: trial.give_back(input.byte()); break;
        case 6:
            for (unsigned i = 0, which = input.byte(); i < few * few * 5; i++) trial.give_back(which + i);
            break;
        case 7: trial.trim(int64_t(few) << (input.byte() % 32)); break;
        case 8: trial.settle(); break;
        case 9: the_system.largest_mapping = few ? size_t(1) << (12 + few) : 0; break;
        case 10: the_system.largest_commit = few ? size_t(1) << (12 + few) : 0; break;
        case 11: the_system.refuses_markers = few & 1; break;
        case 12: the_system.refuses_guards = few & 1; break;
        case 13: the_system.refuses_mappings = few & 1; break;
        case 14: the_system.refuses_memory = few & 1; break;
        case 15: the_system = {}; break;
        }
        trial.agree();
    }
    return 0;
}
