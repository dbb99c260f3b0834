/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * graceful.c - a server that ends gracefully: at SIGTERM or SIGINT, or if it can accept no more connections, it gives
 * the open ones, which are children of a scope, some time to finish, and then cancels the rest. (graceful PORT GRACE-MS)
 */
#define _GNU_SOURCE
#include "listen.h"

#include <fiberrt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int listener, ending, failure;
static fiber_scope_t scope; /* of the connections */
static fiber_attr_t *attr;  /* of a connection's fiber */

static void close_unserved(void *arg) { close((int)(intptr_t)arg); }

static int64_t serve(void *arg) { /* sends back what it receives, until the client or the server ends */
    int fd = (int)(intptr_t)arg;
    char bytes[512];
    for (int64_t count; (count = fiber_recv(fd, bytes, sizeof bytes, 0)) > 0;) {
        if (send_all(fd, bytes, count) < 0 || ending) break;
    }
    return fiber_close(fd); /* works in a cancelled fiber too */
}

static void *accept_connections(void *unused) {
    int fd;
    while ((fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || may_accept_again(fd)) {
        if (fd >= 0 && fiber_scope_spawn_attr(scope, NULL, attr, serve, (void *)(intptr_t)fd) < 0) fiber_close(fd);
    }
    if (!ending) failure = fd, kill(getpid(), SIGTERM);
    return unused;
}

int main(int argc, char **argv) {
    sigset_t signals;
    fiber_t acceptor;
    if (argc != 3 || atoi(argv[2]) < 0) return fprintf(stderr, "usage: graceful PORT GRACE-MS\n"), 1;
    sigemptyset(&signals), sigaddset(&signals, SIGTERM), sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* they stay pending until a fiber waits for them */
    listener = listen_on_loopback(argv[1]);
    int error = fiber_attr_create(&attr);
    if (error == 0) error = fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT);
    fiber_attr_set_detached(attr, 1);              /* the scope keeps no record of a fiber that has ended */
    fiber_attr_set_free_arg(attr, close_unserved); /* of a fiber that is cancelled before it runs */
    if (error == 0) error = fiber_spawn(&acceptor, accept_connections, NULL);
    if (error == 0) error = fiber_sigwait(&signals, NULL);
    if (error < 0) return fprintf(stderr, "graceful: %s\n", fiber_strerror(error)), 1;
    ending = 1;
    fiber_cancel(acceptor, NULL);
    if (fiber_join(acceptor, NULL) == 0) fiber_close(listener);
    fiber_scope_set_timeout(scope, FIBER_MSEC(atoi(argv[2])));
    printf(fiber_scope_close(scope, NULL) == 0 ? "all served\n" : "the rest was cut off\n");
    if (failure < 0) fprintf(stderr, "graceful: %s\n", fiber_strerror(failure));
    return failure < 0;
}
