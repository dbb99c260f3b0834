/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that reads and sleeps by fibers on the ev backend, and has its own functions with libev's names (ev_names.sh).
 * With OWN_LIBEV these are a whole libev, whose allocations it counts: the library's copy must not use its allocator. */
#include <fiberrt.h>
#include <poll.h>
#ifdef OWN_LIBEV
#include <ev.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition) ((condition) ? (void)0 : failed(#condition))

static void failed(const char *what) {
    fprintf(stderr, "ev_names: %s\n", what);
    exit(1);
}

static int ends[2];

static void *reader(void *arg) {
    char byte = 0;
    (void)arg;
    CHECK(fiber_read(ends[0], &byte, 1) == 1); /* waits */
    CHECK(byte == 'x');
    CHECK(fiber_poll_fd(ends[0], POLLPRI | POLLOUT) > 0); /* libev has no word for the former */
    return NULL;
}

static void use_the_library(void) {
    fiber_t fiber;
    CHECK(strcmp(fiber_backend_name(), "ev") == 0);
    CHECK(fiber_spawn(&fiber, reader, NULL) == 0);
    CHECK(fiber_sleep(FIBER_MSEC(1)) == 0);
    CHECK(fiber_write(ends[1], "x", 1) == 1);
    CHECK(fiber_join(fiber, NULL) == 0);
}

#ifdef OWN_LIBEV
static int allocations;

static void *count(void *memory, long size) EV_NOEXCEPT {
    allocations++;
    if (size) return realloc(memory, (size_t)size);
    free(memory);
    return NULL;
}

static int fired;

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)events;
    fired++;
    ev_timer_stop(loop, timer);
}
#endif

int main(void) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
#ifdef OWN_LIBEV
    ev_timer timer;
    struct ev_loop *loop;
    ev_set_allocator(count);
    use_the_library();
    CHECK(allocations == 0);
    loop = ev_loop_new(0);
    CHECK(loop && allocations > 0);
    ev_timer_init(&timer, on_timer, 0.001, 0.);
    ev_timer_start(loop, &timer);
    ev_run(loop, 0);
    CHECK(fired == 1);
    ev_loop_destroy(loop);
#endif
    use_the_library();
    puts("ev_names: fine");
    return 0;
}
