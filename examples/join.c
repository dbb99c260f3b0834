/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* join.c - the result of a fiber: each fiber returns a pointer, and fiber_join hands it to the main flow. */
#include <fiberrt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "join: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static void *count_words(void *text) {
    intptr_t words = 0;
    int inside = 0;
    for (const char *at = text; *at != '\0'; at++) {
        words += !inside && *at != ' ';
        inside = *at != ' ';
    }
    return (void *)words; /* a number fits into a pointer; return a pointer to larger results */
}

int main(void) {
    char *texts[] = {"one fish two fish", "red fish", ""};
    fiber_t fibers[3];
    for (int i = 0; i < 3; i++) check(fiber_spawn(&fibers[i], count_words, texts[i]), "fiber_spawn");
    for (int i = 0; i < 3; i++) {
        void *words;
        check(fiber_join(fibers[i], &words), "fiber_join"); /* waits for the end of the fiber, in any order */
        printf("\"%s\": %d words\n", texts[i], (int)(intptr_t)words);
    }
    return 0;
}
