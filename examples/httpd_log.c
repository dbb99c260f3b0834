/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * httpd_log.c - the access log of httpd.
 *
 * Requests of all cords append lines to one buffer, while the log's fiber writes the other buffer, once a second or
 * when it is half full. If the disk or the pipe is too slow and both buffers are full, the log leaves out lines and
 * writes their number: a server must not stop because of its log.
 */
#define _GNU_SOURCE
#include "httpd_log.h"

#include <errno.h>
#include <fcntl.h>
#include <fiberrt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "httpd_text.h"

enum { BUFFER_SIZE = 1 << 20, LINE_SIZE = 4096 };

static struct {
    int fd; /* -1: no log is kept */
    int closing;
    int told_error;
    fiber_t fiber;
    char *writing;
    fiber_mutex_t mutex; /* of the next three, held only while a line is copied */
    char *filling;
    size_t length; /* bytes in filling */
    uint64_t left_out;
    char buffers[2][BUFFER_SIZE];
} access_log = {.fd = -1};

int log_is_open(void) { return access_log.fd >= 0; }

/* The time as "10/Oct/2000:13:55:36 -0700", made once a second by each cord. */
static const char *time_text(void) {
    static __thread time_t second;
    static __thread char text[32];
    time_t now = time(NULL);
    if (now != second) {
        struct tm local;
        second = now;
        localtime_r(&now, &local);
        strftime(text, sizeof text, "%d/%b/%Y:%H:%M:%S %z", &local);
    }
    return text;
}

static size_t format_line(char *line, const struct log_entry *entry) {
    char *at = line + sprintf(line, "%s - - [%s] \"", entry->peer, time_text());
    if (entry->method != NULL) {
        /* The client chose the URL, so it is escaped; a very long URL is cut, to leave room for the rest. */
        at += sprintf(at, "%.*s ", (int)entry->method_length, entry->method);
        at = append_escaped(at, line + LINE_SIZE - 128, entry->url, entry->url_length);
        at += sprintf(at, " HTTP/%d.%d", entry->http_major, entry->http_minor);
    } else {
        *at++ = '-';
    }
    at += sprintf(at, "\" %d %lld\n", entry->status, (long long)entry->body_bytes);
    return (size_t)(at - line);
}

void log_add(const struct log_entry *entry) {
    if (access_log.fd < 0) {
        return;
    }
    char line[LINE_SIZE];
    size_t length = format_line(line, entry);
    if (fiber_mutex_lock(&access_log.mutex) < 0) {
        return; /* no holder dies, and no caller is in a no-switch section */
    }
    if (length <= BUFFER_SIZE - access_log.length) {
        memcpy(access_log.filling + access_log.length, line, length);
        access_log.length += length;
    } else {
        access_log.left_out++;
    }
    int half_full = access_log.length > BUFFER_SIZE / 2;
    fiber_mutex_unlock(&access_log.mutex);
    if (half_full) {
        fiber_wakeup(access_log.fiber);
    }
}

static void write_text(const char *text, size_t length) {
    while (length > 0) {
        int64_t written = fiber_write(access_log.fd, text, length);
        if (written < 0) {
            if (!access_log.told_error) {
                fprintf(stderr, "httpd: access log: %s\n", fiber_strerror((int)written));
                access_log.told_error = 1;
            }
            return;
        }
        text += written;
        length -= (size_t)written;
    }
}

static void *write_log(void *unused) {
    (void)unused;
    size_t length;
    do {
        if (!access_log.closing) {
            fiber_yield_timeout(FIBER_SEC(1));
        }
        if (fiber_mutex_lock(&access_log.mutex) < 0) {
            return NULL;
        }
        char *text = access_log.filling;
        uint64_t left_out = access_log.left_out;
        length = access_log.length;
        access_log.filling = access_log.writing;
        access_log.writing = text;
        access_log.length = 0;
        access_log.left_out = 0;
        fiber_mutex_unlock(&access_log.mutex);
        write_text(text, length);
        if (left_out > 0) {
            fprintf(stderr, "httpd: access log: %llu lines left out\n", (unsigned long long)left_out);
        }
    } while (!access_log.closing || length > 0);
    return NULL;
}

int log_open(const char *name) {
    if (strcmp(name, "none") == 0) {
        return 0;
    }
    int fd = STDOUT_FILENO;
    if (strcmp(name, "-") != 0) {
        fd = fiber_open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    if (fd < 0) {
        return fd;
    }
    access_log.fd = fd;
    access_log.filling = access_log.buffers[0];
    access_log.writing = access_log.buffers[1];
    return fiber_spawn(&access_log.fiber, write_log, NULL);
}

void log_close(void) {
    if (access_log.fd >= 0) {
        access_log.closing = 1;
        fiber_wakeup(access_log.fiber);
        if (fiber_join_timeout(access_log.fiber, NULL, FIBER_SEC(1)) < 0) {
            fputs("httpd: the end of the log may be missing\n", stderr);
        }
    }
}
