/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * command.c - a child process with a time limit: prints the command's output with a mark before each line, and ends the
 * command, and the commands that it has started, if it takes too long. One fiber reads while the other waits.
 *
 *     command LIMIT-MS COMMAND [ARGUMENT]...     exits as the command does; 124: it was ended
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "command: %s: %s\n", what, fiber_strerror((int)result));
        exit(125);
    }
}

static void *print_output(void *pipe) {
    char bytes[4096];
    int at_line = 1;
    for (int64_t count; (count = fiber_read(*(int *)pipe, bytes, sizeof bytes)) > 0;) {
        for (int64_t i = 0; i < count; i++) {
            if (at_line) fputs("| ", stdout);
            putchar(bytes[i]);
            at_line = bytes[i] == '\n';
        }
        fflush(stdout);
    }
    return NULL;
}

int main(int argc, char **argv) {
    fiber_process_attr_t *attr;
    pid_t child;
    fiber_t printer;
    int pipes[3], status = 0, result = -ETIMEDOUT;
    if (argc < 3) return fprintf(stderr, "usage: command LIMIT-MS COMMAND [ARGUMENT]...\n"), 125;
    check(fiber_process_attr_create(&attr), "fiber_process_attr_create");
    fiber_process_attr_set_stream(attr, STDOUT_FILENO, FIBER_PROCESS_PIPE);
    fiber_process_attr_set_stream(attr, STDERR_FILENO, FIBER_PROCESS_STDOUT);
    fiber_process_attr_set_group(attr, 0); /* a separate process group, which gets the signals */
    check(fiber_process_spawn(&child, pipes, attr, argv[2], argv + 2), argv[2]);
    fiber_process_attr_destroy(attr);
    check(fiber_spawn(&printer, print_output, &pipes[STDOUT_FILENO]), "fiber_spawn");

    /* When the time is over, fiber_process_wait sends SIGTERM, SIGKILL a second later, and reaps the child. */
    FIBER_WITH_TIMEOUT(FIBER_MSEC(atoi(argv[1])), NULL) { result = fiber_process_wait(child, &status, FIBER_SEC(1)); }
    if (result != -ETIMEDOUT) check(result, "fiber_process_wait");
    check(fiber_join(printer, NULL), "fiber_join");
    if (result == -ETIMEDOUT) return printf("the time is over\n"), 124;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
