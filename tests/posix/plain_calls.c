/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* plain_calls.c - a library with the C library's calls, for tests that adopt it. */
#define _GNU_SOURCE
#include "plain_calls.h"
#include <fcntl.h>
#include <unistd.h>

int plain_poll(struct pollfd *entries, nfds_t count, int timeout_ms) { return poll(entries, count, timeout_ms); }
ssize_t plain_read(int fd, void *buffer, size_t count) { return read(fd, buffer, count); }
ssize_t plain_readv(int fd, const struct iovec *parts, int count) { return readv(fd, parts, count); }
ssize_t plain_recv(int fd, void *buffer, size_t count, int flags) { return recv(fd, buffer, count, flags); }
ssize_t plain_recvfrom(int fd, void *buffer, size_t count, int flags) {
    return recvfrom(fd, buffer, count, flags, NULL, NULL);
}
ssize_t plain_recvmsg(int fd, struct msghdr *message, int flags) { return recvmsg(fd, message, flags); }
int plain_recvmmsg(int fd, void *first, void *second, size_t size) {
    struct iovec parts[2] = {{first, size}, {second, size}};
    struct mmsghdr messages[2] = {{{0}, 0}, {{0}, 0}};
    for (int i = 0; i < 2; i++) messages[i].msg_hdr.msg_iov = &parts[i], messages[i].msg_hdr.msg_iovlen = 1;
    return recvmmsg(fd, messages, 2, 0, NULL);
}
ssize_t plain_splice(int from, int to, size_t count) { return splice(from, NULL, to, NULL, count, 0); }
int plain_connect(int fd, const struct sockaddr *address, socklen_t length) { return connect(fd, address, length); }
int plain_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms) {
    return epoll_wait(fd, events, most, timeout_ms);
}
