// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `waiting`: the bytes are a program in which the fibers of one thread wait for each other: through mutexes,
// conditions, semaphores, events, wait groups, read-write locks, once, channels, select, joins, and scopes with
// children; with timeouts, deadlines, shields, cancels, interrupts and no-switch sections, through the public API. The
// running fiber takes the next bytes; the model (waiting_model.h) predicts the result and the value of each call, and
// the next fiber to run: so the target notices at once a waiter that is forgotten, overtaken or woken in vain. After
// every operation it checks the state of the primitives, and whether the argument of a child that never ran has been
// freed. At the end all fibers are cancelled, and must end; then nothing may be left.
//
// There is no I/O and no real time: the library's clock (still_clock.h) stands still, and goes to the next deadline when
// the thread would sleep.
#include "still_clock.h"
#include "waiting_model.h"

#include "core/cord.h"
#include "core/hooks.h"
#include "core/scheduler.h"

#include <string.h>
#include <sys/single_threaded.h>

using model::Case;
using model::Kind;
using model::never;
using model::nobody;
using model::Object;
using model::State;

namespace {

constexpr int fiber_limit = 14;
constexpr int depth_limit = 3;
constexpr int64_t poll_far = 1'000'000;
constexpr int64_t durations[] = {0, 1, 2, 300, 5'000, 600'000, 1'100'000, never};
constexpr int64_t long_enough = 3'000'000; // longer than any
constexpr size_t capacities[] = {0, 1, 3};
constexpr int many = 10; // cases of a select, more than need no memory

struct World {
    Input input;
    model::WaitingModel model;
    int64_t now = 0; // the library's time
    uintptr_t values = 0;

    Object mutexes[2] = {Object(Kind::mutex), Object(Kind::mutex)};
    Object conds[2] = {Object(Kind::cond), Object(Kind::cond)};
    Object sems[2] = {Object(Kind::sem), Object(Kind::sem)};
    Object events[2] = {Object(Kind::event), Object(Kind::event)}; // the second is manual
    Object group = Object(Kind::group);
    Object rwlock = Object(Kind::rwlock);
    Object once = Object(Kind::mutex);
    Object channels[3] = {Object(Kind::channel), Object(Kind::channel), Object(Kind::channel)};

    fiber_mutex_t mutex[2] = {};
    fiber_cond_t cond[2] = {};
    fiber_sem_t sem[2];
    fiber_event_t event[2];
    fiber_wg_t wg = {};
    fiber_rwlock_t rw = {};
    fiber_once_t once_storage = {};
    fiber_chan_t chan[3];

    std::deque<std::pair<bool, int>> freed; // for each fiber: whether its argument has a free_arg, and how often that
                                            // was called

    World(const uint8_t* data, size_t size) : input(data, size) {}

    void* fresh() { return reinterpret_cast<void*>(++values << 8); }
};

World* world;
int64_t time_so_far; // over all inputs, since the clock must not go back

fiber_t handle(int f) { return world->model.at(f).handle; }
int self() { return world->model.running; }

// ---- around the library's calls -------------------------------------------------------------------------------------

// The library notices a deadline that passes while a fiber runs at some later poll: at this one,
// before anything else is queued. (So also the deadline of a lock that waits again after its deadline.)
void notice_deadlines() {
    if (!world->model.deadline_due()) return;
    world->model.fire_timers();
    fiberrt::poll_now(*fiberrt::this_cord);
}

// A call that may switch. in_model makes the model's call, which comes first.
template <class InModel, class Call>
void switching(InModel in_model, Call call) {
    model::WaitingModel& m = world->model;
    const int me = m.running;
    const uint64_t looks = m.looks;
    in_model();
    const uint64_t polls = fiberrt::this_cord->counters.polls + (m.looks - looks);
    errno = 1000 + me;
    int result = call();
    FUZZ_CHECK_EQ(errno, 1000 + me);
    if (m.running == me && fiberrt::this_cord->counters.polls != polls) m.may_have_given_turn();
    m.resumed(me);
    FUZZ_CHECK_EQ(world->now, m.now);
    FUZZ_CHECK_EQ(result, m.me().result);
    notice_deadlines();
}

// One that does not.
template <class Call>
void check_call(int64_t expected, Call call) {
    const int me = self();
    errno = 1000 + me;
    int64_t result = call();
    FUZZ_CHECK_EQ(errno, 1000 + me);
    FUZZ_CHECK_EQ(result, expected);
    FUZZ_CHECK_EQ(self(), me);
}

void look_around() {
    World& w = *world;
    for (int i : {0, 1}) {
        FUZZ_CHECK_EQ(fiber_sem_value(&w.sem[i]), w.sems[i].count);
        FUZZ_CHECK_EQ(fiber_event_is_set(&w.event[i]), w.events[i].set);
    }
    for (int i : {0, 1, 2}) FUZZ_CHECK_EQ(fiber_chan_count(w.chan[i]), w.channels[i].items.size());
    for (size_t f = 0; f < w.model.fibers.size(); f++) {
        const model::Fiber& fiber = w.model.fibers[f];
        FUZZ_CHECK_EQ(fiber_state(fiber.handle), fiber.gone ? -ESRCH : w.model.public_state(int(f)));
        if (f < w.freed.size()) {
            auto [frees, freed] = w.freed[f];
            FUZZ_CHECK_EQ(freed, frees && fiber.state == State::dead && !fiber.entered);
        }
    }
    fiber_stats_t stats;
    FUZZ_CHECK_EQ(fiber_stats(&stats, sizeof stats), 0);
    FUZZ_CHECK_EQ(stats.fibers, w.model.fibers_held());
}

// ---- choices --------------------------------------------------------------------------------------------------------

void operations(int depth);
void* body(void* argument);
int64_t child(void* argument);

int pick() { return int(world->input.below(unsigned(world->model.fibers.size()))); }

// 3 of 4 times one's own innermost; negative: none.
int pick_scope() {
    model::Model& m = world->model;
    uint8_t choice = world->input.byte();
    if (m.scopes.empty()) return -1;
    bool own = choice < 192 && !m.me().scopes.empty();
    return own ? m.me().scopes.back() : int(choice % m.scopes.size());
}
fiber_scope_t scope_handle(int s) { return world->model.scopes[size_t(s)].handle; }

// Inside a shield only time, or the event waited for, ends a wait: so the wait must not last for ever there.
int64_t pick_timeout(bool may_be_zero = true) {
    model::WaitingModel& m = world->model;
    int64_t duration = durations[world->input.below(8)];
    if (duration == never && m.shielded(self())) duration = 300;
    if (duration == 0) return may_be_zero ? 0 : m.unlike_others(1);
    return m.unlike_others(duration);
}

// A fiber that waits for a mutex cannot be cancelled: so that all fibers can end, no two may wait for each other like
// this.
bool may_wait_for_ever() {
    model::WaitingModel& m = world->model;
    return m.births[size_t(self())].scope == nobody;
}

// ---- time, and fibers -----------------------------------------------------------------------------------------------

void op_sleep(int64_t duration) {
    switching([&] { world->model.sleep(duration); }, [&] { return fiber_sleep(duration); });
}

void op_reschedule() {
    switching([&] { world->model.reschedule(); }, fiber_reschedule);
}

void op_advance() {
    model::WaitingModel& m = world->model;
    int64_t step = durations[world->input.below(7)];
    if (m.obstacle()) return;
    world->now = m.now += step;
    op_sleep(0);
}

// The others get their turn after the running fiber has done so many more operations without a wait.
void op_poll_soon(int64_t switches) {
    fiberrt::Cord& cord = *fiberrt::this_cord;
    cord.poll.hooked_budget = switches;
    if (fiberrt::hooks::wanted()) return;
    cord.poll.full_budget += switches - cord.sched.budget;
    cord.sched.budget = switches;
}

void op_spawn() {
    model::WaitingModel& m = world->model;
    if (m.fibers.size() == fiber_limit) return;
    int f = m.create_fiber(false);
    check_call(0, [&] { return fiber_spawn(&m.at(f).handle, body, reinterpret_cast<void*>(intptr_t(f))); });
    m.wakeup(f, nullptr);
}

void op_yield(int64_t timeout) {
    if (timeout == 0) timeout = world->model.unlike_others(1);
    switching([&] { world->model.yield(timeout); },
              [&] { return timeout == never ? fiber_yield() : fiber_yield_timeout(timeout); });
}

void op_wakeup(int f) {
    int expected = world->model.wakeup(f, nullptr);
    check_call(expected, [&] { return fiber_wakeup(handle(f)); });
}

void op_join(int f) {
    int64_t timeout = pick_timeout(false);
    void* result = &result;
    switching([&] { world->model.join(f, timeout); }, [&] { return fiber_join_timeout(handle(f), &result, timeout); });
    const model::Fiber& me = world->model.me();
    FUZZ_CHECK(result == (me.result ? &result : me.value));
}

void op_detach(int f) {
    int expected = world->model.detach(f);
    check_call(expected, [&] { return fiber_detach(handle(f)); });
}

void op_interrupt(int f) {
    void* value = world->fresh();
    int expected = world->model.interrupt(f, value);
    check_call(expected, [&] { return fiber_interrupt(handle(f), value); });
}

// All inputs share the main flow: it must not stay cancelled.
void op_cancel(int f) {
    if (f == model::Model::main_flow) return op_interrupt(f);
    void* reason = world->fresh();
    int expected = world->model.cancel(f, reason);
    check_call(expected, [&] { return fiber_cancel(handle(f), reason); });
}

void op_ask_cancelled() {
    const model::Fiber& me = world->model.me();
    void* found = nullptr;
    check_call(me.cancelled, [&] { return fiber_cancelled(&found); });
    FUZZ_CHECK(found == me.cancel_reason);
}

// ---- mutexes, conditions, once --------------------------------------------------------------------------------------

void op_lock(int i) {
    World& w = *world;
    if (!may_wait_for_ever() || (w.model.holds(self()) && w.mutexes[i].holder != self())) return;
    switching([&] { w.model.lock(w.mutexes[i], never, false); }, [&] { return fiber_mutex_lock(&w.mutex[i]); });
}

void op_lock_timeout(int i, int64_t timeout) {
    World& w = *world;
    switching([&] { w.model.lock(w.mutexes[i], timeout, true); },
              [&] { return fiber_mutex_lock_timeout(&w.mutex[i], timeout); });
}

void op_trylock(int i) {
    int expected = world->model.trylock(world->mutexes[i]);
    check_call(expected, [&] { return fiber_mutex_trylock(&world->mutex[i]); });
}

void op_unlock(int i) {
    int expected = world->model.unlock(world->mutexes[i]);
    check_call(expected, [&] { return fiber_mutex_unlock(&world->mutex[i]); });
}

void op_cond_wait(int c, int i, int64_t timeout) {
    World& w = *world;
    if (!may_wait_for_ever()) return;
    if (w.mutexes[1 - i].holder == self() || w.once.holder == self()) return;
    if (w.model.obstacle()) op_poll_soon(256); // the turn that a refused wait gives without the mutex is not modelled
    switching([&] { w.model.cond_wait(w.conds[c], w.mutexes[i], timeout); },
              [&] {
                  return timeout == never ? fiber_cond_wait(&w.cond[c], &w.mutex[i])
                                          : fiber_cond_wait_timeout(&w.cond[c], &w.mutex[i], timeout);
              });
}

void op_signal(int c, bool all) {
    World& w = *world;
    all ? w.model.broadcast(w.conds[c]) : w.model.signal(w.conds[c]);
    check_call(0, [&] { return all ? fiber_cond_broadcast(&w.cond[c]) : fiber_cond_signal(&w.cond[c]); });
}

struct OnceCall {
    int fiber, depth;
    bool called;
};

int once_function(void* argument) {
    World& w = *world;
    auto& call = *static_cast<OnceCall*>(argument);
    w.model.resumed(call.fiber);
    FUZZ_CHECK(!call.called && w.model.me().result == 0 && w.once.holder == call.fiber && !w.once.done);
    call.called = true;
    int result = w.input.byte() & 1 ? 0 : -EIO;
    operations(call.depth + 1);
    w.model.once_end(w.once, result);
    w.model.me().result = result;
    errno = 1000 + call.fiber;
    return result;
}

void op_once(int depth) {
    World& w = *world;
    if (w.model.shielded(self()) && w.once.holder != nobody) return; // see may_wait_for_ever
    OnceCall call = {self(), depth, false};
    switching([&] { w.model.once_begin(w.once); }, [&] { return fiber_once(&w.once_storage, once_function, &call); });
    if (!call.called) FUZZ_CHECK(w.model.me().result || w.once.done);
}

// ---- semaphores, events, wait groups, read-write locks, channels ----------------------------------------------------

void op_sem_wait(int i, int64_t n, int64_t timeout) {
    World& w = *world;
    switching([&] { w.model.wait_for(w.sems[i], n, 0, timeout); },
              [&] {
                  return timeout == never ? fiber_sem_wait(&w.sem[i], n)
                                          : fiber_sem_wait_timeout(&w.sem[i], n, timeout);
              });
}

void op_sem_trywait(int i, int64_t n) {
    int expected = world->model.try_now(world->sems[i], n, 0);
    check_call(expected, [&] { return fiber_sem_trywait(&world->sem[i], n); });
}

void op_sem_post(int i, int64_t n) {
    world->model.post(world->sems[i], n);
    check_call(0, [&] { return fiber_sem_post(&world->sem[i], n); });
    if (world->sems[i].count) check_call(-EOVERFLOW, [&] { return fiber_sem_post(&world->sem[i], INT64_MAX); });
}

void op_event_wait(int i, int64_t timeout) {
    World& w = *world;
    switching([&] { w.model.wait_for(w.events[i], 0, 0, timeout); },
              [&] {
                  return timeout == never ? fiber_event_wait(&w.event[i])
                                          : fiber_event_wait_timeout(&w.event[i], timeout);
              });
}

void op_event_set(int i) {
    world->model.set(world->events[i]);
    check_call(0, [&] { return fiber_event_set(&world->event[i]); });
}

void op_event_reset(int i) {
    int expected = world->model.reset(world->events[i]);
    check_call(expected, [&] { return fiber_event_reset(&world->event[i]); });
}

void op_group_add(int64_t n) {
    int expected = world->model.add(world->group, n);
    if (n == -1 && expected == 0 && world->group.count == 0) expected = 1; // it was the last one
    check_call(expected, [&] { return n == -1 ? fiber_wg_done(&world->wg) : fiber_wg_add(&world->wg, n); });
    if (world->group.count) check_call(-EOVERFLOW, [&] { return fiber_wg_add(&world->wg, INT64_MAX); });
}

void op_group_wait(int64_t timeout) {
    World& w = *world;
    switching([&] { w.model.wait_for(w.group, 0, 0, timeout); },
              [&] { return timeout == never ? fiber_wg_wait(&w.wg) : fiber_wg_wait_timeout(&w.wg, timeout); });
}

void op_rwlock(bool write, int64_t timeout) {
    World& w = *world;
    fiber_rwlock_t* rw = &w.rw;
    switching([&] { w.model.wait_for(w.rwlock, write, 0, timeout); },
              [&] {
                  if (timeout == never) return write ? fiber_rwlock_wrlock(rw) : fiber_rwlock_rdlock(rw);
                  return write ? fiber_rwlock_wrlock_timeout(rw, timeout) : fiber_rwlock_rdlock_timeout(rw, timeout);
              });
}

void op_rwlock_try(bool write) {
    int expected = world->model.try_now(world->rwlock, write, 0);
    check_call(expected ? -EBUSY : 0,
               [&] { return write ? fiber_rwlock_trywrlock(&world->rw) : fiber_rwlock_tryrdlock(&world->rw); });
}

void op_rwlock_unlock() {
    int expected = world->model.rwlock_unlock(world->rwlock);
    check_call(expected, [&] { return fiber_rwlock_unlock(&world->rw); });
}

void op_transfer(int i, bool send, int64_t timeout) {
    World& w = *world;
    uint64_t sent = ++w.values, item = send ? sent : 0;
    switching([&] { w.model.wait_for(w.channels[i], send, sent, timeout); },
              [&] {
                  if (timeout == never)
                      return send ? fiber_chan_send(w.chan[i], &item) : fiber_chan_recv(w.chan[i], &item);
                  return send ? fiber_chan_send_timeout(w.chan[i], &item, timeout)
                              : fiber_chan_recv_timeout(w.chan[i], &item, timeout);
              });
    uint64_t expected = send ? sent : w.model.me().result ? 0 : w.model.mine().item;
    FUZZ_CHECK_EQ(item, expected);
}

void op_try_transfer(int i, bool send) {
    World& w = *world;
    uint64_t sent = ++w.values, item = send ? sent : 0;
    int result = w.model.try_now(w.channels[i], send, sent);
    fiber_chan_t chan = w.chan[i];
    check_call(result, [&] { return send ? fiber_chan_try_send(chan, &item) : fiber_chan_try_recv(chan, &item); });
    FUZZ_CHECK_EQ(item, send ? sent : result ? 0 : w.model.mine().item);
}

void op_close_channel(int i) {
    int expected = world->model.close_channel(world->channels[i]);
    check_call(expected, [&] { return fiber_chan_close(world->chan[i]); });
}

// No fiber may wait in it, hold it, or be about to take it.
void op_destroy(unsigned which) {
    World& w = *world;
    unsigned i = which / 7 % 2;
    auto busy = [&](const Object& object) { return w.model.busy(object) ? -EBUSY : 0; };
    switch (which % 7) {
    case 0: return check_call(busy(w.mutexes[i]), [&] { return fiber_mutex_destroy(&w.mutex[i]); });
    case 1: return check_call(busy(w.conds[i]), [&] { return fiber_cond_destroy(&w.cond[i]); });
    case 2: return check_call(busy(w.sems[i]), [&] { return fiber_sem_destroy(&w.sem[i]); });
    case 3: return check_call(busy(w.events[i]), [&] { return fiber_event_destroy(&w.event[i]); });
    case 4: return check_call(busy(w.group), [&] { return fiber_wg_destroy(&w.wg); });
    case 5: return check_call(busy(w.rwlock), [&] { return fiber_rwlock_destroy(&w.rw); });
    case 6:
        unsigned n = which / 7 % 3;
        if (w.channels[n].waiters.empty()) return;
        return check_call(-EBUSY, [&] { return fiber_chan_destroy(w.chan[n]); });
    }
}

// ---- select ---------------------------------------------------------------------------------------------------------

struct Cases {
    fiber_case_t of[many];
    uint64_t items[many];
};

void add_case(std::vector<Case>& in_model, Cases& cases, int64_t timeout) {
    World& w = *world;
    size_t n = in_model.size();
    uint8_t choice = w.input.byte();
    fiber_case_t& one = cases.of[n];
    one = {};
    Case it;
    it.kind = one.kind = choice < 245 ? choice % 7 : FIBER_CASE_SCOPE; // which came later
    unsigned which = choice / 7;
    switch (one.kind) {
    case FIBER_CASE_SEND:
    case FIBER_CASE_RECV:
        cases.items[n] = one.kind == FIBER_CASE_SEND ? ++w.values : 0;
        it.object = &w.channels[which % 3];
        it.item = cases.items[n];
        one.chan = w.chan[which % 3];
        one.item = &cases.items[n];
        break;
    case FIBER_CASE_EVENT:
        it.object = &w.events[which % 2];
        one.object = &w.event[which % 2];
        break;
    case FIBER_CASE_SEM:
        it.object = &w.sems[which % 2];
        one.object = &w.sem[which % 2];
        it.number = one.number = which / 2 % 3 + 1;
        break;
    case FIBER_CASE_TIMER: it.number = one.number = w.model.unlike_others(durations[which % 7], timeout); break;
    case FIBER_CASE_JOIN:
        it.fiber = int(which % w.model.fibers.size());
        one.fiber = handle(it.fiber);
        break;
    case FIBER_CASE_SCOPE:
        it.scope = pick_scope();
        if (it.scope < 0) {
            it.kind = one.kind = FIBER_CASE_NONE;
        } else {
            one.scope = scope_handle(it.scope);
        }
        break;
    default: break;
    }
    in_model.push_back(it);
}

void op_select(unsigned count, int64_t timeout) {
    World& w = *world;
    Cases cases;
    uint32_t turn = fiberrt::this_cord->sync.select_first_case;
    {
        std::vector<Case> in_model;
        while (in_model.size() < count) add_case(in_model, cases, timeout);
        if (count == many) {
            for (Case& one : in_model) // timers only once: two of the same time leave open which it is
                if (one.kind == FIBER_CASE_TIMER) one.kind = FIBER_CASE_NONE;
            for (fiber_case_t& one : cases.of)
                if (one.kind == FIBER_CASE_TIMER) one.kind = FIBER_CASE_NONE;
        }
        // Only the library itself determines the case with which it begins.
        size_t first = size_t(uint64_t(turn * 0x9e3779b9) * count >> 32);
        switching([&] { w.model.select(in_model, first, timeout); },
                  [&] { return fiber_select(cases.of, int(count), timeout); });
    }
    int result = w.model.me().result;
    if (result < 0) return;
    const Case& won = w.model.mine().cases[size_t(result)];
    const fiber_case_t& one = cases.of[result];
    FUZZ_CHECK_EQ(one.result, won.result);
    if (one.kind == FIBER_CASE_SEND || (one.kind == FIBER_CASE_RECV && !one.result)) {
        FUZZ_CHECK_EQ(cases.items[result], won.item);
    }
    if (one.kind == FIBER_CASE_JOIN && !one.result) FUZZ_CHECK(one.value == won.value);
    if (one.kind == FIBER_CASE_SCOPE) {
        const bool told = one.result == 1;
        FUZZ_CHECK(one.fiber.id == (told ? handle(won.fiber).id : 0));
        FUZZ_CHECK_EQ(one.number, told ? won.number : 0);
    }
    for (unsigned i = 0; i < count; i++)
        if (int(i) != result && cases.of[i].kind == FIBER_CASE_RECV) FUZZ_CHECK_EQ(cases.items[i], 0);
}

// ---- scopes ---------------------------------------------------------------------------------------------------------

void op_scope_open() {
    World& w = *world;
    int64_t duration = durations[w.input.below(8)];
    duration = w.model.unlike_others(duration);
    unsigned how = w.input.byte();
    unsigned flags = (how & 3) == 3 ? FIBER_SCOPE_SHIELD : 0;
    flags |= (how >> 2) % 3 == 1 ? FIBER_SCOPE_COLLECT : (how >> 2) % 3 == 2 ? FIBER_SCOPE_FIRST : 0;
    fiber_scope_t scope = {};
    check_call(0, [&] { return fiber_scope_open(&scope, duration, flags); });
    w.model.open(scope, duration, flags);
}

// Called instead of a child's function, before its joiners learn of the end.
void free_arg(void* argument) {
    int f = int(intptr_t(argument));
    FUZZ_CHECK_EQ(world->freed[size_t(f)].second++, 0);
    int state = handle(f).id ? fiber_state(handle(f)) : FIBER_NEW; // or it ends before its handle is known
    FUZZ_CHECK(state >= 0 && state != FIBER_DEAD);
    FUZZ_CHECK_EQ(fiber_reschedule(), -EPERM);
    errno = EILSEQ;
}

void op_scope_spawn(int s) {
    model::WaitingModel& m = world->model;
    uint8_t how = world->input.byte();
    bool detached = how & 1, frees = how & 2;
    if (s < 0 || m.fibers.size() == fiber_limit) return;
    if (!m.scopes[size_t(s)].open) {
        return check_call(-ESRCH, [&] { return fiber_scope_spawn(scope_handle(s), nullptr, child, nullptr); });
    }
    int f = m.create_fiber(detached);
    world->freed.resize(m.fibers.size());
    world->freed[size_t(f)].first = frees;
    fiber_attr_t* attr = nullptr;
    if (detached || frees) {
        FUZZ_CHECK_EQ(fiber_attr_create(&attr), 0);
        FUZZ_CHECK_EQ(fiber_attr_set_detached(attr, detached), 0);
        FUZZ_CHECK_EQ(fiber_attr_set_free_arg(attr, frees ? free_arg : nullptr), 0);
    }
    fiber_t made = {};
    void* argument = reinterpret_cast<void*>(intptr_t(f));
    check_call(0, [&] { return fiber_scope_spawn_attr(scope_handle(s), &made, attr, child, argument); });
    FUZZ_CHECK_EQ(fiber_attr_destroy(attr), 0);
    m.at(f).handle = made;
    m.spawn(s, f, detached);
}

void op_scope_next(int s) {
    if (s < 0) return;
    fiber_t which = {};
    int64_t result = 0;
    switching([&] { world->model.next(s); }, [&] { return fiber_scope_next(scope_handle(s), &which, &result); });
    if (world->model.me().result != 1) return;
    FUZZ_CHECK(which.id == handle(world->model.mine().child).id);
    FUZZ_CHECK_EQ(result, world->model.mine().child_result);
}

void op_scope_cancel(int s) {
    if (s < 0) return;
    void* reason = world->fresh();
    int expected = world->model.cancel_scope(s, reason);
    check_call(expected, [&] { return fiber_scope_cancel(scope_handle(s), reason); });
}

void op_scope_set_timeout(int s) {
    int64_t duration = world->model.unlike_others(durations[world->input.below(8)]);
    if (s < 0) return;
    int expected = world->model.scope_set_timeout(s, duration);
    check_call(expected, [&] { return fiber_scope_set_timeout(scope_handle(s), duration); });
}

void op_scope_close(int s) {
    if (s < 0) return;
    model::WaitingModel& m = world->model;
    int64_t failure = 0;
    switching([&] { m.close(s); },
              [&] {
                  int verdict = fiber_scope_close(scope_handle(s), &failure);
                  // A deadline has passed that no poll need have noticed: it may be reported or not.
                  return m.call_of(m.running).either && verdict == -ETIMEDOUT ? 0 : verdict;
              });
    if (!m.scopes[size_t(s)].open && m.me().result != -ESRCH && m.me().result != -EPERM) {
        FUZZ_CHECK_EQ(failure, m.mine().failure);
    }
}

// ---- ends, and the program ------------------------------------------------------------------------------------------

void op_exit() {
    if (int error = world->model.exit_error()) return check_call(error, [] { return fiber_exit(nullptr); });
    void* result = world->fresh();
    world->model.end_fiber(result);
    fiber_exit(result);
    FUZZ_CHECK(!"fiber_exit has returned");
}

void operation(int depth);

// Every call that may switch fails there, and changes nothing.
void op_noswitch(int depth) {
    model::Fiber& me = world->model.me();
    if (me.noswitch) return;
    check_call(0, fiber_noswitch_enter);
    me.noswitch++;
    operation(depth);
    me.noswitch--;
    check_call(0, fiber_noswitch_leave);
}

const bool tracing = getenv("FUZZ_TRACE");

void operation(int depth) {
    Input& input = world->input;
    const unsigned op = input.below(64);
    if (tracing) fprintf(stderr, "%*sfiber %d: %u, operand %d\n", depth * 4, "", self(), op, input.peek());
    unsigned which = op >= 10 && op < 52 ? input.byte() : 0;
    int i = which & 1;
    int64_t n = which / 2 % 3 + 1;
    switch (op) {
    case 0:
    case 1:
    case 2: op_spawn(); break;
    case 3: op_reschedule(); break;
    case 4: op_advance(); break;
    case 5: op_sleep(pick_timeout()); break;
    case 6: op_yield(pick_timeout()); break;
    case 7: op_wakeup(pick()); break;
    case 8: op_join(pick()); break;
    case 9: op_detach(pick()); break;
    case 10:
    case 11: op_lock(i); break;
    case 12:
    case 13: op_lock_timeout(i, pick_timeout()); break;
    case 14: op_trylock(i); break;
    case 15:
    case 16:
    case 17: op_unlock(i); break;
    case 18:
    case 19: op_cond_wait(which / 2 % 2, i, pick_timeout(false)); break;
    case 20: op_signal(i, false); break;
    case 21: op_signal(i, true); break;
    case 22:
    case 23: op_sem_wait(i, n, pick_timeout()); break;
    case 24: op_sem_trywait(i, n); break;
    case 25:
    case 26: op_sem_post(i, n); break;
    case 27: op_event_wait(i, pick_timeout()); break;
    case 28: op_event_set(i); break;
    case 29: op_event_reset(i); break;
    case 30: op_group_add(int64_t(which % 5) - 2); break;
    case 31: op_group_wait(pick_timeout()); break;
    case 32:
    case 33: op_rwlock(i, pick_timeout()); break;
    case 34: op_rwlock_try(i); break;
    case 35: op_rwlock_unlock(); break;
    case 36:
    case 37: op_transfer(int(which % 3), true, pick_timeout()); break;
    case 38:
    case 39: op_transfer(int(which % 3), false, pick_timeout()); break;
    case 40: op_try_transfer(int(which % 3), which / 3 & 1); break;
    case 41: op_close_channel(int(which % 3)); break;
    case 42:
    case 43:
    case 44:
    case 45: op_select(which % 6, pick_timeout()); break;
    case 46: op_select(many, pick_timeout()); break;
    case 47: op_destroy(which); break;
    case 48: op_poll_soon(which % 8); break;
    case 49:
    case 50:
        if (depth < depth_limit) op_once(depth);
        break;
    case 51: op_signal(i, which & 2); break;
    case 52:
    case 53: op_scope_open(); break;
    case 54:
    case 55: op_scope_spawn(pick_scope()); break;
    case 56: op_scope_next(pick_scope()); break;
    case 57: op_scope_cancel(pick_scope()); break;
    case 58: op_scope_set_timeout(pick_scope()); break;
    case 59: op_scope_close(pick_scope()); break;
    case 60: op_cancel(pick()); break;
    case 61: op_interrupt(pick()); break;
    case 62:
        if (depth < depth_limit) op_noswitch(depth + 1);
        break;
    case 63: input.byte() & 1 ? op_exit() : op_ask_cancelled(); break;
    }
    notice_deadlines();
    look_around();
}

// Until the input ends or says that this block does.
void operations(int depth) {
    while (!world->input.done()) {
        if ((self() != model::Model::main_flow || depth > 0) && world->input.below(16) == 15) break;
        operation(depth);
    }
}

void run(int f) {
    model::WaitingModel& m = world->model;
    m.resumed(f);
    FUZZ_CHECK_EQ(world->now, m.now);
    FUZZ_CHECK_EQ(m.me().entered++, 0);
    notice_deadlines();
    operations(0);
    FUZZ_CHECK_EQ(self(), f);
}

void* body(void* argument) {
    run(int(intptr_t(argument)));
    void* result = world->fresh();
    world->model.end_fiber(result);
    return result;
}

int64_t child(void* argument) {
    constexpr int64_t results[] = {0, 5, -EIO, -ECANCELED};
    run(int(intptr_t(argument)));
    int64_t result = results[world->input.below(4)];
    world->model.end_fiber(reinterpret_cast<void*>(intptr_t(result)));
    return result;
}

// The main flow goes on with no pending error, as it began.
void tidy_main_flow() {
    model::WaitingModel& m = world->model;
    for (int i : {0, 1})
        if (world->mutexes[i].holder == model::Model::main_flow) op_unlock(i);
    for (size_t s = 0; s < m.scopes.size(); s++)
        if (m.scopes[s].open && m.scopes[s].owner == model::Model::main_flow) op_scope_cancel(int(s));
    for (size_t f = 1; f < m.fibers.size(); f++) op_cancel(int(f));
    while (!m.me().scopes.empty()) op_scope_close(m.me().scopes.back());
    while (m.me().interrupt_pending) op_reschedule();
    if (m.me().permit) op_yield(never);
}

void end_all() {
    model::WaitingModel& m = world->model;
    bool all_dead = false;
    for (int round = 0; round < 20 && !all_dead; round++) {
        tidy_main_flow();
        op_sleep(m.unlike_others(long_enough));
        all_dead = true;
        for (size_t f = 1; f < m.fibers.size(); f++) all_dead &= m.at(int(f)).state == State::dead;
    }
    FUZZ_CHECK(all_dead);
    for (size_t f = 1; f < m.fibers.size(); f++)
        if (!m.at(int(f)).gone) op_detach(int(f));
    look_around();
    FUZZ_CHECK_EQ(m.fibers_held(), 1);
    for (unsigned which = 0; which < 14; which++) op_destroy(which);
    for (fiber_chan_t chan : world->chan) FUZZ_CHECK_EQ(fiber_chan_destroy(chan), 0);
}

} // namespace

int64_t time_now() { return world ? world->now : time_so_far; }

void thread_sleeps() {
    const int64_t next = fiberrt::this_cord->timers.next();
    FUZZ_CHECK(world && next != never);
    if (next > world->now) world->now = next;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    FUZZ_CHECK(__libc_single_threaded);
    World here(data, size);
    world = &here;
    here.now = here.model.now = time_so_far;
    here.model.stack_limit = 2 * fiber_limit;
    int f = here.model.create_fiber(false);
    FUZZ_CHECK_EQ(fiber_self(&here.model.at(f).handle), 0);
    here.model.at(f).state = State::running;
    here.events[1].manual = true;
    for (int i : {0, 1}) {
        here.sems[i].count = i;
        FUZZ_CHECK_EQ(fiber_sem_init(&here.sem[i], i), 0);
        FUZZ_CHECK_EQ(fiber_event_init(&here.event[i], i ? FIBER_EVENT_MANUAL : 0), 0);
    }
    for (int i : {0, 1, 2}) {
        here.channels[i].capacity = capacities[i];
        FUZZ_CHECK_EQ(fiber_chan_create(&here.chan[i], sizeof(uint64_t), capacities[i]), 0);
    }
    fiberrt::this_cord->sync.select_first_case = 0; // so that an input always does the same, whatever ran before it
    fiberrt::this_cord->poll.interval = 1;
    op_poll_soon(poll_far);
    while (!here.input.done()) operations(0);
    end_all();
    time_so_far = here.now;
    world = nullptr;
    return 0;
}
