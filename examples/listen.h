/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* listen.h - common code of the examples that serve: echo, graceful, forward. */
#ifndef LISTEN_H
#define LISTEN_H

#include <stdint.h>

/* Returns a listening socket on 127.0.0.1 and prints its address. With port "0" the kernel chooses a free port. If
 * there can be no such socket, the program ends. */
int listen_on_loopback(const char *port);

/* Whether fiber_accept4 may succeed again after this error: if a client has gone, or, after a pause, if there was no
 * descriptor or memory. */
int may_accept_again(int error);

/* Sends all bytes. Returns their count, or an error. */
int64_t send_all(int fd, const char *bytes, int64_t count);

#endif
