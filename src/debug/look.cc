// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes snapshots of fibers.
#include "debug/look.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/peek.h"
#include "base/readable.h"
#include "core/child_scope.h"
#include "core/children.h"
#include "core/handles.h"
#include "core/life.h"
#include "core/noswitch.h"
#include "io/op.h"
#include "sync/waiting.h"

#include <linux/membarrier.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int tries_most = 8;

constinit pthread_mutex_t look_mutex = PTHREAD_MUTEX_INITIALIZER; // one look at a time: a fiber has one mark

// Makes each other thread of the process pass a memory barrier during the call. False: the kernel cannot.
bool barrier_of_all_threads() {
    if (__libc_single_threaded) return true;
    for (int tries = 0; tries < 2; tries++) {
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) return true;
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) return false;
    }
    return false; // coverage: never
}

// x86 makes the stores of a thread visible in their order, so a reader that sees one sees the earlier ones.
#if defined __x86_64__
constexpr bool stores_in_order = true;
#else
constexpr bool stores_in_order = false;
#endif

// An object that is copied from memory which another thread may write or unmap.
template <class T>
class Copy : public Bytes<T> {
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

namespace {

// Reads what the fiber waits for. False: it cannot be read, or the fiber is not in that Wait.
bool read_wait(const Fiber* fiber, const Wait* at, WaitSnapshot& out) {
    Copy<Wait> wait;
    out = {};
    if (!wait.take(at) || wait->fiber != fiber) return false;
    out.what = wait->what;
    switch (out.what) {
    case WaitFor::fiber: {
        Copy<JoinWait> join;
        if (!join.take(static_cast<const JoinWait*>(at))) return false;
        Fiber* target = fiber_at(reinterpret_cast<uintptr_t>(join->target));
        out.target = target ? id_in(target) : 0;
        return true;
    }
    case WaitFor::foreign_fiber:
    case WaitFor::cord: {
        Copy<EndWait> end;
        if (!end.take(static_cast<const EndWait*>(at))) return false;
        out.target = end->target;
        return true;
    }
    case WaitFor::children: {
        Copy<ChildrenWait> children;
        if (!children.take(static_cast<const ChildrenWait*>(at))) return false;
        Copy<Scope> scope;
        if (!scope.take(children->scope)) return false;
        out.target = make_id(Tag::scope, scope->index, scope->generation.load(std::memory_order_relaxed));
        return true;
    }
    case WaitFor::op: {
        Copy<Op> op;
        if (!op.take(static_cast<const Op*>(at))) return false;
        out.op.code = op->code;
        out.op.fd = op->code == OpCode::close ? int(op->offset) : op->fd;
        out.op.flags = op->flags;
        out.op.stopping = op->stop_reason;
        return true;
    }
    case WaitFor::primitive:
    case WaitFor::channel: {
        Copy<SyncWait> sync;
        Copy<Waiter> waiter;
        Copy<WaiterKind> kind;
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

void read_scopes(const Scope* at, Snapshot& out) {
    out.scope_count = 0;
    for (out.more_scopes = false; at; out.scope_count++) {
        Copy<Scope> scope;
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

void read_still(const Fiber* fiber, const Fiber& image, Snapshot& out) {
    bool unrun = out.state == State::created || out.state == State::scheduled || out.state == State::awaiting_stack;
    out.function = unrun ? reinterpret_cast<uintptr_t>(image.call.fn) : 0;
    out.deadline = image.timeout.deadline;
    out.transferred = out.state == State::transferring ? image.transfer_to : 0;
    bool parked = out.state == State::queued || out.state == State::woken || out.state == State::yielding ||
                  out.state == State::transferring || out.state == State::waiting;
    out.sp = parked ? static_cast<char*>(image.sp) : nullptr;
    out.has_wait = out.state == State::waiting && read_wait(fiber, image.wait, out.wait);
    bool begun = parked || out.state == State::offered || out.state == State::handed_out;
    read_scopes(begun ? image.scopes : nullptr, out);
}

#if defined __riscv
// The processor has no such operation for a byte, and gcc 12 would call libatomic. The marks are the lowest byte of the
// word; the operation leaves the other three as they are.
using Marks [[gnu::may_alias]] = uint32_t;
#else
using Marks = uint8_t;
#endif
Marks* marks_of(Fiber* fiber) {
    static_assert(offsetof(Fiber::Sched, marks) == 0 && alignof(Fiber::Sched) == sizeof(uint32_t));
    return reinterpret_cast<Marks*>(&fiber->sched);
}
void set_mark(Fiber* fiber) { __atomic_fetch_or(marks_of(fiber), Marks(mark_looked), __ATOMIC_SEQ_CST); }
void clear_mark(Fiber* fiber) { __atomic_fetch_and(marks_of(fiber), Marks(~Marks(mark_looked)), __ATOMIC_SEQ_CST); }
bool is_marked(Fiber* fiber) { return __atomic_load_n(&fiber->sched.marks, __ATOMIC_SEQ_CST) & mark_looked; }

// What does not need the mark: it has a lock.
int read_locked(Fiber* fiber, fiber_t handle, Snapshot& out) {
    {
        Locked locked(fiber->remote.lock);
        memcpy(out.name, fiber->name, sizeof out.name);
        out.scope = scope_of_child(fiber, &out.parent);
    }
    out.name[sizeof out.name - 1] = '\0';
    if (fiber->requests.asked_elsewhere && !out.detached) out.detached = detach_is_coming(fiber);
    return check_unchanged(fiber, handle);
}

// Whether a fiber of this cord stands still while the calling thread looks, because the cord is the thread's own.
bool is_own(const Cord* cord) { return cord && cord == cord_if_any(); }

// Whether the fiber's thread is on the fiber's stack, though the fiber may be parked: about to switch, in a hook, in a
// poll, or asleep.
struct Place {
    bool on_thread;
    const void* sleep_pc; // on_thread: as CordWorld::StackInUse has them
    char* sleep_cfa;
    uint64_t polls;
};
Place place_of(const Fiber* fiber) {
    const Cord* cord = cord_of(fiber);
    Place place = {};
    if (!cord) return place;
    // The calling thread knows that its last switch is over, unless a hook of that switch makes this call.
    bool switches = !is_own(cord) || in_hook(*cord);
    place.on_thread = peek(cord->sched.current) == fiber || (switches && peek(cord->stack_in_use.hooked_from) == fiber);
    if (char* cfa = peek(cord->stack_in_use.sleep_cfa); cfa && peek(cord->stack_in_use.sleeper) == fiber) {
        place = {true, peek(cord->stack_in_use.sleep_pc), cfa, peek(cord->counters.polls)};
    }
    return place;
}
// Whether the thread has been asleep on the fiber's stack without interruption. (The end of a poll need not be seen by
// the fiber, if the cord continues another one.)
bool sleeps_still(const Place& place, const Fiber* fiber) {
    Place now = place_of(fiber);
    return place.sleep_cfa && now.sleep_cfa == place.sleep_cfa && now.polls == place.polls;
}

// Reads all members. `still` says whether the fiber does not run; the caller finds out whether it stays so.
int read(Fiber* fiber, fiber_t handle, const Place& place, Snapshot& out) {
    Image<Fiber> image;
    image.take(*fiber);
    if (image->generation.load(std::memory_order_relaxed) != id_generation(handle.id)) return -ESRCH;
    Cord* cord = image->cord.load(std::memory_order_relaxed);
    if (!cord) return -ESRCH;
    out.id = handle.id;
    out.cord = unbound(cord);
    out.state = image->sched.state;
    out.kind = image->life.kind;
    out.cancelled = image->requests.cancelled;
    out.interrupted = image->requests.interrupt_pending;
    out.permit = image->sched.permit;
    out.detached = image->life.detached;
    out.stack_low = image->stack_low;
    out.stack_class = image->stack_class;
    out.on_thread = place.on_thread;
    out.sleep_pc = place.sleep_pc;
    out.sleep_cfa = place.sleep_cfa;
    out.still = out.state != State::running;
    if (out.still) read_still(fiber, *image, out);
    return 0;
}

// For a fiber without a stack: it has no mark.
int look_without_a_mark(Fiber* fiber, fiber_t handle, Snapshot& out) {
    int error = read(fiber, handle, {}, out);
    out.still = out.still && is_own(out.cord);
    return error;
}

int look_at_other(Fiber* fiber, fiber_t handle, Snapshot& out, LookMore more, void* arg) {
    MutexGuard guard(look_mutex);
    for (int tries = 0; tries < tries_most; tries++) {
        if (!fiber->uses_stack()) return look_without_a_mark(fiber, handle, out); // the slot's next fiber
        set_mark(fiber);
        bool visible = barrier_of_all_threads();
        // A first run clears no mark, so a fiber that is parked now, but was not before its place was read, is moving.
        State before = fiber->sched.state;
        // The place is read first. If the thread has left the fiber's stack, Fiber::sp is of that switch.
        Place place = place_of(fiber);
        if (!stores_in_order && visible) visible = barrier_of_all_threads();
        int error = read(fiber, handle, place, out);
        if (!error && out.still && visible && more) more(out, arg);
        if (!stores_in_order && visible) visible = barrier_of_all_threads();
        reads_in_order();
        bool same_state = before == out.state && fiber->sched.state == before;
        reads_in_order();
        bool still = is_marked(fiber) && (!place.on_thread || sleeps_still(place, fiber));
        clear_mark(fiber);
        if (error || !out.still) return error;
        if (out.stack_class == StackPool::no_stack) { // the slot's next fiber heeds no mark
            out.still = false;
            return 0;
        }
        // wake() ends the Wait before it sets the state.
        bool half_woken = out.state == State::waiting && !out.has_wait;
        if (still && visible && same_state && !half_woken) return 0;
        out.still = false;
        if (!visible) return 0;
    }
    return 0;
}

} // namespace

uint64_t id_in(const Fiber* fiber) {
    uint32_t generation = fiber->generation.load(std::memory_order_relaxed);
    return generation & 1 ? make_id(Tag::fiber, fiber->index, generation) : 0;
}

int look(Fiber* fiber, fiber_t handle, Snapshot& out) { return look(fiber, handle, out, nullptr, nullptr); }

int look(Fiber* fiber, fiber_t handle, Snapshot& out, LookMore more, void* arg) {
    KeepErrno keep;
    int error;
    Cord* cord = fiber->cord.load(std::memory_order_acquire);
    if (!fiber->uses_stack()) {
        error = look_without_a_mark(fiber, handle, out);
    } else if (is_own(cord)) {
        error = read(fiber, handle, place_of(fiber), out);
        if (!error && out.still && more) {
            MutexGuard guard(look_mutex);
            more(out, arg);
        }
    } else {
        error = look_at_other(fiber, handle, out, more, arg);
    }
    return error ? error : read_locked(fiber, handle, out);
}

uint64_t waits_for(const Snapshot& fiber) {
    if (!fiber.still || !fiber.has_wait) return 0;
    switch (fiber.wait.what) {
    case WaitFor::fiber:
    case WaitFor::foreign_fiber: return fiber.wait.target;
    case WaitFor::primitive:
    case WaitFor::channel: return fiber.wait.owner;
    default: return 0;
    }
}

void look_lock() { pthread_mutex_lock(&look_mutex); }
void look_unlock() { pthread_mutex_unlock(&look_mutex); }

} // namespace fiberrt
