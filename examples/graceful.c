/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * graceful.c - a server that ends gracefully: at SIGTERM or SIGINT it accepts no more connections, gives the open ones
 * some time to finish, and then cancels the rest.
 *
 *     graceful [--grace-ms N]         serves on a port of 127.0.0.1 that the kernel chooses
 *
 * The server sends each line back in capital letters. It has two scopes: `served` holds the connections, and
 * `accepting`, inside it, the fiber that accepts them. To end, the program cancels the inner scope, gives the outer one
 * a deadline, and closes it. Connections that are still in the list then were cancelled before they ran.
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
#include <unistd.h>

struct connection {
    struct server *server;
    struct connection *next, **link; /* in the server's list; link: the pointer to this connection */
    int fd;
};

struct server {
    int listener;
    fiber_scope_t served, accepting;
    fiber_attr_t *detached; /* attributes of connections: fiber_scope_next need not report their ends */
    struct connection *first;
    int open, ended; /* connections */
    int ending;
};

static int complain(const char *what, int64_t error) {
    if (error == -ENOTSUP) {
        fprintf(stderr, "graceful: there is no backend for I/O here: see fiber_backend_name in fiberrt.h.\n");
        return 2;
    }
    fprintf(stderr, "graceful: %s: %s\n", what, fiber_strerror((int)error));
    return 1;
}

static struct connection *connection_new(struct server *server, int fd) {
    struct connection *connection = malloc(sizeof *connection);
    if (connection == NULL) {
        return NULL;
    }
    *connection = (struct connection){.server = server, .next = server->first, .link = &server->first, .fd = fd};
    if (connection->next != NULL) {
        connection->next->link = &connection->next;
    }
    server->first = connection;
    server->open++;
    return connection;
}

static void connection_end(struct connection *connection) {
    fiber_close(connection->fd); /* works in a cancelled fiber too */
    *connection->link = connection->next;
    if (connection->next != NULL) {
        connection->next->link = connection->link;
    }
    connection->server->open--;
    free(connection);
}

/* Answers lines until the client sends no more, or, when the server ends, up to the last whole line received. */
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
    int64_t result = answer(connection);
    connection->server->ended += result >= 0;
    connection_end(connection);
    return result;
}

static int out_of_something(int error) {
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

/* Whether an error of accept(2) is about one connection, or about the network at this moment: the next may succeed. */
static int of_one_connection(int error) {
    static const int errors[] = {ECONNABORTED, ENETDOWN,     EPROTO,     ENOPROTOOPT, EHOSTDOWN,
                                 ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (error == -errors[i]) {
            return 1;
        }
    }
    return 0;
}

/* Returns the error that ends accepting. Its scope ends with it, so the server does not go on without accepting. */
static int64_t accept_connections(void *arg) {
    struct server *server = arg;
    for (;;) {
        int fd = fiber_accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && out_of_something(fd)) {
            fiber_sleep(FIBER_MSEC(100)); /* until a connection ends */
        } else if (fd < 0 && of_one_connection(fd)) {
            fiber_reschedule();
        } else if (fd < 0) {
            fiber_scope_cancel(server->accepting, NULL);
            return fd;
        } else {
            struct connection *connection = connection_new(server, fd);
            if (connection == NULL) {
                fiber_close(fd);
            } else if (fiber_scope_spawn_attr(server->served, NULL, server->detached, serve, connection) < 0) {
                connection_end(connection);
            }
        }
    }
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

/* Waits for a signal. Returns 0 after one, or the error that ended it. */
static int64_t run(struct server *server, const sigset_t *signals, int64_t grace) {
    int64_t failure = 0;
    int64_t error = fiber_scope_open(&server->served, FIBER_FOREVER, FIBER_SCOPE_COLLECT);
    if (error == 0) {
        error = fiber_scope_open(&server->accepting, FIBER_FOREVER, 0);
    }
    if (error == 0) {
        error = fiber_scope_spawn(server->accepting, NULL, accept_connections, server);
    }
    if (error < 0) {
        return error;
    }
    error = fiber_sigwait(signals, NULL);

    server->ending = 1;
    fiber_scope_cancel(server->accepting, NULL);
    fiber_scope_close(server->accepting, &failure);
    fiber_close(server->listener);
    printf("ending, with %d open\n", server->open);
    fflush(stdout);
    fiber_scope_set_timeout(server->served, grace);
    int verdict = fiber_scope_close(server->served, NULL);
    while (server->first != NULL) {
        connection_end(server->first);
    }
    printf("%d served, %s\n", server->ended, verdict == -ETIMEDOUT ? "the rest cut off" : "none cut off");
    return failure < 0 ? failure : error < 0 ? error : 0;
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
    sigset_t signals; /* that end the server; they are blocked, and a fiber waits for them */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    server.listener = listen_on_loopback(&port);
    if (server.listener < 0) {
        return complain("cannot listen", server.listener);
    }
    if (fiber_attr_create(&server.detached) < 0) {
        return complain("attributes", -ENOMEM);
    }
    fiber_attr_set_detached(server.detached, 1);
    printf("listening on 127.0.0.1:%d\n", port);
    fflush(stdout);
    int64_t error = run(&server, &signals, grace);
    fiber_attr_destroy(server.detached);
    return error < 0 ? complain("the server has ended", error) : 0;
}
