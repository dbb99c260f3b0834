// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's own calls for memory, mappings, descriptors, rings and threads, in the hands of a sweep: counted by the
// place that makes them, and one of them refused.
//
// tests/faults.cmake makes a copy of the library's objects in which these calls have other names (fault_malloc for
// malloc); the program's own calls, GoogleTest's and those inside libev and liburing are not touched.
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
    std::atomic<uint64_t> address; // from the program's beginning; 0: none
    std::atomic<Kind> kind;
    std::atomic<uint32_t> calls; // so far
};
constexpr uint32_t most_places = 1024;

// In memory that a scenario's process, the processes that it forks and the one that watches it share.
struct Shared {
    // The calls to refuse; all zero: none. Either one place's call or one kind's.
    std::atomic<uint64_t> address;
    std::atomic<Kind> kind;
    std::atomic<uint32_t> which;   // which of them, from 1
    std::atomic<uint32_t> come;    // of them, so far
    std::atomic<uint32_t> refused; // 0 or 1
    std::atomic<uint64_t> refused_at;

    std::atomic<bool> over; // no more calls are counted or refused
    std::atomic<uint32_t> calls[kinds];
    Place places[most_places];
};
inline Shared *shared; // null: nothing is counted, nothing refused

// Of this process alone, as the child of a fork has all of it once more.
inline std::atomic<int32_t> held[most_places]; // blocks of memory that were taken at a place and are not freed
inline std::atomic<int64_t> mapped;            // bytes

} // namespace faults

#endif
