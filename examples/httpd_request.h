/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * httpd_request.h - the parser of requests for httpd: HTTP/1.0 and HTTP/1.1, as strict as RFC 9112.
 *
 * Two parsers that read the same bytes differently let a client smuggle a request past one of them. So the parser
 * refuses each form that another server may read differently, also where the RFC allows a server to accept the form.
 */
#ifndef HTTPD_REQUEST_H
#define HTTPD_REQUEST_H

#include <stddef.h>

enum {
    HEADER_LIMIT = 16 * 1024, /* bytes of a request up to the end of its header; more is 431 */
    URL_LIMIT = 8 * 1024,     /* more is 414 */
    BODY_LIMIT = 1024 * 1024, /* bytes of a body, which the parser discards; more is 413 */
    BODY_LINE_LIMIT = 1024    /* a chunk's size with its extensions, or a field of the trailer; more is 431 */
};

/* A piece of the request: its place, counted from the request's first byte. */
struct span {
    size_t offset;
    size_t length;
};

/* Zeroed before a request's first byte is parsed. */
struct request {
    enum { REQUEST_LINE, FIELDS, DATA, CHUNK_END, CHUNK_SIZE, TRAILER, COMPLETE } state; /* which part comes next */
    int refusal;           /* the status to refuse the request with, 0: none */
    size_t parsed;         /* the parser has read the bytes before this one; here begins a line, or data */
    size_t scanned;        /* the bytes of this line before this one are good */
    size_t line;           /* where the request line begins: empty lines may come before it */
    size_t header_length;  /* 0: the header has not ended yet */
    size_t data_left;      /* bytes still to come of the body, or of a chunk */
    size_t body_discarded; /* bytes of the body already discarded, chunk sizes included */

    struct span method, url;
    int http_major, http_minor;
    struct span range, if_range, if_modified_since;
    int has_if_none_match;
    int keep_alive;
    int body_unread; /* the client may send a body that the parser does not expect: no request can follow */

    /* The parser's own notes on the fields. */
    int hosts, content_lengths, transfer_encodings;
    int says_close, says_keep_alive, expects;

    int begun; /* for httpd: the request timeout runs */
};

/* Continues to parse. text begins with the request's first byte and has *length bytes. Discards the bytes of a body
 * that it has read, and then lowers *length; the header stays in its place. Returns 1 if the request is complete or
 * refused, 0 if it needs more bytes. */
int request_parse(struct request *r, char *text, size_t *length);

/* Finds the path and the query in a URL: "/path?query", or "http://host/path?query". A missing path is "/".
 * Returns 0, or 400 if the URL has another form. */
int split_url(const char *url, size_t length, const char **path, size_t *path_length, const char **query,
              size_t *query_length);

#endif
