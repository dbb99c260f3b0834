// SPDX-License-Identifier: MIT OR Apache-2.0
// Collects and prints the dump.
#include "debug/dump.h"

#include "base/keep_errno.h"
#include "base/report.h"
#include "core/handles.h"
#include "debug/look.h"
#include "debug/texts.h"
#include "debug/wait_text.h"
#include "core/backend.h"
#include "backend/selection.h"

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

void put_state(Report& r, const Snapshot& fiber) {
    if (fiber.still && fiber.has_wait) return put_wait(r, fiber.wait);
    r.put(text_of(fiber.state));
    if (fiber.state == State::transferring) fiber.still ? r.id(fiber.transferred) : r.put("another fiber");
}

void put_scopes(Report& r, const Snapshot& fiber, int64_t now) {
    for (int i = 0; i < fiber.scope_count; i++) {
        const ScopeSnapshot& s = fiber.scopes[i];
        r.put("; scope");
        if (s.stopped & pending_timeout) {
            r.put(" whose deadline has fired");
        } else if (s.deadline == never) {
            r.put(" without a deadline");
        } else {
            put_left(r, ", ", s.deadline, now);
        }
        if (s.stopped & pending_cancel) r.put(", cancelled");
        if (s.shield) r.put(s.shield == pending_cancel ? ", shielded against cancels" : ", shielded");
        if (s.has_children) r.put(", with children");
    }
    if (fiber.more_scopes) r.put("; more scopes");
}

void put_rest(Report& r, const Snapshot& fiber) {
    if (fiber.cancelled) r.put("; cancelled");
    if (fiber.interrupted) r.put("; interrupted");
    if (fiber.permit) r.put("; a wakeup is remembered");
    bool main_flow = fiber.kind == Kind::main_flow;
    if (fiber.detached && !main_flow) r.put("; detached");
    if (const char* kind = text_of(fiber.kind); *kind && !main_flow) {
        r.put("; ");
        r.put(kind);
    }
    if (fiber.stack_low) {
        r.put("; stack of ");
        r.number(StackPool::size_of(fiber.stack_class) / 1024);
        r.put(" KiB");
    }
    r.put('\n');
}

void put_fiber(Report& r, Fiber* fiber, int64_t now) {
    Snapshot seen;
    fiber_t handle = {id_in(fiber)};
    if (!handle.id || look(fiber, handle, seen) != 0) return;
    r.put("fiber ");
    r.id(seen.id);
    if (seen.name[0]) r.name(seen.name);
    r.put(" of cord ");
    r.id(CordTable::id_of(seen.cord));
    r.put(seen.kind == Kind::main_flow ? ", main flow: " : ": ");
    put_state(r, seen);
    if (seen.still) {
        if (seen.deadline != never) put_left(r, ", ", seen.deadline, now);
        put_scopes(r, seen, now);
    }
    put_rest(r, seen);
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
