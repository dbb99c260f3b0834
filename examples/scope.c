/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * scope.c - a scope owns fibers: fiber_scope_close waits until all of them have ended, and the first child that fails
 * cancels the others. So no child outlives the block that made it, and no failure is lost.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

struct part {
    const char *name;
    int64_t time;
    int64_t result;
};

static void check(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "scope: %s: %s\n", what, fiber_strerror((int)result));
        exit(1);
    }
}

/* A child. A result below 0 is a failure. */
static int64_t do_part(void *arg) {
    const struct part *part = arg;
    int64_t error = fiber_sleep(part->time); /* -ECANCELED if another child has failed */
    if (error < 0) {
        printf("%s: %s\n", part->name, fiber_strerror((int)error));
        return error;
    }
    printf("%s: %s\n", part->name, part->result < 0 ? "failed" : "done");
    return part->result;
}

int main(void) {
    struct part parts[] = {{"one", FIBER_MSEC(1), 0}, {"two", FIBER_MSEC(20), -EIO}, {"three", FIBER_SEC(60), 0}};
    fiber_scope_t scope;
    int64_t failure;
    check(fiber_scope_open(&scope, FIBER_FOREVER, 0), "fiber_scope_open");
    for (int i = 0; i < 3; i++) check(fiber_scope_spawn(scope, NULL, do_part, &parts[i]), "fiber_scope_spawn");
    check(fiber_scope_close(scope, &failure), "fiber_scope_close"); /* from here on no child uses parts */
    printf("the first failure: %s\n", failure < 0 ? fiber_strerror((int)failure) : "none");
    return 0;
}
