// SPDX-License-Identifier: MIT OR Apache-2.0
// What the recorder does when the core calls it: follows which fiber runs, keeps the times, and tells the consumers.
#include "core/cord.h"
#include "core/switch.h"
#include "record/accounting.h"
#include "record/clock.h"
#include "record/recorder.h"

namespace fiberrt {

constinit Relaxed<const RecorderConsumer*> recorder_consumers[consumer_slots];

namespace {

CordRecord& recorded(Cord& cord) { return *static_cast<CordRecord*>(cord.recorder.record); }

uint64_t key_of(const CordRecord& record, const Fiber* fiber) {
    return record.key.load(std::memory_order_relaxed) | fiber->generation.load(std::memory_order_relaxed);
}

// The function by which the fiber's times are summed up. Valid until its first run.
void* function_of(const Fiber* fiber) {
    if (!fiber->uses_stack()) return reinterpret_cast<void*>(fiber->step);
    Kind kind = fiber->life.kind;
    bool known = !fiber->sp && (kind == Kind::keeps_cord || kind == Kind::daemon);
    return known ? reinterpret_cast<void*>(fiber->call.fn) : nullptr;
}

// Begins the record of a fiber that the recorder sees for the first time in this recording. A fiber that has run before
// has waited since the recording began.
[[gnu::noinline]] void meet(const CordRecord& record, const Fiber* fiber, FiberRecord& its, Doing doing, uint64_t now) {
    uint64_t begun = record.begun.load(std::memory_order_relaxed);
    bool has_waited = fiber->uses_stack() && fiber->sp && now != begun;
    if (!has_waited) return account_begin(its, key_of(record, fiber), function_of(fiber), doing, now);
    State state = fiber->sched.state;
    // Queued by a wake: it has not run since, so its Wait is still there.
    Doing waited = state == State::queued ? doing_of(fiber->wait->what) : Doing::waits_for_wakeup;
    account_begin(its, key_of(record, fiber), function_of(fiber), waited, begun);
    account_runnable(its, now);
}

// The functions for each event. Clock: see record/clock.h. Told: there are consumers besides accounting.
template <class Clock, bool Told>
struct Events {
    template <class Call>
    static void tell(const CordRecord& record, Call call) {
        if constexpr (Told) {
            for (unsigned left = record.consumers; left; left &= left - 1) {
                const RecorderConsumer* consumer = recorder_consumers[__builtin_ctz(left)];
                if (consumer) call(*consumer);
            }
        }
    }

    // The fiber that runs stops. if_running: what it does if its state says that it runs.
    static void stop_current(Cord& cord, CordRecord& record, uint64_t now, Doing if_running = Doing::waits_for_other) {
        Fiber* fiber = record.current;
        Doing why = doing_now(fiber, if_running);
        record.slices.add(account_stop(*record.current_record, why, now));
        record.current = nullptr;
        tell(record, [&](const RecorderConsumer& consumer) { consumer.stops(cord, fiber, why, now); });
    }

    static void becomes_runnable(Cord& cord, CordRecord& record, Fiber* fiber, uint64_t waker, uint64_t now) {
        FiberRecord& its = record_of(fiber);
        uint64_t key = key_of(record, fiber);
        if (its.key.load(std::memory_order_relaxed) != key) [[unlikely]] {
            if (!(key & 1) || fiber->sched.state == State::dead) return; // it has ended without having run
            meet(record, fiber, its, Doing::runnable, now);
        } else if (its.doing.load(std::memory_order_relaxed) >= first_wait) {
            account_runnable(its, now);
        } else {
            return; // it has queued itself, or has been seen before
        }
        tell(record, [&](const RecorderConsumer& consumer) { consumer.runnable(cord, fiber, waker, now); });
    }

    // Finds the fibers that have become runnable since the last look. The fiber that runs, if any, made them so.
    static void look_at_queue(Cord& cord, CordRecord& record, uint64_t waker, uint64_t now) {
        RunQueue::Place seen = record.seen;
        record.seen = cord.sched.queue.end();
        cord.sched.queue.each_since(seen, [&](Fiber* fiber) { becomes_runnable(cord, record, fiber, waker, now); });
    }

    // The handle of the fiber that has just run.
    static uint64_t waker_of(CordRecord& record) {
        if constexpr (!Told) return 0;
        uint64_t ended = record.waker;
        record.waker = 0;
        return record.current ? fibers.id_of(record.current) : ended;
    }

    // The fiber has the thread from now on. switched: by a switch; else it has gone on on its own stack.
    static void runs(Cord& cord, CordRecord& record, Fiber* fiber, bool switched, uint64_t now) {
        FiberRecord& its = record_of(fiber);
        if (its.key.load(std::memory_order_relaxed) != key_of(record, fiber)) [[unlikely]] {
            meet(record, fiber, its, Doing::runnable, now);
        } else if (its.doing.load(std::memory_order_relaxed) >= first_wait) [[unlikely]] {
            account_runnable(its, now); // a direct switch, as by a transfer
        }
        // A fiber may have waited, on its own stack, before its first switch to another one: then it has no sp yet.
        bool unrun = fiber->uses_stack() ? !fiber->sp && !fiber->main_flow() : true;
        bool first = Told && switched && unrun && !its.turns.load(std::memory_order_relaxed);
        account_run(its, now);
        record.current = fiber;
        record.current_record = &its;
        tell(record, [&](const RecorderConsumer& consumer) { consumer.runs(cord, fiber, first, now); });
    }

    // switched_to: by a switch; else `to` goes on on its own stack.
    [[gnu::always_inline]] static inline void note_switch(Cord& cord, Fiber* to, bool switched_to) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        uint64_t waker = waker_of(record);
        if (record.current == to) return look_at_queue(cord, record, waker, now); // it continues at once
        if (record.current) [[likely]] {
            stop_current(cord, record, now);
        } else {
            account_phase(record, Phase::runs, now);
        }
        look_at_queue(cord, record, waker, now);
        runs(cord, record, to, switched_to, now);
    }

    // The cord's current fiber runs on after a poll or a sleep, if it has not given way.
    static void go_on(Cord& cord, CordRecord& record, uint64_t now) {
        Fiber* fiber = cord.sched.current;
        if (record.current || !fiber || fiber->sched.state != State::running) return;
        account_phase(record, Phase::runs, now);
        runs(cord, record, fiber, false, now);
    }

    static int make_switch(Cord& cord, Fiber* me, Fiber* next) {
        note_switch(cord, next, true);
        next->sched.state = State::running;
        if (cord.hooked & hooked_by_any_user) [[unlikely]] {
            cord.stack_in_use.hooked_from = me;
            cord.observer.ops->switched(cord, me, next);
        }
        return fiberrt_switch(&cord, next, me);
    }

    static void switched(Cord& cord, Fiber*, Fiber* to) { note_switch(cord, to, true); }
    static void resumed(Cord& cord, Fiber* me) { note_switch(cord, me, false); }

    static void poll_begins(Cord& cord) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        uint64_t waker = waker_of(record);
        if (record.current) stop_current(cord, record, now, Doing::runnable);
        look_at_queue(cord, record, waker, now);
        account_phase(record, Phase::polls, now);
        record.lags.add(now - record.poll_since);
        record.poll_since = now;
        record.slept = 0;
        tell(record, [&](const RecorderConsumer& consumer) { consumer.poll_begins(cord, now); });
    }

    static void poll_ends(Cord& cord) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        record.polls.add(now - record.poll_since - record.slept);
        record.poll_since = now;
        if (!record.current) look_at_queue(cord, record, 0, now);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.poll_ends(cord, now); });
        go_on(cord, record, now);
    }

    static void sleeps(Cord& cord) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        if (record.current) stop_current(cord, record, now); // a foreign loop takes the thread
        account_phase(record, Phase::sleeps, now);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.sleeps(cord, now); });
    }

    static void woke(Cord& cord) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        if (record.phase.load(std::memory_order_relaxed) != Phase::sleeps) return; // the recorder was off before
        record.slept += now - record.since.load(std::memory_order_relaxed);
        account_phase(record, Phase::polls, now);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.woke(cord, now); });
        go_on(cord, record, now);
    }

    static void changes_hands(Cord& cord, Fiber* fiber) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        FiberRecord& its = record_of(fiber);
        Doing doing = doing_now(fiber, Doing::waits_for_other);
        look_at_queue(cord, record, waker_of(record),
                      now); // a later look would find it there, and take it for runnable
        if (its.key.load(std::memory_order_relaxed) != key_of(record, fiber)) [[unlikely]] {
            meet(record, fiber, its, doing, now);
        } else {
            account_change(its, doing, now);
        }
        if (doing == Doing::runnable) return; // that was told
        tell(record, [&](const RecorderConsumer& consumer) { consumer.stops(cord, fiber, doing, now); });
    }

    static void task_begins(Cord& cord, Fiber* fiber, void* (*fn)(void*)) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        FiberRecord& its = record_of(fiber);
        if (record.current == fiber) { // the time since its last task belongs to no task
            record.slices.add(account_stop(its, Doing::runnable, now));
            record.current = nullptr;
            account_end(record, fiber, its, now, 0);
        }
        account_begin(its, key_of(record, fiber), reinterpret_cast<void*>(fn), Doing::runnable, now);
        account_run(its, now);
        record.current = fiber;
        record.current_record = &its;
        tell(record, [&](const RecorderConsumer& consumer) { consumer.task_begins(cord, fiber, fn, now); });
    }

    static void renewed(Cord& cord, Fiber* fiber) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        account_begin(record_of(fiber), key_of(record, fiber), nullptr, Doing::runnable, now);
        go_on(cord, record, now);
    }

    static void ended(Cord& cord, Fiber* fiber) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        if (record.current == fiber) {
            uint64_t waker = waker_of(record);
            stop_current(cord, record, now);
            look_at_queue(cord, record, waker, now);
            record.waker = waker; // of the joiners, which the end wakes next
            account_phase(record, Phase::polls, now);
        }
        FiberRecord& its = record_of(fiber);
        if (its.key.load(std::memory_order_relaxed) != key_of(record, fiber))
            meet(record, fiber, its, doing_now(fiber, Doing::runnable), now);
        account_end(record, fiber, its, now, 1);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.ended(cord, fiber, now); });
    }

    static void end(Cord& cord) { change(cord, 0, 0); }

    static void change(Cord& cord, uint8_t consumers, uint32_t recording) {
        uint64_t now = Clock::now();
        CordRecord& record = recorded(cord);
        uint8_t before = record.consumers;
        bool anew = !before || record.key.load(std::memory_order_relaxed) != record_key(recording, 0);
        if (record.current) stop_current(cord, record, now);
        record.consumers = uint8_t(before & ~consumers);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.cord_ends(cord, now); });
        if (consumers && anew) {
            account_cord_begin(record, record_key(recording, 0), now);
            record.generation.store(cord.generation.load(std::memory_order_relaxed), std::memory_order_release);
            record.waker = 0;
            record.poll_since = now;
            record.slept = 0;
            record.seen = {};
            look_at_queue(cord, record, 0, now); // all fibers that are runnable now
        }
        record.consumers = uint8_t(consumers & ~before);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.cord_begins(cord, now); });
        record.consumers = consumers;
        if (consumers) go_on(cord, record, now);
    }

    static constexpr RecorderOps ops = {make_switch, switched,      resumed,     poll_begins, poll_ends, sleeps,
                                        woke,        changes_hands, task_begins, renewed,     ended,     end};
};

template <class Clock>
const RecorderOps& ops_by(uint8_t consumers) {
    bool told = consumers & ~uint8_t(Consumer::accounting);
    return told ? Events<Clock, true>::ops : Events<Clock, false>::ops;
}

} // namespace

const RecorderOps& recorder_ops(uint8_t consumers) {
    return ticks_are_of_counter() ? ops_by<CounterClock>(consumers) : ops_by<NanosecondClock>(consumers);
}

void cord_recording_change(Cord& cord, uint8_t consumers, uint32_t recording) {
    ticks_are_of_counter() ? Events<CounterClock, true>::change(cord, consumers, recording)
                           : Events<NanosecondClock, true>::change(cord, consumers, recording);
}

} // namespace fiberrt
