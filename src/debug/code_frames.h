// SPDX-License-Identifier: MIT OR Apache-2.0
// The frames that an interpreter has on a fiber, such as Python's. The library does not know interpreters: the program
// sets a function that reads the frames of fibers with a certain kind of tag, and a look calls this function.
#pragma once

#include "debug/look.h"
#include "fiberrt.h"

namespace fiberrt {

constexpr size_t language_most = 16; // bytes of a language's name, with its NUL

struct CodeFrames {
    fiber_code_frame_t* frames; // innermost first
    int most;                   // room in frames
    int count;
    bool missed;                  // it may have frames, but they could not be read
    char language[language_most]; // empty: the fiber has no tag with a reader
};

// Sets the reader for tags of this kind; null removes it. language: shorter than language_most.
void frames_reader_set(unsigned kind, const char* language, fiber_frames_reader_t read);

// Reads the frames of a fiber during a look: call it only in a LookMore. As with all results of a LookMore, the frames
// count only if the fiber has stood still.
void read_code_frames(const fiber_tag_t& tag, CodeFrames& out);

// For a fiber that has not stood still.
void miss_code_frames(const fiber_tag_t& tag, CodeFrames& out);

// Reads the frames of the calling fiber.
void read_own_code_frames(const fiber_tag_t& tag, CodeFrames& out);

// Reads the frames of any fiber. Returns how many; -EBUSY: it runs, or gives no chance to look; -ESRCH.
int code_frames_of(Fiber* fiber, fiber_t handle, fiber_code_frame_t* frames, int most);

} // namespace fiberrt
