/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * first_address.c - the first success wins: the program connects to several servers, each a moment after the one
 * before, and keeps the connection that is made first. The attempts are children of a scope with FIBER_SCOPE_FIRST: the
 * first success cancels the others. (fiber_dial itself does so with the addresses of one name.)
 *
 *     first_address HOST:PORT...
 */
#include <fiberrt.h>
#include <stdio.h>
#include <sys/socket.h>

#define MOST 16

struct attempt {
    const char *address;
    int64_t delay;
};

static int connected = -1;
static const char *winner;

static int64_t try_one(void *arg) {
    const struct attempt *attempt = arg;
    int64_t error = fiber_sleep(attempt->delay);
    if (error < 0) return error;
    int fd = fiber_dial(attempt->address, SOCK_CLOEXEC);
    if (fd < 0) return fd;
    if (connected >= 0) return fiber_close(fd); /* another succeeded in the same moment */
    connected = fd;
    winner = attempt->address;
    return 0;
}

/* Returns a descriptor, or the error of the attempt that failed first, or -ETIMEDOUT. */
static int64_t connect_to_first(char **addresses, int count) {
    struct attempt attempts[MOST];
    fiber_scope_t scope;
    int64_t failure = 0, error = fiber_scope_open(&scope, FIBER_SEC(10), FIBER_SCOPE_FIRST);
    if (error < 0) return error;
    for (int i = 0; i < count && error == 0; i++) {
        attempts[i] = (struct attempt){addresses[i], i * FIBER_MSEC(250)};
        error = fiber_scope_spawn(scope, NULL, try_one, &attempts[i]);
    }
    int verdict = fiber_scope_close(scope, &failure); /* from here on no child uses attempts */
    if (connected >= 0) return connected;
    return error < 0 ? error : verdict < 0 ? verdict : failure;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > MOST + 1) return fprintf(stderr, "usage: first_address HOST:PORT... (at most 16)\n"), 1;
    int64_t fd = connect_to_first(argv + 1, argc - 1);
    if (fd < 0) return fprintf(stderr, "first_address: %s\n", fiber_strerror((int)fd)), 1;
    printf("connected to %s\n", winner);
    fiber_close((int)fd);
    return 0;
}
