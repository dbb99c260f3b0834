/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints why a scope's children have failed. */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>

BLOCK

int main(void) {
    puts(fiber_strerror(both()));
    return 0;
}
