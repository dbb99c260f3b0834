/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* embed_errands.h - common code of the embed_ examples: each line of input is an errand, run by a fiber. */
#ifndef EMBED_ERRANDS_H
#define EMBED_ERRANDS_H

/* Reads the available lines "MILLISECONDS NAME" and spawns a fiber for each, which takes that long. Returns 0 at the
 * end of the input, 1 before it. The loop calls it when its descriptor is readable; it neither waits nor switches. */
int errands_read(int fd);

/* Returns the number of errands that have not ended. */
int errands_under_way(void);

/* Reports that a function of the library failed, and ends the program, with 2 if the kernel refuses a system call. */
void errands_fail(const char *what, int error);

#endif
