// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes snapshots of fibers.
#include "debug/look.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/one_thread.h"
#include "base/peek.h"
#include "core/child_scope.h"
#include "core/children.h"
#include "core/handles.h"
#include "core/life.h"
#include "core/noswitch.h"
#include "debug/read_wait.h"

#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int tries_most = 8;

constinit pthread_mutex_t look_mutex = PTHREAD_MUTEX_INITIALIZER; // one look at a time: a fiber has one mark

// Makes each other thread of the process pass a memory barrier during the call. False: the kernel cannot.
bool barrier_of_all_threads() {
    if (surely_one_thread()) return true;
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

void read_still(const Fiber* fiber, const Fiber& image, Snapshot& out) {
    bool unrun = out.state == State::created || out.state == State::scheduled || out.state == State::awaiting_stack;
    out.function = unrun ? reinterpret_cast<uintptr_t>(image.call.fn) : 0;
    out.deadline = image.timeout.deadline;
    out.transferred = out.state == State::transferring ? image.transfer_to : 0;
    bool parked = out.state == State::queued || out.state == State::woken || out.state == State::yielding ||
                  out.state == State::transferring || out.state == State::waiting;
    out.sp = parked ? static_cast<char*>(image.sp) : nullptr;
    out.has_wait = out.state == State::waiting && read_wait(fiber, image.wait, out.wait);
    out.reason[0] = '\0';
    if (out.state == State::yielding) read_reason(image, out);
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

// Reads the members that need no mark, because a lock guards them.
int read_locked(Fiber* fiber, fiber_t handle, Snapshot& out) {
    {
        Locked locked(fiber->remote.lock);
        memcpy(out.name, fiber->name, sizeof out.name);
        out.scope = scope_of_child(fiber, &out.parent);
        constexpr uint8_t stops = request_cancel | request_interrupt | request_scopes;
        const RemoteRequests& remote = fiber->remote;
        out.is_asked_to_stop = remote.generation == id_generation(handle.id) && (remote.requested & stops);
    }
    out.name[sizeof out.name - 1] = '\0';
    if (fiber->requests.asked_elsewhere && !out.detached) out.detached = detach_is_coming(fiber);
    return check_unchanged(fiber, handle);
}

// Whether a fiber of this cord stands still while the calling thread looks, because the cord is the thread's own.
bool is_own(const Cord* cord) { return cord && cord == cord_if_any(); }

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
// Whether the thread has been asleep on the fiber's stack without interruption. (If the cord continues another fiber,
// this fiber need not see the end of the poll.)
bool sleeps_still(const Place& place, const Fiber* fiber) {
    Place now = place_of(fiber);
    return place.sleep_cfa && now.sleep_cfa == place.sleep_cfa && now.polls == place.polls;
}

// Reads all members. `still` says whether the fiber does not run; the caller finds out whether it stays so.
int read_parked(Fiber* fiber, fiber_t handle, const Place& place, Snapshot& out) {
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
    out.tag = {image->values.tag, image->extras.tag_kind};
    out.on_thread = place.on_thread;
    out.sleep_pc = place.sleep_pc;
    out.sleep_cfa = place.sleep_cfa;
    out.still = out.state != State::running && (out.state != State::handed_out || is_own(out.cord));
    if (out.still) read_still(fiber, *image, out);
    return 0;
}

// For a fiber of the calling thread's own cord.
int look_at_own(const Look& look, LookMore more) {
    int error = read_parked(look.fiber, look.handle, place_of(look.fiber), *look.seen);
    if (!error && look.seen->still && more) more(*look.seen, look.arg);
    return error;
}

// Ends a look in a round: finds out whether the fiber stood still, and takes its mark away.
void end_round(Look& look, bool visible) {
    Fiber* fiber = look.fiber;
    Snapshot& seen = *look.seen;
    bool same_state = look.before == seen.state && fiber->sched.state == look.before;
    reads_in_order();
    bool still = is_marked(fiber) && (!look.place.on_thread || sleeps_still(look.place, fiber));
    clear_mark(fiber);
    look.settled = true;
    if (look.error || !seen.still) return;
    // wake() ends the Wait before it sets the state.
    bool half_woken = seen.state == State::waiting && !seen.has_wait;
    seen.still = still && visible && same_state && !half_woken;
    look.settled = seen.still || !visible;
}

// Looks once at each of these fibers that is not settled: marks all of them, then reads all.
void look_once(Look* looks, int count, LookMore more) {
    MutexGuard guard(look_mutex);
    bool marked = false;
    for (Look* look = looks; look < looks + count; look++) {
        if (look->settled) continue;
        Fiber* fiber = look->fiber;
        if (is_own(fiber->cord.load(std::memory_order_acquire))) {
            look->error = look_at_own(*look, more);
            look->settled = true;
        } else {
            set_mark(fiber);
            marked = true;
        }
    }
    if (!marked) return;
    bool visible = barrier_of_all_threads();
    for (Look* look = looks; look < looks + count; look++) {
        if (look->settled) continue;
        // A first run clears no mark, so a fiber that is parked now, but was not before its place was read, is moving.
        look->before = look->fiber->sched.state;
        // The place is read first. If the thread has left the fiber's stack, Fiber::sp is of that switch.
        look->place = place_of(look->fiber);
    }
    if (!stores_in_order && visible) visible = barrier_of_all_threads();
    for (Look* look = looks; look < looks + count; look++) {
        if (look->settled) continue;
        look->error = read_parked(look->fiber, look->handle, look->place, *look->seen);
        if (!look->error && look->seen->still && visible && more) more(*look->seen, look->arg);
    }
    if (!stores_in_order && visible) visible = barrier_of_all_threads();
    reads_in_order();
    for (Look* look = looks; look < looks + count; look++) {
        if (!look->settled) end_round(*look, visible);
    }
}

// Completes a look by the values that have a lock of their own.
void finish(Look& look) {
    if (!look.error) look.error = read_locked(look.fiber, look.handle, *look.seen);
}

} // namespace

int look(Fiber* fiber, fiber_t handle, Snapshot& out) { return look(fiber, handle, out, nullptr, nullptr); }

int look(Fiber* fiber, fiber_t handle, Snapshot& out, LookMore more, void* arg) {
    KeepErrno keep;
    Look look = {fiber, handle, &out, arg};
    if (!more && is_own(fiber->cord.load(std::memory_order_acquire))) {
        look.error = look_at_own(look, nullptr); // without the mutex
    } else {
        for (int tries = 0; tries < tries_most && !look.settled; tries++) look_once(&look, 1, more);
    }
    finish(look);
    return look.error;
}

void look_at_all(Look* looks, int count, LookMore more) {
    KeepErrno keep;
    look_once(looks, count, more);
    // A fiber that has continued meanwhile may stand still for the shorter time that it needs alone.
    for (Look* look = looks; look < looks + count; look++) {
        for (int tries = 1; tries < tries_most && !look->settled; tries++) look_once(look, 1, more);
        finish(*look);
    }
}

bool look_at_one_moment(Look* looks, int count, LookMore more) {
    KeepErrno keep;
    look_once(looks, count, more);
    bool together = true;
    for (Look* look = looks; look < looks + count; look++) {
        together = together && look->settled && !look->error && look->seen->still;
        finish(*look);
        together = together && !look->error;
    }
    return together;
}

uint64_t waits_for(const Snapshot& fiber) {
    if (!fiber.still) return 0;
    if (!fiber.has_wait) return fiber_of_reason(fiber);
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
