/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The load of the benchmark https: fibers that ask for a page over TLS again and again, each on its connection.
 *
 *     https_load PORT PID FIBERS SECONDS keep|new
 *
 * keep: on the same connection. new: each time on a new one, after a full handshake. It begins to count when each fiber
 * has had its first answer and a tenth of the time has passed. It prints the requests answered since then, and the CPU
 * time that the server, process PID, took for them, in nanoseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fiberrt.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static SSL_CTX *context;
static struct sockaddr_in address = {.sin_family = AF_INET};
static int keep;
static int64_t done;
static fiber_wg_t starting; /* the fibers without an answer yet */

static void die(const char *what) {
    fprintf(stderr, "https_load: %s failed\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static long long read_clock(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) < 0) die("the server's clock");
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static SSL *open_connection(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SSL *ssl = SSL_new(context);
    if (fd < 0 || ssl == NULL || fiber_connect(fd, (struct sockaddr *)&address, sizeof address) < 0) die("connect");
    if (SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1) die("SSL_connect");
    return ssl;
}

static void close_connection(SSL *ssl) {
    int fd = SSL_get_fd(ssl);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    fiber_close(fd);
}

/* Sends a request and receives the answer: the header, and the body by the header's length. */
static void ask(SSL *ssl) {
    static const char *const requests[] = {
        "GET /page.html HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /page.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    char answer[8192];
    int length = 0, whole = 0;
    if (SSL_write(ssl, requests[keep], (int)strlen(requests[keep])) <= 0) die("SSL_write");
    while (whole == 0 || length < whole) {
        int count = SSL_read(ssl, answer + length, (int)sizeof answer - 1 - length);
        if (count <= 0) die("SSL_read");
        length += count;
        answer[length] = '\0';
        char *body = strstr(answer, "\r\n\r\n"), *size = strcasestr(answer, "\r\nContent-Length: ");
        if (body != NULL && size != NULL) whole = (int)(body + 4 - answer) + atoi(size + 18);
    }
    if (length != whole || strncmp(answer, "HTTP/1.1 200", 12) != 0) die("the answer");
    done++;
}

static void *work(void *unused) {
    SSL *ssl = open_connection();
    ask(ssl);
    if (fiber_wg_done(&starting) < 0) die("fiber_wg_done");
    for (;;) {
        if (!keep) {
            close_connection(ssl);
            ssl = open_connection();
        }
        ask(ssl);
    }
    return unused;
}

int main(int argc, char **argv) {
    clockid_t server;
    if (argc != 6 || clock_getcpuclockid(atoi(argv[2]), &server) != 0) {
        fprintf(stderr, "usage: https_load PORT PID FIBERS SECONDS keep|new\n");
        return 1;
    }
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int64_t duration = (int64_t)(atof(argv[4]) * 1e9);
    keep = strcmp(argv[5], "keep") == 0;
    signal(SIGPIPE, SIG_IGN);
    context = SSL_CTX_new(TLS_client_method());
    if (context == NULL) die("SSL_CTX_new");
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* each handshake is a full one */
    SSL_CTX_set_read_ahead(context, 1);
    int error = fiber_posix_adopt("libcrypto.so", 0);
    for (int i = atoi(argv[3]); i > 0 && error >= 0; i--) {
        error = fiber_wg_add(&starting, 1);
        if (error >= 0) error = fiber_spawn(NULL, work, NULL);
    }
    if (error >= 0) error = fiber_wg_wait(&starting);
    if (error >= 0) error = fiber_sleep(duration / 10);
    long long cpu = read_clock(server);
    done = 0;
    if (error >= 0) error = fiber_sleep(duration);
    if (error < 0) return fprintf(stderr, "https_load: %s\n", fiber_strerror(error)), 1;
    printf("%lld %lld\n", (long long)done, read_clock(server) - cpu);
    fflush(stdout);
    _Exit(0);
}
