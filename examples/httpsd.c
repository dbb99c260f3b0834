/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * httpsd.c - a server of static files over TLS: OpenSSL's own blocking calls, SSL_accept, SSL_read and SSL_write, wait
 * as fibers, one for each connection, because the program has adopted OpenSSL.
 *
 *     httpsd PORT CERTIFICATE-FILE KEY-FILE DIRECTORY [LIMIT-MS]
 *
 * A scope limits the time of each connection's handshake, and of each request with its answer; the time between two
 * requests counts too. SIGHUP makes it read the certificate and the key again: new connections get the new ones. Where
 * the kernel encrypts (kTLS), it also sends large files by itself.
 *
 * It knows GET and HEAD, does not decode "%41" in paths, and closes connections whose requests have a body.
 */
#define _GNU_SOURCE
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <fiberrt.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADER_LIMIT = 8192, OUTPUT_SIZE = 16384 }; /* bytes of a request; of the largest TLS record */

static const char *certificate_file, *key_file;
static SSL_CTX *context; /* with the certificate for new connections */
static int root;         /* the directory */
static int64_t limit_ns = FIBER_SEC(30);

/* ---- TLS ------------------------------------------------------------------------------------------------------- */

static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                           unsigned offered_length, void *unused) {
    static const unsigned char ours[] = "\010http/1.1";
    (void)ssl, (void)unused;
    int found = SSL_select_next_proto((unsigned char **)chosen, length, ours, sizeof ours - 1, offered, offered_length);
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Returns NULL if the certificate or the key cannot be used, after it has printed the reason. */
static SSL_CTX *new_context(void) {
    SSL_CTX *new = SSL_CTX_new(TLS_server_method());
    if (new != NULL && SSL_CTX_use_certificate_chain_file(new, certificate_file) == 1 &&
        SSL_CTX_use_PrivateKey_file(new, key_file, SSL_FILETYPE_PEM) == 1 && SSL_CTX_check_private_key(new) == 1) {
        SSL_CTX_set_min_proto_version(new, TLS1_2_VERSION);
        SSL_CTX_set_session_cache_mode(new, SSL_SESS_CACHE_OFF); /* clients keep their sessions (tickets) */
        SSL_CTX_set_alpn_select_cb(new, choose_protocol, NULL);
        SSL_CTX_set_read_ahead(new, 1); /* one read for a record, not two */
#ifdef SSL_OP_ENABLE_KTLS
        SSL_CTX_set_options(new, SSL_OP_ENABLE_KTLS);
#endif
        return new;
    }
    ERR_print_errors_fp(stderr);
    SSL_CTX_free(new);
    return NULL;
}

static void *reload_at_sighup(void *signals) {
    while (fiber_sigwait(signals, NULL) > 0) {
        SSL_CTX *old = context, *new = new_context();
        if (new != NULL) {
            context = new;
            SSL_CTX_free(old); /* connections that use it have their references */
        }
        printf(new != NULL ? "reloaded\n" : "not reloaded\n");
        fflush(stdout);
    }
    return NULL;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

struct connection {
    SSL *ssl;
    int broken;               /* nothing more can be sent */
    size_t length;            /* bytes received */
    char input[HEADER_LIMIT]; /* a request, and perhaps the beginning of the next one */
    char output[OUTPUT_SIZE];
};

/* Reads until the input has a whole header. Returns the header's length, with the empty line, or 0: the end. */
static size_t read_header(struct connection *c) {
    char *end;
    while ((end = memmem(c->input, c->length, "\r\n\r\n", 4)) == NULL) {
        if (c->length == sizeof c->input) return 0;
        int count = SSL_read(c->ssl, c->input + c->length, (int)(sizeof c->input - c->length));
        if (count <= 0) {
            c->broken = SSL_get_error(c->ssl, count) != SSL_ERROR_ZERO_RETURN;
            return 0;
        }
        c->length += (size_t)count;
    }
    return (size_t)(end - c->input) + 4;
}

/* Opens the file of a request below the directory, and nowhere else. */
static int open_file(const char *path, struct stat *about) {
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK, .resolve = RESOLVE_BENEATH};
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd >= 0 && (fstat(fd, about) < 0 || !S_ISREG(about->st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

static const char *type_of(const char *path) {
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".txt", "text/plain; charset=utf-8"},
                                           {".css", "text/css"},
                                           {".js", "text/javascript"},
                                           {".svg", "image/svg+xml"},
                                           {".png", "image/png"}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof types / sizeof *types; i++) {
        if (strcmp(dot, types[i][0]) == 0) return types[i][1];
    }
    return "application/octet-stream";
}

/* Sends the first bytes of the output: all, or the connection is broken. */
static void send_output(struct connection *c, size_t count) {
    if (!c->broken) c->broken = SSL_write(c->ssl, c->output, (int)count) <= 0;
}

/* Sends count bytes, which the output has, and then the file. */
static void send_file(struct connection *c, size_t count, int file, off_t size) {
    off_t sent = 0;
    ssize_t more = 1;
#ifdef SSL_OP_ENABLE_KTLS
    if (size > OUTPUT_SIZE && BIO_get_ktls_send(SSL_get_wbio(c->ssl))) {
        send_output(c, count);
        while (sent < size && !c->broken) {
            more = SSL_sendfile(c->ssl, file, sent, (size_t)(size - sent), 0);
            c->broken = more <= 0;
            sent += more;
        }
        return;
    }
#endif
    do { /* header and small file are one record */
        more = sent < size ? pread(file, c->output + count, OUTPUT_SIZE - count, sent) : 0;
        if (more < 0 || (more == 0 && sent < size)) c->broken = 1; /* the file has become shorter */
        send_output(c, count + (size_t)(more > 0 ? more : 0));
        sent += more;
        count = 0;
    } while (sent < size && !c->broken);
}

static const char *reason_of(int status) {
    return status == 200 ? "OK" : status == 400 ? "Bad Request" : status == 404 ? "Not Found" : "Not Implemented";
}

/* Cuts the next word off a text. */
static char *next_word(char **text) {
    char *word = *text;
    *text += strcspn(*text, " \r");
    if (**text != '\0') *(*text)++ = '\0';
    return word;
}

/* Whether the fields of a header let the connection go on after the answer. */
static int may_keep(const char *fields) {
    static const char *const others[] = {"Connection: close", "Content-Length:", "Transfer-Encoding:"};
    for (const char *line = fields; line != NULL && *line == '\n'; line = strchr(line + 1, '\n')) {
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            if (strncasecmp(line + 1, others[i], strlen(others[i])) == 0) return 0;
        }
    }
    return 1;
}

/* Answers the request whose header is at the beginning of the input. Returns whether the connection goes on. */
static int answer(struct connection *c, size_t header) {
    struct stat about = {0};
    int file = -1, status = 400, keep = 0;
    c->input[header - 2] = '\0'; /* the header is a text now, which a byte 0 in it cuts short */
    char *rest = c->input, *method = next_word(&rest), *path = next_word(&rest), *version = next_word(&rest);
    char start[1024];
    path[strcspn(path, "?")] = '\0';
    size_t length = strlen(path);
    if (path[0] == '/' && strncmp(version, "HTTP/1.", 7) == 0) {
        int known = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
        if (path[length - 1] == '/') {
            snprintf(start, sizeof start, "%.1000sindex.html", path);
            path = start;
        }
        if (known) file = open_file(path + 1, &about);
        status = !known ? 501 : file < 0 ? 404 : 200;
        keep = known && strcmp(version, "HTTP/1.0") != 0 && may_keep(rest);
    }
    int count = snprintf(c->output, sizeof c->output,
                         "HTTP/1.1 %d %s\r\nServer: fiberrt-httpsd\r\n"
                         "Content-Type: %s\r\nContent-Length: %lld\r\n%s\r\n",
                         status, reason_of(status), type_of(path), (long long)about.st_size,
                         keep ? "" : "Connection: close\r\n");
    if (file >= 0 && strcmp(method, "GET") == 0)
        send_file(c, (size_t)count, file, about.st_size);
    else
        send_output(c, (size_t)count);
    if (file >= 0) close(file);
    c->length -= header;
    memmove(c->input, c->input + header, c->length);
    return keep && !c->broken;
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

static void *serve(void *arg) {
    int fd = (int)(intptr_t)arg, on = 1;
    struct connection c;
    c.ssl = SSL_new(context);
    c.length = 0, c.broken = 1;
    fiber_scope_t limit;
    if (c.ssl != NULL && SSL_set_fd(c.ssl, fd) == 1 && fiber_scope_open(&limit, limit_ns, 0) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c.broken = SSL_accept(c.ssl) != 1;
        size_t header = !c.broken;
        while (header > 0) {
            fiber_scope_set_timeout(limit, limit_ns);
            header = read_header(&c);
            if (header > 0 && !answer(&c, header)) break;
        }
        if (!c.broken) SSL_shutdown(c.ssl); /* tells the client that this is the end */
        fiber_scope_close(limit, NULL);
    }
    SSL_free(c.ssl);
    ERR_clear_error(); /* the queue is the thread's */
    fiber_close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    static sigset_t signals;
    if (argc < 5) return fprintf(stderr, "usage: httpsd PORT CERTIFICATE-FILE KEY-FILE DIRECTORY [LIMIT-MS]\n"), 1;
    certificate_file = argv[2], key_file = argv[3];
    if (argc > 5) limit_ns = FIBER_MSEC(atoi(argv[5]));
    root = open(argv[4], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return perror(argv[4]), 1;
    if ((context = new_context()) == NULL) return 1;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals), sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* it stays pending until the fiber waits for it */

    int error = fiber_posix_adopt("libcrypto.so", 0);          /* reads and writes */
    if (error >= 0) error = fiber_posix_adopt("libssl.so", 0); /* SSL_sendfile */
    if (error >= 0) error = fiber_spawn(NULL, reload_at_sighup, &signals);
    if (error < 0) return fprintf(stderr, "httpsd: %s\n", fiber_strerror(error)), 1;
    int listener = listen_on_loopback(argv[1]);
    for (;;) {
        int fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fiber_spawn(NULL, serve, (void *)(intptr_t)fd) < 0) fiber_close(fd);
        if (fd < 0 && !may_accept_again(fd)) return fprintf(stderr, "httpsd: %s\n", fiber_strerror(fd)), 1;
    }
}
