/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lets a hosted fiber read one end of a socket pair by the step of the page. */
#include <fiberrt.h>
#include <sys/socket.h>

BLOCK

int main(void) {
    static struct reader reader;
    int fds[2];
    fiber_t fiber;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 1;
    reader.fd = fds[0];
    if (fiber_hosted_new(&fiber, NULL, step, &reader) != 0 || fiber_wakeup(fiber) != 0) return 1;
    if (fiber_write(fds[1], "seventeen letters", 17) != 17 || fiber_close(fds[1]) != 0) return 1;
    if (fiber_join(fiber, NULL) != 0 || reader.total != 17) return 1;
    return fiber_close(fds[0]) != 0;
}
