// SPDX-License-Identifier: MIT OR Apache-2.0
// Wraps the library's calls for memory, mappings, descriptors, rings and threads for a sweep: counts each call by the
// place that makes it, and refuses one of them.
//
// tests/faults.cmake makes a copy of the library's objects in which these calls have other names (fault_malloc for
// malloc). Calls by the program itself, by GoogleTest, and inside libev and liburing are not touched.
#ifndef FIBERRT_TESTS_FAULT_CALLS_H
#define FIBERRT_TESTS_FAULT_CALLS_H

#include <atomic>
#include <cstdint>

namespace faults {

enum class Kind : uint32_t { memory, mapping, descriptor, ring, thread };
constexpr int kinds = 5;
inline const char *const kind_names[kinds] = {"memory", "mapping", "descriptor", "ring", "thread"};

// A place in the library's code that makes such a call.
struct Place {
    std::atomic<uint64_t> address; // offset from the program's beginning; 0: none
    std::atomic<Kind> kind;
    std::atomic<uint32_t> calls; // calls so far
};
constexpr uint32_t most_places = 1024;

// In memory that is shared by a scenario's process, the processes that it forks, and the process that watches it.
struct Shared {
    // The calls to refuse; all zero: none. Either one place's call or one kind's.
    std::atomic<uint64_t> address;
    std::atomic<Kind> kind;
    std::atomic<uint32_t> which;   // which call at the place, from 1
    std::atomic<uint32_t> come;    // calls of that kind so far
    std::atomic<uint32_t> refused; // 0 or 1
    std::atomic<uint64_t> refused_at;

    std::atomic<bool> over; // no more calls are counted or refused
    std::atomic<uint32_t> calls[kinds];
    Place places[most_places];
};
inline Shared *shared; // null: nothing is counted, nothing refused

// For this process only, because a forked child has a second copy of all blocks.
inline std::atomic<int32_t> held[most_places]; // blocks of memory allocated at a place and not freed
inline std::atomic<int64_t> mapped;            // bytes

} // namespace faults

#endif
