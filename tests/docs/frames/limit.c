/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Statements of a main function; fd is a pipe that nothing writes to. */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int ends[2];
    char buffer[64];
    if (pipe(ends) < 0) return 1;
    int fd = ends[0];
BLOCK
    return 0;
}
