// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups fibers that have the same state and the same stack, for dumps of many fibers.
#pragma once

#include "base/arena.h"
#include "debug/code_frames.h"
#include "debug/look.h"
#include "debug/symbols.h"

#include <stdint.h>

namespace fiberrt {

struct Frame {
    uintptr_t pc;
    const Symbol* symbol; // null: there was no memory for it
};

// Why the frames of a stack end with the last one.
enum class FramesEnd : uint8_t {
    outermost, // it is the outermost frame
    lost,      // the unwinder cannot follow the stack further
    cut,       // there are more than a dump has room for
};

// The frames of a stack, innermost first, without the library's own frames inside the public call and outside the
// fiber's function.
struct Frames {
    const Frame* at;
    int count;
    FramesEnd end;
    const char* none = nullptr; // why there are none; null: there are some, or the state tells it
    CodeFrames code = {};       // of interpreted code
};

struct StackGroup {
    static constexpr int ids_most = 8;

    uint64_t hash;
    StackGroup* child[4];
    uint64_t count;   // of fibers
    int state;        // FIBER_NEW ...
    const char* wait; // why they wait or do not run, without numbers
    Frames frames;
    uint64_t ids[ids_most]; // of the first fibers
    StackGroup* next;       // in the list
};

// Whether this is the frame of a public function of the library. Of a fiber that waits in that function it is the
// innermost frame.
bool is_public_frame(const Frame& frame);

class StackGroups {
public:
    explicit StackGroups(Arena& arena) : arena_(arena) {}

    void add(const Snapshot& seen, const Frames& frames);

    // The groups as a list, the largest first.
    StackGroup* sorted();

    // Fibers that are in no group, because there was no memory.
    uint64_t left_out() const { return left_out_; }

private:
    Arena& arena_;
    StackGroup* root_ = nullptr;
    StackGroup* list_ = nullptr;
    uint64_t left_out_ = 0;
};

} // namespace fiberrt
