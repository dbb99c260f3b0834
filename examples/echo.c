/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * echo.c - a TCP server that sends each received byte back, with one fiber per connection, and a client for it.
 *
 *     echo server [port]             serves on 127.0.0.1 until it is killed; without a port the kernel chooses one
 *     echo client host port text     sends text and prints the reply
 *     echo                           both in this process: one server fiber, three client fibers, on loopback
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fiberrt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The server closes a connection after this much silence. */
#define PATIENCE FIBER_SEC(60)

static int complain(const char *what, int64_t error) {
    if (error == -ENOTSUP) {
        fprintf(stderr, "echo: there is no backend for I/O here: see fiber_backend_name in fiberrt.h.\n");
        return 2;
    }
    fprintf(stderr, "echo: %s: %s\n", what, fiber_strerror((int)error));
    return 1;
}

/* Sends all bytes; one send may take fewer than it is given. */
static int64_t send_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        int64_t sent = fiber_send(fd, data, length, 0);
        if (sent < 0) {
            return sent;
        }
        data += sent;
        length -= (size_t)sent;
    }
    return 0;
}

/* ---- server ---------------------------------------------------------------------------------------------------- */

static void *serve_connection(void *arg) {
    int fd = (int)(intptr_t)arg;
    int64_t count;
    do {
        count = -1;
        /* The scope limits every call of one round, the reads and the sends. */
        FIBER_WITH_TIMEOUT(PATIENCE, NULL) {
            char buffer[4096];
            count = fiber_recv(fd, buffer, sizeof buffer, 0);
            if (count > 0 && send_all(fd, buffer, (size_t)count) < 0) {
                count = -1;
            }
        }
    } while (count > 0);
    fiber_close(fd);
    return NULL;
}

static void *accept_connections(void *arg) {
    int listener = (int)(intptr_t)arg;
    for (;;) {
        int fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
            fiber_sleep(FIBER_MSEC(100)); /* until some connection ends */
        } else if (fd < 0 && fd != -ECONNABORTED) {
            return (void *)(intptr_t)fd;
        } else if (fd >= 0 && fiber_spawn(NULL, serve_connection, (void *)(intptr_t)fd) < 0) {
            fiber_close(fd);
        }
    }
}

/* Returns a listening socket on loopback and its port in *port, or -errno. socket, bind and listen never wait, so the
 * plain calls will do. */
static int listen_on_loopback(uint16_t *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t length = sizeof address;
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

static int run_server(uint16_t port) {
    int listener = listen_on_loopback(&port);
    if (listener < 0) {
        return complain("cannot listen", listener);
    }
    printf("listening on 127.0.0.1:%d\n", port);
    fflush(stdout);
    /* The main flow can accept as well as any fiber. */
    return complain("accept", (intptr_t)accept_connections((void *)(intptr_t)listener));
}

/* ---- client ---------------------------------------------------------------------------------------------------- */

/* Connects, sends text, and collects the answer into reply. Returns its length or -errno. */
static int64_t ask(const struct sockaddr *address, socklen_t address_length, const char *text, char *reply,
                   size_t size) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int64_t result = fiber_connect(fd, address, address_length);
    if (result == 0) {
        result = send_all(fd, text, strlen(text));
    }
    size_t received = 0;
    if (result == 0) {
        shutdown(fd, SHUT_WR); /* says that nothing follows, so the server ends its reply */
        do {
            result = fiber_recv(fd, reply + received, size - received, 0);
            received += result > 0 ? (size_t)result : 0;
        } while (result > 0 && received < size);
    }
    fiber_close(fd);
    return result < 0 ? result : (int64_t)received;
}

static int run_client(const char *host, const char *port, const char *text) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    /* getaddrinfo blocks the thread; there is no other fiber here to delay. */
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        fprintf(stderr, "echo: %s: %s\n", host, gai_strerror(error));
        return 1;
    }
    size_t size = strlen(text) + 1;
    char *reply = malloc(size);
    int verdict = 0;
    int64_t length = -ENOMEM;
    if (reply != NULL) {
        FIBER_WITH_TIMEOUT(PATIENCE, &verdict) { length = ask(found->ai_addr, found->ai_addrlen, text, reply, size); }
        if (length >= 0) {
            printf("%.*s\n", (int)length, reply);
        }
    }
    free(reply);
    freeaddrinfo(found);
    return length < 0 ? complain(verdict == -ETIMEDOUT ? "the server is silent" : "no reply", length) : 0;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

struct demo_client {
    uint16_t port;
    const char *text;
    int64_t result; /* 0, or -errno */
};

static void *run_demo_client(void *arg) {
    struct demo_client *client = arg;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(client->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    char reply[64];
    int64_t length = ask((struct sockaddr *)&address, sizeof address, client->text, reply, sizeof reply);
    if (length >= 0) {
        printf("sent \"%s\", received \"%.*s\"\n", client->text, (int)length, reply);
        client->result = 0;
    } else {
        client->result = length;
    }
    return NULL;
}

static int run_demo(void) {
    uint16_t port = 0;
    int listener = listen_on_loopback(&port);
    if (listener < 0) {
        return complain("cannot listen", listener);
    }
    fiber_t server;
    int result = fiber_spawn(&server, accept_connections, (void *)(intptr_t)listener);
    if (result < 0) {
        return complain("no fiber for the server", result);
    }
    struct demo_client clients[] = {{port, "one", 0}, {port, "two", 0}, {port, "three", 0}};
    enum { CLIENTS = sizeof clients / sizeof clients[0] };
    fiber_t fibers[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].result = fiber_spawn(&fibers[i], run_demo_client, &clients[i]);
        if (clients[i].result < 0) {
            return complain("no fiber for a client", clients[i].result);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        result = fiber_join(fibers[i], NULL);
        if (result < 0) {
            return complain("fiber_join", result);
        }
    }

    fiber_cancel(server, NULL); /* its accept returns -ECANCELED */
    void *server_result;
    result = fiber_join(server, &server_result);
    fiber_close(listener);
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].result < 0) {
            return complain(clients[i].text, clients[i].result);
        }
    }
    if (result < 0 || (intptr_t)server_result != -ECANCELED) {
        return complain("the server", result < 0 ? result : (intptr_t)server_result);
    }
    printf("the server was cancelled\n");
    return 0;
}

static int parse_port(const char *text, uint16_t *port) {
    char *end;
    long number = strtol(text, &end, 10);
    *port = (uint16_t)number;
    return end != text && *end == '\0' && number >= 0 && number <= 65535;
}

int main(int argc, char **argv) {
    uint16_t port = 0;
    if (argc == 1) {
        return run_demo();
    }
    if (strcmp(argv[1], "server") == 0 && (argc == 2 || (argc == 3 && parse_port(argv[2], &port)))) {
        return run_server(port);
    }
    if (strcmp(argv[1], "client") == 0 && argc == 5) {
        return run_client(argv[2], argv[3], argv[4]);
    }
    fprintf(stderr, "usage: echo [server [port] | client host port text]\n");
    return 1;
}
