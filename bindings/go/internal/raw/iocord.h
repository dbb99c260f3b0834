/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * iocord.h - a thread of C's with a cord of its own, which makes the operations that goroutines ask for. Requests are
 * pushed to one list by any thread, and come back by another, of which a descriptor tells.
 */
#ifndef FIBERRT_GO_IOCORD_H
#define FIBERRT_GO_IOCORD_H

#include <fiberrt.h>

/* An operation for a goroutine. It has a hosted fiber of its own, from its first submission on, and is kept for ever. */
typedef struct io_request {
    fiber_op_t op; /* user is who has asked; fiber is the library's after the first submission */
    struct io_request *next;
} io_request;

typedef struct io_cord {
    io_request *submitted; /* the last one first, as in done */
    io_request *done;
    int asleep; /* who reads told waits in that: set by it, reset by who tells */
    int told;   /* an eventfd that does not block */
    fiber_t service; /* woken when something is submitted */
} io_cord;

/* Starts the thread, which stays as long as the process; -errno if there is none to be had. */
int io_cord_start(io_cord **out);

/* Asks for an operation. From any thread; the request is the cord's until it is done. */
int io_cord_submit(io_cord *cord, io_request *request);

#endif
