// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a trace as Perfetto's trace_processor does: sorts the events by time, and matches the begins and ends of slices on
// each track. Notes everything that is wrong with the trace in `errors`.
#ifndef FIBERRT_TESTS_TRACE_READER_H
#define FIBERRT_TESTS_TRACE_READER_H

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trace_reader {

// A message in protobuf's wire format.
struct Message {
    struct Field {
        uint32_t number;
        uint32_t type;
        uint64_t value = 0;     // types 0 and 1
        std::string bytes = {}; // type 2
    };
    std::vector<Field> fields;
    bool whole = true;

    explicit Message(const std::string &bytes) {
        for (size_t at = 0; at < bytes.size();) {
            const uint64_t tag = varint(bytes, at);
            Field field{uint32_t(tag >> 3), uint32_t(tag & 7)};
            if (field.type == 0) {
                field.value = varint(bytes, at);
            } else if (field.type == 1 && bytes.size() - at >= 8) {
                for (unsigned i = 0; i < 8; i++) field.value |= uint64_t(uint8_t(bytes[at++])) << 8 * i;
            } else if (field.type == 2) {
                const uint64_t length = varint(bytes, at);
                if (length > bytes.size() - at) whole = false;
                field.bytes = bytes.substr(at, whole ? length : 0);
                at += length;
            } else {
                whole = false;
            }
            if (!whole) return;
            fields.push_back(std::move(field));
        }
    }
    const Field *find(uint32_t number) const {
        for (const Field &field : fields)
            if (field.number == number) return &field;
        return nullptr;
    }
    uint64_t number(uint32_t number, uint64_t otherwise = 0) const {
        const Field *field = find(number);
        return field ? field->value : otherwise;
    }
    std::string text(uint32_t number) const {
        const Field *field = find(number);
        return field ? field->bytes : "";
    }
    template <class Visit>
    void each(uint32_t number, Visit visit) const {
        for (const Field &field : fields)
            if (field.number == number) visit(field);
    }

private:
    uint64_t varint(const std::string &bytes, size_t &at) {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 70; shift += 7) {
            if (at == bytes.size()) break;
            const auto byte = uint8_t(bytes[at++]);
            value |= uint64_t(byte & 0x7f) << shift;
            if (!(byte & 0x80)) return value;
        }
        whole = false;
        return 0;
    }
};

struct Track {
    enum Kind { unknown, plain, process, thread, counter } kind = unknown;
    uint64_t parent = 0;
    std::string name;
    int64_t pid = 0, tid = 0;
    std::vector<std::pair<int64_t, int64_t>> values; // counter: time, value
};

constexpr int64_t still_open = -1;

struct Slice {
    uint64_t track;
    std::string name;
    int64_t begin;
    int64_t end; // still_open: the trace does not have it
    size_t depth;
    std::map<std::string, std::string> notes; // numbers as decimals
    std::vector<uint64_t> flows, flow_ends;
};

class Trace {
public:
    explicit Trace(const std::string &bytes) {
        const Message all(bytes);
        if (!all.whole) wrong("the trace is cut off");
        for (const Message::Field &field : all.fields) {
            if (field.number != 1 || field.type != 2) {
                wrong("not a packet: field " + std::to_string(field.number));
                continue;
            }
            packet(Message(field.bytes));
        }
        replay();
        check_flows();
    }
    static Trace of_file(const std::string &path) {
        std::ifstream file(path, std::ios::binary);
        return Trace(std::string(std::istreambuf_iterator<char>(file), {}));
    }

    std::vector<std::string> errors;
    std::map<uint64_t, Track> tracks;
    std::vector<Slice> slices; // in the order of their begins; instants too
    std::map<uint64_t, int64_t> clocks;

    // The slices of tracks whose names begin so.
    std::vector<Slice> of(const std::string &track) const {
        std::vector<Slice> found;
        for (const Slice &slice : slices) {
            const std::string &name = tracks.at(slice.track).name;
            if (name.compare(0, track.size(), track) == 0) found.push_back(slice);
        }
        return found;
    }
    static std::vector<Slice> named(const std::vector<Slice> &some, const std::string &name) {
        std::vector<Slice> found;
        for (const Slice &slice : some)
            if (slice.name == name) found.push_back(slice);
        return found;
    }
    const Track *counter(const std::string &name) const {
        for (const auto &[uuid, track] : tracks)
            if (track.kind == Track::counter && track.name == name) return &track;
        return nullptr;
    }
    // The slice in which the arrow begins that ends in this slice; null: there is none.
    const Slice *woken_by(const Slice &slice) const {
        if (slice.flow_ends.empty()) return nullptr;
        for (const Slice &other : slices)
            if (std::count(other.flows.begin(), other.flows.end(), slice.flow_ends[0])) return &other;
        return nullptr;
    }

private:
    struct Event {
        int64_t time;
        uint64_t type, track;
        std::string name;
        std::map<std::string, std::string> notes;
        std::vector<uint64_t> flows, flow_ends;
        int64_t value;
    };
    static constexpr uint64_t begins = 1, ends = 2, instant = 3, counts = 4;

    void wrong(const std::string &what) {
        if (errors.size() < 20) errors.push_back(what);
    }

    void packet(const Message &packet) {
        if (!packet.whole) return wrong("a packet is cut off");
        if (packet.number(10) != 1) wrong("a packet of another sequence");
        if (packet.find(6)) {
            Message(packet.text(6)).each(1, [&](const Message::Field &clock) {
                const Message one(clock.bytes);
                clocks[one.number(1)] = int64_t(one.number(2));
            });
        }
        const uint64_t flags = packet.number(13);
        if (flags & 1) {
            names_.clear();
            note_names_.clear();
            clock_ = 0;
            begun_ = true;
        }
        if (packet.find(59)) clock_ = Message(packet.text(59)).number(58);
        if (packet.find(12)) interned(Message(packet.text(12)));
        if (packet.find(60)) descriptor(Message(packet.text(60)));
        if (packet.find(11)) {
            if (!(flags & 2) || !begun_) wrong("an event that does not say that it needs the names");
            event(packet, Message(packet.text(11)));
        }
    }
    void interned(const Message &data) {
        for (auto [field, table] : {std::pair{2u, &names_}, {3u, &note_names_}}) {
            data.each(field, [&, table = table](const Message::Field &entry) {
                const Message name(entry.bytes);
                if (!table->emplace(name.number(1), name.text(2)).second) wrong("a name's number is given twice");
            });
        }
    }
    void descriptor(const Message &descriptor) {
        const uint64_t uuid = descriptor.number(1);
        Track &track = tracks[uuid];
        if (track.kind != Track::unknown && track.kind != Track::counter) wrong("a track is described twice");
        track.kind = Track::plain;
        track.parent = descriptor.number(5);
        track.name = descriptor.text(2);
        if (track.parent && !tracks.count(track.parent)) wrong("the parent of " + track.name + " is not described yet");
        if (descriptor.find(3)) {
            const Message process(descriptor.text(3));
            track.kind = Track::process;
            track.pid = int64_t(process.number(1));
            track.name = process.text(6);
        } else if (descriptor.find(4)) {
            const Message thread(descriptor.text(4));
            track.kind = Track::thread;
            track.pid = int64_t(thread.number(1));
            track.tid = int64_t(thread.number(2));
            track.name = thread.text(5);
        } else if (descriptor.find(8)) {
            track.kind = Track::counter;
        }
    }
    void event(const Message &packet, const Message &event) {
        if (clock_ != 3) wrong("an event without the monotonic clock");
        Event one = {int64_t(packet.number(8)), event.number(9), event.number(11), "", {}, {}, {},
                     int64_t(event.number(30))};
        if (!tracks.count(one.track)) return wrong("an event of a track that is not described yet");
        if (one.type == begins || one.type == instant) {
            const auto name = names_.find(event.number(10));
            if (name == names_.end()) return wrong("an event with an unknown name");
            one.name = name->second;
        }
        event.each(4, [&](const Message::Field &field) {
            const Message note(field.bytes);
            const auto name = note_names_.find(note.number(1));
            if (name == note_names_.end()) return wrong("a note with an unknown name");
            one.notes[name->second] =
                note.find(6) ? note.text(6) : std::to_string(note.find(7) ? note.number(7) : note.number(3));
        });
        event.each(47, [&](const Message::Field &flow) { one.flows.push_back(flow.value); });
        event.each(48, [&](const Message::Field &flow) { one.flow_ends.push_back(flow.value); });
        events_.push_back(std::move(one));
    }
    void replay() {
        std::stable_sort(events_.begin(), events_.end(),
                         [](const Event &a, const Event &b) { return a.time < b.time; });
        std::map<uint64_t, std::vector<size_t>> open;
        for (const Event &event : events_) {
            std::vector<size_t> &stack = open[event.track];
            const bool is_counter = tracks[event.track].kind == Track::counter;
            if (is_counter != (event.type == counts)) wrong("an event of another kind than its track: " + event.name);
            if (event.type == counts) {
                tracks[event.track].values.emplace_back(event.time, event.value);
            } else if (event.type == ends) {
                if (stack.empty()) {
                    wrong("an end without a begin on " + tracks[event.track].name + " at " +
                          std::to_string(event.time));
                } else {
                    slices[stack.back()].end = event.time;
                    stack.pop_back();
                }
            } else {
                const int64_t end = event.type == instant ? event.time : still_open;
                slices.push_back({event.track, event.name, event.time, end, stack.size(), event.notes, event.flows,
                                  event.flow_ends});
                if (event.type == begins) stack.push_back(slices.size() - 1);
            }
        }
    }
    void check_flows() {
        std::map<uint64_t, int64_t> begun;
        for (const Slice &slice : slices) {
            for (uint64_t flow : slice.flows)
                if (!begun.emplace(flow, slice.begin).second) wrong("an arrow begins twice");
        }
        std::set<uint64_t> ended;
        for (const Slice &slice : slices) {
            for (uint64_t flow : slice.flow_ends) {
                const auto from = begun.find(flow);
                if (from == begun.end()) {
                    wrong("an arrow ends that has not begun, on " + tracks[slice.track].name + " at " +
                          std::to_string(slice.begin));
                } else if (from->second > slice.begin) {
                    wrong("an arrow ends before it begins");
                }
                if (!ended.insert(flow).second) wrong("an arrow ends twice");
            }
        }
    }

    std::map<uint64_t, std::string> names_, note_names_;
    uint64_t clock_ = 0;
    bool begun_ = false;
    std::vector<Event> events_;
};

} // namespace trace_reader

#endif
