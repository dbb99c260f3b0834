/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cords.c - several threads with fibers: each cord runs its own fibers, and a fiber never changes its thread. A channel
 * connects the cords; fiber_post starts a fiber on another one.
 */
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

static fiber_chan_t answers;
static fiber_event_t stop = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "cords: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static void *answer(void *question) { /* runs on the cord that it is posted to */
    int answer = *(int *)question * 2;
    check(fiber_chan_send(answers, &answer), "fiber_chan_send");
    return NULL;
}

static void *run_cord(void *unused) { /* the main flow of a cord: the posted fibers run while it waits */
    check(fiber_event_wait(&stop), "fiber_event_wait");
    return unused;
}

int main(void) {
    fiber_cord_t cords[2];
    int questions[] = {1, 2, 3, 4}, number, sum = 0;
    check(fiber_chan_create(&answers, sizeof number, 4), "fiber_chan_create");
    for (int i = 0; i < 2; i++) check(fiber_cord_start(&cords[i], NULL, run_cord, NULL), "fiber_cord_start");
    for (int i = 0; i < 4; i++) check(fiber_post(cords[i % 2], answer, &questions[i]), "fiber_post");
    for (int i = 0; i < 4; i++) {
        check(fiber_chan_recv(answers, &number), "fiber_chan_recv");
        sum += number;
    }
    check(fiber_event_set(&stop), "fiber_event_set"); /* for both, as it is a manual event */
    for (int i = 0; i < 2; i++) check(fiber_cord_join(cords[i], NULL), "fiber_cord_join");
    check(fiber_chan_destroy(answers), "fiber_chan_destroy");
    printf("the sum is %d\n", sum);
    return 0;
}
