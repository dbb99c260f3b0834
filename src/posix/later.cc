// SPDX-License-Identifier: MIT OR Apache-2.0
// The names of later adoptions and releases.
#include "posix/later.h"

#include "posix/fork_mutexes.h"
#include "posix/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt::posix {

constinit std::atomic<Later*> laters = nullptr;

namespace {

constinit uint32_t calls = 0; // under the mutex

Later::State next_state(unsigned flags) { return Later::State(++calls) << 32 | flags; }

bool is_same(const char* a, const char* b) { return a && b ? !strcmp(a, b) : a == b; }

// Whether one library may have both names.
bool overlap(const char* a, const char* b) { return !a || !b || is_named(a, b) || is_named(b, a); }

// The record of a name, a new one if there is none. Null: there is no memory.
Later* record_of(const char* library) {
    for (Later* one = laters.load(std::memory_order_relaxed); one; one = one->next)
        if (is_same(one->library, library)) return one;
    auto* later = static_cast<Later*>(calloc(1, sizeof(Later)));
    char* copy = library ? strdup(library) : nullptr;
    if (!later || (library && !copy)) {
        free(later);
        free(copy);
        return nullptr;
    }
    later->library = copy;
    later->next = laters.load(std::memory_order_relaxed);
    laters.store(later, std::memory_order_release);
    return later;
}

} // namespace

int await_later(const char* library, unsigned flags, LaterChange* change) {
    MutexGuard guard(mutex_of(Guarded::laters));
    Later* later = record_of(library);
    if (!later) return -ENOMEM;
    Later::State now = next_state(flags);
    *change = {later, later->state.load(std::memory_order_relaxed), now};
    later->state.store(now, std::memory_order_relaxed);
    return 0;
}

void put_back(const LaterChange& change) {
    if (!change.later) return;
    MutexGuard guard(mutex_of(Guarded::laters));
    if (change.later->state.load(std::memory_order_relaxed) == change.now) // else another thread's call counts
        change.later->state.store(change.before, std::memory_order_relaxed);
}

void end_release(const char* library) {
    MutexGuard guard(mutex_of(Guarded::laters));
    for (Later* one = laters.load(std::memory_order_relaxed); one; one = one->next) {
        bool releases = !Later::flags_of(one->state.load(std::memory_order_relaxed));
        if (releases && one->library && overlap(library, one->library)) one->state.store(0, std::memory_order_relaxed);
    }
}

int release_later(const char* library) {
    MutexGuard guard(mutex_of(Guarded::laters));
    bool waited = false; // an adoption of this name
    bool waits = false;  // another one that fits
    for (Later* one = laters.load(std::memory_order_relaxed); one; one = one->next) {
        if (!Later::flags_of(one->state.load(std::memory_order_relaxed))) {
            if (!library) one->state.store(0, std::memory_order_relaxed);
            continue;
        }
        if (!library || is_same(one->library, library)) {
            waited = true;
            one->state.store(0, std::memory_order_relaxed);
        } else if (overlap(one->library, library)) {
            waits = true;
        }
    }
    if (!waits) return waited;
    Later* later = record_of(library);
    if (!later) return -ENOMEM;
    later->state.store(next_state(0), std::memory_order_relaxed);
    return true;
}

bool any_later() {
    for (Later* one = laters.load(std::memory_order_acquire); one; one = one->next)
        if (Later::flags_of(one->state.load(std::memory_order_relaxed))) return true;
    return false;
}

} // namespace fiberrt::posix
