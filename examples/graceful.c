/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * graceful.c - a server that ends gracefully: at SIGTERM or SIGINT it accepts no more connections, gives the open ones
 * some time to finish, and then cancels the rest. The connections are children of a scope. (graceful PORT GRACE-MS)
 */
#define _GNU_SOURCE
#include "listen.h"

#include <errno.h>
#include <fiberrt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int listener, ending;
static fiber_scope_t connections;
static fiber_attr_t *attributes; /* of a connection's fiber */

static void close_unserved(void *arg) { close((int)(intptr_t)arg); }

static int64_t serve(void *arg) { /* sends back what it receives, until the client or the server ends */
    int fd = (int)(intptr_t)arg;
    char bytes[512];
    for (int64_t count; (count = fiber_recv(fd, bytes, sizeof bytes, 0)) > 0;) {
        if (fiber_send(fd, bytes, (size_t)count, 0) != count || ending) break;
    }
    return fiber_close(fd); /* works in a cancelled fiber too */
}

static void *accept_connections(void *unused) {
    for (int fd; (fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC)) != -ECANCELED;) {
        void *arg = (void *)(intptr_t)fd;
        if (fd < 0) fiber_sleep(FIBER_MSEC(100)); /* no free descriptor, or the client is gone: try again */
        if (fd >= 0 && fiber_scope_spawn_attr(connections, NULL, attributes, serve, arg) < 0) fiber_close(fd);
    }
    return unused;
}

int main(int argc, char **argv) {
    sigset_t signals;
    fiber_t acceptor;
    if (argc != 3) return fprintf(stderr, "usage: graceful PORT GRACE-MS\n"), 1;
    sigemptyset(&signals), sigaddset(&signals, SIGTERM), sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* they stay pending until a fiber waits for them */
    listener = listen_on_loopback(argv[1]);
    if (fiber_attr_create(&attributes) < 0 || fiber_scope_open(&connections, FIBER_FOREVER, FIBER_SCOPE_COLLECT) < 0)
        return 1;
    fiber_attr_set_detached(attributes, 1);              /* the scope keeps no record of a fiber that has ended */
    fiber_attr_set_free_arg(attributes, close_unserved); /* of a fiber that is cancelled before it runs */
    int error = fiber_spawn(&acceptor, accept_connections, NULL);
    if (error == 0) error = fiber_sigwait(&signals, NULL);
    if (error < 0) return fprintf(stderr, "graceful: %s\n", fiber_strerror(error)), 1;
    ending = 1;
    fiber_cancel(acceptor, NULL);
    if (fiber_join(acceptor, NULL) == 0) fiber_close(listener);
    fiber_scope_set_timeout(connections, FIBER_MSEC(atoi(argv[2])));
    printf(fiber_scope_close(connections, NULL) == 0 ? "all served\n" : "the rest was cut off\n");
    return 0;
}
