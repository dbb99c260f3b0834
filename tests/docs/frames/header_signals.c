/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A signal that a fiber sends while the main flow waits for it. */
#include <fiberrt.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void *send_one(void *arg) {
    return kill(getpid(), SIGTERM) == 0 ? arg : NULL;
}

static void shut_down(void) {
    exit(0);
}

int main(void) {
    if (fiber_spawn(NULL, send_one, NULL) < 0) return 1;
BLOCK
    return 1;
}
