/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pq.c - a hundred queries to PostgreSQL at the same time, on one thread, by libpq's blocking calls. Each takes a tenth
 * of a second; all together take hardly more. (pq CONNECTION, such as "dbname=test")
 */
#include <fiberrt.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIBERS = 100 };

static const char *connection;

static void *ask(void *arg) { /* returns NULL if the answer is right */
    int number = (int)(intptr_t)arg;
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    const char *parameters[] = {text};
    void *failed = arg;
    PGconn *database = PQconnectdb(connection);
    PGresult *result = NULL;
    if (PQstatus(database) == CONNECTION_OK) {
        result = PQexecParams(database, "SELECT $1::int * 2, pg_sleep(0.1)", 1, NULL, parameters, NULL, NULL, 0);
    }
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fprintf(stderr, "pq: %s", PQerrorMessage(database));
    } else if (atoi(PQgetvalue(result, 0, 0)) == number * 2) {
        failed = NULL;
    }
    PQclear(result);
    PQfinish(database);
    return failed;
}

int main(int argc, char **argv) {
    fiber_t fibers[FIBERS];
    int right = 0;
    if (argc != 2) return fprintf(stderr, "usage: pq CONNECTION\n"), 1;
    connection = argv[1];
    int error = fiber_posix_adopt("libpq.so", 0); /* from here on, libpq's waits are those of the calling fiber */
    if (error < 0) return fprintf(stderr, "pq: %s\n", fiber_strerror(error)), 1;
    int64_t start = fiber_now();
    for (int i = 0; i < FIBERS; i++) {
        error = fiber_spawn(&fibers[i], ask, (void *)(intptr_t)(i + 1));
        if (error < 0) return fprintf(stderr, "pq: %s\n", fiber_strerror(error)), 1;
    }
    for (int i = 0; i < FIBERS; i++) {
        void *failed;
        if (fiber_join(fibers[i], &failed) == 0 && failed == NULL) right++;
    }
    printf("%d of %d answers are right\n", right, FIBERS);
    fprintf(stderr, "they took %.2f s\n", (double)(fiber_now() - start) / 1e9);
    return right != FIBERS;
}
