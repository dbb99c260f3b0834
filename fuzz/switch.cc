// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `switch`: the bytes are a program of calls that the fibers of one thread make, over real switches, through the
// public API. The running fiber takes the next bytes, so they decide which fiber does what; the model (model.h)
// predicts every result, every value passed, and the next fiber to run. The target checks the state that belongs to a
// fiber (registers, errno, the floating-point control words, exceptions in flight, keys, the frames on its stack) after
// every call; fiber_stats and fiber_info after every operation; every call of an ambient key's apply; and when the
// arguments of fibers that never run are freed. At the end all fibers are ended, and nothing may be left.
//
// There is no I/O and no real time: the library's clock (still_clock.h) stands still while a fiber is runnable, and goes to
// the next deadline when the thread would sleep.
#include "model.h"
#include "still_clock.h"

#include "core/cord.h"
#include "core/scheduler.h"
#include "embed/user_hooks.h"

#include <cfenv>
#include <exception>
#include <string.h>
#include <string>
#include <sys/single_threaded.h>

using model::never;
using model::nobody;
using model::State;

namespace {

constexpr int fiber_limit = 24;
constexpr int depth_limit = 3;
constexpr int stack_limit = 8; // fewer than fibers: they run out
constexpr int64_t durations[] = {0, 1, 2, 3, 5, 8, 13, never};
constexpr int64_t time_slice = 100'000; // of fiber_reschedule_if_due
constexpr unsigned ambient_count = 2;   // ambient keys
constexpr unsigned key_count = 3 + ambient_count;
constexpr int rounding[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
constexpr int sleeps_for_ever = 1'000;

struct Thrown {
    int fiber;
    int number;
};

// The target's own record of a fiber, in addition to the model's.
struct Own {
    std::string name;
    void* result = nullptr; // that its function returns or gives to fiber_exit
    int thrown = 0;         // exceptions, ever
    int unwinding = 0;      // exceptions in flight
    int handlers = 0;       // catch blocks it is in
    int destructor_rounds = 0;
    void* locals[3] = {};
    unsigned local_key[3] = {}; // the use of the key under which the value was set
    void* ambient[ambient_count] = {};
    unsigned ambient_key[ambient_count] = {}; // as local_key
    bool ambient_gone = false;                // they have been destroyed
    int ambient_destroyed = 0;                // how often the destructor of the first was called,
    int ambient_due = 0;                      // and should have been
    bool frees_arg = false;                   // and free_arg does this to that fiber:
    enum Deed { nothing, wake, stop, detach } deed = nothing;
    int deed_target = nobody;
    int deed_result = 0;         // that it must have
    int freed = 0, free_due = 0; // how often it was called, and should have been
    std::vector<int> untold;     // the fiber's joiners when free_arg is called
};

// The calls of an ambient key's apply, and since when they are counted.
struct AmbientKey {
    fiber_key_t key;
    unsigned uses = 0;
    void* in_force = nullptr;
    void* before = nullptr; // in force when a fiber last began a call, or ended
    int calls = 0;          // since then
    int calls_of_end = 0;   // of these
};

class SwitchModel : public model::Model {
    void never_runs(int f) override;
};

struct World {
    Input input;
    SwitchModel model;
    std::deque<Own> own{1}; // references into it stay valid
    uintptr_t values = 0;
    fiber_key_t keys[3]; // the first has a destructor
    unsigned key_uses[3] = {};
    AmbientKey ambient[ambient_count]; // the first has a destructor
    int ending = nobody;               // whose destructors run, or are about to
    int64_t now = 0;                   // the library's time
    int sleeps = 0;                    // of the thread, since the call began
    size_t looked_at = 0;

    World(const uint8_t* data, size_t size) : input(data, size) {}

    void* fresh() { return reinterpret_cast<void*>(++values << 8); } // unlike any other; the low byte is free
};

World* world;
int64_t time_so_far; // over all inputs, since the clock must not go back

int mode_of(int fiber) { return rounding[fiber % 4]; }
int errno_of(int fiber) { return 1000 + fiber; }

double third() {
    volatile double one = 1, three = 3;
    return one / three;
}

// ---- ambient values -------------------------------------------------------------------------------------------------

void* ambient_of(int f, unsigned k) {
    const Own& own = world->own[size_t(f)];
    return own.ambient_gone || own.ambient_key[k] != world->ambient[k].uses ? nullptr : own.ambient[k];
}

template <unsigned k>
void apply(void* old, void* now) {
    AmbientKey& it = world->ambient[k];
    FUZZ_CHECK(old == it.in_force && now != old);
    it.in_force = now;
    it.calls++;
    FUZZ_CHECK_EQ(fiber_reschedule(), -EPERM);
    errno = EILSEQ;
}

// Of a value that is not in force any more.
void ambient_destructor(void* value) {
    Own& own = world->own[size_t(world->ending)];
    FUZZ_CHECK(value == own.ambient[0] && !world->ambient[0].in_force);
    FUZZ_CHECK(fiber_key_get(world->ambient[0].key) == nullptr);
    FUZZ_CHECK_EQ(own.ambient_destroyed++, 0);
}

void ambient_make(unsigned k) {
    auto of = k ? apply<1> : apply<0>;
    FUZZ_CHECK_EQ(fiber_key_create_ambient(&world->ambient[k].key, k ? nullptr : ambient_destructor, of), 0);
}

// A fiber begins a call that may let another fiber go on.
void ambient_left() {
    for (AmbientKey& it : world->ambient) {
        it.before = it.in_force;
        it.calls = it.calls_of_end = 0;
    }
}

// A fiber's values are about to be destroyed, if they have not been, and then another fiber goes on.
void ambient_ended(int self) {
    for (unsigned k = 0; k < ambient_count; k++) {
        AmbientKey& it = world->ambient[k];
        it.before = nullptr;
        it.calls = 0;
        it.calls_of_end = ambient_of(self, k) != nullptr;
    }
}

// A fiber goes on: its values are in force, and between two equal ones apply was not called.
void check_ambient(int self) {
    for (unsigned k = 0; k < ambient_count; k++) {
        const AmbientKey& it = world->ambient[k];
        FUZZ_CHECK(it.in_force == ambient_of(self, k));
        FUZZ_CHECK_EQ(it.calls, it.calls_of_end + (it.before != it.in_force));
    }
}

// ---- around the library's calls -------------------------------------------------------------------------------------

// Makes a call, and checks the state that must be unchanged when it returns, whichever fibers ran meanwhile.
template <class Call>
[[gnu::noinline]] int64_t guarded(int self, Call call) {
    uint64_t a = uint64_t(self) * 0x9e3779b97f4a7c15, b = a ^ 1, c = a ^ 2, d = a ^ 3, e = a ^ 4, f = a ^ 5;
    const int unwinding = std::uncaught_exceptions();
    const std::exception_ptr handled = std::current_exception();
    const double quotient = third();
    errno = errno_of(self);
    world->sleeps = 0;
    ambient_left();
    // The compiler puts six values that it cannot predict into registers that calls preserve.
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    int64_t result = call();
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    const uint64_t expected = uint64_t(self) * 0x9e3779b97f4a7c15;
    FUZZ_CHECK(a == expected && b == (a ^ 1) && c == (a ^ 2) && d == (a ^ 3) && e == (a ^ 4) && f == (a ^ 5));
    FUZZ_CHECK_EQ(errno, errno_of(self));
    FUZZ_CHECK_EQ(std::fegetround(), mode_of(self));
    FUZZ_CHECK(third() == quotient);
    FUZZ_CHECK_EQ(std::uncaught_exceptions(), unwinding);
    FUZZ_CHECK_EQ(std::uncaught_exceptions(), world->own[size_t(self)].unwinding);
    FUZZ_CHECK(std::current_exception() == handled);
    FUZZ_CHECK_EQ(bool(handled), world->own[size_t(self)].handlers > 0);
    check_ambient(self);
    return result;
}

// A call that is refused gives the others their turn when that is due. The model knows of no polls: it is not due.
void put_off_turns() {
    fiberrt::Cord& cord = *fiberrt::this_cord;
    constexpr int64_t many = 256;
    cord.poll.hooked_budget = many;
    if (cord.hooked) return;
    cord.poll.full_budget += many - cord.sched.budget;
    cord.sched.budget = many;
}

// A call that may switch. in_model makes the model's call, which comes first.
template <class InModel, class Call>
int switching(int self, InModel in_model, Call call) {
    model::Model& m = world->model;
    FUZZ_CHECK_EQ(m.running, self);
    if (m.obstacle()) put_off_turns();
    in_model();
    int result = int(guarded(self, call));
    m.resumed(self);
    FUZZ_CHECK_EQ(world->now, m.now);
    return result;
}

template <class InModel, class Call>
void switch_and_check(int self, InModel in_model, Call call) {
    int result = switching(self, in_model, call);
    FUZZ_CHECK_EQ(result, world->model.me().result);
}

// One that does not.
template <class Call>
void check_call(int self, int64_t expected, Call call) {
    int64_t result = guarded(self, call);
    FUZZ_CHECK_EQ(result, expected);
    FUZZ_CHECK_EQ(world->model.running, self);
}

// ---- the observable state -------------------------------------------------------------------------------------------

void look_at(int f) {
    model::Model& m = world->model;
    const model::Fiber& fiber = m.at(f);
    const Own& own = world->own[size_t(f)];
    FUZZ_CHECK_EQ(own.freed, own.free_due);
    if (fiber.state == State::dead) FUZZ_CHECK_EQ(own.ambient_destroyed, own.ambient_due);
    if (!fiber.handle.id) return; // spawned without one, and not run yet
    fiber_info_t info;
    int error = fiber_info(fiber.handle, &info, sizeof info);
    FUZZ_CHECK_EQ(error, fiber.gone ? -ESRCH : 0);
    FUZZ_CHECK_EQ(fiber_state(fiber.handle), fiber.gone ? -ESRCH : m.public_state(f));
    if (error) return;
    FUZZ_CHECK(info.id == fiber.handle.id);
    FUZZ_CHECK_EQ(info.state, m.public_state(f));
    FUZZ_CHECK_EQ(info.cancelled, fiber.cancelled);
    FUZZ_CHECK_EQ(info.detached, fiber.detached);
    FUZZ_CHECK_EQ(info.permit, fiber.permit);
    FUZZ_CHECK_EQ(info.main_flow, f == model::Model::main_flow);
    FUZZ_CHECK_EQ(info.stack_size != 0, fiber.has_stack);
    if (f != model::Model::main_flow) FUZZ_CHECK(info.name == own.name);
}

void look_at_counters() {
    fiber_stats_t stats;
    FUZZ_CHECK_EQ(fiber_stats(&stats, sizeof stats), 0);
    FUZZ_CHECK_EQ(stats.fibers, world->model.fibers_held());
    FUZZ_CHECK_EQ(stats.stacks, world->model.stacks_held());
    FUZZ_CHECK_EQ(stats.ops_in_flight, 0);
}

void look_around() {
    look_at_counters();
    look_at(world->model.running);
    world->looked_at = (world->looked_at + 1) % world->model.fibers.size();
    look_at(int(world->looked_at));
}

// ---- the operations -------------------------------------------------------------------------------------------------

void operations(int self, int depth);
void operation(int self, int depth);
void* body(void* argument);

fiber_t handle(int f) { return world->model.at(f).handle; }

// Any fiber, also one that is gone; but not a detached one that was spawned and has not run yet: its handle is not known.
int pick() {
    int f = int(world->input.below(unsigned(world->model.fibers.size())));
    return handle(f).id ? f : model::Model::main_flow;
}

// Inside a shield only time, or the event waited for, ends a wait: so the wait must not last for ever there.
int64_t pick_duration(int self) {
    int64_t duration = durations[world->input.below(8)];
    return duration == never && world->model.shielded(self) ? 13 : duration;
}

void op_sleep(int self, int64_t duration) {
    switch_and_check(
        self, [&] { world->model.sleep(duration); }, [&] { return fiber_sleep(duration); });
}

// A deadline that comes while a fiber runs is noticed at some later poll: at this one.
void notice_deadlines() {
    if (!world->model.deadline_due()) return;
    world->model.fire_timers();
    fiberrt::poll_now(*fiberrt::this_cord);
}

void op_reschedule(int self) {
    switch_and_check(
        self, [&] { world->model.reschedule(); }, fiber_reschedule);
}

// The action of free_arg; returns its result. Reasons and values are checked only where a fiber has them.
int deed(const Own& own, fiber_t target) {
    auto value = const_cast<Own*>(&own);
    switch (own.deed) {
    case Own::wake: return fiber_wakeup(target);
    case Own::stop: return own.deed_target ? fiber_cancel(target, value) : fiber_interrupt(target, value);
    case Own::detach: return fiber_detach(target);
    default: return 0;
    }
}

void SwitchModel::never_runs(int f) {
    Own& own = world->own[size_t(f)];
    if (!own.frees_arg) return;
    own.free_due++;
    own.untold = at(f).joiners;
    const int target = own.deed_target;
    if (!at(target).handle.id) own.deed = Own::nothing; // it is not known yet
    switch (own.deed) {
    case Own::wake: own.deed_result = wakeup(target, nullptr); break;
    case Own::stop: own.deed_result = target ? cancel(target, &own) : interrupt(target, &own); break;
    case Own::detach: own.deed_result = Model::detach(target); break;
    default: break;
    }
}

// Called instead of a fiber's function, before its joiners learn of the end.
void free_arg(void* argument) {
    const int f = int(reinterpret_cast<intptr_t>(argument));
    Own& own = world->own[size_t(f)];
    FUZZ_CHECK_EQ(own.freed++, 0);
    FUZZ_CHECK_EQ(own.free_due, 1);
    FUZZ_CHECK_EQ(world->model.at(f).entered, 0);
    int state = fiber_state(handle(f));
    FUZZ_CHECK(state >= 0 && state != FIBER_DEAD);
    for (int joiner : own.untold) FUZZ_CHECK_EQ(fiber_state(handle(joiner)), FIBER_WAITING);
    FUZZ_CHECK_EQ(fiber_reschedule(), -EPERM);
    FUZZ_CHECK_EQ(fiber_sleep(1), -EPERM);
    FUZZ_CHECK_EQ(deed(own, handle(own.deed_target)), own.deed_result);
    errno = EILSEQ;
}

void op_create(int self, bool frees) {
    model::Model& m = world->model;
    uint8_t how = world->input.byte();
    if (frees) how = uint8_t((how & ~5) | 8);
    if (m.fibers.size() == fiber_limit) return;
    bool spawn = how & 1, detached = how & 2, plain = how & 4;
    int f = m.create(detached);
    world->own.resize(m.fibers.size());
    void* argument = reinterpret_cast<void*>(intptr_t(f));
    fiber_t made = {};
    if (spawn) { // of a detached one spawned the handle is known once it runs
        fiber_cord_t cord;
        FUZZ_CHECK_EQ(fiber_cord_self(&cord), 0);
        bool post = detached && how & 16;
        check_call(self, 0, [&] {
            return post ? fiber_post(cord, body, argument) : fiber_spawn(detached ? nullptr : &made, body, argument);
        });
        m.wakeup(f, nullptr);
    } else {
        fiber_attr_t* attr = nullptr;
        if (!plain || detached) {
            world->own[size_t(f)].name = "made " + std::to_string(f);
            FUZZ_CHECK_EQ(fiber_attr_create(&attr), 0);
            FUZZ_CHECK_EQ(fiber_attr_set_detached(attr, detached), 0);
            FUZZ_CHECK_EQ(fiber_attr_set_stack_size(attr, FIBER_STACK_DEFAULT), 0);
            FUZZ_CHECK_EQ(fiber_attr_set_name(attr, world->own[size_t(f)].name.c_str()), 0);
            Own& own = world->own[size_t(f)];
            own.frees_arg = how & 8;
            own.deed = Own::Deed(how >> 5 & 3);
            own.deed_target = how & 128 ? f - 1 : f;
            FUZZ_CHECK_EQ(fiber_attr_set_free_arg(attr, own.frees_arg ? free_arg : nullptr), 0);
        }
        check_call(self, 0, [&] { return fiber_new(&made, attr, body, argument); });
        FUZZ_CHECK_EQ(fiber_attr_destroy(attr), 0);
    }
    for (const model::Fiber& other : m.fibers) FUZZ_CHECK(!made.id || other.handle.id != made.id);
    m.at(f).handle = made;
}

void op_start(int self, int f) {
    switch_and_check(
        self, [&] { world->model.start(f); }, [&] { return fiber_start(handle(f)); });
}

void op_yield(int self) {
    switch_and_check(
        self, [&] { world->model.yield(never); }, fiber_yield);
}

void op_yield_timeout(int self, int64_t timeout) {
    model::Model& m = world->model;
    bool takes_turn = timeout == 0 && !m.me().permit && !m.obstacle();
    int result = switching(
        self, [&] { timeout ? m.yield(timeout) : m.yield_once(); }, [&] { return fiber_yield_timeout(timeout); });
    if (takes_turn) m.turn_taken();
    FUZZ_CHECK_EQ(result, m.me().result);
}

void op_yield_value(int self) {
    void* value = &value;
    switch_and_check(
        self, [&] { world->model.yield(never); }, [&] { return fiber_yield_value(&value); });
    FUZZ_CHECK(value == (world->model.me().result ? &value : world->model.me().wakeup_value));
}

void op_wakeup(int self, int f) {
    int expected = world->model.wakeup(f, nullptr);
    check_call(self, expected, [&] { return fiber_wakeup(handle(f)); });
}

void op_wakeup_value(int self, int f) {
    void* value = world->fresh();
    int expected = world->model.wakeup_value(f, value);
    check_call(self, expected, [&] { return fiber_wakeup_value(handle(f), value); });
}

void op_transfer(int self, int f) {
    void *value = world->fresh(), *out = &value;
    switch_and_check(
        self, [&] { world->model.transfer(f, value); }, [&] { return fiber_transfer(handle(f), value, &out); });
    const model::Fiber& me = world->model.me();
    FUZZ_CHECK(out == (me.result < 0 ? &value : me.value));
}

void op_transferrer(int self) {
    const model::Fiber& me = world->model.me();
    if (self == model::Model::main_flow && me.transferrer == nobody) return; // of another input, perhaps
    fiber_t from = {};
    void* value = nullptr;
    check_call(self, me.transferrer == nobody ? -ESRCH : 0, [&] { return fiber_transferrer(&from, &value); });
    if (me.transferrer == nobody) return;
    FUZZ_CHECK(from.id == handle(me.transferrer).id && value == me.transfer_value);
}

// A wait of no length ends at the next poll. The model knows when that is only if no other fiber is runnable.
void op_join(int self, int f, int64_t timeout) {
    if (timeout == 0 && !world->model.queue_empty()) timeout = 1;
    void* result = &result;
    switch_and_check(
        self, [&] { world->model.join(f, timeout); },
        [&] {
            return timeout == never ? fiber_join(handle(f), &result) : fiber_join_timeout(handle(f), &result, timeout);
        });
    const model::Fiber& me = world->model.me();
    FUZZ_CHECK(result == (me.result ? &result : me.value));
}

void op_detach(int self, int f) {
    int expected = world->model.detach(f);
    check_call(self, expected, [&] { return fiber_detach(handle(f)); });
}

void op_interrupt(int self, int f) {
    void* value = world->fresh();
    int expected = world->model.interrupt(f, value);
    check_call(self, expected, [&] { return fiber_interrupt(handle(f), value); });
}

// All inputs share the main flow: it must not stay cancelled.
void op_cancel(int self, int f) {
    if (f == model::Model::main_flow) return op_interrupt(self, f);
    void* reason = world->fresh();
    int expected = world->model.cancel(f, reason);
    check_call(self, expected, [&] { return fiber_cancel(handle(f), reason); });
}

void op_ask_cancelled(int self) {
    const model::Fiber& me = world->model.me();
    void* found = nullptr;
    check_call(self, me.cancelled, [&] { return fiber_cancelled(&found); });
    FUZZ_CHECK(found == me.cancel_reason);
    if (self == model::Model::main_flow && !me.was_interrupted) return; // of another input, perhaps
    found = nullptr;
    check_call(self, me.was_interrupted, [&] { return fiber_interrupted(&found); });
    FUZZ_CHECK(found == me.interrupted_value);
}

// Time passes, and the library polls; a fiber whose calls fail could not make it poll.
void op_advance(int self, bool slice) {
    model::Model& m = world->model;
    uint8_t step = world->input.byte();
    if (m.obstacle()) return;
    m.now += slice ? time_slice : step % 16;
    world->now = m.now;
    if (slice) {
        switch_and_check(
            self, [&] { m.look_and_reschedule(); }, fiber_reschedule_if_due);
    } else {
        op_sleep(self, 0);
    }
}

void op_reschedule_if_due(int self) { // it is never due, except for op_advance
    int expected = world->model.refuse();
    check_call(self, expected, fiber_reschedule_if_due);
}

void op_scope_open(int self) {
    int64_t duration = durations[world->input.below(8)];
    bool shield = world->input.byte() & 1;
    fiber_scope_t scope = {};
    check_call(self, 0, [&] { return fiber_scope_open(&scope, duration, shield ? FIBER_SCOPE_SHIELD : 0); });
    world->model.scope_open(scope, duration, shield);
}

// 3 of 4 times one's own innermost; negative: none.
int pick_scope() {
    model::Model& m = world->model;
    uint8_t choice = world->input.byte();
    if (m.scopes.empty()) return -1;
    bool own = choice < 192 && !m.me().scopes.empty();
    int s = own ? m.me().scopes.back() : int(choice % m.scopes.size());
    return m.scopes[size_t(s)].handle.id ? s : -1; // a timeout block's scope has no name
}

void op_scope_close(int self, int s) {
    if (s < 0) return;
    bool either;
    int expected = world->model.scope_close(s, &either);
    int64_t failure = 1;
    int64_t verdict = guarded(self, [&] { return fiber_scope_close(world->model.scopes[size_t(s)].handle, &failure); });
    if (!either || verdict != -ETIMEDOUT) FUZZ_CHECK_EQ(verdict, expected);
    FUZZ_CHECK_EQ(failure, expected == -ESRCH || expected == -EPERM);
}

void op_scope_set_timeout(int self, int s) {
    int64_t duration = durations[world->input.below(8)];
    if (s < 0) return;
    int expected = world->model.scope_set_timeout(s, duration);
    check_call(self, expected,
               [&] { return fiber_scope_set_timeout(world->model.scopes[size_t(s)].handle, duration); });
}

void op_timeout_block(int self, int depth) {
    int64_t duration = durations[world->input.below(8)];
    int verdict = 1, expected = 1, scope = 0;
    bool either = false, leave_early = world->input.byte() & 1;
    // The macro keeps the scope's handle to itself: so no other fiber names the scope here.
    FIBER_WITH_TIMEOUT(duration, &verdict) {
        scope = int(world->model.scopes.size());
        world->model.scope_open({}, duration, false);
        notice_deadlines();
        operations(self, depth + 1);
        expected = world->model.scope_close(scope, &either);
        if (leave_early) break;
    }
    if (!either || verdict != -ETIMEDOUT) FUZZ_CHECK_EQ(verdict, expected);
}

void op_noswitch(int self, bool enter) {
    model::Fiber& me = world->model.me();
    if (enter) {
        check_call(self, 0, fiber_noswitch_enter);
        me.noswitch++;
    } else {
        check_call(self, me.noswitch ? 0 : -EINVAL, fiber_noswitch_leave);
        me.noswitch -= me.noswitch > 0;
    }
}

// Switches inside a handler, and a rethrow after them: the exception is this fiber's own.
void op_throw(int self, int depth) {
    int number = ++world->own[size_t(self)].thrown;
    bool again = world->input.byte() & 1;
    auto check = [&](const Thrown& thrown) { FUZZ_CHECK(thrown.fiber == self && thrown.number == number); };
    try {
        try {
            throw Thrown{self, number};
        } catch (const Thrown& thrown) {
            world->own[size_t(self)].handlers++;
            check(thrown);
            operations(self, depth + 1);
            check(thrown);
            world->own[size_t(self)].handlers--;
            if (again) throw;
        }
    } catch (const Thrown& thrown) {
        FUZZ_CHECK(again);
        check(thrown);
    }
}

// A switch while an exception is in flight.
struct OperationInDestructor {
    int self, depth;
    ~OperationInDestructor() {
        operation(self, depth);
        world->own[size_t(self)].unwinding--;
    }
};

void op_unwind(int self, int depth) {
    int number = ++world->own[size_t(self)].thrown;
    const int in_flight = world->own[size_t(self)].unwinding;
    try {
        OperationInDestructor guard{self, depth + 1};
        world->own[size_t(self)].unwinding++;
        throw Thrown{self, number};
    } catch (const Thrown& thrown) {
        FUZZ_CHECK(thrown.fiber == self && thrown.number == number);
    }
    FUZZ_CHECK_EQ(world->own[size_t(self)].unwinding, in_flight);
}

void op_key_set(int self) {
    uint8_t choice = world->input.byte();
    unsigned k = choice % 3;
    void* value =
        choice & 128 ? nullptr : reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(world->fresh()) | choice >> 2);
    check_call(self, 0, [&] { return fiber_key_set(world->keys[k], value); });
    world->own[size_t(self)].locals[k] = value;
    world->own[size_t(self)].local_key[k] = world->key_uses[k];
}

void check_locals(int self) {
    const Own& own = world->own[size_t(self)];
    for (unsigned k = 0; k < 3; k++) {
        void* expected = own.local_key[k] == world->key_uses[k] ? own.locals[k] : nullptr;
        FUZZ_CHECK(fiber_key_get(world->keys[k]) == expected);
    }
    for (unsigned k = 0; k < ambient_count; k++) {
        FUZZ_CHECK(fiber_key_get(world->ambient[k].key) == ambient_of(self, k));
    }
}

// Few values, so that fibers have the same ones.
void op_ambient_set(int self) {
    uint8_t choice = world->input.byte();
    unsigned k = choice & 1;
    auto value = reinterpret_cast<void*>(uintptr_t(choice >> 1 & 3));
    Own& own = world->own[size_t(self)];
    check_call(self, 0, [&] { // values in force are checked when it returns
        own.ambient[k] = value;
        own.ambient_key[k] = world->ambient[k].uses;
        return fiber_key_set(world->ambient[k].key, value);
    });
}

// As below; the value in force stays, and apply is never called for it again.
void op_ambient_renew(int self) {
    unsigned k = world->input.byte() & 1;
    AmbientKey& it = world->ambient[k];
    check_call(self, 0, [&] { return fiber_key_delete(it.key); });
    it.uses++;
    it.in_force = nullptr;
    check_call(self, -ESRCH, [&] { return fiber_key_set(it.key, &it); });
    ambient_make(k);
}

// A key is deleted and made anew: no fiber has a value under it.
void op_key_renew(int self) {
    fiber_key_t old = world->keys[2];
    check_call(self, 0, [&] { return fiber_key_delete(old); });
    check_call(self, -ESRCH, [&] { return fiber_key_delete(old); });
    check_call(self, -ESRCH, [&] { return fiber_key_set(old, &old); });
    check_call(self, 0, [&] { return fiber_key_create(&world->keys[2], nullptr); });
    FUZZ_CHECK(fiber_key_get(old) == nullptr && old.id != world->keys[2].id);
    world->key_uses[2]++;
}

// All keys that there are, and one more.
void op_key_flood(int self) {
    std::vector<fiber_key_t> keys;
    fiber_key_t key;
    int error;
    while ((error = fiber_key_create(&key, nullptr)) == 0) keys.push_back(key);
    FUZZ_CHECK_EQ(error, -EAGAIN);
    FUZZ_CHECK_EQ(keys.size(), 128 - key_count);
    void* value = world->fresh();
    check_call(self, 0, [&] { return fiber_key_set(keys.back(), nullptr); });
    check_call(self, 0, [&] { return fiber_key_set(keys.back(), value); });
    FUZZ_CHECK(fiber_key_get(keys.back()) == value);
    for (fiber_key_t made : keys) FUZZ_CHECK_EQ(fiber_key_delete(made), 0);
}

void op_name(int self, int f) {
    const model::Fiber& fiber = world->model.at(f);
    std::string name(world->input.below(48), char('a' + f));
    check_call(self, fiber.gone ? -ESRCH : 0, [&] { return fiber_set_name(fiber.handle, name.c_str()); });
    name.resize(std::min<size_t>(name.size(), FIBER_NAME_MAX - 1));
    char buffer[20];
    check_call(self, fiber.gone ? -ESRCH : int(name.size()), [&] { return fiber_name(fiber.handle, buffer, 20); });
    if (fiber.gone) return;
    world->own[size_t(f)].name = name;
    FUZZ_CHECK(buffer == name.substr(0, 19));
}

// Handles that were never given out, and arguments that make no sense.
void op_misuse(int self, int f) {
    uint8_t how = world->input.byte();
    const uint64_t id = handle(f).id;
    const uint64_t forged[] = {
        0, ~uint64_t(0), id ^ uint64_t(1) << 60, id + 0x1000000, id ^ uint64_t(1) << 55, uint64_t(1) << 56 | 1};
    fiber_t bad = {forged[how % 6]};
    if (how % 6 == 5) bad.id += uint64_t(0xfffffe) << 32;
    void* out = nullptr;
    fiber_t made;
    switch (how / 6 % 16) {
    case 0: return check_call(self, -EINVAL, [&] { return fiber_start(bad); });
    case 1: return check_call(self, -EINVAL, [&] { return fiber_join(bad, &out); });
    case 2: return check_call(self, -EINVAL, [&] { return fiber_wakeup(bad); });
    case 3: return check_call(self, -EINVAL, [&] { return fiber_wakeup_value(bad, out); });
    case 4: return check_call(self, -EINVAL, [&] { return fiber_transfer(bad, nullptr, &out); });
    case 5: return check_call(self, -EINVAL, [&] { return fiber_cancel(bad, out); });
    case 6: return check_call(self, -EINVAL, [&] { return fiber_interrupt(bad, out); });
    case 7: return check_call(self, -EINVAL, [&] { return fiber_detach(bad); });
    case 8: return check_call(self, -EINVAL, [&] { return fiber_scope_close({bad.id}, nullptr); });
    case 9: return check_call(self, -EINVAL, [&] { return fiber_key_set({bad.id}, out); });
    case 10: return check_call(self, -EINVAL, [&] { return fiber_yield_timeout(-1 - how); });
    case 11: return check_call(self, -EINVAL, [&] { return fiber_sleep(INT64_MIN + how); });
    case 12: return check_call(self, -EINVAL, [&] { return fiber_join_timeout(handle(f), &out, -1); });
    case 13:
        check_call(self, -EINVAL, [&] { return fiber_new(nullptr, nullptr, body, nullptr); });
        check_call(self, -EINVAL, [&] { return fiber_new(&made, nullptr, nullptr, nullptr); });
        check_call(self, -EINVAL, [&] { return fiber_key_create(nullptr, nullptr); });
        check_call(self, -EINVAL, [&] { return fiber_key_create_ambient(nullptr, nullptr, apply<0>); });
        check_call(self, -EINVAL, [&] { return fiber_key_create_ambient(&world->keys[0], nullptr, nullptr); });
        return check_call(self, -EINVAL, [&] { return fiber_spawn(&made, nullptr, nullptr); });
    case 14:
        check_call(self, -EINVAL, [&] { return fiber_yield_value(nullptr); });
        check_call(self, -EINVAL, [&] { return fiber_self(nullptr); });
        check_call(self, -EINVAL, [&] { return fiber_set_name(handle(f), nullptr); });
        return check_call(self, -EINVAL, [&] { return fiber_name(handle(f), nullptr, 0); });
    case 15:
        check_call(self, -EINVAL, [&] { return fiber_interrupted(nullptr); });
        check_call(self, -EINVAL, [&] { return fiber_scope_open(nullptr, 0, 0); });
        check_call(self, -EINVAL, [&] { return fiber_scope_set_timeout({bad.id}, -1); });
        return check_call(self, -EINVAL, [&] { return fiber_info(handle(f), nullptr, 0); });
    }
}

// Ambient values are destroyed next, after the value of the first key.
void before_ambient_go(int self) {
    world->ending = self;
    world->own[size_t(self)].ambient_due = ambient_of(self, 0) != nullptr;
}

// The function of the running fiber ends with a result, however it ends; destructors of keys may come in between.
void* begin_end(int self) {
    Own& own = world->own[size_t(self)];
    own.result = world->fresh();
    bool destructor_runs = own.locals[0] != nullptr;
    world->model.begin_end();
    world->sleeps = 0;
    if (destructor_runs) return own.result;
    before_ambient_go(self);
    ambient_ended(self);
    world->model.end(own.result);
    return own.result;
}

void destructor(void* value) {
    int self = world->model.running;
    Own& own = world->own[size_t(self)];
    auto bits = reinterpret_cast<uintptr_t>(value);
    FUZZ_CHECK(value == own.locals[0]);
    FUZZ_CHECK(fiber_key_get(world->keys[0]) == nullptr);
    own.locals[0] = nullptr;
    own.ambient_gone = own.destructor_rounds++ > 0;
    check_call(self, -EPERM, [] { return fiber_exit(nullptr); });
    if (bits & 1) op_reschedule(self); // held back: also a cancelled fiber's destructor may switch
    if (bits & 2) {
        check_call(self, 0, [&] { return fiber_key_set(world->keys[0], value); });
        own.locals[0] = value;
    }
    look_around();
    world->sleeps = 0;
    if (!own.ambient_gone) before_ambient_go(self);
    if ((bits & 2) && own.destructor_rounds < 4) return;
    ambient_ended(self);
    world->model.end(own.result);
}

void op_exit(int self) {
    if (int error = world->model.exit_error()) {
        check_call(self, error, [] { return fiber_exit(nullptr); });
        return;
    }
    const Own& own = world->own[size_t(self)];
    if (own.handlers || own.unwinding) return; // an exception object would never be freed
    fiber_exit(begin_end(self));
    FUZZ_CHECK(!"fiber_exit has returned");
}

// For FUZZ_TRACE=1.
const char* const op_names[] = {
    "create",
    "create",
    "start",
    "start",
    "yield",
    "yield_timeout",
    "yield_value",
    "wakeup",
    "wakeup",
    "wakeup_value",
    "reschedule",
    "reschedule",
    "reschedule_if_due",
    "transfer",
    "transfer",
    "transferrer",
    "join",
    "join",
    "detach",
    "cancel",
    "ask_cancelled",
    "interrupt",
    "interrupt",
    "sleep",
    "advance",
    "advance",
    "advance",
    "scope_open",
    "scope_close",
    "scope_set_timeout",
    "timeout_block",
    "noswitch",
    "throw",
    "unwind",
    "key_set",
    "key_renew",
    "key_flood",
    "name",
    "misuse",
    "exit",
    "cancel",
    "create",
    "start",
    "wakeup",
    "transfer",
    "cancel",
    "scope_open",
    "sleep(0)",
    "ambient_set",
    "ambient_set",
    "ambient_renew",
    "create, frees",
};
const bool tracing = getenv("FUZZ_TRACE");

void operation(int self, int depth) {
    model::Model& m = world->model;
    const bool nest = depth < depth_limit;
    const unsigned byte = world->input.byte();
    const unsigned op = byte < 240 ? byte % 48 : 48 + (byte - 240) / 4; // the latter came later
    if (tracing)
        fprintf(stderr, "%*sfiber %d: %s, operand %d\n", depth * 4, "", self, op_names[op], world->input.peek());
    switch (op) {
    case 0:
    case 1: op_create(self, false); break;
    case 2:
    case 3: op_start(self, pick()); break;
    case 4: op_yield(self); break;
    case 5: op_yield_timeout(self, pick_duration(self)); break;
    case 6: op_yield_value(self); break;
    case 7:
    case 8: op_wakeup(self, pick()); break;
    case 9: op_wakeup_value(self, pick()); break;
    case 10:
    case 11: op_reschedule(self); break;
    case 12: op_reschedule_if_due(self); break;
    case 13:
    case 14: op_transfer(self, pick()); break;
    case 15: op_transferrer(self); break;
    case 16: {
        int f = pick();
        int64_t timeout = pick_duration(self);
        op_join(self, f, timeout);
        break;
    }
    case 17: op_join(self, pick(), m.shielded(self) ? 13 : never); break;
    case 18: op_detach(self, pick()); break;
    case 19: op_cancel(self, pick()); break;
    case 20: op_ask_cancelled(self); break;
    case 21:
    case 22: op_interrupt(self, pick()); break;
    case 23: op_sleep(self, pick_duration(self)); break;
    case 24:
    case 25: op_advance(self, false); break;
    case 26: op_advance(self, true); break;
    case 27: op_scope_open(self); break;
    case 28: op_scope_close(self, pick_scope()); break;
    case 29: op_scope_set_timeout(self, pick_scope()); break;
    case 30:
        if (nest) op_timeout_block(self, depth);
        break;
    case 31: op_noswitch(self, world->input.byte() & 1); break;
    case 32:
        if (nest) op_throw(self, depth);
        break;
    case 33:
        if (nest) op_unwind(self, depth);
        break;
    case 34: op_key_set(self); break;
    case 35: op_key_renew(self); break;
    case 36: op_key_flood(self); break;
    case 37: op_name(self, pick()); break;
    case 38: op_misuse(self, pick()); break;
    case 39: op_exit(self); break;
    case 40: op_cancel(self, pick()); break;
    case 41: op_create(self, false); break;
    case 42: op_start(self, pick()); break;
    case 43: op_wakeup(self, pick()); break;
    case 44: op_transfer(self, pick()); break;
    case 45: op_cancel(self, pick()); break;
    case 46: op_scope_open(self); break;
    case 47: op_sleep(self, 0); break;
    case 48:
    case 49: op_ambient_set(self); break;
    case 50: op_ambient_renew(self); break;
    case 51: op_create(self, true); break;
    }
    notice_deadlines();
    check_locals(self);
    look_around();
}

// Until the input ends or says that this block does.
void operations(int self, int depth) {
    while (!world->input.done()) {
        if (world->model.running != model::Model::main_flow || depth > 0) {
            if (world->input.below(16) == 15) break;
        }
        operation(self, depth);
    }
}

// ---- fibers, from their first call to their last --------------------------------------------------------------------

void* body(void* argument) {
    int self = int(reinterpret_cast<intptr_t>(argument));
    FUZZ_CHECK_EQ(errno, 0);
    FUZZ_CHECK_EQ(std::fegetround(), FE_TONEAREST);
    FUZZ_CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
    model::Model& m = world->model;
    m.resumed(self);
    FUZZ_CHECK_EQ(world->now, m.now);
    FUZZ_CHECK_EQ(m.me().entered++, 0);
    check_ambient(self);
    std::fesetround(mode_of(self));
    fiber_t me;
    FUZZ_CHECK_EQ(fiber_self(&me), 0);
    if (!m.me().handle.id) m.me().handle = me;
    FUZZ_CHECK(me.id == m.me().handle.id);
    volatile uint64_t canary[4] = {me.id, ~me.id, me.id, ~me.id};
    operations(self, 0);
    FUZZ_CHECK(canary[0] == me.id && canary[1] == ~me.id && canary[2] == me.id && canary[3] == ~me.id);
    return begin_end(self);
}

// The main flow goes on with no pending error, as it began.
void tidy_main_flow() {
    model::Model& m = world->model;
    while (m.me().noswitch) op_noswitch(0, false);
    while (!m.me().scopes.empty()) op_scope_close(0, m.me().scopes.front());
    while (m.me().interrupt_pending) op_reschedule(0);
    if (m.me().permit) op_yield(0);
    for (unsigned k = 0; k < 3; k++) FUZZ_CHECK_EQ(fiber_key_set(world->keys[k], nullptr), 0);
    for (unsigned k = 0; k < ambient_count; k++) {
        check_call(0, 0, [&] {
            world->own[0].ambient[k] = nullptr;
            return fiber_key_set(world->ambient[k].key, nullptr);
        });
    }
}

// Helps a fiber to its end; it makes no further calls itself.
void end_fiber(int f) {
    model::Fiber& fiber = world->model.at(f);
    if (fiber.state == State::dead) return;
    if (!fiber.handle.id) return; // detached and never run yet: its turn comes
    if (!fiber.cancelled) op_cancel(0, f);
    if (fiber.state == State::yielding) op_wakeup(0, f);
    if (fiber.state == State::transferring) op_transfer(0, f);
}

void end_all() {
    model::Model& m = world->model;
    tidy_main_flow();
    bool all_dead = false;
    for (int round = 0; round < 100 && !all_dead; round++) {
        for (size_t f = 1; f < m.fibers.size(); f++) end_fiber(int(f));
        op_sleep(0, 20);
        all_dead = true;
        for (size_t f = 1; f < m.fibers.size(); f++) all_dead &= m.at(int(f)).state == State::dead;
    }
    FUZZ_CHECK(all_dead);
    for (size_t f = 1; f < m.fibers.size(); f++) {
        look_at(int(f));
        if (!m.at(int(f)).gone) op_join(0, int(f), never);
        FUZZ_CHECK(m.at(int(f)).entered <= 1);
    }
    tidy_main_flow();
    FUZZ_CHECK_EQ(m.fibers_held(), 1);
    FUZZ_CHECK_EQ(m.stacks_held(), 0);
    look_around();
}

} // namespace

int64_t time_now() { return world ? world->now : time_so_far; }

void thread_sleeps() {
    FUZZ_CHECK(world->sleeps++ < sleeps_for_ever); // or it waits for something that the model does not know of
    world->now = world->model.now;
}

// The first input begins with some stacks; then no more are made, as no guard can be.
static bool refuses_guards;
extern "C" {
int __real_mprotect(void* address, size_t size, int rights);
int __real_madvise(void* address, size_t size, int advice);
int __wrap_mprotect(void* address, size_t size, int rights) {
    if (!refuses_guards) return __real_mprotect(address, size, rights);
    errno = ENOMEM;
    return -1;
}
int __wrap_madvise(void* address, size_t size, int advice) {
    if (!refuses_guards) return __real_madvise(address, size, advice);
    errno = ENOMEM;
    return -1;
}
}

static void make_stacks() {
    fiber_t fibers[stack_limit];
    auto wait = [](void*) -> void* { return fiber_yield() ? nullptr : nullptr; };
    for (fiber_t& fiber : fibers) FUZZ_CHECK_EQ(fiber_spawn(&fiber, wait, nullptr), 0);
    FUZZ_CHECK_EQ(fiber_reschedule(), 0);
    for (fiber_t fiber : fibers) FUZZ_CHECK(fiber_wakeup(fiber) == 0 && fiber_join(fiber, nullptr) == 0);
    fiber_stats_t stats;
    FUZZ_CHECK_EQ(fiber_stats(&stats, sizeof stats), 0);
    FUZZ_CHECK_EQ(stats.stacks_free, stack_limit);
    refuses_guards = true;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    FUZZ_CHECK(__libc_single_threaded);
    static const bool stacks_made = (make_stacks(), true);
    (void)stacks_made;
    World here(data, size);
    here.now = here.model.now = time_so_far;
    here.model.stack_limit = stack_limit;
    world = &here;
    model::Fiber main_flow;
    FUZZ_CHECK_EQ(fiber_self(&main_flow.handle), 0);
    main_flow.state = State::running;
    here.model.fibers.push_back(main_flow);
    FUZZ_CHECK_EQ(fiber_key_create(&here.keys[0], destructor), 0);
    FUZZ_CHECK_EQ(fiber_key_create(&here.keys[1], nullptr), 0);
    FUZZ_CHECK_EQ(fiber_key_create(&here.keys[2], nullptr), 0);
    for (unsigned k = 0; k < ambient_count; k++) ambient_make(k); // whose values are destroyed after the others
    look_at_counters();
    while (!here.input.done()) operations(0, 0);
    end_all();
    for (fiber_key_t key : here.keys) FUZZ_CHECK_EQ(fiber_key_delete(key), 0);
    for (const AmbientKey& it : here.ambient) FUZZ_CHECK_EQ(fiber_key_delete(it.key), 0);
    fiberrt::Cord& cord = *fiberrt::this_cord;
    if (cord.observer.ops)
        cord.observer.ops->end(cord); // the next input begins on a cord that has never had ambient values
    fiberrt::hooks_set(cord, nullptr);
    time_so_far = here.now;
    world = nullptr;
    return 0;
}
