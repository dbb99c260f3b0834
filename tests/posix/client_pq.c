/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* client_pq.c - libpq, asked in its different ways: simple and extended queries, row by row, pipelines, copies. */
#include "client.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const libraries[] = {"libpq.so", "libcrypto.so", NULL};

static void explain(PGconn *connection, char why[WHY]) { snprintf(why, WHY, "%s", PQerrorMessage(connection)); }

static void *open_connection(const char *server, unsigned worker, char why[WHY]) {
    (void)worker;
    PGconn *connection = PQconnectdb(server);
    if (PQstatus(connection) == CONNECTION_OK) return connection;
    explain(connection, why);
    PQfinish(connection);
    return NULL;
}

static void close_connection(void *connection) { PQfinish(connection); }

/* What a question has received. */
struct received {
    uint64_t number; /* all rows must carry it */
    long rows;
    bool failed, wrong;
};

static void check_number(struct received *received, const char *text, char why[WHY]) {
    if (strtoull(text, NULL, 10) != received->number) {
        received->wrong = true;
        snprintf(why, WHY, "asked for %llu, the answer is %.30s", (unsigned long long)received->number, text);
    }
    received->rows++;
}

static void check_result(PGconn *connection, struct received *received, PGresult *result, char why[WHY]) {
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE) {
        for (int row = 0; row < PQntuples(result); row++) check_number(received, PQgetvalue(result, row, 0), why);
    } else if (status != PGRES_COMMAND_OK && !received->failed) {
        received->failed = true;
        snprintf(why, WHY, "%s: %s", PQresStatus(status), result ? PQresultErrorMessage(result) : "");
        if (!result) explain(connection, why);
    }
    PQclear(result);
}

/* The outcome of a question whose results have all been read. */
static enum outcome outcome_of(PGconn *connection, const struct received *received, long rows, char why[WHY]) {
    if (received->wrong) return WRONG;
    if (!received->failed && received->rows == rows) return ANSWERED;
    if (!received->failed) return snprintf(why, WHY, "%ld of %ld rows, no error", received->rows, rows), WRONG;
    return PQstatus(connection) == CONNECTION_BAD ? REFUSED_CLOSED : REFUSED;
}

static void write_query(char *query, size_t size, const struct question *question, const char *number) {
    char comment[128];
    question_comment(comment, sizeof comment, question);
    if (question->held)
        snprintf(query, size, "%s SELECT %s::int8, 1 FROM pg_advisory_xact_lock_shared(77), pg_sleep(%ld * 1e-6)",
                 comment, number, question->us);
    else
        snprintf(query, size, "%s SELECT %s::int8, row FROM pg_sleep(%ld * 1e-6), generate_series(1, %ld) row", comment,
                 number, question->us, question->rows);
}

/* Three questions with one Sync at the end. Their numbers differ only here: number * 4, and the two after that. */
static enum outcome ask_pipeline(PGconn *connection, const struct question *question, char why[WHY]) {
    enum { QUESTIONS = 3 };
    struct received all = {0};
    if (!PQenterPipelineMode(connection)) return explain(connection, why), REFUSED;
    for (unsigned i = 0; i < QUESTIONS; i++) {
        struct question part = *question;
        part.number = question->number * 4 + i;
        char query[400], number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)part.number);
        write_query(query, sizeof query, &part, number);
        if (!PQsendQueryParams(connection, query, 0, NULL, NULL, NULL, NULL, 0)) all.failed = true;
    }
    if (!PQpipelineSync(connection)) all.failed = true;
    if (all.failed) explain(connection, why);
    for (unsigned i = 0; i < QUESTIONS && PQstatus(connection) == CONNECTION_OK; i++) {
        struct received part = {.number = question->number * 4 + i};
        for (PGresult *result; (result = PQgetResult(connection));) check_result(connection, &part, result, why);
        all.rows += part.rows, all.failed |= part.failed, all.wrong |= part.wrong;
    }
    PGresult *end = PQstatus(connection) == CONNECTION_OK ? PQgetResult(connection) : NULL;
    if (PQresultStatus(end) != PGRES_PIPELINE_SYNC && !all.failed) explain(connection, why), all.failed = true;
    PQclear(end);
    PQexitPipelineMode(connection);
    return outcome_of(connection, &all, QUESTIONS * question->rows, why);
}

static enum outcome ask_copy(PGconn *connection, const struct question *question, char why[WHY]) {
    struct received received = {.number = question->number};
    char query[400], copy[440], number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)question->number);
    write_query(query, sizeof query, question, number);
    snprintf(copy, sizeof copy, "COPY (%s) TO STDOUT", query);
    PGresult *result = PQexec(connection, copy);
    if (PQresultStatus(result) != PGRES_COPY_OUT) {
        check_result(connection, &received, result, why);
        received.failed = true;
        return outcome_of(connection, &received, question->rows, why);
    }
    PQclear(result);
    char *line;
    int size;
    while ((size = PQgetCopyData(connection, &line, 0)) > 0) {
        check_number(&received, line, why);
        PQfreemem(line);
    }
    if (size == -2) explain(connection, why), received.failed = true;
    while ((result = PQgetResult(connection))) check_result(connection, &received, result, why);
    return outcome_of(connection, &received, question->rows, why);
}

static enum outcome ask(void *of, const struct question *question, char why[WHY]) {
    enum { SIMPLE, PARAMETERS, ROW_BY_ROW, PIPELINE, COPY, WAYS };
    PGconn *connection = of;
    unsigned way = question->variant % WAYS;
    if (way == COPY && (question->small || question->held)) way = SIMPLE;
    if (way == PIPELINE && question->held) way = PARAMETERS;
    if (way == PIPELINE) return ask_pipeline(connection, question, why);
    if (way == COPY) return ask_copy(connection, question, why);
    struct received received = {.number = question->number};
    char query[400], number[24];
    const char *values[] = {number};
    snprintf(number, sizeof number, "%llu", (unsigned long long)question->number);
    write_query(query, sizeof query, question, way == PARAMETERS ? "$1" : number);
    if (way == SIMPLE) {
        check_result(connection, &received, PQexec(connection, query), why);
    } else if (way == PARAMETERS) {
        check_result(connection, &received, PQexecParams(connection, query, 1, NULL, values, NULL, NULL, 0), why);
    } else if (!PQsendQuery(connection, query) || !PQsetSingleRowMode(connection)) {
        explain(connection, why);
        received.failed = true;
    }
    if (way == ROW_BY_ROW)
        for (PGresult *result; (result = PQgetResult(connection));) check_result(connection, &received, result, why);
    return outcome_of(connection, &received, question->rows, why);
}

/* A second connection has the lock that held questions wait for. */
static void *hold(const char *server, char why[WHY]) {
    PGconn *connection = open_connection(server, 0, why);
    if (!connection) return NULL;
    PGresult *result = PQexec(connection, "SELECT pg_advisory_lock(77)");
    bool locked = PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    return locked ? connection : (explain(connection, why), NULL);
}

static int held(void *connection) {
    PGresult *result = PQexec(connection, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
    int count = PQresultStatus(result) == PGRES_TUPLES_OK ? atoi(PQgetvalue(result, 0, 0)) : -1;
    PQclear(result);
    return count;
}

static void release(void *connection, int count) {
    (void)count;
    PQfinish(connection); /* the server releases its lock */
}

int main(int argc, char **argv) {
    static const struct client client = {
        .name = "libpq",
        .libraries = libraries,
        .small_serve = small_pq,
        .small_address = "host=127.0.0.1 port=%d user=test dbname=test",
        .open = open_connection,
        .ask = ask,
        .close = close_connection,
        .hold = hold,
        .held = held,
        .release = release,
    };
    return client_main(argc, argv, &client);
}
