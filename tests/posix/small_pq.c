/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * small_pq.c - a small server of PostgreSQL's protocol, version 3: simple and extended queries, pipelines, any user, no
 * TLS. A query says in a comment what to answer (small_server.h); its rows have the columns number and row.
 */
#include "small_server.h"
#include <stdio.h>
#include <string.h>

enum { VERSION_3 = 196608, REQUEST_SSL = 80877103, REQUEST_GSS = 80877104, MESSAGE_MAX = 16384 };

static uint32_t get32(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* A message: its type, then its length with these four bytes, then its content. */
static void put_message(struct stream *stream, char type, const void *content, size_t size) {
    uint32_t length = (uint32_t)size + 4;
    unsigned char head[5] = {(unsigned char)type, (unsigned char)(length >> 24), (unsigned char)(length >> 16),
                             (unsigned char)(length >> 8), (unsigned char)length};
    stream_put(stream, head, sizeof head);
    stream_put(stream, content, size);
}

/* One column's description: its name, no table, a type with its size and modifier, text. */
#define COLUMN(name, type, size)                    \
    name "\0"                                       \
         "\0\0\0\0"                                 \
         "\0\0"                                     \
         "\0\0\0" type "\0" size "\377\377\377\377" \
         "\0\0"
static void describe(struct stream *stream) {
    static const char columns[] = "\0\2" COLUMN("number", "\24", "\10") COLUMN("row", "\27", "\4");
    put_message(stream, 'T', columns, sizeof columns - 1);
}

static void put_row(struct stream *stream, uint64_t number, long row) {
    char content[64], first[24], second[24];
    int a = snprintf(first, sizeof first, "%llu", (unsigned long long)number);
    int b = snprintf(second, sizeof second, "%ld", row);
    int size =
        snprintf(content, sizeof content, "%c%c%c%c%c%c%s%c%c%c%c%s", 0, 2, 0, 0, 0, a, first, 0, 0, 0, b, second);
    put_message(stream, 'D', content, (size_t)size);
}

/* The rows, the second half of them after the delay. */
static bool answer(struct stream *stream, const struct asked *asked) {
    long early = asked->held ? 0 : asked->rows / 2;
    for (long row = 1; row <= asked->rows; row++) {
        if (row == early + 1 && (!stream_flush(stream) || !small_wait(stream, asked))) return false;
        put_row(stream, asked->number, row);
    }
    char tag[32];
    int size = snprintf(tag, sizeof tag, "SELECT %ld", asked->rows);
    put_message(stream, 'C', tag, (size_t)size + 1);
    return true;
}

/* The connection's first message, whose length and first word come without a type. */
static bool begin(struct stream *stream) {
    for (;;) {
        const unsigned char *head = stream_take(stream, 8);
        if (!head) return false;
        uint32_t length = get32(head), code = get32(head + 4);
        if (length < 8 || length > MESSAGE_MAX || !stream_take(stream, length - 8)) return false;
        if (code == VERSION_3) break;
        if (code != REQUEST_SSL && code != REQUEST_GSS) return false;
        stream_put(stream, "N", 1);
        if (!stream_flush(stream)) return false;
    }
    put_message(stream, 'R', "\0\0\0\0", 4);
    static const char *const settings[][2] = {{"server_version", "15.0"},
                                              {"server_encoding", "UTF8"},
                                              {"client_encoding", "UTF8"},
                                              {"integer_datetimes", "on"},
                                              {"standard_conforming_strings", "on"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char content[80];
        int size = snprintf(content, sizeof content, "%s%c%s", settings[i][0], 0, settings[i][1]);
        put_message(stream, 'S', content, (size_t)size + 1);
    }
    put_message(stream, 'K', "\0\0\0\1\0\0\0\2", 8);
    put_message(stream, 'Z', "I", 1);
    return stream_flush(stream);
}

void small_pq(struct stream *stream) {
    struct asked prepared = {0};
    for (bool alive = begin(stream); alive;) {
        const unsigned char *head = stream_take(stream, 5);
        if (!head) return;
        char type = (char)head[0];
        uint32_t length = get32(head + 1);
        if (length < 4 || length > MESSAGE_MAX) return;
        char content[MESSAGE_MAX];
        const unsigned char *bytes = stream_take(stream, length - 4);
        if (!bytes) return;
        memcpy(content, bytes, length - 4);
        content[length - 4] = 0;
        switch (type) {
        case 'Q':
            prepared = small_parse(content);
            describe(stream);
            alive = answer(stream, &prepared);
            put_message(stream, 'Z', "I", 1);
            alive = alive && stream_flush(stream);
            break;
        case 'P': /* the statement's name, then the query */
            prepared = small_parse(content + strlen(content) + 1);
            put_message(stream, '1', "", 0);
            break;
        case 'B': put_message(stream, '2', "", 0); break;
        case 'D':
            if (content[0] == 'S') put_message(stream, 't', "\0\1\0\0\0\24", 6);
            describe(stream);
            break;
        case 'E': alive = answer(stream, &prepared); break;
        case 'C': put_message(stream, '3', "", 0); break;
        case 'S': put_message(stream, 'Z', "I", 1); /* fall through */
        case 'H': alive = stream_flush(stream); break;
        default: return; /* X: the client ends the connection */
        }
    }
}
