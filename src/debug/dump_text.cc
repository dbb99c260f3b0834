// SPDX-License-Identifier: MIT OR Apache-2.0
// Prints the dump as text for people.
#include "debug/dump_text.h"

#include "core/handles.h"
#include "debug/creation.h"
#include "debug/describe.h"
#include "debug/texts.h"
#include "debug/wait_text.h"
#include "core/backend.h"
#include "backend/selection.h"

#include <string.h>

namespace fiberrt {

namespace {

// The time left before a deadline, after the text `what`.
void put_left(Report& r, const char* what, int64_t deadline, int64_t now) {
    r.put(what);
    uint64_t us = deadline > now ? uint64_t(deadline - now) / 1000 : 0;
    r.number(us / 1'000'000);
    r.put('.');
    r.number(us % 1'000'000, 10, 6);
    r.put(" s left");
}

// Puts a name from a file. Control characters become '?'.
void put_plain(Report& r, const char* text) {
    for (; *text; text++) r.put(uint8_t(*text) < 0x20 || *text == 0x7f ? '?' : *text);
}

void put_state(Report& r, const Snapshot& fiber) {
    if (fiber.still && fiber.has_wait) return put_wait(r, fiber.wait);
    put_state_without_wait(r, fiber);
}

void put_scopes(Report& r, const Snapshot& fiber, int64_t now) {
    for (int i = 0; i < fiber.scope_count; i++) {
        const ScopeSnapshot& s = fiber.scopes[i];
        r.put("; scope");
        if (s.stopped & pending_timeout) {
            r.put(" whose deadline has fired");
        } else if (s.deadline == never) {
            r.put(" without a deadline");
        } else {
            put_left(r, ", ", s.deadline, now);
        }
        if (s.stopped & pending_cancel) r.put(", cancelled");
        if (s.shield) r.put(s.shield == pending_cancel ? ", shielded against cancels" : ", shielded");
        if (s.has_children) r.put(", with children");
    }
    if (fiber.more_scopes) r.put("; more scopes");
}

void put_rest(Report& r, const Snapshot& fiber) {
    if (fiber.cancelled) r.put("; cancelled");
    if (fiber.interrupted) r.put("; interrupted");
    if (fiber.permit) r.put("; a wakeup is remembered");
    bool main_flow = fiber.kind == Kind::main_flow;
    if (fiber.detached && !main_flow) r.put("; detached");
    if (const char* kind = text_of(fiber.kind); *kind && !main_flow) {
        r.put("; ");
        r.put(kind);
    }
    if (fiber.stack_low) {
        r.put("; stack of ");
        r.number(StackPool::size_of(fiber.stack_class) / 1024);
        r.put(" KiB");
    }
}

// "serve+0x1b", or an address
void put_place(Report& r, uintptr_t pc, const Symbol* symbol) {
    if (symbol && symbol->name) {
        put_plain(r, symbol->name_for_people);
        r.put("+0x");
        r.number(symbol->offset, 16);
    } else {
        r.put("0x");
        r.number(pc, 16);
    }
}

void put_creation(Report& r, uint64_t fiber, Symbols& symbols) {
    Creation creation;
    if (!creation_of({fiber}, &creation)) return;
    r.put("; created");
    if (creation.at) {
        r.put(" at ");
        put_place(r, creation.at, symbols.of(creation.at));
    }
    if (creation.by) {
        r.put(" by fiber ");
        r.id(creation.by);
    }
}

void put_cord(Report& r, Cord* cord) {
    CordSnapshot seen;
    if (!describe_cord(cord, seen)) return;
    r.put("cord ");
    r.id(seen.id);
    if (seen.name[0]) r.name(seen.name);
    if (cord == cord_if_any()) r.put(", of this thread");
    if (seen.ended) {
        r.put(", ended, not joined");
    } else if (seen.closing) {
        r.put(", being shut down");
    }
    r.put('\n');
}

void put_library(Report& r) {
    r.put("fiberrt ");
    r.number(FIBERRT_VERSION_MAJOR);
    r.put('.');
    r.number(FIBERRT_VERSION_MINOR);
    r.put('.');
    r.number(FIBERRT_VERSION_PATCH);
    r.put('\n');
    const Cord* here = cord_if_any();
    const CordIo* io = here ? here->io : nullptr;
    r.put("backend of this thread: ");
    r.put(io ? io->backend->name : "none yet");
    if (io) {
        r.put(", ");
        r.number(io->in_flight);
        r.put(" operations under way");
    }
    r.put('\n');
    char sentence[256];
    backend_explain_last(sentence, sizeof sentence);
    for (char* c = sentence; *c; c++) { // it may cite FIBERRT_BACKEND
        if (uint8_t(*c) < 0x20) *c = '?';
    }
    r.put(sentence);
    r.put('\n');
}

// "#0 fiber_read+0x1b (/usr/lib/libfiberrt.so.1+0x4f2b)"
void put_frame(Report& r, const Frame& frame, int number) {
    r.put("    #");
    r.number(uint64_t(number));
    r.put(' ');
    const Symbol* symbol = frame.symbol;
    put_place(r, frame.pc, symbol);
    if (symbol && symbol->object) {
        r.put(" (");
        put_plain(r, symbol->object);
        if (symbol->object_offset) {
            r.put("+0x");
            r.number(symbol->object_offset, 16);
        }
        r.put(')');
    }
    r.put('\n');
}

const char* text_of(FramesEnd end) {
    switch (end) {
    case FramesEnd::outermost: return nullptr;
    case FramesEnd::lost: return "further frames cannot be found";
    case FramesEnd::cut: return "further frames are left out";
    }
    __builtin_unreachable();
}

// "python #0 Server.read_request (/srv/app.py:17)"
void put_code_frames(Report& r, const CodeFrames& code) {
    for (int i = 0; i < code.count; i++) {
        const fiber_code_frame_t& frame = code.frames[i];
        r.put("    ");
        r.put(code.language);
        r.put(" #");
        r.number(uint64_t(i));
        r.put(' ');
        put_plain(r, frame.function[0] ? frame.function : "further frames are not known");
        if (frame.file[0]) {
            r.put(" (");
            put_plain(r, frame.file);
            if (frame.line > 0) {
                r.put(':');
                r.number(uint64_t(frame.line));
            }
            r.put(')');
        }
        r.put('\n');
    }
    if (!code.missed) return;
    r.put("    the frames of ");
    r.put(code.language);
    r.put(" code cannot be read now\n");
}

void put_frames(Report& r, const Frames& frames) {
    for (int i = 0; i < frames.count; i++) put_frame(r, frames.at[i], i);
    if (const char* text = text_of(frames.end); text && frames.count) {
        r.put("    ");
        r.put(text);
        r.put('\n');
    }
    if (frames.none) {
        r.put("    no frames: ");
        r.put(frames.none);
        r.put('\n');
    }
    put_code_frames(r, frames.code);
}

// 9,812
void put_grouped(Report& r, uint64_t n) {
    if (n >= 1000) put_grouped(r, n / 1000), r.put(',');
    r.number(n % 1000, 10, n >= 1000 ? 3 : 1);
}

} // namespace

void TextDump::begin(bool) { put_library(out_); }

void TextDump::cord(Cord* cord) { put_cord(out_, cord); }

void TextDump::fiber(const Snapshot& seen, uintptr_t, const Frames* frames) {
    Report& r = out_;
    r.put("fiber ");
    r.id(seen.id);
    if (seen.name[0]) r.name(seen.name);
    r.put(" of cord ");
    r.id(CordTable::id_of(seen.cord));
    r.put(seen.kind == Kind::main_flow ? ", main flow: " : ": ");
    put_state(r, seen);
    if (seen.still) {
        if (seen.deadline != never) put_left(r, ", ", seen.deadline, now_);
        put_scopes(r, seen, now_);
    }
    put_rest(r, seen);
    put_creation(r, seen.id, symbols_);
    r.put('\n');
    if (frames) put_frames(r, *frames);
}

void TextDump::group(const StackGroup& group, bool with_frames) {
    Report& r = out_;
    put_grouped(r, group.count);
    r.put(group.count == 1 ? " fiber: " : " fibers: ");
    const Frames& frames = group.frames;
    const CodeFrames& code = frames.code;
    // The public function that waits says more than the reason to wait, but an interpreter's own frames hide it.
    bool tells_wait = code.count || !frames.count || group.state != FIBER_WAITING || !is_public_frame(frames.at[0]);
    if (tells_wait) r.put(group.wait);
    for (int i = 0; i < code.count; i++) {
        r.put(" ← ");
        put_plain(r, code.frames[i].function[0] ? code.frames[i].function : "…");
    }
    for (int i = 0; i < frames.count && !code.count; i++) {
        if (i || tells_wait) r.put(" ← ");
        const Symbol* symbol = frames.at[i].symbol;
        if (symbol && symbol->name) {
            put_plain(r, symbol->name_for_people);
        } else {
            r.put("0x");
            r.number(frames.at[i].pc, 16);
        }
    }
    if (frames.count && !code.count && frames.end != FramesEnd::outermost) r.put(" ← …");
    r.put("\n    ");
    int ids = group.count < StackGroup::ids_most ? int(group.count) : StackGroup::ids_most;
    for (int i = 0; i < ids; i++) {
        r.put(i ? ", " : "fiber ");
        r.id(group.ids[i]);
    }
    if (group.count > uint64_t(ids)) r.put(", …");
    r.put('\n');
    if (with_frames) put_frames(r, group.frames);
}

namespace {

// Puts a line for each fiber of a circle: "fiber A waits for a lock at 0x… held by fiber B".
void put_circle(Report& r, const WaitCircle& circle) {
    for (int i = 0; i < circle.count; i++) {
        const Snapshot& seen = circle.fibers[i];
        const Snapshot& other = circle.fibers[(i + 1) % circle.count];
        r.put("    fiber ");
        r.id(seen.id);
        if (seen.name[0]) r.name(seen.name);
        r.put(' ');
        put_state(r, seen);
        WaitFor what = seen.has_wait ? seen.wait.what : WaitFor::fiber;
        if (what == WaitFor::primitive) {
            r.put(" at 0x");
            r.number(seen.wait.primitive, 16);
            r.put(", held by fiber ");
            r.id(other.id);
        } else if (what == WaitFor::cord) {
            r.put(", whose main flow is fiber ");
            r.id(other.id);
        } else if (what == WaitFor::children || what == WaitFor::quiet) {
            r.put(", such as fiber ");
            r.id(other.id);
        }
        r.put('\n');
    }
}

} // namespace

void TextDump::deadlock(const WaitCircle& circle) {
    out_.put("deadlock: fibers wait for each other, in a circle\n");
    put_circle(out_, circle);
}

void TextDump::circle(const WaitCircle& circle) {
    if (circle.deadline != never) {
        put_left(out_, "fibers wait for each other, until a deadline, ", circle.deadline, now_);
    } else {
        out_.put("fibers wait for each other, unless another one intervenes");
    }
    out_.put('\n');
    put_circle(out_, circle);
}

void TextDump::incomplete(const char* what) {
    out_.put(what);
    out_.put('\n');
}

void TextDump::end() {}

} // namespace fiberrt
