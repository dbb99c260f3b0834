/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Helpers for the echo servers. A server listens on a loopback port that the kernel chooses, prints it, and serves
 * until it is killed. It sends the bytes of each receive, at most BUFFER_SIZE, back at once. A send that would not take
 * all of them ends the connection; requests of 64 bytes never cause that.
 */
#ifndef FIBERRT_BENCH_ECHO_H
#define FIBERRT_BENCH_ECHO_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_SIZE = 4096, MAX_DESCRIPTORS = 4096 };

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

/* Returns the listening socket. flags: SOCK_NONBLOCK or 0. */
static inline int listen_on_loopback(int flags) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
        die("listen");
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

#endif
