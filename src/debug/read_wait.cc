// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads Waits, scopes and the holders of locks out of memory that other threads may change or free.
#include "debug/read_wait.h"

#include "base/peek.h"
#include "base/readable.h"
#include "core/children.h"
#include "core/handles.h"
#include "core/life.h"
#include "io/op.h"
#include "stackless/record.h"
#include "sync/waiting.h"

namespace fiberrt {

namespace {

// A copy of an object in memory that another thread may write or unmap.
template <class T>
class CopyOf : public Bytes<T> {
public:
    bool take(const T* from) { return copy_readable(this->memory(), from, sizeof(T)) == sizeof(T); }
};

// The fiber whose control block lies at this address; null: none does.
Fiber* fiber_at(uintptr_t address) {
    if (address % alignof(Fiber)) return nullptr;
    uint32_t index;
    const void* from = reinterpret_cast<const void*>(address + offsetof(Fiber, index));
    if (copy_readable(&index, from, sizeof index) != sizeof index || index >= fibers.most) return nullptr;
    Fiber* fiber = fibers.at(index);
    return reinterpret_cast<uintptr_t>(fiber) == address ? fiber : nullptr;
}

} // namespace

uint64_t fiber_of_identity(uintptr_t identity) {
    Fiber* fiber;
    if (!identity) return 0;
    if (fibers.resolve(identity, &fiber) == 0) return identity; // as read-write locks have it
    if (!is_of_this_process(identity)) return 0;
    uintptr_t lasting = identity - identity_stamp;
    if ((fiber = fiber_at(lasting))) return id_in(fiber);
    uint64_t main_flow = 0;
    cords.each([&](Cord* cord) {
        if (!(cord->generation.load(std::memory_order_relaxed) & 1) || peek(cord->main_flow.identity) != lasting)
            return;
        fiber = peek(cord->main_flow.fiber);
        if (fiber) main_flow = id_in(fiber);
    });
    return main_flow;
}

bool read_wait(const Fiber* fiber, const Wait* at, WaitSnapshot& out) {
    CopyOf<Wait> wait;
    out = {};
    if (!wait.take(at) || wait->fiber != fiber) return false;
    out.what = wait->what;
    switch (out.what) {
    case WaitFor::fiber: {
        CopyOf<JoinWait> join;
        if (!join.take(static_cast<const JoinWait*>(at))) return false;
        Fiber* target = fiber_at(reinterpret_cast<uintptr_t>(join->target));
        out.target = target ? id_in(target) : 0;
        return true;
    }
    case WaitFor::foreign_fiber:
    case WaitFor::cord: {
        CopyOf<EndWait> end;
        if (!end.take(static_cast<const EndWait*>(at))) return false;
        out.target = end->target;
        return true;
    }
    case WaitFor::children: {
        CopyOf<ChildrenWait> children;
        if (!children.take(static_cast<const ChildrenWait*>(at))) return false;
        CopyOf<Scope> scope;
        if (!scope.take(children->scope)) return false;
        out.target = make_id(Tag::scope, scope->index, scope->generation.load(std::memory_order_relaxed));
        out.for_all = children->for_all;
        return true;
    }
    case WaitFor::op: {
        CopyOf<Op> op;
        if (!op.take(static_cast<const Op*>(at))) return false;
        out.op.code = op->code;
        out.op.fd = op->code == OpCode::close ? int(op->offset) : op->fd;
        out.op.flags = op->flags;
        out.op.stopping = op->stop_reason;
        return true;
    }
    case WaitFor::primitive:
    case WaitFor::channel: {
        CopyOf<SyncWait> sync;
        CopyOf<Waiter> waiter;
        CopyOf<WaiterKind> kind;
        if (!sync.take(static_cast<const SyncWait*>(at)) || !waiter.take(sync->waiters) || !kind.take(waiter->kind))
            return false;
        ptrdiff_t copied = copy_readable(out.text, kind->text, sizeof out.text - 1);
        if (copied < 0) return false;
        out.text[copied] = '\0';
        out.primitive = reinterpret_cast<uintptr_t>(waiter->list);
        uintptr_t identity = 0;
        const void* word = reinterpret_cast<const void*>(out.primitive + kind->holder_at);
        // A primitive whose wait has been claimed may be freed.
        if (kind->holder_at && !sync->is_claimed() &&
            copy_readable(&identity, word, sizeof identity) == sizeof identity)
            out.owner = fiber_of_identity(identity & ~uintptr_t(kind->holder_flags));
        return true;
    }
    default: return true;
    }
}

void read_reason(const Fiber& image, Snapshot& out) {
    if (image.uses_stack() || !image.has_op()) return;
    CopyOf<fiber_op_t> record;
    const auto* from = reinterpret_cast<const char*>(image.call.op) - offsetof(fiber_op_t, internal);
    if (!record.take(reinterpret_cast<const fiber_op_t*>(from)) || !(record->flags & FIBER_OP_REASON)) return;
    ptrdiff_t copied = copy_readable(out.reason, record->address, sizeof out.reason - 1);
    out.reason[copied > 0 ? copied : 0] = '\0';
    out.reason_about = record->target;
}

void read_scopes(const Scope* at, Snapshot& out) {
    out.scope_count = 0;
    for (out.more_scopes = false; at; out.scope_count++) {
        CopyOf<Scope> scope;
        if (out.scope_count == Snapshot::scopes_most || !scope.take(at)) {
            out.more_scopes = true;
            return;
        }
        const Children& children = scope->children;
        out.scopes[out.scope_count] = {scope->deadline, scope->stopped, scope->shield,
                                       scope->has_children && !none_left(children)};
        at = scope->outer;
    }
}

} // namespace fiberrt
