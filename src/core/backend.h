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
    static constexpr int own_descriptors_most = 3;

    const char* name;
    // Opens the backend: 0 and the state, or the kernel's error; see backend/selection.h. While poll() sleeps it also
    // waits for the doorbell. Other threads ring it by a futex wake on this word, which then holds `asleep`; or, if
    // *doorbell_fd is not -1, by adding 1 to that eventfd.
    int (*open)(void** state, uint32_t* word, uint32_t asleep, int* doorbell_fd);
    // Closes the backend; no operation is under way. rings_owed: how often other threads have added 1 to the eventfd or
    // are about to, in all; the eventfd stays open until these rings have arrived.
    void (*close)(void* state, uint64_t rings_owed);
    void (*give)(void* state, Op* op);   // starts an operation; cannot fail: without room the operation waits for room
    void (*cancel)(void* state, Op* op); // asks for an early end; the end is still reported: -ECANCELED, or its own
    // Gives the kernel the waiting operations and reports those that are done. With a deadline in the future it sleeps
    // until an operation is done or the deadline has come. With `poll_only` it does not sleep, and enters the kernel
    // only if it must. asleep: the word says so, and poll() waits for the doorbell too. True: time may have passed.
    bool (*poll)(void* state, int64_t deadline, bool asleep);
    // Tries an operation at once; set by a backend that only reports readiness. Operations that it cannot do go to
    // threads (offload), and only polls are given to the backend. Null: every operation is given.
    int64_t (*try_op)(const Op& op) = nullptr;
    // The number is about to be closed, and no operation on it is under way. Null: the backend need not know.
    void (*closing)(void* state, int fd) = nullptr;
    // The descriptors without which the backend cannot work. If the program closed one, it could only end the process.
    // Returns how many. Null: there are none.
    int (*own_descriptors)(void* state, int out[own_descriptors_most]) = nullptr;
    // For a cord in a foreign loop: a descriptor that is readable as long as poll() has something to report, the
    // doorbell included; or -E.... Null: the backend has no such descriptor.
    int (*fd)(void* state) = nullptr;
    // The thread returns to the foreign loop, and the word says asleep. Gives the kernel the waiting operations, waits
    // for the doorbell from here on, and reports the operations that are done. Returns when poll() must be called even
    // if the descriptor is not readable: a time, `never`, or 0 for now; other_fd: the descriptor is closed, and fd()
    // returns another.
    int64_t (*suspend)(void* state) = nullptr;
    // In the child of a fork: closes the descriptors that the parent goes on using. Says nothing to the kernel about
    // operations under way. own: the state is the forking thread's, and is freed. Else its thread may have been in the
    // middle of a change: the child can rely only on numbers that do not change, or not unnoticed, while the backend is
    // open.
    void (*disown)(void* state, bool own) = nullptr;
};

constexpr int64_t poll_only = INT64_MIN;
constexpr int64_t other_fd = -1;

// A cord's I/O as the scheduler sees it.
struct CordIo {
    const Backend* backend = nullptr;
    void* state = nullptr;
    uint64_t given = 0;      // operations, since the cord was opened
    uint64_t in_flight = 0;  // operations given that are not done
    uint64_t unconsumed = 0; // with a backend that reports readiness: operations done whose fibers have not run since
    // The thread ends: cancels all operations, waits until they are done, frees this. Their fibers do not run again.
    void (*end)(Cord& cord) = nullptr;
    // In the child of a fork: Backend::disown. own: the cord is the forking thread's, and this is freed.
    void (*disown)(Cord& cord, bool own) = nullptr;
};

} // namespace fiberrt
