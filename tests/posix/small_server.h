/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * small_server.h - servers of PostgreSQL's, MariaDB's and Redis' protocols and of HTTP, small enough for a test that has
 * none of the real ones. Each answers the questions of the clients in this folder: a number and how many rows carry it,
 * after a delay; or a held question, which it answers when the test releases it. They are written with the calls of
 * fiberrt.h, so they run on a thread of their own next to the client, or as fibers of the client's thread, also in a
 * simulation.
 */
#ifndef FIBERRT_TEST_SMALL_SERVER_H
#define FIBERRT_TEST_SMALL_SERVER_H

#include <fiberrt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A connection, with the bytes received and not read yet, and the bytes written and not sent yet. */
struct stream {
    struct small_server *server;
    int fd;
    bool failed; /* its peer has closed it, or the server stops */
    size_t begin, end;
    unsigned char in[32768];
    size_t length;
    unsigned char out[32768];
};

/* Serves one connection until its end. */
typedef void small_serve_fn(struct stream *stream);
small_serve_fn small_pq, small_mysql, small_redis, small_http;

/* Starts a server on a thread of its own. It listens at a Unix socket of this path or, if path is NULL, at a port of
 * 127.0.0.1. Returns NULL if it cannot. */
struct small_server *small_server_start(small_serve_fn *serve, const char *path);
/* Serves the connections to a descriptor that listens, on the calling fiber, until that is cancelled. */
void small_server_run(struct small_server *server, int listener);
struct small_server *small_server_new(small_serve_fn *serve);
int small_server_port(const struct small_server *server);
/* Closes all connections, ends the thread and frees the server. */
void small_server_stop(struct small_server *server);

/* How many held questions the server has and has not answered. From any thread. */
int small_server_held(struct small_server *server);
/* How many connections the server has not closed yet. From any thread. */
int small_server_connections(struct small_server *server);
/* Lets the server answer all held questions, and those that come later. From any thread. */
void small_server_release(struct small_server *server);

/* --- For the protocols --- */

/* The next n bytes, which stay valid until the next call; NULL at the end of the connection. n is at most the size of
 * the buffer: a longer message ends the connection. */
const unsigned char *stream_take(struct stream *stream, size_t n);
/* The next line, without its end, terminated by a zero byte; NULL at the end of the connection. */
char *stream_line(struct stream *stream);
void stream_put(struct stream *stream, const void *data, size_t size);
void stream_print(struct stream *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sends the bytes written. False: the connection is over. */
bool stream_flush(struct stream *stream);

/* A question, as the clients write it: "number=5 rows=3 us=1200", and " held" after that if it is held. */
struct asked {
    uint64_t number;
    long rows, us;
    bool held;
};
struct asked small_parse(const char *text);
/* Waits for the question's delay, or until it is released. False: the server stops. */
bool small_wait(struct stream *stream, const struct asked *asked);

#endif
