/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_text.h - text conversions of httpd: dates, paths, ranges, escapes. */
#ifndef HTTPD_TEXT_H
#define HTTPD_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { HTTP_DATE_LENGTH = 29 };

/* Writes "Sun, 06 Nov 1994 08:49:37 GMT", without a terminating zero. */
void format_http_date(char *to, time_t when);

/* Reads a date in any of HTTP's three forms. Returns -1 for other text. */
time_t parse_http_date(const char *text, size_t length);

/* Returns the words for a status: "Not Found" for 404. */
const char *status_text(int status);

/* Returns the media type of a file, by the extension in the name. */
const char *content_type(const char *path);

/* Turns the path of a URL into a path below the root: "" for "/", "a b/c" for "/a%20b/c". Returns 0, or the status to
 * refuse the path with. */
int decode_path(const char *url, size_t length, char *path, size_t size);

/* Reads "bytes=first-last", "bytes=first-" or "bytes=-count" for a file of size bytes. Returns 206 with the first byte
 * and the byte after the last; 416 if the file has none of these bytes; 200 for any other text, also for several
 * ranges, because the whole file is always a correct answer. */
int parse_range(const char *text, size_t length, int64_t size, int64_t *first, int64_t *end);

/* Write text to `to` for a page or for a URL, with a terminating zero, and return the place of the zero. A byte takes
 * at most 6 bytes in a page, and 3 in a URL. */
char *put_escaped_html(char *to, const char *text);
char *put_escaped_url(char *to, const char *text);

/* Appends text at `to`, not beyond end: printable characters as they are, others as \xNN. Returns the new end. */
char *append_escaped(char *to, const char *end, const char *text, size_t length);

#endif
