/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * trace_subject.c - a program that is traced by FIBERRT_TRACE. It ends as its argument says: "return" from main, "exit"
 * in a fiber, "child": as "return", after a child made by fork has called exit, "_exit", or "abort". "renamed": as
 * "return", with a name of 100,000 bytes.
 */
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;

static void *work(void *name) {
    fiber_t me;
    fiber_self(&me);
    fiber_set_name(me, name);
    for (int i = 0; i < 10; i++) {
        fiber_sleep(FIBER_USEC(100)); /* both fibers until the same moment: then their order is a choice */
        fiber_trace_begin("work");
        if (fiber_mutex_lock(&mutex) != 0) {
            abort();
        }
        fiber_sleep(FIBER_USEC(100));
        fiber_mutex_unlock(&mutex);
        fiber_trace_counter("done", i);
        fiber_trace_end();
    }
    return NULL;
}

static void *leave(void *unused) {
    (void)unused;
    exit(0);
}

static void rename_and_start_again(char *program) {
    static char name[100001] = "\xff";
    char how[] = "return";
    char *arguments[] = {name, how, NULL};
    memset(name + 1, 'n', sizeof name - 2);
    execv(program, arguments);
    perror("execv");
    exit(1);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "return";
    if (strcmp(how, "renamed") == 0) {
        rename_and_start_again(argv[0]);
    }
    fiber_t one, other, last;
    if (fiber_spawn(&one, work, "one") != 0 || fiber_spawn(&other, work, "other") != 0) {
        return 1;
    }
    if (fiber_join(one, NULL) != 0 || fiber_join(other, NULL) != 0) {
        return 1;
    }
    if (strcmp(how, "child") == 0) {
        pid_t child = fork();
        if (child == 0) {
            fiber_sleep(FIBER_USEC(10));
            exit(0);
        }
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0) {
            return 1;
        }
    } else if (strcmp(how, "exit") == 0) {
        return fiber_spawn(&last, leave, NULL) != 0 || fiber_join(last, NULL) != 0;
    } else if (strcmp(how, "_exit") == 0 || strcmp(how, "abort") == 0) {
        fiber_sleep(FIBER_MSEC(400)); /* for the writer */
        if (*how == 'a') {
            abort();
        }
        _exit(0);
    }
    return 0;
}
