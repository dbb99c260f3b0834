// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/metrics.h"

#include "agent/dead_locks.h"
#include "agent/exposition.h"
#include "agent/figures.h"
#include "agent/metrics_of_times.h"
#include "agent/names.h"
#include "base/keep_errno.h"
#include "pool/pool.h"

#include <string.h>

namespace fiberrt {

namespace {

constexpr const char* state_names[fiber_states] = {"new", "runnable", "running", "waiting", "dead"};
static_assert(FIBER_NEW == 0 && FIBER_RUNNABLE == 1 && FIBER_RUNNING == 2 && FIBER_WAITING == 3 && FIBER_DEAD == 4);

void put_build(Exposition& out) {
    // OpenMetrics has the type "info" for this, but the older text format, which some tools read, does not know it.
    out.family("fiberrt_build_info", "gauge", "1; the label has the library's version.");
    char version[32];
    Report text(-1);
    text.number(FIBERRT_VERSION_MAJOR);
    text.put('.');
    text.number(FIBERRT_VERSION_MINOR);
    text.put('.');
    text.number(FIBERRT_VERSION_PATCH);
    text.take(version, sizeof version);
    out.begin().label("version", version).value(1);
}

Exposition& of_cord(Exposition& out, const CordFigures& cord, const char* suffix) {
    return out.begin(suffix).label_id("cord", cord.id).label("name", cord.name);
}

// A family with one figure of each cord.
struct OfCord {
    const char* name;
    const char* type;
    const char* help;
    const char* unit;
    uint64_t fiber_stats_t::*member;
};
constexpr OfCord of_cords[] = {
    {"fiberrt_cord_switches", "counter", "Switches from one fiber to another.", nullptr, &fiber_stats_t::switches},
    {"fiberrt_cord_instant_resumes", "counter", "Times that a fiber gave way and was itself the next to run.", nullptr,
     &fiber_stats_t::instant_resumes},
    {"fiberrt_cord_polls", "counter", "Looks for completed operations and expired timers.", nullptr,
     &fiber_stats_t::polls},
    {"fiberrt_cord_sleeps", "counter", "Polls that put the thread to sleep.", nullptr, &fiber_stats_t::blocking_polls},
    {"fiberrt_cord_ops", "counter", "Operations given to the backend.", nullptr, &fiber_stats_t::ops},
    {"fiberrt_cord_ops_in_flight", "gauge", "Operations that the backend has not completed.", nullptr,
     &fiber_stats_t::ops_in_flight},
    {"fiberrt_cord_stacks", "gauge", "Stacks in use.", nullptr, &fiber_stats_t::stacks},
    {"fiberrt_cord_stacks_free", "gauge", "Stacks kept for reuse.", nullptr, &fiber_stats_t::stacks_free},
    {"fiberrt_cord_stacks_trimmed", "gauge", "Free stacks whose memory has gone back to the system.", nullptr,
     &fiber_stats_t::stacks_trimmed},
    {"fiberrt_cord_stacks_high_water", "gauge", "The most stacks in use at once.", nullptr,
     &fiber_stats_t::stacks_high_water},
    {"fiberrt_cord_stack_space_bytes", "gauge", "Address space committed for stacks, used or not.", "bytes",
     &fiber_stats_t::stack_bytes},
};

void put_cords(Exposition& out, const Figures& figures) {
    for (const OfCord& each : of_cords) {
        out.family(each.name, each.type, each.help, each.unit);
        const char* suffix = each.type[0] == 'c' ? "_total" : "";
        figures.each_cord([&](const CordFigures& cord) { of_cord(out, cord, suffix).value(cord.stats.*each.member); });
    }
}

void put_fibers(Exposition& out, const Figures& figures) {
    out.family("fiberrt_fibers", "gauge", "Fibers by state, with the main flow and the library's own fibers.");
    figures.each_cord([&](const CordFigures& cord) {
        for (int state = 0; state < fiber_states; state++) {
            of_cord(out, cord, "").label("state", state_names[state]).value(cord.fibers[state]);
        }
    });
}

void put_dead_locks(Exposition& out, const DeadLocks& found) {
    out.family("fiberrt_deadlocks", "gauge", "Circles of fibers that wait for each other for ever.");
    out.begin().value(found.circles);
    out.family("fiberrt_deadlocked_fibers", "gauge", "Fibers in these circles.");
    out.begin().value(found.fibers);
}

// The names of the most fibers; the other fibers are counted together.
void put_names(Exposition& out, const Names& names) {
    const NameCount* most[names_most];
    int count = 0;
    uint64_t others = 0;
    for (const NameCount* name = names.first(); name; name = name->next) {
        int place = count;
        while (place > 0 && most[place - 1]->fibers < name->fibers) place--;
        if (place == names_most) {
            others += name->fibers;
            continue;
        }
        if (count == names_most) others += most[--count]->fibers;
        memmove(&most[place + 1], &most[place], size_t(count - place) * sizeof most[0]);
        most[place] = name;
        count++;
    }
    out.family("fiberrt_named_fibers", "gauge", "Fibers by name, with the ones that have ended and are not joined.");
    for (int i = 0; i < count; i++) out.begin().label("name", most[i]->name).value(most[i]->fibers);
    if (others) out.begin().label("others", "1").value(others);
    out.family("fiberrt_named_deadlocked_fibers", "gauge", "Fibers in deadlocks, by name.");
    for (const NameCount* name = names.first(); name; name = name->next) {
        if (name->dead_locked) out.begin().label("name", name->name).value(name->dead_locked);
    }
}

struct OfPool {
    const char* name;
    const char* help;
    uint64_t fiber_pool_stats_t::*member;
};
constexpr OfPool of_pools[] = {
    {"fiberrt_pool_threads", "Threads that work for the pool: its workers, and threads bound to it.",
     &fiber_pool_stats_t::threads},
    {"fiberrt_pool_workers", "Threads that the pool has started.", &fiber_pool_stats_t::workers},
    {"fiberrt_pool_idle", "Threads of the pool that have nothing to run.", &fiber_pool_stats_t::idle},
    {"fiberrt_pool_tasks_waiting", "Tasks submitted and not begun.", &fiber_pool_stats_t::tasks_waiting},
    {"fiberrt_pool_tasks_begun", "Tasks begun and not ended.", &fiber_pool_stats_t::tasks_begun},
};

void put_pools(Exposition& out) {
    for (const OfPool& each : of_pools) {
        out.family(each.name, "gauge", each.help);
        pools.each([&](Pool* pool) {
            uint64_t id = PoolTable::id_of(pool);
            fiber_pool_stats_t stats;
            if (pool_stats(id, &stats) == 0) out.begin().label_id("pool", id).value(stats.*each.member);
        });
    }
}

} // namespace

int write_metrics(int fd, int64_t timeout_ns) {
    KeepErrno keep;
    Figures figures;
    DeadLocks dead_locks;
    if (int error = figures.collect()) return error;
    Names names;
    if (int error = names.collect()) return error;
    if (int error = count_dead_locks(&dead_locks, names)) return error;
    Report report(fd, timeout_ns);
    Exposition out(report);
    put_build(out);
    put_cords(out, figures);
    put_fibers(out, figures);
    put_dead_locks(out, dead_locks);
    put_names(out, names);
    put_pools(out);
    put_times(out, figures);
    out.end();
    return report.end();
}

} // namespace fiberrt
