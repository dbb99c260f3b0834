/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bank.c - what goes wrong without a lock, and how fiberrt-sim finds it. Two tellers each read an order, write a line
 * to the journal and change the account. Run alone, the program never fails. Then run `fiberrt-sim -- bank`: it finds
 * an order of events in which money is lost, and prints it (docs/simulation.md). mutex.c has the repair.
 */
#define _GNU_SOURCE
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static long balance, orders[2] = {100, 250};
static int journal[2];
static const char *greetings[2] = {"", "Good morning!"};

static int64_t check(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "bank: %s: %s\n", what, fiber_strerror((int)result));
        exit(2);
    }
    return result;
}

/* The bug is here: the write waits, and the other teller changes the balance meanwhile. This fiber overwrites that. */
static void pay_in(long cents) {
    long before = balance;
    char line[64];
    int length = snprintf(line, sizeof line, "%ld + %ld\n", before, cents);
    check(fiber_write(journal[1], line, (size_t)length), "journal");
    balance = before + cents;
}

static void *serve(void *number) {
    int teller = (int)(intptr_t)number, desk[2];
    long order;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, desk) < 0) perror("bank: desk"), exit(2);
    check(fiber_send(desk[1], &orders[teller], sizeof order, 0), "customer");
    if (*greetings[teller]) check(fiber_send(desk[0], greetings[teller], strlen(greetings[teller]), 0), "greeting");
    int64_t length = check(fiber_recv(desk[0], &order, sizeof order, 0), "order");
    if (length != sizeof order) fprintf(stderr, "bank: a part of an order\n"), exit(2);
    pay_in(order);
    return NULL;
}

int main(void) {
    fiber_t tellers[2];
    if (pipe(journal) < 0) return perror("bank: journal"), 2;
    for (intptr_t i = 0; i < 2; i++) check(fiber_spawn(&tellers[i], serve, (void *)i), "fiber_spawn");
    for (int i = 0; i < 2; i++) check(fiber_join(tellers[i], NULL), "fiber_join");
    if (balance != orders[0] + orders[1]) {
        fprintf(stderr, "bank: the balance is %ld, and should be %ld\n", balance, orders[0] + orders[1]);
        return 1;
    }
    printf("the balance is %ld\n", balance);
    return 0;
}
