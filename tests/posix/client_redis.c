/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* client_redis.c - hiredis: a pipeline of commands, and BLPOP for questions that are held. */
#include "client.h"
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ECHOES = 8, ECHO_MAX = 8192 };

static const char *const libraries[] = {"libhiredis.so", NULL};

/* A server is the path of a Unix socket, or HOST:PORT. */
static redisContext *connect_to(const char *server) {
    if (server[0] == '/') return redisConnectUnix(server);
    char host[64];
    const char *port = strrchr(server, ':');
    snprintf(host, sizeof host, "%.*s", (int)(port - server), server);
    return redisConnect(host, atoi(port + 1));
}

static void *open_connection(const char *server, unsigned worker, char why[WHY]) {
    (void)worker;
    redisContext *context = connect_to(server);
    if (context && !context->err) return context;
    snprintf(why, WHY, "%s", context ? context->errstr : "no memory");
    if (context) redisFree(context);
    return NULL;
}

static void close_connection(void *context) { redisFree(context); }

static enum outcome failed(redisContext *context, char why[WHY]) {
    snprintf(why, WHY, "error %d: %s", context->err, context->errstr);
    return context->err ? REFUSED_CLOSED : REFUSED;
}

/* Takes the answer to a BLPOP: none, or a key and an element, which must be the number. */
static enum outcome take_pop(redisContext *context, const struct question *question, char why[WHY]) {
    redisReply *reply = NULL;
    if (redisGetReply(context, (void **)&reply) != REDIS_OK) return failed(context, why);
    bool right = reply->type == REDIS_REPLY_NIL && !question->held;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && question->held)
        right = strtoull(reply->element[1]->str, NULL, 10) == question->number;
    if (!right) snprintf(why, WHY, "the answer to BLPOP has type %d: %.60s", reply->type, reply->str ? reply->str : "");
    freeReplyObject(reply);
    return right ? ANSWERED : WRONG;
}

/* Takes the answer to an ECHO. */
static enum outcome take_echo(redisContext *context, const char *expected, size_t size, char why[WHY]) {
    redisReply *reply = NULL;
    if (redisGetReply(context, (void **)&reply) != REDIS_OK) return failed(context, why);
    bool right = reply->type == REDIS_REPLY_STRING && reply->len == size && memcmp(reply->str, expected, size) == 0;
    if (!right)
        snprintf(why, WHY, "asked for %.40s, the answer has type %d: %.40s", expected, reply->type,
                 reply->str ? reply->str : "");
    freeReplyObject(reply);
    return right ? ANSWERED : WRONG;
}

/* Writes what ECHO i of a question sends: its number and i, as often as it has rows. */
static size_t write_echo(char text[ECHO_MAX], const struct question *question, unsigned i) {
    int size = 0;
    for (long row = 0; row < question->rows && size < ECHO_MAX - 40; row++)
        size += snprintf(text + size, ECHO_MAX - (size_t)size, "%llu.%u ", (unsigned long long)question->number, i);
    return (size_t)size;
}

static enum outcome ask(void *of, const struct question *question, char why[WHY]) {
    redisContext *context = of;
    unsigned long long number = question->number;
    unsigned echoes = question->held ? 0 : 1 + question->variant % ECHOES;
    bool pops = question->held || question->us > 0;
    long us = question->us < 1000 ? 1000 : question->us; /* Redis counts milliseconds; 0 is for ever */
    char text[ECHO_MAX];
    int appended = REDIS_OK;
    if (question->held)
        appended = redisAppendCommand(context, "BLPOP held:%llu 0", number);
    else if (pops)
        appended = redisAppendCommand(context, "BLPOP empty:%llu 0.%06ld", number, us);
    for (unsigned i = 0; i < echoes && appended == REDIS_OK; i++)
        appended = redisAppendCommand(context, "ECHO %b", text, write_echo(text, question, i));
    if (appended != REDIS_OK) return failed(context, why);
    enum outcome outcome = pops ? take_pop(context, question, why) : ANSWERED;
    for (unsigned i = 0; i < echoes && outcome == ANSWERED; i++)
        outcome = take_echo(context, text, write_echo(text, question, i), why);
    return outcome;
}

static void *hold(const char *server, char why[WHY]) { return open_connection(server, 0, why); }

/* The number of clients that wait in BLPOP. */
static int held(void *context) {
    redisReply *reply = redisCommand(context, "INFO clients");
    const char *blocked = reply && reply->str ? strstr(reply->str, "blocked_clients:") : NULL;
    int count = blocked ? atoi(blocked + strlen("blocked_clients:")) : -1;
    if (reply) freeReplyObject(reply);
    return count;
}

static void release(void *context, int count) {
    for (int i = 1; i <= count; i++) freeReplyObject(redisCommand(context, "RPUSH held:%d %d", i, i));
    redisFree(context);
}

int main(int argc, char **argv) {
    static const struct client client = {
        .name = "hiredis",
        .libraries = libraries,
        .small_serve = small_redis,
        .small_address = "127.0.0.1:%d",
        .open = open_connection,
        .ask = ask,
        .close = close_connection,
        .hold = hold,
        .held = held,
        .release = release,
    };
    return client_main(argc, argv, &client);
}
