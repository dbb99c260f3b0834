// SPDX-License-Identifier: MIT OR Apache-2.0
// Static probes (USDT), for bpftrace, perf, gdb and SystemTap: places in the code, with their arguments in a section of
// the file, at which a tool sets a breakpoint. They are in functions that run only while a tool is attached.
#include "trace/probes.h"

#if defined FIBERRT_HAVE_SDT

#include "base/mutex.h"
#include "base/report.h"
#include "core/begin.h"
#include "core/cord.h"
#include "core/life.h"
#include "core/probes.h"
#include "core/shared_wait.h"
#include "core/wait.h"
#include "io/op.h"
#include "record/recorder.h"
#include "sync/waiting.h"

#define _SDT_HAS_SEMAPHORES 1 // NOLINT(bugprone-reserved-identifier): the header wants that name
#define FIBERRT_SEMAPHORE_OF(probe) extern "C" [[gnu::visibility("hidden")]] unsigned short fiberrt_##probe##_semaphore;
FIBERRT_PROBES(FIBERRT_SEMAPHORE_OF)
#include <sys/sdt.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt::trace {

namespace {

constinit pthread_mutex_t probes_mutex = PTHREAD_MUTEX_INITIALIZER;

// The fiber that ran last on each cord's slot. Only the cord's thread touches its own.
constinit uint64_t ran_last[CordTable::most];

void nothing(Cord&, uint64_t) {}

void probe_cord_begins(Cord& cord, uint64_t) { ran_last[cord.index] = 0; }

const Op* op_of(const Fiber* fiber) {
    return fiber->wait->what == WaitFor::op ? static_cast<const Op*>(fiber->wait) : nullptr;
}

int descriptor_of(const Op& op) { return op.code == OpCode::close ? int(op.offset) : op.fd; }

// Why a fiber waits. object: the address of a primitive, or the handle of a fiber or cord, or 0.
struct Reason {
    char text[80];
    int descriptor;
    uint64_t object;
};

Reason reason_of(const Wait* wait) {
    Reason out = {{}, -1, 0};
    Report text(-1);
    text.put(text_of(wait->what));
    switch (wait->what) {
    case WaitFor::op: {
        const auto* op = static_cast<const Op*>(wait);
        text.put(name_of(op->code));
        out.descriptor = descriptor_of(*op);
        break;
    }
    case WaitFor::primitive:
    case WaitFor::channel: {
        const Waiter& waiter = *static_cast<const SyncWait*>(wait)->waiters;
        text.put(waiter.kind->text);
        out.object = reinterpret_cast<uintptr_t>(waiter.list);
        break;
    }
    case WaitFor::fiber: out.object = fibers.id_of(static_cast<const JoinWait*>(wait)->target); break;
    case WaitFor::foreign_fiber:
    case WaitFor::cord: out.object = static_cast<const EndWait*>(wait)->target; break;
    default: break;
    }
    text.take(out.text, sizeof out.text);
    size_t length = strlen(out.text);
    if (length && out.text[length - 1] == ' ') out.text[length - 1] = '\0'; // what follows is the object
    return out;
}

void probe_stops(Cord& cord, Fiber* fiber, Doing, uint64_t) {
    uint64_t id = ran_last[cord.index] = fibers.id_of(fiber);
    State state = fiber->sched.state;
    if (state == State::yielding || state == State::transferring) {
        STAP_PROBE4(fiberrt, park, id, "waits for a wakeup", -1, uint64_t{0});
    }
    if (state != State::waiting) return;
    if (const Op* op = op_of(fiber)) {
        const char* name = name_of(op->code);
        int descriptor = descriptor_of(*op);
        STAP_PROBE3(fiberrt, submit, id, name, descriptor);
    }
    Reason reason = reason_of(fiber->wait);
    const char* text = reason.text;
    STAP_PROBE4(fiberrt, park, id, text, reason.descriptor, reason.object);
}

void probe_runnable(Cord&, Fiber* fiber, uint64_t waker, uint64_t) {
    uint64_t id = fibers.id_of(fiber);
    // Queued by the end of its wait: it has not run since, so its Wait is still there.
    if (fiber->sched.state == State::queued && fiber->uses_stack()) {
        if (const Op* op = op_of(fiber)) {
            const char* name = name_of(op->code);
            int descriptor = descriptor_of(*op);
            STAP_PROBE4(fiberrt, complete, id, name, descriptor, op->result);
        }
    }
    STAP_PROBE2(fiberrt, wake, id, waker);
}

void probe_runs(Cord& cord, Fiber* fiber, bool first, uint64_t) {
    uint64_t id = fibers.id_of(fiber);
    if (first) {
        uint64_t function = fiber->uses_stack() ? reinterpret_cast<uintptr_t>(fiber->call.fn)
                                                : reinterpret_cast<uintptr_t>(fiber->step);
        STAP_PROBE2(fiberrt, start, id, function);
    }
    uint64_t from = ran_last[cord.index];
    if (from != id) STAP_PROBE2(fiberrt, switch, from, id);
}

void probe_task_begins(Cord&, Fiber* fiber, void* (*fn)(void*), uint64_t) {
    STAP_PROBE2(fiberrt, start, fibers.id_of(fiber), fn);
}

void probe_ended(Cord&, Fiber* fiber, uint64_t) { STAP_PROBE1(fiberrt, exit, fibers.id_of(fiber)); }

constexpr RecorderConsumer probes_consumer = {probe_cord_begins, nothing,           probe_stops, probe_runnable,
                                              probe_runs,        probe_task_begins, probe_ended, nothing,
                                              nothing,           nothing,           nothing};

void follow(bool wanted) {
    MutexGuard guard(probes_mutex);
    if (wanted == probes_fire) return;
    int error = wanted ? recorder_want(Consumer::probes, &probes_consumer) : recorder_want_no_more(Consumer::probes);
    if (!error) probes_fire = wanted; // otherwise the next poll tries again
}

bool probes_begin() {
    static bool begun; // the core calls this under a lock
    if (begun) return true;
    begun = true;
    const char* value = secure_getenv("FIBERRT_PROBES");
    if (value && strcmp(value, "1") == 0) {
        probes_fire = true;
        recorder_want_at_begin(Consumer::probes, &probes_consumer);
    } else {
        probes_follow = follow;
    }
    return true;
}

FIBERRT_INITIALIZER(When::first_cord, probes_begin);

} // namespace

void probes_lock() { pthread_mutex_lock(&probes_mutex); }
void probes_unlock() { pthread_mutex_unlock(&probes_mutex); }

} // namespace fiberrt::trace

#else

namespace fiberrt::trace {

void probes_lock() {}
void probes_unlock() {}

} // namespace fiberrt::trace

#endif
