/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A foreign runtime in plain C: `exchange_test PAIRS ROUNDS` drives 2 * PAIRS hosted fibers through fiber_exchange
 * alone. Their frames are the runtime's own records, and it runs one after the other, as a hub of coroutines would. The
 * two fibers of a pair send each other numbers over a socketpair, now and then sleep or give others a turn, and end; a
 * fiber with a stack meanwhile receives the numbers that half of them send into a channel. Prints the counts; exits
 * with 0 if they are complete.
 */
#include <fiberrt.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { batch = 256 };

struct coroutine { /* a frame */
    fiber_t fiber;
    fiber_op_t *op;
    int fd;
    int asks; /* it sends first */
    int next; /* its state when the operation is done */
    long round;
    uint64_t number;
};

enum { begin, sent, received, rested, reported };

static long rounds;
static long steps, collected;
static fiber_chan_t results;

static void check(int64_t result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "exchange_test: %s: %s\n", what, fiber_strerror((int)result));
    exit(1);
}

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "exchange_test: it does not hold that %s\n", what);
    exit(1);
}

static void transfer(struct coroutine *c, uint32_t code, int next) {
    c->op->code = code;
    c->op->fd = c->fd;
    c->op->address = &c->number;
    c->op->length = sizeof c->number;
    c->next = next;
}

static void finish(struct coroutine *c) {
    close(c->fd);
    c->op->code = FIBER_OP_END;
    c->op->value = c;
}

/* Runs a frame until it waits: its next operation is in c->op. */
static void resume(struct coroutine *c, int64_t result) {
    steps++;
    switch (c->next) {
    case begin:
        must(result == 0, "a first turn has the result 0");
        c->number = 0;
        if (c->asks) {
            transfer(c, FIBER_OP_SEND, sent);
        } else {
            transfer(c, FIBER_OP_RECV, received);
        }
        return;
    case sent:
        must(result == (int64_t)sizeof c->number, "a number was sent");
        if (!c->asks && ++c->round == rounds) {
            finish(c);
        } else {
            transfer(c, FIBER_OP_RECV, received);
        }
        return;
    case received:
        must(result == (int64_t)sizeof c->number, "a number was received");
        if (c->asks) {
            c->round++;
            must(c->number == (uint64_t)c->round, "the answer is one more");
            c->op->code = c->round % 3 ? FIBER_OP_RESCHEDULE : FIBER_OP_SLEEP;
            c->op->number = 1000 * (c->fd % 7);
            c->next = rested;
            if (c->round < rounds) return;
            c->op->code = FIBER_OP_CHAN_SEND;
            c->op->target = results.id;
            c->op->address = &c->number;
            c->next = reported;
        } else {
            c->number++;
            transfer(c, FIBER_OP_SEND, sent);
        }
        return;
    case rested:
        must(result == 0, "a rest ends with 0");
        transfer(c, FIBER_OP_SEND, sent);
        return;
    case reported:
        must(result == 0, "a result was reported");
        finish(c);
        return;
    }
}

static void *collect(void *count) {
    for (long i = 0; i < *(long *)count; i++) {
        uint64_t number = 0;
        check(fiber_chan_recv(results, &number), "fiber_chan_recv");
        must(number == (uint64_t)rounds, "a result is complete");
        collected++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    long pairs = argc > 1 ? atol(argv[1]) : 5000;
    rounds = argc > 2 ? atol(argv[2]) : 4;
    struct rlimit files;
    must(getrlimit(RLIMIT_NOFILE, &files) == 0, "limits can be asked for");
    files.rlim_cur = files.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &files) == 0, "the limit of descriptors can be raised");
    if (files.rlim_cur < (rlim_t)(2 * pairs + 64)) {
        printf("left out: only %lu descriptors are allowed\n", (unsigned long)files.rlim_cur);
        return 77;
    }
    long count = 2 * pairs, alive = count;
    struct coroutine *all = calloc((size_t)count, sizeof *all);
    must(all != NULL, "there is memory");
    fiber_op_t *ops;
    check(fiber_ops_create(&ops, (size_t)count), "fiber_ops_create");
    check(fiber_chan_create(&results, sizeof(uint64_t), 16), "fiber_chan_create");
    for (long i = 0; i < count; i += 2) {
        int fds[2];
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "there are descriptors");
        for (int end = 0; end < 2; end++) {
            struct coroutine *c = &all[i + end];
            c->fd = fds[end];
            c->asks = end == 0;
            c->op = &ops[i + end];
            check(fiber_hosted_new(&c->fiber, NULL, NULL, c), "fiber_hosted_new");
            c->op->fiber = c->fiber;
            check(fiber_wakeup(c->fiber), "fiber_wakeup");
        }
    }
    fiber_t collector;
    check(fiber_spawn(&collector, collect, &pairs), "fiber_spawn");

    fiber_op_t *give[batch];
    fiber_completion_t take[batch];
    int giving = 0;
    long calls = 0;
    while (alive) {
        int taken = fiber_exchange(give, giving, take, batch, FIBER_FOREVER);
        check(taken, "fiber_exchange");
        calls++;
        giving = 0;
        for (int i = 0; i < taken; i++) {
            struct coroutine *c = take[i].user;
            must(take[i].op == NULL || take[i].op == c->op, "an operation comes back to its fiber");
            must(take[i].op == NULL || take[i].op->result == take[i].result, "a result is in both places");
            resume(c, take[i].result);
            alive -= c->op->code == FIBER_OP_END;
            give[giving++] = c->op;
        }
    }
    check(fiber_exchange(give, giving, take, batch, 0), "the last fiber_exchange");
    for (long i = 0; i < count; i++) {
        void *value = NULL;
        check(fiber_join(all[i].fiber, &value), "fiber_join");
        must(value == &all[i], "a fiber has its result");
    }
    check(fiber_join(collector, NULL), "fiber_join");
    must(collected == pairs, "all results were collected");
    fiber_stats_t stats;
    check(fiber_stats(&stats, sizeof stats), "fiber_stats");
    must(stats.stacks_high_water <= 2, "hosted fibers took no stacks");
    check(fiber_chan_destroy(results), "fiber_chan_destroy");
    check(fiber_ops_destroy(ops), "fiber_ops_destroy");
    free(all);
    printf("%ld hosted fibers, %ld turns in %ld exchanges, by %s\n", count, steps, calls, fiber_backend_name());
    return 0;
}
