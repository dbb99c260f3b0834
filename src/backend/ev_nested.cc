// SPDX-License-Identifier: MIT OR Apache-2.0
// Watchers of events that libev does not know, such as POLLPRI.
#include "backend/ev_state.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace fiberrt::ev_impl {

namespace {

NestedWatcher* nested_of(Op* op) { return reinterpret_cast<NestedWatcher*>(op->address); }

void on_nested(struct ev_loop* loop, ev_io* io, int) {
    Op* op = static_cast<NestedWatcher*>(io->data)->op;
    Ev& ev = ev_of_loop(loop);
    int reported = events_now(*op);
    if (!reported) return;
    nested_end(ev, op);
    finish_reported(ev, op, reported);
}

} // namespace

void nested_end(Ev& ev, Op* op) {
    NestedWatcher* nested = nested_of(op);
    ev_io_stop(ev.loop, &nested->io);
    nested->unlink();
    close(nested->io.fd);
    free(nested);
}

int nested_begin(Ev& ev, Op* op) {
    auto* nested = static_cast<NestedWatcher*>(malloc(sizeof(NestedWatcher)));
    if (!nested) return -ENOMEM;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    event.events = op->flags;
    int error = 0;
    // EPERM: such a file never has events. The wait goes on nevertheless, as in poll(2).
    if (fd < 0 || (epoll_ctl(fd, EPOLL_CTL_ADD, op->fd, &event) < 0 && errno != EPERM)) error = -errno;
    if (!error && may_be_epoll(status_of(op->fd))) error = why_unwatchable(ev, fd);
    if (error) { // coverage: kernel
        if (fd >= 0) close(fd);
        free(nested);
        return error;
    }
    ev_io_init(&nested->io, on_nested, fd, EV_READ);
    nested->io.data = nested;
    nested->op = op;
    op->address = nested;
    ev.nested.push_back(nested);
    ev_io_start(ev.loop, &nested->io);
    return 0;
}

} // namespace fiberrt::ev_impl
