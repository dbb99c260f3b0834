/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * row_server.h - a server of PostgreSQL's protocol that has one table of one row, for programs of libpq that run in a
 * simulation. Its connections are fibers of the caller's thread. It knows these statements, each as one simple query:
 *
 *     SELECT balance FROM account
 *     UPDATE account SET balance = N
 *     UPDATE account SET balance = balance + N
 *     SELECT pg_sleep(N)
 */
#ifndef FIBERRT_TEST_ROW_SERVER_H
#define FIBERRT_TEST_ROW_SERVER_H

#include <fiberrt.h>
#include <stddef.h>

/* The table. */
extern long row_server_balance;

/* Accepts connections on a listener until the calling fiber is cancelled. listener: an int *. */
void *row_server_run(void *listener);

/* Listens at 127.0.0.1, or at an abstract Unix socket. Writes the host and port for PQconnectdb to text. Returns the
 * listener, or -1 with errno. */
int row_server_listen(int tcp, char *text, size_t size);

#endif
