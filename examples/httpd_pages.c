/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * httpd_pages.c - queries of an SQLite database, each with fiber_offload, because SQLite blocks the thread: it waits
 * for the disk and for the locks of other users of the file. Each query opens its own connection. That costs little
 * compared with the query, and threads share nothing.
 */
#include "httpd_pages.h"

#include <errno.h>
#include <fiberrt.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_MS 2000   /* the limit of a query's wait for a lock; nothing ends this wait earlier */
#define TYPE_LIMIT 255 /* bytes of a Content-Type */

static const char *database;

struct query {
    const char *path;
    struct page *page;
};

static int copy(const void *from, size_t length, char **to) {
    *to = malloc(length + 1);
    if (*to == NULL) {
        return -ENOMEM;
    }
    memcpy(*to, length > 0 ? from : "", length);
    (*to)[length] = '\0';
    return 0;
}

/* The first row, if there is one. */
static int take_row(sqlite3_stmt *statement, struct page *page) {
    int step = sqlite3_step(statement);
    if (step != SQLITE_ROW) {
        return step == SQLITE_DONE ? -ENOENT : step == SQLITE_BUSY ? -EAGAIN : -EIO;
    }
    const char *type = (const char *)sqlite3_column_text(statement, 0);
    if (type == NULL || strlen(type) > TYPE_LIMIT || strpbrk(type, "\r\n") != NULL) {
        return -EIO;
    }
    int error = copy(type, strlen(type), &page->type);
    const void *body = sqlite3_column_blob(statement, 1);
    page->length = (size_t)sqlite3_column_bytes(statement, 1);
    return error != 0 ? error : copy(body, page->length, &page->body);
}

/* Runs on a thread that may block. Its data lies on the stack of the fiber, which waits meanwhile. */
static int64_t run_query(void *arg) {
    struct query *query = arg;
    sqlite3 *connection = NULL;
    sqlite3_stmt *statement = NULL;
    int error = -EIO;
    if (sqlite3_open_v2(database, &connection, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(connection, BUSY_MS) == SQLITE_OK &&
        sqlite3_prepare_v2(connection, "SELECT type, body FROM pages WHERE path = ?", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_bind_text(statement, 1, query->path, -1, SQLITE_STATIC) == SQLITE_OK) {
        error = take_row(statement, query->page);
    } else if (sqlite3_errcode(connection) == SQLITE_BUSY) {
        error = -EAGAIN;
    }
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return error;
}

int pages_open(const char *file) {
    if (access(file, R_OK) != 0) {
        return -errno;
    }
    database = file;
    return 0;
}

int find_page(const char *path, struct page *page) {
    memset(page, 0, sizeof *page);
    if (database == NULL) {
        return -ENOENT;
    }
    struct query query = {path, page};
    int64_t result;
    int error = fiber_offload(run_query, &query, &result);
    if (error == 0) {
        error = (int)result;
    }
    if (error != 0) {
        free_page(page);
    }
    return error;
}

void free_page(struct page *page) {
    free(page->type);
    free(page->body);
    memset(page, 0, sizeof *page);
}
