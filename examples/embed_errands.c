/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* embed_errands.c - errands that fibers run, while another event loop runs the thread. */
#include "embed_errands.h"

#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int under_way;

static void *run_errand(void *memory) {
    char *name = NULL;
    long milliseconds = strtol(memory, &name, 10);
    name += *name == ' ';
    printf("began %s\n", name);
    fflush(stdout);
    fiber_sleep(FIBER_MSEC(milliseconds)); /* this fiber waits; the thread and its loop go on */
    printf("ended %s\n", name);
    fflush(stdout);
    free(memory);
    under_way--;
    return NULL;
}

static void start_errand(const char *line, size_t length) {
    char *copy = malloc(length + 1);
    if (!copy) errands_fail("malloc", -ENOMEM);
    memcpy(copy, line, length);
    copy[length] = '\0';
    int error = fiber_spawn(NULL, run_errand, copy); /* starts in the next run: the cord's descriptor is readable now */
    if (error < 0) errands_fail("fiber_spawn", error);
    under_way++;
}

int errands_read(int fd) {
    static char buffer[4096];
    static size_t used;
    ssize_t got = read(fd, buffer + used, sizeof buffer - used);
    if (got <= 0) return got < 0 && (errno == EINTR || errno == EAGAIN);
    used += (size_t)got;
    char *line = buffer, *end;
    while ((end = memchr(line, '\n', used - (size_t)(line - buffer)))) {
        start_errand(line, (size_t)(end - line));
        line = end + 1;
    }
    used -= (size_t)(line - buffer);
    memmove(buffer, line, used);
    return used < sizeof buffer; /* longer than any name */
}

int errands_under_way(void) { return under_way; }

void errands_fail(const char *what, int error) {
    fprintf(stderr, "%s: %s\n", what, fiber_strerror(error));
    exit(error == -ENOTSUP ? 2 : 1);
}
