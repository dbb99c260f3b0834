// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread's records of locks and their holders: a hash table with linear probing.
#include "posix/holders.h"

#include "base/keep_errno.h"
#include "base/report.h"
#include "fiberrt.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt::posix {

namespace {

struct Note {
    const void* lock;
    uint64_t fiber;
};
constexpr size_t notes = 64;

size_t hash_of(const void* lock) { return size_t((uintptr_t(lock) >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 32); }

} // namespace

struct Holders {
    Note last[notes]; // by a lock's hash
    Held* table;
    size_t size; // a power of two, or 0
    size_t used;

    // The place of a lock's record, or the free place where it belongs. The table has a free place.
    Held& place(const void* lock) const {
        size_t at = hash_of(lock);
        while (table[at & (size - 1)].lock && table[at & (size - 1)].lock != lock) at++;
        return table[at & (size - 1)];
    }
    bool resize(size_t wanted);
    void remove(Held& record);
};

constinit thread_local Holders* holders = nullptr;

namespace {

void free_holders(void* value) {
    auto* mine = static_cast<Holders*>(value);
    free(mine->table);
    free(mine);
    holders = nullptr;
}

// The key frees the records at the thread's end.
bool keep_until_thread_ends(Holders* mine) {
    static constinit pthread_once_t once = PTHREAD_ONCE_INIT;
    static constinit pthread_key_t key = 0;
    static constinit bool made = false;
    ::pthread_once(&once, [] { made = !pthread_key_create(&key, free_holders); });
    return made && !pthread_setspecific(key, mine);
}

Holders* this_holders() {
    if (holders) [[likely]]
        return holders;
    KeepErrno keep;
    auto* mine = static_cast<Holders*>(calloc(1, sizeof(Holders)));
    if (mine && !keep_until_thread_ends(mine)) {
        free(mine);
        mine = nullptr;
    }
    return holders = mine;
}

bool is_gone(uint64_t fiber) { return fiber_state({fiber}) == -ESRCH; }

} // namespace

// Leaves out the records of fibers that have ended: other code has unlocked these locks, or nothing will.
bool Holders::resize(size_t wanted) {
    auto* old = table;
    size_t old_size = size;
    auto* made = static_cast<Held*>(calloc(wanted, sizeof(Held)));
    if (!made) return false;
    table = made;
    size = wanted;
    used = 0;
    for (size_t i = 0; i < old_size; i++) {
        if (!old[i].lock || is_gone(old[i].fiber)) continue;
        place(old[i].lock) = old[i];
        used++;
    }
    free(old);
    return true;
}

void Holders::remove(Held& record) {
    size_t mask = size - 1;
    size_t gap = size_t(&record - table);
    used--;
    // A search ends at the gap. Moves each record behind it that a search would no longer find.
    for (size_t at = gap + 1;; at++) {
        Held& next = table[at & mask];
        if (!next.lock) break;
        size_t distance = (at - hash_of(next.lock)) & mask; // from where its search begins
        if (distance < ((at - gap) & mask)) continue;
        table[gap & mask] = next;
        gap = at;
    }
    table[gap & mask] = {};
}

uint64_t this_fiber() {
    fiber_t fiber = {};
    (void)fiber_self(&fiber);
    return fiber.id;
}

Held* find_held(const void* lock) {
    if (!holders || !holders->used) return nullptr;
    Held& record = holders->place(lock);
    return record.lock ? &record : nullptr;
}

Held* make_held(const void* lock) {
    Holders* mine = this_holders();
    if (!mine) return nullptr;
    if (mine->used * 2 >= mine->size) [[unlikely]] {
        KeepErrno keep;
        if (!mine->resize(mine->size ? mine->size * 2 : 32)) return nullptr;
    }
    return &mine->place(lock);
}

void note_held(Held* record, const void* lock, uint64_t fiber, int owner) {
    if (!record->lock) holders->used++;
    *record = {lock, fiber, owner};
}

void forget_held(Held* record) { holders->remove(*record); }

void note_locker(const void* lock, uint64_t fiber) {
    if (Holders* mine = this_holders()) mine->last[hash_of(lock) % notes] = {lock, fiber};
}

uint64_t last_locker(const void* lock) {
    if (!holders) return 0;
    const Note& note = holders->last[hash_of(lock) % notes];
    return note.lock == lock ? note.fiber : 0;
}

void report_deadlock(const char* call, const void* lock, uint64_t holder) {
    KeepErrno keep;
    Report report(STDERR_FILENO, Report::unasked_ns);
    char name[FIBER_NAME_MAX] = "";
    report.put("fiberrt: deadlock: fiber ");
    report.id(this_fiber());
    if (fiber_name({this_fiber()}, name, sizeof name) > 0) report.put(' '), report.name(name);
    report.put(" may not switch and blocks its thread in ");
    report.put(call);
    report.put(" for the lock at 0x");
    report.number(uintptr_t(lock), 16);
    report.put(", held by ");
    if (holder) {
        report.put("fiber ");
        report.id(holder);
        if (fiber_name({holder}, name, sizeof name) > 0) report.put(' '), report.name(name);
    } else {
        report.put("another fiber");
    }
    report.put(" of the same thread\n");
    report.end();
}

} // namespace fiberrt::posix
