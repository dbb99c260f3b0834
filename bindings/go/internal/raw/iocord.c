// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread that makes the operations of goroutines. See iocord.h.

#define _GNU_SOURCE
#include "iocord.h"

#include <errno.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { at_once = 256 }; // operations of one exchange

struct start {
    io_cord *cord;
    sem_t known; // whether it has started
    int error;
};

// Pushes a chain of requests. The order of the release is with the exchange that takes the list: who takes a request
// sees what was written into it.
static io_request *push(io_request **list, io_request *first, io_request *last) {
    io_request *before = __atomic_load_n(list, __ATOMIC_RELAXED);
    do {
        last->next = before;
    } while (!__atomic_compare_exchange_n(list, &before, first, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return before;
}

static io_request *in_order(io_request *last) {
    io_request *first = NULL;
    while (last) {
        io_request *next = last->next;
        last->next = first;
        first = last;
        last = next;
    }
    return first;
}

static int make_fiber(const fiber_attr_t *attr, fiber_t *out, void *user) {
    int error = fiber_hosted_new(out, attr, NULL, user);
    return error < 0 ? error : fiber_wakeup(*out);
}

// Gives requests back. The look at asleep comes after the push, as the other side's last look comes after it has set it.
static void tell(io_cord *cord, io_request *first, io_request *last) {
    push(&cord->done, first, last);
    if (__atomic_load_n(&cord->asleep, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&cord->asleep, 0, __ATOMIC_SEQ_CST)) {
        const uint64_t one = 1;
        while (write(cord->told, &one, sizeof one) < 0 && errno == EINTR) {}
    }
}

static void *serve(void *arg) {
    struct start *start = arg;
    io_cord *cord = start->cord;
    fiber_attr_t *attr = NULL;
    fiber_op_t *ops[at_once] = {0}, *service = NULL;
    fiber_completion_t out[at_once];
    io_request *todo = NULL;
    int count = 0, error = fiber_attr_create(&attr);
    if (error == 0) error = fiber_attr_set_detached(attr, 1);
    if (error == 0) error = fiber_ops_create(&service, 1);
    if (error == 0) error = make_fiber(attr, &cord->service, cord);
    start->error = error;
    sem_post(&start->known);
    if (error < 0) {
        fiber_ops_destroy(service);
        fiber_attr_destroy(attr);
        return NULL;
    }
    service->code = FIBER_OP_YIELD;
    service->fiber = cord->service;

    for (;;) {
        const int got = fiber_exchange(ops, count, out, at_once, todo ? 0 : FIBER_FOREVER);
        if (got < 0) { // those that were not begun are asked for again
            const struct timespec pause = {0, 1000000};
            if (count && ops[0]->result != -EAGAIN) count = 0;
            if (got != -EINTR) nanosleep(&pause, NULL);
            continue;
        }
        io_request *done = NULL, *last = NULL;
        count = 0;
        for (int i = 0; i < got; ++i) {
            fiber_op_t *op = out[i].op;
            if (out[i].user == cord) {
                io_request *more = in_order(__atomic_exchange_n(&cord->submitted, NULL, __ATOMIC_SEQ_CST));
                io_request **end = &todo;
                while (*end) end = &(*end)->next;
                *end = more;
                ops[count++] = service;
                continue;
            }
            io_request *request = out[i].user ? out[i].user : (io_request *)op; // NULL: its operation was refused
            if (!op) { // the first turn of its fiber
                ops[count++] = &request->op;
                continue;
            }
            request->op.result = out[i].result;
            request->next = done;
            if (!done) last = request;
            done = request;
        }
        while (todo && count < at_once) {
            io_request *request = todo;
            todo = request->next;
            if (request->op.fiber.id) {
                ops[count++] = &request->op;
                continue;
            }
            error = make_fiber(attr, &request->op.fiber, request);
            if (error == 0) continue;
            request->op.result = error;
            request->next = done;
            if (!done) last = request;
            done = request;
        }
        if (done) tell(cord, done, last);
    }
}

int io_cord_start(io_cord **out) {
    struct start start = {calloc(1, sizeof(io_cord)), {{0}}, 0};
    if (!start.cord) return -ENOMEM;
    start.cord->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (start.cord->told < 0) {
        const int error = -errno;
        free(start.cord);
        return error;
    }
    sem_init(&start.known, 0, 0);
    fiber_cord_t thread;
    int error = fiber_cord_start(&thread, NULL, serve, &start);
    if (error == 0) {
        while (sem_wait(&start.known) < 0 && errno == EINTR) {}
        error = start.error;
        if (error < 0) fiber_cord_join(thread, NULL);
    }
    sem_destroy(&start.known);
    if (error < 0) {
        close(start.cord->told);
        free(start.cord);
        return error;
    }
    *out = start.cord;
    return 0;
}

int io_cord_submit(io_cord *cord, io_request *request) {
    // Who finds the list empty wakes; all that come before it is taken are seen then.
    return push(&cord->submitted, request, request) ? 0 : fiber_wakeup(cord->service);
}
