/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sim_pq.c - a program of libpq that runs in a simulation, against row_server.h. libpq is adopted. Usage:
 *
 *     sim_pq [tcp] PLAN
 *
 *     race      two tellers, each with a connection, read the balance and write it back without a transaction
 *     atomic    the tellers let the server add; the balance is right whatever the order. A connection that a fault ends
 *               is opened again
 *     patient   a query of an hour, and a query of an hour under a limit of a minute
 *
 * Exits with 1 if the plan fails.
 */
#include "row_server.h"
#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char server[100];

static void fail(const char *what, const char *why) {
    fprintf(stderr, "sim_pq: %s: %s\n", what, why);
    exit(1);
}

static PGconn *connected(void) {
    char text[200];
    snprintf(text, sizeof text, "%s user=test dbname=test sslmode=disable gssencmode=disable", server);
    return PQconnectdb(text);
}

/* Makes a query. Returns its number, or 0 if it has none. */
static long ask(PGconn *connection, const char *query) {
    PGresult *result = PQexec(connection, query);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail(query, PQerrorMessage(connection));
    long number = status == PGRES_TUPLES_OK ? atol(PQgetvalue(result, 0, 0)) : 0;
    PQclear(result);
    return number;
}

static const char read_balance[] = "SELECT balance FROM account";

struct teller {
    long amount;
    int looks; /* queries that the teller makes first */
};

static void *race(void *arg) {
    const struct teller *teller = arg;
    PGconn *connection = connected();
    if (PQstatus(connection) != CONNECTION_OK) fail("PQconnectdb", PQerrorMessage(connection));
    for (int i = 0; i < teller->looks; i++) ask(connection, read_balance);
    char query[100];
    long balance = ask(connection, read_balance);
    snprintf(query, sizeof query, "UPDATE account SET balance = %ld", balance + teller->amount);
    ask(connection, query);
    PQfinish(connection);
    return NULL;
}

/* Adds the amount once, as far as the client knows: returns 1 if it learned that the server has done it, 0 if the
 * connection ended before. */
static void *atomic(void *arg) {
    const struct teller *teller = arg;
    PGconn *connection;
    for (int tries = 0;; tries++) {
        connection = connected();
        if (PQstatus(connection) == CONNECTION_OK) break;
        PQfinish(connection);
        if (tries == 100) fail("PQconnectdb", "100 connections failed");
    }
    char query[100];
    snprintf(query, sizeof query, "UPDATE account SET balance = balance + %ld", teller->amount);
    PGresult *result = PQexec(connection, query);
    int done = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!done && PQstatus(connection) == CONNECTION_OK) fail(query, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
    return done ? server : NULL; /* not null: it is done */
}

static int64_t seconds(void) { return fiber_now() / FIBER_SEC(1); }

static void patient(void) {
    int64_t begun = seconds();
    PGconn *connection = connected();
    if (ask(connection, "SELECT pg_sleep(3600)") != 3600) fail("pg_sleep", "wrong answer");
    if (seconds() != begun + 3600) fail("pg_sleep", "the hour has not passed");
    fiber_scope_t minute;
    if (fiber_scope_open(&minute, FIBER_SEC(60), 0)) abort();
    PGresult *result = PQexec(connection, "SELECT pg_sleep(3600)");
    int verdict = fiber_scope_close(minute, NULL);
    if (verdict != -ETIMEDOUT) fail("the scope", "not timed out");
    if (PQresultStatus(result) == PGRES_TUPLES_OK) fail("the limited query", "it was answered");
    if (PQstatus(connection) == CONNECTION_OK) fail("the limited query", "its connection goes on");
    PQclear(result);
    if (seconds() != begun + 3660) fail("the scope", "the minute has not passed");
    PQfinish(connection);
}

int main(int argc, char **argv) {
    int tcp = argc == 3 && !strcmp(argv[1], "tcp");
    const char *plan = argc > 1 ? argv[argc - 1] : "";
    if (fiber_posix_adopt("libpq.so", 0) <= 0) fail("fiber_posix_adopt", "libpq is not loaded");
    int listener = row_server_listen(tcp, server, sizeof server);
    if (listener < 0) fail("row_server_listen", strerror(errno));
    fiber_t serving;
    if (fiber_spawn(&serving, row_server_run, &listener)) abort();
    row_server_balance = 300;
    struct teller tellers[] = {{100, 0}, {-50, 1}};
    if (!strcmp(plan, "patient")) {
        patient();
    } else {
        void *(*run)(void *) = !strcmp(plan, "race") ? race : !strcmp(plan, "atomic") ? atomic : NULL;
        if (!run) fail("usage", "sim_pq [tcp] race|atomic|patient");
        fiber_t running[2];
        long sum = row_server_balance;
        int known = 1;
        for (int i = 0; i < 2; i++)
            if (fiber_spawn(&running[i], run, &tellers[i])) abort();
        for (int i = 0; i < 2; i++) {
            void *done;
            if (fiber_join(running[i], &done)) abort();
            sum += tellers[i].amount;
            if (run == atomic && !done) known = 0; /* the server may have added it */
        }
        char text[80];
        snprintf(text, sizeof text, "it is %ld, and should be %ld", row_server_balance, sum);
        if (known && row_server_balance != sum) fail("the balance", text);
    }
    fiber_cancel(serving, NULL);
    if (fiber_join(serving, NULL)) abort();
    puts("passed");
    return 0;
}
