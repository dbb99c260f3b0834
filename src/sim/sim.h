// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulation: a backend and a clock that make a run of a program repeatable. The choice source (choice_source.h)
// decides everything that time and the kernel would otherwise decide. docs/simulation.md explains it to users.
//
// Environment variables turn it on. The first call of a process that needs a cord reads them, once:
//   FIBERRT_BACKEND=sim      simulates the process
//   FIBERRT_SEED=n           the seed of the choices; 0 if not given
//   FIBERRT_SIM_REPLAY=list  the choices themselves (choice_source.h) instead of a seed
//   FIBERRT_SIM_FAULTS=n     0 (if not given): only the order of events is chosen;
//                            1: also faults that POSIX allows at any time: short transfers, EAGAIN instead of a wait,
//                               signals that end operations, a full submission queue, completions that are reported
//                               late, wakes without a reason;
//                            2: also faults of the world: ECONNRESET, ENOSPC;
//                            3: also shortages: no memory for more fibers, no stacks
//   FIBERRT_SIM_STEPS=n      ends the process by abort() after so many steps; 0 (if not given): never
//   FIBERRT_SIM_TRACE=path   writes the events to this file, line by line
// If a value makes no sense, a message on standard error says so, and each call that needs a cord returns -ENOTSUP.
//
// Rules of a simulation:
// - Time stands still while fibers run, with two exceptions, so that a fiber that polls the clock makes progress: a
//   poll without sleep takes work_ns, and fiber_now() takes look_ns. Otherwise time passes only when no fiber is
//   runnable and no operation can be done.
// - A step is a switch. At each step the states of the fibers are checked (sim_checks.cc).
// - There is one thread. On any other thread, calls that need a cord return -ENOTSUP, and so does fiber_cord_start.
//   Cords started here have no threads of the system, and share that one thread (sim_cords.cc).
// - Operations are done by plain system calls, on files that only this process uses (sim_files.cc): pipes and sockets
//   that have both ends here, and regular files. Others end with -ENOTSUP. fiber_fsync writes nothing to the disk.
// - Adopted libraries (src/posix) make their calls themselves, and ask for choices and faults first (adopted.h).
// - When nothing can ever happen again on any cord, the wait of the first cord's main flow ends with -EDEADLK, even if
//   operations are under way. If that wait cannot be ended, the process ends by abort().
// - Equal choices make equal runs, with traces that are equal to the byte.
#pragma once

#include "core/cord.h"
#include "core/environment.h"
#include "core/backend.h"
#include "io/op.h"
#include "sim/choice_source.h"

#include <stdint.h>

namespace fiberrt {

struct Simulation {
    static constexpr int64_t work_ns = 1'000;
    static constexpr int64_t look_ns = 1'000;

    ChoiceSource choices;
    Trace trace;
    int64_t now = 1'000'000'000'000;
    int faults = 0;
    uint64_t steps = 0;
    uint64_t most_steps = 0;
    uint64_t ops = 0; // operations given so far

    void count_step();
    // Returns a number below n; one_in as in ChoiceSource::pick().
    uint32_t pick(uint32_t n, Site site, uint32_t one_in = 0);
    // Chooses whether a fault of this level happens, once in so many times.
    bool fault(int level, uint32_t one_in, Site site);
    // Chooses whether an event happens that is not the ordinary one, once in so many times.
    bool happens(uint32_t one_in, Site site) { return pick(2, site, one_in); }
};

extern Simulation simulation;
extern const Backend sim_backend;

// Reads the environment variables, once, and installs the environment of the simulation if they ask for it. The calling
// thread becomes the only one that may have cords. Returns true, as a Initializer that has not failed (core/begin.h).
bool simulation_begin();
bool simulation_possible(); // it has begun without an error, or may still begin
bool simulation_is_here();  // this process is a simulation, without an error, and this is its thread

// Only while simulated():
int64_t simulation_look_at_clock(); // returns the time, which passes by look_ns
void simulation_forked(Cord* own);  // in the child of a fork, where only this cord continues

// Ends the process by abort(), after a message with the reason, the step and the time.
[[noreturn, gnu::cold]] void simulation_fails(const char* why);

// ---- sim_ops.cc: operations of any cord, for the cord that has the thread

bool ops_done(const Cord& cord);            // some operations are done and not yet reported
bool do_ops(Cord& cord, bool at_least_one); // does some that can be done; returns ops_done()
bool some_op_ends(Cord& cord);              // one is done, or can be done now or after TCP's delay

// ---- sim_cords.cc: several cords

int start_cord(Cord& cord, void* (*run)(void*)); // these five are members of Environment
void thread_ends();
void let_another_act();
void ring_cord(Cord& cord);
void sleep_without_backend(int64_t deadline);
void let_others_go_on();                   // at a poll: another cord may run now
void looked_at_clock();                    // at a look at the clock: another cord may run if this one polls the clock
bool sleep_among_others(int64_t deadline); // false: there are no others
bool others_sleep();                       // and the present cord is the one that learns of a deadlock
bool others_are_stuck();                   // no event that they wait for can ever come
void each_other_cord(void (*call)(const Cord& cord));

// ---- sim_files.cc: the files that operations may use

enum class DescriptorKind : uint8_t {
    foreign, // other processes may use it, or it depends on real time: refused in a simulation
    none,    // no descriptor, or a number that is not open: the operation reports that
    regular, // a file or directory
    null,    // /dev/null, /dev/zero, /dev/full
    pipe,
    stream,   // a connected socket
    datagram, // any other socket
    event,    // an eventfd
    epoll,    // an epoll instance that watches only descriptors of the other kinds
    unseen,   // not known yet
};
DescriptorKind kind_of_descriptor(int fd);
bool may_open(const char* path);
bool may_open(const struct stat& file);
bool may_connect(const void* address,
                 uint64_t length); // the peer is checked after the connect, as that of any socket

// ---- sim_checks.cc

// Checks that the states of the cord's fibers fit each other, and ends the process if not. With many fibers it checks
// only now and then.
void check_fibers(const Cord& cord);

} // namespace fiberrt
