// SPDX-License-Identifier: MIT OR Apache-2.0
// The dump as text for people.
#pragma once

#include "base/report.h"
#include "core/cord.h"
#include "debug/look.h"
#include "debug/stack_groups.h"
#include "debug/wait_graph.h"

namespace fiberrt {

class TextDump {
public:
    TextDump(Report& out, Symbols& symbols, int64_t now) : out_(out), symbols_(symbols), now_(now) {}

    void begin(bool grouped);
    void cord(Cord* cord);
    void fiber(const Snapshot& seen, uintptr_t function, const Frames* frames);
    void group(const StackGroup& group, bool with_frames);
    void deadlock(const WaitCircle& circle);
    void circle(const WaitCircle& circle); // of waits, which may end
    void incomplete(const char* what);
    void end();

private:
    Report& out_;
    Symbols& symbols_;
    int64_t now_;
};

} // namespace fiberrt
