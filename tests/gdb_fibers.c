/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gdb_fibers [COPY] - has fibers in all kinds of states, and stops in a debugger: in a running fiber; with a second
 * cord, on a thread that has nothing to do with fibers while both cords are asleep; in a hosted fiber; or before there
 * is any fiber. FIBERS_STOP, from 1 to 4, selects the stop; without a debugger the stop ends the program, with a core
 * file. COPY: a second copy of the library, which is loaded next to the first, with its own fiber.
 */
#include <fiberrt.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ends[2];
static fiber_t sleeper, joiner;

/* Exported, so that their names are there without symbols, too. */
void *sleeper_function(void *argument), *joiner_function(void *argument), *reader_function(void *argument);
void *yielder_function(void *argument), *there_function(void *argument);

static void check(int result) {
    if (result < 0) {
        fprintf(stderr, "gdb_fibers: %d\n", result);
        exit(1);
    }
}

static void stop(int which) {
    const char *first = getenv("FIBERS_STOP");
    if (which == (first ? atoi(first) : 1)) raise(SIGTRAP);
}

void *sleeper_function(void *argument) {
    volatile int marker = 4711; /* found by the saved frame pointer */
    int result = fiber_sleep(FIBER_SEC(1000));
    (void)marker;
    check(result == -ECANCELED ? 0 : -1);
    return argument;
}

void *joiner_function(void *argument) {
    check(fiber_join(sleeper, NULL));
    return argument;
}

void *reader_function(void *argument) {
    char byte;
    check((int)fiber_read(ends[0], &byte, 1));
    return argument;
}

void *yielder_function(void *argument) {
    check(fiber_yield());
    return argument;
}

static void *ender_function(void *argument) { return argument; }

static int hosted_step(void *user, int64_t result) {
    (void)user;
    (void)result;
    return FIBER_STEP_YIELD;
}

static int stopping_step(void *user, int64_t result) {
    (void)user;
    (void)result;
    stop(3);
    return FIBER_STEP_END;
}

static void *stopper_function(void *argument) {
    stop(1);
    return argument;
}

static fiber_t named(const char *name, void *(*function)(void *), int starts) {
    fiber_t fiber;
    check(fiber_new(&fiber, NULL, function, NULL));
    check(fiber_set_name(fiber, name));
    if (starts) check(fiber_start(fiber));
    return fiber;
}

void *there_function(void *argument) {
    check(fiber_sleep(FIBER_SEC(1)));
    return argument;
}

static void *second_main(void *argument) {
    fiber_t there = named("there", there_function, 1);
    check(fiber_join(there, NULL));
    return argument;
}

static void *looker_function(void *argument) {
    usleep(300000); /* until both cords are asleep */
    stop(2);
    return argument;
}

/* A fiber of the other copy, which waits on this thread's cord of that. */
static void in_other_copy(const char *path) {
    void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    check(copy ? 0 : -1);
    int (*spawn)(fiber_t *, void *(*)(void *), void *);
    int (*set_name)(fiber_t, const char *);
    int (*reschedule)(void);
    void *(*wait)(void *);
    *(void **)&spawn = dlsym(copy, "fiber_spawn");
    *(void **)&set_name = dlsym(copy, "fiber_set_name");
    *(void **)&reschedule = dlsym(copy, "fiber_reschedule");
    *(void **)&wait = dlsym(copy, "fiber_yield");
    fiber_t fiber;
    check(spawn(&fiber, wait, NULL)); /* which takes no argument, and leaves none on the stack */
    check(set_name(fiber, "of the copy"));
    check(reschedule());
}

int main(int argc, char **argv) {
    stop(4);
    check(pipe(ends));
    sleeper = named("sleeper", sleeper_function, 1);
    joiner = named("joiner", joiner_function, 1);
    fiber_t reader = named("reader", reader_function, 1);
    fiber_t yielder = named("yielder", yielder_function, 1);
    fiber_t fresh = named("fresh", ender_function, 0);
    fiber_t ender = named("ender", ender_function, 1);
    fiber_t hosted;
    check(fiber_hosted_new(&hosted, NULL, hosted_step, NULL));
    check(fiber_set_name(hosted, "hosted"));
    check(fiber_wakeup(hosted));
    check(fiber_reschedule());
    check(fiber_reschedule()); /* also that operations are given to the kernel */
    if (argc > 1) in_other_copy(argv[1]);
    check(fiber_join(named("stopper", stopper_function, 1), NULL));
    fiber_t stopping;
    check(fiber_hosted_new(&stopping, NULL, stopping_step, NULL));
    check(fiber_set_name(stopping, "stopping"));
    check(fiber_wakeup(stopping));
    check(fiber_join(stopping, NULL));

    fiber_cord_t second;
    fiber_cord_attr_t *attr;
    check(fiber_cord_attr_create(&attr));
    check(fiber_cord_attr_set_name(attr, "second"));
    check(fiber_cord_start(&second, attr, second_main, NULL));
    pthread_t looker;
    check(-pthread_create(&looker, NULL, looker_function, NULL));
    check(fiber_cord_join(second, NULL)); /* after a second */
    pthread_join(looker, NULL);

    check(fiber_cord_attr_destroy(attr));
    check((int)write(ends[1], "x", 1));
    check(fiber_join(reader, NULL));
    check(fiber_wakeup(yielder));
    check(fiber_join(yielder, NULL));
    check(fiber_cancel(sleeper, NULL));
    check(fiber_join(joiner, NULL));
    check(fiber_cancel(fresh, NULL));
    check(fiber_join(ender, NULL));
    return 0;
}
