/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Statements of a main function; a fiber sends 7 to the channel. */
#include <fiberrt.h>
#include <stdio.h>

static fiber_chan_t chan;
static fiber_event_t stop;

static void *send_it(void *unused) {
    int number = 7;
    return fiber_chan_send(chan, &number) < 0 ? &stop : unused;
}

int main(void) {
    if (fiber_chan_create(&chan, sizeof(int), 0) < 0 || fiber_spawn(NULL, send_it, NULL) < 0) return 1;
BLOCK
    return 0;
}
