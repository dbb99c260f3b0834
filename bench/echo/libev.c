/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libev, by its default backend, which is epoll. */
#define _GNU_SOURCE
#include "echo.h"

#include <errno.h>
#include <ev.h>

static void serve(struct ev_loop *loop, ev_io *watcher, int events) {
    (void)events;
    char buffer[BUFFER_SIZE];
    ssize_t count = recv(watcher->fd, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EAGAIN) {
        return;
    }
    if (count <= 0 || send(watcher->fd, buffer, (size_t)count, MSG_NOSIGNAL) != count) {
        ev_io_stop(loop, watcher);
        close(watcher->fd);
        free(watcher);
    }
}

static void take(struct ev_loop *loop, ev_io *watcher, int events) {
    (void)events;
    int fd = accept4(watcher->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        ev_io *connection = malloc(sizeof *connection);
        ev_io_init(connection, serve, fd, EV_READ);
        ev_io_start(loop, connection);
    }
}

int main(void) {
    struct ev_loop *loop = ev_default_loop(0);
    ev_io listener;
    ev_io_init(&listener, take, listen_on_loopback(SOCK_NONBLOCK), EV_READ);
    ev_io_start(loop, &listener);
    ev_run(loop, 0);
    return 0;
}
