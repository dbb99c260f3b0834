/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread without a cord sends to a fiber. */
#include <fiberrt.h>
#include <pthread.h>

BLOCK

int main(void) {
    pthread_t thread;
    if (fiber_chan_create(&lines, sizeof(int), 0) < 0) return 1;
    if (pthread_create(&thread, NULL, plain_thread, NULL) != 0) return 2;
    return sum() != 6 || pthread_join(thread, NULL) != 0;
}
