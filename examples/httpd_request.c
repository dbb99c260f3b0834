/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_request.c - the parser of requests for httpd; no fibers and no I/O here. */
#include "httpd_request.h"

#include <string.h>
#include <strings.h>

enum { METHOD_LIMIT = 32, LINE_INCOMPLETE = -1, LINE_BAD = -2 };

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int is_blank(char c) { return c == ' ' || c == '\t'; }

static int hex_value(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* c is not a zero byte: the scan of the line has refused zero bytes. */
static int is_token_char(char c) { return is_letter(c) || is_digit(c) || strchr("!#$%&'*+-.^_`|~", c) != NULL; }

static int equals(const char *text, size_t length, const char *word) {
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

/* Returns the length of the line that begins at r->parsed, without its CR LF. A line with a control character is bad,
 * and so is a line that ends with LF or CR alone. It looks at each byte once, however many pieces a line arrives in. */
static long scan_line(struct request *r, const char *text, size_t length) {
    for (; r->scanned < length; r->scanned++) {
        unsigned char c = (unsigned char)text[r->scanned];
        if ((c >= ' ' && c != 0x7f) || c == '\t') {
            continue;
        }
        if (c != '\r') {
            return LINE_BAD;
        }
        if (r->scanned + 1 == length) {
            return LINE_INCOMPLETE;
        }
        return text[r->scanned + 1] == '\n' ? (long)(r->scanned - r->parsed) : LINE_BAD;
    }
    return LINE_INCOMPLETE;
}

/* "METHOD url HTTP/1.1", with one space between the parts. */
static int parse_request_line(struct request *r, const char *line, size_t length) {
    const char *end = line + length;
    const char *url = line;
    while (url < end && url - line < METHOD_LIMIT && ((*url >= 'A' && *url <= 'Z') || *url == '-')) {
        url++;
    }
    size_t method_length = (size_t)(url - line);
    if (method_length == 0 || url == end || *url++ != ' ') {
        return 400;
    }
    const char *version = url;
    while (version < end && !is_blank(*version)) {
        version++;
    }
    size_t url_length = (size_t)(version - url);
    if (url_length == 0 || end - version != 9 || memcmp(version, " HTTP/", 6) != 0 || !is_digit(version[6]) ||
        version[7] != '.' || !is_digit(version[8])) {
        return 400;
    }
    r->method.offset = r->line;
    r->method.length = method_length;
    r->url.offset = r->line + method_length + 1;
    r->url.length = url_length;
    r->http_major = version[6] - '0';
    r->http_minor = version[8] - '0';
    return url_length > URL_LIMIT ? 414 : r->http_major > 1 ? 505 : r->http_major < 1 ? 400 : 0;
}

/* Reads digits. All numbers beyond the limit have the same effect. Returns 0 if there is any other character. */
static int parse_length(const char *text, size_t length, size_t *number) {
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        if (!is_digit(text[i])) {
            return 0;
        }
        *number = *number > BODY_LIMIT ? *number : *number * 10 + (size_t)(text[i] - '0');
    }
    return length > 0;
}

/* Returns the end of the address in brackets, or NULL if it is not an IPv6 address. */
static const char *skip_ipv6(const char *text, const char *end) {
    const char *first = ++text;
    while (text < end && (hex_value(*text) >= 0 || *text == ':' || *text == '.')) {
        text++;
    }
    return text > first && text < end && *text == ']' ? text + 1 : NULL;
}

/* Returns the end of the name or IPv4 address, which may be empty. The characters are those of RFC 3986. */
static const char *skip_name(const char *text, const char *end) {
    while (text < end) {
        if (is_letter(*text) || is_digit(*text) || strchr("-._~!$&'()*+,;=", *text) != NULL) {
            text++;
        } else if (*text == '%' && end - text >= 3 && hex_value(text[1]) >= 0 && hex_value(text[2]) >= 0) {
            text += 3;
        } else {
            break;
        }
    }
    return text;
}

/* A name or address with an optional ":port", or the empty text. */
static int is_host(const char *text, size_t length) {
    const char *end = text + length;
    text = text < end && *text == '[' ? skip_ipv6(text, end) : skip_name(text, end);
    if (text != NULL && text < end && *text == ':') {
        for (text++; text < end && is_digit(*text); text++) {}
    }
    return text == end;
}

static void parse_connection(struct request *r, const char *list, size_t length) {
    const char *end = list + length;
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma != NULL ? comma : end;
        const char *next = comma != NULL ? comma + 1 : end;
        while (list < stop && is_blank(*list)) {
            list++;
        }
        while (list < stop && is_blank(stop[-1])) {
            stop--;
        }
        r->says_close |= equals(list, (size_t)(stop - list), "close");
        r->says_keep_alive |= equals(list, (size_t)(stop - list), "keep-alive");
        list = next;
    }
}

/* Finds the value in "Name: value". A line that begins with a blank has no name; it is the old form of continuing the
 * field before. Returns NULL if the line is no field. */
static const char *find_value(const char *line, size_t length, size_t *name_length, size_t *value_length) {
    const char *end = line + length;
    const char *value = line;
    while (value < end && is_token_char(*value)) {
        value++;
    }
    *name_length = (size_t)(value - line);
    if (*name_length == 0 || value == end || *value++ != ':') {
        return NULL;
    }
    while (value < end && is_blank(*value)) {
        value++;
    }
    while (value < end && is_blank(end[-1])) {
        end--;
    }
    *value_length = (size_t)(end - value);
    return value;
}

static int parse_field(struct request *r, const char *line, size_t line_length) {
    size_t name, length;
    const char *value = find_value(line, line_length, &name, &length);
    if (value == NULL) {
        return 400;
    }
    struct span place = {r->parsed + (size_t)(value - line), length};
    switch (name) { /* the length rules out most other fields */
    case 4:
        if (equals(line, name, "Host") && (r->hosts++ > 0 || !is_host(value, length))) {
            return 400;
        }
        break;
    case 5:
        if (equals(line, name, "Range")) {
            r->range = place;
        }
        break;
    case 6: r->expects |= equals(line, name, "Expect"); break;
    case 8:
        if (equals(line, name, "If-Range")) {
            r->if_range = place;
        }
        break;
    case 10:
        if (equals(line, name, "Connection")) {
            parse_connection(r, value, length);
        }
        break;
    case 13: r->has_if_none_match |= equals(line, name, "If-None-Match"); break;
    case 14:
        if (equals(line, name, "Content-Length") &&
            (r->content_lengths++ > 0 || !parse_length(value, length, &r->data_left))) {
            return 400;
        }
        break;
    case 17:
        if (equals(line, name, "If-Modified-Since")) {
            r->if_modified_since = place;
        } else if (equals(line, name, "Transfer-Encoding") &&
                   (r->transfer_encodings++ > 0 || !equals(value, length, "chunked"))) {
            return 400;
        }
        break;
    default: break;
    }
    return 0;
}

/* Handles the empty line after the fields. */
static int end_header(struct request *r, const char *text) {
    r->header_length = r->parsed + 2;
    if ((r->hosts == 0 && r->http_minor > 0) || (r->content_lengths > 0 && r->transfer_encodings > 0)) {
        return 400;
    }
    if (r->data_left > BODY_LIMIT) {
        return 413;
    }
    r->keep_alive = !r->says_close && (r->http_minor > 0 || r->says_keep_alive);
    if (r->http_minor == 0 && r->transfer_encodings > 0) {
        r->keep_alive = 0; /* HTTP/1.0 has no chunks: a proxy may see the end of this request in another place */
    }
    r->state = r->transfer_encodings > 0 ? CHUNK_SIZE : r->data_left > 0 ? DATA : COMPLETE;
    if (r->expects || (r->method.length == 7 && memcmp(text + r->method.offset, "CONNECT", 7) == 0)) {
        r->keep_alive = 0;
        r->body_unread = 1;
        r->state = COMPLETE;
    }
    return 0;
}

/* "1f" or "1f;extension=value", without blanks: servers disagree about the places where blanks may be. */
static int parse_chunk_size(struct request *r, const char *line, size_t length) {
    size_t at = 0;
    for (; at < length && hex_value(line[at]) >= 0; at++) {
        r->data_left = r->data_left * 16 + (size_t)hex_value(line[at]);
        if (r->data_left > BODY_LIMIT) {
            return 413;
        }
    }
    if (at == 0 || (at < length && (line[at] != ';' || at + 1 == length))) {
        return 400;
    }
    for (; at < length; at++) {
        if (line[at] <= ' ' || line[at] > '~') { /* a char may be signed: then other bytes are below the range */
            return 400;
        }
    }
    r->state = r->data_left > 0 ? DATA : TRAILER;
    return 0;
}

/* Returns the status to refuse the request with, or 0. */
static int parse_line(struct request *r, const char *text, size_t length) {
    const char *line = text + r->parsed;
    size_t name, value;
    switch (r->state) {
    case REQUEST_LINE:
        if (length == 0) {
            r->line = r->parsed + 2;
            return 0;
        }
        r->state = FIELDS;
        return parse_request_line(r, line, length);
    case FIELDS: return length == 0 ? end_header(r, text) : parse_field(r, line, length);
    case CHUNK_END: r->state = CHUNK_SIZE; return length == 0 ? 0 : 400;
    case CHUNK_SIZE: return parse_chunk_size(r, line, length);
    default: /* TRAILER: httpd ignores its fields */
        if (length == 0) {
            r->state = COMPLETE;
            return 0;
        }
        return find_value(line, length, &name, &value) != NULL ? 0 : 400;
    }
}

/* Returns the status to refuse the request with if it is too long, or 0. */
static int check_limits(const struct request *r, size_t length) {
    if (r->state == REQUEST_LINE && length - r->line > URL_LIMIT + METHOD_LIMIT + sizeof "  HTTP/1.1\r\n") {
        return 414;
    }
    if (r->header_length == 0 ? length > HEADER_LIMIT : r->header_length > HEADER_LIMIT) {
        return 431;
    }
    if (r->header_length == 0 || r->state == COMPLETE) {
        return 0;
    }
    if (r->state != DATA && length - r->parsed > BODY_LINE_LIMIT) {
        return 431;
    }
    /* The slack is for the sizes of chunks and the trailer. */
    return r->body_discarded + (r->parsed - r->header_length) > BODY_LIMIT + HEADER_LIMIT ? 413 : 0;
}

static void discard_body(struct request *r, char *text, size_t *length) {
    size_t count = r->parsed - r->header_length;
    memmove(text + r->header_length, text + r->parsed, *length - r->parsed);
    r->body_discarded += count;
    r->parsed -= count;
    r->scanned -= count;
    *length -= count;
}

int request_parse(struct request *r, char *text, size_t *length) {
    while (r->refusal == 0 && r->state != COMPLETE) {
        if (r->state == DATA) {
            size_t there = *length - r->parsed;
            size_t count = there < r->data_left ? there : r->data_left;
            r->parsed += count;
            r->scanned = r->parsed;
            r->data_left -= count;
            if (r->data_left > 0) {
                break;
            }
            r->state = r->transfer_encodings > 0 ? CHUNK_END : COMPLETE;
            continue;
        }
        long line = scan_line(r, text, *length);
        if (line == LINE_INCOMPLETE) {
            break;
        }
        r->refusal = line == LINE_BAD ? 400 : parse_line(r, text, (size_t)line);
        if (r->refusal == 0) {
            r->parsed += (size_t)line + 2;
            r->scanned = r->parsed;
        }
    }
    if (r->refusal == 0) {
        r->refusal = check_limits(r, *length);
    }
    if (r->refusal != 0 || r->state == COMPLETE) {
        return 1;
    }
    if (r->header_length > 0) {
        discard_body(r, text, length);
    }
    return 0;
}

int split_url(const char *url, size_t length, const char **path, size_t *path_length, const char **query,
              size_t *query_length) {
    const char *end = url + length;
    if (length == 0 || memchr(url, '#', length) != NULL) {
        return 400;
    }
    if (url[0] != '/') {
        size_t scheme = length > 8 && strncasecmp(url, "https://", 8) == 0 ? 8 : 7;
        if (length <= scheme || (scheme == 7 && strncasecmp(url, "http://", 7) != 0)) {
            return 400;
        }
        const char *host = url + scheme;
        for (url = host; url < end && *url != '/' && *url != '?'; url++) {}
        if (url == host || *host == ':' || !is_host(host, (size_t)(url - host))) {
            return 400;
        }
    }
    const char *mark = memchr(url, '?', (size_t)(end - url));
    *query = mark != NULL ? mark + 1 : end;
    *query_length = (size_t)(end - *query);
    *path = url;
    *path_length = (size_t)((mark != NULL ? mark : end) - url);
    if (*path_length == 0) {
        *path = "/";
        *path_length = 1;
    }
    return 0;
}
