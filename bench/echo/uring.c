/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loops around io_uring. "single": each recv is submitted anew, into the connection's own buffer. "multi": one
 * multishot recv per connection, for which the kernel takes buffers from a ring that all connections share.
 */
#define _GNU_SOURCE
#include "echo.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>

enum { ACCEPT, RECV, SEND, CLOSE };
enum { BUFFERS = 1024 };

struct connection {
    char buffer[BUFFER_SIZE]; /* for "single" */
};

static struct io_uring ring;
static struct io_uring_buf_ring *buffers;
static char *buffer_memory;
static struct connection *connections[MAX_DESCRIPTORS];
static int multi;

static struct io_uring_sqe *entry(int what, int fd, int buffer) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (sqe == NULL) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    /* A later io_uring_prep_... fills the entry, and does not change the user data. */
    sqe->user_data = (uint64_t)what << 60 | (uint64_t)buffer << 32 | (uint64_t)fd;
    return sqe;
}

static char *buffer_numbered(int buffer) { return buffer_memory + (size_t)buffer * BUFFER_SIZE; }

static void give_buffer(int buffer) {
    io_uring_buf_ring_add(buffers, buffer_numbered(buffer), BUFFER_SIZE, (unsigned short)buffer,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(buffers, 1);
}

static void make_buffers(void) {
    buffers = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
    buffer_memory = aligned_alloc(4096, (size_t)BUFFERS * BUFFER_SIZE);
    memset(buffers, 0, BUFFERS * sizeof(struct io_uring_buf));
    struct io_uring_buf_reg registration = {.ring_addr = (uint64_t)(uintptr_t)buffers, .ring_entries = BUFFERS};
    int error = io_uring_register_buf_ring(&ring, &registration, 0);
    if (error < 0) {
        errno = -error;
        die("io_uring_register_buf_ring");
    }
    io_uring_buf_ring_init(buffers);
    for (int i = 0; i < BUFFERS; i++) {
        give_buffer(i);
    }
}

static void ask_recv(int fd) {
    struct io_uring_sqe *sqe = entry(RECV, fd, 0);
    if (multi) {
        io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = 0;
    } else {
        io_uring_prep_recv(sqe, fd, connections[fd]->buffer, BUFFER_SIZE, 0);
    }
}

static void ask_accept(int listener) {
    io_uring_prep_accept(entry(ACCEPT, listener, 0), listener, NULL, NULL, SOCK_CLOEXEC);
}

static void received(int fd, struct io_uring_cqe *cqe) {
    int buffer = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
    if (cqe->res == -ENOBUFS) {
        ask_recv(fd);
    } else if (cqe->res <= 0) {
        io_uring_prep_close(entry(CLOSE, fd, 0), fd);
    } else {
        const char *data = multi ? buffer_numbered(buffer) : connections[fd]->buffer;
        io_uring_prep_send(entry(SEND, fd, buffer), fd, data, (size_t)cqe->res, MSG_NOSIGNAL);
        if (multi && !(cqe->flags & IORING_CQE_F_MORE)) {
            ask_recv(fd);
        }
    }
}

static void sent(int fd, int buffer) {
    if (multi) {
        give_buffer(buffer);
    } else {
        ask_recv(fd);
    }
}

static void accepted(int listener, int fd) {
    if (fd >= MAX_DESCRIPTORS) {
        close(fd);
    } else if (fd >= 0) {
        if (connections[fd] == NULL) {
            connections[fd] = malloc(sizeof(struct connection));
        }
        ask_recv(fd);
    }
    ask_accept(listener);
}

int main(int argc, char **argv) {
    multi = argc > 1 && strcmp(argv[1], "multi") == 0;
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE, .cq_entries = 4096};
    int error = io_uring_queue_init_params(1024, &ring, &params);
    if (error < 0) {
        errno = -error;
        die("io_uring_setup");
    }
    io_uring_register_ring_fd(&ring);
    if (multi) {
        make_buffers();
    }
    ask_accept(listen_on_loopback(0));
    for (;;) {
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *cqe;
        unsigned head;
        unsigned count = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            int fd = (int)(cqe->user_data & 0xffffffff);
            switch (cqe->user_data >> 60) {
            case ACCEPT: accepted(fd, cqe->res); break;
            case RECV: received(fd, cqe); break;
            case SEND: sent(fd, (int)(cqe->user_data >> 32 & 0xffff)); break;
            default: break;
            }
            count++;
        }
        io_uring_cq_advance(&ring, count);
    }
}
