/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * select.c - one fiber waits for several things at once: a job from a channel, an event that ends it, or neither in
 * time. fiber_select performs exactly one case, so no job is lost.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

static fiber_chan_t jobs;
static fiber_event_t stop = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "select: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static void *serve(void *unused) {
    for (;;) {
        int job;
        fiber_case_t cases[] = {{.kind = FIBER_CASE_RECV, .chan = jobs, .item = &job},
                                {.kind = FIBER_CASE_EVENT, .object = &stop}};
        int chosen = fiber_select(cases, 2, FIBER_MSEC(20));
        if (chosen == -ETIMEDOUT) {
            printf("idle\n");
            continue;
        }
        check(chosen, "fiber_select");
        if (chosen == 0 && cases[0].result == 0) {
            printf("job %d\n", job);
        } else {
            printf(chosen == 1 ? "stopped\n" : "the channel is closed\n");
            return unused;
        }
    }
}

int main(void) {
    fiber_t server;
    check(fiber_chan_create(&jobs, sizeof(int), 0), "fiber_chan_create");
    check(fiber_spawn(&server, serve, NULL), "fiber_spawn");
    for (int job = 1; job <= 3; job++) check(fiber_chan_send(jobs, &job), "fiber_chan_send");
    check(fiber_sleep(FIBER_MSEC(50)), "fiber_sleep");
    check(fiber_event_set(&stop), "fiber_event_set");
    check(fiber_join(server, NULL), "fiber_join");
    check(fiber_chan_destroy(jobs), "fiber_chan_destroy");
    return 0;
}
