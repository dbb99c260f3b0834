/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * first_address.c - connects to the first of several addresses that answers, as for a server whose name has several
 * addresses, some of them dead.
 *
 *     first_address address:port...       each a numeric IPv4 address
 *
 * If the first attempt has not succeeded after a quarter of a second, the second begins, and so on. All attempts are
 * children of one scope; the first success cancels the others. A deadline limits the whole. (fiber_dial does this for
 * the addresses of a name; this program shows how.)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fiberrt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAGGER FIBER_MSEC(250)
#define PATIENCE FIBER_SEC(10)
#define MOST 16

struct attempt {
    struct sockaddr_in address;
    int64_t delay;
    int *connected; /* -1 until an attempt succeeds */
};

static int64_t try_one(void *arg) {
    const struct attempt *attempt = arg;
    int64_t error = fiber_sleep(attempt->delay);
    if (error < 0) {
        return error;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    error = fiber_connect(fd, (const struct sockaddr *)&attempt->address, sizeof attempt->address);
    /* Another attempt may have succeeded too, before it was cancelled: a completed operation stays completed. */
    if (error == 0 && *attempt->connected < 0) {
        *attempt->connected = fd;
        return 0;
    }
    fiber_close(fd);
    return error;
}

/* Returns a connected socket, or -errno: -ETIMEDOUT, or the error of the attempt that failed first. */
static int64_t connect_to_first(struct attempt *attempts, int count) {
    fiber_scope_t scope;
    int connected = -1;
    int64_t failure = 0;
    int error = fiber_scope_open(&scope, PATIENCE, FIBER_SCOPE_FIRST);
    if (error < 0) {
        return error;
    }
    for (int i = 0; i < count && error == 0; i++) {
        attempts[i].delay = i * STAGGER;
        attempts[i].connected = &connected;
        error = fiber_scope_spawn(scope, NULL, try_one, &attempts[i]);
    }
    int verdict = fiber_scope_close(scope, &failure); /* after this no fiber uses attempts */
    if (connected >= 0) {
        return connected;
    }
    return error < 0 ? error : verdict < 0 ? verdict : failure;
}

static int parse_address(char *text, struct sockaddr_in *address) {
    char *colon = strrchr(text, ':');
    char *end;
    if (colon == NULL) {
        return 0;
    }
    long port = strtol(colon + 1, &end, 10);
    *colon = '\0';
    int good = inet_pton(AF_INET, text, &address->sin_addr) == 1 && *end == '\0' && end != colon + 1 && port > 0 &&
               port <= 65535;
    *colon = ':';
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    return good;
}

int main(int argc, char **argv) {
    struct attempt attempts[MOST];
    memset(attempts, 0, sizeof attempts);
    int count = argc - 1;
    int good = count >= 1 && count <= MOST;
    for (int i = 0; good && i < count; i++) {
        good = parse_address(argv[i + 1], &attempts[i].address);
    }
    if (!good) {
        fprintf(stderr, "usage: first_address address:port... (at most %d)\n", MOST);
        return 1;
    }
    int64_t fd = connect_to_first(attempts, count);
    if (fd < 0) {
        fprintf(stderr, "first_address: %s\n", fiber_strerror((int)fd));
        return fd == -ENOTSUP ? 2 : 1;
    }
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    char text[INET_ADDRSTRLEN] = "?";
    if (getpeername((int)fd, (struct sockaddr *)&peer, &length) == 0) {
        inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text);
        printf("connected to %s:%d\n", text, ntohs(peer.sin_port));
    }
    fiber_close((int)fd);
    return 0;
}
