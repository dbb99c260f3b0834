// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces of the C library, with the places in Python code where fibers wait.
#pragma once

namespace fiberrt_python {

// The number of the present trace, if it has the places of waits; else 0. Each trace has another number.
extern unsigned trace_with_places;

// Begins a slice of the calling fiber. Its name is the place of the innermost frame outside this package.
void trace_place_begin();
void trace_place_end();

// While it lives, the trace tells where in Python code the calling fiber is.
class TracedPlace {
public:
    TracedPlace() : trace_(trace_with_places) {
        if (trace_) [[unlikely]]
            trace_place_begin();
    }
    ~TracedPlace() {
        if (trace_ && trace_ == trace_with_places) [[unlikely]]
            trace_place_end();
    }
    TracedPlace(const TracedPlace&) = delete;
    TracedPlace& operator=(const TracedPlace&) = delete;

private:
    unsigned trace_;
};

bool trace_runs();    // whether there is a trace
void traces_forked(); // in the child of a fork, which has no trace

} // namespace fiberrt_python
