/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* embed_libev.c - fibers in a program with libev's loop: one more watcher.
 *
 * Each line of standard input, such as "300 tea", is an errand; fibers run them concurrently. See embed_errands.c. */
#include "embed_errands.h"

#include <ev.h>
#include <fiberrt.h>

static void break_if_done(struct ev_loop *loop, ev_io *input) {
    if (!ev_is_active(input) && errands_under_way() == 0) ev_break(loop, EVBREAK_ALL);
}

static void on_cord(struct ev_loop *loop, ev_io *cord, int events) {
    (void)events;
    int error = fiber_cord_run(0);
    if (error < 0) errands_fail("fiber_cord_run", error);
    break_if_done(loop, cord->data);
}

static void on_input(struct ev_loop *loop, ev_io *input, int events) {
    (void)events;
    if (!errands_read(input->fd)) ev_io_stop(loop, input);
    break_if_done(loop, input);
}

int main(void) {
    struct ev_loop *loop = ev_default_loop(0);
    int cord_fd = fiber_cord_fd();
    if (cord_fd < 0) errands_fail("fiber_cord_fd", cord_fd);
    ev_io cord, input;
    ev_io_init(&cord, on_cord, cord_fd, EV_READ);
    ev_io_init(&input, on_input, 0, EV_READ);
    cord.data = &input;
    ev_io_start(loop, &cord);
    ev_io_start(loop, &input);
    ev_run(loop, 0);
    return 0;
}
