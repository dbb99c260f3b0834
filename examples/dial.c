/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dial.c - a client: it connects to a name, sends a text, and prints the answer, all within ten seconds.
 *
 *     dial HOST:PORT TEXT
 *
 * fiber_dial looks up the name and tries its addresses; try this with echo.c.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Sends the text and says that nothing follows, so that the server ends its answer too. */
static int64_t send_text(int fd, const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        int64_t sent = fiber_send(fd, text, left, 0);
        if (sent < 0) return sent;
        text += sent;
        left -= (size_t)sent;
    }
    return shutdown(fd, SHUT_WR) < 0 ? -errno : 0;
}

static int64_t print_answer(int fd) {
    char bytes[4096];
    int64_t count;
    while ((count = fiber_recv(fd, bytes, sizeof bytes, 0)) > 0) fwrite(bytes, 1, (size_t)count, stdout);
    return count;
}

/* The server may send before it has received all: an answer larger than its buffers needs a second fiber here. */
static int64_t ask(const char *address, const char *text) {
    int fd = fiber_dial(address, SOCK_CLOEXEC);
    if (fd < 0) return fd;
    int64_t result = send_text(fd, text);
    if (result == 0) result = print_answer(fd);
    fiber_close(fd);
    return result;
}

int main(int argc, char **argv) {
    int64_t result = -1;
    int verdict;
    if (argc != 3) return fprintf(stderr, "usage: dial HOST:PORT TEXT\n"), 1;
    FIBER_WITH_TIMEOUT(FIBER_SEC(10), &verdict) { result = ask(argv[1], argv[2]); }
    if (verdict < 0) result = verdict; /* the time is over, or the scope could not be opened */
    if (result < 0) return fprintf(stderr, "dial: %s\n", fiber_strerror((int)result)), 1;
    printf("\n");
    return 0;
}
