/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * httpd.c - a static file server: one fiber per connection, with a scope that limits each of the fiber's waits.
 *
 *     httpd [--port N] [--root DIR] [--host ADDR] [--threads N] [--max-connections N] [--idle-timeout-ms N]
 *           [--request-timeout-ms N] [--write-timeout-ms N] [--shutdown-timeout-ms N] [--access-log FILE|-|none]
 *           [--pages DATABASE] [--metrics PATH]
 *
 * Each cord has these fibers: one accepts; one per connection reads a request, answers it, and begins again; the main
 * flow waits for the end and then ends everything in order. The first cord also has a fiber that waits for a signal and
 * one that writes the access log. A connection's fiber keeps its data in a struct on its own stack, so neither a
 * connection nor a request takes memory from the heap.
 *
 * With --threads there are several cords. Each has its own socket that listens on the port, and the kernel distributes
 * connections over these sockets without regard to load. A fiber never changes its thread, so a cord that has many more
 * connections than another starts the fiber of the next connection on that other cord.
 *
 * From top to bottom: settings, output, reading a request, finding a file, answering, connections, the server. Other
 * files: httpd_request (the parser of requests), httpd_text (dates, paths, ranges, escapes), httpd_log (the access
 * log), httpd_listing (directories), httpd_pages (pages from an SQLite database, for paths that name no file).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fiberrt.h>
#include <getopt.h>
#include <limits.h>
#include <linux/openat2.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "httpd_listing.h"
#include "httpd_log.h"
#include "httpd_pages.h"
#include "httpd_request.h"
#include "httpd_text.h"

/* ---- settings -------------------------------------------------------------------------------------------------- */

enum {
    INPUT_SIZE = HEADER_LIMIT + 4096, /* after a full header, room for body bytes, more than BODY_LINE_LIMIT */
    OUTPUT_SIZE = 64 * 1024,          /* if header and file fit, they go out in one send */
    REFUSALS_LIMIT = 64,              /* so many connections over the limit get an answer; others are just closed */
    THREADS_LIMIT = 64,
    CROWDED = 8, /* a cord with so many more connections than another hands the next one over */
    PATH_SIZE = PATH_MAX
};

#define LINGER_NS FIBER_SEC(2)         /* the time for reading input after the last answer */
#define ACCEPT_RETRY_NS FIBER_MSEC(50) /* after running out of descriptors or memory */

struct connection;

struct cord {
    fiber_cord_t handle;
    fiber_t main_flow;
    int listener;
    int64_t end;              /* the time at which it cancels its remaining connections */
    int connections;          /* of this cord, including those on their way from another; see count_up */
    struct connection *first; /* the list of those that have arrived */
    fiber_sem_t listing;      /* one permit: the right to make a piece of a listing */
};

static struct {
    int64_t idle_timeout_ns;     /* between requests */
    int64_t request_timeout_ns;  /* from the first byte of a request to its last */
    int64_t write_timeout_ns;    /* without the client taking a byte */
    int64_t shutdown_timeout_ns; /* after SIGINT or SIGTERM, for the requests under way to finish */
    int max_connections;
    const char *metrics; /* the path, without its '/', whose answer has the figures; NULL: none */
    int root;            /* the directory that is served */
    char root_path[PATH_SIZE];
    int have_openat2;

    int threads;
    struct cord cords[THREADS_LIMIT]; /* one per thread */
    int connections;                  /* of all cords: accepted, not closed, within the limit */
    int refusals;                     /* of all cords: accepted, not closed, over the limit */
    int failed;
    int start_error;      /* the error of a cord that could not start */
    fiber_wg_t starting;  /* the cords that have not started yet */
    fiber_event_t start;  /* all have started, and may accept */
    fiber_wg_t accepting; /* the cords that may still hand over a connection */
    fiber_event_t stop;
} server = {
    .idle_timeout_ns = FIBER_SEC(60),
    .request_timeout_ns = FIBER_SEC(10),
    .write_timeout_ns = FIBER_SEC(30),
    .shutdown_timeout_ns = FIBER_SEC(5),
    .threads = 1,
};

/* The running cord. A fiber never changes its thread, so a thread-local variable belongs to the cord. */
static __thread struct cord *here;

static int stopping(void) { return fiber_event_is_set(&server.stop); }

/* Only these three functions and take_place touch the counters that the cords share. */
static int count_of(const int *counter) { return __atomic_load_n(counter, __ATOMIC_RELAXED); }

static int count_up(int *counter) { return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED); }

static int count_down(int *counter) { return __atomic_sub_fetch(counter, 1, __ATOMIC_RELAXED); }

struct connection {
    int fd;
    int idle;   /* waits for the first byte of a request */
    int broken; /* no more can be sent */
    int unread; /* input may be left that the server will not read */
    fiber_t fiber;
    fiber_scope_t deadline; /* one for the whole connection; each wait sets its time anew */
    struct connection *next, **link;
    char peer[INET6_ADDRSTRLEN];

    struct request request;
    size_t begin; /* where the request begins in the input, */
    size_t end;   /* and where the input ends */

    int status; /* of the last answer; 0: no answer yet */
    size_t header_length;
    int64_t sent;
    size_t output_length;

    char input[INPUT_SIZE]; /* large arrays last: only their used pages take memory */
    char output[OUTPUT_SIZE];
};

/* ---- output ---------------------------------------------------------------------------------------------------- */

static void put(struct connection *c, const char *text, size_t length) {
    size_t room = OUTPUT_SIZE - c->output_length;
    if (length > room) {
        length = room; /* cannot be: the longest header is an eighth of it */
    }
    memcpy(c->output + c->output_length, text, length);
    c->output_length += length;
}

#define PUT_LITERAL(c, literal) put(c, literal, sizeof(literal) - 1)

static void put_text(struct connection *c, const char *text) { put(c, text, strlen(text)); }

static void put_number(struct connection *c, int64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(c, digits + at, sizeof digits - at);
}

/* ---- reading a request ----------------------------------------------------------------------------------------- */

static const char *span_text(struct connection *c, struct span span) { return c->input + c->begin + span.offset; }

/* Waits for more input. Returns 0 if the connection is over. */
static int receive(struct connection *c) {
    if (c->begin > 0) {
        c->end -= c->begin;
        memmove(c->input, c->input + c->begin, c->end);
        c->begin = 0;
    }
    int flags = 0;
    c->idle = c->end == 0;
    if (c->idle && stopping()) {
        flags = MSG_DONTWAIT; /* a request that has already arrived is still answered */
    } else if (c->idle) {
        fiber_scope_set_timeout(c->deadline, server.idle_timeout_ns);
    } else if (!c->request.begun) {
        c->request.begun = 1;
        fiber_scope_set_timeout(c->deadline, server.request_timeout_ns);
    }
    int64_t count;
    do {
        count = fiber_recv(c->fd, c->input + c->end, INPUT_SIZE - c->end, flags);
    } while (count == -EINTR && !c->idle); /* meant for idle connections: this one just got input */
    if (count == -ETIMEDOUT && !c->idle) {
        c->request.refusal = 408;
        return 1;
    }
    if (count == -EAGAIN) {
        /* The connection stays idle, so the interrupt of idle connections also ends its linger. A request may arrive
         * during that, because the last answer did not say that it was the last. */
        c->unread = c->status != 0;
        return 0;
    }
    c->idle = 0;
    if (count <= 0) {
        return 0;
    }
    c->end += (size_t)count;
    return 1;
}

/* Reads until there is a request to answer or refuse. Returns 0 if the connection is over. */
static int read_request(struct connection *c) {
    c->begin += c->request.parsed;
    memset(&c->request, 0, sizeof c->request);
    for (;;) {
        size_t length = c->end - c->begin;
        int ready = request_parse(&c->request, c->input + c->begin, &length);
        c->end = c->begin + length;
        if (ready) {
            c->unread |= c->request.body_unread;
            return 1;
        }
        if (!receive(c)) {
            return 0;
        }
    }
}

/* ---- finding a file -------------------------------------------------------------------------------------------- */

/* Without openat2: opens the path, and then asks the kernel for the path of the descriptor. */
static int open_and_check(const char *path, int flags) {
    int fd = openat(server.root, path, flags);
    if (fd < 0) {
        return -errno;
    }
    char link[64];
    char found[PATH_SIZE];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, found, sizeof found - 1);
    size_t root_length = strlen(server.root_path);
    if (length > 0) {
        found[length] = '\0';
        if (strcmp(server.root_path, "/") == 0 || (strncmp(found, server.root_path, root_length) == 0 &&
                                                   (found[root_length] == '/' || found[root_length] == '\0'))) {
            return fd;
        }
    }
    close(fd);
    return -EXDEV;
}

/* Opens only files below the root, whatever ".." and links say. Returns a descriptor or -errno.
 *
 * A plain system call, as are fstat and close of files: each waits at most for a directory block of a local disk, and
 * going through the ring would cost more than the call itself. */
static int open_below_root(const char *path, int extra_flags) {
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | extra_flags;
    if (!server.have_openat2) {
        return open_and_check(path, flags);
    }
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = (unsigned)flags;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    for (int attempt = 1;; attempt++) {
        int fd = (int)syscall(SYS_openat2, server.root, path, &how, sizeof how);
        if (fd >= 0) {
            return fd;
        }
        if (errno != EAGAIN || attempt == 10) { /* EAGAIN: a rename elsewhere, so the kernel could not decide */
            return -errno;
        }
    }
}

static int status_of_error(int error) {
    switch (-error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG: return 404;
    case EACCES:
    case EPERM:
    case ELOOP:
    case EXDEV: /* out of the root */
    case ENXIO: /* a socket */ return 403;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN: return 503;
    default: return 500;
    }
}

/* Reads data in the page cache directly. For other data the ring reads, and other fibers run meanwhile. */
static int64_t read_file(struct connection *c, int file, char *buffer, size_t count, int64_t offset) {
    struct iovec whole = {buffer, count};
    ssize_t got = preadv2(file, &whole, 1, offset, RWF_NOWAIT);
    if (got > 0) {
        return got;
    }
    fiber_scope_set_timeout(c->deadline, server.write_timeout_ns); /* so far the deadline was that of the request */
    return fiber_pread(file, buffer, count, offset);
}

/* ---- answering ------------------------------------------------------------------------------------------------- */

/* Whether the request is a HEAD, by its text: the parser does not say so for a request that it refuses. */
static int head_only(struct connection *c) {
    size_t line = c->begin + c->request.line;
    return c->end >= line + 5 && memcmp(c->input + line, "HEAD ", 5) == 0;
}

/* Sends the content of the output. Every send that succeeds moves the deadline. */
static void send_output(struct connection *c) {
    size_t done = 0;
    while (done < c->output_length && !c->broken) {
        fiber_scope_set_timeout(c->deadline, server.write_timeout_ns);
        int64_t count = fiber_send(c->fd, c->output + done, c->output_length - done, 0);
        if (count >= 0) {
            done += (size_t)count;
        } else if (count != -EINTR) {
            c->broken = 1;
        }
    }
    c->sent += (int64_t)done;
    c->output_length = 0;
}

/* The Date field, made once a second by each cord. */
static void put_date(struct connection *c) {
    static __thread time_t second;
    static __thread char date[HTTP_DATE_LENGTH];
    time_t now = time(NULL);
    if (now != second) {
        second = now;
        format_http_date(date, now);
    }
    PUT_LITERAL(c, "\r\nDate: ");
    put(c, date, sizeof date);
}

/* Writes the status line and the fields of every answer. length < 0: no Content-Length. */
static void begin_answer(struct connection *c, int status, const char *type, int64_t length) {
    struct request *r = &c->request;
    if (stopping()) {
        r->keep_alive = 0;
        c->unread = 1; /* the next request may have been sent already */
    }
    c->status = status;
    c->sent = 0;
    PUT_LITERAL(c, "HTTP/1.1 ");
    put_number(c, status);
    PUT_LITERAL(c, " ");
    put_text(c, status_text(status));
    PUT_LITERAL(c, "\r\nServer: fiberrt-httpd");
    put_date(c);
    if (!r->keep_alive) {
        PUT_LITERAL(c, "\r\nConnection: close");
    } else if (r->http_minor == 0) {
        PUT_LITERAL(c, "\r\nConnection: keep-alive");
    }
    if (type != NULL) {
        PUT_LITERAL(c, "\r\nContent-Type: ");
        put_text(c, type);
    }
    if (length >= 0) {
        PUT_LITERAL(c, "\r\nContent-Length: ");
        put_number(c, length);
    }
}

static void end_header(struct connection *c) {
    PUT_LITERAL(c, "\r\n\r\n");
    c->header_length = c->output_length;
}

static void send_body(struct connection *c, const char *body, size_t length) {
    while (length > 0 && !c->broken) {
        size_t room = OUTPUT_SIZE - c->output_length;
        size_t count = length < room ? length : room;
        put(c, body, count);
        body += count;
        length -= count;
        if (length > 0) {
            send_output(c);
        }
    }
    send_output(c);
}

/* Sends a small page with the status. fields are further header fields, each with "\r\n" before it. */
static void answer_status(struct connection *c, int status, const char *fields) {
    char page[256];
    const char *text = status_text(status);
    int length = snprintf(page, sizeof page, "<!DOCTYPE html>\n<title>%d %s</title>\n<h1>%d %s</h1>\n", status, text,
                          status, text);
    begin_answer(c, status, "text/html; charset=utf-8", length);
    put_text(c, fields);
    end_header(c);
    send_body(c, page, head_only(c) ? 0 : (size_t)length);
}

/* Redirects from "/directory" to "/directory/", where relative links work. */
static void answer_redirect(struct connection *c, const char *path, size_t path_length, const char *query,
                            size_t query_length) {
    while (path_length > 1 && path[1] == '/') { /* "//name/" would be another host */
        path++;
        path_length--;
    }
    begin_answer(c, 301, NULL, 0);
    PUT_LITERAL(c, "\r\nLocation: ");
    put(c, path, path_length);
    PUT_LITERAL(c, "/");
    if (query_length > 0) {
        PUT_LITERAL(c, "?");
        put(c, query, query_length);
    }
    end_header(c);
    send_output(c);
}

/* Sends a part of a file, after the header. */
static void send_file(struct connection *c, int file, int64_t first, int64_t end) {
    while (first < end && !c->broken) {
        size_t room = OUTPUT_SIZE - c->output_length;
        size_t count = end - first < (int64_t)room ? (size_t)(end - first) : room;
        int64_t got = read_file(c, file, c->output + c->output_length, count, first);
        if (got == -EINTR) {
            continue;
        }
        if (got <= 0) { /* it shrank, or cannot be read: the promised length cannot be sent */
            c->broken = 1;
            break;
        }
        c->output_length += (size_t)got;
        first += got;
        if (c->output_length == OUTPUT_SIZE) {
            send_output(c);
        }
    }
    send_output(c);
}

/* Sends header and file; the first bytes of the file go out with the header in one send. */
static void answer_file(struct connection *c, int file, const struct stat *about, const char *path) {
    struct request *r = &c->request;
    int64_t size = about->st_size;
    int64_t first = 0;
    int64_t end = size;
    int status = 200;
    /* This server has no entity tags, so If-None-Match never matches, and its presence overrides the date. */
    if (r->if_modified_since.length > 0 && !r->has_if_none_match) {
        time_t since = parse_http_date(span_text(c, r->if_modified_since), r->if_modified_since.length);
        status = since != -1 && about->st_mtime <= since ? 304 : 200;
    }
    if (status == 200 && r->range.length > 0 && !head_only(c) &&
        (r->if_range.length == 0 ||
         parse_http_date(span_text(c, r->if_range), r->if_range.length) == about->st_mtime)) {
        status = parse_range(span_text(c, r->range), r->range.length, size, &first, &end);
    }
    if (status == 416) {
        char field[64];
        snprintf(field, sizeof field, "\r\nContent-Range: bytes */%lld", (long long)size);
        answer_status(c, 416, field);
        return;
    }

    begin_answer(c, status, status == 304 ? NULL : content_type(path), status == 304 ? -1 : end - first);
    char modified[HTTP_DATE_LENGTH];
    format_http_date(modified, about->st_mtime);
    PUT_LITERAL(c, "\r\nLast-Modified: ");
    put(c, modified, sizeof modified);
    PUT_LITERAL(c, "\r\nAccept-Ranges: bytes");
    if (status == 206) {
        PUT_LITERAL(c, "\r\nContent-Range: bytes ");
        put_number(c, first);
        PUT_LITERAL(c, "-");
        put_number(c, end - 1);
        PUT_LITERAL(c, "/");
        put_number(c, size);
    }
    end_header(c);
    send_file(c, file, first, status == 304 || head_only(c) ? first : end);
}

static int64_t write_metrics(void *file) { return fiber_metrics_write(*(int *)file); }

/* Answers with the figures of fibers and cords, for a monitoring system. They are written into memory, by another
 * thread: the library looks at each fiber that waits, and blocks its thread meanwhile. */
static void answer_metrics(struct connection *c) {
    struct stat about;
    int64_t result = 0;
    int file = memfd_create("metrics", MFD_CLOEXEC);
    int error = file < 0 ? -errno : fiber_offload(write_metrics, &file, &result);
    if (error == 0) {
        error = (int)result;
    }
    if (error == 0 && fstat(file, &about) != 0) {
        error = -errno;
    }
    if (error < 0) {
        answer_status(c, status_of_error(error), "");
    } else {
        begin_answer(c, 200, "application/openmetrics-text; version=1.0.0; charset=utf-8", about.st_size);
        end_header(c);
        send_file(c, file, 0, head_only(c) ? 0 : about.st_size);
    }
    if (file >= 0) {
        close(file);
    }
}

/* Writes the next piece of a listing to the output, as a chunk. Returns the length of the piece, 0 at the end, -errno.
 *
 * One fiber of a cord at a time makes a piece, and the others wait. So however many clients ask for large directories,
 * another request waits for at most one piece, not for one piece of each client. */
static long put_listing_piece(struct connection *c, struct listing *listing, int chunked) {
    int result;
    do {
        fiber_scope_set_timeout(c->deadline, server.write_timeout_ns);
        result = fiber_sem_wait(&here->listing, 1);
    } while (result == -EINTR);
    if (result < 0) {
        return result;
    }
    enum { FRONT = 6, BACK = 2 }; /* "ffff\r\n" and "\r\n" */
    char *front = c->output + c->output_length;
    size_t frame = chunked ? FRONT + BACK : 0;
    char *piece = chunked ? front + FRONT : front;
    long length = listing_read(listing, piece, OUTPUT_SIZE - c->output_length - frame);
    fiber_sem_post(&here->listing, 1);
    if (length < 0) {
        return length;
    }
    if (chunked) { /* the last one is empty, and so is the trailer that follows it */
        char size[FRONT + 1];
        snprintf(size, sizeof size, "%04x\r\n", (unsigned)length);
        memcpy(front, size, FRONT);
        memcpy(piece + length, "\r\n", BACK);
    }
    c->output_length += frame + (size_t)length;
    return length;
}

/* Sends a listing, the one answer of unknown length: in chunks, or to a client of HTTP/1.0 up to the end of the
 * connection. Takes over the descriptor. */
static void answer_listing(struct connection *c, int directory, const char *path) {
    struct listing *listing;
    int chunked = c->request.http_minor > 0;
    int result = listing_open(&listing, directory, path);
    if (result < 0) {
        answer_status(c, status_of_error(result), "");
        return;
    }
    c->request.keep_alive &= chunked;
    begin_answer(c, 200, "text/html; charset=utf-8", -1);
    if (chunked) {
        PUT_LITERAL(c, "\r\nTransfer-Encoding: chunked");
    }
    end_header(c);
    long length = head_only(c) ? 0 : 1;
    while (length > 0 && !c->broken) {
        length = put_listing_piece(c, listing, chunked);
        c->broken |= length < 0;
        send_output(c);
        fiber_reschedule_if_due(); /* after a cancel, the next wait fails too */
    }
    send_output(c);
    listing_close(listing);
}

/* Answers for a path that names no file: with a page of the database, if there is one. */
static void answer_page(struct connection *c, const char *path) {
    struct page page;
    int error = find_page(path, &page);
    if (error != 0) {
        answer_status(c, status_of_error(error), "");
        return;
    }
    begin_answer(c, 200, page.type, (int64_t)page.length);
    end_header(c);
    send_body(c, page.body, head_only(c) ? 0 : page.length);
    free_page(&page);
}

/* Answers for a path that ends in '/': with the index file, or with a listing. */
static void answer_directory(struct connection *c, char *path, size_t length) {
    static const char index[] = "index.html";
    struct stat about;
    if (length + sizeof index > PATH_SIZE) {
        answer_status(c, 404, "");
        return;
    }
    memcpy(path + length, index, sizeof index);
    int fd = open_below_root(path, 0);
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        answer_file(c, fd, &about, path);
        close(fd);
        return;
    }
    if (fd >= 0) {
        close(fd); /* it exists, but is no regular file */
    } else if (fd != -ENOENT) {
        answer_status(c, status_of_error(fd), "");
        return;
    }
    path[length] = '\0';
    fd = open_below_root(length > 0 ? path : ".", O_DIRECTORY);
    if (fd < 0) {
        answer_status(c, status_of_error(fd), "");
        return;
    }
    answer_listing(c, fd, path);
}

static void answer_path(struct connection *c) {
    const char *raw_path, *query;
    size_t raw_length, query_length;
    char path[PATH_SIZE];
    struct span url = c->request.url;
    int refusal = split_url(span_text(c, url), url.length, &raw_path, &raw_length, &query, &query_length);
    if (refusal == 0) {
        refusal = decode_path(raw_path, raw_length, path, sizeof path);
    }
    if (refusal != 0) {
        answer_status(c, refusal, "");
        return;
    }
    if (server.metrics != NULL && strcmp(path, server.metrics) == 0) {
        answer_metrics(c);
        return;
    }
    size_t length = strlen(path);
    if (length == 0 || path[length - 1] == '/') {
        answer_directory(c, path, length);
        return;
    }
    int fd = open_below_root(path, 0);
    struct stat about;
    if (fd == -ENOENT) {
        answer_page(c, path);
        return;
    }
    if (fd < 0) {
        answer_status(c, status_of_error(fd), "");
        return;
    }
    if (fstat(fd, &about) != 0) {
        answer_status(c, 500, "");
    } else if (S_ISDIR(about.st_mode)) {
        answer_redirect(c, raw_path, raw_length, query, query_length);
    } else if (!S_ISREG(about.st_mode)) {
        answer_status(c, 403, ""); /* devices, FIFOs */
    } else {
        answer_file(c, fd, &about, path);
    }
    close(fd);
}

static void refuse_request(struct connection *c, int status) {
    c->request.keep_alive = 0;
    c->unread = 1;
    answer_status(c, status, status == 503 ? "\r\nRetry-After: 1" : "");
}

static void answer(struct connection *c) {
    struct span method = c->request.method;
    if (c->request.refusal != 0) {
        refuse_request(c, c->request.refusal);
    } else if (!head_only(c) && !(method.length == 3 && memcmp(span_text(c, method), "GET", 3) == 0)) {
        answer_status(c, 405, "\r\nAllow: GET, HEAD");
    } else {
        answer_path(c);
    }
}

static void log_answer(struct connection *c) {
    struct request *r = &c->request;
    int64_t body_bytes = c->sent - (int64_t)c->header_length;
    struct log_entry entry = {
        .peer = c->peer,
        .method = r->method.length > 0 ? span_text(c, r->method) : NULL,
        .method_length = r->method.length,
        .url = span_text(c, r->url),
        .url_length = r->url.length,
        .http_major = r->http_major,
        .http_minor = r->http_minor,
        .status = c->status,
        .body_bytes = body_bytes > 0 ? body_bytes : 0,
    };
    log_add(&entry);
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

static int open_connection(struct connection *c, int fd) {
    c->fd = fd;
    c->idle = 0;
    c->broken = 0;
    c->unread = 0;
    c->status = 0;
    c->begin = c->end = 0;
    c->output_length = 0;
    c->deadline.id = 0;
    memset(&c->request, 0, sizeof c->request);
    strcpy(c->peer, "-");
    if (log_is_open()) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        if (getpeername(fd, (struct sockaddr *)&address, &length) == 0) {
            getnameinfo((struct sockaddr *)&address, length, c->peer, sizeof c->peer, NULL, 0, NI_NUMERICHOST);
        }
    }
    fiber_self(&c->fiber);
    c->next = here->first;
    c->link = &here->first;
    if (c->next != NULL) {
        c->next->link = &c->next;
    }
    here->first = c;
    return fiber_scope_open(&c->deadline, server.request_timeout_ns, 0);
}

/* Closing a socket with unread input resets the connection, and the reset can overtake the last answer. So this
 * function shuts sending down, and reads until the client has seen the end. */
static void linger(struct connection *c) {
    shutdown(c->fd, SHUT_WR);
    fiber_scope_set_timeout(c->deadline, LINGER_NS);
    while (fiber_recv(c->fd, c->input, INPUT_SIZE, 0) > 0) {}
}

static void close_connection(struct connection *c) {
    if (c->broken) {
        /* The client gets a reset, not an end that looks like a whole answer, and the kernel keeps no data to send. */
        struct linger reset = {1, 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    } else if (c->unread) {
        linger(c);
    }
    fiber_scope_close(c->deadline, NULL);
    fiber_close(c->fd);
    *c->link = c->next;
    if (c->next != NULL) {
        c->next->link = c->link;
    }
    if (count_down(&here->connections) == 0 && stopping()) {
        fiber_wakeup(here->main_flow);
    }
}

static void *serve_connection(void *arg) {
    struct connection c;
    if (open_connection(&c, (int)(intptr_t)arg) < 0) {
        c.broken = 1;
    }
    while (!c.broken && read_request(&c)) {
        fiber_trace_begin("answer");
        answer(&c);
        log_answer(&c);
        fiber_trace_end();
        if (!c.request.keep_alive) {
            c.unread |= c.begin + c.request.parsed < c.end;
            break;
        }
    }
    close_connection(&c);
    count_down(&server.connections);
    return NULL;
}

/* Tells a client that the limit of connections is reached. */
static void *refuse_connection(void *arg) {
    struct connection c;
    if (open_connection(&c, (int)(intptr_t)arg) < 0) {
        c.broken = 1;
    } else {
        refuse_request(&c, 503);
        log_answer(&c);
    }
    close_connection(&c);
    count_down(&server.refusals);
    return NULL;
}

/* ---- the server ------------------------------------------------------------------------------------------------ */

static int fail(const char *what, int error) {
    fprintf(stderr, "httpd: %s: %s\n", what, fiber_strerror(error));
    return 1;
}

/* Counts up, but never beyond a limit, not even for a moment: another cord would then refuse a connection. */
static int take_place(int *counter, int limit) {
    int count = count_of(counter);
    while (count < limit) {
        if (__atomic_compare_exchange_n(counter, &count, count + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return 1;
        }
    }
    return 0;
}

/* Returns the cord for a new connection: this one, or the cord with the fewest if this one has many more. */
static struct cord *choose_cord(void) {
    struct cord *chosen = here;
    int limit = count_of(&here->connections) - CROWDED;
    for (struct cord *cord = server.cords; cord < server.cords + server.threads; cord++) {
        int connections = count_of(&cord->connections);
        if (connections <= limit) {
            chosen = cord;
            limit = connections - 1;
        }
    }
    return chosen;
}

/* Makes the fiber of a connection. The connection counts for its cord before the fiber is there. */
static int start_connection(struct cord *cord, void *(*run)(void *), int fd) {
    void *arg = (void *)(intptr_t)fd;
    count_up(&cord->connections);
    int result = cord == here ? fiber_spawn(NULL, run, arg) : fiber_post(cord->handle, run, arg);
    if (result < 0) {
        count_down(&cord->connections);
    }
    return result;
}

static void take_connection(int fd) {
    void *(*run)(void *) = NULL;
    int *counter = &server.connections;
    if (take_place(counter, server.max_connections)) {
        run = serve_connection;
    } else if (take_place(counter = &server.refusals, REFUSALS_LIMIT)) {
        run = refuse_connection;
    } else {
        fiber_close(fd);
        return;
    }
    /* A posted fiber runs, because no cord ends while another accepts. If posting fails, it runs here. */
    if (start_connection(choose_cord(), run, fd) < 0 && start_connection(here, run, fd) < 0) {
        count_down(counter);
        fiber_close(fd);
    }
}

/* Ends the server. failed: not 0 after an error, which the caller has reported. */
static void stop(int failed) {
    __atomic_fetch_or(&server.failed, failed, __ATOMIC_RELAXED);
    fiber_event_set(&server.stop);
}

static void *accept_connections(void *unused) {
    (void)unused;
    for (;;) {
        int fd = fiber_accept4(here->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            take_connection(fd);
            continue;
        }
        switch (-fd) {
        case ECANCELED: return NULL;
        case ECONNABORTED: /* it was gone before it was accepted */ break;
        case EBADF:
        case EINVAL:
        case ENOTSOCK:
        case EOPNOTSUPP: /* it will not get better */ stop(fail("accept", fd)); return NULL;
        default: /* EMFILE, ENFILE, ENOBUFS, ENOMEM: ending connections make room again */
            fiber_sleep(ACCEPT_RETRY_NS);
            break;
        }
    }
}

static void *await_signal(void *signal_fd) {
    struct signalfd_siginfo info;
    int64_t count = fiber_read((int)(intptr_t)signal_fd, &info, sizeof info);
    stop(count == sizeof info ? 0 : fail("signals", (int)count));
    return NULL;
}

/* Returns when no connection is left here or the time is over. */
static void wait_for_connections(int64_t timeout_ns) {
    int64_t end = fiber_now() + timeout_ns;
    for (int64_t left = timeout_ns; count_of(&here->connections) > 0 && left > 0; left = end - fiber_now()) {
        fiber_yield_timeout(left);
    }
}

/* Answers the requests under way, closes idle connections, and cancels connections that do not end in time. */
static void shut_down(fiber_t acceptor) {
    here->end = fiber_now() + server.shutdown_timeout_ns;
    fiber_cancel(acceptor, NULL);
    if (fiber_join(acceptor, NULL) < 0) {
        fiber_detach(acceptor); /* this fiber was cancelled meanwhile */
    }
    fiber_close(here->listener);
    fiber_wg_done(&server.accepting);
    for (struct connection *c = here->first; c != NULL; c = c->next) {
        if (c->idle) {
            fiber_interrupt(c->fiber, NULL); /* not a cancel, so a request that has just arrived is still answered */
        }
    }
    int result = fiber_wg_wait_timeout(&server.accepting, here->end - fiber_now());
    if (result == 0) {
        wait_for_connections(here->end - fiber_now()); /* no more connections arrive */
    }
    for (struct connection *c = here->first; c != NULL; c = c->next) {
        fiber_cancel(c->fiber, NULL);
    }
    wait_for_connections(FIBER_SEC(1));
}

/* Adds the calling thread's cord to the server. From then on other cords may hand connections over to it. */
static void enter_cord(struct cord *cord) {
    here = cord;
    fiber_cord_self(&cord->handle);
    fiber_self(&cord->main_flow);
    fiber_sem_init(&cord->listing, 1);
}

/* The main flow of each cord. */
static void *run_cord(void) {
    fiber_t acceptor = {0};
    int result = fiber_spawn(&acceptor, accept_connections, NULL);
    if (result < 0) {
        stop(fail("cannot accept", result));
    }
    result = fiber_event_wait(&server.stop);
    if (result < 0) {
        fail("cannot wait for the end", result);
    }
    shut_down(acceptor);
    return NULL;
}

static void *run_other_cord(void *cord) {
    struct statx about;
    enter_cord(cord);
    int result = fiber_statx(server.root, "", AT_EMPTY_PATH, 0, &about); /* opens its ring */
    if (result < 0) {
        __atomic_store_n(&server.start_error, result, __ATOMIC_RELAXED);
    }
    fiber_wg_done(&server.starting);
    return fiber_event_wait(&server.start) == 0 ? run_cord() : NULL;
}

/* Starts the other threads. No cord accepts before all cords can receive connections. */
static int start_cords(void) {
    fiber_event_init(&server.start, FIBER_EVENT_MANUAL);
    fiber_event_init(&server.stop, FIBER_EVENT_MANUAL);
    fiber_wg_add(&server.starting, server.threads - 1);
    fiber_wg_add(&server.accepting, server.threads);
    enter_cord(&server.cords[0]);
    for (struct cord *cord = server.cords + 1; cord < server.cords + server.threads; cord++) {
        fiber_cord_t handle;
        int result = fiber_cord_start(&handle, NULL, run_other_cord, cord);
        if (result < 0) {
            return fail("cannot start a thread", result);
        }
    }
    int result = fiber_wg_wait(&server.starting);
    if (result < 0) {
        return fail("cannot wait for the other threads", result);
    }
    if (server.start_error < 0) {
        return fail("cannot do I/O on every thread", server.start_error);
    }
    fiber_event_set(&server.start);
    return 0;
}

/* Waits until the other cords have cancelled their connections; but not for a cord that is stuck, for example in a file
 * system that does not answer. */
static void join_cords(void) {
    for (struct cord *cord = server.cords + 1; cord < server.cords + server.threads; cord++) {
        int64_t left = here->end + FIBER_SEC(2) - fiber_now();
        if (fiber_cord_join_timeout(cord->handle, NULL, left > 0 ? left : 0) == -ETIMEDOUT) {
            fputs("httpd: a thread is stuck; httpd ends without it\n", stderr);
        }
    }
}

static int set_option(int fd, int level, int option) {
    int on = 1;
    return setsockopt(fd, level, option, &on, sizeof on);
}

/* Returns a listening socket or -1. The first socket on the port allows others only after its bind, so that it does not
 * share the port of another server. */
static int open_listener(const struct sockaddr_storage *address, socklen_t length, int first) {
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Accepted sockets inherit TCP_NODELAY: an answer goes out whole, waiting for more to send would only delay it. */
    if (fd < 0 || set_option(fd, SOL_SOCKET, SO_REUSEADDR) < 0 || set_option(fd, IPPROTO_TCP, TCP_NODELAY) < 0 ||
        (!first && set_option(fd, SOL_SOCKET, SO_REUSEPORT) < 0) ||
        bind(fd, (const struct sockaddr *)address, length) < 0 ||
        (server.threads > 1 && set_option(fd, SOL_SOCKET, SO_REUSEPORT) < 0) || listen(fd, SOMAXCONN) < 0) {
        return -1;
    }
    return fd;
}

/* Opens a listening socket for each cord, and prints their URL. Returns 0, or 1 after it has printed an error. */
static int open_listeners(const char *host, const char *port, char *url, size_t size) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        fprintf(stderr, "httpd: %s is not a numeric address: %s\n", host, gai_strerror(error));
        return 1;
    }
    struct sockaddr_storage address;
    socklen_t length = found->ai_addrlen;
    memcpy(&address, found->ai_addr, length);
    freeaddrinfo(found);
    for (int i = 0; i < server.threads; i++) {
        int fd = open_listener(&address, length, i == 0);
        /* Port 0 means any free port: the other sockets use the port that the first one got. */
        if (fd < 0 || getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
            return fail("cannot listen", errno);
        }
        server.cords[i].listener = fd;
    }
    char number[8];
    getnameinfo((struct sockaddr *)&address, length, NULL, 0, number, sizeof number, NI_NUMERICSERV);
    snprintf(url, size, address.ss_family == AF_INET6 ? "http://[%s]:%s/" : "http://%s:%s/", host, number);
    return 0;
}

/* Raises the limit of descriptors as far as possible, and returns the number of connections that fit: each has one
 * descriptor for its socket and one for the file that it sends. A cord has a listener, and the backend up to three. */
static int raise_descriptor_limit(void) {
    struct rlimit limit;
    int others = 32 + 4 * (server.threads - 1);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 400;
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > 20000 ? 10000 : (int)limit.rlim_cur > others + 32 ? ((int)limit.rlim_cur - others) / 2 : 16;
}

/* Opens the directory to serve. This is the first operation, so it shows whether there is a backend. */
static int open_root(const char *path) {
    server.root = fiber_open(path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (server.root == -ENOTSUP) {
        fprintf(stderr, "httpd: there is no backend for I/O here: see fiber_backend_name in fiberrt.h.\n");
        return 2;
    }
    if (server.root < 0) {
        return fail(path, server.root);
    }
    if (realpath(path, server.root_path) == NULL) {
        return fail(path, errno);
    }
    server.have_openat2 = 1;
    int fd = open_below_root(".", O_DIRECTORY);
    if (fd == -ENOSYS || fd == -EPERM) {
        server.have_openat2 = 0; /* a sandbox that does not know the call */
    } else if (fd >= 0) {
        close(fd);
    }
    return 0;
}

static long parse_number(const char *option, const char *text, long minimum, long maximum) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < minimum || number > maximum) {
        fprintf(stderr, "httpd: --%s takes a number from %ld to %ld\n", option, minimum, maximum);
        exit(1);
    }
    return number;
}

int main(int argc, char **argv) {
    enum { PORT, ROOT, HOST, THREADS, MAX_CONNECTIONS, IDLE, REQUEST, WRITE, SHUTDOWN, ACCESS_LOG, PAGES, METRICS };
    static const struct option options[] = {{"port", required_argument, NULL, PORT},
                                            {"root", required_argument, NULL, ROOT},
                                            {"host", required_argument, NULL, HOST},
                                            {"threads", required_argument, NULL, THREADS},
                                            {"max-connections", required_argument, NULL, MAX_CONNECTIONS},
                                            {"idle-timeout-ms", required_argument, NULL, IDLE},
                                            {"request-timeout-ms", required_argument, NULL, REQUEST},
                                            {"write-timeout-ms", required_argument, NULL, WRITE},
                                            {"shutdown-timeout-ms", required_argument, NULL, SHUTDOWN},
                                            {"access-log", required_argument, NULL, ACCESS_LOG},
                                            {"pages", required_argument, NULL, PAGES},
                                            {"metrics", required_argument, NULL, METRICS},
                                            {NULL, 0, NULL, 0}};
    const char *port = "8080";
    const char *root = ".";
    const char *host = "127.0.0.1";
    const char *log_name = "none";
    const char *pages = NULL;
    int option;
    int index;
    int usable = 1;
    while ((option = getopt_long(argc, argv, "", options, &index)) != -1) {
        const char *name = option == '?' ? "" : options[index].name;
        switch (option) {
        case PORT: parse_number(name, port = optarg, 0, 65535); break;
        case ROOT: root = optarg; break;
        case HOST: host = optarg; break;
        case THREADS: server.threads = (int)parse_number(name, optarg, 1, THREADS_LIMIT); break;
        case MAX_CONNECTIONS: server.max_connections = (int)parse_number(name, optarg, 1, 1000000); break;
        case IDLE: server.idle_timeout_ns = FIBER_MSEC(parse_number(name, optarg, 1, 1000000000)); break;
        case REQUEST: server.request_timeout_ns = FIBER_MSEC(parse_number(name, optarg, 1, 1000000000)); break;
        case WRITE: server.write_timeout_ns = FIBER_MSEC(parse_number(name, optarg, 1, 1000000000)); break;
        case SHUTDOWN: server.shutdown_timeout_ns = FIBER_MSEC(parse_number(name, optarg, 1, 1000000000)); break;
        case ACCESS_LOG: log_name = optarg; break;
        case PAGES: pages = optarg; break;
        case METRICS:
            usable = usable && optarg[0] == '/';
            server.metrics = optarg + 1;
            break;
        default: usable = 0; break;
        }
    }
    if (!usable || optind < argc) {
        fprintf(stderr, "usage: httpd [--port N] [--root DIR] [--host ADDR] [--threads N] [--max-connections N]\n"
                        "             [--idle-timeout-ms N] [--request-timeout-ms N] [--write-timeout-ms N]\n"
                        "             [--shutdown-timeout-ms N] [--access-log FILE|-|none] [--pages DATABASE]\n"
                        "             [--metrics PATH]\n");
        return 1;
    }

    int room = raise_descriptor_limit();
    if (server.max_connections == 0) {
        server.max_connections = room;
    }

    /* A fiber reads the two signals from a descriptor. Ignoring SIGPIPE, the server outlives the log's reader. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    if (signal_fd < 0) {
        return fail("signalfd", errno);
    }

    char url[128];
    int failure = open_root(root);
    if (failure != 0) {
        return failure;
    }
    int result = log_open(log_name);
    if (result < 0) {
        return fail(log_name, result);
    }
    result = pages != NULL ? pages_open(pages) : 0;
    if (result < 0) {
        return fail(pages, result);
    }
    if (open_listeners(host, port, url, sizeof url) != 0) {
        return 1;
    }
    if (start_cords() != 0) {
        return 1;
    }
    result = fiber_spawn(NULL, await_signal, (void *)(intptr_t)signal_fd);
    if (result < 0) {
        return fail("cannot wait for signals", result);
    }
    printf("listening on %s\n", url);
    fflush(stdout);
    run_cord();
    join_cords();
    log_close();
    return count_of(&server.failed);
}
