/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two threads that answer each other through pipes, each with its own cord. Under Valgrind, which lets no thread run
 * while another sleeps in a ring, this ends only if the backend is libev; it says which one it is. */
#include <fiberrt.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int there[2], back[2];

static void *echo(void *unused) {
    char byte;
    (void)unused;
    for (int i = 0; i < 20; i++)
        if (fiber_read(there[0], &byte, 1) != 1 || fiber_write(back[1], &byte, 1) != 1) return there;
    return NULL;
}

int main(void) {
    pthread_t thread;
    void *failed = NULL;
    char byte = 'x';
    if (pipe(there) != 0 || pipe(back) != 0 || pthread_create(&thread, NULL, echo, NULL) != 0) return 2;
    for (int i = 0; i < 20; i++)
        if (fiber_write(there[1], &byte, 1) != 1 || fiber_read(back[0], &byte, 1) != 1) return 3;
    pthread_join(thread, &failed);
    printf("%s\n", fiber_backend_name());
    return failed || strcmp(fiber_backend_name(), "ev") != 0;
}
