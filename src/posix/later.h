// SPDX-License-Identifier: MIT OR Apache-2.0
// What the calls of adopt and release say about libraries that will be loaded. Of the calls that fit a library, the last
// one decides.
#pragma once

#include <atomic>
#include <stdint.h>

namespace fiberrt::posix {

// The last such call with this name. Never freed, so that a reader needs no lock.
struct Later {
    // In the upper half the number of the call, 0: the call no longer counts. In the lower half the flags of an adoption
    // with FIBER_POSIX_LATER; 0: the libraries of this name stay released.
    using State = uint64_t;

    Later* next;
    char* library; // null: the whole program
    std::atomic<State> state;

    static uint32_t flags_of(State state) { return uint32_t(state); }
};

extern std::atomic<Later*> laters;

// An adoption with FIBER_POSIX_LATER begins. 0; -ENOMEM.
struct LaterChange {
    Later* later = nullptr;
    Later::State before = 0;
    Later::State now = 0;
};
int await_later(const char* library, unsigned flags, LaterChange* change);

// The adoption has failed: its name counts as it did before.
void put_back(const LaterChange& change);

// An adoption without FIBER_POSIX_LATER: libraries that it fits are no longer released.
void end_release(const char* library);

// A release: libraries that it fits are not adopted when they are loaded. Returns whether they would have been; or
// -ENOMEM.
int release_later(const char* library);

// Whether any adoption waits for libraries.
bool any_later();

// Of the calls whose names match, the last one, if that is an adoption that waits; else null. flags: its flags.
template <class Matches>
const Later* find_later(Matches matches, unsigned* flags) {
    const Later* last = nullptr;
    Later::State of_last = 0;
    for (const Later* one = laters.load(std::memory_order_acquire); one; one = one->next) {
        Later::State state = one->state.load(std::memory_order_relaxed);
        if (state <= of_last || !matches(one->library)) continue;
        last = one;
        of_last = state;
    }
    *flags = Later::flags_of(of_last);
    return *flags ? last : nullptr;
}

} // namespace fiberrt::posix
