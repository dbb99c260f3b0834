// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulated backend: performs operations by plain system calls, in an order and at times that the choice source
// picks (sim.h).
//
// An operation is in one of three lists: no_room (the submission queue was full), given, and done (but not yet
// reported). It changes lists at polls only, so fibers that run between two polls may cancel it.
#include "sim/sim.h"

#include "base/keep_errno.h"
#include "base/planted.h"
#include "base/readable.h"
#include "core/cord.h"
#include "io/io.h"
#include "io/sockets.h"
#include "io/try_op.h"
#include "sim/op_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// ---- The operations of a cord ---------------------------------------------------------------------------------------

// The kind of a descriptor. Valid during one poll: fibers that run before the next one may put another file in its
// place.
struct DescriptorSeen {
    int fd;
    DescriptorKind kind;
    uint64_t look;
};

struct SimCord {
    OpList no_room;
    OpList given;
    OpList done;
    OpList candidates; // those of `given` among which the choice source picks
    pollfd* looks;
    uint32_t looks_room;
    DescriptorSeen seen[32]; // by descriptor; a later one takes the place of an earlier one
    uint64_t looked_at;      // number of the present look at `given`
};

SimCord& sim_of(void* state) { return *static_cast<SimCord*>(state); }

constexpr int64_t not_done_yet = INT64_MIN;

void trace_op(Op& op, const char* what) {
    if (!simulation.trace.wanted()) return;
    auto number = static_cast<unsigned long long>(op.number);
    simulation.trace.line(simulation.now, "op %llu %s %s", number, name_of(op.code), what);
}

// ---- What an operation may do ---------------------------------------------------------------------------------------

bool is_connect(const Op& op) { return op.code == OpCode::connect; }
bool is_transfer(const Op& op) { return op.code <= OpCode::sendmsg; }
bool writes(const Op& op) {
    return op.code == OpCode::write || op.code == OpCode::writev || op.code == OpCode::send ||
           op.code == OpCode::sendmsg;
}
// Whether the operation moves bytes between two descriptors.
bool moves(const Op& op) { return op.code == OpCode::splice || op.code == OpCode::copy_range; }
bool by_address(const Op& op) { return op.code == OpCode::recvmsg || op.code == OpCode::sendmsg; }

// Whether -EAGAIN is a result of the operation, not a reason to wait.
bool does_not_wait(const Op& op) {
    bool message = op.code >= OpCode::recv && op.code <= OpCode::sendmsg;
    bool splice = op.code == OpCode::splice && op.flags & SPLICE_F_NONBLOCK;
    return is_connect(op) || (message && op.flags & MSG_DONTWAIT) || splice;
}

DescriptorKind kind_seen(const Op& op) { return DescriptorKind(op.descriptor_kind); }
DescriptorKind kind_of_out(const Op& op) { return kind_of_descriptor(static_cast<const OutEnd*>(op.address)->fd); }

bool is_allowed(const Op& op) {
    DescriptorKind kind = kind_seen(op);
    switch (op.code) {
    case OpCode::open: return may_open(static_cast<const char*>(op.address));
    case OpCode::connect:
        return kind == DescriptorKind::none || (kind != DescriptorKind::foreign && may_connect(op.address, op.offset));
    case OpCode::sendmsg: {
        const auto* header = static_cast<const msghdr*>(op.address);
        if (kind == DescriptorKind::none || check_readable(header, sizeof *header)) return true; // the call will fail
        if (header->msg_name && !may_connect(header->msg_name, header->msg_namelen)) return false;
        return kind != DescriptorKind::foreign;
    }
    case OpCode::open2: {
        struct stat file;
        return path_status(op, &file) < 0 || may_open(file);
    }
    case OpCode::splice:
    case OpCode::copy_range: return kind != DescriptorKind::foreign && kind_of_out(op) != DescriptorKind::foreign;
    default: return !is_on_descriptor(op.code) || kind != DescriptorKind::foreign;
    }
}

// ---- Doing one operation --------------------------------------------------------------------------------------------

// Perhaps shortens an operation that asks for more than one byte or entry.
void cut(Op& op, DescriptorKind kind) {
    bool may = kind == DescriptorKind::stream && !by_address(op) && !(op.flags & MSG_WAITALL);
    if (kind == DescriptorKind::pipe) may = !writes(op) || (op.code == OpCode::write && op.length > PIPE_BUF);
    // An operation on buffers keeps those up to the first that is not empty, as no bytes at all would mean the end of a
    // file.
    uint32_t least = 1;
    if (op.code == OpCode::readv || op.code == OpCode::writev) {
        const auto* parts = static_cast<const iovec*>(op.address);
        if (check_readable(parts, op.length * sizeof *parts)) return;
        while (!PLANTED(cut_to_empty_buffers) && least < op.length && parts[least - 1].iov_len == 0) least++;
    }
    if (!may || op.length <= least) return;
    if (!simulation.fault(1, 8, Site::short_transfer)) return;
    op.length = least + simulation.pick(op.length - least, Site::short_transfer);
}

// Returns a fault as the operation's result; not_done_yet: no fault.
int64_t fault_of(const Op& op, DescriptorKind kind) {
    bool waits = is_transfer(op) || op.code == OpCode::accept || moves(op);
    if (!waits) return not_done_yet;
    bool may_wait = kind != DescriptorKind::regular && kind != DescriptorKind::null;
    if (may_wait && simulation.fault(1, 16, Site::again)) return -EAGAIN;
    if (simulation.fault(1, 16, Site::signal)) return -EINTR;
    if (kind == DescriptorKind::stream && simulation.fault(2, 32, Site::reset)) {
        shutdown(op.fd, SHUT_RDWR);
        return -ECONNRESET;
    }
    bool fills = moves(op) ? kind_of_out(op) == DescriptorKind::regular : kind == DescriptorKind::regular && writes(op);
    if (fills && simulation.fault(2, 32, Site::no_space)) return -ENOSPC;
    return not_done_yet;
}

// Transfers on a pipe, without the checks of descriptors that try_op() makes. -EOPNOTSUPP: the kernel does not support
// RWF_NOWAIT.
int64_t transfer_pipe(const Op& op) {
    iovec whole = {op.address, op.length};
    ssize_t result =
        writes(op) ? pwritev2(op.fd, &whole, 1, -1, RWF_NOWAIT) : preadv2(op.fd, &whole, 1, -1, RWF_NOWAIT);
    return result < 0 ? -errno : result;
}

// Whether a poll for room to send must report a shutdown. poll(2) does not report it on a full unix socket; on a
// stream, a send of no bytes does.
bool refuses_sends(const Op& op) {
    bool asks = op.code == OpCode::poll && op.hint && op.flags & POLLOUT && kind_seen(op) == DescriptorKind::stream;
    if (!asks || socket_option(op.fd, SO_DOMAIN) != AF_UNIX) return false;
    return ::send(op.fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE;
}

int64_t do_unchanged(const Op& op) {
    DescriptorKind kind = kind_seen(op);
    if (op.code == OpCode::moment) return 0;
    if (op.code == OpCode::fsync && kind == DescriptorKind::regular) return 0;
    int64_t result = -EOPNOTSUPP;
    if (kind == DescriptorKind::pipe && (op.code == OpCode::read || op.code == OpCode::write))
        result = transfer_pipe(op);
    if (result == -EOPNOTSUPP) result = try_op(op);
    if (result == -EAGAIN && refuses_sends(op)) return POLLOUT;
    if (result != op_blocking) return result;
    return op.code == OpCode::close ? (close(int(op.offset)) < 0 ? -errno : 0) : blocking_fallback(op);
}

// Performs an operation. Returns its result, or not_done_yet.
int64_t do_one(Op& op) {
    KeepErrno keep;
    if (op.being_cancelled && simulation.pick(2, Site::cancel)) return -ECANCELED;
    int64_t result = not_done_yet;
    Op as_done = op;
    if (simulation.faults && !op.being_cancelled) {
        DescriptorKind kind = kind_seen(op);
        result = fault_of(op, kind);
        if (result == not_done_yet && (is_transfer(op) || moves(op))) cut(as_done, kind);
    }
    if (result == not_done_yet) {
        result = do_unchanged(as_done);
        if (result == -EAGAIN && !does_not_wait(op)) {
            result = result_if_shut_down(as_done);
            if (result == -EAGAIN) result = not_done_yet;
        }
    }
    if (PLANTED(done_is_reported_as_cancelled) && op.being_cancelled) return -ECANCELED;
    return result == not_done_yet && op.being_cancelled ? -ECANCELED : result;
}

// ---- Choosing the next operation ------------------------------------------------------------------------------------

short events_of(const Op& op) {
    if (op.code == OpCode::poll) return short(op.flags);
    return writes(op) ? POLLOUT : POLLIN;
}

// Whether an operation can be done only when its descriptor is ready.
bool depends_on_readiness(const Op& op) {
    if (op.being_cancelled || does_not_wait(op)) return false;
    return is_transfer(op) || op.code == OpCode::accept || op.code == OpCode::poll;
}

// Finds the given operations that may be doable now: those on a ready descriptor, and those that need none.
void find_candidates(SimCord& sim) {
    sim.candidates.count = 0;
    uint32_t count = sim.given.count;
    if (count > sim.looks_room) {
        sim.looks_room = sim.given.room;
        sim.looks = static_cast<pollfd*>(realloc(sim.looks, sim.looks_room * sizeof *sim.looks));
        if (!sim.looks) simulation_fails("there is no memory for it");
    }
    uint32_t to_ask = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Op& op = *sim.given.ops[i];
        bool asks = count > 1 && depends_on_readiness(op); // a single operation is simply tried
        sim.looks[i] = {asks ? op.fd : -1, asks ? events_of(op) : short(0), 0};
        to_ask += asks;
    }
    KeepErrno keep;
    if (to_ask) poll(sim.looks, count, 0);
    for (uint32_t i = 0; i < count; i++) {
        Op* op = sim.given.ops[i];
        if (sim.looks[i].fd < 0 || sim.looks[i].revents || refuses_sends(*op)) sim.candidates.push(op);
    }
}

void move_to_done(SimCord& sim, Op* op, int64_t result) {
    op->kernel_result = int32_t(result);
    op->finished = true;
    sim.done.push(op);
    if (!simulation.trace.wanted()) return;
    char text[32];
    bool opens = op->code == OpCode::open || op->code == OpCode::open2;
    bool descriptor = result >= 0 && (opens || op->code == OpCode::accept);
    snprintf(text, sizeof text, descriptor ? "done" : "done %lld", static_cast<long long>(result));
    trace_op(*op, text);
}

DescriptorKind kind_now(SimCord& sim, int fd) {
    DescriptorSeen& seen = sim.seen[unsigned(fd) % (sizeof sim.seen / sizeof *sim.seen)];
    if (seen.look != sim.looked_at || seen.fd != fd) seen = {fd, kind_of_descriptor(fd), sim.looked_at};
    return seen.kind;
}

// Checks the operations given since the last call, and ends those that a simulation refuses.
void refuse_some(SimCord& sim) {
    KeepErrno keep;
    sim.looked_at++;
    for (uint32_t i = sim.given.count; i-- > 0;) {
        Op* op = sim.given.ops[i];
        if (kind_seen(*op) != DescriptorKind::unseen) break; // the earlier ones have been checked
        op->descriptor_kind = uint8_t(is_on_descriptor(op->code) ? kind_now(sim, op->fd) : DescriptorKind::none);
        if (!is_allowed(*op)) move_to_done(sim, sim.given.remove(i), -ENOTSUP);
    }
}

// Does some of the operations that can be done. at_least_one: it does one if any can be done.
void do_some(SimCord& sim, bool at_least_one) {
    refuse_some(sim);
    if (!sim.given.count) return;
    find_candidates(sim);
    uint32_t count = sim.candidates.count;
    if (!count) return;
    uint32_t wanted = count - simulation.pick(at_least_one ? count : count + 1, Site::how_many);
    bool any = false;
    for (uint32_t tried = 0; sim.candidates.count && (tried < wanted || (at_least_one && !any)); tried++) {
        Op* op = sim.candidates.remove(simulation.pick(sim.candidates.count, Site::which));
        int64_t result = do_one(*op);
        if (result == not_done_yet) continue;
        sim.given.remove(sim.given.find(op));
        move_to_done(sim, op, result);
        any = true;
    }
}

// Reports the end of an operation. If the operation succeeded, its waiter must get that result.
void report(Op* op) {
    int32_t result = op->kernel_result;
    bool stands = result >= 0;
    trace_op(*op, "told");
    op_done(op, result);
    if (stands && op->result != result) simulation_fails("an operation was done, but its waiter got another result");
}

// Reports some of the operations that are done. Returns whether it reported any.
bool report_some(SimCord& sim, bool at_least_one) {
    uint32_t count = sim.done.count;
    if (!count) return false;
    uint32_t later = simulation.pick(at_least_one ? count : count + 1, Site::report_later);
    for (uint32_t i = later; i < count; i++) report(sim.done.remove(0));
    return later < count;
}

void make_room(SimCord& sim) {
    while (sim.no_room.count) {
        Op* op = sim.no_room.remove(0);
        op->waiting_for_room = false;
        sim.given.push(op);
    }
}

// Checks that a fiber waits for each operation of the list.
void check_ops(const OpList& list) {
    for (uint32_t i = 0; i < list.count; i++) {
        const Op* op = list.ops[i];
        if (!op->fiber || op->fiber->sched.state != State::waiting || op->fiber->wait != op) {
            simulation_fails("an operation is under way, but no fiber waits for it");
        }
    }
}

// Lets time pass to the next deadline, as nothing can happen before it.
void pass_time(int64_t deadline) {
    if (deadline == never) simulation_fails("deadlock: no fiber can ever run again");
    if (deadline > simulation.now) simulation.now = deadline;
}

int sim_open(void** state, uint32_t*, uint32_t, int* doorbell_fd) {
    if (!simulated()) return -ENOTSUP; // the variables were changed after they were read
    *state = calloc(1, sizeof(SimCord));
    *doorbell_fd = -1;
    return *state ? 0 : -ENOMEM;
}

void sim_close(void* state, uint64_t) {
    SimCord& sim = sim_of(state);
    free(sim.no_room.ops);
    free(sim.given.ops);
    free(sim.done.ops);
    free(sim.candidates.ops);
    free(sim.looks);
    free(state);
}

void sim_give(void* state, Op* op) {
    SimCord& sim = sim_of(state);
    KeepErrno keep;
    op->finished = false;
    op->waiting_for_room = false;
    op->being_cancelled = false;
    op->number = simulation.ops++;
    op->descriptor_kind = uint8_t(DescriptorKind::unseen);
    if (simulation.trace.wanted()) {
        char text[32];
        snprintf(text, sizeof text, "given by fiber %u", this_cord->sched.current->index);
        trace_op(*op, text);
    }
    if (simulation.fault(1, 16, Site::no_room)) {
        op->waiting_for_room = true;
        sim.no_room.push(op);
    } else {
        sim.given.push(op);
    }
}

void sim_cancel(void* state, Op* op) {
    SimCord& sim = sim_of(state);
    trace_op(*op, "is to end");
    op->being_cancelled = true;
    if (!op->waiting_for_room) return;
    // coverage: rare
    op->waiting_for_room = false;
    sim.given.push(sim.no_room.remove(sim.no_room.find(op)));
}

bool sim_poll(void* state, int64_t deadline, bool) {
    SimCord& sim = sim_of(state);
    bool sleeps = deadline != poll_only;
    if (!sleeps) let_others_go_on();
    check_ops(sim.given);
    check_ops(sim.done);
    if (sleeps && simulation.fault(1, 16, Site::doorbell)) return true;
    make_room(sim);
    if (sleeps && sleep_among_others(deadline)) {
        report_some(sim, true);
        return true;
    }
    if (!sleeps || !sim.done.count) do_some(sim, sleeps);
    if (!sleeps && sim.done.count && simulation.fault(1, 8, Site::overflow)) return true;
    if (report_some(sim, sleeps)) return true;
    if (!sleeps) {
        simulation.now += Simulation::work_ns;
    } else {
        pass_time(deadline);
    }
    return true;
}

void sim_disown(void* state, bool) { sim_close(state, 0); } // all cords belong to the one thread

} // namespace

const Backend sim_backend = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .give = sim_give,
    .cancel = sim_cancel,
    .poll = sim_poll,
    .disown = sim_disown,
};

bool ops_done(const Cord& cord) { return cord.io && sim_of(cord.io->state).done.count; }

bool do_ops(Cord& cord, bool at_least_one) {
    if (!cord.io) return false;
    SimCord& sim = sim_of(cord.io->state);
    make_room(sim);
    if (!sim.done.count) do_some(sim, at_least_one);
    return sim.done.count;
}

bool some_op_ends(Cord& cord) {
    SimCord& sim = sim_of(cord.io->state);
    make_room(sim);
    if (!sim.done.count) do_some(sim, true);
    // The kernel's TCP may deliver a little later than the call that sent. Real time passes only here and in
    // others_are_stuck().
    for (int i = 0; i < 5 && !sim.done.count && sim.given.count; i++) {
        KeepErrno keep;
        poll(nullptr, 0, 1);
        do_some(sim, true);
    }
    return sim.done.count;
}

} // namespace fiberrt
