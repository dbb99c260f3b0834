/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The entries of the root directory. */
#include <dirent.h>
#include <fcntl.h>
#include <fiberrt.h>

static int names;

static void use(const char *name) {
    names += name[0] != 0;
}

int main(void) {
    union {
        struct dirent64 align;
        char bytes[32768];
    } space;
#define buffer (space.bytes) /* an array, so that sizeof is that of the whole */
    int fd = fiber_open("/", O_RDONLY | O_DIRECTORY, 0);
    int64_t got;
BLOCK
    return got != 0 || names < 3 || fiber_close(fd) != 0;
}
