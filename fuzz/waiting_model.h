// SPDX-License-Identifier: MIT OR Apache-2.0
// The reference of target `waiting`: the model of one thread's fibers (model.h), extended by the objects that they wait
// for: primitives, channels, select, and the children of scopes. Each primitive is a list of waiters and a few numbers;
// a woken fiber is queued at once, so the order of the run queue is known too.
//
// A woken call may have more to do before it returns: goes_on() does it when its fiber's turn comes.
#pragma once

#include "model.h"

#include <tuple>

namespace model {

constexpr int64_t overtaken_most = 1'000'000; // nanoseconds for which newcomers may overtake a waiter of a mutex
constexpr int pending = 1'000'000;            // instead of a result: the call waits

enum class Kind { mutex, cond, sem, event, group, rwlock, channel };

struct Waiter {
    int fiber;
    int number = 0;     // for a select: the number of its case
    int64_t amount = 0; // permits; whether to write, or to send
    uint64_t item = 0;  // to be sent
};

struct Object {
    explicit Object(Kind kind) : kind(kind) {}
    Kind kind;
    std::deque<Waiter> waiters = {};
    // mutex
    int holder = nobody, woken = nobody;
    int64_t woken_since = 0;
    bool woken_owner_died = false, holder_died = false, done = false; // done: its once is
    // The others
    int64_t count = 0; // permits; a group's count; readers
    bool manual = false, set = false;
    std::deque<uint64_t> items = {};
    size_t capacity = 0;
    bool closed = false;
};

struct Case {
    int kind = FIBER_CASE_NONE;
    Object* object = nullptr;
    int fiber = nobody; // the fiber to join; for a scope, set if it wins: the child
    int scope = nobody;
    int64_t number = 0; // for a scope, set if it wins: the child's result
    uint64_t item = 0;  // sent; received, if it wins
    int64_t result = 0;
    void* value = nullptr;
};

// A scope's children.
struct Family {
    unsigned flags = 0;
    bool stopped = false, due = false, failed = false, for_all = false;
    void* reason = nullptr;
    std::vector<int> running, cancelled;
    int awaited = 0;
    std::deque<std::pair<int, int64_t>> ended;
    int64_t failure = 0;
    int waiter = nobody;
    int watcher = nobody, watch_case = 0; // a select that waits for the next end, and its case
};

// A fiber's current call.
struct Call {
    enum What { none, refused, simple, lock, once, cond, relock, select, next, close, end } what = none;
    bool claimed = false;
    bool stoppable = true;
    Object* object = nullptr; // the object that it waits in, unless it is a select
    Object* mutex = nullptr;
    int64_t since = 0;
    bool owner_died = false, waiter_owner_died = false;
    int outer = 0;     // cond: how the wait itself has ended
    uint64_t item = 0; // received
    std::vector<Case> cases;
    int selected = nobody;
    int timer = nobody;
    int64_t deadline = never;
    int scope = nobody;
    int waits_in = nobody; // the scope whose children it waits for
    int child = nobody;    // scope_next: the child, and its result
    int64_t child_result = 0;
    int64_t failure = 0; // close
    bool either = false;
    void* end_result = nullptr;
};

struct Birth {
    int scope = nobody; // the scope whose child it is
    bool unreported = false;
    std::vector<std::pair<int, int>> watchers; // selects, and their cases
};

class WaitingModel : public Model {
public:
    std::deque<Call> calls;
    std::deque<Birth> births;
    std::deque<Family> families; // of the scopes, by number

    Call& call_of(int f) { return calls[size_t(f)]; }
    Call& mine() { return call_of(running); }

    int create_fiber(bool detached) {
        int f = create(detached);
        calls.resize(fibers.size());
        births.resize(fibers.size());
        return f;
    }

    void resumed(int f) override {
        if (f != running) turn_given(); // which may be at any time
        turn_possible_ = woken_ = false;
        refusal_ = 0;
        Model::resumed(f);
    }

    int refuse() override {
        int error = Model::refuse();
        refusal_ = error == -EPERM ? 0 : error;
        turn_possible_ |= refusal_ != 0;
        return error;
    }

    // The running fiber's call had its result at once, and has given the others their turn. If the call fails, it takes
    // the interrupt, or learns of a cancel, after that turn.
    void turn_given() {
        if (!turn_possible_) return;
        turn_possible_ = false;
        if (refusal_) {
            me().interrupt_pending |= refusal_ == -EINTR;
            refusal_ = 0;
            begin(Call::refused);
        }
        enqueue(running, State::queued, me().result);
        give_way();
    }

    // No two deadlines are equal, so the order of wakeups is known.
    int64_t unlike_others(int64_t duration, int64_t but = never) {
        if (duration == never) return never;
        while (is_deadline(now + duration) || duration == but) duration++;
        return duration;
    }

    // The library has polled in that call, and no other fiber has run: the turn may have gone to fibers that never run.
    // If the call has waited, the poll proves nothing: it may have been another fiber's.
    void may_have_given_turn() {
        if (!woken_) turn_given();
    }

    // ---- mutexes --------------------------------------------------------------------------------------------------

    void lock(Object& mutex, int64_t timeout, bool stoppable) {
        finish(lock_begin(Call::lock, mutex, timeout, stoppable));
    }

    int trylock(Object& mutex) {
        int result = take(mutex);
        return result == pending ? -EBUSY : result;
    }

    int unlock(Object& mutex) {
        if (mutex.holder != running) return -EPERM;
        held_.erase(std::find(held_.begin(), held_.end(), &mutex));
        release(mutex);
        return 0;
    }

    // If the result is 0 and the once is not done, the caller's function is called next.
    void once_begin(Object& once) {
        if (once.done) return finish(0);
        int result = lock_begin(Call::once, once, never, true);
        finish(result == pending ? pending : once_locked(once, result));
    }
    void once_end(Object& once, int result) {
        if (result == 0) once.done = true;
        unlock(once);
    }

    bool holds(int f) const {
        for (const Object* mutex : held_)
            if (mutex->holder == f) return true;
        return false;
    }
    Object* first_held(int f) const {
        for (Object* mutex : held_)
            if (mutex->holder == f) return mutex;
        return nullptr;
    }

    // ---- conditions -----------------------------------------------------------------------------------------------

    void cond_wait(Object& cond, Object& mutex, int64_t timeout) {
        if (mutex.holder != running) return finish(-EPERM);
        if (int error = refuse()) return finish(error);
        Call& call = begin(Call::cond);
        call.mutex = &mutex;
        cond.waiters.push_back({running});
        call.object = &cond;
        unlock(mutex);
        wait(after(timeout));
    }
    void signal(Object& cond) { complete_first(cond, 0); }
    void broadcast(Object& cond) {
        while (complete_first(cond, 0)) {}
    }

    // ---- semaphores, events, wait groups, read-write locks, channels ----------------------------------------------

    // n: permits; whether to write; whether to send.
    void wait_for(Object& object, int64_t n, uint64_t item, int64_t timeout) {
        if (int error = refuse()) return finish(error);
        bool dead_lock = object.kind == Kind::rwlock && object.holder == running;
        int result = dead_lock ? -EDEADLK : try_now(object, n, item);
        if (result != -EAGAIN) {
            turn_possible_ = true;
            return finish(result);
        }
        if (timeout == 0) return finish(-ETIMEDOUT);
        begin(Call::simple).object = &object;
        object.waiters.push_back({running, 0, n, item});
        wait(after(timeout));
    }

    // Without a wait. -EAGAIN if it would wait; the received item is in mine().item.
    int try_now(Object& object, int64_t n, uint64_t item) {
        switch (object.kind) {
        case Kind::sem:
            if (object.count < n || first(object)) return -EAGAIN;
            object.count -= n;
            return 0;
        case Kind::event:
            if (!object.set) return -EAGAIN;
            if (!object.manual) object.set = false;
            return 0;
        case Kind::group: return object.count ? -EAGAIN : 0;
        case Kind::rwlock:
            if (!is_free(object, n) || first(object)) return -EAGAIN;
            give(object, n, running);
            return 0;
        case Kind::channel: return n ? send(object, item) : receive(object, &mine().item);
        default: return -EAGAIN;
        }
    }

    void post(Object& sem, int64_t n) {
        sem.count += n;
        serve(sem);
    }

    void set(Object& event) {
        if (event.manual) {
            event.set = true;
            broadcast(event);
        } else if (!complete_first(event, 0)) {
            event.set = true;
        }
    }
    int reset(Object& event) {
        int was = event.set;
        event.set = false;
        return was;
    }

    int add(Object& group, int64_t n) {
        if (group.count + n < 0) return -EINVAL;
        group.count += n;
        if (group.count == 0) broadcast(group);
        return 0;
    }

    int rwlock_unlock(Object& rwlock) {
        bool write = rwlock.holder != nobody;
        if (write ? rwlock.holder != running : rwlock.count == 0) return -EPERM;
        if (write) {
            rwlock.holder = nobody;
        } else {
            rwlock.count--;
        }
        serve(rwlock);
        return 0;
    }

    int close_channel(Object& channel) {
        if (channel.closed) return -EPIPE;
        channel.closed = true;
        while (complete_first(channel, -EPIPE)) {}
        return 0;
    }

    // A fiber holds it, or stands in its list.
    bool busy(const Object& object) const {
        bool held = object.holder != nobody || object.woken != nobody || (object.kind == Kind::rwlock && object.count);
        return held || !object.waiters.empty();
    }

    // ---- select ---------------------------------------------------------------------------------------------------

    // first_tried: the case that the library tries first; the contract only promises that each case is the first now
    // and then. The cases come back in mine().cases.
    void select(const std::vector<Case>& cases, size_t first_tried, int64_t timeout) {
        if (int error = refuse()) return finish(error);
        Call& call = begin(Call::none);
        call.cases = cases;
        for (size_t n = 0; n < cases.size(); n++) {
            size_t i = (first_tried + n) % cases.size();
            if (!try_case(call.cases[i])) continue;
            turn_possible_ = true;
            return finish(int(i));
        }
        if (timeout == 0) {
            turn_possible_ = true;
            return finish(-ETIMEDOUT);
        }
        for (size_t i = 0; i < cases.size(); i++) {
            const Case& one = cases[i];
            if (one.kind == FIBER_CASE_TIMER && (one.number < timeout || (one.number == timeout && call.timer < 0))) {
                call.timer = int(i);
                timeout = one.number;
            }
            if (one.object) one.object->waiters.push_back({running, int(i), amount_of(one), one.item});
            if (one.kind == FIBER_CASE_JOIN) births[size_t(one.fiber)].watchers.push_back({running, int(i)});
            if (one.kind == FIBER_CASE_SCOPE) watch(families[size_t(one.scope)], int(i));
        }
        call.what = Call::select;
        call.deadline = after(timeout);
        wait(call.deadline);
    }

    // ---- scopes and children --------------------------------------------------------------------------------------

    void open(fiber_scope_t handle, int64_t duration, unsigned flags) {
        scope_open(handle, duration, flags & FIBER_SCOPE_SHIELD);
        families.resize(scopes.size());
        families.back().flags = flags;
    }

    // f: a new fiber. Its state afterwards says whether it runs.
    void spawn(int s, int f, bool unreported) {
        Scope& scope = scopes[size_t(s)];
        Family& family = families[size_t(s)];
        if (!scope.parent) {
            scope.parent = true;
            family.stopped = scope_stopped(s, &family.reason);
        }
        births[size_t(f)].scope = s;
        births[size_t(f)].unreported = unreported;
        (family.stopped ? family.cancelled : family.running).push_back(f);
        if (!unreported) family.awaited++;
        if (family.stopped) {
            cancel(f, family.reason);
        } else {
            wakeup(f, nullptr);
        }
    }

    int cancel_scope(int s, void* reason) {
        Scope& scope = scopes[size_t(s)];
        if (!scope.open) return -ESRCH;
        if (scope.cancelled) return 0;
        scope.cancelled = true;
        scope.reason = reason;
        bool fired, cancelled;
        look_inside(scope.owner, &fired, &cancelled);
        if (cancelled || (at(scope.owner).cancelled && !shielded(scope.owner))) stop(scope.owner, -ECANCELED);
        stop_children(scope.owner);
        return 0;
    }

    // 1: mine() has the child and its result.
    void next(int s) {
        if (int error = scope_error(s)) return finish(error);
        if (int error = refuse()) return finish(error);
        begin(Call::next).scope = s;
        finish(next_now());
    }

    void close(int s) {
        if (int error = scope_error(s)) return finish(error);
        begin(Call::close).scope = s;
        if (me().noswitch) {
            for (size_t i = me().scopes.size(); i-- > 0;) {
                int inner = me().scopes[i];
                if (!none_left(inner)) return finish(-EPERM);
                if (inner == s) break;
            }
        }
        finish(close_now());
    }

    // The running fiber's function has returned.
    void end_fiber(void* result) {
        begin(Call::end).end_result = result;
        me().noswitch = 0;
        while (Object* mutex = first_held(running)) orphan(*mutex);
        for (size_t i = me().scopes.size(); i-- > 0;) cancel_children(me().scopes[i], nullptr);
        end_now();
    }

private:
    // ---- calls ----------------------------------------------------------------------------------------------------

    Call& begin(Call::What what) {
        mine() = Call();
        mine().what = what;
        return mine();
    }

    void finish(int result) {
        if (result == pending) return;
        mine().what = Call::none;
        me().result = result;
    }

    void wait(int64_t deadline) {
        park(deadline);
        give_way();
    }

    // As wait(), except that the caller chooses the next fiber.
    void park(int64_t deadline) {
        me().state = State::waiting;
        me().wait_deadline = deadline;
        mine().claimed = false;
    }

    bool is_deadline(int64_t when) {
        for (size_t f = 0; f < fibers.size(); f++) // a call may wait again
            if (fibers[f].wait_deadline == when || calls[f].deadline == when) return true;
        for (Scope& scope : scopes)
            if (scope.open && scope.deadline == when) return true;
        return false;
    }

    bool goes_on() override {
        Call& call = mine();
        Call::What what = call.what;
        me().interrupt_returning = false;
        if (what == Call::none) return true;
        woken_ = what != Call::refused;
        int result = resume(call, me().result);
        if (result == pending) return false;
        finish(result);
        return what != Call::end;
    }

    int resume(Call& call, int result) {
        switch (call.what) {
        case Call::refused: return Model::refuse();
        case Call::simple: return result;
        case Call::lock: return lock_resumed(result);
        case Call::once: {
            int locked = lock_resumed(result);
            return locked == pending ? pending : once_locked(*call.mutex, locked);
        }
        case Call::cond: {
            call.outer = result;
            int locked = lock_begin(Call::relock, *call.mutex, never, false, true);
            return locked ? locked : call.outer;
        }
        case Call::relock: {
            int locked = lock_resumed(result);
            return locked ? locked : call.outer;
        }
        case Call::select: return select_resumed(result);
        case Call::next: return result < 0 ? result : next_now(true);
        case Call::close: return result < 0 ? result : close_now(true);
        case Call::end: end_now(true); return pending;
        default: return result;
        }
    }

    // ---- lists ----------------------------------------------------------------------------------------------------

    bool open_still(const Waiter& waiter) {
        return at(waiter.fiber).state == State::waiting && !call_of(waiter.fiber).claimed;
    }

    // The first waiter whose wait is not claimed.
    Waiter* first(Object& object) {
        for (Waiter& waiter : object.waiters)
            if (open_still(waiter)) return &waiter;
        return nullptr;
    }
    Waiter* first(Object& channel, bool sends) {
        for (Waiter& waiter : channel.waiters)
            if (open_still(waiter) && waiter.amount == sends) return &waiter;
        return nullptr;
    }

    void remove(Object& object, int f, int number) {
        for (auto at = object.waiters.begin(); at != object.waiters.end(); ++at) {
            if (at->fiber != f || at->number != number) continue;
            object.waiters.erase(at);
            return;
        }
    }

    // Ends the wait of one fiber.
    void complete(Object& object, Waiter waiter, int result, uint64_t item = 0) {
        Call& call = call_of(waiter.fiber);
        remove(object, waiter.fiber, waiter.number);
        call.claimed = true;
        call.selected = waiter.number;
        call.item = item;
        enqueue(waiter.fiber, State::queued, result);
    }
    bool complete_first(Object& object, int result) {
        Waiter* waiter = first(object);
        if (waiter) complete(object, *waiter, result);
        return waiter;
    }

    // Serves the waiters whose turn it is, after a fiber gave something or left.
    void serve(Object& object) {
        while (Waiter* waiter = first(object)) {
            Waiter it = *waiter;
            if (object.kind == Kind::sem) {
                if (it.amount > object.count) return;
                object.count -= it.amount;
            } else if (object.kind == Kind::rwlock) {
                if (!is_free(object, it.amount)) return;
                give(object, it.amount, it.fiber);
            } else {
                return;
            }
            complete(object, it, 0);
        }
    }

    void leave(Object& object, int f, int number) {
        remove(object, f, number);
        serve(object);
    }

    void remove_from_lists(int f) {
        Call& call = call_of(f);
        if (call.what != Call::select) {
            if (call.object) leave(*call.object, f, 0);
            return;
        }
        for (size_t i = 0; i < call.cases.size(); i++) {
            const Case& one = call.cases[i];
            if (int(i) != call.selected && one.object) leave(*one.object, f, int(i));
        }
        for (const Case& one : call.cases) {
            if (one.kind != FIBER_CASE_JOIN) continue;
            auto& watchers = births[size_t(one.fiber)].watchers;
            auto mine = [=](auto& watcher) { return watcher.first == f; };
            watchers.erase(std::remove_if(watchers.begin(), watchers.end(), mine), watchers.end());
        }
        for (const Case& one : call.cases)
            if (one.kind == FIBER_CASE_SCOPE) unwatch(one.scope, f);
    }

    void stop(int f, int reason, uint64_t group = 0) override {
        if (at(f).state == State::waiting) {
            Call& call = call_of(f);
            bool children = call.what == Call::close || call.what == Call::end;
            if (call.claimed || ((children || !call.stoppable) && reason != -EDEADLK)) return;
            call.claimed = true;
            if (call.what == Call::next || children) families[size_t(call.waits_in)].waiter = nobody;
            remove_from_lists(f);
        }
        Model::stop(f, reason, group);
    }

    // ---- mutexes --------------------------------------------------------------------------------------------------

    int take(Object& mutex) {
        if (mutex.holder != nobody) return pending;
        bool died = mutex.holder_died;
        mutex.holder_died = false;
        mutex.holder = running;
        held_.push_back(&mutex);
        return died ? -EOWNERDEAD : 0;
    }

    int lock_begin(Call::What what, Object& mutex, int64_t timeout, bool stoppable, bool in_call = false) {
        if (stoppable || me().noswitch) {
            if (int error = refuse()) return error;
        }
        int result = take(mutex);
        if (result != pending) return result;
        if (mutex.holder == running) return -EDEADLK;
        if (timeout == 0) return -ETIMEDOUT;
        if (!in_call) mine() = Call();
        Call& call = mine();
        call.what = what;
        call.stoppable = stoppable;
        call.mutex = call.object = &mutex;
        call.since = now;
        call.owner_died = call.waiter_owner_died = false;
        call.deadline = after(timeout);
        mutex.waiters.push_back({running});
        park(call.deadline);
        if (!in_call) give_way();
        return pending;
    }

    int lock_resumed(int result) {
        Call& call = mine();
        Object& mutex = *call.object;
        if (result == -ETIMEDOUT) {
            int last = take(mutex);
            if (last == pending) return -ETIMEDOUT;
            return call.owner_died || call.waiter_owner_died ? -EOWNERDEAD : last;
        }
        if (result) return result;
        call.owner_died |= call.waiter_owner_died | mutex.woken_owner_died;
        mutex.woken_owner_died = false;
        if (mutex.holder == running) { // the lock was given to it
            held_.push_back(&mutex);
            return call.owner_died ? -EOWNERDEAD : 0;
        }
        mutex.woken = nobody;
        int taken = take(mutex);
        if (taken != pending) return call.owner_died ? -EOWNERDEAD : taken;
        if (call.stoppable) {
            if (int error = refuse()) return error;
        }
        call.waiter_owner_died = false;
        mutex.waiters.push_front({running});
        park(call.deadline);
        return pending;
    }

    int once_locked(Object& once, int result) {
        if (result && result != -EOWNERDEAD) return result;
        if (once.done) unlock(once);
        return 0;
    }

    void wake_next(Object& mutex) {
        if (mutex.woken != nobody || mutex.waiters.empty()) return;
        Waiter next = mutex.waiters.front();
        mutex.woken = next.fiber;
        mutex.woken_since = call_of(next.fiber).since;
        mutex.woken_owner_died = false;
        complete(mutex, next, 0);
    }

    void release(Object& mutex) {
        bool woken = mutex.woken != nobody;
        mutex.holder = nobody;
        if (!woken && mutex.waiters.empty()) return;
        int next = woken ? mutex.woken : mutex.waiters.front().fiber;
        int64_t since = woken ? mutex.woken_since : call_of(next).since;
        if (now - since <= overtaken_most) return wake_next(mutex);
        mutex.holder = next;
        if (woken) {
            mutex.woken = nobody;
        } else {
            complete(mutex, mutex.waiters.front(), 0);
        }
    }

    void orphan(Object& mutex) {
        held_.erase(std::find(held_.begin(), held_.end(), &mutex));
        for (const Waiter& waiter : mutex.waiters) call_of(waiter.fiber).waiter_owner_died = true;
        if (mutex.woken != nobody) mutex.woken_owner_died = true;
        mutex.holder = nobody;
        mutex.holder_died = true;
        wake_next(mutex);
    }

    // ---- the others -----------------------------------------------------------------------------------------------

    static bool is_free(const Object& rwlock, bool write) {
        return rwlock.holder == nobody && !(write && rwlock.count);
    }
    static void give(Object& rwlock, bool write, int f) {
        if (write) {
            rwlock.holder = f;
        } else {
            rwlock.count++;
        }
    }

    int send(Object& channel, uint64_t item) {
        if (channel.closed) return -EPIPE;
        if (Waiter* receiver = first(channel, false)) {
            complete(channel, *receiver, 0, item);
        } else if (channel.items.size() < channel.capacity) {
            channel.items.push_back(item);
        } else {
            return -EAGAIN;
        }
        return 0;
    }

    int receive(Object& channel, uint64_t* item) {
        Waiter* sender = first(channel, true);
        if (channel.items.empty() && !sender) return channel.closed ? -EPIPE : -EAGAIN;
        if (sender) {
            channel.items.push_back(sender->item);
            complete(channel, *sender, 0);
        }
        *item = channel.items.front();
        channel.items.pop_front();
        return 0;
    }

    static int64_t amount_of(const Case& one) {
        return one.kind == FIBER_CASE_SEND ? 1 : one.kind == FIBER_CASE_SEM ? one.number : 0;
    }

    bool try_case(Case& one) {
        if (one.kind == FIBER_CASE_NONE) return false;
        if (one.kind == FIBER_CASE_TIMER) return one.number == 0;
        if (one.kind == FIBER_CASE_JOIN) return try_join(one);
        if (one.kind == FIBER_CASE_SCOPE) return try_scope(one);
        one.result = try_now(*one.object, amount_of(one), one.item);
        if (one.kind == FIBER_CASE_RECV) one.item = mine().item;
        return one.result != -EAGAIN;
    }

    bool try_join(Case& one) {
        Fiber& target = at(one.fiber);
        one.result = target.gone ? -ESRCH : target.detached ? -EINVAL : one.fiber == running ? -EDEADLK : 0;
        if (one.result) return true;
        if (target.state != State::dead) return false;
        one.result = target.end_error;
        one.value = target.end_result;
        target.gone = true;
        return true;
    }

    bool try_scope(Case& one) {
        one.result = scope_error(one.scope);
        if (one.result) return true;
        one.result = take_ended(one.scope, &one.fiber, &one.number);
        return one.result != -EAGAIN;
    }

    // If two cases have the same scope, the first is reported.
    void watch(Family& family, int number) {
        if (family.watcher != nobody) return;
        family.watcher = running;
        family.watch_case = number;
    }
    void unwatch(int s, int f) {
        if (families[size_t(s)].watcher == f) families[size_t(s)].watcher = nobody;
    }

    int select_resumed(int result) {
        Call& call = mine();
        if (call.selected == nobody) {
            if (result != -ETIMEDOUT || call.timer == nobody || now < call.deadline) return result;
            call.cases[size_t(call.timer)].result = 0;
            return call.timer;
        }
        remove_from_lists(running);
        Case& one = call.cases[size_t(call.selected)];
        if (one.object) one.result = result;
        if (one.kind == FIBER_CASE_SCOPE) try_scope(one);
        if (one.kind == FIBER_CASE_RECV) one.item = call.item;
        return call.selected;
    }

    // ---- children -------------------------------------------------------------------------------------------------

    bool none_left(int s) { return families[size_t(s)].running.empty() && families[size_t(s)].cancelled.empty(); }

    // Tells the watchers of a fiber's end that do not join it: its scope, and selects.
    void ended(int f) override {
        Fiber& fiber = at(f);
        Birth& birth = births[size_t(f)];
        std::vector<std::pair<int, int>> winners;
        for (auto [waiter, number] : birth.watchers) {
            if (!open_still({waiter})) continue;
            call_of(waiter).claimed = true;
            call_of(waiter).selected = number;
            winners.push_back({waiter, number});
        }
        birth.watchers.clear();
        fiber.gone |= !winners.empty() || birth.scope != nobody;
        if (birth.scope != nobody) child_ended(f, birth.scope);
        for (auto [waiter, number] : winners) {
            Case& one = call_of(waiter).cases[size_t(number)];
            one.result = fiber.end_error;
            if (!one.result) one.value = fiber.end_result;
            enqueue(waiter, State::queued, 0);
        }
    }

    void child_ended(int f, int s) {
        Fiber& fiber = at(f);
        Family& family = families[size_t(s)];
        bool cancelled = drop(family.cancelled, f);
        drop(family.running, f);
        bool reported = !births[size_t(f)].unreported;
        if (reported) family.awaited--;
        auto result = int64_t(intptr_t(fiber.end_result));
        if (!fiber.entered) result = fiber.end_error ? fiber.end_error : -ECANCELED;
        bool failed = result < 0 && !(cancelled && result == -ECANCELED);
        if (failed && !family.failed) {
            family.failed = true;
            family.failure = result;
        }
        if (reported) family.ended.push_back({f, result});
        if (family.waiter != nobody && (family.for_all ? none_left(s) : reported || !family.awaited)) {
            int waiter = family.waiter;
            family.waiter = nobody;
            call_of(waiter).claimed = true;
            enqueue(waiter, State::queued, 0);
        }
        if (family.watcher != nobody && reported) tell_watcher(family);
        bool first_success = family.flags & FIBER_SCOPE_FIRST;
        if (first_success ? result >= 0 : failed && !(family.flags & FIBER_SCOPE_COLLECT)) cancel_children(s, nullptr);
    }

    // Tells the select that watches the scope, unless another case has ended it.
    void tell_watcher(Family& family) {
        int waiter = family.watcher;
        family.watcher = nobody;
        if (!open_still({waiter})) return;
        call_of(waiter).claimed = true;
        call_of(waiter).selected = family.watch_case;
        enqueue(waiter, State::queued, 0);
    }

    static bool drop(std::vector<int>& list, int f) {
        auto found = std::find(list.begin(), list.end(), f);
        if (found == list.end()) return false;
        list.erase(found);
        return true;
    }

    // In the library's order, which the contract does not promise: children's children last.
    void cancel_children(int s, void* reason) {
        Family& family = families[size_t(s)];
        if (!scopes[size_t(s)].parent) return;
        if (!family.stopped) family.reason = reason;
        family.stopped = true;
        if (family.running.empty()) return;
        if (!family.due) due_.push_back(s);
        family.due = true;
        if (cancelling_) return;
        cancelling_ = true;
        while (!due_.empty()) {
            int next = due_.back();
            due_.pop_back();
            Family& its = families[size_t(next)];
            its.due = false;
            while (!its.running.empty()) {
                int child = its.running.front();
                its.running.erase(its.running.begin());
                its.cancelled.push_back(child);
                cancel(child, its.reason);
            }
        }
        cancelling_ = false;
    }

    bool scope_stopped(int s, void** reason) {
        int f = scopes[size_t(s)].owner;
        auto& list = at(f).scopes;
        *reason = nullptr;
        for (size_t i = size_t(std::find(list.begin(), list.end(), s) - list.begin()) + 1; i-- > 0;) {
            const Scope& scope = scopes[size_t(list[i])];
            if (scope.cancelled) *reason = scope.reason;
            if (scope.cancelled || scope.fired) return true;
            if (scope.shield) return false;
        }
        if (at(f).cancelled) *reason = at(f).cancel_reason;
        return at(f).cancelled;
    }

    // Each scope inside a stopped fiber or scope, with no shield between.
    void stop_children(int f) override {
        std::vector<int> list = at(f).scopes;
        std::reverse(list.begin(), list.end());
        size_t from = 0;
        for (size_t i = 0; i < list.size(); i++) {
            Scope& scope = scopes[size_t(list[i])];
            bool stopped = scope.cancelled || scope.fired;
            void* reason = scope.cancelled ? scope.reason : nullptr;
            for (size_t n = from; stopped && n <= i; n++) cancel_children(list[n], reason);
            if (stopped || scope.shield) from = i + 1;
        }
        for (size_t n = from; at(f).cancelled && n < list.size(); n++) cancel_children(list[n], at(f).cancel_reason);
    }

    int wait_for_children(int s, bool for_all, bool in_queue) {
        families[size_t(s)].waiter = running;
        families[size_t(s)].for_all = for_all;
        mine().waits_in = s;
        park(never);
        if (!in_queue) give_way();
        return pending;
    }

    int next_now(bool in_queue = false) {
        Call& call = mine();
        int told = take_ended(call.scope, &call.child, &call.child_result);
        if (told == -EAGAIN) return wait_for_children(call.scope, false, in_queue);
        if (told) turn_possible_ = !in_queue;
        return told;
    }

    // The child that has ended next. 0: no child is left; -EAGAIN: none has ended.
    int take_ended(int s, int* child, int64_t* result) {
        Family& family = families[size_t(s)];
        if (family.ended.empty()) return family.awaited ? -EAGAIN : 0;
        std::tie(*child, *result) = family.ended.front();
        family.ended.pop_front();
        return 1;
    }

    int close_now(bool in_queue = false) {
        Call& call = mine();
        for (;;) {
            int inner = me().scopes.back();
            if (!none_left(inner)) return wait_for_children(inner, true, in_queue);
            Scope& scope = scopes[size_t(inner)];
            call.failure = families[size_t(inner)].failure;
            call.either = !scope.cancelled && !scope.fired && scope.deadline <= now;
            scope.open = false;
            me().scopes.pop_back();
            if (inner == call.scope) return scope.cancelled ? -ECANCELED : scope.fired ? -ETIMEDOUT : 0;
        }
    }

    void end_now(bool in_queue = false) {
        while (!me().scopes.empty()) {
            int inner = me().scopes.back();
            cancel_children(inner, nullptr);
            if (!none_left(inner)) {
                wait_for_children(inner, true, in_queue);
                return;
            }
            scopes[size_t(inner)].open = false;
            me().scopes.pop_back();
        }
        void* result = mine().end_result;
        mine() = Call();
        begin_end();
        if (in_queue) {
            bury_quietly(result);
        } else {
            end(result);
        }
    }

    // As Model::end, except that the caller chooses the next fiber.
    void bury_quietly(void* result) {
        me().has_stack = false;
        bury(running, result);
    }

    std::vector<Object*> held_; // mutexes, in the order in which they were locked
    std::vector<int> due_;      // scopes whose children must be cancelled
    bool cancelling_ = false;
    bool turn_possible_ = false;
    bool woken_ = false; // the running fiber's call had waited
    int refusal_ = 0;    // the result of the running fiber's call, if refuse() gave it
};

} // namespace model
