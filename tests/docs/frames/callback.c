/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A callback that leaves a connection to a fiber; its peer asks. */
#include <fiberrt.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

BLOCK

int main(void) {
    int ends[2];
    char text[8];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) return 1;
    on_connection(ends[0]);
    if (fiber_cord_run(0) < 0 || fiber_send(ends[1], "six times seven?", 16, 0) != 16) return 2;
    return fiber_recv(ends[1], text, sizeof text, 0) != 3 || memcmp(text, "42\n", 3) != 0;
}
