// SPDX-License-Identifier: MIT OR Apache-2.0
// Sums of the times of fibers that have ended: by function, by name, by the scope that they were children of. Each cord
// has a table for each kind, so the end of a fiber takes no lock. The tables have a fixed size; fibers that find no
// place are added to one sum, `others`.
#pragma once

#include "fiberrt.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct Fiber;
struct FiberRecord;

constexpr int wait_kinds = FIBER_WAIT_KINDS;
constexpr int sum_kinds = 3;
static_assert(FIBER_BY_FUNCTION == 0 && FIBER_BY_NAME == 1 && FIBER_BY_SCOPE == 2);

// The times of a fiber or of several, in ticks (record/clock.h).
struct Times {
    uint64_t turns;
    uint64_t run;
    uint64_t runnable;
    uint64_t waits[wait_kinds];

    void add(const Times& other);
};

// What the fibers of one sum have in common.
struct SumKey {
    static constexpr int name_words = FIBER_NAME_MAX / sizeof(uint64_t);
    uint64_t number;           // the address of the function; the handle of the scope, 0: none; a name's hash
    uint64_t name[name_words]; // of sums by name; otherwise zeros

    bool operator==(const SumKey& other) const = default;
};

// The keys of a fiber, for its cord's thread or any other; its function is in its record.
SumKey key_by_function(void* function);
SumKey key_by_name(const char (&name)[FIBER_NAME_MAX]);
SumKey key_by_scope(uint64_t scope);

struct Sum {
    SumKey key;
    uint64_t fibers;
    Times times;
};

class SumTable {
public:
    static constexpr uint32_t places = 512;

    // Adds the times of `fibers` fibers that have ended. For the cord's thread. by_scope: key.number is a scope's
    // handle.
    void add(const SumKey& key, uint64_t fibers, const Times& times, bool by_scope);
    void clear(); // for the cord's thread

    // Calls visit(sum, others) for each sum, on any thread. others: this is the sum without a key. It comes first,
    // because another sum may move into it meanwhile: visit may then miss that sum, but never gets it twice.
    template <class Visit>
    void each(Visit visit) const {
        for (uint32_t i = places + 1; i-- > 0;) {
            Sum sum;
            if (copy(places_[i], sum)) visit(sum, i == places);
        }
    }

private:
    struct Place {
        std::atomic<bool> used;       // released after the first values of the others
        std::atomic<uint64_t> number; // as in Sum
        std::atomic<uint64_t> name[SumKey::name_words];
        std::atomic<uint64_t> fibers;
        std::atomic<uint64_t> turns;
        std::atomic<uint64_t> run;
        std::atomic<uint64_t> runnable;
        std::atomic<uint64_t> waits[wait_kinds];
    };

    bool copy(const Place& place, Sum& out) const; // false: the place is free
    Place& place_for(const SumKey& key, bool by_scope);
    static bool has_key(const Place& place, const SumKey& key);
    static void set_key(Place& place, const SumKey& key);
    static Sum read(const Place& place);
    static void add_to(Place& place, uint64_t fibers, const Times& times);

    // Changes that have begun, and that have ended: equal while none is under way. A reader tries again if there was
    // one while it read. Each store of a change is a release, and each load of a reader an acquire.
    std::atomic<uint32_t> begun_;
    std::atomic<uint32_t> settled_;
    Place places_[places + 1]; // the last: others
};

} // namespace fiberrt
