/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The load of the benchmark echo, used for all servers. It opens CONNECTIONS connections. Each has one request at a
 * time, and sends the next one when the answer to the last is complete.
 *
 *     echo_load PORT PID CONNECTIONS SECONDS
 *
 * It begins to count after a tenth of the time. It prints the requests answered since then, the CPU time that the
 * server (all threads of PID) took for them, and the time that passed, both in nanoseconds.
 */
#define _GNU_SOURCE
#include "echo.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { REQUEST_SIZE = 64 };

static size_t missing[MAX_DESCRIPTORS]; /* bytes of the answer not yet received, by descriptor */

static long long read_clock(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) < 0) {
        die("the server's clock");
    }
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void ask(int fd) {
    static const char request[REQUEST_SIZE] = "sixty-four bytes, of which these words are the first ones, go ";
    if (send(fd, request, REQUEST_SIZE, MSG_NOSIGNAL) != REQUEST_SIZE) {
        die("send");
    }
    missing[fd] = REQUEST_SIZE;
}

static void begin(int epoll, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct epoll_event event = {.events = EPOLLIN};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    event.data.fd = fd;
    if (fd < 0 || fd >= MAX_DESCRIPTORS || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        die("connect");
    }
    ask(fd);
}

/* Returns the number of requests answered. */
static int receive(int fd) {
    char answer[REQUEST_SIZE];
    ssize_t count = recv(fd, answer, missing[fd], MSG_DONTWAIT);
    if (count <= 0) {
        if (count < 0 && errno == EAGAIN) {
            return 0;
        }
        die("recv");
    }
    missing[fd] -= (size_t)count;
    if (missing[fd] > 0) {
        return 0;
    }
    ask(fd);
    return 1;
}

int main(int argc, char **argv) {
    clockid_t server;
    if (argc != 5 || clock_getcpuclockid(atoi(argv[2]), &server) != 0) {
        fprintf(stderr, "usage: echo_load PORT PID CONNECTIONS SECONDS\n");
        return 1;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = atoi(argv[3]); i > 0; i--) {
        begin(epoll, atoi(argv[1]));
    }
    long long duration = (long long)(atof(argv[4]) * 1e9);
    if (duration < 20000000) {
        duration = 20000000; // a shorter run measures nothing
    }
    long long start = read_clock(CLOCK_MONOTONIC) + duration / 10;
    long long end = start + duration;
    long long cpu_start = 0;
    long long requests = 0;
    for (;;) {
        struct epoll_event events[256];
        int count = epoll_wait(epoll, events, 256, 1000);
        if (count == 0) {
            fprintf(stderr, "no answer for a second\n");
            return 1;
        }
        for (int i = 0; i < count; i++) {
            requests += receive(events[i].data.fd);
        }
        long long now = read_clock(CLOCK_MONOTONIC);
        if (cpu_start == 0 && now >= start) {
            start = now;
            end = now + duration; // count from here, as this process may have been delayed until now
            requests = 0;
            cpu_start = read_clock(server);
        } else if (now >= end && requests > 0) {
            printf("%lld %lld %lld\n", requests, read_clock(server) - cpu_start, now - start);
            return 0;
        }
    }
}
