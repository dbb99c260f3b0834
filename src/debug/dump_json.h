// SPDX-License-Identifier: MIT OR Apache-2.0
// The dump as JSON. docs/debugging.md describes its members.
#pragma once

#include "base/json.h"
#include "core/cord.h"
#include "debug/look.h"
#include "debug/stack_groups.h"
#include "debug/wait_graph.h"

namespace fiberrt {

class JsonDump {
public:
    JsonDump(Report& out, Symbols& symbols, int64_t now) : report_(out), out_(out), symbols_(symbols), now_(now) {}

    void begin(bool grouped);
    void cord(Cord* cord);
    void fiber(const Snapshot& seen, uintptr_t function, const Frames* frames);
    void group(const StackGroup& group, bool with_frames);
    void deadlock(const WaitCircle& circle);
    void circle(const WaitCircle& circle); // of waits, which may end
    void incomplete(const char* what);
    void end();

private:
    enum class List : uint8_t { cords, fibers, deadlocks, circles, incomplete };
    void to_list(List list);
    void ids_of(const char* key, const WaitCircle& circle);
    void frames(const Frames& frames);

    Report& report_;
    Json out_;
    Symbols& symbols_;
    int64_t now_;
    List list_ = List::cords;
    bool grouped_ = false;
};

} // namespace fiberrt
