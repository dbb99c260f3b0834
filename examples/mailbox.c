/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mailbox.c - a fiber with a mailbox. Only the keeper touches the stock, so it needs no lock: customers send letters to
 * the keeper, and the keeper answers. An interrupt reaches the keeper while it waits for mail, without losing a letter.
 *
 *     mailbox
 *
 * The mailbox is a channel. Each letter names another channel, which the sender made for the answer.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE FIBER_SEC(1) /* the limit for sending a letter, and for the answer */

struct letter {
    int wanted;
    fiber_chan_t answers; /* of int: the number of goods given */
};

static fiber_chan_t mailbox;

static void check(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "mailbox: %s: %s\n", what, fiber_strerror((int)result));
        exit(1);
    }
}

/* Answers letters until the mailbox is closed and empty. Returns 0 or -errno. */
static void *keep(void *unused) {
    (void)unused;
    int stock = 10;
    for (;;) {
        struct letter letter;
        int error = fiber_chan_recv(mailbox, &letter);
        if (error == -EINTR) {
            void *question;
            fiber_interrupted(&question);
            printf("keeper: %s %d\n", (const char *)question, stock);
            continue;
        }
        if (error < 0) {
            return (void *)(intptr_t)(error == -EPIPE ? 0 : error);
        }
        int given = letter.wanted < stock ? letter.wanted : stock;
        if (fiber_chan_try_send(letter.answers, &given) == 0) {
            stock -= given;
        } /* else: the sender no longer waits for the answer, and the channel is closed, or gone */
    }
}

/* Sends a letter to the keeper and waits for the answer. Returns the number of goods given, or -errno. */
static int ask_for(int wanted) {
    struct letter letter = {.wanted = wanted};
    int given = 0;
    int error = fiber_chan_create(&letter.answers, sizeof given, 1); /* has room, so the keeper need not wait */
    if (error < 0) {
        return error;
    }
    error = fiber_chan_send_timeout(mailbox, &letter, PATIENCE);
    if (error == 0) {
        error = fiber_chan_recv_timeout(letter.answers, &given, PATIENCE);
    }
    /* No answer can arrive after the close, but one that arrived just before counts. */
    fiber_chan_close(letter.answers);
    if (error < 0 && fiber_chan_try_recv(letter.answers, &given) == 0) {
        error = 0;
    }
    fiber_chan_destroy(letter.answers);
    return error < 0 ? error : given;
}

static void *buy(void *wanted) {
    int given = ask_for(*(int *)wanted);
    check(given, "no answer");
    printf("wanted %d, got %d\n", *(int *)wanted, given);
    return NULL;
}

int main(void) {
    int wanted[] = {4, 5, 3};
    fiber_t keeper, buyers[3];
    check(fiber_chan_create(&mailbox, sizeof(struct letter), 2), "mailbox");
    check(fiber_spawn(&keeper, keep, NULL), "keeper");
    for (int i = 0; i < 3; i++) {
        check(fiber_spawn(&buyers[i], buy, &wanted[i]), "buyer");
    }
    for (int i = 0; i < 3; i++) {
        check(fiber_join(buyers[i], NULL), "buyer");
    }
    check(fiber_interrupt(keeper, "what is left is"), "keeper");
    check(fiber_chan_close(mailbox), "mailbox");
    void *reason;
    check(fiber_join(keeper, &reason), "keeper");
    check((intptr_t)reason, "keeper");
    check(fiber_chan_destroy(mailbox), "mailbox");
    return 0;
}
