/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * small_mysql.c - a small server of MariaDB's and MySQL's protocol, version 10: any user, no TLS, queries in text. A
 * query says in a comment what to answer (small_server.h); its rows have the columns number and row. Other statements
 * succeed.
 */
#include "small_server.h"
#include <stdio.h>
#include <string.h>

enum {
    /* long passwords, found rows, long flags, a database at the connect, protocol 4.1, transactions, secure connection,
     * authentication by plugins */
    CAPABILITIES = 0x1 | 0x2 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000,
    UTF8 = 33,
    AUTOCOMMIT = 2,
    TYPE_LONGLONG = 8,
    PACKET_MAX = 16384,
};

/* A packet under construction, with its number in the exchange. */
struct packet {
    unsigned char number;
    size_t size;
    unsigned char bytes[512];
};

static void add(struct packet *packet, uint64_t value, int width) {
    for (int i = 0; i < width; i++) packet->bytes[packet->size++] = (unsigned char)(value >> 8 * i);
}

static void add_bytes(struct packet *packet, const void *bytes, size_t size) {
    memcpy(packet->bytes + packet->size, bytes, size);
    packet->size += size;
}

/* A string shorter than 251 bytes, after its length. */
static void add_string(struct packet *packet, const char *text) {
    add(packet, strlen(text), 1);
    add_bytes(packet, text, strlen(text));
}

static void put_packet(struct stream *stream, struct packet *packet) {
    unsigned char head[4] = {(unsigned char)packet->size, (unsigned char)(packet->size >> 8), 0, packet->number++};
    stream_put(stream, head, sizeof head);
    stream_put(stream, packet->bytes, packet->size);
    packet->size = 0;
}

static bool put_ok(struct stream *stream, struct packet *packet) {
    add(packet, 0, 3); /* success; no rows affected, no id */
    add(packet, AUTOCOMMIT, 2);
    add(packet, 0, 2);
    put_packet(stream, packet);
    return stream_flush(stream);
}

static void put_end_of_list(struct stream *stream, struct packet *packet) {
    add(packet, 0xfe, 1);
    add(packet, 0, 2);
    add(packet, AUTOCOMMIT, 2);
    put_packet(stream, packet);
}

static void put_column(struct stream *stream, struct packet *packet, const char *name) {
    add_string(packet, "def");
    for (int i = 0; i < 3; i++) add_string(packet, ""); /* schema and table */
    add_string(packet, name);
    add_string(packet, name);
    add(packet, 12, 1); /* the length of the rest */
    add(packet, UTF8, 2);
    add(packet, 20, 4);
    add(packet, TYPE_LONGLONG, 1);
    add(packet, 0, 5); /* flags, decimals */
    put_packet(stream, packet);
}

/* The rows, the second half of them after the delay. */
static bool answer(struct stream *stream, struct packet *packet, const struct asked *asked) {
    add(packet, 2, 1);
    put_packet(stream, packet);
    put_column(stream, packet, "number");
    put_column(stream, packet, "row");
    put_end_of_list(stream, packet);
    long early = asked->held ? 0 : asked->rows / 2;
    for (long row = 1; row <= asked->rows; row++) {
        if (row == early + 1 && (!stream_flush(stream) || !small_wait(stream, asked))) return false;
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)asked->number);
        add_string(packet, text);
        snprintf(text, sizeof text, "%ld", row);
        add_string(packet, text);
        put_packet(stream, packet);
    }
    put_end_of_list(stream, packet);
    return stream_flush(stream);
}

static void put_greeting(struct stream *stream) {
    struct packet packet = {0};
    static const char version[] = "5.5.5-10.11.0-MariaDB", plugin[] = "mysql_native_password";
    add(&packet, 10, 1);
    add_bytes(&packet, version, sizeof version);
    add(&packet, 1, 4); /* the connection's number */
    add_bytes(&packet, "12345678", 9);
    add(&packet, CAPABILITIES & 0xffff, 2);
    add(&packet, UTF8, 1);
    add(&packet, AUTOCOMMIT, 2);
    add(&packet, CAPABILITIES >> 16, 2);
    add(&packet, 21, 1);
    add_bytes(&packet, "\0\0\0\0\0\0\0\0\0\0", 10);
    add_bytes(&packet, "123456789012", 13);
    add_bytes(&packet, plugin, sizeof plugin);
    put_packet(stream, &packet);
}

/* Reads a packet, terminated by a zero byte. Returns its size; -1 at the end of the connection. */
static long read_packet(struct stream *stream, char *content, unsigned char *number) {
    const unsigned char *head = stream_take(stream, 4);
    if (!head) return -1;
    long size = head[0] | head[1] << 8 | head[2] << 16;
    *number = head[3];
    const unsigned char *bytes = size < PACKET_MAX ? stream_take(stream, (size_t)size) : NULL;
    if (!bytes) return -1;
    memcpy(content, bytes, (size_t)size);
    content[size] = 0;
    return size;
}

void small_mysql(struct stream *stream) {
    enum { QUIT = 1, INIT_DB = 2, QUERY = 3, PING = 14 };
    char content[PACKET_MAX];
    struct packet packet = {0};
    put_greeting(stream);
    bool alive = stream_flush(stream) && read_packet(stream, content, &packet.number) >= 0;
    packet.number++;
    alive = alive && put_ok(stream, &packet);
    while (alive && read_packet(stream, content, &packet.number) >= 1) {
        packet.number++;
        struct asked asked = small_parse(content + 1);
        if (content[0] == QUERY && strstr(content + 1, "number="))
            alive = answer(stream, &packet, &asked);
        else if (content[0] == QUERY || content[0] == PING || content[0] == INIT_DB)
            alive = put_ok(stream, &packet);
        else
            alive = false;
    }
}
