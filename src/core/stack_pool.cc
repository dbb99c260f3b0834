// SPDX-License-Identifier: MIT OR Apache-2.0
// Stacks come from slabs: one mapping for many stacks, so that a million of them are few entries in the kernel's list of
// mappings. The guard pages are markers in the page table (MADV_GUARD_INSTALL) where the kernel has them; elsewhere
// each is a mapping of its own, and the kernel's limit on mappings becomes the limit on stacks.
#include "core/stack_pool.h"

#include "core/hooks.h"

#include <atomic>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 // Linux 6.13; missing from older headers
#endif

namespace fiberrt {

namespace {

constexpr size_t slab_bytes = size_t(16) << 20;

// Whether the kernel refuses to touch a fresh page. Kernels and emulators exist that accept the advice and ignore it, so
// only the effect counts. The question asked of the kernel does not matter: where to put the answer does.
bool inaccessible(char* address) {
    return syscall(SYS_prlimit64, 0, RLIMIT_STACK, nullptr, address) < 0 && errno == EFAULT;
}

bool guard(char* low) {
    enum : int { unknown, works, does_not };
    static std::atomic<int> guard_install{unknown}; // relaxed: threads that both find out agree
    int known = guard_install.load(std::memory_order_relaxed);
    if (known != does_not && !hooks::on_valgrind() && madvise(low, StackPool::guard_size, MADV_GUARD_INSTALL) == 0) {
        if (known == works) return true;
        bool effective = inaccessible(low);
        guard_install.store(effective ? works : does_not, std::memory_order_relaxed);
        if (effective) return true;
    }
    return mprotect(low, StackPool::guard_size, PROT_NONE) == 0;
}

} // namespace

char* StackPool::take(uint8_t stack_class) {
    Class& c = classes_[stack_class];
    if (c.count) {
        free_--;
        char* low = c.free[--c.count];
        hooks::stack_reused(low + guard_size, size_of(stack_class) - guard_size);
        return low;
    }
    if ((!c.newest || c.newest->fresh == c.newest->end) && !grow(stack_class)) return nullptr;
    if (c.made == c.capacity) {
        uint32_t capacity = c.capacity ? c.capacity * 2 : 16;
        auto** grown = static_cast<char**>(realloc(c.free, capacity * sizeof(char*)));
        if (!grown) return nullptr;
        c.free = grown;
        c.capacity = capacity;
    }
    char* low = c.newest->fresh;
    if (!guard(low)) return nullptr;
    c.newest->fresh += size_of(stack_class);
    c.made++;
    made_++;
    hooks::stack_made(low + guard_size, size_of(stack_class) - guard_size);
    return low;
}

void StackPool::give_back(uint8_t stack_class, char* low) {
    Class& c = classes_[stack_class];
    c.free[c.count++] = low;
    free_++;
}

bool StackPool::grow(uint8_t stack_class) {
    size_t size = size_of(stack_class);
    size_t bytes = size > slab_bytes ? size : slab_bytes;
    auto* slab = static_cast<Slab*>(malloc(sizeof(Slab)));
    if (!slab) return false;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
        ::free(slab);
        return false;
    }
    madvise(memory, bytes, MADV_NOHUGEPAGE); // one touched page must not become 2 MiB; advice only
    auto* first = static_cast<char*>(memory);
    *slab = {slabs_, first, first, first + bytes, stack_class};
    slabs_ = slab;
    classes_[stack_class].newest = slab;
    return true;
}

void StackPool::release() {
    while (Slab* slab = slabs_) {
        slabs_ = slab->next;
        size_t size = size_of(slab->stack_class);
        for (char* low = slab->memory; low != slab->fresh; low += size) {
            hooks::stack_gone(low + guard_size, size - guard_size);
        }
        munmap(slab->memory, size_t(slab->end - slab->memory));
        ::free(slab);
    }
    for (Class& c : classes_) ::free(c.free);
    *this = StackPool();
}

} // namespace fiberrt
