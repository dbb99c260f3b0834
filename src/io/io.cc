// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's I/O: opens its backend at the first operation, and closes it, with all that calls hold, when the cord ends.
#include "io/io.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "core/cord.h"
#include "core/scheduler.h"
#include "io/closing.h"
#include "io/fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <new>
#include <stdlib.h>

namespace fiberrt {

constinit Relaxed<OpenBackend> open_backend;

namespace {

template <class Visit>
void each_use(Io& io, Visit visit) {
    auto each_of = [&](Descriptor& descriptor) {
        for (DescriptorGuard* guard = descriptor.guards.front(); guard; guard = descriptor.guards.after(guard))
            visit(*guard);
    };
    each_of(io.unbound);
    for (int fd = 0; fd < io.descriptor_count; fd++) {
        if (io.descriptors[fd]) each_of(*io.descriptors[fd]);
    }
}

void close_own(Io& io) {
    for (OwnDescriptor* own = io.own.front(); own; own = io.own.after(own)) own->close();
    for (OwnMemory* own = io.own_memory.front(); own; own = io.own_memory.after(own)) own->give_back();
}

constinit pthread_mutex_t backends_mutex = PTHREAD_MUTEX_INITIALIZER;

} // namespace

void backends_lock() { pthread_mutex_lock(&backends_mutex); }
void backends_unlock() { pthread_mutex_unlock(&backends_mutex); }

int Io::open(Cord& cord) {
    KeepErrno keep;
    auto* io = make_by_malloc<Io>();
    if (!io) return -ENOMEM;
    MutexGuard guard(backends_mutex);
    int doorbell_fd;
    int error = open_backend(&io->backend, &io->state, cord.inbox.futex(), Inbox::asleep_on_word, &doorbell_fd);
    if (error) {
        free(io);
        return error;
    }
    cord.doorbell_fd = doorbell_fd;
    io->end = close;
    io->disown = drop;
    cord.io = io;
    return 0;
}

void Io::close(Cord& cord) {
    Io& io = io_of(cord);
    io.ending = true;
    each_use(io, [](DescriptorGuard& guard) { guard.stop(-ECANCELED); });
    for (FifoOpen* open = io.fifos.front(); open; open = io.fifos.after(open)) open->close_all();
    while (io.in_flight) sleep(cord, never); // operations on the pool come back as messages
    each_use(io, [](DescriptorGuard& guard) { guard.close_unclaimed(); });
    close_own(io); // no operation uses them any more
    {
        MutexGuard guard(backends_mutex);
        io.backend->close(io.state, cord.sleep.rings_owed);
        io.backend = nullptr;
        cord.io = nullptr; // so that a fork does not find the memory freed below
    }
    cord.doorbell_fd = -1;
    for (int fd = 0; fd < io.descriptor_count; fd++) {
        Descriptor* descriptor = io.descriptors[fd];
        if (descriptor && descriptor->request) uses_ended(descriptor->request);
        free(descriptor);
    }
    for (auto& uses : cord.descriptor_uses) uses.store(0, std::memory_order_release);
    free(io.descriptors);
    free(&io);
}

// Drops a cord's I/O in the child of a fork. own: the cord's thread called fork(). Of another thread's I/O only the
// members that change under the lock are whole, so its memory is not touched.
void Io::drop(Cord& cord, bool own) {
    Io& io = io_of(cord);
    if (own) {
        for (FifoOpen* open = io.fifos.front(); open; open = io.fifos.after(open)) open->close_all();
    }
    if (io.backend && io.backend->disown) io.backend->disown(io.state, own);
    io.backend = nullptr;
    if (!own) return;
    each_use(io, [](DescriptorGuard& guard) { guard.close_unclaimed(); });
    close_own(io); // after the backend: the parent's loop, with the same epoll, must not see this
    for (int fd = 0; fd < io.descriptor_count; fd++) free(io.descriptors[fd]);
    for (auto& uses : cord.descriptor_uses) uses.store(0, std::memory_order_relaxed);
    free(io.descriptors);
    free(&io);
    cord.io = nullptr;
}

} // namespace fiberrt
