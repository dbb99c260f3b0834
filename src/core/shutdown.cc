// SPDX-License-Identifier: MIT OR Apache-2.0
// How a cord is shut down: its fibers are given time, then cancelled.
#include "core/shutdown.h"

#include "core/cancel.h"
#include "core/mail.h"

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

// While one is in scope the cord does not end before its daemons have.
class ShuttingDown {
public:
    explicit ShuttingDown(Cord& cord) : cord_(cord) { cord.shutdown.under_way++; }
    ~ShuttingDown() {
        if (--cord_.shutdown.under_way == 0) quieter(cord_);
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
    auto ended_early = [&] { return error && (error != -ETIMEDOUT || me->sched.attention); };
    if (ended_early()) return error == -ETIMEDOUT ? attend(cord, cord.sched.current) : error;
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
    if (ended_early()) return error == -ETIMEDOUT ? attend(cord, cord.sched.current) : error;
    return int(left());
}

} // namespace fiberrt
