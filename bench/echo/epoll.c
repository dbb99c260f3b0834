/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The yardstick: a plain loop around epoll, level-triggered. A request takes one recv, one send, and a share of an
 * epoll_wait. */
#define _GNU_SOURCE
#include "echo.h"

#include <errno.h>
#include <sys/epoll.h>

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        die("epoll_ctl");
    }
}

static void serve(int fd) {
    char buffer[BUFFER_SIZE];
    ssize_t count = recv(fd, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EAGAIN) {
        return;
    }
    if (count <= 0 || send(fd, buffer, (size_t)count, MSG_NOSIGNAL) != count) {
        close(fd);
    }
}

int main(void) {
    int listener = listen_on_loopback(SOCK_NONBLOCK);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, listener);
    for (;;) {
        struct epoll_event events[256];
        int count = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != listener) {
                serve(events[i].data.fd);
                continue;
            }
            int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd >= 0) {
                watch(epoll, fd);
            }
        }
    }
}
