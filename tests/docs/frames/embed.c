/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A loop with its own pipe; a fiber in it writes there, and the byte received ends the loop. */
#include <fiberrt.h>
#include <poll.h>
#include <unistd.h>

static int ours, ended;

static void handle_ours(void) {
    char byte;
    ended = read(ours, &byte, 1) == 1;
}

BLOCK

static void *later(void *fd) {
    return fiber_sleep(FIBER_MSEC(1)) < 0 || fiber_write(*(int *)fd, "x", 1) != 1 ? fd : NULL;
}

int main(void) {
    int ends[2];
    if (pipe(ends) < 0 || fiber_spawn(NULL, later, &ends[1]) < 0) return 1;
    ours = ends[0];
    loop();
    return 0;
}
