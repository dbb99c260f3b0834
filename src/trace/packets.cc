// SPDX-License-Identifier: MIT OR Apache-2.0
// The numbers of messages and fields are those of perfetto/trace/trace_packet.proto and the files that it imports.
#include "trace/packets.h"

#include <string.h>

namespace fiberrt::trace {

namespace {

// Fields, by their message.
namespace trace_ {
constexpr uint32_t packet = 1;
}
namespace packet_ {
constexpr uint32_t clock_snapshot = 6, timestamp = 8, sequence_id = 10, track_event = 11, interned_data = 12,
                   sequence_flags = 13, timestamp_clock = 58, defaults = 59, track_descriptor = 60;
}
namespace clock_snapshot_ {
constexpr uint32_t clocks = 1;
}
namespace clock_ {
constexpr uint32_t id = 1, timestamp = 2;
}
namespace defaults_ {
constexpr uint32_t timestamp_clock = 58;
}
namespace descriptor_ {
constexpr uint32_t uuid = 1, name = 2, process = 3, thread = 4, parent = 5, counter = 8;
}
namespace process_ {
constexpr uint32_t pid = 1, name = 6;
}
namespace thread_ {
constexpr uint32_t pid = 1, tid = 2, name = 5;
}
namespace event_ {
constexpr uint32_t notes = 4, type = 9, name = 10, track = 11, counter_value = 30, flows = 47, flows_end = 48,
                   flows_before_2022 = 36, flows_end_before_2022 = 42; // a reader that knows the new ones ignores these
}
namespace interned_ {
constexpr uint32_t event_names = 2, note_names = 3;
}
namespace name_ {
constexpr uint32_t number = 1, text = 2;
}
namespace note_ {
constexpr uint32_t name = 1, unsigned_value = 3, text = 6, pointer = 7;
}

constexpr uint64_t slice_end = 2, counter_type = 4; // TrackEvent's types
constexpr uint64_t clock_real = 1, clock_monotonic = 3, clock_boot = 6;
constexpr uint64_t state_cleared = 1, needs_state = 2; // flags of a sequence
constexpr uint64_t the_sequence = 1;

constexpr const char* note_texts[] = {
#define FIBERRT_NOTE(name, text) text,
    FIBERRT_TRACE_NOTES(FIBERRT_NOTE)
#undef FIBERRT_NOTE
};

// A handle as dumps print it.
struct HandleText {
    explicit HandleText(uint64_t id) {
        text[0] = '0';
        text[1] = 'x';
        for (int i = 0; i < 16; i++) text[2 + i] = "0123456789abcdef"[id >> 4 * (15 - i) & 15];
    }
    char text[18];
};

void put_clock(Proto& proto, uint64_t clock, int64_t time) {
    uint8_t* begun = proto.begin(clock_snapshot_::clocks);
    proto.number(clock_::id, clock);
    proto.number(clock_::timestamp, uint64_t(time));
    proto.end(begun);
}

void put_note(Proto& proto, const Note& note) {
    uint8_t* begun = proto.begin(event_::notes);
    proto.number(note_::name, uint64_t(note.name) + 1);
    switch (note.form) {
    case Note::number: proto.number(note_::unsigned_value, note.value); break;
    case Note::pointer: proto.number(note_::pointer, note.value); break;
    case Note::handle: proto.text(note_::text, HandleText(note.value).text, sizeof HandleText::text); break;
    case Note::text: proto.text(note_::text, note.string); break;
    }
    proto.end(begun);
}

} // namespace

void Packets::open(int fd, const Clocks& clocks) {
    out_.open(fd);
    clocks_ = clocks;
    used_ = 0;
    fresh_sequence_ = true;
    names_.empty();
    Proto proto(reserve());
    uint8_t* packet = packet_begin(proto, false);
    uint8_t* snapshot = proto.begin(packet_::clock_snapshot);
    put_clock(proto, clock_monotonic, clocks.monotonic);
    put_clock(proto, clock_boot, clocks.boot);
    put_clock(proto, clock_real, clocks.real);
    proto.end(snapshot);
    packet_end(proto, packet);
}

void Packets::flush() {
    out_.write(buffer_, used_);
    used_ = 0;
}

// Where the next packet goes.
uint8_t* Packets::reserve() {
    if (room - used_ < packet_most) flush();
    return buffer_ + used_;
}

// Begins a packet. needs_names: it uses numbers of names.
uint8_t* Packets::packet_begin(Proto& proto, bool needs_names) {
    uint8_t* begun = proto.begin(trace_::packet);
    proto.number(packet_::sequence_id, the_sequence);
    if (needs_names) proto.number(packet_::sequence_flags, needs_state);
    return begun;
}

void Packets::packet_end(Proto& proto, uint8_t* begun) {
    proto.end(begun);
    used_ = size_t(proto.at() - buffer_);
}

// The packet that begins the sequence, and begins it anew when the table of names was full.
void Packets::begin_sequence() {
    Proto proto(reserve());
    uint8_t* packet = proto.begin(trace_::packet);
    proto.number(packet_::sequence_id, the_sequence);
    proto.number(packet_::sequence_flags, state_cleared);
    uint8_t* defaults = proto.begin(packet_::defaults);
    proto.number(defaults_::timestamp_clock, clock_monotonic);
    proto.end(defaults);
    uint8_t* interned = proto.begin(packet_::interned_data);
    for (size_t i = 0; i < sizeof note_texts / sizeof *note_texts; i++) {
        uint8_t* name = proto.begin(interned_::note_names);
        proto.number(name_::number, i + 1);
        proto.text(name_::text, note_texts[i]);
        proto.end(name);
    }
    proto.end(interned);
    packet_end(proto, packet);
    fresh_sequence_ = false;
}

// Writes the description of a track; fill() writes the fields after its number.
template <class Fill>
void Packets::describe(uint64_t track, Fill fill) {
    Proto proto(reserve());
    uint8_t* packet = packet_begin(proto, false);
    uint8_t* descriptor = proto.begin(packet_::track_descriptor);
    proto.number(descriptor_::uuid, track);
    fill(proto);
    proto.end(descriptor);
    packet_end(proto, packet);
}

void Packets::process(uint64_t track, int pid, const char* name) {
    describe(track, [&](Proto& proto) {
        uint8_t* process = proto.begin(descriptor_::process);
        proto.number(process_::pid, uint64_t(pid));
        proto.text(process_::name, name);
        proto.end(process);
    });
}

void Packets::thread(uint64_t track, int pid, int tid, const char* name) {
    describe(track, [&](Proto& proto) {
        uint8_t* thread = proto.begin(descriptor_::thread);
        proto.number(thread_::pid, uint64_t(pid));
        proto.number(thread_::tid, uint64_t(tid));
        proto.text(thread_::name, name);
        proto.end(thread);
    });
}

void Packets::track(uint64_t track, uint64_t parent, const char* name) {
    describe(track, [&](Proto& proto) {
        proto.number(descriptor_::parent, parent);
        proto.text(descriptor_::name, name);
    });
}

void Packets::counter(uint64_t track, uint64_t parent, const char* name) {
    describe(track, [&](Proto& proto) {
        proto.number(descriptor_::parent, parent);
        proto.text(descriptor_::name, name);
        proto.end(proto.begin(descriptor_::counter));
    });
}

uint32_t Packets::name_number(const char* name, size_t length, bool& fresh) {
    uint32_t number = names_.number_of(name, length, fresh);
    if (number) return number;
    names_.empty();
    fresh_sequence_ = true;
    return names_.number_of(name, length, fresh);
}

void Packets::event(const Slice& slice, int type) {
    bool fresh;
    uint32_t number = name_number(slice.name, slice.name_length, fresh);
    if (fresh_sequence_) begin_sequence();
    Proto proto(reserve());
    uint8_t* packet = packet_begin(proto, true);
    if (fresh) {
        uint8_t* interned = proto.begin(packet_::interned_data);
        uint8_t* name = proto.begin(interned_::event_names);
        proto.number(name_::number, number);
        proto.text(name_::text, slice.name, slice.name_length);
        proto.end(name);
        proto.end(interned);
    }
    proto.number(packet_::timestamp, uint64_t(slice.time));
    uint8_t* event = proto.begin(packet_::track_event);
    proto.number(event_::type, uint64_t(type));
    proto.number(event_::track, slice.track);
    proto.number(event_::name, number);
    for (size_t i = 0; i < slice.note_count; i++) put_note(proto, slice.notes[i]);
    for (size_t i = 0; i < slice.flow_count; i++) {
        proto.number(event_::flows_before_2022, slice.flows[i]);
        proto.fixed64(event_::flows, slice.flows[i]);
    }
    if (slice.flow_here) {
        proto.number(event_::flows_end_before_2022, slice.flow_here);
        proto.fixed64(event_::flows_end, slice.flow_here);
    }
    proto.end(event);
    packet_end(proto, packet);
}

void Packets::end(uint64_t track, int64_t time) {
    if (fresh_sequence_) begin_sequence();
    Proto proto(reserve());
    uint8_t* packet = packet_begin(proto, true);
    proto.number(packet_::timestamp, uint64_t(time));
    uint8_t* event = proto.begin(packet_::track_event);
    proto.number(event_::type, slice_end);
    proto.number(event_::track, track);
    proto.end(event);
    packet_end(proto, packet);
}

void Packets::value(uint64_t track, int64_t time, int64_t value) {
    if (fresh_sequence_) begin_sequence();
    Proto proto(reserve());
    uint8_t* packet = packet_begin(proto, true);
    proto.number(packet_::timestamp, uint64_t(time));
    uint8_t* event = proto.begin(packet_::track_event);
    proto.number(event_::type, counter_type);
    proto.number(event_::track, track);
    proto.number(event_::counter_value, uint64_t(value));
    proto.end(event);
    packet_end(proto, packet);
}

} // namespace fiberrt::trace
