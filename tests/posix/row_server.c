/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * row_server.c - a small server of PostgreSQL's protocol, version 3: simple queries, any user, no TLS.
 */
#define _GNU_SOURCE
#include "row_server.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { VERSION_3 = 196608, MESSAGE_MAX = 1024, PORT = 5432 };

long row_server_balance;

struct connection {
    int fd;
    size_t length;
    char out[1024];
};

static uint32_t get32(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Receives n bytes. 0: the connection is over. A simulation may end the call early, as a signal does. */
static int take(struct connection *it, void *to, size_t n) {
    for (size_t done = 0; done < n;) {
        int64_t got = fiber_recv(it->fd, (char *)to + done, n - done, 0);
        if (got == -EINTR || got == -EAGAIN) continue;
        if (got <= 0) return 0;
        done += (size_t)got;
    }
    return 1;
}

static int flush(struct connection *it) {
    for (size_t done = 0; done < it->length;) {
        int64_t sent = fiber_send(it->fd, it->out + done, it->length - done, MSG_NOSIGNAL);
        if (sent == -EINTR || sent == -EAGAIN) continue;
        if (sent < 0) return 0;
        done += (size_t)sent;
    }
    it->length = 0;
    return 1;
}

/* A message: its type, then its length with these four bytes, then its content. */
static void put(struct connection *it, char type, const void *content, size_t size) {
    uint32_t length = htonl((uint32_t)size + 4);
    it->out[it->length] = type;
    memcpy(it->out + it->length + 1, &length, sizeof length);
    memcpy(it->out + it->length + 5, content, size);
    it->length += size + 5;
}

static void put_done(struct connection *it, const char *tag) {
    put(it, 'C', tag, strlen(tag) + 1);
    put(it, 'Z', "I", 1);
}

/* One row of one column of the type int8, as text. */
static void put_number(struct connection *it, long number) {
    static const char column[] = "\0\1" /* one */ "balance\0"
                                 "\0\0\0\0"
                                 "\0\0"
                                 "\0\0\0\24"
                                 "\0\10"
                                 "\377\377\377\377"
                                 "\0\0";
    put(it, 'T', column, sizeof column - 1);
    char row[40] = {0, 1, 0, 0, 0};
    int digits = snprintf(row + 6, sizeof row - 6, "%ld", number);
    row[5] = (char)digits;
    put(it, 'D', row, (size_t)digits + 6);
}

static void answer(struct connection *it, const char *query) {
    long number;
    if (!strcmp(query, "SELECT balance FROM account")) {
        put_number(it, row_server_balance);
        put_done(it, "SELECT 1");
    } else if (sscanf(query, "UPDATE account SET balance = balance + %ld", &number) == 1) {
        row_server_balance += number;
        put_done(it, "UPDATE 1");
    } else if (sscanf(query, "UPDATE account SET balance = %ld", &number) == 1) {
        row_server_balance = number;
        put_done(it, "UPDATE 1");
    } else if (sscanf(query, "SELECT pg_sleep(%ld)", &number) == 1) {
        while (fiber_sleep(FIBER_SEC(number)) == -EINTR) continue;
        put_number(it, number);
        put_done(it, "SELECT 1");
    } else {
        static const char error[] = "SERROR\0C42601\0Mthe row server does not know this statement\0";
        put(it, 'E', error, sizeof error);
        put(it, 'Z', "I", 1);
    }
}

/* The first message, whose length and version come without a type. */
static int begin(struct connection *it) {
    unsigned char head[8], rest[MESSAGE_MAX];
    if (!take(it, head, sizeof head)) return 0;
    uint32_t length = get32(head);
    if (get32(head + 4) != VERSION_3 || length < 8 || length - 8 > sizeof rest || !take(it, rest, length - 8)) return 0;
    put(it, 'R', "\0\0\0\0", 4); /* no password */
    put(it, 'S', "client_encoding\0UTF8", sizeof "client_encoding\0UTF8");
    put(it, 'K', "\0\0\0\1\0\0\0\2", 8);
    put(it, 'Z', "I", 1);
    return flush(it);
}

static int64_t serve(void *arg) {
    struct connection it = {.fd = *(int *)arg};
    free(arg);
    for (int alive = begin(&it); alive;) {
        unsigned char head[5];
        char query[MESSAGE_MAX];
        if (!take(&it, head, sizeof head)) break;
        uint32_t length = get32(head + 1);
        if (head[0] != 'Q' || length < 5 || length - 4 > sizeof query || !take(&it, query, length - 4)) break;
        query[length - 5] = '\0';
        answer(&it, query);
        alive = flush(&it);
    }
    fiber_close(it.fd);
    return 0;
}

void *row_server_run(void *listener) {
    fiber_scope_t connections;
    if (fiber_scope_open(&connections, FIBER_FOREVER, FIBER_SCOPE_COLLECT) < 0) abort();
    for (;;) {
        int fd = fiber_accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd == -EINTR || fd == -EAGAIN || fd == -ECONNABORTED) continue;
        if (fd < 0) break;
        int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* a Unix socket has no such option */
        int *arg = malloc(sizeof *arg);
        if (!arg) abort();
        *arg = fd;
        if (fiber_scope_spawn(connections, NULL, serve, arg) < 0) {
            free(arg);
            fiber_close(fd);
        }
    }
    fiber_scope_cancel(connections, NULL);
    fiber_scope_close(connections, NULL);
    return NULL;
}

int row_server_listen(int tcp, char *text, size_t size) {
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    /* libpq calls a Unix socket by its folder and port. One whose name begins with a zero byte has no file. */
    int name =
        snprintf(local.sun_path + 1, sizeof local.sun_path - 1, "fiberrt-test-%d/.s.PGSQL.%d", (int)getpid(), PORT);
    struct sockaddr *address = tcp ? (struct sockaddr *)&loopback : (struct sockaddr *)&local;
    socklen_t length = tcp ? sizeof loopback : (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)name);
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, address, length) < 0 || listen(fd, 100) < 0) return -1;
    if (tcp && getsockname(fd, address, &length) < 0) return -1;
    if (tcp)
        snprintf(text, size, "host=127.0.0.1 port=%d", ntohs(loopback.sin_port));
    else
        snprintf(text, size, "host=@fiberrt-test-%d port=%d", (int)getpid(), PORT);
    return fd;
}
