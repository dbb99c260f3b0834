/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* listen.h - common code of the examples that serve: echo, graceful, forward. */
#ifndef LISTEN_H
#define LISTEN_H

/* Returns a listening socket on 127.0.0.1 and prints its address. With port "0" the kernel chooses a free port. If
 * there can be no such socket, the program ends. */
int listen_on_loopback(const char *port);

#endif
