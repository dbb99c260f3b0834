/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * copy.c - moves data without looking at it: a file to another, or bytes between TCP connections.
 *
 *     copy FROM TO                       copies a file; "-" is standard input or output
 *     copy forward PORT TO-PORT [once]   accepts connections on 127.0.0.1:PORT (0: the kernel chooses one, and it is
 *                                        printed) and connects each to 127.0.0.1:TO-PORT; until it is killed, or once
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fiberrt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int complain(const char *what, int64_t error) {
    if (error == -ENOTSUP) {
        fprintf(stderr, "copy: there is no backend for I/O here: see fiber_backend_name in fiberrt.h.\n");
        return 2;
    }
    fprintf(stderr, "copy: %s: %s\n", what, fiber_strerror((int)error));
    return 1;
}

/* ---- a file ---------------------------------------------------------------------------------------------------- */

static int open_or_standard(const char *name, int standard, int flags) {
    return strcmp(name, "-") == 0 ? standard : fiber_open(name, flags | O_CLOEXEC, 0666);
}

static int copy_file(const char *from, const char *to) {
    int in = open_or_standard(from, STDIN_FILENO, O_RDONLY);
    if (in < 0) {
        return complain(from, in);
    }
    int out = open_or_standard(to, STDOUT_FILENO, O_WRONLY | O_CREAT | O_TRUNC);
    if (out < 0) {
        fiber_close(in);
        return complain(to, out);
    }
    int64_t written, lost;
    int64_t result = fiber_copy(in, out, FIBER_COPY_ALL, &written, &lost);
    int closed = fiber_close(out);
    fiber_close(in);
    if (result >= 0 && closed < 0) {
        result = closed;
    }
    if (result < 0) {
        fprintf(stderr, "copy: from %s to %s: %lld bytes were written, and %lld more had been taken.\n", from, to,
                (long long)written, (long long)lost);
        return complain("copying", result); /* the error may be of either file */
    }
    return 0;
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

/* The sockets have O_NONBLOCK: into these fiber_copy moves more than a page at a time. */

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    return address;
}

static int tcp_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

struct way {
    int from, to;
};

/* Copies one direction of a connection to its end, and then tells the other side that it has ended. */
static int64_t go(void *arg) {
    const struct way *way = arg;
    int64_t result = fiber_copy(way->from, way->to, FIBER_COPY_ALL, NULL, NULL);
    if (result >= 0) {
        shutdown(way->to, SHUT_WR);
    }
    return result;
}

struct connection {
    int accepted, to_port;
};

/* Both directions are children of one scope: if one fails, the other is cancelled. */
static int64_t forward_between(int near, int far) {
    struct way there = {near, far}, back = {far, near};
    fiber_scope_t scope;
    int64_t failure = 0;
    int error = fiber_scope_open(&scope, FIBER_FOREVER, 0);
    if (error < 0) {
        return error;
    }
    error = fiber_scope_spawn(scope, NULL, go, &there);
    if (error == 0) {
        error = fiber_scope_spawn(scope, NULL, go, &back);
    }
    if (error < 0) {
        fiber_scope_cancel(scope, NULL);
    }
    int verdict = fiber_scope_close(scope, &failure);
    return error < 0 ? error : verdict < 0 ? verdict : failure;
}

static void *forward_one(void *arg) {
    struct connection *connection = arg;
    struct sockaddr_in address = loopback(connection->to_port);
    int far = tcp_socket();
    int64_t result = far;
    if (far >= 0) {
        result = fiber_connect(far, (struct sockaddr *)&address, sizeof address);
        if (result == 0) {
            result = forward_between(connection->accepted, far);
        }
        fiber_close(far);
    }
    if (result < 0) {
        complain("a connection", result);
    }
    fiber_close(connection->accepted);
    free(connection);
    return NULL;
}

static int listen_on(int port, int *listener) {
    struct sockaddr_in address = loopback(port);
    socklen_t length = sizeof address;
    int yes = 1;
    *listener = tcp_socket();
    if (*listener < 0) {
        return *listener;
    }
    setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(*listener, (struct sockaddr *)&address, length) < 0 || listen(*listener, 128) < 0 ||
        getsockname(*listener, (struct sockaddr *)&address, &length) < 0) {
        int error = -errno;
        fiber_close(*listener);
        return error;
    }
    printf("forwarding 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return 0;
}

static int forward(int port, int to_port, int once) {
    int listener;
    int error = listen_on(port, &listener);
    if (error < 0) {
        return complain("listening", error);
    }
    for (;;) {
        struct connection *connection = malloc(sizeof *connection);
        if (connection == NULL) {
            return complain("a connection", -ENOMEM);
        }
        connection->to_port = to_port;
        connection->accepted = fiber_accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (connection->accepted == -ECONNABORTED) {
            free(connection);
            continue;
        }
        if (connection->accepted < 0) {
            error = connection->accepted;
            free(connection);
            return complain("accepting", error);
        }
        fiber_t fiber;
        int accepted = connection->accepted;
        error = fiber_spawn(&fiber, forward_one, connection);
        if (error < 0) {
            free(connection);
            fiber_close(accepted);
            complain("a connection", error);
        } else if (once) {
            fiber_close(listener);
            return fiber_join(fiber, NULL) == 0 ? 0 : 1;
        } else {
            fiber_detach(fiber);
        }
    }
}

int main(int argc, char **argv) {
    if (argc == 3) {
        return copy_file(argv[1], argv[2]);
    }
    if ((argc == 4 || (argc == 5 && strcmp(argv[4], "once") == 0)) && strcmp(argv[1], "forward") == 0) {
        return forward(atoi(argv[2]), atoi(argv[3]), argc == 5);
    }
    fprintf(stderr, "usage: copy FROM TO\n       copy forward PORT TO-PORT [once]\n");
    return 2;
}
