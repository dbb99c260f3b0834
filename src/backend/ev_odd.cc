// SPDX-License-Identifier: MIT OR Apache-2.0
// Watchers of events that libev does not know, such as POLLPRI.
#include "backend/ev_state.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace fiberrt::ev_impl {

namespace {

OddWatcher* odd_of(Op* op) { return reinterpret_cast<OddWatcher*>(op->address); }

void on_odd(struct ev_loop* loop, ev_io* io, int) {
    Op* op = static_cast<OddWatcher*>(io->data)->op;
    Ev& ev = ev_of_loop(loop);
    int told = look(*op);
    if (!told) return;
    odd_end(ev, op);
    finish_told(ev, op, told);
}

} // namespace

void odd_end(Ev& ev, Op* op) {
    OddWatcher* odd = odd_of(op);
    ev_io_stop(ev.loop, &odd->io);
    odd->unlink();
    close(odd->io.fd);
    free(odd);
}

int odd_begin(Ev& ev, Op* op) {
    auto* odd = static_cast<OddWatcher*>(malloc(sizeof(OddWatcher)));
    if (!odd) return -ENOMEM;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    event.events = op->flags;
    // EPERM: such a file never has events. The wait goes on nevertheless, as in poll(2).
    if (fd < 0 || (epoll_ctl(fd, EPOLL_CTL_ADD, op->fd, &event) < 0 && errno != EPERM)) { // coverage: kernel
        int error = -errno;
        if (fd >= 0) close(fd);
        free(odd);
        return error;
    }
    ev_io_init(&odd->io, on_odd, fd, EV_READ);
    odd->io.data = odd;
    odd->op = op;
    op->address = odd;
    ev.odd.push_back(odd);
    ev_io_start(ev.loop, &odd->io);
    return 0;
}

} // namespace fiberrt::ev_impl
