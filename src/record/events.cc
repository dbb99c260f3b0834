// SPDX-License-Identifier: MIT OR Apache-2.0
// What the recorder does when the core calls it: follows which fiber runs, and tells the consumers.
#include "core/cord.h"
#include "core/switch.h"
#include "record/clock.h"
#include "record/recorder.h"

namespace fiberrt {

constinit Relaxed<const RecorderConsumer*> recorder_consumers[consumer_slots];

namespace {

CordRecord& record_of(Cord& cord) { return *static_cast<CordRecord*>(cord.recorder.record); }

template <class Call>
void tell(const CordRecord& to, Call call) {
    unsigned left = to.consumers;
    while (left) {
        const RecorderConsumer* consumer = recorder_consumers[__builtin_ctz(left)];
        left &= left - 1;
        call(*consumer);
    }
}

uint64_t key_of(const CordRecord& cord, const Fiber* fiber) {
    return cord.epoch | fiber->generation.load(std::memory_order_relaxed);
}

bool has_begun(const Fiber* fiber) { return fiber->uses_stack() ? fiber->sp || fiber->main_flow() : false; }

// The function by which the fiber's times are summed up. Valid while it has not run.
void* function_of(const Fiber* fiber) {
    if (!fiber->uses_stack()) return reinterpret_cast<void*>(fiber->step);
    bool ours = is_internal(fiber->life.kind) || fiber->life.kind == Kind::task_fiber;
    return ours || has_begun(fiber) ? nullptr : reinterpret_cast<void*>(fiber->call.fn);
}

// Begins a fiber's record: the fiber is seen for the first time in this recording.
[[gnu::noinline]] void meet(CordRecord& cord, Fiber* fiber, FiberRecord& record, Doing doing, uint64_t now) {
    record.function = function_of(fiber);
    record.since = now;
    record.doing = doing;
    record.key = key_of(cord, fiber);
}

// The fiber that runs stops.
void stop_current(Cord& cord, CordRecord& record, uint64_t now) {
    Fiber* fiber = record.current;
    FiberRecord& its = *record.current_record;
    record.current = nullptr;
    Doing why = doing_now(fiber);
    its.since = now;
    its.doing = why;
    tell(record, [&](const RecorderConsumer& consumer) { consumer.stops(cord, fiber, why, now); });
}

void is_runnable(Cord& cord, CordRecord& record, Fiber* fiber, uint64_t waker, uint64_t now) {
    uint64_t key = key_of(record, fiber);
    if (!(key & 1) || fiber->sched.state == State::dead) return; // it ended unrun
    FiberRecord& its = record_of(fiber);
    if (its.key != key) {
        meet(record, fiber, its, Doing::runnable, now);
    } else if (its.doing > Doing::runnable) {
        its.since = now;
        its.doing = Doing::runnable;
    } else {
        return; // it has queued itself, or has been seen before
    }
    tell(record, [&](const RecorderConsumer& consumer) { consumer.runnable(cord, fiber, waker, now); });
}

// Looks which fibers have become runnable since the last look. The fiber that runs, if any, made them so.
void look_at_queue(Cord& cord, CordRecord& record, uint64_t waker, uint64_t now) {
    RunQueue::Place seen = record.seen;
    record.seen = cord.sched.queue.end();
    cord.sched.queue.each_since(seen, [&](Fiber* fiber) { is_runnable(cord, record, fiber, waker, now); });
}

uint64_t waker_of(CordRecord& record) {
    uint64_t ended = record.waker;
    record.waker = 0;
    return record.current ? fibers.id_of(record.current) : ended;
}

// The fiber has the thread from now on.
void runs(Cord& cord, CordRecord& record, Fiber* fiber, uint64_t now) {
    FiberRecord& its = record_of(fiber);
    bool first = fiber->uses_stack() && !fiber->sp && !fiber->main_flow();
    if (its.key != key_of(record, fiber)) {
        meet(record, fiber, its, Doing::runs, now);
        first |= !fiber->uses_stack();
    }
    its.since = now;
    its.doing = Doing::runs;
    record.since = now;
    record.current = fiber;
    record.current_record = &its;
    tell(record, [&](const RecorderConsumer& consumer) { consumer.runs(cord, fiber, first, now); });
}

void note_switch(Cord& cord, Fiber* to, uint64_t now) {
    CordRecord& record = record_of(cord);
    uint64_t waker = waker_of(record);
    if (record.current == to) return look_at_queue(cord, record, waker, now); // it continues at once
    if (record.current) stop_current(cord, record, now);
    look_at_queue(cord, record, waker, now);
    runs(cord, record, to, now);
}

// The cord's current fiber runs on after a poll or a sleep, if it has not given way.
void go_on(Cord& cord, CordRecord& record, uint64_t now) {
    Fiber* fiber = cord.sched.current;
    if (!record.current && fiber && fiber->sched.state == State::running) runs(cord, record, fiber, now);
}

template <class Clock>
struct Events {
    static int make_switch(Cord& cord, Fiber* me, Fiber* next) {
        if (cord.hooked & hooked_by_any_user) [[unlikely]] {
            cord.stack_in_use.hooked_from = me;
            cord.observer.ops->switched(cord, me, next);
        }
        note_switch(cord, next, Clock::now());
        return fiberrt_switch(&cord, next, me);
    }

    static void switched(Cord& cord, Fiber*, Fiber* to) { note_switch(cord, to, Clock::now()); }

    static void resumed(Cord& cord, Fiber* me) { note_switch(cord, me, Clock::now()); }

    static void poll_begins(Cord& cord) {
        CordRecord& record = record_of(cord);
        uint64_t now = Clock::now();
        uint64_t waker = waker_of(record);
        if (record.current) stop_current(cord, record, now);
        look_at_queue(cord, record, waker, now);
        record.since = now;
        tell(record, [&](const RecorderConsumer& consumer) { consumer.poll_begins(cord, now); });
    }

    static void poll_ends(Cord& cord) {
        CordRecord& record = record_of(cord);
        uint64_t now = Clock::now();
        if (!record.current) {
            look_at_queue(cord, record, 0, now);
            record.since = now;
        }
        tell(record, [&](const RecorderConsumer& consumer) { consumer.poll_ends(cord, now); });
        go_on(cord, record, now);
    }

    static void sleeps(Cord& cord) {
        CordRecord& record = record_of(cord);
        uint64_t now = Clock::now();
        if (record.current) stop_current(cord, record, now); // a foreign loop takes the thread
        record.since = now;
        record.sleeping = true;
        tell(record, [&](const RecorderConsumer& consumer) { consumer.sleeps(cord, now); });
    }

    static void woke(Cord& cord) {
        CordRecord& record = record_of(cord);
        if (!record.sleeping) return; // the recorder was turned on meanwhile
        uint64_t now = Clock::now();
        record.sleeping = false;
        record.since = now;
        tell(record, [&](const RecorderConsumer& consumer) { consumer.woke(cord, now); });
        go_on(cord, record, now);
    }

    static void task_begins(Cord& cord, Fiber* fiber, void* (*fn)(void*)) {
        CordRecord& record = record_of(cord);
        uint64_t now = Clock::now();
        go_on(cord, record, now);
        record_of(fiber).function = reinterpret_cast<void*>(fn);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.task_begins(cord, fiber, fn, now); });
    }

    static void ended(Cord& cord, Fiber* fiber) {
        CordRecord& record = record_of(cord);
        uint64_t now = Clock::now();
        if (record.current == fiber) {
            uint64_t waker = waker_of(record);
            stop_current(cord, record, now);
            look_at_queue(cord, record, waker, now);
            record.waker = waker; // of the joiners, which the end wakes next
            record.since = now;
        }
        FiberRecord& its = fiberrt::record_of(fiber);
        if (its.key != key_of(record, fiber)) meet(record, fiber, its, doing_now(fiber), now);
        tell(record, [&](const RecorderConsumer& consumer) { consumer.ended(cord, fiber, now); });
        its.key = 0;
    }

    static void end(Cord& cord) { cord_recording_change(cord, record_of(cord), 0, 0); }

    static constexpr RecorderOps ops = {make_switch, switched, resumed,     poll_begins, poll_ends,
                                        sleeps,      woke,     task_begins, ended,       end};
};

} // namespace

const RecorderOps& recorder_ops(uint8_t) {
    return ticks_are_of_counter() ? Events<CounterClock>::ops : Events<NanosecondClock>::ops;
}

void cord_recording_change(Cord& cord, CordRecord& record, uint8_t consumers, uint32_t recording) {
    uint64_t now = ticks_now();
    uint8_t before = record.consumers;
    bool anew = !before || record.epoch != record_key(recording, 0);
    if (record.current && (anew || (before & ~consumers))) stop_current(cord, record, now);
    record.consumers = uint8_t(before & ~consumers);
    tell(record, [&](const RecorderConsumer& consumer) { consumer.cord_ends(cord, now); });
    if (anew) {
        record.epoch = record_key(recording, 0);
        record.current = nullptr;
        record.waker = 0;
        record.sleeping = false;
        record.seen = cord.sched.queue.end();
        record.since = now;
    } else if (record.current) {
        stop_current(cord, record, now);
    }
    record.consumers = uint8_t(consumers & ~before);
    tell(record, [&](const RecorderConsumer& consumer) { consumer.cord_begins(cord, now); });
    record.consumers = consumers;
    if (consumers) go_on(cord, record, now);
}

} // namespace fiberrt
