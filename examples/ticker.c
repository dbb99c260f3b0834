/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ticker.c - three fibers on one thread: one echoes the lines of standard input, one prints the time once a second, and
 * the main flow waits until one of them ends and then ends the other.
 *
 *     ticker [--interval-ms N] [--ticks N]
 *
 * The program ends at the end of standard input, or after the given number of ticks. The ticks keep their interval
 * however long a line takes to print; ticks that are missed meanwhile are left out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fiberrt.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static fiber_t main_flow;
static int64_t interval_ns = FIBER_SEC(1);
static long tick_limit = 0; /* 0: none */

/* Prints with fiber_write: if the terminal is stopped, only the calling fiber waits, and the others go on. Returns 0 or
 * -errno. */
static int64_t say(const char *format, ...) {
    char text[LINE_MAX_BYTES + 64];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (int done = 0; done < length;) {
        int64_t written = fiber_write(STDOUT_FILENO, text + done, (size_t)(length - done));
        if (written < 0) {
            return written;
        }
        done += (int)written;
    }
    return 0;
}

/* Echoes line by line until the end of input; prints a line longer than the buffer in pieces. Returns 0 or -errno. */
static int64_t echo_input(void) {
    char buffer[LINE_MAX_BYTES];
    size_t length = 0;
    for (;;) {
        int64_t count = fiber_read(STDIN_FILENO, buffer + length, sizeof buffer - length);
        if (count < 0) {
            return count;
        }
        length += (size_t)count;
        size_t start = 0;
        while (start < length) {
            char *newline = memchr(buffer + start, '\n', length - start);
            size_t line_end = newline ? (size_t)(newline - buffer) : length;
            if (newline == NULL && count > 0 && length - start < sizeof buffer) {
                break; /* half a line; wait for the rest */
            }
            int64_t result = say("echo: %.*s\n", (int)(line_end - start), buffer + start);
            if (result < 0) {
                return result;
            }
            start = newline ? line_end + 1 : line_end;
        }
        length -= start;
        memmove(buffer, buffer + start, length);
        if (count == 0) {
            return 0;
        }
    }
}

static void *echo_lines(void *unused) {
    (void)unused;
    int64_t result = echo_input();
    fiber_wakeup(main_flow);
    return (void *)(intptr_t)result;
}

static void *print_ticks(void *unused) {
    (void)unused;
    int64_t result = 0;
    int64_t beat = 0; /* the time of the last tick; 0: from now on */
    for (long tick = 1; result == 0; tick++) {
        int64_t left_out = fiber_every(&beat, interval_ns);
        if (left_out < 0) {
            result = left_out;
            break;
        }
        char note[40] = "";
        if (left_out > 0) {
            snprintf(note, sizeof note, ", %lld left out", (long long)left_out);
        }
        char clock[32];
        time_t now = time(NULL);
        struct tm local;
        strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
        result = say("tick %ld at %s%s\n", tick, clock, note);
        if (tick == tick_limit) {
            break;
        }
    }
    fiber_wakeup(main_flow);
    return (void *)(intptr_t)result;
}

static long parse_number(const char *text) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 1 || number > 1000000000) {
        fprintf(stderr, "ticker: %s is not a number from 1 to 1000000000\n", text);
        exit(1);
    }
    return number;
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"interval-ms", required_argument, NULL, 'i'}, {"ticks", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'i') {
            interval_ns = FIBER_MSEC(parse_number(optarg));
        } else if (option == 't') {
            tick_limit = parse_number(optarg);
        } else {
            fprintf(stderr, "usage: ticker [--interval-ms N] [--ticks N]\n");
            return 1;
        }
    }

    fiber_t echo;
    fiber_t ticks;
    int result = fiber_self(&main_flow);
    if (result == 0) {
        result = fiber_spawn(&echo, echo_lines, NULL);
    }
    if (result == 0) {
        result = fiber_spawn(&ticks, print_ticks, NULL);
    }
    if (result < 0) {
        fprintf(stderr, "ticker: %s\n", fiber_strerror(result));
        return 1;
    }

    /* The main flow is a fiber like the others: it parks until one of them wakes it at its end. */
    fiber_yield();
    fiber_cancel(echo, NULL);
    fiber_cancel(ticks, NULL);

    void *echo_result;
    void *ticks_result;
    if (fiber_join(echo, &echo_result) < 0 || fiber_join(ticks, &ticks_result) < 0) {
        return 1;
    }
    int64_t failure = (intptr_t)echo_result;
    if (failure == 0 || failure == -ECANCELED) {
        failure = (intptr_t)ticks_result;
    }
    if (failure == 0 || failure == -ECANCELED) {
        return 0;
    }
    if (failure == -ENOTSUP) {
        fprintf(stderr, "ticker: there is no backend for I/O here: see fiber_backend_name in fiberrt.h.\n");
        return 2;
    }
    fprintf(stderr, "ticker: %s\n", fiber_strerror((int)failure));
    return 1;
}
