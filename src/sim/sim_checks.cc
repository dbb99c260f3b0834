// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks the fibers of a cord at each switch of a simulation. For twenty fibers of one cord this takes less than 0.1 µs
// a step.
#include "sim/sim.h"

#include "core/fiber.h"
#include "core/wait.h"

namespace fiberrt {

namespace {

// The check covers this many slots of fibers. A cord with more fibers is checked only once in now_and_then steps.
constexpr uint32_t slots_checked = 64;
constexpr uint64_t now_and_then = 1024;

// The state of a slot at its last check.
struct SlotSeen {
    uint32_t generation;
    bool permit;
    uint64_t queued_at;      // the step at which the fiber was last seen in the run queue
    uint64_t looks_left_out; // the global count at the slot's last check
};
SlotSeen slots_seen[slots_checked];
uint64_t looks_left_out; // counts skipped checks: a state from before a skipped one proves nothing

bool is_queued(State state) { return state == State::scheduled || state == State::queued || state == State::woken; }

void check_queue(const Cord& cord) {
    if (cord.shutdown.leaving) return; // the cord drops its fibers one by one
    for (uint32_t i = 0, size = cord.sched.queue.size(); i < size; i++) {
        const Fiber* fiber = cord.sched.queue.nth(i);
        if (!is_queued(fiber->sched.state)) simulation_fails("a fiber in the run queue is not marked runnable");
        if (fiber->index >= slots_checked) continue;
        uint64_t& at = slots_seen[fiber->index].queued_at;
        if (at == simulation.steps) simulation_fails("a fiber is in the run queue twice");
        at = simulation.steps;
    }
}

// Whether the fiber may be marked running: the current fiber, and, if that has no stack, the fiber whose stack it uses.
bool may_run(const Cord& cord, const Fiber& fiber) {
    const Fiber* current = cord.sched.current;
    if (&fiber == current) return true;
    if (!current || current->uses_stack()) return false;
    if (cord.executor.entered_by) return &fiber == cord.executor.entered_by;
    if (current->step) return &fiber == cord.executor.fiber;
    return fiber.uses_stack(); // the host, which acts for the current fiber: check_fibers() finds at most one
}

void check_state(const Cord& cord, const Fiber& fiber) {
    switch (fiber.sched.state) {
    case State::running:
        if (!may_run(cord, fiber)) simulation_fails("a fiber that is marked running does not run");
        break;
    case State::waiting:
        if (!fiber.wait || fiber.wait->fiber != &fiber)
            simulation_fails("a fiber waits for an operation that has ended");
        break;
    case State::yielding:
    case State::created:
    case State::scheduled:
    case State::awaiting_stack:
        if (fiber.sched.permit) simulation_fails("a fiber waits although its wakeup is pending");
        break;
    default: break;
    }
    bool queued = slots_seen[fiber.index].queued_at == simulation.steps;
    bool may_be_next = !cord.sched.current; // a fiber that ends may switch to another directly
    bool goes_on = &fiber == cord.sched.current && !fiber.uses_stack(); // its operation does, at its turn
    if (!queued && is_queued(fiber.sched.state) && !may_be_next && !goes_on && !cord.shutdown.leaving) {
        simulation_fails("a fiber that is marked runnable is not in the run queue");
    }
}

// Whether the fiber may have run since the last check. Between two checks the executor may run a fiber without a stack,
// or a host may start an operation of one.
bool may_have_run(const Cord& cord, const Fiber& fiber) {
    if (&fiber == cord.sched.current || fiber.sched.state == State::running) return true;
    if (fiber.uses_stack()) return false;
    const Fiber* executor = cord.executor.fiber;
    if (!fiber.step || !executor) return true;
    return executor == cord.sched.current || executor->sched.state == State::running;
}

// Checks that a remembered wakeup (permit) was not lost: only its fiber takes it, when that runs.
void check_permit(const Cord& cord, const Fiber& fiber, uint32_t generation) {
    SlotSeen& before = slots_seen[fiber.index];
    bool known = before.generation == generation && before.looks_left_out == looks_left_out;
    bool lost = known && before.permit && !fiber.sched.permit;
    if (lost && !may_have_run(cord, fiber) && fiber.sched.state != State::dead) {
        simulation_fails("a pending wakeup is lost");
    }
    before.generation = generation;
    before.looks_left_out = looks_left_out;
    before.permit = fiber.sched.permit;
}

} // namespace

void check_fibers(const Cord& cord) {
    if (cord.counts.fibers > slots_checked && simulation.steps % now_and_then) {
        looks_left_out++;
        return;
    }
    check_queue(cord);
    uint32_t left = cord.counts.fibers;
    bool stack_in_use = false;
    for (uint32_t i = 0; i < slots_checked && left; i++) {
        const Fiber* fiber = fibers.at(i);
        if (!fiber || fiber->cord.load(std::memory_order_relaxed) != &cord) continue;
        left--;
        check_state(cord, *fiber);
        if (fiber->sched.state == State::running && fiber->uses_stack()) {
            if (stack_in_use) simulation_fails("two fibers are marked running, each on its own stack");
            stack_in_use = true;
        }
        check_permit(cord, *fiber, fiber->generation.load(std::memory_order_relaxed));
    }
}

} // namespace fiberrt
