// SPDX-License-Identifier: MIT OR Apache-2.0
// How a cord is shut down: its fibers are given time, then cancelled.
#include "core/shutdown.h"

#include "core/cancel.h"
#include "core/mail.h"

namespace fiberrt {

void stop_quiet(Wait* base, int reason) {
    auto* wait = static_cast<QuietWait*>(base);
    wait->cord->quiet_waits.remove(wait);
    wake(wait, reason);
}

void stop_quiet_at_deadline(Wait* base, int reason) {
    if (reason == -ETIMEDOUT) stop_quiet(base, reason);
}

namespace {

// While one is in scope the cord does not end before its daemons have.
class ShuttingDown {
public:
    explicit ShuttingDown(Cord& cord) : cord_(cord) { cord.shutdowns++; }
    ~ShuttingDown() {
        if (--cord_.shutdowns == 0) quieter(cord_);
    }
    ShuttingDown(const ShuttingDown&) = delete;
    ShuttingDown& operator=(const ShuttingDown&) = delete;

private:
    Cord& cord_;
};

} // namespace

int cord_shutdown(Cord& cord, int64_t grace, int64_t deadline) {
    if (cord.work && cord.work->ops->leave) return -EBUSY;
    const Fiber* me = cord.current;
    uint32_t live_self = me->kind == Kind::keeps_cord;
    uint32_t daemon_self = me->kind == Kind::daemon;
    auto main_lives = [&] { return cord.started && !cord.main_done && me != cord.main; };
    auto live = [&] { return cord.live_count - live_self + main_lives(); };
    auto left = [&] { return live() + cord.daemon_count - daemon_self; };
    bool stoppable = !is_internal(me->kind);

    cord.closing = true;
    ShuttingDown this_one(cord);
    int error = wait_until_quiet(cord, grace, stoppable, [&] { return live() == 0; });
    auto ended_early = [&] { return error && (error != -ETIMEDOUT || me->attention); };
    if (ended_early()) return error == -ETIMEDOUT ? attend(cord, cord.current) : error;
    if (left() == 0) return 0;
    fibers.each([&](Fiber* fiber) {
        if (fiber->cord.load(std::memory_order_relaxed) != &cord || fiber == me || is_internal(fiber->kind)) return;
        if (fiber == cord.main && !main_lives()) return;
        if (fiber->state == State::dead) return;
        note_reason(fiber, nullptr);
        cancel(cord, fiber);
    });
    error = wait_until_quiet(cord, deadline, stoppable, [&] { return left() == 0; });
    if (ended_early()) return error == -ETIMEDOUT ? attend(cord, cord.current) : error;
    return int(left());
}

} // namespace fiberrt
