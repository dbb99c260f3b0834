// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads fibers and cords for introspection.
#include "debug/describe.h"

#include "base/copy_name.h"
#include "base/keep_errno.h"
#include "base/peek.h"
#include "base/readable.h"
#include "core/backend.h"
#include "core/handles.h"
#include "core/noted_frame.h"
#include "debug/creation.h"
#include "debug/look.h"
#include "debug/texts.h"
#include "debug/unwind.h"
#include "debug/wait_text.h"

#include <string.h>
#include <sys/mman.h>

namespace fiberrt {

int public_state(State state) {
    switch (state) {
    case State::created: return FIBER_NEW;
    case State::scheduled:
    case State::awaiting_stack:
    case State::queued:
    case State::woken:
    case State::offered: return FIBER_RUNNABLE;
    case State::running:
    case State::handed_out: return FIBER_RUNNING;
    case State::yielding:
    case State::transferring:
    case State::waiting: return FIBER_WAITING;
    case State::dead: return FIBER_DEAD;
    }
    __builtin_unreachable();
}

int state_of(Fiber* fiber, fiber_t handle) {
    int state = public_state(fiber->sched.state);
    int error = check_unchanged(fiber, handle);
    return error ? error : state;
}

int name_of(Fiber* fiber, fiber_t handle, char (&name)[FIBER_NAME_MAX]) {
    {
        Locked locked(fiber->remote.lock);
        memcpy(name, fiber->name, sizeof name);
    }
    name[sizeof name - 1] = '\0';
    return check_unchanged(fiber, handle);
}

void set_name(Fiber* fiber, const char* name) {
    Locked locked(fiber->remote.lock);
    copy_name(fiber->name, sizeof fiber->name, name);
}

int64_t deadline_of(const Snapshot& fiber) {
    int64_t earliest = fiber.deadline;
    for (int i = 0; i < fiber.scope_count; i++) {
        const ScopeSnapshot& scope = fiber.scopes[i];
        if (!(scope.stopped & pending_timeout) && scope.deadline < earliest) earliest = scope.deadline;
        if (scope.shield & pending_timeout) break;
    }
    return earliest;
}

namespace {

uint64_t object_of(const WaitSnapshot& wait) {
    switch (wait.what) {
    case WaitFor::op: return 0; // see fiber_info_t.wait_fd
    case WaitFor::primitive:
    case WaitFor::channel: return wait.primitive;
    default: return wait.target;
    }
}

void describe_wait(const Snapshot& seen, fiber_info_t* out) {
    Report text(-1);
    out->wait_deadline_ns = deadline_of(seen);
    if (seen.has_wait) {
        put_wait(text, seen.wait);
        out->wait_object = object_of(seen.wait);
        out->wait_fiber = waits_for(seen);
        if (seen.wait.what == WaitFor::op) out->wait_fd = seen.wait.op.fd;
    } else {
        put_state_without_wait(text, seen);
        if (seen.state == State::transferring) {
            out->wait_object = out->wait_fiber = seen.transferred;
        } else if (seen.state == State::yielding && seen.reason[0]) {
            out->wait_object = seen.reason_about;
            out->wait_fiber = fiber_of_reason(seen);
        }
    }
    text.take(out->wait, sizeof out->wait);
}

// How many bytes of a stack are in memory, from its top down to the lowest page that is; 0: not known.
size_t touched_bytes(char* low, char* top) {
    constexpr size_t part = 256; // pages
    unsigned char in_memory[part];
    size_t page = StackPool::page_size();
    for (char* at = low; at < top; at += part * page) {
        size_t bytes = size_t(top - at) < part * page ? size_t(top - at) : part * page;
        if (mincore(at, bytes, in_memory) != 0) return 0;
        for (size_t i = 0; i < (bytes + page - 1) / page; i++) {
            if (in_memory[i] & 1) return size_t(top - (at + i * page));
        }
    }
    return 0;
}

const char* top_of(const Snapshot& seen) {
    return seen.stack_low ? StackPool::top(seen.stack_class, seen.stack_low) : nullptr;
}

void describe_stack(const Snapshot& seen, fiber_info_t* out) {
    if (!seen.stack_low) return;
    char* top = StackPool::top(seen.stack_class, seen.stack_low);
    if (seen.still && seen.sp && !seen.on_thread && seen.sp >= seen.stack_low && seen.sp < top)
        out->stack_used = uint64_t(top - seen.sp);
    out->stack_touched = touched_bytes(seen.stack_low, top);
}

} // namespace

void follow_stack(const Snapshot& seen, void* trace) {
    auto& out = *static_cast<Backtrace*>(trace);
    out.count = 0;
    if (seen.sp && !seen.on_thread) {
        unwind(seen.sp, top_of(seen), out);
    } else if (seen.on_thread && seen.sleep_cfa) {
        unwind_from(seen.sleep_pc, seen.sleep_cfa, top_of(seen), out);
    } else if (seen.on_thread) {
        out.count = -1;
    }
}

void info_of(const Snapshot& seen, uintptr_t function, fiber_info_t* out) {
    *out = {};
    out->id = seen.id;
    out->state = public_state(seen.state);
    out->cancelled = seen.cancelled;
    out->detached = seen.detached;
    out->permit = seen.permit;
    out->main_flow = seen.kind == Kind::main_flow;
    if (seen.stack_low) {
        out->stack_size = StackPool::size_of(seen.stack_class);
        out->stack_low = reinterpret_cast<uintptr_t>(seen.stack_low);
        out->stack_high = reinterpret_cast<uintptr_t>(top_of(seen));
    }
    out->cord = CordTable::id_of(seen.cord);
    memcpy(out->name, seen.name, sizeof out->name);
    out->parent_scope = seen.scope;
    out->parent = seen.parent;
    out->wait_deadline_ns = FIBER_FOREVER;
    out->wait_fd = -1;
    out->still = seen.still;
    if (seen.still && out->state == FIBER_WAITING) describe_wait(seen, out);
    if (seen.still) out->function = seen.function ? seen.function : function;
    describe_stack(seen, out);
    Creation creation;
    if (creation_of({seen.id}, &creation)) {
        out->created_at = creation.at;
        out->created_by = creation.by;
    }
}

int describe(Fiber* fiber, fiber_t handle, fiber_info_t* out) {
    KeepErrno keep;
    Snapshot seen;
    constexpr int frames_most = 256;
    Backtrace trace = {nullptr, frames_most, 0, true, 0};
    if (int error = look(fiber, handle, seen, follow_stack, &trace)) return error;
    info_of(seen, trace.function, out);
    return check_unchanged(fiber, handle);
}

int describe_briefly(Fiber* fiber, fiber_t handle, fiber_info_t* out) {
    *out = {};
    out->id = handle.id;
    out->state = public_state(fiber->sched.state);
    out->cancelled = fiber->requests.cancelled;
    out->detached = is_detached(fiber);
    out->permit = fiber->sched.permit;
    out->main_flow = fiber->main_flow();
    if (char* low = fiber->stack_low) {
        out->stack_size = StackPool::size_of(fiber->stack_class);
        out->stack_low = reinterpret_cast<uintptr_t>(low);
        out->stack_high = reinterpret_cast<uintptr_t>(StackPool::top(fiber->stack_class, low));
    }
    if (const Cord* cord = cord_of(fiber)) out->cord = CordTable::id_of(cord);
    return name_of(fiber, handle, out->name);
}

namespace {

fiber_stats_t stats_in(const CordWorld& cord, uint64_t given, uint64_t in_flight) {
    fiber_stats_t stats = {};
    stats.switches = cord.switches();
    stats.instant_resumes = cord.counters.instant_resumes;
    stats.polls = cord.counters.polls;
    stats.blocking_polls = cord.counters.blocking_polls;
    stats.ops = given;
    stats.fibers = cord.counts.fibers;
    stats.stacks = cord.stacks.in_use();
    stats.stacks_free = cord.stacks.free();
    stats.ops_in_flight = in_flight;
    stats.stacks_high_water = cord.stacks.made();
    stats.stacks_trimmed = cord.stacks.trimmed();
    stats.stack_bytes = cord.stacks.committed_bytes();
    return stats;
}

} // namespace

[[gnu::noinline]] void follow_own_stack(Backtrace& out) {
    __builtin_unwind_init();
    FIBERRT_HERE(here);
    look_lock(); // the unwinder's memory
    unwind_from(&&here, static_cast<char*>(__builtin_dwarf_cfa()), nullptr, out);
    look_unlock();
}

bool is_caller(const Fiber* fiber) {
    const Cord* here = cord_if_any();
    return here && here->sched.current == fiber && fiber->sched.state == State::running;
}

int backtrace_of(Fiber* fiber, fiber_t handle, const void* caller, void** frames, int most) {
    KeepErrno keep;
    Backtrace trace = {frames, most, 0, true, 0};
    if (is_caller(fiber)) {
        trace.from = caller;
        follow_own_stack(trace);
    } else {
        Snapshot seen;
        if (int error = look(fiber, handle, seen, follow_stack, &trace)) return error;
        if (!seen.still || trace.count < 0) return -EBUSY;
    }
    if (!trace.complete && trace.count) {
        if (trace.count == most) trace.count--;
        frames[trace.count++] = nullptr;
    }
    return trace.count;
}

bool describe_cord(Cord* cord, CordSnapshot& out) {
    Locked locked(cord->lock);
    uint32_t generation = cord->generation.load(std::memory_order_relaxed);
    if (!(generation & 1)) return false;
    out.id = make_id(Tag::cord, cord->index, generation);
    out.thread = cord->thread;
    out.ended = cord->ended;
    out.closing = cord->closing;
    memcpy(out.name, cord->name, sizeof out.name);
    return true;
}

fiber_stats_t stats_of(const Cord& cord) {
    return stats_in(cord, cord.io ? cord.io->given : 0, cord.io ? cord.io->in_flight : 0);
}

int stats_of_any(Cord& cord, uint32_t generation, fiber_stats_t* out) {
    if (&cord == cord_if_any()) {
        *out = stats_of(cord);
        return 0;
    }
    Image<CordWorld> image;
    image.take(cord);
    CordIo io; // its memory may be freed meanwhile
    bool copied = image->io && copy_readable(&io, image->io, sizeof io) == sizeof io;
    reads_in_order();
    if (!copied || peek(cord.io) != image->io) io = {}; // freed, and perhaps used for other data
    *out = stats_in(*image, io.given, io.in_flight);
    // This is the difference of two counts, which are read one after the other.
    if (int64_t(out->stacks) < 0) out->stacks = 0; // coverage: race
    return is_in_the_same_use(cord, generation) && !cord.lost ? 0 : -ESRCH;
}

int each_fiber(int (*visit)(fiber_t fiber, void* arg), void* arg) {
    int result = 0;
    fibers.each([&](Fiber* fiber) {
        uint64_t id = id_in(fiber);
        if (id && fiber->cord.load(std::memory_order_acquire)) result = visit({id}, arg);
        return !result;
    });
    return result;
}

} // namespace fiberrt
