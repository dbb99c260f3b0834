/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mailbox.c - a fiber with a mailbox. The keeper of a stock has it to herself, so nothing needs a lock: who wants goods
 * writes to her, and she answers. An interrupt reaches her while she waits for mail, and no letter is lost by that.
 *
 *     mailbox
 *
 * The mailbox is a channel. Each letter names another one, of the sender's, that the answer is to go to.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE FIBER_SEC(1) /* to wait for room in the mailbox, and for an answer */

struct letter {
    int wanted;
    fiber_chan_t answers; /* of int: how many are given */
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
        } /* else: nobody wants the answer any more, and the channel is closed, or gone */
    }
}

/* Writes to the keeper and waits for the answer. Returns how many are given, or -errno. */
static int ask_for(int wanted) {
    struct letter letter = {.wanted = wanted};
    int given = 0;
    int error = fiber_chan_create(&letter.answers, sizeof given, 1); /* has room, so she need not wait for us */
    if (error < 0) {
        return error;
    }
    error = fiber_chan_send_timeout(mailbox, &letter, PATIENCE);
    if (error == 0) {
        error = fiber_chan_recv_timeout(letter.answers, &given, PATIENCE);
    }
    /* After that it is too late for an answer; but one that has come in the last moment counts. */
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
