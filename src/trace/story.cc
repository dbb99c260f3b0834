// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace/story.h"

#include "base/report.h"
#include "core/handles.h"
#include "core/wait.h"
#include "debug/texts.h"
#include "io/ops.h"
#include "trace/function_name.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt::trace {

namespace {

// Numbers of tracks. A fiber's and a cord's are their handles, which begin with a tag.
constexpr uint64_t process_track = uint64_t{0x80} << 56;
constexpr uint64_t spans_of(uint64_t fiber) { return fiber | uint64_t{0x40} << 56; }
constexpr uint64_t runnable_of(uint64_t cord) { return cord | uint64_t{0x40} << 56; }
constexpr uint64_t operations_of(uint64_t cord) { return cord | uint64_t{0x20} << 56; }
constexpr uint64_t program_counter = uint64_t{0xc0} << 56;

constexpr char reference[] = "waits";

Note number_note(NoteName name, uint64_t value) { return {name, Note::number, value, nullptr}; }
Note handle_note(NoteName name, uint64_t value) { return {name, Note::handle, value, nullptr}; }

Packets::Slice slice_of(uint64_t track, int64_t time, const char* name, const Note* notes, size_t count) {
    return {track, time, name, strlen(name), notes, count, nullptr, 0, 0};
}

// clean_text of a C string, as a C string.
template <size_t size>
void clean_string(char (&out)[size], const char* text) {
    out[clean_text(out, size - 1, text, strlen(text))] = '\0';
}

uint64_t counter_track(const char* name) { // FNV-1a
    uint64_t hash = 14695981039346656037u;
    for (; *name; name++) hash = (hash ^ uint8_t(*name)) * 1099511628211u;
    return program_counter | hash >> 8;
}

} // namespace

int32_t wait_text_number(const char* text) {
    return int32_t(reinterpret_cast<intptr_t>(text) - reinterpret_cast<intptr_t>(reference));
}

void Story::open(int fd, const Clocks& clocks, bool simulated) {
    simulated_ = simulated;
    next_flow_ = 1;
    counter_count_ = 0;
    memset(functions_, 0, sizeof functions_);
    packets_.open(fd, clocks);
    // argv[0], which the parent chose: any bytes, and up to 128 KiB.
    char name[text_most + 1];
    clean_string(name, program_invocation_short_name);
    packets_.process(process_track, simulated ? 1 : getpid(), name);
}

void Story::take(KnownCord& cord, const Event& event, int64_t time, const char* text) {
    // If the thread has changed its processor, whose counter is some ticks behind, the event has an earlier time than
    // the last one.
    if (time < cord.last && event.what != What::cord) time = cord.last;
    cord.last = time;
    switch (event.what) {
    case What::cord: return describe(cord, event, time, text);
    case What::runs: return runs(cord, event, time);
    case What::parks: return parks(cord, event, time);
    case What::held:
        if (Known* fiber = known(cord, event.subject, time)) fiber->holder = event.object;
        return;
    case What::runnable: return woken(cord, event, time);
    case What::ended: return ended(cord, event, time);
    case What::named:
        if (Known* fiber = known(cord, event.subject, time)) learn_name(*fiber, time, text);
        return;
    case What::polls: return slice_begins(cord, time, "polls");
    case What::sleeps: return slice_begins(cord, time, "sleeps");
    case What::polled:
    case What::woke: return slice_ends(cord, time);
    case What::counts: return counts(cord, event, time);
    case What::begin: return span_begins(cord, event, time, text);
    case What::end: return span_ends(event, time);
    case What::value: return value(event, time, text);
    case What::dropped: return drops(cord, time, event.object);
    case What::leaves: return all_end(cord, time);
    }
}

// A cord's first event.
void Story::describe(KnownCord& cord, const Event& event, int64_t time, const char* name) {
    cord = {};
    cord.last = time;
    cord.id = event.subject;
    int pid = simulated_ ? 1 : getpid();
    char clean[text_most + 1];
    clean_string(clean, *name ? name : "cord");
    packets_.thread(cord.id, pid, simulated_ ? int(id_index(cord.id)) + 1 : event.number, clean);
    packets_.counter(runnable_of(cord.id), cord.id, "runnable fibers");
    packets_.counter(operations_of(cord.id), cord.id, "operations under way");
}

// The record of a fiber. Null: there is no memory, or the slot has a later fiber already.
Known* Story::known(KnownCord& cord, uint64_t id, int64_t time) {
    Known* fiber = fibers_.at(id);
    if (!fiber) return nullptr;
    if (fiber->id == id) return fiber;
    if (id_generation(fiber->id) > id_generation(id)) return nullptr; // another cord's ring had its event
    if (cord.runs == fiber->id) run_ends(cord, time);
    forget(*fiber, time);
    fiber->id = id;
    fiber->cord = id_index(cord.id);
    return fiber;
}

// Its slot has another fiber.
void Story::forget(Known& fiber, int64_t time) {
    spans_end(fiber, time);
    if (fiber.phase == Phase::waits) packets_.end(fiber.id, time);
    fiber = {};
}

void Story::learn_name(Known& fiber, int64_t time, const char* name) {
    char clean[FIBER_NAME_MAX];
    clean[clean_text(clean, sizeof clean - 1, name, strnlen(name, sizeof clean - 1))] = '\0';
    if (!*clean || strcmp(fiber.name, clean) == 0) return;
    memcpy(fiber.name, clean, sizeof clean);
    if (!fiber.described) return; // its track will have the name
    Note note = {NoteName::name, Note::text, 0, fiber.name};
    packets_.instant(slice_of(fiber.id, time, "named", &note, 1));
}

const char* Story::name_of_function(uint64_t function) {
    auto& kept = functions_[(function >> 4) % functions_most];
    if (kept.function == function) return kept.name;
    char name[label_most];
    function_name(uintptr_t(function), name, sizeof name);
    clean_string(kept.name, name);
    kept.function = function;
    return kept.name;
}

// The fiber's name in its tracks.
const char* Story::label(const Known& fiber) {
    if (fiber.name[0]) return fiber.name;
    if (fiber.function && !is_internal(fiber.kind)) return name_of_function(fiber.function);
    return fiber.kind == Kind::keeps_cord || fiber.kind == Kind::daemon ? "fiber" : text_of(fiber.kind);
}

// Describes the track of the fiber before its first slice.
void Story::track_of(Known& fiber) {
    if (fiber.described) return;
    fiber.described = true;
    Report text(-1);
    text.put(label(fiber));
    text.put(" #");
    text.number(id_index(fiber.id));
    char track[label_most + 16];
    text.take(track, sizeof track);
    packets_.track(fiber.id, process_track, track);
}

// Write the slices of the phase, without their ends.
void Story::run_begun(KnownCord& cord, Known& fiber) {
    track_of(fiber);
    if (fiber.runnable) {
        packets_.begin(slice_of(fiber.id, fiber.runnable, text_of(State::queued), nullptr, 0));
        packets_.end(fiber.id, fiber.since);
        fiber.runnable = 0;
    }
    Packets::Slice slice = slice_of(fiber.id, fiber.since, "runs", nullptr, 0);
    slice.flows = cord.flows;
    slice.flow_count = cord.flow_count;
    slice.flow_here = fiber.flow;
    packets_.begin(slice);
    Note note = handle_note(NoteName::fiber, fiber.id);
    packets_.begin(slice_of(cord.id, fiber.since, label(fiber), &note, 1));
    fiber.flow = 0;
    cord.flow_count = 0;
}

void Story::runnable_begun(Known& fiber) {
    track_of(fiber);
    packets_.begin(slice_of(fiber.id, fiber.since, text_of(State::queued), nullptr, 0));
}

void Story::phase_ends(KnownCord& cord, Known& fiber, int64_t time) {
    switch (fiber.phase) {
    case Phase::unknown: return;
    case Phase::runs:
        run_begun(cord, fiber);
        if (fiber.until) time = fiber.until;
        packets_.end(cord.id, time);
        cord.runs = 0;
        break;
    case Phase::is_runnable: runnable_begun(fiber); break;
    case Phase::waits: break;
    }
    packets_.end(fiber.id, time);
    fiber.phase = Phase::unknown;
}

// The fiber that ran no longer has the thread. Its stop came before the wakes that it made, so its run is written only
// now.
void Story::run_ends(KnownCord& cord, int64_t time) {
    Known* fiber = cord.runs ? fibers_.find(cord.runs) : nullptr;
    if (fiber && fiber->phase == Phase::runs) {
        phase_ends(cord, *fiber, time);
        if (fiber->until) after_run(*fiber, fiber->until);
    }
    cord.runs = 0;
    cord.flow_count = 0;
}

// Begins the phase of the last `parks` event.
void Story::after_run(Known& fiber, int64_t time) {
    fiber.since = time;
    switch (State(fiber.parked.state)) {
    case State::scheduled:
    case State::awaiting_stack:
    case State::queued:
    case State::woken:
    case State::offered: fiber.phase = Phase::is_runnable; break;
    case State::yielding:
    case State::transferring:
    case State::waiting:
    case State::handed_out: // its host may run it, or let it wait
        fiber.phase = Phase::waits;
        wait_begins(fiber, fiber.parked, time);
        break;
    case State::created:
    case State::running: // it polls, or ends
    case State::dead: break;
    }
}

void Story::runs(KnownCord& cord, const Event& event, int64_t time) {
    run_ends(cord, time);
    Known* fiber = known(cord, event.subject, time);
    if (!fiber) return;
    if (event.object) fiber->function = event.object;
    fiber->kind = Kind(event.state);
    // Most often a fiber gets its name in its first run, so the writer describes its track after that run.
    bool first = fiber->phase == Phase::is_runnable && !fiber->described;
    if (!first) phase_ends(cord, *fiber, time);
    fiber->runnable = first ? fiber->since : 0;
    fiber->phase = Phase::runs;
    fiber->since = time;
    fiber->until = 0;
    cord.runs = event.subject;
}

void Story::parks(KnownCord& cord, const Event& event, int64_t time) {
    Known* fiber = known(cord, event.subject, time);
    if (!fiber) return;
    fiber->parked = event;
    if (fiber->phase == Phase::runs) {
        fiber->until = time;
    } else {
        phase_ends(cord, *fiber, time);
        after_run(*fiber, time);
    }
}

void Story::wait_begins(Known& fiber, const Event& event, int64_t time) {
    track_of(fiber);
    auto state = State(event.state);
    auto reason = WaitFor(event.reason);
    Report text(-1);
    Note notes[3];
    size_t count = 0;
    if (state != State::waiting) {
        text.put(state == State::transferring ? "has transferred" : text_of(state));
        if (state == State::transferring && event.object) notes[count++] = handle_note(NoteName::target, event.object);
    } else if (reason == WaitFor::op) {
        text.put(text_of(reason));
        text.put(name_of(OpCode(event.detail)));
        if (event.number >= 0) notes[count++] = number_note(NoteName::descriptor, uint64_t(event.number));
    } else if (is_sync_wait(reason)) {
        text.put(text_of(reason));
        text.put(reference + event.number);
        if (!simulated_) notes[count++] = {NoteName::object, Note::pointer, event.object, nullptr};
        if (fiber.holder) notes[count++] = handle_note(NoteName::holder, fiber.holder);
    } else {
        text.put(text_of(reason));
        if (event.object) notes[count++] = handle_note(NoteName::target, event.object);
    }
    fiber.holder = 0;
    char name[80];
    text.take(name, sizeof name);
    size_t length = strlen(name);
    if (length && name[length - 1] == ' ') name[length - 1] = '\0';
    packets_.begin(slice_of(fiber.id, time, name, notes, count));
}

void Story::woken(KnownCord& cord, const Event& event, int64_t time) {
    Known* fiber = known(cord, event.subject, time);
    if (!fiber || fiber->phase == Phase::runs) return;
    phase_ends(cord, *fiber, time);
    fiber->phase = Phase::is_runnable;
    fiber->since = time;
    fiber->flow = 0;
    if (!event.object) return;
    uint64_t flow = next_flow_;
    if (cord.runs == event.object && cord.flow_count < Packets::flows_most) {
        cord.flows[cord.flow_count++] = flow;
    } else if (Known* waker = fibers_.find(event.object)) { // an instant, most often within the run
        track_of(*waker);
        Packets::Slice slice = slice_of(waker->id, time, "wakes", nullptr, 0);
        slice.flows = &flow;
        slice.flow_count = 1;
        packets_.instant(slice);
    } else {
        return; // the waker has ended, and its slot has another fiber already
    }
    fiber->flow = flow;
    next_flow_++;
}

void Story::spans_end(Known& fiber, int64_t time) {
    for (; fiber.spans; fiber.spans--) packets_.end(spans_of(fiber.id), time);
}

void Story::ended(KnownCord& cord, const Event& event, int64_t time) {
    Known* fiber = known(cord, event.subject, time);
    if (!fiber) return;
    spans_end(*fiber, time);
    if (fiber->phase != Phase::runs) phase_ends(cord, *fiber, time); // it has never run
}

// Some of the cord's events are missing, or its events end: ends all slices of the cord and its fibers.
void Story::all_end(KnownCord& cord, int64_t time) {
    while (cord.open) slice_ends(cord, time);
    fibers_.each([&](Known& fiber) {
        if (fiber.cord != id_index(cord.id)) return;
        phase_ends(cord, fiber, time);
        spans_end(fiber, time);
        fiber.flow = 0;
    });
    cord.runs = 0;
    cord.flow_count = 0;
}

// Events were dropped, so it is not known what the fibers have done since then.
void Story::drops(KnownCord& cord, int64_t time, uint64_t dropped) {
    all_end(cord, time);
    cord.dropped += dropped;
    Note note = number_note(NoteName::dropped, dropped);
    packets_.instant(slice_of(cord.id, time, "events dropped", &note, 1));
}

void Story::finish(KnownCord& cord, uint64_t dropped) {
    if (!cord.id) return; // its first event has not come
    if (dropped > cord.dropped) drops(cord, cord.last, dropped - cord.dropped);
    fibers_.each([&](Known& fiber) {
        if (fiber.cord != id_index(cord.id)) return;
        if (fiber.phase == Phase::runs && fiber.until) {
            phase_ends(cord, fiber, fiber.until);
            after_run(fiber, fiber.until);
        }
        if (fiber.phase == Phase::runs) run_begun(cord, fiber);
        if (fiber.phase == Phase::is_runnable) runnable_begun(fiber);
    });
}

void Story::close() {
    packets_.close();
    fibers_.empty();
}

// A slice of the thread's own, outside any fiber.
void Story::slice_begins(KnownCord& cord, int64_t time, const char* name) {
    run_ends(cord, time);
    cord.open++;
    packets_.begin(slice_of(cord.id, time, name, nullptr, 0));
}

void Story::slice_ends(KnownCord& cord, int64_t time) {
    if (!cord.open) return; // it began before the trace, or its event was dropped
    cord.open--;
    packets_.end(cord.id, time);
}

void Story::span_begins(KnownCord& cord, const Event& event, int64_t time, const char* name) {
    Known* fiber = known(cord, event.subject, time);
    if (!fiber || fiber->spans == UINT16_MAX) return;
    if (!fiber->spans_described) {
        fiber->spans_described = true;
        track_of(*fiber);
        packets_.track(spans_of(fiber->id), fiber->id, "slices of the program");
    }
    fiber->spans++;
    char clean[text_most + 1];
    size_t length = clean_text(clean, text_most, name, strlen(name));
    packets_.begin({spans_of(fiber->id), time, clean, length, nullptr, 0, nullptr, 0, 0});
}

void Story::span_ends(const Event& event, int64_t time) {
    Known* fiber = fibers_.find(event.subject);
    if (!fiber || !fiber->spans) return; // it began before the trace, or its event was dropped
    fiber->spans--;
    packets_.end(spans_of(fiber->id), time);
}

void Story::value(const Event& event, int64_t time, const char* name) {
    char clean[text_most + 1];
    clean_string(clean, name);
    uint64_t track = counter_track(clean);
    bool described = false;
    for (size_t i = 0; i < counter_count_ && !described; i++) described = counters_[i] == track;
    if (!described) {
        packets_.counter(track, process_track, clean);
        if (counter_count_ < counters_most) counters_[counter_count_++] = track;
    }
    packets_.value(track, time, int64_t(event.object));
}

void Story::counts(KnownCord& cord, const Event& event, int64_t time) {
    if (!cord.counted || cord.runnable != event.number) packets_.value(runnable_of(cord.id), time, event.number);
    if (!cord.counted || cord.operations != event.object)
        packets_.value(operations_of(cord.id), time, int64_t(event.object));
    cord.counted = true;
    cord.runnable = event.number;
    cord.operations = event.object;
}

void Story::discard() {
    packets_.out().close();
    fibers_.empty();
}

} // namespace fiberrt::trace
