// SPDX-License-Identifier: MIT OR Apache-2.0
// The interface between a cord and the backend that performs its I/O. The core owns it; src/backend and src/sim
// implement it.
#pragma once

#include "core/environment.h"

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;
struct Op;

struct Backend {
    const char* name;
    // 0 and the state, or -E..., what the kernel said; see backend/choice.h. While poll() sleeps it also waits for
    // somebody to ring: by a futex wake on this word, which then holds `parked`; or, if *doorbell_fd is not -1, by
    // adding 1 to that eventfd.
    int (*open)(void** state, uint32_t* word, uint32_t parked, int* doorbell_fd);
    // No operation is under way. rings_owed: how many have been added to the eventfd or are about to be, in all; it
    // stays open until they have come.
    void (*close)(void* state, uint64_t rings_owed);
    void (*give)(void* state, Op* op);   // cannot fail: what finds no room now waits for it
    void (*cancel)(void* state, Op* op); // asks for an early end; the end is still reported: -ECANCELED, or its own
    // Gives the kernel what waits for it and reports what is done. With a deadline in the future it sleeps until
    // something is done or the deadline has come; `poll_only`: it does not, and enters the kernel only if it must.
    // True:
    // some time may have passed. parked: the word says so, and it is to wait for the doorbell too.
    bool (*poll)(void* state, int64_t deadline, bool parked);
    // Null: every operation is given. Else the backend is one that only tells of readiness: operations are attempted by
    // this first, what that cannot do goes to threads (offload), and only polls are given.
    int64_t (*attempt)(const Op& op) = nullptr;
    // The number is about to be closed, and none of its operations is under way. Null: that is nothing to the backend.
    void (*closing)(void* state, int fd) = nullptr;
    // For a cord in a foreign loop. fd: a descriptor that is readable as long as there is something for poll() to
    // report, the doorbell included, or -E...; null: there is none. leave: the thread goes off to that loop, and the
    // word says parked. Gives the kernel all that waits for it, waits for the doorbell from here on, reports what is
    // done; returns the time at which poll() must be called even if the descriptor is not readable, `never` for none, 0
    // for now; other_fd: it is closed, and fd() tells of another.
    int (*fd)(void* state) = nullptr;
    int64_t (*leave)(void* state) = nullptr;
    // In the child of a fork: closes what the parent goes on using. Nothing is said to the kernel about what is under
    // way. own: it is the forking thread's, and freed. Else the thread was somewhere in the midst of it: numbers alone
    // can be relied on, that do not change, or not unnoticed, while the backend is open.
    void (*disown)(void* state, bool own) = nullptr;
};

constexpr int64_t poll_only = INT64_MIN;
constexpr int64_t other_fd = -1;

// What the relay sees of a cord's I/O.
struct CordIo {
    const Backend* backend = nullptr;
    void* state = nullptr;
    uint64_t given = 0;     // operations, since the cord was opened
    uint64_t in_flight = 0; // of these, the ones not done
    uint64_t told = 0;      // with a backend that tells of readiness: the ones done whose fibers have not run since
    // The thread ends: cancels all operations, waits until they are done, frees this. Their fibers do not run again.
    void (*end)(Cord& cord) = nullptr;
    // In the child of a fork: closes what the parent goes on using. own: it is the forking thread's, and freed.
    void (*disown)(Cord& cord, bool own) = nullptr;
};

} // namespace fiberrt
