// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces of the C library, with the places in Python code where fibers wait.
#pragma once

namespace fiberrt_python {

extern bool traces_places; // whether there is a trace that has the places of waits

// Begins a slice of the calling fiber. Its name is the place of the innermost frame outside this package.
void trace_place_begin();
void trace_place_end();

// While it lives, the trace tells where in Python code the calling fiber is.
class TracedPlace {
public:
    TracedPlace() : traced_(traces_places) {
        if (traced_) [[unlikely]]
            trace_place_begin();
    }
    ~TracedPlace() {
        if (traced_) [[unlikely]]
            trace_place_end(); // does nothing if the trace has ended, or another one runs
    }
    TracedPlace(const TracedPlace&) = delete;
    TracedPlace& operator=(const TracedPlace&) = delete;

private:
    bool traced_;
};

bool trace_runs();    // whether there is a trace
void traces_forked(); // in the child of a fork, which has no trace

} // namespace fiberrt_python
