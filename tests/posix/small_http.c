/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * small_http.c - a small server of HTTP/1.1 that keeps connections open, and of HTTP/1.0. The paths are those of nginx
 * in servers.py: /n/N?s=S answers with the line N, /many/N?s=S with 10,000 such lines, half of them after S seconds;
 * /held/N answers when the test releases it.
 */
#include "small_server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* closes: the answer has no length, so the end of the connection is its end. */
static bool answer(struct stream *stream, const char *path, bool closes) {
    const char *last = strrchr(path, '/'), *seconds = strstr(path, "?s=");
    struct asked asked = {.number = strtoull(last ? last + 1 : "", NULL, 10), .rows = 1};
    asked.held = strncmp(path, "/held/", 6) == 0;
    if (strncmp(path, "/many/", 6) == 0) asked.rows = 10000;
    if (seconds) asked.us = (long)(atof(seconds + 3) * 1e6);
    char line[32];
    int size = snprintf(line, sizeof line, "%llu\n", (unsigned long long)asked.number);
    long early = asked.held ? 0 : asked.rows / 2;
    for (long row = 0; row < asked.rows; row++) {
        if (row == early && (!stream_flush(stream) || !small_wait(stream, &asked))) return false;
        if (row == 0 && closes)
            stream_print(stream, "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n");
        else if (row == 0)
            stream_print(stream, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", size * asked.rows);
        stream_put(stream, line, (size_t)size);
    }
    return stream_flush(stream) && !closes;
}

void small_http(struct stream *stream) {
    for (;;) {
        char *line = stream_line(stream), path[256] = "";
        if (!line || sscanf(line, "GET %255s", path) != 1) return;
        bool closes = strstr(line, " HTTP/1.0") != NULL;
        while ((line = stream_line(stream)) && *line) {}
        if (!line || !answer(stream, path, closes)) return;
    }
}
