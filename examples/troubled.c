/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * troubled.c - a program with four faults, on which to try the tools that look inside a program (docs/observing.md):
 *
 *     a deadlock      debit and credit, on two cords, each hold one mutex and wait for the other one
 *     a hog           hog computes 20 ms at a time, and all other fibers on the thread wait so long
 *     a slow consumer consume takes 20 ms for an item, so produce waits most of the time to send the next one
 *     a leak          forget waits for an event that is never set; produce spawns one such fiber for each item
 *
 * When every fault shows, it writes the fibers, grouped by equal stacks, and the metrics to standard output, and ends.
 * With the argument "json" it writes the fibers as JSON instead. With the argument "stay" it goes on until SIGTERM or
 * SIGINT, for fiberrt-top.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fiberrt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { items_before_the_end = 20, rounds_before_the_end = 5 };

static fiber_mutex_t account_a = FIBER_MUTEX_INITIALIZER, account_b = FIBER_MUTEX_INITIALIZER;
static fiber_event_t a_is_locked = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
static fiber_event_t b_is_locked = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
static fiber_event_t consumer_shows = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
static fiber_event_t hog_shows = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
static fiber_event_t stop = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
static fiber_event_t never_set = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
static fiber_chan_t items;

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "troubled: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

/* Locks one mutex and then the other. The two events make sure that each fiber has locked its first one before. */
static int64_t transfer(fiber_mutex_t *from, fiber_event_t *locked, fiber_mutex_t *to, fiber_event_t *other_locked) {
    int result = fiber_mutex_lock(from);
    if (result < 0) return result;
    fiber_event_set(locked);
    result = fiber_event_wait(other_locked);
    if (result == 0)
        result = fiber_mutex_lock_timeout(to, FIBER_FOREVER); /* unlike fiber_mutex_lock, a cancel ends this wait */
    if (result == 0) fiber_mutex_unlock(to);
    fiber_mutex_unlock(from);
    return result;
}

static int64_t debit(void *unused) {
    (void)unused;
    return transfer(&account_a, &a_is_locked, &account_b, &b_is_locked);
}

static int64_t credit(void *unused) {
    (void)unused;
    return transfer(&account_b, &b_is_locked, &account_a, &a_is_locked);
}

static int64_t hog(void *unused) {
    (void)unused;
    int result = fiber_event_wait(&a_is_locked); /* so the fibers of the deadlock wait for each other before it shows */
    if (result < 0) return result;
    for (int round = 1; fiber_sleep(FIBER_MSEC(1)) == 0; round++) {
        int64_t until = fiber_now() + FIBER_MSEC(20);
        while (fiber_now() < until) continue;
        if (round == rounds_before_the_end) fiber_event_set(&hog_shows);
    }
    return -ECANCELED;
}

static int64_t forget(void *unused) {
    (void)unused;
    return fiber_event_wait(&never_set);
}

/* Spawns a named child of a scope, which cancels it at the end. */
static void spawn(fiber_scope_t scope, const char *name, int64_t (*function)(void *), void *arg) {
    fiber_attr_t *attr;
    check(fiber_attr_create(&attr), "fiber_attr_create");
    check(fiber_attr_set_name(attr, name), "fiber_attr_set_name");
    check(fiber_scope_spawn_attr(scope, NULL, attr, function, arg), "fiber_scope_spawn_attr");
    fiber_attr_destroy(attr);
}

static int64_t produce(void *scope) {
    int item = 0, result;
    while ((result = fiber_chan_send(items, &item)) == 0) {
        spawn(*(fiber_scope_t *)scope, "forgotten", forget, NULL);
        item++;
    }
    return result;
}

static int64_t consume(void *unused) {
    (void)unused;
    int item, result;
    while ((result = fiber_chan_recv(items, &item)) == 0) {
        result = fiber_sleep(FIBER_MSEC(20));
        if (result < 0) break;
        if (item == items_before_the_end) fiber_event_set(&consumer_shows);
    }
    return result;
}

/* The second cord: its main flow. */
static void *second_cord(void *unused) {
    fiber_scope_t scope;
    check(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT), "fiber_scope_open");
    spawn(scope, "credit", credit, NULL);
    spawn(scope, "hog", hog, NULL);
    check(fiber_event_wait(&stop), "fiber_event_wait");
    check(fiber_scope_cancel(scope, NULL), "fiber_scope_cancel");
    fiber_scope_close(scope, NULL);
    return unused;
}

static void wait_for_signal(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    check(fiber_sigwait(&signals, NULL), "fiber_sigwait");
}

int main(int argc, char **argv) {
    int stays = argc > 1 && strcmp(argv[1], "stay") == 0;
    int as_json = argc > 1 && strcmp(argv[1], "json") == 0;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    if (stays) pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before there are other threads */
    int signal = fiber_dump_running_signal(SIGRTMIN);      /* for the stack of the hog, which runs most of the time */
    if (signal != -ENOTSUP) check(signal, "fiber_dump_running_signal"); /* in a simulation no fiber runs meanwhile */
    check(fiber_accounting_start(), "fiber_accounting_start");
    check(fiber_chan_create(&items, sizeof(int), 1), "fiber_chan_create");

    fiber_cord_t second;
    check(fiber_cord_start(&second, NULL, second_cord, NULL), "fiber_cord_start");
    fiber_scope_t scope;
    check(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT), "fiber_scope_open");
    spawn(scope, "debit", debit, NULL);
    spawn(scope, "produce", produce, &scope);
    spawn(scope, "consume", consume, NULL);
    check(fiber_event_wait(&consumer_shows), "fiber_event_wait");
    check(fiber_event_wait(&hog_shows), "fiber_event_wait");

    check(fiber_dump_as(1, as_json ? FIBER_DUMP_JSON : FIBER_DUMP_GROUPED), "fiber_dump_as");
    if (!as_json) check(fiber_metrics_write(1), "fiber_metrics_write");
    if (stays) wait_for_signal();
    fiber_trace_stop(); /* the trace of FIBERRT_TRACE, if there is one, ends while the faults last */

    check(fiber_scope_cancel(scope, NULL), "fiber_scope_cancel");
    fiber_scope_close(scope, NULL);
    check(fiber_event_set(&stop), "fiber_event_set");
    check(fiber_cord_join(second, NULL), "fiber_cord_join");
    check(fiber_chan_destroy(items), "fiber_chan_destroy");
    return 0;
}
