/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libuv. Each connection has its own buffer and write request, so that nothing is allocated per request. */
#define _GNU_SOURCE
#include "echo.h"

#include <uv.h>

struct connection {
    uv_tcp_t tcp; /* first, so that it has the address of the connection */
    uv_write_t write;
    char buffer[BUFFER_SIZE];
};

static void freed(uv_handle_t *handle) { free(handle); }

static void allocate(uv_handle_t *handle, size_t wish, uv_buf_t *buffer) {
    (void)wish;
    *buffer = uv_buf_init(((struct connection *)handle)->buffer, BUFFER_SIZE);
}

static void written(uv_write_t *write, int status) {
    if (status < 0 && !uv_is_closing((uv_handle_t *)write->handle)) {
        uv_close((uv_handle_t *)write->handle, freed);
    }
}

static void serve(uv_stream_t *stream, ssize_t count, const uv_buf_t *data) {
    struct connection *connection = (struct connection *)stream;
    if (count < 0) {
        uv_close((uv_handle_t *)stream, freed);
    } else if (count > 0) {
        uv_buf_t answer = uv_buf_init(data->base, (unsigned)count);
        uv_write(&connection->write, stream, &answer, 1, written);
    }
}

static void take(uv_stream_t *listener, int status) {
    struct connection *connection = malloc(sizeof *connection);
    uv_tcp_init(listener->loop, &connection->tcp);
    if (status < 0 || uv_accept(listener, (uv_stream_t *)&connection->tcp) < 0) {
        uv_close((uv_handle_t *)&connection->tcp, freed);
    } else {
        uv_read_start((uv_stream_t *)&connection->tcp, allocate, serve);
    }
}

int main(void) {
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    uv_tcp_init(loop, &listener);
    if (uv_tcp_open(&listener, listen_on_loopback(SOCK_NONBLOCK)) < 0 ||
        uv_listen((uv_stream_t *)&listener, SOMAXCONN, take) < 0) {
        return 1;
    }
    return uv_run(loop, UV_RUN_DEFAULT);
}
