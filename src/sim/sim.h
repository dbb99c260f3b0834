// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulation: a backend and a clock that make a run of a program repeatable, and everything in it that time and the
// kernel would decide a choice of the oracle's (oracle.h). docs/simulation.md is for who uses it.
//
// The environment asks for it; it is looked at once, at the first call of a process that needs a cord:
//   FIBERRT_BACKEND=sim      the process is simulated
//   FIBERRT_SEED=n           what the choices are drawn by; 0 if it is not given
//   FIBERRT_SIM_REPLAY=list  the choices themselves (oracle.h) instead
//   FIBERRT_SIM_FAULTS=n     0 (if not given): nothing but the order of things is chosen;
//                            1: and whatever POSIX lets happen at any time: short transfers, EAGAIN where one would
//                            wait,
//                               signals that end operations, a submission queue that is full, completions that are told
//                               of late, wakes without a reason;
//                            2: and what the world does: ECONNRESET, ENOSPC;
//                            3: and want: no memory for more fibers, no stacks
//   FIBERRT_SIM_STEPS=n      the process is ended by abort() when it has made so many steps; 0 (if not given): never
//   FIBERRT_SIM_TRACE=path   writes there what happens, line by line
// When that makes no sense, standard error is told, and each call that needs a cord returns -ENOTSUP.
//
// What holds in it:
//  - Time stands still while fibers run, but that a poll in turn takes work_ns and fiber_now() look_ns, so that who
//    waits by looking at the clock comes to an end. It goes on when nothing is runnable and no operation can be done.
//  - A step is a switch. At each the states of the fibers are checked (sim_checks.cc).
//  - One thread: on any other, calls that need a cord return -ENOTSUP, and so does fiber_cord_start. Cords that this
//    starts have no threads, and share that one (sim_cords.cc).
//  - Operations are done by plain system calls, on what only this process uses (sim_files.cc): pipes and sockets both
//    ends of which it has, regular files. Others end with -ENOTSUP. fiber_fsync writes nothing to the disk.
//  - When nothing can ever happen again, on no cord, the wait of the first cord's main flow ends with -EDEADLK,
//    operations under way or not; if it cannot be ended, the process is, by abort().
//  - The same choices make the same run, and the same trace to the byte.
#pragma once

#include "core/cord.h"
#include "core/environment.h"
#include "core/backend.h"
#include "io/op.h"
#include "sim/oracle.h"

#include <stdint.h>

namespace fiberrt {

struct Simulation {
    static constexpr int64_t work_ns = 1'000;
    static constexpr int64_t look_ns = 1'000;

    Oracle oracle;
    Trace trace;
    int64_t now = 1'000'000'000'000;
    int faults = 0;
    uint64_t steps = 0;
    uint64_t most_steps = 0;
    uint64_t ops = 0; // given so far

    void count_step();
    uint32_t pick(uint32_t n, Site site);
    // Whether a fault of that level happens, once in so many times.
    bool fault(int level, uint32_t one_in, Site site);
};

extern Simulation simulation;
extern const Backend sim_backend;

// Finds out once whether the process is to be simulated, and installs the environment of the simulation then. The calling
// thread becomes the one that may have cords.
bool simulation_begin();    // true, as a Beginning that has not failed (core/begin.h)
bool simulation_possible(); // it has begun, and can be; or it would begin if the environment variables said so

// Only if `simulated`:
int64_t simulation_look_at_clock(); // the time; to look at it takes some
void simulation_forked(Cord* own);  // the process is the child of a fork, and only this cord goes on

// The process cannot go on: says why, after the time and the number of steps, and aborts.
[[noreturn, gnu::cold]] void simulation_fails(const char* why);

// ---- sim_ops.cc: one cord's operations, for whichever cord has the thread

bool ops_done(const Cord& cord);            // some are, and have not been told of
bool do_ops(Cord& cord, bool at_least_one); // does some of those that can be done; as ops_done
bool some_op_ends(Cord& cord);              // one is done, or can be done now or in the time that TCP takes

// ---- sim_cords.cc: several cords

int start_cord(Cord& cord, void* (*run)(void*)); // these five: as in Environment
void thread_ends();
void let_another_act();
void ring_cord(Cord& cord);
void sleep_without_backend(int64_t deadline);
void let_others_go_on();                   // a poll: perhaps another cord goes on now
void looked_at_clock();                    // the same, for those who wait by looking at the clock
bool sleep_among_others(int64_t deadline); // false: there are none
bool others_sleep();                       // and the present cord is the one that is told of a dead-lock
bool others_are_stuck();                   // nothing that they wait for can ever come
void each_other_cord(void (*call)(const Cord& cord));

// ---- sim_files.cc: what operations may be done on

enum class Medium : uint8_t {
    foreign, // others may use it too, or it lives by the real time: not to be had in a simulation
    none,    // no descriptor, or a number that is not open: the operation will say so
    regular, // a file or directory
    null,    // /dev/null, /dev/zero, /dev/full
    pipe,
    stream,   // a connected socket
    datagram, // any other socket
    event,    // an eventfd
    unseen,   // not looked at yet
};
Medium medium_of(int fd);
bool may_open(const char* path);
bool may_open(const struct stat& file);
bool may_connect(const void* address,
                 uint64_t length); // and what it connects to is then looked at as any socket's peer

// ---- sim_checks.cc

// Whether the states of the cord's fibers fit each other; ends the process if not. All of them for a few fibers, of
// many only now and then.
void check_fibers(const Cord& cord);

} // namespace fiberrt
