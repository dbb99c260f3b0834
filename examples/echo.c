/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * echo.c - a TCP server that sends each received byte back, with a fiber for each connection.
 *
 *     echo PORT
 */
#define _GNU_SOURCE
#include "listen.h"

#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <sys/socket.h>

static void *serve(void *arg) {
    int fd = (int)(intptr_t)arg;
    int64_t count;
    do {
        count = -ETIMEDOUT;
        FIBER_WITH_TIMEOUT(FIBER_SEC(60), NULL) { /* of silence, or of a client that does not read its answer */
            char bytes[4096];
            count = fiber_recv(fd, bytes, sizeof bytes, 0);
            if (count > 0) count = send_all(fd, bytes, count);
        }
    } while (count > 0);
    fiber_close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: echo PORT\n"), 1;
    int listener = listen_on_loopback(argv[1]);
    for (;;) { /* the main flow is a fiber like the others */
        int fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fiber_spawn(NULL, serve, (void *)(intptr_t)fd) < 0) fiber_close(fd);
        if (fd < 0 && !may_accept_again(fd)) return fprintf(stderr, "echo: %s\n", fiber_strerror(fd)), 1;
    }
}
