// SPDX-License-Identifier: MIT OR Apache-2.0
// Shuts cords down: gives their fibers time, then cancels them.
#include "core/shutdown.h"

#include "core/attr.h"
#include "core/cancel.h"
#include "core/remote_requests.h"

namespace fiberrt {

void stop_quiet(Wait* base, int reason) {
    auto* wait = static_cast<QuietWait*>(base);
    wait->cord->shutdown.quiet_waits.remove(wait);
    wake(wait, reason);
}

void stop_quiet_at_deadline(Wait* base, int reason) {
    if (reason == -ETIMEDOUT) stop_quiet(base, reason);
}

namespace {

// Keeps the cord from ending before its daemons have ended, while an object of this class exists.
class ShuttingDown {
public:
    explicit ShuttingDown(Cord& cord) : cord_(cord) { cord.shutdown.under_way++; }
    ~ShuttingDown() {
        if (--cord_.shutdown.under_way == 0) wake_quiet_waits(cord_);
    }
    ShuttingDown(const ShuttingDown&) = delete;
    ShuttingDown& operator=(const ShuttingDown&) = delete;

private:
    Cord& cord_;
};

} // namespace

int cord_shutdown(Cord& cord, int64_t grace, int64_t deadline) {
    if (cord.work && cord.work->ops->leave) return -EBUSY;
    const Fiber* me = cord.sched.current;
    uint32_t live_self = me->life.kind == Kind::keeps_cord;
    uint32_t daemon_self = me->life.kind == Kind::daemon;
    auto main_lives = [&] { return cord.started && !cord.main_flow.done && me != cord.main_flow.fiber; };
    auto live = [&] { return cord.counts.live - live_self + main_lives(); };
    auto left = [&] { return live() + cord.counts.daemons - daemon_self; };
    bool stoppable = !is_internal(me->life.kind);

    cord.closing = true;
    ShuttingDown this_one(cord);
    int error = wait_until_quiet(cord, grace, stoppable, [&] { return live() == 0; });
    auto ended_early = [&] { return error && (error != -ETIMEDOUT || me->sched.pending); };
    if (ended_early()) return error == -ETIMEDOUT ? check_pending(cord, cord.sched.current) : error;
    if (left() == 0) return 0;
    fibers.each([&](Fiber* fiber) {
        if (fiber->cord.load(std::memory_order_relaxed) != &cord || fiber == me || is_internal(fiber->life.kind))
            return;
        if (fiber == cord.main_flow.fiber && !main_lives()) return;
        if (fiber->sched.state == State::dead) return;
        note_reason(fiber, nullptr);
        cancel(cord, fiber);
    });
    error = wait_until_quiet(cord, deadline, stoppable, [&] { return left() == 0; });
    if (ended_early()) return error == -ETIMEDOUT ? check_pending(cord, cord.sched.current) : error;
    return int(left());
}

namespace {

// The function of the fiber that shuts its cord down. The grace is its argument, the deadline its transfer_value, since
// no fiber transfers to it.
void* shut_down_here(void* grace) {
    Cord& cord = *this_cord;
    auto deadline = reinterpret_cast<intptr_t>(cord.sched.current->transfer_value);
    return reinterpret_cast<void*>(intptr_t(cord_shutdown(cord, reinterpret_cast<intptr_t>(grace), deadline)));
}

} // namespace

int cord_shutdown_elsewhere(Cord& here, Cord* cord, uint64_t id, int64_t grace, int64_t deadline) {
    Fiber* fiber;
    int error = fiber_create_elsewhere(*cord, id, Kind::internal, &fiber);
    if (error) return error;
    fiber->call.fn = shut_down_here;
    fiber->call.arg = reinterpret_cast<void*>(grace);
    fiber->transfer_value = reinterpret_cast<void*>(deadline);
    fiber->stack_class = fiber_attr().stack_class;
    uint32_t generation = fiber->generation.load(std::memory_order_relaxed);
    error = send_new(*cord, fiber, true);
    if (error) {
        fiber_create_undo(fiber);
        return error;
    }
    void* result;
    error = join_elsewhere(here, fiber, generation, &result, never);
    if (error == -ESRCH || error == -EOWNERDEAD) return 0; // the cord has ended before the fiber arrived
    if (error < 0) detach_elsewhere(fiber, generation);    // the caller waits no longer; the shutdown goes on
    return error ? error : int(reinterpret_cast<intptr_t>(result));
}

} // namespace fiberrt
