/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * small_redis.c - a small server of Redis' protocol: PING, ECHO, and BLPOP of a key that is never pushed to. BLPOP of a
 * key `held:N` waits until the test releases it, and answers with N; of other keys, for its timeout.
 */
#include "small_server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORDS_MAX = 4, WORD_MAX = 16384 };

/* Reads a command, an array of strings. Returns the number of its words; -1 at the end of the connection. */
static int read_command(struct stream *stream, char (*words)[WORD_MAX], size_t *sizes) {
    char *line = stream_line(stream);
    int count = line && line[0] == '*' ? atoi(line + 1) : 0;
    if (count < 1 || count > WORDS_MAX) return -1;
    for (int i = 0; i < count; i++) {
        line = stream_line(stream);
        long size = line && line[0] == '$' ? atol(line + 1) : -1;
        if (size < 0 || size >= WORD_MAX) return -1;
        const unsigned char *bytes = stream_take(stream, (size_t)size + 2);
        if (!bytes) return -1;
        memcpy(words[i], bytes, (size_t)size);
        words[i][size] = 0;
        sizes[i] = (size_t)size;
    }
    return count;
}

static void put_string(struct stream *stream, const char *bytes, size_t size) {
    stream_print(stream, "$%zu\r\n", size);
    stream_put(stream, bytes, size);
    stream_put(stream, "\r\n", 2);
}

static bool pop(struct stream *stream, const char *key, const char *timeout) {
    struct asked asked = {.us = (long)(atof(timeout) * 1e6), .held = strncmp(key, "held:", 5) == 0};
    if (!stream_flush(stream) || !small_wait(stream, &asked)) return false;
    if (asked.held) {
        stream_print(stream, "*2\r\n");
        put_string(stream, key, strlen(key));
        put_string(stream, key + 5, strlen(key + 5));
    } else {
        stream_print(stream, "*-1\r\n");
    }
    return true;
}

void small_redis(struct stream *stream) {
    char words[WORDS_MAX][WORD_MAX];
    size_t sizes[WORDS_MAX];
    for (;;) {
        /* A pipeline's answers leave together. */
        if (stream->begin == stream->end && !stream_flush(stream)) return;
        int count = read_command(stream, words, sizes);
        if (count < 0) return;
        if (count == 2 && strcasecmp(words[0], "ECHO") == 0) {
            put_string(stream, words[1], sizes[1]);
        } else if (count == 3 && strcasecmp(words[0], "BLPOP") == 0) {
            char key[64], timeout[32];
            snprintf(key, sizeof key, "%.60s", words[1]);
            snprintf(timeout, sizeof timeout, "%.30s", words[2]);
            if (!pop(stream, key, timeout)) return;
        } else if (strcasecmp(words[0], "PING") == 0) {
            stream_print(stream, "+PONG\r\n");
        } else {
            stream_print(stream, "-ERR unknown command\r\n");
        }
    }
}
