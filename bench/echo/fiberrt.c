/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Our subject: a fiber per connection, which receives and sends in a loop. */
#define _GNU_SOURCE
#include "echo.h"

#include <fiberrt.h>

static void *serve(void *arg) {
    int fd = (int)(intptr_t)arg;
    char buffer[BUFFER_SIZE];
    int64_t count;
    do {
        count = fiber_recv(fd, buffer, sizeof buffer, 0);
    } while (count > 0 && fiber_send(fd, buffer, (size_t)count, 0) == count);
    fiber_close(fd);
    return NULL;
}

int main(void) {
    int listener = listen_on_loopback(0);
    for (;;) {
        int fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            fprintf(stderr, "fiber_accept4: %s\n", fiber_strerror(fd));
            return 1;
        }
        if (fiber_spawn(NULL, serve, (void *)(intptr_t)fd) < 0) {
            fiber_close(fd);
        }
    }
}
