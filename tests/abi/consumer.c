/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C99 program that uses the installed library: fibers, a value, a deadline, a pipe. */
#include <fiberrt.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int ends[2];

static void *reader(void *argument) {
    char text[16] = "";
    int64_t got = fiber_read(ends[0], text, sizeof text - 1);
    return got == 5 && strcmp(text, "hello") == 0 ? argument : NULL;
}

static void *writer(void *argument) {
    if (fiber_sleep(FIBER_MSEC(1)) != 0) return NULL;
    return fiber_write(ends[1], "hello", 5) == 5 ? argument : NULL;
}

int main(void) {
    int token = 0, verdict = 0;
    int64_t result = 0;
    void *value;
    char byte;
    fiber_t fibers[2];

    if (fiber_version() != FIBERRT_VERSION_MAJOR * 10000 + FIBERRT_VERSION_MINOR * 100 + FIBERRT_VERSION_PATCH) {
        printf("the header and the library differ: %d\n", fiber_version());
        return 1;
    }
    if (pipe(ends) != 0 || fiber_spawn(&fibers[0], reader, &token) != 0 || fiber_spawn(&fibers[1], writer, &token) != 0)
        return 2;
    for (int i = 0; i < 2; i++) {
        int error = fiber_join(fibers[i], &value);
        if (error != 0 || value != &token) {
            printf("fiber %d: %s\n", i, fiber_strerror(error));
            return 3;
        }
    }
    FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &verdict) { result = fiber_read(ends[0], &byte, 1); }
    if (result != -ETIMEDOUT || verdict != -ETIMEDOUT) return 4;
    puts("consumer: fine");
    return 0;
}
