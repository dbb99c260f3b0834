/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mailbox.c - a fiber with a mailbox. Only the keeper touches the stock, so it needs no lock: buyers send it letters,
 * and each letter names the channel for the answer. An interrupt asks the keeper a question; no letter is lost by it.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

struct letter {
    int wanted;
    fiber_chan_t answers; /* of int: the number of goods given */
};

static fiber_chan_t mailbox;

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "mailbox: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static void *keep(void *unused) {
    int stock = 10, error;
    struct letter letter;
    void *question;
    while ((error = fiber_chan_recv(mailbox, &letter)) == 0 || error == -EINTR) {
        if (error == -EINTR && fiber_interrupted(&question) == 1) printf("%s %d\n", (char *)question, stock);
        if (error == -EINTR) continue;
        int given = letter.wanted < stock ? letter.wanted : stock;
        if (fiber_chan_try_send(letter.answers, &given) == 0) stock -= given; /* never waits for a buyer */
    }
    return unused; /* the mailbox is closed and empty */
}

static void *buy(void *wanted) {
    struct letter letter = {.wanted = *(int *)wanted};
    int given;
    check(fiber_chan_create(&letter.answers, sizeof given, 1), "fiber_chan_create"); /* with room for the answer */
    check(fiber_chan_send(mailbox, &letter), "fiber_chan_send");
    check(fiber_chan_recv(letter.answers, &given), "fiber_chan_recv");
    check(fiber_chan_destroy(letter.answers), "fiber_chan_destroy");
    printf("wanted %d, got %d\n", letter.wanted, given);
    return NULL;
}

int main(void) {
    int wanted[] = {4, 5, 3};
    fiber_t keeper, buyers[3];
    check(fiber_chan_create(&mailbox, sizeof(struct letter), 2), "fiber_chan_create");
    check(fiber_spawn(&keeper, keep, NULL), "fiber_spawn");
    for (int i = 0; i < 3; i++) check(fiber_spawn(&buyers[i], buy, &wanted[i]), "fiber_spawn");
    for (int i = 0; i < 3; i++) check(fiber_join(buyers[i], NULL), "fiber_join");
    check(fiber_interrupt(keeper, "keeper: what is left is"), "fiber_interrupt");
    check(fiber_chan_close(mailbox), "fiber_chan_close");
    check(fiber_join(keeper, NULL), "fiber_join");
    return 0;
}
