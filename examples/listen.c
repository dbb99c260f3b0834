/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* listen.c - common code of servers: a listening socket, the errors of accept(2), a send of all bytes. */
#define _GNU_SOURCE
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* socket, bind and listen never wait, so a fiber makes the plain calls. */
int listen_on_loopback(const char *port) {
    char *end;
    long number = strtol(port, &end, 10);
    if (*port == '\0' || *end != '\0' || number < 0 || number > 65535) {
        fprintf(stderr, "cannot listen: %s is no port\n", port);
        exit(1);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number)};
    socklen_t length = sizeof address;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
        perror("cannot listen");
        exit(1);
    }
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int may_accept_again(int error) {
    static const int of_one_client[] = {ECONNABORTED, EPROTO,       ENETDOWN, ENETUNREACH,
                                        EHOSTDOWN,    EHOSTUNREACH, ENONET,   ENOPROTOOPT};
    for (size_t i = 0; i < sizeof of_one_client / sizeof *of_one_client; i++) {
        if (error == -of_one_client[i]) return fiber_reschedule() == 0;
    }
    int too_few = error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
    return too_few && fiber_sleep(FIBER_MSEC(100)) == 0; /* until a connection ends */
}

int64_t send_all(int fd, const char *bytes, int64_t count) {
    for (int64_t sent = 0, more; sent < count; sent += more) { /* a call may take fewer bytes than it is given */
        more = fiber_send(fd, bytes + sent, (size_t)(count - sent), 0);
        if (more < 0) return more;
    }
    return count;
}
