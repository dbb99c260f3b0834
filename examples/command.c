/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * command.c - a child process with a time limit: prints the command's output with a mark before each line, and ends the
 * command, and the commands that it has started, at the limit or at SIGINT or SIGTERM. One fiber reads while another
 * waits. (command LIMIT-MS COMMAND [ARG]...: exits as the command does; 124: at the limit; 125: a signal, an error)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static fiber_scope_t scope; /* limits the time, and has the fiber that prints */
static sigset_t set;        /* of signals: blocked, so they stay pending until a fiber waits for them */

static void check(int64_t result, const char *what) {
    if (result < 0) fprintf(stderr, "command: %s: %s\n", what, fiber_strerror((int)result)), exit(125);
}

static int64_t print_output(void *pipe) {
    char bytes[4096], last = '\n';
    int64_t count;
    while ((count = fiber_read(*(int *)pipe, bytes, sizeof bytes)) > 0) {
        for (int64_t i = 0; i < count; last = bytes[i++]) printf(last == '\n' ? "| %c" : "%c", bytes[i]);
        fflush(stdout);
    }
    return count;
}

static void *cancel_at_signal(void *unused) {
    if (fiber_sigwait(&set, NULL) > 0) fiber_scope_cancel(scope, NULL);
    return unused;
}

int main(int argc, char **argv) {
    fiber_process_attr_t *attr;
    pid_t child;
    char *end = NULL;
    int pipes[3], status = 0;
    long limit = argc < 3 ? -1 : strtol(argv[1], &end, 10);
    if (limit < 0 || limit > INT32_MAX || *end) return fprintf(stderr, "usage: command LIMIT-MS COMMAND...\n"), 125;
    sigemptyset(&set), sigaddset(&set, SIGINT), sigaddset(&set, SIGTERM), sigprocmask(SIG_BLOCK, &set, NULL);
    check(fiber_scope_open(&scope, FIBER_MSEC(limit), 0), "fiber_scope_open");
    check(fiber_process_attr_create(&attr), "fiber_process_attr_create");
    fiber_process_attr_set_stream(attr, STDOUT_FILENO, FIBER_PROCESS_PIPE);
    fiber_process_attr_set_stream(attr, STDERR_FILENO, FIBER_PROCESS_STDOUT);
    fiber_process_attr_set_group(attr, 0); /* a separate process group, which gets the signals that end it */
    check(fiber_process_spawn(&child, pipes, attr, argv[2], argv + 2), argv[2]);
    fiber_process_attr_destroy(attr);
    int64_t failure, error = fiber_scope_spawn(scope, NULL, print_output, &pipes[STDOUT_FILENO]);
    if (error < 0 || (error = fiber_spawn(NULL, cancel_at_signal, NULL)) < 0) fiber_scope_cancel(scope, NULL);
    /* At the limit or a cancel, fiber_process_wait sends SIGTERM, and SIGKILL a second later, and reaps the child. */
    int waited = fiber_process_wait(child, &status, FIBER_SEC(1)), verdict = fiber_scope_close(scope, &failure);
    if (verdict < 0) kill(-child, SIGTERM); /* commands that have outlived the first one and its limit */
    if (verdict == -ETIMEDOUT) return printf("the time is over\n"), 124;
    check(error < 0 ? error : verdict < 0 ? verdict : waited < 0 ? waited : failure, argv[2]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
