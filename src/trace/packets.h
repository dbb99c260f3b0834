// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes a trace in Perfetto's format: a list of packets, each of them a track's description, the begin or the end of a
// slice, an instant, or a counter's value. All packets are of one sequence, so the writer writes a name only once.
//
// Packets need not be in the order of time; packets of one track and one time must be.
#pragma once

#include "trace/names.h"
#include "trace/out.h"
#include "trace/proto.h"

#include <stddef.h>
#include <stdint.h>

namespace fiberrt::trace {

// What a slice or an instant tells besides its name: X(name, text).
#define FIBERRT_TRACE_NOTES(X)  \
    X(fiber, "fiber")           \
    X(descriptor, "descriptor") \
    X(object, "object")         \
    X(target, "target")         \
    X(holder, "holder")         \
    X(dropped, "dropped")       \
    X(name, "name")

#define FIBERRT_NOTE(name, text) name,
enum class NoteName : uint8_t { FIBERRT_TRACE_NOTES(FIBERRT_NOTE) };
#undef FIBERRT_NOTE

struct Note {
    NoteName name;
    enum { number, pointer, handle, text } form; // a handle is a text, because SQL has only signed numbers
    uint64_t value;
    const char* string;
};

// The times of three clocks at one moment: by them Perfetto can show this trace together with those of other programs.
struct Clocks {
    int64_t monotonic;
    int64_t boot;
    int64_t real;
};

class Packets {
public:
    // Takes the descriptor, as Out::open. The times of all packets are of the monotonic clock.
    void open(int fd, const Clocks& clocks);
    void flush(); // writes what is in the buffer
    void close() {
        flush();
        out_.close();
    }
    Out& out() { return out_; }

    // Describe a track, before its first packet. A track of a process or a thread has its name there.
    void process(uint64_t track, int pid, const char* name);
    void thread(uint64_t track, int pid, int tid, const char* name);
    void track(uint64_t track, uint64_t parent, const char* name);
    void counter(uint64_t track, uint64_t parent, const char* name);

    // A slice of a track, which lies within the slices that the track has open. Two slices with the same flow have an
    // arrow between them.
    struct Slice {
        uint64_t track;
        int64_t time;
        const char* name;
        size_t name_length;
        const Note* notes;
        size_t note_count;
        const uint64_t* flows; // of the arrows that begin here
        size_t flow_count;
        uint64_t flow_here; // of the arrow that ends here; 0: none
    };
    void begin(const Slice& slice) { event(slice, 1); }
    void instant(const Slice& slice) { event(slice, 3); }
    void end(uint64_t track, int64_t time);
    void value(uint64_t track, int64_t time, int64_t value);

    static constexpr size_t flows_most = 32; // of one slice

private:
    static constexpr size_t packet_most = 4096;
    static constexpr size_t room = 1u << 16;

    uint8_t* packet_begin(Proto& proto, bool needs_names);
    void packet_end(Proto& proto, uint8_t* begun);
    template <class Fill>
    void describe(uint64_t track, Fill fill);
    void event(const Slice& slice, int type);
    uint32_t name_number(const char* name, size_t length, bool& fresh);
    void begin_sequence();
    uint8_t* reserve();

    Out out_;
    Clocks clocks_;
    bool fresh_sequence_;
    size_t used_;
    Names names_;
    uint8_t buffer_[room];
};

} // namespace fiberrt::trace
