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

static int64_t send_all(int fd, const char *bytes, int64_t count) {
    for (int64_t sent = 0, more; sent < count; sent += more) { /* a call may take fewer bytes than it is given */
        more = fiber_send(fd, bytes + sent, (size_t)(count - sent), 0);
        if (more < 0) return more;
    }
    return count;
}

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
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
            fiber_sleep(FIBER_MSEC(100)); /* until a connection ends */
        } else if (fd < 0 && fd != -ECONNABORTED) {
            return fprintf(stderr, "echo: %s\n", fiber_strerror(fd)), 1;
        } else if (fd >= 0 && fiber_spawn(NULL, serve, (void *)(intptr_t)fd) < 0) {
            fiber_close(fd);
        }
    }
}
