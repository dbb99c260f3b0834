/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The example web server for the target `httpd`, without its main function. This file sets the variables that main
 * would set.
 */
#define main httpd_main
#include "httpd.c" /* of examples/, or the copy with a planted bug */
#undef main

#include "httpd_serve.h"

int serve_begin(const char* root) {
    (void)httpd_main;
    server.root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    server.max_connections = 16;
    server.metrics = "metrics";
    enter_cord(&server.cords[0]);
    return server.root < 0 ? -errno : 0;
}

int serve_start(int fd, fiber_t* fiber) {
    count_up(&server.connections);
    count_up(&here->connections);
    return fiber_spawn(fiber, serve_connection, (void*)(intptr_t)fd);
}

int serve_left(void) { return count_of(&server.connections) + count_of(&here->connections) + (here->first != NULL); }
