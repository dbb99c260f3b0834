/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A server that calls echo and serve, and a client that sees that it answers. */
#include <errno.h>
#include <fiberrt.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

BLOCK

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 8) < 0) return 1;
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0) return 2;
    fiber_t server;
    if (fiber_spawn(&server, serve, (void *)(intptr_t)listener) < 0) return 3;
    char text[64], answer[8];
    snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(address.sin_port));
    for (int i = 0; i < 3; i++) {
        int fd = fiber_dial(text, 0);
        if (fd < 0 || fiber_send(fd, "hello", 5, 0) != 5) return 4;
        if (fiber_recv(fd, answer, sizeof answer, 0) != 5 || memcmp(answer, "hello", 5) != 0) return 5;
        if (fiber_close(fd) < 0) return 6;
    }
    if (fiber_close(listener) < 0 || fiber_join(server, NULL) < 0) return 7;
    return 0;
}
