/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * client_curl.c - libcurl. A fiber asks all its questions by one easy handle, so that the handle keeps its connection:
 * HTTP/1.1 or, by TLS, HTTP/2 for every second fiber. Some questions use HTTP/1.0, where the end of the connection ends
 * the answer.
 */
#include "client.h"
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const libraries[] = {"libcurl.so", "libcrypto.so", NULL};
struct handle {
    CURL *curl;
    const char *server;
    bool http2; /* if by TLS */
};

static void begin(void) { curl_global_init(CURL_GLOBAL_ALL); }

static void *open_connection(const char *server, unsigned worker, char why[WHY]) {
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle || !(handle->curl = curl_easy_init())) return free(handle), snprintf(why, WHY, "no memory"), NULL;
    handle->server = server;
    handle->http2 = worker % 2;
    curl_easy_setopt(handle->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle->curl, CURLOPT_PROXY, "");
    if (getenv("SERVER_CA")) curl_easy_setopt(handle->curl, CURLOPT_CAINFO, getenv("SERVER_CA"));
    return handle;
}

static void close_connection(void *of) {
    struct handle *handle = of;
    curl_easy_cleanup(handle->curl);
    free(handle);
}

/* A body whose lines must all be the number. */
struct body {
    uint64_t number;
    long lines;
    bool wrong;
    size_t partial; /* bytes of the last line, which has no end yet */
    char line[64];
};

static size_t receive(char *data, size_t size, size_t count, void *arg) {
    struct body *body = arg;
    for (size_t i = 0; i < size * count; i++) {
        if (data[i] != '\n') {
            if (body->partial < sizeof body->line - 1) body->line[body->partial++] = data[i];
            continue;
        }
        body->line[body->partial] = 0;
        body->partial = 0;
        body->lines++;
        if (!body->wrong && strtoull(body->line, NULL, 10) != body->number) body->wrong = true;
        if (body->wrong) break; /* the line is kept */
    }
    return body->wrong ? 0 : size * count;
}

static enum outcome ask(void *of, const struct question *question, char why[WHY]) {
    struct handle *handle = of;
    struct body body = {.number = question->number};
    const char *path = question->held ? "held" : question->rows > 1 ? "many" : "n";
    /* One in four long answers has no length: it is complete when the server closes the connection. */
    bool closed = question->rows > 1 && question->variant % 4 == 0;
    if (question->rows > 1 && question->variant % 2 && !question->small) path = "pages", body.number %= 100;
    long lines = question->rows > 1 ? 10000 : 1;
    char url[200];
    long ms = (question->us + 500) / 1000; /* nginx takes three digits after the point */
    snprintf(url, sizeof url, "%s/%s/%llu?s=%ld.%03ld", handle->server, path, (unsigned long long)body.number,
             ms / 1000, ms % 1000);
    long version = closed ? CURL_HTTP_VERSION_1_0 : handle->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1;
    curl_easy_setopt(handle->curl, CURLOPT_HTTP_VERSION, version);
    curl_easy_setopt(handle->curl, CURLOPT_URL, url);
    curl_easy_setopt(handle->curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(handle->curl, CURLOPT_WRITEDATA, &body);
    CURLcode code = curl_easy_perform(handle->curl);
    long status = 0;
    curl_easy_getinfo(handle->curl, CURLINFO_RESPONSE_CODE, &status);
    if (body.wrong) {
        snprintf(why, WHY, "%.100s: line %ld is %.40s", url, body.lines, body.line);
        return WRONG;
    }
    if (code != CURLE_OK) {
        snprintf(why, WHY, "%s: %s", url, curl_easy_strerror(code));
        return REFUSED;
    }
    if (status == 200 && body.lines == lines && body.partial == 0) return ANSWERED;
    snprintf(why, WHY, "%s: status %ld, %ld of %ld lines, no error", url, status, body.lines, lines);
    return WRONG;
}

/* nginx asks this server for the answers to held questions. */
static void *hold(const char *server, char why[WHY]) {
    (void)server;
    const char *path = getenv("SERVER_HTTP_BACKEND");
    struct small_server *backend = path ? small_server_start(small_http, path) : NULL;
    if (!backend) return snprintf(why, WHY, "the backend does not start"), NULL;
    chmod(path, 0666); /* nginx is another user */
    return backend;
}

static int held(void *backend) { return small_server_held(backend); }

static void release(void *backend, int count) {
    (void)count;
    small_server_release(backend); /* it ends with the program */
}

int main(int argc, char **argv) {
    static const struct client client = {
        .name = "libcurl",
        .libraries = libraries,
        .small_serve = small_http,
        .small_address = "http://127.0.0.1:%d",
        .begin = begin,
        .open = open_connection,
        .ask = ask,
        .close = close_connection,
        .hold = hold,
        .held = held,
        .release = release,
    };
    return client_main(argc, argv, &client);
}
