/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* embed_errands.h - what the three embed_ examples have in common: errands, each a fiber, asked for by lines of input. */
#ifndef EMBED_ERRANDS_H
#define EMBED_ERRANDS_H

/* Reads what there is of lines "MILLISECONDS NAME" and spawns a fiber for each, which takes that long. 0 at the end of the
 * input, 1 before it. Called by the loop, when its descriptor is readable: it neither waits nor switches. */
int errands_read(int fd);

/* How many have not ended. */
int errands_under_way(void);

/* A function of the library has failed: says so, and ends the program, with 2 if the kernel refuses what it needs. */
void errands_fail(const char *what, int error);

#endif
