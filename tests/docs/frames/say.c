/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Statements of a main function, with fibers that say something. */
#include <fiberrt.h>
#include <stdio.h>

static void *say(void *text) {
    puts((const char *)text);
    return NULL;
}

int main(void) {
BLOCK
    return 0;
}
