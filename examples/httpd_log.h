/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_log.h - the access log of httpd: lines are collected in memory and written by a fiber of its own. */
#ifndef HTTPD_LOG_H
#define HTTPD_LOG_H

#include <stddef.h>
#include <stdint.h>

/* What one line tells, in the common log format. method NULL: the request could not be read. */
struct log_entry {
    const char *peer;
    const char *method;
    size_t method_length;
    const char *url;
    size_t url_length;
    int http_major, http_minor;
    int status;
    int64_t body_bytes;
};

/* Opens a file for appending, or standard output for "-", or no log for "none". Returns 0, or -errno. */
int log_open(const char *name);

/* Is a log kept? */
int log_is_open(void);

/* Adds a line; on any cord. Waits for nothing but another cord that is just adding one. */
void log_add(const struct log_entry *entry);

/* Writes what is left and ends the fiber, of the cord that has opened the log; gives up after a second. */
void log_close(void);

#endif
