/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The benchmark query: many connections of libpq ask SELECT 1 again and again, from fibers of one thread
 * or from a thread each.
 *
 *     query fibers|threads CONNECTIONS SECONDS CONNECTION
 *
 * It begins to count when all are connected and a tenth of the time has passed. It prints the queries answered since
 * then, and the CPU time that this process took for them, in nanoseconds.
 */
#define _GNU_SOURCE
#include <fiberrt.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *connection;
static int by_fibers;
static fiber_event_t begin; /* all are connected */
static fiber_wg_t connecting;
static pthread_barrier_t connected;
static long long duration;

/* One connection's count, alone in its cache line. */
struct client {
    _Alignas(64) atomic_llong queries;
};
static struct client *clients;

static void die(const char *what, const char *reason) {
    fprintf(stderr, "%s: %s\n", what, reason);
    exit(1);
}

static long long read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void await_others(void) {
    if (!by_fibers) {
        pthread_barrier_wait(&connected);
    } else if (fiber_wg_done(&connecting) < 0 || fiber_event_wait(&begin) < 0) {
        die("query", "cannot wait for the others");
    }
}

static void *ask(void *arg) {
    struct client *client = arg;
    PGconn *database = PQconnectdb(connection);
    if (PQstatus(database) != CONNECTION_OK) die("connect", PQerrorMessage(database));
    await_others();
    for (;;) {
        PGresult *result = PQexec(database, "SELECT 1");
        if (PQresultStatus(result) != PGRES_TUPLES_OK || strcmp(PQgetvalue(result, 0, 0), "1") != 0) {
            die("SELECT", PQerrorMessage(database));
        }
        PQclear(result);
        atomic_fetch_add_explicit(&client->queries, 1, memory_order_relaxed);
    }
}

static long long count_queries(int connections) {
    long long sum = 0;
    for (int i = 0; i < connections; i++) sum += atomic_load_explicit(&clients[i].queries, memory_order_relaxed);
    return sum;
}

/* Sleeps: on the main flow, as a fiber, next to the others; on the main thread, as a thread. */
static void sleep_ns(long long ns) {
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    if (!by_fibers)
        nanosleep(&time, NULL);
    else if (fiber_sleep(ns) < 0)
        die("query", "cannot sleep");
}

static void start_fibers(int connections) {
    int error = fiber_posix_adopt("libpq.so", 0);
    if (error >= 0) error = fiber_event_init(&begin, FIBER_EVENT_MANUAL);
    if (error >= 0) error = fiber_wg_add(&connecting, connections);
    for (int i = 0; i < connections && error >= 0; i++) error = fiber_spawn(NULL, ask, &clients[i]);
    if (error >= 0) error = fiber_wg_wait(&connecting);
    if (error >= 0) error = fiber_event_set(&begin);
    if (error < 0) die("fibers", fiber_strerror(error));
}

static void start_threads(int connections) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10); /* as a fiber's */
    pthread_barrier_init(&connected, NULL, (unsigned)connections + 1);
    for (int i = 0; i < connections; i++) {
        if (pthread_create(&thread, &attributes, ask, &clients[i]) != 0) die("threads", "cannot be created");
    }
    pthread_barrier_wait(&connected);
}

int main(int argc, char **argv) {
    if (argc != 5) die("usage", "query fibers|threads CONNECTIONS SECONDS CONNECTION");
    int connections = atoi(argv[2]);
    by_fibers = strcmp(argv[1], "fibers") == 0;
    duration = (long long)(atof(argv[3]) * 1e9);
    connection = argv[4];
    clients = aligned_alloc(64, sizeof *clients * (size_t)connections);
    if (clients == NULL) die("query", "no memory");
    memset(clients, 0, sizeof *clients * (size_t)connections);
    (by_fibers ? start_fibers : start_threads)(connections);
    sleep_ns(duration / 10);
    long long queries = count_queries(connections), cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    sleep_ns(duration);
    queries = count_queries(connections) - queries;
    cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%lld %lld\n", queries, cpu);
    fflush(stdout);
    _Exit(0); /* the connections end with the process */
}
