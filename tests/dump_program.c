/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program whose dump tests/dump_json.py reads: dump_program FLAGS writes it to standard output, and dump_program wait
 * waits for signals. Fibers of three cords wait for each other and for other things. Before the dump, a line of JSON tells
 * which fibers it must have. */
#include <fiberrt.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(call)                                            \
    do {                                                       \
        if (!(call)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #call); \
            exit(2);                                           \
        }                                                      \
    } while (0)

enum { readers = 300 };

static const char hostile[] = "\"q\\ \x01\n \xe2\x82\xac \xff\xc0\xaf"; /* the last two are no UTF-8 */

static fiber_mutex_t first = FIBER_MUTEX_INITIALIZER, second = FIBER_MUTEX_INITIALIZER, timed = FIBER_MUTEX_INITIALIZER;
static fiber_t locker, joiner, joined, sleeper, parent, child, holder;
static fiber_scope_t scope;
static int ends[2];
static atomic_int ready;
static atomic_int spawned; /* how many functions have spawned all of the fibers above that they spawn */

static int name(fiber_t fiber, const char *text) { return fiber_set_name(fiber, text) == 0; }

__attribute__((noinline)) static int64_t read_request(void) {
    char byte;
    int64_t got = fiber_read(ends[0], &byte, 1);
    __asm__ volatile("" : : : "memory"); /* no tail call */
    return got;
}

static void *serve(void *unused) {
    (void)unused;
    CHECK(read_request() < 2);
    return NULL;
}

static void *locks(void *unused) {
    (void)unused;
    CHECK(fiber_mutex_lock(&first) == 0);
    ready++;
    while (ready < 2) CHECK(fiber_reschedule() == 0);
    return fiber_mutex_lock(&second) == 0 ? NULL : unused;
}

static void *waits_for_first(void *unused) {
    (void)unused;
    while (ready < 2) CHECK(fiber_reschedule() == 0);
    return fiber_mutex_lock(&first) == 0 ? NULL : unused;
}

static void *joins(void *unused) {
    (void)unused;
    CHECK(fiber_mutex_lock(&second) == 0);
    ready++;
    return fiber_join(joined, NULL) == 0 ? NULL : unused;
}

static void *sleeps(void *unused) {
    (void)unused;
    return fiber_sleep(FIBER_SEC(1000)) == 0 ? NULL : unused;
}

static int64_t waits_timed(void *unused) {
    (void)unused;
    return fiber_mutex_lock_timeout(&timed, FIBER_SEC(1000));
}

static void *opens(void *unused) {
    (void)unused;
    CHECK(fiber_mutex_lock(&timed) == 0);
    CHECK(fiber_scope_open(&scope, FIBER_FOREVER, 0) == 0);
    CHECK(fiber_scope_spawn(scope, &child, waits_timed, NULL) == 0);
    spawned++;
    return fiber_scope_close(scope, NULL) == 0 ? NULL : unused;
}

static void *cord_of_locks(void *unused) {
    (void)unused;
    CHECK(fiber_spawn(&locker, locks, NULL) == 0 && name(locker, "locker"));
    CHECK(fiber_spawn(&sleeper, sleeps, NULL) == 0 && name(sleeper, hostile));
    CHECK(fiber_spawn(&parent, opens, NULL) == 0 && name(parent, "parent"));
    spawned++;
    return sleeps(NULL);
}

static void *cord_of_joins(void *unused) {
    (void)unused;
    CHECK(fiber_spawn(&joined, waits_for_first, NULL) == 0 && name(joined, "joined"));
    CHECK(fiber_spawn(&joiner, joins, NULL) == 0 && name(joiner, "joiner"));
    spawned++;
    return sleeps(NULL);
}

static void *cord_of_readers(void *unused) {
    (void)unused;
    for (int i = 0; i < readers; i++) {
        fiber_t fiber;
        CHECK(fiber_spawn(&fiber, serve, NULL) == 0 && name(fiber, "reader"));
    }
    return sleeps(NULL);
}

static int waits_by_now(fiber_t fiber) {
    fiber_info_t info;
    return fiber.id && fiber_info(fiber, &info, sizeof info) == 0 && info.still && info.state == FIBER_WAITING;
}

static int count_readers(fiber_t fiber, void *count) {
    fiber_info_t info;
    if (fiber_info(fiber, &info, sizeof info) == 0 && info.still && info.wait_fd == ends[0]) ++*(int *)count;
    return 0;
}

static int readers_wait(void) {
    int count = 0;
    CHECK(fiber_each(count_readers, &count) == 0);
    return count == readers;
}

int main(int argc, char **argv) {
    fiber_cord_t cords[3];
    void *(*const bodies[])(void *) = {cord_of_locks, cord_of_joins, cord_of_readers};
    fiber_cord_attr_t *attr;
    CHECK(argc == 2 && pipe(ends) == 0);
    CHECK(fiber_cord_attr_create(&attr) == 0 && fiber_cord_attr_set_name(attr, "readers") == 0);
    for (int i = 0; i < 3; i++) CHECK(fiber_cord_start(&cords[i], i == 2 ? attr : NULL, bodies[i], NULL) == 0);
    CHECK(fiber_cord_attr_destroy(attr) == 0);
    CHECK(fiber_self(&holder) == 0);
    while (spawned < 3) CHECK(fiber_sleep(FIBER_MSEC(1)) == 0);
    while (!waits_by_now(locker) || !waits_by_now(joined) || !waits_by_now(joiner) || !waits_by_now(parent) ||
           !waits_by_now(child) || !waits_by_now(sleeper) || !readers_wait())
        CHECK(fiber_sleep(FIBER_MSEC(1)) == 0);
    printf("{\"locker\":%" PRIu64 ",\"joined\":%" PRIu64 ",\"joiner\":%" PRIu64 ",\"parent\":%" PRIu64
           ",\"child\":%" PRIu64 ",\"sleeper\":%" PRIu64 ",\"main\":%" PRIu64 ",\"scope\":%" PRIu64
           ",\"pipe\":%d,\"pid\":%d,\"readers\":%d,\"first\":%" PRIu64 "}\n",
           locker.id, joined.id, joiner.id, parent.id, child.id, sleeper.id, holder.id, scope.id, ends[0],
           (int)getpid(), readers, (uint64_t)(uintptr_t)&first);
    CHECK(fflush(stdout) == 0);
    while (strcmp(argv[1], "wait") == 0) CHECK(fiber_sleep(FIBER_SEC(1000)) == 0);
    CHECK(fiber_dump_as(STDOUT_FILENO, (unsigned)atoi(argv[1])) == 0);
    _exit(0);
}
