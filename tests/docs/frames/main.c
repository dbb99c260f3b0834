/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Statements of a main function. */
#include <errno.h>
#include <fcntl.h>
#include <fiberrt.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
BLOCK
    return 0;
}
