// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sample.h"

#include "json_reader.h"

#include <type_traits>

namespace top {

namespace {

// A member of an object and its place. The readers below skip all other members, so a newer process may tell more.
template <class Record>
struct Member {
    const char* key;
    void (*read)(JsonReader& in, Record& out);
};

template <auto place, class Record>
void read_member(JsonReader& in, Record& out) {
    auto& member = out.*place;
    if constexpr (requires { member.reset(); }) {
        typename std::remove_reference_t<decltype(member)>::value_type value{};
        if (!in.read_null() && in.read(value)) member = value;
    } else {
        if (!in.read_null()) in.read(member);
    }
}

template <class Record, size_t count>
void read_object(JsonReader& in, Record& out, const Member<Record> (&members)[count],
                 bool (*other)(JsonReader& in, Record& out, const std::string& key) = nullptr) {
    std::string key;
    if (!in.begin_object()) return;
    while (in.next_member(key)) {
        bool known = false;
        for (const Member<Record>& member : members) {
            if (key != member.key) continue;
            member.read(in, out);
            known = true;
            break;
        }
        if (!known && !(other && other(in, out, key))) in.skip();
    }
}

template <class Element>
void read_list(JsonReader& in, std::vector<Element>& out, void (*read)(JsonReader& in, Element& out)) {
    if (!in.begin_array()) return;
    while (in.next_element()) read(in, out.emplace_back());
}

void read_frame(JsonReader& in, Frame& out) {
    static constexpr Member<Frame> members[] = {
        {"pc", read_member<&Frame::pc, Frame>},
        {"symbol", read_member<&Frame::function, Frame>},
        {"offset", read_member<&Frame::offset, Frame>},
        {"object", read_member<&Frame::object, Frame>},
    };
    read_object(in, out, members);
}

void read_code_frame(JsonReader& in, Frame& out) {
    static constexpr Member<Frame> members[] = {
        {"line",
         [](JsonReader& from, Frame& frame) {
             uint64_t line = 0;
             if (!from.read_null() && from.read(line)) frame.pc = std::to_string(line);
         }},
        {"function", read_member<&Frame::function, Frame>},
        {"file", read_member<&Frame::object, Frame>},
    };
    read_object(in, out, members);
}

template <uint64_t Times::*place>
void read_time(JsonReader& in, Fiber& out) {
    uint64_t value = 0;
    if (in.read_null() || !in.read(value)) return;
    if (!out.times) out.times.emplace();
    (*out.times).*place = value;
}

// Frames of interpreted code stand in front of the others: "python_frames", say.
bool read_other_of_fiber(JsonReader& in, Fiber& out, const std::string& key) {
    constexpr std::string_view end = "_frames";
    if (key.size() <= end.size() || !key.ends_with(end) || in.kind() != '[') return false;
    std::vector<Frame> frames;
    read_list(in, frames, read_code_frame);
    for (Frame& frame : frames) frame.language = key.substr(0, key.size() - end.size());
    out.frames.insert(out.frames.begin(), frames.begin(), frames.end());
    return true;
}

void read_fiber(JsonReader& in, Fiber& out) {
    static constexpr Member<Fiber> members[] = {
        {"id", read_member<&Fiber::id, Fiber>},
        {"name", read_member<&Fiber::name, Fiber>},
        {"cord", read_member<&Fiber::cord, Fiber>},
        {"state", read_member<&Fiber::state, Fiber>},
        {"still", read_member<&Fiber::still, Fiber>},
        {"main_flow", read_member<&Fiber::main_flow, Fiber>},
        {"cancelled", read_member<&Fiber::cancelled, Fiber>},
        {"wait", read_member<&Fiber::wait, Fiber>},
        {"wait_fiber", read_member<&Fiber::wait_fiber, Fiber>},
        {"wait_left_ns", read_member<&Fiber::wait_left_ns, Fiber>},
        {"parent", read_member<&Fiber::parent, Fiber>},
        {"function_name", read_member<&Fiber::function, Fiber>},
        {"stack_size", read_member<&Fiber::stack_size, Fiber>},
        {"stack_used", read_member<&Fiber::stack_used, Fiber>},
        {"stack_touched", read_member<&Fiber::stack_touched, Fiber>},
        {"frames", [](JsonReader& from, Fiber& fiber) { read_list(from, fiber.frames, read_frame); }},
        {"frames_complete", read_member<&Fiber::frames_complete, Fiber>},
        {"run_ns", read_time<&Times::run_ns>},
        {"runnable_ns", read_time<&Times::runnable_ns>},
        {"wait_ns", read_time<&Times::wait_ns>},
        {"turns", read_time<&Times::turns>},
    };
    read_object(in, out, members, read_other_of_fiber);
}

void read_cord(JsonReader& in, Cord& out) {
    static constexpr Member<Cord> members[] = {
        {"id", read_member<&Cord::id, Cord>},
        {"name", read_member<&Cord::name, Cord>},
        {"thread", read_member<&Cord::thread, Cord>},
        {"ended", read_member<&Cord::ended, Cord>},
        {"closing", read_member<&Cord::closing, Cord>},
        {"switches", read_member<&Cord::switches, Cord>},
        {"polls", read_member<&Cord::polls, Cord>},
        {"blocking_polls", read_member<&Cord::blocking_polls, Cord>},
        {"ops", read_member<&Cord::ops, Cord>},
        {"ops_in_flight", read_member<&Cord::ops_in_flight, Cord>},
        {"fibers", read_member<&Cord::fibers, Cord>},
        {"stacks", read_member<&Cord::stacks, Cord>},
        {"stack_bytes", read_member<&Cord::stack_bytes, Cord>},
        {"elapsed_ns", read_member<&Cord::elapsed_ns, Cord>},
    };
    read_object(in, out, members);
}

void read_id(JsonReader& in, uint64_t& out) { in.read(out); }
void read_text(JsonReader& in, std::string& out) { in.read(out); }

} // namespace

bool read_sample(std::string_view json, Sample& out, std::string& error) {
    static constexpr Member<Sample> members[] = {
        {"fiberrt", read_member<&Sample::version, Sample>},
        {"pid", read_member<&Sample::pid, Sample>},
        {"now_ns", read_member<&Sample::now_ns, Sample>},
        {"cords", [](JsonReader& in, Sample& sample) { read_list(in, sample.cords, read_cord); }},
        {"fibers", [](JsonReader& in, Sample& sample) { read_list(in, sample.fibers, read_fiber); }},
        {"deadlocks",
         [](JsonReader& in, Sample& sample) {
             read_list<std::vector<uint64_t>>(in, sample.dead_locks, [](JsonReader& list, std::vector<uint64_t>& ids) {
                 read_list(list, ids, read_id);
             });
         }},
        {"incomplete", [](JsonReader& in, Sample& sample) { read_list(in, sample.incomplete, read_text); }},
    };
    out = {};
    JsonReader in(json);
    read_object(in, out, members);
    if (!in.at_end()) {
        bool cut = in.position() >= json.size();
        error = cut ? "the JSON is cut off" : "no JSON at byte " + std::to_string(in.position());
        return false;
    }
    if (out.version.empty()) {
        error = "the JSON is not a dump of libfiberrt";
        return false;
    }
    return true;
}

} // namespace top
