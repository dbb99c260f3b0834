/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * doctor_subject - uses the library on this machine, for a test that compares its output with fiberrt-doctor's report:
 *   doctor_subject fibers MOST   starts at most MOST fibers, until one is refused, and prints their number
 *   doctor_subject io            writes a byte into a pipe and prints the call's result
 */
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *waits(void *arg) {
    fiber_yield();
    return arg;
}

static long start_many(long most) {
    long count = 0;
    fiber_t fiber;
    while (count < most && fiber_new(&fiber, NULL, waits, NULL) == 0 && fiber_start(fiber) == 0) count++;
    return count;
}

int main(int argc, char **argv) {
    int ends[2];
    if (argc == 3 && strcmp(argv[1], "fibers") == 0)
        printf("%ld\n", start_many(atol(argv[2])));
    else if (argc == 2 && strcmp(argv[1], "io") == 0 && pipe(ends) == 0)
        printf("%d\n", (int)fiber_write(ends[1], "x", 1));
    else
        return 2;
    fflush(stdout);
    _exit(0); /* the fibers need not end */
}
