// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes text for people to a descriptor. Neither allocates nor takes a lock, so signal handlers may use it. A pipe
// without a reader is an error and raises no SIGPIPE, and a cancel of the thread (pthread_cancel) does not cut the text
// off.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

class Report {
public:
    // How long a report that the program has not asked for waits, in all, for a descriptor that takes nothing.
    static constexpr int64_t unasked_ns = 1'000'000'000;
    static constexpr int64_t for_ever = INT64_MAX;

    explicit Report(int fd, int64_t timeout_ns = for_ever) : fd_(fd), timeout_ns_(timeout_ns) {}

    void put(char c);
    void put(const char* text);
    void number(uint64_t n, unsigned base = 10, int digits = 1);
    void id(uint64_t id);
    // Puts a name that the program gave, in quotes; control characters become '?'.
    void name(const char* name);

    // Moves the text out of the buffer instead of writing it, as a C string. Cuts text that has no room.
    void take(char* out, size_t size);

    // Puts a line for each frame of a backtrace.
    void frames(void* const* frames, int count);

    // Writes the rest. 0, or why the text could not be written; after an error nothing more is written.
    int end() {
        flush();
        return error_;
    }

private:
    void frame(void* address);
    void flush();
    bool await_room();

    int fd_;
    int64_t timeout_ns_; // the time left to wait
    int error_ = 0;
    size_t used_ = 0;
    char text_[1024];
};

} // namespace fiberrt
