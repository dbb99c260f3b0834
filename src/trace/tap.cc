// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace/tap.h"

#include "core/cord.h"
#include "core/life.h"
#include "core/shared_wait.h"
#include "core/wait.h"
#include "debug/look.h"
#include "io/io.h"
#include "io/op.h"
#include "record/clock.h"
#include "record/recorder.h"
#include "sync/waiting.h"
#include "trace/session.h"
#include "trace/story.h"

#include <string.h>

namespace fiberrt::trace {

namespace {

// The ring of each cord's slot. Only the cord's thread touches its own.
constinit Ring* rings_of_cords[CordTable::most];

// Leaves the ring of an earlier trace, and takes one for this trace. Null: there is none.
[[gnu::noinline, gnu::cold]] Ring* ring_slowly(Cord& cord) {
    Ring*& ring = rings_of_cords[cord.index];
    if (ring) {
        ring->close();
        ring->leave();
    }
    ring = ring_make();
    if (!ring) return nullptr;
    char name[cord_name_max];
    {
        Locked locked(cord.lock);
        memcpy(name, cord.name, sizeof name);
    }
    Event event = {ticks_now(), cords.id_of(&cord), 0, cord.thread, What::cord, 0, 0, 0};
    ring->put(event, name, strnlen(name, sizeof name));
    return ring;
}

Ring* ring_of(Cord& cord) {
    Ring* ring = rings_of_cords[cord.index];
    if (ring && ring->session == number) [[likely]]
        return ring;
    return ring_slowly(cord);
}

void put(Cord& cord, What what, uint64_t subject, uint64_t object, int32_t number_, uint64_t now) {
    if (Ring* ring = ring_of(cord)) ring->put({now, subject, object, number_, what, 0, 0, 0});
}

// Why a fiber waits in this Wait.
void describe_wait(Ring& ring, const Wait* wait, Event& event) {
    event.reason = uint8_t(wait->what);
    switch (wait->what) {
    case WaitFor::fiber: event.object = fibers.id_of(static_cast<const JoinWait*>(wait)->target); break;
    case WaitFor::foreign_fiber:
    case WaitFor::cord: event.object = static_cast<const EndWait*>(wait)->target; break;
    case WaitFor::op: {
        const auto* op = static_cast<const Op*>(wait);
        event.detail = uint8_t(op->code);
        event.number = op->code == OpCode::close ? int(op->offset) : op->fd;
        break;
    }
    case WaitFor::primitive:
    case WaitFor::channel: {
        const Waiter& waiter = *static_cast<const SyncWait*>(wait)->waiters;
        event.number = wait_text_number(waiter.kind->text);
        event.object = reinterpret_cast<uintptr_t>(waiter.list);
        if (uint16_t at = waiter.kind->holder_at) {
            const auto* word = reinterpret_cast<const uintptr_t*>(event.object + at);
            uintptr_t holder = __atomic_load_n(word, __ATOMIC_RELAXED) & ~uintptr_t(waiter.kind->holder_flags);
            uint64_t fiber = fiber_of_identity(holder);
            if (fiber) ring.put({event.time, event.subject, fiber, 0, What::held, 0, 0, 0});
        }
        break;
    }
    default: break;
    }
}

void stops(Cord& cord, Fiber* fiber, fiberrt::Doing, uint64_t now) {
    Ring* ring = ring_of(cord);
    if (!ring) return;
    State state = fiber->sched.state;
    Event event = {now, fibers.id_of(fiber), 0, -1, What::parks, uint8_t(state), 0, 0};
    if (state == State::waiting) {
        describe_wait(*ring, fiber->wait, event);
    } else if (state == State::transferring) {
        event.object = fiber->transfer_to;
    }
    ring->put(event);
}

void runnable(Cord& cord, Fiber* fiber, uint64_t waker, uint64_t now) {
    put(cord, What::runnable, fibers.id_of(fiber), waker, 0, now);
}

} // namespace

void note_name(Cord& cord, Fiber* fiber) {
    Ring* ring = ring_of(cord);
    if (!ring) return;
    char name[FIBER_NAME_MAX];
    {
        Locked locked(fiber->remote.lock);
        memcpy(name, fiber->name, sizeof name);
    }
    ring->put({ticks_now(), fibers.id_of(fiber), 0, 0, What::named, 0, 0, 0}, name, strnlen(name, sizeof name - 1));
}

namespace {

void runs(Cord& cord, Fiber* fiber, bool first, uint64_t now) {
    uint64_t function = 0;
    if (first && fiber->name[0]) note_name(cord, fiber);
    if (first) {
        function = fiber->uses_stack() ? reinterpret_cast<uintptr_t>(fiber->call.fn)
                                       : reinterpret_cast<uintptr_t>(fiber->step);
    }
    Ring* ring = ring_of(cord);
    if (ring) ring->put({now, fibers.id_of(fiber), function, 0, What::runs, uint8_t(Kind(fiber->life.kind)), 0, 0});
}

void task_begins(Cord& cord, Fiber* fiber, void* (*fn)(void*), uint64_t now) {
    Ring* ring = ring_of(cord);
    auto function = reinterpret_cast<uintptr_t>(fn);
    if (ring) ring->put({now, fibers.id_of(fiber), function, 0, What::runs, uint8_t(Kind::keeps_cord), 0, 0});
}

void ended(Cord& cord, Fiber* fiber, uint64_t now) { put(cord, What::ended, fibers.id_of(fiber), 0, 0, now); }

void put_counts(Cord& cord, uint64_t now) {
    uint64_t operations = cord.io ? cord.io->in_flight : 0;
    put(cord, What::counts, 0, operations, int32_t(cord.sched.queue.size()), now);
}

void poll_begins(Cord& cord, uint64_t now) { put(cord, What::polls, 0, 0, 0, now); }

void poll_ends(Cord& cord, uint64_t now) {
    put(cord, What::polled, 0, 0, 0, now);
    put_counts(cord, now);
}

void sleeps(Cord& cord, uint64_t now) {
    put_counts(cord, now);
    put(cord, What::sleeps, 0, 0, 0, now);
}

void woke(Cord& cord, uint64_t now) { put(cord, What::woke, 0, 0, 0, now); }

// Notes the names of the cord's fibers, and what they wait for already.
void cord_begins(Cord& cord, uint64_t now) {
    if (!ring_of(cord)) return;
    auto note = [&](Fiber* fiber) {
        if (fiber->name[0]) note_name(cord, fiber);
        if (fiber != cord.sched.current) stops(cord, fiber, {}, now);
    };
    if (cord.counts.fibers == 1) return note(cord.main_flow.fiber);
    fibers.each([&](Fiber* fiber) {
        bool in_use = fiber->generation.load(std::memory_order_relaxed) & 1;
        if (in_use && fiber->cord.load(std::memory_order_relaxed) == &cord) note(fiber);
    });
}

// The cord ends, or the trace does. In the second case the slices stay open.
void cord_ends(Cord& cord, uint64_t now) {
    Ring*& ring = rings_of_cords[cord.index];
    if (!ring) return;
    if (ring->session == number) ring->put({now, 0, 0, 0, What::leaves, 0, 0, 0});
    ring->close();
    ring->leave();
    ring = nullptr;
}

constexpr RecorderConsumer consumer = {cord_begins, cord_ends,   stops,     runnable, runs, task_begins,
                                       ended,       poll_begins, poll_ends, sleeps,   woke};

} // namespace

int tap_open() { return recorder_want(Consumer::trace, &consumer); }

int tap_open_at_begin() {
    recorder_want_at_begin(Consumer::trace, &consumer);
    return 0;
}

void tap_close() {
    if (recorder_wanted(Consumer::trace)) recorder_want_no_more(Consumer::trace);
}

void tap_forked() { memset(rings_of_cords, 0, sizeof rings_of_cords); }

void note_begin(Cord& cord, const char* name) {
    Ring* ring = ring_of(cord);
    if (!ring) return;
    uint64_t me = fibers.id_of(cord.sched.current);
    ring->put({ticks_now(), me, 0, 0, What::begin, 0, 0, 0}, name, strnlen(name, text_most));
}

void note_end(Cord& cord) { put(cord, What::end, fibers.id_of(cord.sched.current), 0, 0, ticks_now()); }

void note_value(Cord& cord, const char* name, int64_t value) {
    Ring* ring = ring_of(cord);
    if (ring) ring->put({ticks_now(), 0, uint64_t(value), 0, What::value, 0, 0, 0}, name, strnlen(name, text_most));
}

} // namespace fiberrt::trace
