/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * small_server.c - the common part of the small servers: a thread with a cord, a fiber for each connection, buffers, and
 * the questions that wait.
 */
#define _GNU_SOURCE
#include "small_server.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

struct small_server {
    small_serve_fn *serve;
    int listener, port;
    int held, connections;
    fiber_event_t released;
    fiber_t main_flow;
    fiber_event_t running; /* main_flow is set */
    pthread_t thread;
};

static int64_t serve_connection(void *arg) {
    struct stream *stream = arg;
    struct small_server *server = stream->server;
    server->serve(stream);
    fiber_close(stream->fd);
    free(stream);
    __atomic_sub_fetch(&server->connections, 1, __ATOMIC_SEQ_CST);
    return 0;
}

struct small_server *small_server_new(small_serve_fn *serve) {
    struct small_server *server = calloc(1, sizeof *server);
    if (!server) return NULL;
    server->serve = serve;
    server->listener = -1;
    fiber_event_init(&server->released, FIBER_EVENT_MANUAL);
    fiber_event_init(&server->running, FIBER_EVENT_MANUAL);
    return server;
}

void small_server_run(struct small_server *server, int listener) {
    fiber_scope_t connections;
    if (fiber_scope_open(&connections, FIBER_FOREVER, FIBER_SCOPE_COLLECT) < 0) return;
    for (int fd; (fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* a Unix socket has no such option */
        struct stream *stream = calloc(1, sizeof *stream);
        if (stream) stream->server = server, stream->fd = fd;
        __atomic_add_fetch(&server->connections, 1, __ATOMIC_SEQ_CST);
        if (!stream || fiber_scope_spawn(connections, NULL, serve_connection, stream) < 0) {
            free(stream);
            fiber_close(fd);
            __atomic_sub_fetch(&server->connections, 1, __ATOMIC_SEQ_CST);
        }
    }
    fiber_scope_cancel(connections, NULL);
    fiber_scope_close(connections, NULL);
}

static void *run_on_thread(void *arg) {
    struct small_server *server = arg;
    fiber_self(&server->main_flow);
    fiber_event_set(&server->running);
    small_server_run(server, server->listener);
    return NULL;
}

struct small_server *small_server_start(small_serve_fn *serve, const char *path) {
    struct small_server *server = small_server_new(serve);
    if (!server) return NULL;
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = path ? sizeof local : sizeof loopback;
    struct sockaddr *address = path ? (struct sockaddr *)&local : (struct sockaddr *)&loopback;
    if (path) snprintf(local.sun_path, sizeof local.sun_path, "%s", path);
    if (path) unlink(path);
    server->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->listener >= 0 && bind(server->listener, address, size) == 0 && listen(server->listener, 1024) == 0 &&
        (path || getsockname(server->listener, address, &size) == 0) &&
        pthread_create(&server->thread, NULL, run_on_thread, server) == 0) {
        server->port = ntohs(loopback.sin_port);
        while (fiber_event_wait(&server->running) < 0) {} /* an interrupt of the caller may end it */
        return server;
    }
    perror("small_server_start");
    if (server->listener >= 0) close(server->listener);
    free(server);
    return NULL;
}

int small_server_port(const struct small_server *server) { return server->port; }

void small_server_stop(struct small_server *server) {
    fiber_cancel(server->main_flow, NULL);
    pthread_join(server->thread, NULL);
    close(server->listener);
    free(server);
}

int small_server_held(struct small_server *server) { return __atomic_load_n(&server->held, __ATOMIC_SEQ_CST); }

int small_server_connections(struct small_server *server) {
    return __atomic_load_n(&server->connections, __ATOMIC_SEQ_CST);
}

void small_server_release(struct small_server *server) { fiber_event_set(&server->released); }

/* --- Connections -------------------------------------------------------------------------------------------------- */

/* Receives more bytes after those that are there. */
static bool fill(struct stream *stream) {
    if (stream->begin > 0) {
        memmove(stream->in, stream->in + stream->begin, stream->end - stream->begin);
        stream->end -= stream->begin;
        stream->begin = 0;
    }
    if (stream->failed || stream->end == sizeof stream->in) return false;
    int64_t got = fiber_recv(stream->fd, stream->in + stream->end, sizeof stream->in - stream->end, 0);
    if (got <= 0)
        stream->failed = true;
    else
        stream->end += (size_t)got;
    return got > 0;
}

const unsigned char *stream_take(struct stream *stream, size_t n) {
    while (stream->end - stream->begin < n)
        if (!fill(stream)) return NULL;
    stream->begin += n;
    return stream->in + stream->begin - n;
}

char *stream_line(struct stream *stream) {
    for (size_t seen = 0;;) {
        unsigned char *from = stream->in + stream->begin;
        unsigned char *end = memchr(from + seen, '\n', stream->end - stream->begin - seen);
        if (end) {
            stream->begin = (size_t)(end + 1 - stream->in);
            if (end > from && end[-1] == '\r') end--;
            *end = 0;
            return (char *)from;
        }
        seen = stream->end - stream->begin;
        if (!fill(stream)) return NULL;
    }
}

bool stream_flush(struct stream *stream) {
    for (size_t sent = 0; sent < stream->length && !stream->failed;) {
        int64_t n = fiber_send(stream->fd, stream->out + sent, stream->length - sent, MSG_NOSIGNAL);
        if (n < 0)
            stream->failed = true;
        else
            sent += (size_t)n;
    }
    stream->length = 0;
    return !stream->failed;
}

void stream_put(struct stream *stream, const void *data, size_t size) {
    for (const unsigned char *from = data; size > 0;) {
        size_t room = sizeof stream->out - stream->length, n = size < room ? size : room;
        memcpy(stream->out + stream->length, from, n);
        stream->length += n, from += n, size -= n;
        if (stream->length == sizeof stream->out) stream_flush(stream);
    }
}

void stream_print(struct stream *stream, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (size > 0) stream_put(stream, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

/* --- Questions ---------------------------------------------------------------------------------------------------- */

struct asked small_parse(const char *text) {
    struct asked asked = {.rows = 1};
    const char *number = strstr(text, "number="), *rows = strstr(text, "rows="), *us = strstr(text, "us=");
    if (number) asked.number = strtoull(number + 7, NULL, 10);
    if (rows) asked.rows = strtol(rows + 5, NULL, 10);
    if (us) asked.us = strtol(us + 3, NULL, 10);
    asked.held = strstr(text, " held") != NULL;
    return asked;
}

bool small_wait(struct stream *stream, const struct asked *asked) {
    struct small_server *server = stream->server;
    if (asked->held) {
        __atomic_add_fetch(&server->held, 1, __ATOMIC_SEQ_CST);
        int error = fiber_event_wait(&server->released);
        __atomic_sub_fetch(&server->held, 1, __ATOMIC_SEQ_CST);
        return error == 0;
    }
    return asked->us <= 0 || fiber_sleep(FIBER_USEC(asked->us)) == 0;
}
