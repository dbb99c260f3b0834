/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* plain_calls.h - the C library's calls, made by the library posix_plain_calls, which tests adopt. */
#ifndef FIBERRT_TEST_PLAIN_CALLS_H
#define FIBERRT_TEST_PLAIN_CALLS_H

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

int plain_poll(struct pollfd *entries, nfds_t count, int timeout_ms);
ssize_t plain_read(int fd, void *buffer, size_t count);
ssize_t plain_readv(int fd, const struct iovec *parts, int count);
ssize_t plain_recv(int fd, void *buffer, size_t count, int flags);
ssize_t plain_recvfrom(int fd, void *buffer, size_t count, int flags);
ssize_t plain_recvmsg(int fd, struct msghdr *message, int flags);
/* recvmmsg of two messages, each with a buffer of size bytes; returns the number of messages. */
int plain_recvmmsg(int fd, void *first, void *second, size_t size);
ssize_t plain_splice(int from, int to, size_t count);
int plain_connect(int fd, const struct sockaddr *address, socklen_t length);
int plain_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
