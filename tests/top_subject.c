/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process for the tests of fiberrt-top and of the metrics: a deadlock of two cords, a fiber that keeps its thread, a
 * child of a scope, a pool, names with odd characters, fibers that sleep. Then its first thread blocks in a read of standard input, so that its
 * cord hangs, too. It ends with its input.
 *
 * usage: top_subject [SLEEPERS]
 */
#define _GNU_SOURCE
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                              \
    do {                                                              \
        if (!(condition)) {                                           \
            fprintf(stderr, "top_subject: not so: %s\n", #condition); \
            exit(1);                                                  \
        }                                                             \
    } while (0)

static fiber_mutex_t first, second;
static fiber_barrier_t both_hold;
static fiber_event_t hog_runs;

void *take_left(void *unused);
void *take_right(void *unused);
void *dig(void *unused);
void *sleep_long(void *unused);
int64_t be_a_child(void *unused);

void *take_left(void *unused) {
    CHECK(fiber_mutex_lock(&first) == 0 && fiber_barrier_wait(&both_hold) >= 0);
    CHECK(fiber_mutex_lock(&second) == 0);
    return unused;
}

void *take_right(void *unused) {
    CHECK(fiber_mutex_lock(&second) == 0 && fiber_barrier_wait(&both_hold) >= 0);
    CHECK(fiber_mutex_lock(&first) == 0);
    return unused;
}

void *dig(void *unused) {
    CHECK(fiber_event_set(&hog_runs) == 0);
    for (volatile unsigned long i = 0;; i++) {}
    return unused;
}

void *sleep_long(void *unused) {
    CHECK(fiber_sleep(FIBER_SEC(3600)) == 0);
    return unused;
}

int64_t be_a_child(void *unused) { return sleep_long(unused) == unused; }

static void spawn(const char *name, void *(*function)(void *)) {
    fiber_t fiber;
    CHECK(fiber_spawn(&fiber, function, NULL) == 0 && fiber_set_name(fiber, name) == 0);
}

static void *serve_left(void *unused) {
    spawn("left", take_left);
    return unused;
}

static void *hold_the_thread(void *unused) {
    spawn("hog", dig);
    return unused;
}

static void *have_a_child(void *unused) {
    fiber_scope_t scope;
    fiber_t child;
    CHECK(fiber_scope_open(&scope, FIBER_FOREVER, 0) == 0);
    CHECK(fiber_scope_spawn(scope, &child, be_a_child, NULL) == 0 && fiber_set_name(child, "child") == 0);
    CHECK(fiber_scope_close(scope, NULL) == 0);
    return unused;
}

/* How many fibers wait for a lock. */
static int waiting;

static int count_waiting(fiber_t fiber, void *unused) {
    fiber_info_t info;
    (void)unused;
    waiting += fiber_info(fiber, &info, sizeof info) == 0 && strcmp(info.wait, "waits for a lock") == 0;
    return 0;
}

static void start_cord(const char *name, void *(*function)(void *)) {
    fiber_cord_t cord;
    fiber_cord_attr_t *attr;
    CHECK(fiber_cord_attr_create(&attr) == 0 && fiber_cord_attr_set_name(attr, name) == 0);
    CHECK(fiber_cord_start(&cord, attr, function, NULL) == 0);
    CHECK(fiber_cord_attr_destroy(attr) == 0);
}

int main(int argc, char **argv) {
    fiber_pool_t pool;
    char byte;
    CHECK(fiber_barrier_init(&both_hold, 2) == 0);
    start_cord("other", serve_left);
    start_cord("hogs", hold_the_thread);
    start_cord("\"o\\d\nd\xff\xc3\xa4", sleep_long);
    CHECK(fiber_pool_create(&pool, NULL) == 0);
    spawn("right", take_right);
    spawn("parent", have_a_child);
    spawn("odd \033[31m\xc3\xa4\xff \"name\"", sleep_long);
    for (int i = argc > 1 ? atoi(argv[1]) : 20; i > 0; i--) {
        spawn("sleeper", sleep_long);
    }
    CHECK(fiber_event_wait(&hog_runs) == 0);
    do {
        waiting = 0;
        CHECK(fiber_sleep(FIBER_MSEC(1)) == 0 && fiber_each(count_waiting, NULL) == 0);
    } while (waiting < 2);
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
    exit(0);
}
