/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A cancelled fiber's cleanup before it ends; its peer sees that it was done. */
#include <errno.h>
#include <fiberrt.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static void *cancelled(void *end) {
    int fd = *(int *)end;
    fiber_t self;
    if (fiber_self(&self) < 0 || fiber_cancel(self, NULL) < 0) return NULL;
    if (fiber_send(fd, "no", 2, 0) != -ECANCELED) return NULL;
BLOCK
    return end;
}

int main(void) {
    int ends[2];
    char text[8];
    fiber_t fiber;
    void *result;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || fiber_spawn(&fiber, cancelled, &ends[0]) < 0) return 1;
    if (fiber_recv(ends[1], text, sizeof text, 0) != 4 || memcmp(text, "bye\n", 4) != 0) return 2;
    if (fiber_recv(ends[1], text, sizeof text, 0) != 0) return 3; /* it has closed its end */
    return fiber_join(fiber, &result) < 0 || !result;
}
