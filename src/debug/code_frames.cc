// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls the program's readers of interpreted frames.
#include "debug/code_frames.h"

#include "base/copy_name.h"
#include "base/keep_errno.h"
#include "base/readable.h"
#include "debug/describe.h"

#include <string.h>

namespace fiberrt {

namespace {

struct InterpreterReader {
    char language[language_most];
    fiber_frames_reader_t read;
};

constinit InterpreterReader readers[FIBER_TAG_KIND_MAX + 1] = {}; // by kind; the lock of looks guards them

int64_t copy_for_reader(void* to, const void* from, size_t bytes) { return copy_readable(to, from, bytes); }

void read_of_snapshot(const Snapshot& seen, void* out) { read_code_frames(seen.tag, *static_cast<CodeFrames*>(out)); }

} // namespace

void frames_reader_set(unsigned kind, const char* language, fiber_frames_reader_t read) {
    InterpreterReader reader = {{}, read};
    if (read) copy_name(reader.language, sizeof reader.language, language);
    look_lock();
    readers[kind] = reader;
    look_unlock();
}

void read_code_frames(const fiber_tag_t& tag, CodeFrames& out) {
    const InterpreterReader& reader = readers[tag.kind];
    out.count = 0;
    memcpy(out.language, reader.language, sizeof out.language);
    out.missed = false;
    if (!reader.read) return;
    int count = reader.read(tag, copy_for_reader, out.frames, out.most);
    out.missed = count < 0;
    out.count = count < 0 ? 0 : count < out.most ? count : out.most;
    for (int i = 0; i < out.count; i++) {
        fiber_code_frame_t& frame = out.frames[i];
        frame.function[sizeof frame.function - 1] = frame.file[sizeof frame.file - 1] = '\0';
    }
}

void miss_code_frames(const fiber_tag_t& tag, CodeFrames& out) {
    look_lock();
    out.count = 0;
    memcpy(out.language, readers[tag.kind].language, sizeof out.language);
    out.missed = out.language[0];
    look_unlock();
}

void read_own_code_frames(const fiber_tag_t& tag, CodeFrames& out) {
    look_lock();
    read_code_frames(tag, out);
    look_unlock();
}

int code_frames_of(Fiber* fiber, fiber_t handle, fiber_code_frame_t* frames, int most) {
    KeepErrno keep;
    CodeFrames out = {frames, most, 0, false, {}};
    if (is_caller(fiber)) {
        read_own_code_frames({fiber->values.tag, fiber->extras.tag_kind}, out);
        return out.count;
    }
    Snapshot seen;
    if (int error = look(fiber, handle, seen, read_of_snapshot, &out)) return error;
    return seen.still ? out.count : -EBUSY;
}

} // namespace fiberrt
