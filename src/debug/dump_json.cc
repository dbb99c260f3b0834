// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/dump_json.h"

#include "debug/describe.h"
#include "debug/times_json.h"

#include <stdio.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr const char* text_of_state(int state) {
    switch (state) {
    case FIBER_NEW: return "new";
    case FIBER_RUNNABLE: return "runnable";
    case FIBER_RUNNING: return "running";
    case FIBER_WAITING: return "waiting";
    default: return "dead";
    }
}

constexpr const char version[] =
#define FIBERRT_TEXT(x) FIBERRT_TEXT_OF(x)
#define FIBERRT_TEXT_OF(x) #x
    FIBERRT_TEXT(FIBERRT_VERSION_MAJOR) "." FIBERRT_TEXT(FIBERRT_VERSION_MINOR) "." FIBERRT_TEXT(FIBERRT_VERSION_PATCH);

void string_or_null(Json& out, const char* key, const char* text) { text ? out.string(key, text) : out.null(key); }

void put_left(Json& out, const char* key, int64_t deadline, int64_t now) {
    if (deadline == FIBER_FOREVER) {
        out.null(key);
    } else {
        out.number(key, deadline > now ? uint64_t(deadline - now) : 0);
    }
}

} // namespace

void JsonDump::begin(bool grouped) {
    grouped_ = grouped;
    out_.object();
    out_.string("fiberrt", version);
    out_.number("pid", uint64_t(getpid()));
    out_.signed_number("now_ns", now_);
    out_.array("cords");
}

void JsonDump::cord(Cord* cord) {
    CordSnapshot seen;
    if (!describe_cord(cord, seen)) return;
    out_.object();
    out_.id("id", seen.id);
    out_.string("name", seen.name);
    out_.number("thread", uint64_t(seen.thread));
    out_.boolean("ended", seen.ended);
    out_.boolean("closing", seen.closing);
    fiber_stats_t stats;
    if (!seen.ended && stats_of_any(*cord, id_generation(seen.id), &stats) == 0) {
        out_.number("switches", stats.switches);
        out_.number("instant_resumes", stats.instant_resumes);
        out_.number("polls", stats.polls);
        out_.number("blocking_polls", stats.blocking_polls);
        out_.number("ops", stats.ops);
        out_.number("ops_in_flight", stats.ops_in_flight);
        out_.number("fibers", stats.fibers);
        out_.number("stacks", stats.stacks);
        out_.number("stacks_free", stats.stacks_free);
        out_.number("stack_bytes", stats.stack_bytes);
        put_times_of_cord(out_, *cord, id_generation(seen.id));
    }
    out_.end_object();
}

// Begins a list of the whole object, and ends the ones before it.
void JsonDump::to_list(List list) {
    while (list_ < list) {
        list_ = List(int(list_) + 1);
        out_.end_array();
        switch (list_) {
        case List::cords: break;
        case List::fibers: out_.array(grouped_ ? "groups" : "fibers"); break;
        case List::deadlocks: out_.array("deadlocks"); break;
        case List::circles: out_.array("wait_circles"); break;
        case List::incomplete: out_.array("incomplete"); break;
        }
    }
}

void JsonDump::frames(const Frames& frames) {
    out_.array("frames");
    for (int i = 0; i < frames.count; i++) {
        const Frame& frame = frames.at[i];
        const Symbol* symbol = frame.symbol;
        out_.object();
        out_.address("pc", frame.pc);
        const char* name = symbol && symbol->is_public ? symbol->name_for_people : symbol ? symbol->name : nullptr;
        string_or_null(out_, "symbol", name);
        if (symbol && symbol->name) out_.number("offset", symbol->offset);
        string_or_null(out_, "object", symbol ? symbol->object : nullptr);
        if (symbol && symbol->object_offset) out_.number("object_offset", symbol->object_offset);
        out_.end_object();
    }
    out_.end_array();
    out_.boolean("frames_complete", frames.end == FramesEnd::outermost && !frames.none);
    if (frames.none) out_.string("frames_missing", frames.none);
    if (frames.code.language[0]) code_frames(frames.code);
}

void JsonDump::code_frames(const CodeFrames& code) {
    char list[32];
    char complete[32];
    snprintf(list, sizeof list, "%s_frames", code.language);
    snprintf(complete, sizeof complete, "%s_frames_complete", code.language);
    out_.array(list);
    bool whole = !code.missed;
    for (int i = 0; i < code.count; i++) {
        const fiber_code_frame_t& frame = code.frames[i];
        whole = frame.function[0];
        if (!whole) break;
        out_.object();
        string_or_null(out_, "file", frame.file[0] ? frame.file : nullptr);
        frame.line > 0 ? out_.number("line", uint64_t(frame.line)) : out_.null("line");
        out_.string("function", frame.function);
        out_.end_object();
    }
    out_.end_array();
    out_.boolean(complete, whole);
}

void JsonDump::fiber(const Snapshot& seen, uintptr_t function, const Frames* its_frames) {
    to_list(List::fibers);
    fiber_info_t info;
    info_of(seen, function, &info);
    out_.object();
    out_.id("id", info.id);
    out_.string("name", info.name);
    out_.id("cord", info.cord);
    out_.string("state", text_of_state(info.state));
    out_.boolean("still", info.still);
    out_.boolean("main_flow", info.main_flow);
    out_.boolean("cancelled", info.cancelled);
    out_.boolean("detached", info.detached);
    out_.string("wait", info.wait);
    out_.signed_number("wait_fd", info.wait_fd);
    out_.id("wait_object", info.wait_object);
    out_.id("wait_fiber", info.wait_fiber);
    put_left(out_, "wait_left_ns", info.wait_deadline_ns, now_);
    out_.id("parent", info.parent);
    out_.id("parent_scope", info.parent_scope);
    out_.address("function", info.function);
    const Symbol* symbol = info.function ? symbols_.of(info.function + 1) : nullptr;
    const char* name = symbol && symbol->name ? symbol->name : "";
    if (its_frames && its_frames->code.count) {
        const fiber_code_frame_t& outermost = its_frames->code.frames[its_frames->code.count - 1];
        if (outermost.function[0]) name = outermost.function; // an interpreter runs the function
    }
    out_.string("function_name", name);
    if (info.created_at || info.created_by) {
        symbol = info.created_at ? symbols_.of(info.created_at) : nullptr;
        out_.address("created_at", info.created_at);
        out_.string("created_at_name", symbol && symbol->name ? symbol->name : "");
        out_.number("created_at_offset", symbol && symbol->name ? symbol->offset : 0);
        out_.id("created_by", info.created_by);
    }
    out_.number("stack_size", info.stack_size);
    out_.number("stack_used", info.stack_used);
    out_.number("stack_touched", info.stack_touched);
    put_times_of_fiber(out_, info.id);
    if (its_frames) frames(*its_frames);
    out_.end_object();
}

void JsonDump::group(const StackGroup& group, bool) {
    to_list(List::fibers);
    out_.object();
    out_.number("count", group.count);
    out_.string("state", text_of_state(group.state));
    out_.string("wait", group.wait);
    out_.array("fibers");
    for (uint64_t i = 0; i < group.count && i < StackGroup::ids_most; i++) out_.id(nullptr, group.ids[i]);
    out_.end_array();
    frames(group.frames);
    out_.end_object();
}

void JsonDump::ids_of(const char* key, const WaitCircle& circle) {
    out_.array(key);
    for (int i = 0; i < circle.count; i++) out_.id(nullptr, circle.fibers[i].id);
    out_.end_array();
}

void JsonDump::deadlock(const WaitCircle& circle) {
    to_list(List::deadlocks);
    ids_of(nullptr, circle);
}

void JsonDump::circle(const WaitCircle& circle) {
    to_list(List::circles);
    out_.object();
    ids_of("fibers", circle);
    put_left(out_, "left_ns", circle.deadline, now_);
    out_.end_object();
}

void JsonDump::incomplete(const char* what) {
    to_list(List::incomplete);
    out_.string(nullptr, what);
}

void JsonDump::end() {
    to_list(List::incomplete);
    out_.end_array();
    out_.end_object();
    report_.put('\n');
}

} // namespace fiberrt
