// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes and trims stacks: the slow parts of core/stack_pool.h.
//
// Address space is reserved without access rights, which costs neither memory nor commit charge. It is committed by a
// change of rights, slab after slab. The kernel joins each slab to the mapping before it, so a million stacks are a few
// dozen entries in its list of mappings. The guards are markers in the page table (MADV_GUARD_INSTALL) where the kernel
// has them; elsewhere each costs two mappings, which core/mappings.h admits or refuses.
//
// A call that fails changes nothing: the next call tries again.
#include "core/stack_pool.h"

#include "base/keep_errno.h"
#include "base/linux_numbers.h"
#include "base/planted.h"
#include "core/hooks.h"
#include "core/mappings.h"
#include "core/timers.h"

#include <atomic>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// Bytes committed at once: as many as there are already, within these limits; at least one stack.
constexpr size_t least_slab = size_t(1) << 20;
constexpr size_t most_slab = size_t(16) << 20;

// Bytes reserved at once: twice as many as the last time, within these limits; at least one stack.
constexpr size_t least_reservation = size_t(64) << 20;
constexpr size_t most_reservation = size_t(64) << 30;

// While the list becomes shorter than ever in this period, take() goes the slow way only once in this many calls.
constexpr uint32_t floor_step = 64;

constexpr uint32_t watched = UINT32_MAX; // the ceiling of a class whose idle stacks are being watched

// Idle stacks that are never trimmed: 16 MiB, or one. That one is needed: the thread may be polling on it, the stack of
// a fiber that has ended.
uint32_t kept(uint8_t stack_class) {
    size_t size = StackPool::size_of(stack_class);
    return size >= most_slab ? 1 : uint32_t(most_slab / size);
}

size_t clamp(size_t value, size_t least, size_t most) { return value < least ? least : value > most ? most : value; }

// The bytes of as many whole pieces as fit into `bytes`, and of one at least.
size_t whole(size_t bytes, size_t piece) { return bytes < piece ? piece : bytes / piece * piece; }

int query_limit(int resource, rlimit* out) { return int(syscall(SYS_prlimit64, 0, resource, nullptr, out)); }

// Whether the kernel refuses to write to a fresh page. Some kernels and emulators accept the advice and ignore it, so
// only the effect counts. Any system call that writes an answer to the page would do.
bool inaccessible(char* address) {
    return query_limit(RLIMIT_STACK, reinterpret_cast<rlimit*>(address)) < 0 && errno == EFAULT;
}

// Makes a guard that costs no mapping. False: the kernel cannot, or refused.
bool mark_guard(char* begin, size_t bytes) {
    enum : int { unknown, works, does_not };
    static std::atomic<int> guard_install{unknown}; // relaxed: threads that both find out agree
    int known = guard_install.load(std::memory_order_relaxed);
    if (known == does_not || hooks::on_valgrind()) return false;
    bool accepted = madvise(begin, bytes, madv_guard_install) == 0;
    if (known == works || (!accepted && errno != EINVAL)) return accepted; // EINVAL: it does not know the advice
    bool effective = accepted && inaccessible(begin);
    guard_install.store(effective ? works : does_not, std::memory_order_relaxed);
    return effective;
}

// Whether the program's address space is limited: then no more than a slab is reserved ahead.
bool address_space_limited() {
    rlimit limit;
    return query_limit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

} // namespace

size_t StackPool::page_size() { return size_t(sysconf(_SC_PAGESIZE)); }

size_t StackPool::least_size() {
    size_t least = size_t(1) << least_bits;
    return page_size() > least ? page_size() : least;
}

char* StackPool::take_slowly(uint8_t& stack_class) {
    if (stack_class == no_stack) return nullptr;
    KeepErrno keep;
    char* low = take_idle(stack_class);
    if (!low) low = make(stack_class);
    if (low || !(stack_class & either)) return low;
    uint8_t wanted = stack_class;
    stack_class = other_kind(wanted);
    low = take_idle(stack_class);
    if (!low && !guard_size(stack_class)) low = make(stack_class); // a fiber that wants no guard gets no new one
    if (!PLANTED(refusal_changes_the_class) && !low) stack_class = wanted;
    return low;
}

char* StackPool::take_idle(uint8_t stack_class) {
    Class& c = classes_[stack_class & class_mask];
    if (!c.count) return nullptr;
    c.floor = c.count > floor_step ? c.count - floor_step : 0;
    if (!PLANTED(more_trimmed_than_idle) && c.trimmed > c.floor) {
        c.trimmed = c.floor;
        if (c.ceiling != watched) c.ceiling = c.trimmed + kept(stack_class);
    }
    return c.free[--c.count];
}

char* StackPool::make(uint8_t stack_class) {
    Class& c = classes_[stack_class & class_mask];
    if (c.made == c.capacity && !grow_list(c)) return nullptr;
    if (c.fresh == c.committed && !commit(stack_class)) return nullptr;
    size_t unusable = guard_size(stack_class);
    if (unusable && !guard(c.fresh, unusable)) return nullptr;
    char* low = c.fresh + unusable;
    c.fresh += stride_of(stack_class);
    if (c.made++ == 0) c.ceiling = kept(stack_class);
    hooks::stack_made(low, size_of(stack_class));
    return low;
}

bool StackPool::grow_list(Class& c) {
    uint32_t capacity = c.capacity ? c.capacity * 2 : 16;
    auto** grown = static_cast<char**>(realloc(c.free, capacity * sizeof(char*)));
    if (!grown) return false;
    c.free = grown;
    c.capacity = capacity;
    return true;
}

// Commits a slab, or less: where commit charge is counted strictly, the kernel may refuse a slab and admit one stack.
bool StackPool::commit(uint8_t stack_class) {
    Class& c = classes_[stack_class & class_mask];
    if (c.committed == c.end && !reserve(stack_class)) return false;
    size_t stride = stride_of(stack_class);
    size_t bytes = whole(clamp(c.made * stride, least_slab, most_slab), stride);
    bytes = clamp(bytes, stride, size_t(c.end - c.committed));
    while (mprotect(c.committed, bytes, PROT_READ | PROT_WRITE) != 0) {
        if (bytes == stride) return false;
        bytes = whole(bytes / 2, stride);
    }
    c.committed += bytes;
    committed_bytes_ += bytes;
    return true;
}

bool StackPool::reserve(uint8_t stack_class) {
    Class& c = classes_[stack_class & class_mask];
    size_t stride = stride_of(stack_class);
    size_t bytes = address_space_limited() ? most_slab : clamp(c.reserved * 2, least_reservation, most_reservation);
    bytes = whole(bytes, stride);
    auto* reservation = static_cast<Reservation*>(malloc(sizeof(Reservation)));
    if (!reservation) return false;
    void* memory;
    while ((memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0)) ==
           MAP_FAILED) {
        if (bytes == stride) {
            ::free(reservation);
            return false;
        }
        bytes = whole(bytes / 2, stride);
    }
    madvise(memory, bytes, MADV_NOHUGEPAGE); // one touched page must not become 2 MiB; MAP_STACK says so since 6.7
    auto* first = static_cast<char*>(memory);
    *reservation = {reservations_, first, first + bytes, uint8_t(stack_class & class_mask)};
    reservations_ = reservation;
    c.fresh = c.committed = first;
    c.end = first + bytes;
    c.reserved = bytes;
    return true;
}

bool StackPool::guard(char* begin, size_t bytes) {
    if (mark_guard(begin, bytes)) return true;
    if (!mappings_take(mappings_per_guard)) return false;
    if (mprotect(begin, bytes, PROT_NONE) != 0) {
        mappings_give_back(mappings_per_guard);
        return false;
    }
    guard_mappings_ += mappings_per_guard;
    return true;
}

// Begins a period at the next poll: more stacks of the class are idle than are kept.
void StackPool::watch(Class& c) {
    c.ceiling = watched;
    if (trim_due_ == never) trim_due_ = 0;
}

void StackPool::trim_some(int64_t now) {
    uint32_t part = trim_part;
    bool all = true;
    for (uint8_t i = 0; i < classes; i++) {
        if (classes_[i].ceiling == watched) all &= trim_class(i, part);
    }
    if (!all) {
        trim_due_ = now + trim_pause_ns;
        return;
    }
    trim_due_ = never;
    for (uint8_t i = 0; i < classes; i++) {
        Class& c = classes_[i];
        if (c.ceiling != watched) continue;
        c.floor = c.count;
        if (c.count > c.trimmed + kept(i)) {
            trim_due_ = now + trim_period_ns;
        } else {
            c.ceiling = c.trimmed + kept(i);
        }
    }
}

// Returns memory of at most `part` of the stacks that were idle all through the period; false: there are more of them.
bool StackPool::trim_class(uint8_t stack_class, uint32_t& part) {
    Class& c = classes_[stack_class];
    while (c.trimmed + kept(stack_class) < c.floor) {
        if (!part--) {
            part = 0;
            return false;
        }
        madvise(c.free[c.trimmed++], size_of(stack_class), MADV_DONTNEED);
    }
    return true;
}

void StackPool::release() {
    while (Reservation* r = reservations_) {
        reservations_ = r->next;
        const Class& c = classes_[r->stack_class];
        size_t unusable = guard_size(r->stack_class);
        char* unused = r->end == c.end ? c.fresh : r->end; // all reservations except the last are used up
        for (char* at = r->memory; at != unused; at += stride_of(r->stack_class))
            hooks::stack_gone(at + unusable, size_of(r->stack_class));
        munmap(r->memory, size_t(r->end - r->memory));
        ::free(r);
    }
    mappings_give_back(guard_mappings_);
    for (Class& c : classes_) ::free(c.free);
    *this = StackPool();
}

} // namespace fiberrt
