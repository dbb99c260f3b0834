// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulation as a whole: reads the environment variables that start and configure it, records choices, and installs
// the Environment by which the core asks for time and choices.
#include "sim/sim.h"

#include "base/c_library.h"
#include "base/parse_number.h"
#include "core/begin.h"
#include "core/cord.h"
#include "io/io.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

constinit Simulation simulation;
extern const Environment simulation_environment;

namespace {

pthread_t the_thread;
Relaxed<bool> misconfigured; // the environment variables make no sense
Relaxed<bool> looked;        // the variables have been read

bool setting(const char* name, uint64_t most, uint64_t* value) {
    const char* text = secure_getenv(name);
    if (!text || !*text) return true;
    if (parse_decimal(&text, value) && !*text && *value <= most) return true;
    fprintf(stderr, "fiberrt: %s must be a number from 0 to %llu\n", name, static_cast<unsigned long long>(most));
    return false;
}

bool set_up() {
    uint64_t seed = 0;
    uint64_t faults = 0;
    if (!setting("FIBERRT_SEED", UINT64_MAX, &seed) || !setting("FIBERRT_SIM_FAULTS", 3, &faults) ||
        !setting("FIBERRT_SIM_STEPS", UINT64_MAX, &simulation.most_steps)) {
        return false;
    }
    simulation.faults = int(faults);
    simulation.choices.seed(seed);
    const char* list = secure_getenv("FIBERRT_SIM_REPLAY");
    int error = list ? simulation.choices.replay(list) : 0;
    if (error == -EINVAL) {
        fprintf(stderr,
                "fiberrt: FIBERRT_SIM_REPLAY must be a list of choices, \"position:choice,...\" or \"@file\"\n");
    } else if (error) {
        fprintf(stderr, "fiberrt: FIBERRT_SIM_REPLAY: cannot read %s: %s\n", list + 1, error_text(-error));
    }
    if (error) return false;
    const char* path = secure_getenv("FIBERRT_SIM_TRACE");
    if (path && *path && !simulation.trace.open(path)) {
        fprintf(stderr, "fiberrt: FIBERRT_SIM_TRACE: cannot write %s\n", path);
        return false;
    }
    return true;
}

void look_at_environment() {
    looked = true;
    const char* name = secure_getenv("FIBERRT_BACKEND");
    if (!name || strcmp(name, "sim") != 0) return;
    the_thread = pthread_self();
    misconfigured = !set_up();
    environment = &simulation_environment;
}

} // namespace

uint32_t Simulation::pick(uint32_t n, Site site, uint32_t one_in) {
    uint32_t choice = choices.pick(n, site, one_in);
    if (n > 1 && trace.wanted()) trace.line(now, "pick %u/%u %s", choice, n, choices.name_of(site));
    return choice;
}

bool Simulation::fault(int level, uint32_t one_in, Site site) { return faults >= level && happens(one_in, site); }

void simulation_fails(const char* why) { // coverage where called: ends process
    fprintf(stderr, "fiberrt: simulation: %s (step %llu, time %lld)\n", why,
            static_cast<unsigned long long>(simulation.steps), static_cast<long long>(simulation.now));
    abort();
}

bool simulation_begin() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_at_environment);
    return true;
}

namespace {

FIBERRT_INITIALIZER(When::first_cord, simulation_begin);

}

bool simulation_possible() { return !looked || (simulated() && !misconfigured); }

bool simulation_is_here() {
    if (!this_cord) simulation_begin();
    return simulated() && environment->admits();
}

int64_t simulation_look_at_clock() {
    simulation.now += Simulation::look_ns;
    looked_at_clock();
    return simulation.now;
}

void Simulation::count_step() {
    if (++steps > most_steps && most_steps) {
        simulation_fails("the run makes more steps than FIBERRT_SIM_STEPS allows");
    }
}

namespace {

bool slice_over() { return simulation.pick(2, Site::time_slice) == 0; }

int64_t now() { return simulation.now; }

bool admits() { return !misconfigured && pthread_equal(the_thread, pthread_self()); }

int open(Cord& cord) { return Io::open(cord); }

void step(Cord& cord) {
    simulation.count_step();
    if (simulation.trace.wanted() && cord.sched.current) {
        simulation.trace.line(simulation.now, "fiber %u gives way", cord.sched.current->index);
    }
    check_fibers(cord);
    each_other_cord(check_fibers);
}

int64_t poll_interval() {
    static constexpr uint8_t intervals[] = {64, 1, 2, 4, 8, 16};
    return intervals[simulation.pick(sizeof intervals, Site::poll_interval)];
}

void order(Fiber** due, unsigned count) {
    for (unsigned i = 0; i + 1 < count; i++) {
        uint32_t chosen = simulation.pick(count - i, Site::timer);
        Fiber* first = due[i + chosen];
        memmove(due + i + 1, due + i, chosen * sizeof *due);
        due[i] = first;
    }
}

uint32_t pick_below(uint32_t n) { return simulation.pick(n, Site::victim); }

bool stuck(Cord& cord) {
    return !cord.inbox.has_message() && others_sleep() && !some_op_ends(cord) && others_are_stuck();
}

bool refuses(Resource what) {
    if (!this_cord) return false;
    return what == Resource::memory ? simulation.fault(3, 16, Site::memory) : simulation.fault(3, 16, Site::stack);
}

} // namespace

constinit const Environment simulation_environment = {
    .now = now,
    .admits = admits,
    .open = open,
    .start = start_cord,
    .thread_ends = thread_ends,
    .between = let_another_act,
    .ring = ring_cord,
    .sleep = sleep_without_backend,
    .before_switch = step,
    .slice_over = slice_over,
    .poll_interval = poll_interval,
    .order = order,
    .pick_below = pick_below,
    .stuck = stuck,
    .refuses = refuses,
};

} // namespace fiberrt
