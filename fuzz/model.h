// SPDX-License-Identifier: MIT OR Apache-2.0
// The reference of target `switch`, and the base of that of `waiting`: a model of one thread's fibers as
// include/fiberrt.h promises them, written as plainly as possible. It has no stacks and no switch. It knows the state
// of each fiber, the order of the run queue, and the result of each call.
//
// Before each call of the library the target makes the same call here. If the caller keeps the thread, the model's call
// returns the result that the library must return. Otherwise the model notes which fiber must run next, and stores the
// result when it makes the caller runnable (Fiber::result). The target replaces the clock: time stands still
// except for steps that the model knows of, so it also knows which wait times out, and when. Only the order of
// fibers with equal deadlines is left open.
#pragma once

#include "check.h"

#include <algorithm>
#include <deque>
#include <errno.h>
#include <fiberrt.h>
#include <vector>

namespace model {

constexpr int nobody = -1;
constexpr int64_t never = FIBER_FOREVER;

enum class State {
    created,
    scheduled,
    stackless,
    running,
    queued,
    woken,
    yielding,
    transferring,
    sleeping,
    joining,
    waiting,
    dead
};

struct Scope {
    fiber_scope_t handle;
    int owner;
    int64_t deadline;
    bool shield;
    bool fired;
    bool open;
    bool cancelled = false; // from here on used by target `waiting` only
    bool parent = false;    // it has, or has had, children
    void* reason = nullptr;
};

struct Fiber {
    fiber_t handle = {};
    State state = State::created;
    int result = 0;        // of the fiber's call, once the fiber is runnable again
    void* value = nullptr; // that comes with the result: a join's result, a transfer's value
    void* wakeup_value = nullptr;
    bool permit = false;
    bool cancelled = false;
    bool interrupt_pending = false;
    bool interrupt_returning = false; // an interrupt has ended a wait that has not returned yet
    bool was_interrupted = false;
    bool detached = false;
    bool has_stack = false;
    bool gone = false; // its handle is stale
    bool ending = false;
    int entered = 0; // how often its function was called
    int noswitch = 0;
    void* cancel_reason = nullptr;
    void* interrupt_value = nullptr;
    void* interrupted_value = nullptr;
    int transferrer = nobody;
    void* transfer_value = nullptr;
    int transfer_to = nobody;
    int64_t wait_deadline = never;
    int join_target = nobody;
    std::vector<int> joiners;
    std::vector<int> scopes;    // indices in Model::scopes, outermost first
    void* end_result = nullptr; // once dead
    int end_error = 0;          // once dead: -EAGAIN if it could not run for want of a stack
};

class Model {
public:
    Model() = default;
    virtual ~Model() = default;
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    std::deque<Fiber> fibers; // the first is the main flow; references into it stay valid
    std::vector<Scope> scopes;
    int running = 0;
    int64_t now = 0; // when nothing is runnable, a switch moves it to the next deadline

    uint64_t stack_limit = 0; // how many stacks there are

    static constexpr int main_flow = 0;

    Fiber& me() { return fibers[size_t(running)]; }
    Fiber& at(int f) { return fibers[size_t(f)]; }

    // ---- pending errors of a call -----------------------------------------------------------------------------------

    bool shielded(int f) {
        for (int s : at(f).scopes)
            if (scopes[size_t(s)].shield) return true;
        return at(f).ending; // destructors of keys
    }

    // The scopes whose deadlines count: from the innermost out to the first shield, and beyond it where a scope has
    // children.
    template <class Visit>
    void each_counting_scope(int f, Visit visit) {
        auto& list = at(f).scopes;
        bool counts = true;
        for (size_t i = list.size(); i-- > 0;) {
            Scope& scope = scopes[size_t(list[i])];
            if (scope.parent) counts = true;
            if (counts) visit(scope);
            if (scope.shield) counts = false;
        }
    }

    // Whether, out to the first shield, a scope's deadline has fired, or a scope has been cancelled.
    void look_inside(int f, bool* fired, bool* cancelled) {
        *fired = *cancelled = false;
        auto& list = at(f).scopes;
        for (size_t i = list.size(); i-- > 0;) {
            Scope& scope = scopes[size_t(list[i])];
            *fired |= scope.fired;
            *cancelled |= scope.cancelled;
            if (scope.shield) return;
        }
    }

    // The error that the running fiber's next switching call returns at once; 0: none.
    int obstacle() {
        Fiber& f = me();
        bool fired, cancelled;
        look_inside(running, &fired, &cancelled);
        if (f.noswitch) return -EPERM;
        if (cancelled || (f.cancelled && !shielded(running))) return -ECANCELED;
        if (f.interrupt_pending && !shielded(running)) return -EINTR;
        return fired ? -ETIMEDOUT : 0;
    }

    // obstacle() for a call that is made: it uses up an interrupt.
    virtual int refuse() {
        int error = obstacle();
        if (error == -EINTR) deliver_interrupt(me());
        return error;
    }

    // Whether a deadline has passed that no poll has noticed.
    bool deadline_due() {
        for (size_t f = 0; f < fibers.size(); f++)
            if (deadline_of(int(f)) <= now) return true;
        return false;
    }

    int64_t after(int64_t duration) { return duration == never ? never : now + duration; }

    // ---- calls that switch ----------------------------------------------------------------------------------------
    // Each returns true if the caller gave the thread away; else its result is in me().result.

    bool start(int f) {
        if (fails(at(f).gone ? -ESRCH : 0)) return false;
        if (fails(refuse())) return false;
        if (fails(at(f).state == State::dead ? -ESRCH : at(f).state != State::created ? -EBUSY : 0)) return false;
        if (fails(take_stack(f) ? 0 : -EAGAIN)) return false;
        me().state = State::queued;
        me().result = 0;
        queue_.push_front({running, 0});
        run(f);
        return true;
    }

    bool yield(int64_t timeout) {
        if (fails(refuse())) return false;
        if (me().permit) {
            me().permit = false;
            enqueue(running, State::woken, 0);
        } else {
            me().state = State::yielding;
            me().wait_deadline = after(timeout);
        }
        give_way();
        return true;
    }

    // The others get one turn; afterwards turn_taken() gives the call's result.
    bool yield_once() {
        if (me().permit || obstacle()) return yield(never);
        return reschedule();
    }
    void turn_taken() {
        if (me().permit) {
            me().permit = false;
            me().result = 0;
        } else {
            int error = refuse();
            me().result = error ? error : -ETIMEDOUT;
        }
    }

    bool reschedule() {
        if (fails(refuse())) return false;
        enqueue(running, State::queued, 0);
        give_way();
        return true;
    }

    uint64_t looks = 0; // at the clock, by look_and_reschedule()

    // One look at the clock, then a turn for the others.
    bool look_and_reschedule() {
        if (fails(refuse())) return false;
        looks++;
        fire_timers();
        return reschedule();
    }

    bool sleep(int64_t duration) {
        if (duration == 0) return look_and_reschedule();
        if (fails(refuse())) return false;
        me().state = State::sleeping;
        me().wait_deadline = after(duration);
        give_way();
        return true;
    }

    bool join(int f, int64_t timeout) {
        Fiber& target = at(f);
        if (fails(target.gone ? -ESRCH : target.detached ? -EINVAL : 0)) return false;
        if (fails(refuse())) return false;
        if (fails(f == running ? -EDEADLK : 0)) return false;
        if (target.state == State::dead) {
            me().result = target.end_error;
            me().value = target.end_result;
            target.gone = true;
            return false;
        }
        me().state = State::joining;
        me().join_target = f;
        me().wait_deadline = after(timeout);
        target.joiners.push_back(running);
        give_way();
        return true;
    }

    bool transfer(int f, void* value) {
        Fiber& to = at(f);
        if (fails(to.gone ? -ESRCH : 0)) return false;
        if (fails(refuse())) return false;
        bool parked = to.state == State::created || to.state == State::yielding || to.state == State::transferring;
        if (fails(to.state == State::dead ? -ESRCH : parked ? 0 : -EBUSY)) return false;
        if (fails(to.state == State::created && !take_stack(f) ? -EAGAIN : 0)) return false;
        if (to.state == State::yielding) to.wakeup_value = value;
        to.wait_deadline = never;
        to.transferrer = running;
        to.transfer_value = value;
        to.value = value;
        to.result = 0;
        me().state = State::transferring;
        me().transfer_to = f;
        run(f);
        return true;
    }

    // Destructors of keys are about to run: scopes and sections are closed, cancels are held back.
    void begin_end() {
        for (int s : me().scopes) scopes[size_t(s)].open = false;
        me().scopes.clear();
        me().noswitch = 0;
        me().ending = true;
    }

    void end(void* result) {
        Fiber& f = me();
        int dead = running, successor = f.transferrer;
        bool inherits = successor != nobody && !at(successor).gone && at(successor).state == State::transferring &&
                        at(successor).transfer_to == dead;
        if (inherits) {
            at(successor).transfer_value = at(successor).value = result;
            at(successor).result = 1;
        }
        f.has_stack = false;
        offer_stack();
        bury(dead, result);
        if (inherits) {
            run(successor);
        } else {
            give_way();
        }
    }

    // A fiber's code runs: it must be the expected fiber, or one whose deadline came at the same time.
    virtual void resumed(int f) {
        if (f != running) {
            auto& queue = queue_;
            for (auto entry = queue.begin(); entry != queue.end() && group_ && entry->group == group_; ++entry) {
                if (entry->fiber != f) continue;
                at(running).state = State::queued;
                entry->fiber = running;
                running = f;
                break;
            }
        }
        FUZZ_CHECK_EQ(f, running);
        me().state = State::running;
        me().interrupt_returning = false;
    }

    // ---- calls that do not switch ---------------------------------------------------------------------------------

    int create(bool detached) {
        fibers.emplace_back();
        fibers.back().detached = detached;
        return int(fibers.size()) - 1;
    }

    int wakeup(int f, void* value) {
        Fiber& to = at(f);
        if (to.gone) return -ESRCH;
        switch (to.state) {
        case State::created: enqueue(f, State::scheduled, 0); break;
        case State::yielding:
            to.wakeup_value = value;
            enqueue(f, State::woken, 0);
            break;
        case State::scheduled:
        case State::stackless:
        case State::woken:
        case State::dead: break;
        default:
            if (to.permit) break;
            to.permit = true;
            to.wakeup_value = value;
        }
        return 0;
    }

    int wakeup_value(int f, void* value) {
        Fiber& to = at(f);
        if (to.gone || to.state == State::dead) return -ESRCH;
        bool fresh = to.state == State::created || to.state == State::scheduled || to.state == State::stackless;
        return fresh || to.permit || to.state == State::woken ? -EBUSY : wakeup(f, value);
    }

    int detach(int f) {
        Fiber& target = at(f);
        if (target.gone) return -ESRCH;
        if (target.detached || f == main_flow) return -EINVAL;
        target.detached = true;
        if (target.state == State::dead) target.gone = true;
        return 0;
    }

    int cancel(int f, void* reason) {
        Fiber& target = at(f);
        if (target.gone) return -ESRCH;
        if (target.state == State::dead || target.cancelled) return 0;
        target.cancelled = true;
        target.cancel_reason = reason;
        if (target.state == State::created || target.state == State::stackless) {
            stackless_.erase(std::remove(stackless_.begin(), stackless_.end(), f), stackless_.end());
            bury(f, FIBER_CANCELLED);
        } else if (!shielded(f)) {
            stop(f, -ECANCELED);
        }
        if (target.state != State::dead) stop_children(f);
        return 0;
    }

    int interrupt(int f, void* value) {
        Fiber& target = at(f);
        if (target.gone) return -ESRCH;
        if (target.state == State::dead) return 0;
        if (target.interrupt_pending || target.interrupt_returning) return -EBUSY;
        target.interrupt_pending = true;
        target.interrupt_value = value;
        if (!shielded(f)) stop(f, -EINTR);
        return 0;
    }

    int exit_error() { return running == main_flow || me().ending || me().noswitch ? -EPERM : 0; }

    void scope_open(fiber_scope_t handle, int64_t duration, bool shield) {
        me().scopes.push_back(int(scopes.size()));
        scopes.push_back({handle, running, after(duration), shield, false, true});
    }

    int scope_error(int s) {
        return !scopes[size_t(s)].open ? -ESRCH : scopes[size_t(s)].owner != running ? -EPERM : 0;
    }

    // either: a deadline has passed, but no poll need have noticed.
    int scope_close(int s, bool* either) {
        *either = false;
        if (int error = scope_error(s)) return error;
        Scope& scope = scopes[size_t(s)];
        *either = !scope.fired && scope.deadline <= now;
        while (scope.open) {
            scopes[size_t(me().scopes.back())].open = false;
            me().scopes.pop_back();
        }
        return scope.fired ? -ETIMEDOUT : 0;
    }

    int scope_set_timeout(int s, int64_t duration) {
        if (int error = scope_error(s)) return error;
        scopes[size_t(s)].deadline = after(duration);
        if (duration > 0) scopes[size_t(s)].fired = false;
        return 0;
    }

    // A look at the clock.
    void fire_timers() {
        std::vector<std::pair<int64_t, int>> due;
        for (size_t f = 0; f < fibers.size(); f++) {
            int64_t deadline = deadline_of(int(f));
            if (deadline <= now) due.push_back({deadline, int(f)});
        }
        std::sort(due.begin(), due.end());
        for (size_t i = 0; i < due.size(); i++) {
            if (i == 0 || due[i].first != due[i - 1].first) groups_++;
            fire(due[i].second, groups_);
        }
    }

    bool queue_empty() const { return queue_.empty(); }

    // ---- the observable state ---------------------------------------------------------------------------------------

    int public_state(int f) {
        switch (at(f).state) {
        case State::created: return FIBER_NEW;
        case State::scheduled:
        case State::stackless:
        case State::queued:
        case State::woken: return FIBER_RUNNABLE;
        case State::running: return FIBER_RUNNING;
        case State::dead: return FIBER_DEAD;
        default: return FIBER_WAITING;
        }
    }

    uint64_t fibers_held() {
        uint64_t count = 0;
        for (Fiber& f : fibers) count += !f.gone;
        return count;
    }

    uint64_t stacks_held() {
        uint64_t count = 0;
        for (Fiber& f : fibers) count += f.has_stack;
        return count;
    }

protected:
    // ---- hooks for the targets --------------------------------------------------------------------------------------

    virtual bool goes_on() { return true; } // a fiber was taken off the queue: whether its call returns
    virtual void never_runs(int) {}         // it is about to end: before its joiners are told
    virtual void ended(int) {}              // other waiters than its joiners may need its result too
    virtual void stop_children(int) {}      // f was stopped: its scopes' children may have to stop

    struct Entry {
        int fiber;
        uint64_t group; // entries with the same number, except 0, may come in any order
    };

    bool fails(int error) {
        me().result = error;
        return error < 0;
    }

    void run(int f) {
        running = f;
        at(f).state = State::running;
        group_ = 0;
    }

    bool take_stack(int f) {
        at(f).has_stack = stacks_held() < stack_limit;
        return at(f).has_stack;
    }

    // The first fiber that waits for a stack tries again; all, if no fiber has one to give back.
    void offer_stack() {
        bool all = stacks_held() == 0;
        while (!stackless_.empty()) {
            int f = stackless_.front();
            stackless_.erase(stackless_.begin());
            enqueue(f, State::scheduled, 0);
            if (!all) return;
        }
    }

    // Ends a wait, or begins a turn.
    void enqueue(int f, State as, int result, uint64_t group = 0) {
        Fiber& fiber = at(f);
        if (fiber.state == State::joining) {
            auto& waiting = at(fiber.join_target).joiners;
            waiting.erase(std::remove(waiting.begin(), waiting.end(), f), waiting.end());
        }
        fiber.wait_deadline = never;
        fiber.state = as;
        fiber.result = result;
        queue_.push_back({f, group});
    }

    virtual void stop(int f, int reason, uint64_t group = 0) {
        Fiber& fiber = at(f);
        if (public_state(f) != FIBER_WAITING) return;
        if (reason == -EINTR) {
            deliver_interrupt(fiber);
            fiber.interrupt_returning = true;
        }
        enqueue(f, State::queued, reason, group);
    }

    void deliver_interrupt(Fiber& fiber) {
        fiber.interrupt_pending = false;
        fiber.was_interrupted = true;
        fiber.interrupted_value = fiber.interrupt_value;
    }

    void bury(int f, void* result, int error = 0) {
        Fiber& fiber = at(f);
        if (!fiber.entered) {
            fiber.state = State::running; // no call meanwhile starts or ends it
            never_runs(f);
        }
        bool told = fiber.detached || !fiber.joiners.empty();
        fiber.state = State::dead;
        fiber.end_result = result;
        fiber.end_error = error;
        std::vector<int> joiners = fiber.joiners;
        for (int joiner : joiners) {
            at(joiner).value = result;
            enqueue(joiner, State::queued, error);
        }
        fiber.gone = told;
        ended(f);
    }

    int64_t deadline_of(int f) {
        Fiber& fiber = at(f);
        int64_t deadline = fiber.wait_deadline;
        if (fiber.state == State::dead || fiber.ending) return deadline;
        each_counting_scope(f, [&](Scope& s) {
            if (!s.fired) deadline = std::min(deadline, s.deadline);
        });
        return deadline;
    }

    void fire(int f, uint64_t group) {
        Fiber& fiber = at(f);
        bool own = fiber.wait_deadline <= now, parent = false, fired, cancelled;
        bool slept_enough = fiber.state == State::sleeping && own;
        each_counting_scope(f, [&](Scope& s) {
            s.fired |= s.deadline <= now;
            parent |= s.parent;
        });
        look_inside(f, &fired, &cancelled);
        if (slept_enough) {
            enqueue(f, State::queued, 0, group);
        } else if (own || fired) {
            stop(f, -ETIMEDOUT, group);
        }
        if (parent) stop_children(f);
    }

    void give_way() {
        for (;;) {
            if (queue_.empty()) {
                wait_for_timers();
                continue;
            }
            Entry next = queue_.front();
            queue_.pop_front();
            if (at(next.fiber).state == State::scheduled && !begin(next.fiber)) continue;
            run(next.fiber);
            group_ = next.group;
            if (!goes_on()) continue;
            return;
        }
    }

    // A fiber's first run; false: it does not run now, or never.
    bool begin(int f) {
        if (at(f).cancelled) {
            bury(f, FIBER_CANCELLED);
            offer_stack(); // the stack may have been meant for it
            return false;
        }
        if (take_stack(f)) return true;
        if (stacks_held() == 0) {
            bury(f, nullptr, -EAGAIN);
        } else {
            at(f).state = State::stackless;
            stackless_.push_back(f);
        }
        return false;
    }

    void wait_for_timers() {
        int64_t earliest = never;
        for (size_t f = 0; f < fibers.size(); f++) earliest = std::min(earliest, deadline_of(int(f)));
        if (earliest == never) { // and there is no other thread: the main flow gets the error
            stop(main_flow, -EDEADLK);
            FUZZ_CHECK(!queue_.empty());
            return;
        }
        now = std::max(now, earliest); // earlier than now: a lock that waits again after its deadline
        fire_timers(); // which wakes no fiber if it was for the children of a shielded fiber, and these are cancelled
    }

    std::deque<Entry> queue_;
    std::vector<int> stackless_; // fibers whose first run waits for a stack, in order
    uint64_t groups_ = 0;
    uint64_t group_ = 0; // of the entry that was last taken off the queue
};

} // namespace model
