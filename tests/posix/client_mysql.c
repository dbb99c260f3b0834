/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* client_mysql.c - libmariadb, asked in its different ways: results at once, row by row, prepared statements. */
#include "client.h"
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const libraries[] = {"libmariadb.so", "libcrypto.so", "libgnutls.so", NULL};

static void begin(void) { mysql_library_init(0, NULL, NULL); }

/* Errors of the client, not of the server: after them the connection is over. */
static bool is_of_client(unsigned error) { return error >= 2000 && error < 3000; }

static enum outcome failed(MYSQL *connection, char why[WHY]) {
    unsigned error = mysql_errno(connection);
    snprintf(why, WHY, "error %u: %s", error, mysql_error(connection));
    return is_of_client(error) ? REFUSED_CLOSED : REFUSED;
}

/* A server is the path of a Unix socket, or HOST:PORT. Every second connection by TCP to a real server has TLS. */
static void *open_connection(const char *server, unsigned worker, char why[WHY]) {
    MYSQL *connection = mysql_init(NULL);
    if (!connection) return NULL;
    char host[64] = "localhost";
    const char *port = server[0] == '/' ? NULL : strrchr(server, ':'), *ca = getenv("SERVER_CA");
    if (port) snprintf(host, sizeof host, "%.*s", (int)(port - server), server);
    if (port && ca && worker % 2) {
        my_bool yes = 1;
        mysql_options(connection, MYSQL_OPT_SSL_ENFORCE, &yes);
        mysql_options(connection, MYSQL_OPT_SSL_CA, ca);
    }
    unsigned number = port ? (unsigned)atoi(port + 1) : 0;
    if (mysql_real_connect(connection, host, "root", "", NULL, number, port ? NULL : server, 0)) return connection;
    failed(connection, why);
    mysql_close(connection);
    return NULL;
}

static void close_connection(void *connection) { mysql_close(connection); }

static bool check_number(const struct question *question, uint64_t number, char why[WHY]) {
    if (number == question->number) return true;
    snprintf(why, WHY, "asked for %llu, the answer is %llu", (unsigned long long)question->number,
             (unsigned long long)number);
    return false;
}

static enum outcome check_rows(const struct question *question, long rows, char why[WHY]) {
    if (rows == question->rows) return ANSWERED;
    snprintf(why, WHY, "%ld of %ld rows, no error", rows, question->rows);
    return WRONG;
}

static enum outcome ask_prepared(MYSQL *connection, const char *query, const struct question *question, char why[WHY]) {
    MYSQL_STMT *statement = mysql_stmt_init(connection);
    unsigned long long number = 0, which = 0;
    MYSQL_BIND column[2] = {{.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &number, .is_unsigned = 1},
                            {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &which, .is_unsigned = 1}};
    bool wrong = false;
    long rows = 0;
    int status = !statement || mysql_stmt_prepare(statement, query, strlen(query)) || mysql_stmt_execute(statement) ||
                 mysql_stmt_bind_result(statement, column);
    while (status == 0 && (status = mysql_stmt_fetch(statement)) == 0) {
        wrong |= !check_number(question, number, why);
        rows++;
    }
    unsigned error = statement ? mysql_stmt_errno(statement) : 0;
    if (!wrong && status == 1) snprintf(why, WHY, "error %u: %s", error, statement ? mysql_stmt_error(statement) : "");
    if (!error && status == 1) error = mysql_errno(connection); /* some errors of a fetch stand only there */
    if (statement) mysql_stmt_close(statement);
    if (wrong) return WRONG;
    if (status == 1) return is_of_client(error) ? REFUSED_CLOSED : REFUSED;
    return check_rows(question, rows, why);
}

static enum outcome ask(void *of, const struct question *question, char why[WHY]) {
    enum { AT_ONCE, ROW_BY_ROW, PREPARED, WAYS };
    MYSQL *connection = of;
    unsigned way = question->variant % WAYS;
    if (way == PREPARED && (question->small || question->held)) way = AT_ONCE;
    char comment[128], query[400];
    unsigned long long number = question->number;
    question_comment(comment, sizeof comment, question);
    if (question->held)
        snprintf(query, sizeof query, "%s SELECT %llu, SLEEP(%ld * 1e-6) FROM fiberrt.held", comment, number,
                 question->us);
    else
        snprintf(query, sizeof query, "%s SELECT %llu, seq FROM (SELECT SLEEP(%ld * 1e-6)) slept, fiberrt.seq_1_to_%ld",
                 comment, number, question->us, question->rows);
    if (way == PREPARED) return ask_prepared(connection, query, question, why);
    if (mysql_query(connection, query) != 0) return failed(connection, why);
    MYSQL_RES *result = way == AT_ONCE ? mysql_store_result(connection) : mysql_use_result(connection);
    if (!result) return failed(connection, why);
    bool wrong = false;
    long rows = 0;
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)); rows++)
        wrong |= !check_number(question, strtoull(row[0], NULL, 10), why);
    unsigned error = mysql_errno(connection);
    mysql_free_result(result);
    if (wrong) return WRONG;
    return error != 0 ? failed(connection, why) : check_rows(question, rows, why);
}

static bool execute(MYSQL *connection, const char *statement) {
    if (mysql_query(connection, statement) != 0) return false;
    MYSQL_RES *result = mysql_store_result(connection);
    if (result) mysql_free_result(result);
    return true;
}

/* A second connection has locked the table that held questions read. */
static void *hold(const char *server, char why[WHY]) {
    MYSQL *connection = open_connection(server, 0, why);
    if (!connection) return NULL;
    static const char *const statements[] = {"CREATE DATABASE IF NOT EXISTS fiberrt",
                                             "CREATE OR REPLACE TABLE fiberrt.held (i INT) ENGINE = MEMORY",
                                             "INSERT INTO fiberrt.held VALUES (1)", "LOCK TABLES fiberrt.held WRITE"};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (!execute(connection, statements[i])) return failed(connection, why), NULL;
    return connection;
}

static int held(void *connection) {
    static const char query[] = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%number=% held%' "
                                "AND info LIKE '%fiberrt.held%' AND state LIKE 'Waiting for table metadata lock'";
    if (mysql_query(connection, query) != 0) return -1;
    MYSQL_RES *result = mysql_store_result(connection);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    int count = row ? atoi(row[0]) : -1;
    if (result) mysql_free_result(result);
    return count;
}

static void release(void *connection, int count) {
    (void)count;
    mysql_close(connection); /* the server unlocks its tables */
}

int main(int argc, char **argv) {
    static const struct client client = {
        .name = "libmariadb",
        .libraries = libraries,
        .small_serve = small_mysql,
        .small_address = "127.0.0.1:%d",
        .begin = begin,
        .open = open_connection,
        .ask = ask,
        .close = close_connection,
        .hold = hold,
        .held = held,
        .release = release,
    };
    return client_main(argc, argv, &client);
}
