/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_log.h - the access log of httpd: it collects lines in memory, and a separate fiber writes them. */
#ifndef HTTPD_LOG_H
#define HTTPD_LOG_H

#include <stddef.h>
#include <stdint.h>

/* The content of one line, in the common log format. method NULL: the request could not be read. */
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

/* Adds a line; any cord may call it. Waits only while another cord adds a line. */
void log_add(const struct log_entry *entry);

/* Writes the remaining lines and ends the fiber of the cord that opened the log; gives up after a second. */
void log_close(void);

#endif
