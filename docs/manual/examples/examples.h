/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * examples.h - common code of the manual's examples. Each file here is a program, which the test `manual` runs.
 *
 * The lines between EXAMPLE and END are on the page of each function that EXAMPLE names, under its sentences; the rest
 * makes a program of them and checks them. A page of several functions must have an example, of some 5 to 20 lines.
 */
#ifndef EXAMPLES_H
#define EXAMPLES_H

#define _GNU_SOURCE
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fiberrt_dl.h>

#endif
