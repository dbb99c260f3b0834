/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bank.c - two tellers pay into one account at the same time. It has a bug, for fiberrt-sim to find.
 *
 *     bank
 *
 * Each teller reads an order from its customer, writes a line to the journal and changes the account. The program exits
 * with 1 if money is missing at the end. Run alone, it never fails. Then run
 *
 *     fiberrt-sim -- bank
 *
 * which finds an order of events that makes it fail, and prints that order (docs/simulation.md).
 */
#define _GNU_SOURCE
#include <fiberrt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int64_t balance; /* of the account, in cents */
static int journal;

struct teller {
    const char *greeting; /* NULL: this one does not greet */
    int desk[2];          /* the teller's end, and the customer's */
};

static void check(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "bank: %s: %s\n", what, fiber_strerror((int)result));
        exit(2);
    }
}

/* The bug is here: while the line is written, this fiber waits and others run. Another fiber may change the balance;
 * this fiber has read the balance before, and overwrites the change. */
static void pay_in(int64_t cents) {
    int64_t before = balance;
    char line[64];
    int length = snprintf(line, sizeof line, "%lld + %lld\n", (long long)before, (long long)cents);
    check(fiber_write(journal, line, (size_t)length), "journal");
    balance = before + cents;
}

static void *serve(void *argument) {
    struct teller *teller = argument;
    if (teller->greeting) {
        check(fiber_send(teller->desk[0], teller->greeting, strlen(teller->greeting), 0), "greeting");
    }
    int64_t cents;
    check(fiber_recv(teller->desk[0], &cents, sizeof cents, 0), "order");
    pay_in(cents);
    return NULL;
}

int main(void) {
    struct teller tellers[2] = {{NULL, {-1, -1}}, {"Good morning!", {-1, -1}}};
    int64_t orders[2] = {100, 250};
    fiber_t fibers[2];

    int ends[2];
    if (pipe(ends) < 0) {
        perror("bank: journal");
        return 2;
    }
    journal = ends[1]; /* the reader is not shown */
    for (int i = 0; i < 2; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, tellers[i].desk) < 0) {
            perror("bank: desk");
            return 2;
        }
        check(fiber_send(tellers[i].desk[1], &orders[i], sizeof orders[i], 0), "customer");
    }
    for (int i = 0; i < 2; i++) {
        check(fiber_spawn(&fibers[i], serve, &tellers[i]), "fiber_spawn");
    }
    for (int i = 0; i < 2; i++) {
        check(fiber_join(fibers[i], NULL), "fiber_join");
    }
    if (balance != orders[0] + orders[1]) {
        fprintf(stderr, "bank: the balance is %lld, and should be %lld\n", (long long)balance,
                (long long)(orders[0] + orders[1]));
        return 1;
    }
    printf("the balance is %lld\n", (long long)balance);
    return 0;
}
