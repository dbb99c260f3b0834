/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * copy.c - copies a file with one call: fiber_copy moves the data in the kernel where it can. Other fibers would run
 * meanwhile.
 *
 *     copy FROM TO       "-" is standard input or output
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fiberrt.h>
#include <stdio.h>
#include <string.h>

static int complain(const char *what, int64_t error) {
    fprintf(stderr, "copy: %s: %s\n", what, fiber_strerror((int)error));
    return 1;
}

static int open_or_standard(const char *name, int standard, int flags) {
    return strcmp(name, "-") == 0 ? standard : fiber_open(name, flags | O_CLOEXEC, 0666);
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: copy FROM TO\n"), 1;
    int in = open_or_standard(argv[1], 0, O_RDONLY);
    if (in < 0) return complain(argv[1], in);
    int out = open_or_standard(argv[2], 1, O_WRONLY | O_CREAT | O_TRUNC);
    if (out < 0) return complain(argv[2], out);

    int64_t written, lost; /* lost: bytes of a pipe or socket that were read, and could not be written */
    int64_t result = fiber_copy(in, out, FIBER_COPY_ALL, &written, &lost);
    if (result < 0) {
        fprintf(stderr, "copy: %lld bytes were written, and %lld lost\n", (long long)written, (long long)lost);
        return complain("copying", result); /* the error may be of either file */
    }
    result = fiber_close(out); /* may report an error of writing */
    if (result < 0) return complain(argv[2], result);
    fiber_close(in);
    return 0;
}
