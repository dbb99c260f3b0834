// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the packets of a trace from the events that the cords have noted.
//
// A cord is a thread's track: a slice for each run of a fiber, and for each sleep. A fiber has a track below the
// process: slices for its runs, for the time in which it was runnable, and for its waits, by their reason. The
// program's own slices of a fiber have a track below that one.
#pragma once

#include "trace/event.h"
#include "trace/known.h"
#include "trace/packets.h"

#include <stdint.h>

namespace fiberrt::trace {

class Story {
public:
    // simulated: the process and the threads have the same numbers in each run.
    void open(int fd, const Clocks& clocks, bool simulated);
    // time: the event's, in nanoseconds.
    void take(KnownCord& cord, const Event& event, int64_t time, const char* text);
    // There are no more events of this cord: writes what its fibers do, as open slices. dropped: the cord's dropped
    // events in all.
    void finish(KnownCord& cord, uint64_t dropped);
    void close();   // ends the trace
    void discard(); // in a fork's child: forgets all, writes nothing, and closes its descriptor

    Packets& packets() { return packets_; }

private:
    void describe(KnownCord& cord, const Event& event, int64_t time, const char* name);
    void runs(KnownCord& cord, const Event& event, int64_t time);
    void parks(KnownCord& cord, const Event& event, int64_t time);
    void woken(KnownCord& cord, const Event& event, int64_t time);
    void ended(KnownCord& cord, const Event& event, int64_t time);
    void run_begun(KnownCord& cord, Known& fiber);
    void runnable_begun(Known& fiber);
    void phase_ends(KnownCord& cord, Known& fiber, int64_t time);
    void run_ends(KnownCord& cord, int64_t time);
    void after_run(Known& fiber, int64_t time);
    void wait_begins(Known& fiber, const Event& event, int64_t time);
    void all_end(KnownCord& cord, int64_t time);
    void drops(KnownCord& cord, int64_t time, uint64_t dropped);
    void span_begins(KnownCord& cord, const Event& event, int64_t time, const char* name);
    void span_ends(const Event& event, int64_t time);
    void value(const Event& event, int64_t time, const char* name);
    void counts(KnownCord& cord, const Event& event, int64_t time);
    void spans_end(Known& fiber, int64_t time);
    void slice_begins(KnownCord& cord, int64_t time, const char* name);
    void slice_ends(KnownCord& cord, int64_t time);
    Known* known(KnownCord& cord, uint64_t id, int64_t time);
    void forget(Known& fiber, int64_t time);
    void learn_name(Known& fiber, int64_t time, const char* name);
    const char* label(const Known& fiber);
    const char* name_of_function(uint64_t function);
    void track_of(Known& fiber);

    static constexpr size_t counters_most = 1024;
    static constexpr size_t label_most = 160;
    static constexpr size_t functions_most = 256;

    bool simulated_;
    uint64_t next_flow_;
    Packets packets_;
    KnownFibers fibers_;
    size_t counter_count_;
    uint64_t counters_[counters_most]; // tracks of the program's counters that are in the trace
    struct {
        uint64_t function;
        char name[label_most];
    } functions_[functions_most]; // names found, by a hash of the function
};

// A primitive's text in an event: its distance from a text of this library, since all these texts are in it.
int32_t wait_text_number(const char* text);

} // namespace fiberrt::trace
