// SPDX-License-Identifier: MIT OR Apache-2.0
// Collects and prints the dump.
//
// The dump may read every member of the calling thread's cord and its fibers. The fibers of other cords run on
// meanwhile: of these it reads only members that are Relaxed, atomic, or protected by remote.lock. It drops a
// fiber's line if the fiber ends before the line is complete.
#include "debug/dump.h"

#include "base/keep_errno.h"
#include "base/report.h"
#include "core/handles.h"
#include "core/life.h"
#include "debug/texts.h"
#include "core/backend.h"
#include "backend/selection.h"
#include "io/op.h"
#include "sync/waiting.h"

#include <poll.h>
#include <string.h>

namespace fiberrt {

namespace {

// The time left before a deadline, after the text `what`.
void put_left(Report& r, const char* what, int64_t deadline, int64_t now) {
    r.put(what);
    uint64_t us = deadline > now ? uint64_t(deadline - now) / 1000 : 0;
    r.number(us / 1'000'000);
    r.put('.');
    r.number(us % 1'000'000, 10, 6);
    r.put(" s left");
}

void put_op(Report& r, const Op& op) {
    if (op.code == OpCode::moment) r.put("its ");
    r.put(name_of(op.code));
    if (op.code == OpCode::poll) {
        r.put(" of");
        if (op.flags & POLLIN) r.put(" POLLIN");
        if (op.flags & POLLOUT) r.put(" POLLOUT");
        if (op.flags & ~uint32_t(POLLIN | POLLOUT)) r.put(" others");
    }
    int fd = op.code == OpCode::close ? int(op.offset) : op.fd;
    if (fd >= 0) {
        r.put(" on descriptor ");
        r.number(uint64_t(fd));
    }
    if (op.stop_reason) r.put(", which is asked to end");
}

// Prints the wait of a fiber of the calling thread's cord.
void put_wait(Report& r, const Wait* wait) { // coverage: names
    r.put(text_of(wait->what));
    switch (wait->what) {
    case WaitFor::fiber: r.id(fibers.id_of(static_cast<const JoinWait*>(wait)->target)); break;
    case WaitFor::foreign_fiber:
    case WaitFor::cord: r.id(static_cast<const EndWait*>(wait)->target); break;
    case WaitFor::op: put_op(r, *static_cast<const Op*>(wait)); break;
    case WaitFor::primitive: r.put(static_cast<const SyncWait*>(wait)->waiters->kind->text); break;
    default: break; // the text is complete
    }
}

void put_state(Report& r, const Fiber* fiber, bool own) {
    State state = fiber->sched.state;
    if (state == State::waiting && own) return put_wait(r, fiber->wait);
    r.put(text_of(state));
    if (state == State::transferring) own ? r.id(fiber->transfer_to) : r.put("another fiber");
}

void put_scopes(Report& r, const Fiber* fiber, int64_t now) {
    for (Scope* s = fiber->scopes; s; s = s->outer) {
        r.put("; scope");
        if (s->stopped & pending_timeout) {
            r.put(" whose deadline has fired");
        } else if (s->deadline == never) {
            r.put(" without a deadline");
        } else {
            put_left(r, ", ", s->deadline, now);
        }
        if (s->stopped & pending_cancel) r.put(", cancelled");
        if (s->shield) r.put(s->shield == pending_cancel ? ", shielded against cancels" : ", shielded");
        if (s->has_children && children_left(s)) r.put(", with children");
    }
}

void put_rest(Report& r, const Fiber* fiber) {
    if (fiber->requests.cancelled) r.put("; cancelled");
    if (fiber->requests.interrupt_pending) r.put("; interrupted");
    if (fiber->sched.permit) r.put("; a wakeup is remembered");
    if (fiber->life.detached && !fiber->main_flow()) r.put("; detached");
    if (const char* kind = text_of(fiber->life.kind); *kind && !fiber->main_flow()) {
        r.put("; ");
        r.put(kind);
    }
    if (fiber->stack_low) {
        r.put("; stack of ");
        r.number(StackPool::size_of(fiber->stack_class) / 1024);
        r.put(" KiB");
    }
    r.put('\n');
}

void put_fiber(Report& r, Fiber* fiber, int64_t now) {
    uint32_t generation = fiber->generation.load(std::memory_order_acquire);
    // Acquire: this thread sees the members that a fiber of another cord was created with.
    Cord* owner = fiber->cord.load(std::memory_order_acquire);
    if (!(generation & 1) || !owner) return;
    fiber_t handle = {make_id(Tag::fiber, fiber->index, generation)};
    bool own = owner == cord_if_any(); // false also for a fiber that is on its way here
    size_t begun = r.begin();
    r.put("fiber ");
    r.id(handle.id);
    char name[FIBER_NAME_MAX];
    {
        Locked locked(fiber->remote.lock);
        memcpy(name, fiber->name, sizeof name);
    }
    name[sizeof name - 1] = '\0';
    if (name[0]) r.name(name);
    r.put(" of cord ");
    r.id(CordTable::id_of(unbound(owner)));
    r.put(fiber->main_flow() ? ", main flow: " : ": ");
    put_state(r, fiber, own);
    if (own) {
        if (fiber->timeout.deadline != never) put_left(r, ", ", fiber->timeout.deadline, now);
        put_scopes(r, fiber, now);
    }
    put_rest(r, fiber);
    if (check_unchanged(fiber, handle) != 0) r.drop(begun);
}

void put_cord(Report& r, Cord* cord) {
    char name[cord_name_max];
    bool ended;
    uint32_t generation;
    {
        Locked locked(cord->lock);
        generation = cord->generation.load(std::memory_order_relaxed);
        memcpy(name, cord->name, sizeof name);
        ended = cord->ended;
    }
    if (!(generation & 1)) return;
    r.put("cord ");
    r.id(make_id(Tag::cord, cord->index, generation));
    if (name[0]) r.name(name);
    if (cord == cord_if_any()) r.put(", of this thread");
    if (ended) {
        r.put(", ended, not joined");
    } else if (cord->closing) {
        r.put(", being shut down");
    }
    r.put('\n');
}

void put_library(Report& r) {
    r.put("fiberrt ");
    r.number(FIBERRT_VERSION_MAJOR);
    r.put('.');
    r.number(FIBERRT_VERSION_MINOR);
    r.put('.');
    r.number(FIBERRT_VERSION_PATCH);
    r.put('\n');
    const Cord* here = cord_if_any();
    const CordIo* io = here ? here->io : nullptr;
    r.put("backend of this thread: ");
    r.put(io ? io->backend->name : "none yet");
    if (io) {
        r.put(", ");
        r.number(io->in_flight);
        r.put(" operations under way");
    }
    r.put('\n');
    char sentence[256];
    backend_explain_last(sentence, sizeof sentence);
    for (char* c = sentence; *c; c++) { // it may cite FIBERRT_BACKEND
        if (uint8_t(*c) < 0x20) *c = '?';
    }
    r.put(sentence);
    r.put('\n');
}

} // namespace

int dump(int fd) {
    KeepErrno keep;
    Report report(fd);
    int64_t now = clock_now();
    put_library(report);
    cords.each([&](Cord* cord) { put_cord(report, cord); });
    fibers.each([&](Fiber* fiber) { put_fiber(report, fiber, now); });
    return report.end();
}

} // namespace fiberrt
