/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * deadline.c - runs a command with a time limit, and prints its output.
 *
 *     deadline [--ms N] [--grace-ms N] COMMAND [ARGUMENT]...
 *
 * When the time is over, or at SIGINT or SIGTERM, the program sends SIGTERM to the command and the commands that it has
 * started, and SIGKILL if the command does not end within the grace. It has three fibers: the main flow waits for the
 * command, in the scope with the deadline; another fiber prints the output; a third waits for a signal, and cancels
 * that scope. The exit status is the command's, 124 after the deadline, 125 for an error of this program, or 128 plus
 * the number of a signal.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fiberrt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct run {
    fiber_scope_t scope; /* around the wait for the command */
    sigset_t signals;
    int signal; /* received */
    int output; /* of the command, for reading */
};

static int complain(const char *what, int error) {
    fprintf(stderr, "deadline: %s: %s\n", what, fiber_strerror(error));
    return 125;
}

/* Prints each line with a mark before it. */
static void *print_output(void *arg) {
    struct run *run = arg;
    char bytes[4096];
    int at_line = 1;
    for (int64_t count; (count = fiber_read(run->output, bytes, sizeof bytes)) > 0;) {
        for (int64_t i = 0; i < count; i++) {
            if (at_line) {
                fputs("| ", stdout);
            }
            putchar(bytes[i]);
            at_line = bytes[i] == '\n';
        }
        fflush(stdout);
    }
    return NULL;
}

static void *await_signal(void *arg) {
    struct run *run = arg;
    int signal = fiber_sigwait(&run->signals, NULL);
    if (signal > 0) {
        run->signal = signal;
        fiber_scope_cancel(run->scope, NULL);
    }
    return NULL;
}

static int start(pid_t *child, int pipes[3], char **command) {
    fiber_process_attr_t *attr;
    int error = fiber_process_attr_create(&attr);
    if (error < 0) {
        return error;
    }
    fiber_process_attr_set_stream(attr, STDOUT_FILENO, FIBER_PROCESS_PIPE);
    fiber_process_attr_set_stream(attr, STDERR_FILENO, FIBER_PROCESS_STDOUT);
    fiber_process_attr_set_group(attr, 0); /* includes the processes that it starts */
    error = fiber_process_spawn(child, pipes, attr, command[0], command);
    fiber_process_attr_destroy(attr);
    return error;
}

/* Returns the exit status of this program. */
static int await_command(struct run *run, pid_t child, int64_t time_ns, int64_t grace_ns) {
    fiber_t printer, handler;
    int status = 0;
    int error = fiber_scope_open(&run->scope, time_ns, 0);
    if (error == 0) {
        error = fiber_spawn(&printer, print_output, run);
    }
    if (error == 0) {
        error = fiber_spawn(&handler, await_signal, run);
    }
    if (error < 0) {
        kill(-child, SIGKILL);
        return complain("cannot wait", error);
    }
    int result = fiber_process_wait(child, &status, grace_ns);
    int verdict = fiber_scope_close(run->scope, NULL);
    fiber_cancel(handler, NULL);
    if (fiber_join(handler, NULL) < 0) {
        fiber_detach(handler);
    }
    /* A process that has left the group could still hold the pipe. */
    if (fiber_join_timeout(printer, NULL, FIBER_SEC(1)) == -ETIMEDOUT) {
        fiber_cancel(printer, NULL);
        if (fiber_join(printer, NULL) < 0) {
            fiber_detach(printer);
        }
    }
    if (result < 0 && result != verdict) {
        return complain("wait", result);
    }
    if (result < 0 && run->signal != 0) {
        printf("%s: the command was ended\n", strsignal(run->signal));
        return 128 + run->signal;
    }
    if (result == -ETIMEDOUT) { /* not the verdict: the command may have ended just before */
        printf("the time is over: the command was ended\n");
        return 124;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int parse_ms(const char *text, int64_t *ns) {
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || number < 0 || number > 3600000) {
        return 0;
    }
    *ns = FIBER_MSEC(number);
    return 1;
}

int main(int argc, char **argv) {
    struct run run = {.signal = 0};
    int64_t time_ns = FIBER_SEC(10), grace_ns = FIBER_SEC(5);
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        int64_t *ns = strcmp(argv[at], "--ms") == 0 ? &time_ns : strcmp(argv[at], "--grace-ms") == 0 ? &grace_ns : NULL;
        if (ns == NULL || !parse_ms(argv[at + 1], ns)) {
            break;
        }
    }
    if (at >= argc || argv[at][0] == '-') {
        fprintf(stderr, "usage: deadline [--ms N] [--grace-ms N] COMMAND [ARGUMENT]...\n");
        return 125;
    }
    sigemptyset(&run.signals);
    sigaddset(&run.signals, SIGINT);
    sigaddset(&run.signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &run.signals, NULL); /* they stay pending until a fiber waits for them */
    pid_t child;
    int pipes[3];
    int error = start(&child, pipes, argv + at);
    if (error < 0) {
        return complain(argv[at], error);
    }
    run.output = pipes[STDOUT_FILENO];
    int status = await_command(&run, child, time_ns, grace_ns);
    fiber_close(run.output);
    return status;
}
