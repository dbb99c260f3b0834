/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gdb_probes.c - does once what each static probe tells: a fiber starts, waits for a lock and for a read, yields, and
 * ends; a pool runs a task. gdb_probes.py sets breakpoints at the probes while the program is in the function before_all, and removes them in
 * after_all. The program does it all once more after without.
 */
#include <fiberrt.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* gdb_probes.py reads these. */
fiber_t reader, writer;
fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
int ends[2];

static fiber_event_t reader_yields = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);

static void check(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "gdb_probes: %s: %s\n", what, fiber_strerror((int)result));
        exit(1);
    }
}

__attribute__((noinline)) void before_all(void) { __asm__ volatile(""); }
__attribute__((noinline)) void after_all(void) { __asm__ volatile(""); }
__attribute__((noinline)) void without(void) { __asm__ volatile(""); }

void *reads(void *unused) {
    char byte;
    check(fiber_mutex_lock(&mutex), "fiber_mutex_lock"); /* main has it */
    check(fiber_mutex_unlock(&mutex), "fiber_mutex_unlock");
    check(fiber_read(ends[0], &byte, 1), "fiber_read"); /* the pipe is empty */
    check(fiber_event_set(&reader_yields), "fiber_event_set");
    check(fiber_yield(), "fiber_yield");
    return unused;
}

void *writes(void *unused) {
    check(fiber_write(ends[1], "x", 1), "fiber_write");
    return unused;
}

void *computes(void *unused) { return unused; }

static void all(void) {
    fiber_pool_t pool;
    check(fiber_mutex_lock(&mutex), "fiber_mutex_lock");
    check(fiber_spawn(&reader, reads, NULL), "fiber_spawn");
    check(fiber_reschedule(), "fiber_reschedule");
    check(fiber_mutex_unlock(&mutex), "fiber_mutex_unlock");
    check(fiber_sleep(FIBER_MSEC(10)), "fiber_sleep"); /* the reader waits for the pipe */
    check(fiber_spawn(&writer, writes, NULL), "fiber_spawn");
    check(fiber_event_wait(&reader_yields), "fiber_event_wait");
    check(fiber_wakeup(reader), "fiber_wakeup");
    check(fiber_join(writer, NULL), "fiber_join");
    check(fiber_join(reader, NULL), "fiber_join");
    check(fiber_pool_create(&pool, NULL), "fiber_pool_create");
    check(fiber_pool_submit(pool, computes, NULL), "fiber_pool_submit");
    check(fiber_pool_close(pool), "fiber_pool_close");
}

int main(void) {
    if (pipe(ends) != 0) return 1;
    check(fiber_sleep(FIBER_USEC(1)), "fiber_sleep"); /* so the cord is there */
    before_all();
    check(fiber_sleep(FIBER_USEC(1)), "fiber_sleep"); /* a poll, which sees that a tool has attached */
    all();
    after_all();
    check(fiber_sleep(FIBER_USEC(1)), "fiber_sleep"); /* a poll, which sees that the tool has left */
    without();
    all();
    return 0;
}
