/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * forward.c - forwards TCP connections to another server: two fibers for each connection copy one direction each. They
 * are children of one scope, so if one direction fails, the other is cancelled.
 *
 *     forward PORT TO-HOST:TO-PORT
 */
#define _GNU_SOURCE
#include "listen.h"

#include <fiberrt.h>
#include <stdio.h>
#include <sys/socket.h>

struct way {
    int from, to;
};

static const char *destination;

/* Copies to the end of one direction, and then says so to the other side. */
static int64_t copy_one_way(void *arg) {
    const struct way *way = arg;
    int64_t result = fiber_copy(way->from, way->to, FIBER_COPY_ALL, NULL, NULL);
    if (result >= 0) shutdown(way->to, SHUT_WR);
    return result;
}

static void *forward(void *arg) {
    int near = (int)(intptr_t)arg, far = fiber_dial(destination, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct way there = {near, far}, back = {far, near};
    fiber_scope_t scope;
    int64_t failure = far < 0 ? far : fiber_scope_open(&scope, FIBER_FOREVER, 0);
    if (failure == 0) {
        int error = fiber_scope_spawn(scope, NULL, copy_one_way, &there);
        if (error == 0) error = fiber_scope_spawn(scope, NULL, copy_one_way, &back);
        if (error < 0) fiber_scope_cancel(scope, NULL);
        fiber_scope_close(scope, &failure); /* waits for both */
        if (error < 0) failure = error;
    }
    if (failure < 0) fprintf(stderr, "forward: %s\n", fiber_strerror((int)failure));
    if (far >= 0) fiber_close(far);
    fiber_close(near);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: forward PORT TO-HOST:TO-PORT\n"), 1;
    destination = argv[2];
    int listener = listen_on_loopback(argv[1]);
    for (;;) { /* into a socket with O_NONBLOCK, fiber_copy moves more than a page at a time */
        int fd = fiber_accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && fiber_spawn(NULL, forward, (void *)(intptr_t)fd) < 0) fiber_close(fd);
        if (fd < 0 && !may_accept_again(fd)) return fprintf(stderr, "forward: %s\n", fiber_strerror(fd)), 1;
    }
}
