/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * graceful.c - a server that ends well: at SIGTERM or SIGINT it accepts nobody any more, lets who is being served
 * finish within a grace, and then cancels the rest.
 *
 *     graceful [--grace-ms N]         serves on a port of 127.0.0.1 that the kernel chooses
 *
 * Each line that a client sends comes back in capital letters. Two scopes do it: in `served` are the connections, in
 * `accepting`, which is inside, the fiber that accepts them. The end is: cancel the inner, give the outer a deadline,
 * close it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fiberrt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct server {
    int listener;
    fiber_scope_t served;
    fiber_attr_t *detached; /* nobody asks fiber_scope_next for a connection */
    int open, ended;        /* connections */
    int ending;
};

struct connection {
    struct server *server;
    int fd;
};

static int complain(const char *what, int64_t error) {
    if (error == -ENOTSUP) {
        fprintf(stderr, "graceful: there is no backend for I/O here: see fiber_backend_name in fiberrt.h.\n");
        return 2;
    }
    fprintf(stderr, "graceful: %s: %s\n", what, fiber_strerror((int)error));
    return 1;
}

/* Answers lines until the client has no more, or, when the server ends, until the last whole line that has come. */
static int64_t answer(const struct connection *connection) {
    char line[4096];
    for (size_t length = 0; length < sizeof line;) {
        int64_t count = fiber_recv(connection->fd, line + length, sizeof line - length, 0);
        if (count <= 0) {
            return count;
        }
        for (int64_t i = 0; i < count; i++, length++) {
            line[length] = (char)toupper((unsigned char)line[length]);
        }
        if (line[length - 1] != '\n') {
            continue;
        }
        for (size_t sent = 0; sent < length;) {
            count = fiber_send(connection->fd, line + sent, length - sent, 0);
            if (count < 0) {
                return count;
            }
            sent += (size_t)count;
        }
        length = 0;
        if (connection->server->ending) {
            return 0;
        }
    }
    return -EMSGSIZE;
}

static int64_t serve(void *arg) {
    struct connection *connection = arg;
    struct server *server = connection->server;
    server->open++;
    int64_t result = answer(connection);
    fiber_close(connection->fd); /* works also when cancelled */
    server->open--;
    server->ended += result >= 0;
    free(connection);
    return result;
}

static int64_t accept_connections(void *arg) {
    struct server *server = arg;
    for (;;) {
        int fd = fiber_accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd == -ECONNABORTED) {
            continue;
        }
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
            fiber_sleep(FIBER_MSEC(100)); /* until some connection ends */
            continue;
        }
        if (fd < 0) {
            return fd;
        }
        struct connection *connection = malloc(sizeof *connection);
        if (connection != NULL) {
            *connection = (struct connection){server, fd};
        }
        if (connection == NULL ||
            fiber_scope_spawn_attr(server->served, NULL, server->detached, serve, connection) < 0) {
            free(connection);
            fiber_close(fd);
        }
    }
}

/* Returns a descriptor that is readable when the program shall end, or -errno. The signals are blocked for that. */
static int signals_to_end(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int fd = signalfd(-1, &signals, SFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int listen_on_loopback(uint16_t *port) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

static int run(struct server *server, int signals, int64_t grace) {
    fiber_scope_t accepting;
    struct signalfd_siginfo which;
    int error = fiber_scope_open(&server->served, FIBER_FOREVER, FIBER_SCOPE_COLLECT);
    if (error == 0) {
        error = fiber_scope_open(&accepting, FIBER_FOREVER, 0);
    }
    if (error == 0) {
        error = fiber_scope_spawn(accepting, NULL, accept_connections, server);
    }
    if (error < 0) {
        return complain("cannot begin", error);
    }
    int64_t count = fiber_read(signals, &which, sizeof which);

    server->ending = 1;
    fiber_scope_cancel(accepting, NULL);
    fiber_scope_close(accepting, NULL);
    fiber_close(server->listener);
    printf("ending, with %d open\n", server->open);
    fflush(stdout);
    fiber_scope_set_timeout(server->served, count < 0 ? 0 : grace);
    int verdict = fiber_scope_close(server->served, NULL);
    printf("%d served, %s\n", server->ended, verdict == -ETIMEDOUT ? "the rest cut off" : "none cut off");
    return count < 0 ? complain("the signals", count) : 0;
}

static int parse_ms(const char *text, int64_t *ns) {
    char *end;
    long number = strtol(text, &end, 10);
    *ns = FIBER_MSEC(number);
    return end != text && *end == '\0' && number >= 0 && number <= 3600000;
}

int main(int argc, char **argv) {
    struct server server = {.listener = -1};
    int64_t grace = FIBER_SEC(10);
    if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--grace-ms") == 0 && parse_ms(argv[2], &grace))) {
        fprintf(stderr, "usage: graceful [--grace-ms N]\n");
        return 1;
    }
    uint16_t port = 0;
    int signals = signals_to_end();
    server.listener = listen_on_loopback(&port);
    if (signals < 0 || server.listener < 0) {
        return complain("cannot listen", signals < 0 ? signals : server.listener);
    }
    if (fiber_attr_create(&server.detached) < 0) {
        return complain("attributes", -ENOMEM);
    }
    fiber_attr_set_detached(server.detached, 1);
    printf("listening on 127.0.0.1:%d\n", port);
    fflush(stdout);
    int status = run(&server, signals, grace);
    fiber_attr_destroy(server.detached);
    close(signals);
    return status;
}
