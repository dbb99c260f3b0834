/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* hello.c - the smallest program with a fiber: it makes one fiber and joins it. */
#include <fiberrt.h>
#include <stdio.h>

static void *greet(void *name) {
    printf("hello, %s\n", (const char *)name);
    return NULL;
}

int main(void) {
    fiber_t fiber;
    int result = fiber_spawn(&fiber, greet, "world");
    if (result == 0) {
        result = fiber_join(fiber, NULL);
    }
    if (result < 0) {
        fprintf(stderr, "hello: %s\n", fiber_strerror(result));
        return 1;
    }
    return 0;
}
