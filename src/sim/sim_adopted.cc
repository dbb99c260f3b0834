// SPDX-License-Identifier: MIT OR Apache-2.0
// The choices and faults of adopted libraries' calls. They try by themselves what an operation of the simulation
// (sim_ops.cc) would do, so the same faults are injected here.
#include "sim/adopted.h"

#include "base/c_library.h"
#include "base/keep_errno.h"
#include "core/cord.h"
#include "sim/sim.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

bool simulation_wanted() {
    if (simulated()) return true;
    const char* name = secure_getenv("FIBERRT_BACKEND");
    return name && !strcmp(name, "sim");
}

SimulatedCaller simulated_caller() {
    if (!this_cord || !simulated() || !this_cord->sched.current) return SimulatedCaller::none;
    return this_cord->sched.current->sched.pending & pending_noswitch ? SimulatedCaller::noswitch
                                                                      : SimulatedCaller::fiber;
}

bool simulated_may_use(int fd) {
    KeepErrno keep;
    return kind_of_descriptor(fd) != DescriptorKind::foreign;
}

bool simulated_may_connect(const void* address, uint64_t length) {
    KeepErrno keep;
    return may_connect(address, length);
}

namespace {

// The events that hold now: POLLIN or POLLOUT, POLLERR, POLLHUP.
int events_of(int fd, bool writes) {
    pollfd entry = {fd, short(writes ? POLLOUT : POLLIN), 0};
    return poll(&entry, 1, 0) < 0 ? 0 : entry.revents;
}

} // namespace

int simulated_fault(int fd, bool writes, bool waits) {
    if (!simulation.faults) return 0;
    KeepErrno keep;
    DescriptorKind kind = kind_of_descriptor(fd);
    switch (kind) {
    case DescriptorKind::foreign:
    case DescriptorKind::none:
    case DescriptorKind::null: return 0;
    case DescriptorKind::regular: return writes && simulation.fault(2, 32, Site::no_space) ? ENOSPC : 0;
    default: break;
    }
    int events = events_of(fd, writes);
    if (waits) { // the kernel looks for signals only if it has to wait
        if (!events && simulation.fault(1, 16, Site::signal)) return EINTR;
    } else if (!(events & (POLLERR | POLLHUP)) && simulation.fault(1, 16, Site::again)) {
        return EAGAIN; // the bytes arrive, or the room appears, a little later; but the end of a connection stays
    }
    if (kind == DescriptorKind::stream && simulation.fault(2, 32, Site::reset)) {
        shutdown(fd, SHUT_RDWR);
        return ECONNRESET;
    }
    return 0;
}

// A signal may end a blocking transfer in the middle, and a full buffer any other.
size_t simulated_length(int fd, size_t count, bool writes) {
    if (!simulation.faults || count < 2) return count;
    KeepErrno keep;
    DescriptorKind kind = kind_of_descriptor(fd);
    bool may = kind == DescriptorKind::stream;
    if (kind == DescriptorKind::pipe) may = !writes || count > PIPE_BUF; // up to PIPE_BUF bytes are written as one
    if (!may || !simulation.fault(1, 8, Site::short_transfer)) return count;
    uint32_t most = count - 1 < UINT32_MAX ? uint32_t(count - 1) : UINT32_MAX;
    return 1 + simulation.pick(most, Site::short_transfer);
}

bool simulated_signal() { return simulation.fault(1, 16, Site::signal); }

bool simulated_pause() { return simulation.happens(8, Site::after_call); }

bool simulated_has_clock() { return simulated() ? environment->admits() : syscall(SYS_gettid) == getpid(); }

int64_t simulated_clock() {
    if (!simulated()) return simulation.now; // the simulation has not begun
    return simulation.now += Simulation::look_ns;
}

#if FIBERRT_ADOPTS
void simulated_trace(const char* call, int64_t result, int error) {
    if (!simulation.trace.wanted() || !this_cord) return;
    uint32_t fiber = this_cord->sched.current->index;
    if (result >= 0) {
        simulation.trace.line(simulation.now, "fiber %u called %s: %lld", fiber, call, static_cast<long long>(result));
    } else {
        const char* name = strerrorname_np(error);
        simulation.trace.line(simulation.now, "fiber %u called %s: %s", fiber, call, name ? name : "?");
    }
}
#endif

} // namespace fiberrt
