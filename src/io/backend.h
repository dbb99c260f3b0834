// SPDX-License-Identifier: MIT OR Apache-2.0
// The interface between the runtime and whatever performs its I/O and keeps its time. It is all that core/ knows of
// io/.
#pragma once

#include "base/relaxed.h"

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;
struct Op;

struct Backend {
    const char* name;
    // 0 and the state, or -E..., what the kernel said; see io/choice.h. While poll() sleeps it also waits for
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

extern const Backend uring_backend;
extern const Backend ev_backend;
extern const Backend sim_backend;
extern bool uring_may_use_futex_op; // tests of the eventfd set it to false
extern uint32_t uring_refused_ops;  // tests set bits, 1 << OpCode, as if the kernel had no such operation

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

// Held to open or close a backend, or what a foreign loop waits on, and around a fork: so that each descriptor is known
// to a cord then.
void backends_hold();
void backends_let_go();

int64_t clock_now(); // nanoseconds of CLOCK_MONOTONIC, or of the simulation's clock

// ---- The simulation (io/sim.h), in which all that time and the kernel would decide is picked by an oracle
// ------------

// Whether this process is simulated: then no switch is made by the short ways, so that each comes past
// simulation_step().
extern Relaxed<bool> simulated;

// Before a thread's first cord. Finds out once whether the process is to be simulated. 0; -ENOTSUP if it is, and the
// calling thread is not the one that began, or what the environment asks of the simulation makes no sense.
int simulation_begin();
bool simulation_possible();      // it has begun, and can be; or it would begin if the environment said so
int simulation_open(Cord& cord); // its backend, at once, since its sleep is what lets time pass. 0, -ENOMEM

// Only if `simulated`:
void simulation_step(Cord& cord);   // a switch is about to be made: counts it and checks the cord's invariants
int64_t simulation_poll_interval(); // how many switches until the next poll in turn
void simulation_order(Fiber** due, unsigned count); // puts those whose timers fire at the same time into some order
uint32_t simulation_victim(uint32_t n);             // from whom of a pool tasks are stolen first
bool simulation_slice_over();                       // whether the current fiber has had the thread for long enough
bool simulation_stuck(Cord& cord);                  // nothing that is under way can ever be done
int64_t simulation_now();
int64_t simulation_look_at_clock(); // the time; to look at it takes some
enum class Resource : uint8_t { memory, stack };
bool simulation_refuses(Resource what); // a fault: there is to be none of it this time

// More cords than one (io/sim_cords.cc): they have no threads of their own, and give the one that there is to each
// other. run(&cord) is what the cord's thread would do. 0, -ENOMEM, -EAGAIN.
int simulation_start(Cord& cord, void* (*run)(void*));
void simulation_thread_ends();     // the first cord has ended: the others go on until they end
void simulation_forked(Cord* own); // the process is the child of a fork, and of the cords only this one goes on
void simulation_between();         // by threads, others could do something now: perhaps another cord goes on
void simulation_ring(Cord& cord);
void simulation_sleep(int64_t deadline); // of a cord that has no backend any more, until somebody rings

} // namespace fiberrt
