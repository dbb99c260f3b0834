/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A hosted fiber that adds up how much it receives, until the connection ends. */
#include <fiberrt.h>
#include <string.h>
#include <unistd.h>

struct reader {
    fiber_op_t op;
    int fd, begun;
    int64_t total;
    char buffer[4];
};

BLOCK

int main(void) {
    struct reader reader;
    memset(&reader, 0, sizeof reader);
    int ends[2];
    fiber_t fiber;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) return 1;
    reader.fd = ends[0];
    if (fiber_hosted_new(&fiber, NULL, step, &reader) < 0 || fiber_wakeup(fiber) < 0) return 2;
    if (fiber_send(ends[1], "ten bytes.", 10, 0) != 10 || fiber_close(ends[1]) < 0) return 3;
    if (fiber_join(fiber, NULL) < 0 || fiber_close(ends[0]) < 0) return 4;
    return reader.total == 10 ? 0 : 5;
}
