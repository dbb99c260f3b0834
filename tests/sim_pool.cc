// SPDX-License-Identifier: MIT OR Apache-2.0
// A pool in the simulation, for fiberrt-sim to try orders of events: each accepted task runs exactly once, also a
// task that another task submits while the pool is closed; other submits are refused by then; and the close returns.
//
//     sim_pool SHAPE WORKERS TASKS
//
// SHAPE: how the tasks come.
//   flat    this thread submits all, and closes the pool
//   chain   it submits the first, and closes; each task submits the next
//   tree    it submits the first, and closes; each submits two more, up to TASKS
//   bound   as tree, and this thread works, too: WORKERS counts it
//   child   as flat, but they are children of a scope, which is cancelled in the middle
//   meet    two threads submit a task each, TASKS times, which keep their workers until both have begun: by seeds alone
//   again   pools one after the other, each in the place of the last, while threads submit to any of them
//   mixed   tasks that wait, tasks that submit others, threads that come and go: for seeds
#include <fiberrt.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPECT(condition)                                                             \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "sim_pool: line %d: not so: %s\n", __LINE__, #condition); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

namespace {

constexpr int most = 1000;
fiber_pool_t pool;
int tasks, submitted;
int ran[most]; // how often, by task
int next_of_each;
bool waits;

void *task(void *number);

// The results that the simulation's faults may give a call.
bool refused(int result) { return result == -ENOMEM || result == -EAGAIN; }

// False: the simulation's faults let no pool be made; half-made pools end by themselves.
bool make_pool(int workers) {
    fiber_pool_attr_t *attr = nullptr;
    EXPECT(fiber_pool_attr_create(&attr) == 0 && fiber_pool_attr_set_workers(attr, workers) == 0);
    int error = -EAGAIN;
    for (int tries = 0; refused(error) && tries < 10; tries++) error = fiber_pool_create(&pool, attr);
    EXPECT(fiber_pool_attr_destroy(attr) == 0);
    EXPECT(error == 0 || refused(error));
    return error == 0;
}

void submit_one() {
    if (submitted == tasks) return;
    int *number = &ran[submitted++];
    EXPECT(fiber_pool_submit(pool, task, number) == 0);
}

void *task(void *number) {
    int *mine = static_cast<int *>(number);
    for (int i = 0; i < next_of_each; i++) {
        submit_one();
        if (waits) EXPECT(fiber_sleep(FIBER_USEC((mine - ran) % 3)) == 0);
    }
    ++*mine;
    return nullptr;
}

void each_ran_once() {
    EXPECT(submitted == tasks);
    for (int i = 0; i < tasks; i++) EXPECT(ran[i] == 1);
}

void *too_late(void *) { return nullptr; }

// Asks as long as the pool takes anything.
void *outsider(void *) {
    int error;
    while ((error = fiber_pool_submit(pool, too_late, nullptr)) == 0) EXPECT(fiber_sleep(FIBER_USEC(1)) == 0);
    EXPECT(error == -EPIPE || error == -ESRCH);
    return nullptr;
}

bool all_closed;
int accepted, ran_late;

void *counts(void *) {
    ran_late++;
    return nullptr;
}

// Also submits to pools that are gone.
void *late(void *) {
    while (!all_closed) {
        int error = fiber_pool_submit(pool, counts, nullptr);
        EXPECT(error == 0 || error == -EPIPE || error == -ESRCH || error == -EINVAL);
        accepted += !error;
        EXPECT(fiber_sleep(FIBER_USEC(2)) == 0);
    }
    return nullptr;
}

void *in_group(void *group) {
    EXPECT(fiber_wg_done(static_cast<fiber_wg_t *>(group)) >= 0);
    return nullptr;
}

int pools_again(int workers) {
    fiber_cord_t others[2] = {};
    for (fiber_cord_t &cord : others) {
        const int error = fiber_cord_start(&cord, nullptr, late, nullptr);
        EXPECT(error == 0 || refused(error));
    }
    for (int i = 0; i < 4; i++) {
        if (!make_pool(1 + i % workers)) continue;
        fiber_wg_t group{};
        for (int k = 0; k < tasks; k++) {
            EXPECT(fiber_wg_add(&group, 1) == 0);
            EXPECT(fiber_pool_submit(pool, in_group, &group) == 0);
            if (k % 2) EXPECT(fiber_sleep(FIBER_USEC(2)) == 0); // so that the workers may sleep
        }
        fiber_scope_t scope{};
        EXPECT(fiber_scope_open(&scope, FIBER_MSEC(10), 0) == 0); // time enough, unless a worker was not called
        EXPECT(fiber_wg_wait(&group) == 0);
        EXPECT(fiber_pool_close(pool) == 0);
        EXPECT(fiber_scope_close(scope, nullptr) == 0);
    }
    all_closed = true;
    for (fiber_cord_t cord : others) EXPECT(!cord.id || fiber_cord_join(cord, nullptr) == 0);
    EXPECT(ran_late == accepted);
    return 0;
}

void *binder(void *) {
    int error = fiber_pool_bind(pool);
    if (error) {
        EXPECT(error == -EPIPE || error == -ESRCH);
        return nullptr;
    }
    EXPECT(fiber_sleep(FIBER_USEC(2)) == 0);
    error = fiber_pool_unbind(pool);
    EXPECT(error == 0);
    return nullptr;
}

int64_t child(void *number) {
    ++*static_cast<int *>(number);
    return 0;
}

void children() {
    fiber_attr_t *attr = nullptr;
    fiber_scope_t scope{};
    EXPECT(fiber_attr_create(&attr) == 0 && fiber_attr_set_pool(attr, pool) == 0);
    EXPECT(fiber_scope_open(&scope, FIBER_FOREVER, 0) == 0);
    int told = 0, done = 0;
    for (; submitted < tasks; submitted++) {
        if (submitted == tasks - 1) EXPECT(fiber_scope_cancel(scope, nullptr) == 0);
        EXPECT(fiber_scope_spawn_attr(scope, nullptr, attr, child, &ran[submitted]) == 0);
    }
    fiber_scope_t shield{};
    EXPECT(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD) == 0);
    int64_t result = 0;
    while (fiber_scope_next(scope, nullptr, &result) == 1) {
        told++;
        EXPECT(result == 0 || result == -ECANCELED);
        done += result == 0;
    }
    EXPECT(told == tasks);
    EXPECT(fiber_scope_close(scope, nullptr) == -ECANCELED);
    for (int i = 0; i < tasks; i++) {
        EXPECT(ran[i] <= 1);
        done -= ran[i];
    }
    EXPECT(done == 0 && ran[tasks - 1] == 0);
    EXPECT(fiber_attr_destroy(attr) == 0);
}

} // namespace

// Two tasks that keep their threads until both have begun: no worker that could take one may sleep meanwhile.
struct Meeting {
    fiber_wg_t end;
    int begun;
} meetings[most];
fiber_pool_t nobodys;

void *meets(void *meeting) {
    auto *it = static_cast<Meeting *>(meeting);
    it->begun++;
    for (int i = 0; i < 100000 && it->begun < 2; i++) { // others may have a turn at each
        EXPECT(fiber_pool_submit(nobodys, too_late, nullptr) == -ENXIO);
    }
    EXPECT(it->begun == 2);
    EXPECT(fiber_wg_done(&it->end) >= 0);
    return nullptr;
}

void *have_meetings(void *) {
    for (int i = 0; i < tasks; i++) {
        EXPECT(fiber_pool_submit(pool, too_late, nullptr) == 0);
        EXPECT(fiber_pool_submit(pool, meets, &meetings[i]) == 0);
        EXPECT(fiber_wg_wait(&meetings[i].end) == 0);
    }
    return nullptr;
}

int all_meet() {
    fiber_pool_attr_t *attr = nullptr;
    EXPECT(fiber_pool_attr_create(&attr) == 0 && fiber_pool_attr_set_workers(attr, 0) == 0);
    EXPECT(fiber_pool_create(&nobodys, attr) == 0 && fiber_pool_attr_destroy(attr) == 0);
    for (int i = 0; i < tasks; i++) EXPECT(fiber_wg_add(&meetings[i].end, 2) == 0);
    fiber_cord_t others[2] = {};
    for (fiber_cord_t &cord : others) EXPECT(fiber_cord_start(&cord, nullptr, have_meetings, nullptr) == 0);
    for (fiber_cord_t cord : others) EXPECT(fiber_cord_join(cord, nullptr) == 0);
    EXPECT(fiber_pool_close(pool) == 0 && fiber_pool_close(nobodys) == 0);
    return 0;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    auto named = [&](const char *name) { return strcmp(arguments[1], name) == 0; };
    int workers = atoi(arguments[2]);
    tasks = atoi(arguments[3]);
    const bool bound = named("bound"), mixed = named("mixed");
    EXPECT(tasks > 0 && tasks <= most && workers >= int(bound));
    if (named("again")) return pools_again(workers);
    if (!make_pool(workers - bound)) return 0;
    if (named("meet")) return all_meet();
    fiber_cord_t others[2] = {};
    if (bound) EXPECT(fiber_pool_bind(pool) == 0);
    if (mixed) {
        waits = true;
        const int first = fiber_cord_start(&others[0], nullptr, outsider, nullptr);
        const int second = fiber_cord_start(&others[1], nullptr, binder, nullptr);
        EXPECT((first == 0 || refused(first)) && (second == 0 || refused(second)));
    }
    next_of_each = named("chain") ? 1 : named("tree") || bound || mixed ? 2 : 0;
    if (named("flat")) {
        while (submitted < tasks) submit_one();
    } else if (named("child")) {
        children();
    } else {
        submit_one();
    }
    EXPECT(fiber_pool_close(pool) == 0);
    if (!named("child")) each_ran_once();
    EXPECT(fiber_pool_submit(pool, too_late, nullptr) == -ESRCH);
    for (fiber_cord_t cord : others) EXPECT(!cord.id || fiber_cord_join(cord, nullptr) == 0);
    return 0;
}
