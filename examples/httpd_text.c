/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_text.c - dates, media types, paths, ranges and escapes for httpd; no fibers and no I/O here. */
#define _GNU_SOURCE
#include "httpd_text.h"

#include <string.h>
#include <strings.h>

static void put_two_digits(char *to, int number) {
    to[0] = (char)('0' + number / 10 % 10);
    to[1] = (char)('0' + number % 10);
}

/* strftime would cost more than the rest of a header. */
void format_http_date(char *to, time_t when) {
    /* The first and the last second with a year of four digits; the times of files may lie far beyond. */
    const time_t first = -62167219200, last = 253402300799;
    when = when < first ? first : when > last ? last : when;
    struct tm t;
    gmtime_r(&when, &t);
    memcpy(to, "Sun, 00 Jan 0000 00:00:00 GMT", HTTP_DATE_LENGTH);
    memcpy(to, &"SunMonTueWedThuFriSat"[3 * t.tm_wday], 3);
    memcpy(to + 8, &"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * t.tm_mon], 3);
    put_two_digits(to + 5, t.tm_mday);
    put_two_digits(to + 12, (t.tm_year + 1900) / 100);
    put_two_digits(to + 14, (t.tm_year + 1900) % 100);
    put_two_digits(to + 17, t.tm_hour);
    put_two_digits(to + 20, t.tm_min);
    put_two_digits(to + 23, t.tm_sec);
}

time_t parse_http_date(const char *text, size_t length) {
    static const char *const forms[] = {
        "%a, %d %b %Y %H:%M:%S GMT",
        "%A, %d-%b-%y %H:%M:%S GMT",
        "%a %b %d %H:%M:%S %Y",
    };
    char copy[64];
    if (length >= sizeof copy) {
        return -1;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm t;
        memset(&t, 0, sizeof t);
        const char *rest = strptime(copy, forms[i], &t);
        if (rest != NULL && *rest == '\0') {
            return timegm(&t);
        }
    }
    return -1;
}

const char *status_text(int status) {
    switch (status) {
    case 200: return "OK";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 416: return "Range Not Satisfiable";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Internal Server Error"; /* 500 */
    }
}

const char *content_type(const char *path) {
    static const char *const types[][2] = {
        {"html", "text/html; charset=utf-8"},
        {"htm", "text/html; charset=utf-8"},
        {"css", "text/css; charset=utf-8"},
        {"js", "text/javascript; charset=utf-8"},
        {"mjs", "text/javascript; charset=utf-8"},
        {"txt", "text/plain; charset=utf-8"},
        {"md", "text/markdown; charset=utf-8"},
        {"c", "text/plain; charset=utf-8"},
        {"h", "text/plain; charset=utf-8"},
        {"csv", "text/csv; charset=utf-8"},
        {"xml", "text/xml; charset=utf-8"},
        {"json", "application/json"},
        {"svg", "image/svg+xml"},
        {"png", "image/png"},
        {"jpg", "image/jpeg"},
        {"jpeg", "image/jpeg"},
        {"gif", "image/gif"},
        {"webp", "image/webp"},
        {"avif", "image/avif"},
        {"ico", "image/x-icon"},
        {"woff", "font/woff"},
        {"woff2", "font/woff2"},
        {"ttf", "font/ttf"},
        {"pdf", "application/pdf"},
        {"wasm", "application/wasm"},
        {"zip", "application/zip"},
        {"gz", "application/gzip"},
        {"mp3", "audio/mpeg"},
        {"ogg", "audio/ogg"},
        {"mp4", "video/mp4"},
        {"webm", "video/webm"},
    };
    const char *name = strrchr(path, '/');
    const char *dot = strrchr(name != NULL ? name : path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof types / sizeof types[0]; i++) {
        if (strcasecmp(dot + 1, types[i][0]) == 0) {
            return types[i][1];
        }
    }
    return "application/octet-stream";
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Clients resolve ".." before they send a request, so a ".." that arrives here is an attack. */
static int has_dot_dot(const char *path) {
    for (const char *dots = path; (dots = strstr(dots, "..")) != NULL; dots++) {
        if ((dots == path || dots[-1] == '/') && (dots[2] == '/' || dots[2] == '\0')) {
            return 1;
        }
    }
    return 0;
}

int decode_path(const char *url, size_t length, char *path, size_t size) {
    size_t in = 0;
    size_t out = 0;
    if (length == 0 || url[0] != '/') {
        return 400;
    }
    while (in < length) {
        unsigned char byte = (unsigned char)url[in++];
        if (byte <= ' ' || byte == 0x7f) {
            return 400;
        }
        if (byte == '%') {
            int high = in < length ? hex_digit(url[in]) : -1;
            int low = in + 1 < length ? hex_digit(url[in + 1]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0)) {
                return 400; /* half an escape, or a zero byte */
            }
            byte = (unsigned char)(high * 16 + low);
            in += 2;
        }
        if (byte == '\\') {
            return 403; /* a separator on other systems */
        }
        if (byte == '/' && out == 0) {
            continue; /* paths below the root do not begin with it */
        }
        if (out == size - 1) {
            return 404; /* longer than any path can be */
        }
        path[out++] = (char)byte;
    }
    path[out] = '\0';
    return has_dot_dot(path) ? 403 : 0;
}

/* Returns the end of the digits, or NULL if there are none. A number that is too large counts as the largest. */
static const char *parse_digits(const char *at, const char *stop, int64_t *number) {
    const char *start = at;
    *number = 0;
    for (; at < stop && *at >= '0' && *at <= '9'; at++) {
        int digit = *at - '0';
        *number = *number > (INT64_MAX - 1 - digit) / 10 ? INT64_MAX - 1 : *number * 10 + digit;
    }
    return at > start ? at : NULL;
}

int parse_range(const char *text, size_t length, int64_t size, int64_t *first, int64_t *end) {
    const char *stop = text + length;
    int64_t from = 0;
    int64_t to = INT64_MAX - 1;
    if (length <= 6 || strncasecmp(text, "bytes=", 6) != 0) {
        return 200;
    }
    text += 6;
    if (*text == '-') {
        int64_t count;
        if (parse_digits(text + 1, stop, &count) != stop) {
            return 200;
        }
        from = count == 0 ? size : count >= size ? 0 : size - count;
    } else {
        text = parse_digits(text, stop, &from);
        if (text == NULL || text == stop || *text != '-') {
            return 200;
        }
        if (text + 1 < stop && (parse_digits(text + 1, stop, &to) != stop || to < from)) {
            return 200;
        }
    }
    if (from >= size) {
        return 416;
    }
    *first = from;
    *end = to < size ? to + 1 : size;
    return 206;
}

char *put_escaped_html(char *to, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&': to = stpcpy(to, "&amp;"); break;
        case '<': to = stpcpy(to, "&lt;"); break;
        case '>': to = stpcpy(to, "&gt;"); break;
        case '"': to = stpcpy(to, "&quot;"); break;
        case '\'': to = stpcpy(to, "&#39;"); break;
        default: *to++ = *text;
        }
    }
    *to = '\0';
    return to;
}

char *put_escaped_url(char *to, const char *text) {
    static const char hex[] = "0123456789ABCDEF";
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if ((byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
            strchr("-._~", byte) != NULL) {
            *to++ = (char)byte;
        } else {
            *to++ = '%';
            *to++ = hex[byte >> 4];
            *to++ = hex[byte & 15];
        }
    }
    *to = '\0';
    return to;
}

char *append_escaped(char *to, const char *end, const char *text, size_t length) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < length && end - to >= 4; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte > ' ' && byte < 0x7f && byte != '"' && byte != '\\') {
            *to++ = (char)byte;
        } else {
            *to++ = '\\';
            *to++ = 'x';
            *to++ = hex[byte >> 4];
            *to++ = hex[byte & 15];
        }
    }
    return to;
}
