// SPDX-License-Identifier: MIT OR Apache-2.0
// The interface between the runtime and whatever performs its I/O and keeps its time. It is all that core/ knows of io/.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Op;

struct Backend {
    const char* name;
    // 0 and the state, or -E...: -ENOTSUP if the kernel refuses it to this process.
    int (*open)(void** state);
    void (*close)(void* state); // no operation is under way
    void (*give)(void* state, Op* op); // cannot fail: what finds no room now waits for it
    void (*cancel)(void* state, Op* op); // asks for an early end; the end is reported all the same
    // Gives the kernel what waits for it and reports what is done. With a deadline in the future it sleeps until
    // something is done or the deadline has come; `poll_only`: it does not, and enters the kernel only if it must.
    void (*poll)(void* state, int64_t deadline);
};

constexpr int64_t poll_only = INT64_MIN;

extern const Backend uring_backend;

// What the relay sees of a cord's I/O.
struct CordIo {
    const Backend* backend = nullptr;
    void* state = nullptr;
    uint64_t given = 0;     // operations, since the cord was opened
    uint64_t in_flight = 0; // of these, the ones not done
    // The thread ends: cancels all operations, waits until they are done, frees this. Their fibers do not run again.
    void (*end)(Cord& cord) = nullptr;
};

int64_t clock_now(); // nanoseconds of CLOCK_MONOTONIC

} // namespace fiberrt
