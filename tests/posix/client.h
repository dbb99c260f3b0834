/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * client.h - the tests of an unmodified client library whose calls wait as fibers. client.c has the two tests; a file
 * for each library has the calls of that library, as a `struct client`, and a main that calls client_main.
 *
 *     PROGRAM together [OPTIONS]   many questions wait at the server at the same moment; then each answer is checked
 *     PROGRAM refused [OPTIONS]    waits are refused at random moments: cancels, deadlines, interrupts. No question may
 *                                  get the answer of another one
 *
 *     --server NAME    the environment variable that says where the server is (servers.py); without it, a small server
 *                      runs on a thread of the program
 *     --count N        together: questions; refused: refusals that the library reports
 *     --threads        together: a thread for each question, for comparison
 *     --whole          the program runs under the interposer, so no library is adopted
 *     --seed N         of the random moments
 *     --workers N      refused: fibers, each with its own connection
 *     --seconds N      after which the test counts as hung
 */
#ifndef FIBERRT_TEST_CLIENT_H
#define FIBERRT_TEST_CLIENT_H

#include "small_server.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WHY = 256 };

/* A question whose answer is its number, in each of its rows. */
struct question {
    uint64_t number;
    long rows, us;    /* us: how long the server takes at least, in microseconds */
    unsigned variant; /* random bits: how the library is asked */
    bool held;        /* the server answers when it is told to */
    bool small;       /* the server is a small one, which knows fewer variants */
};

enum outcome {
    ANSWERED,       /* the answer is right */
    REFUSED,        /* the library reports an error. The connection goes on, as the library says */
    REFUSED_CLOSED, /* the library reports an error, and that the connection is over */
    WRONG,          /* the answer is that of another question, or incomplete */
};

/* A client library. A function that fails writes the reason to why. */
struct client {
    const char *name;
    const char *const *libraries; /* for fiber_posix_adopt: its own name, then those that it uses; NULL ends the list */
    small_serve_fn *small_serve;
    const char *small_address; /* a format: where the small server is, with its port */
    void (*begin)(void);       /* prepares the library, before all other calls; may be NULL */
    void *(*open)(const char *server, unsigned worker, char why[WHY]); /* NULL: it fails */
    enum outcome (*ask)(void *connection, const struct question *question, char why[WHY]);
    void (*close)(void *connection);
    /* Of a real server: from now on held questions wait; how many do; let them go on. The plain thread that calls these
     * may block. */
    void *(*hold)(const char *server, char why[WHY]);
    int (*held)(void *holder);
    void (*release)(void *holder, int count);
};

int client_main(int argc, char **argv, const struct client *client);

/* Writes a comment that tells the small servers what to answer. */
void question_comment(char *text, size_t size, const struct question *question);

#endif
