// SPDX-License-Identifier: MIT OR Apache-2.0
// Text on its way to a descriptor, for people. It neither allocates nor takes a lock, and may be used in handlers of
// signals. Nobody has to hear it: a pipe without a reader is an error and raises no SIGPIPE, and no cancel of the thread
// (pthread_cancel) cuts it off.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

class Report {
public:
    // What the library says unasked waits so long for a descriptor that takes nothing, all in all.
    static constexpr int64_t unasked_ns = 1'000'000'000;
    static constexpr int64_t for_ever = INT64_MAX;

    explicit Report(int fd, int64_t patience_ns = for_ever) : fd_(fd), patience_ns_(patience_ns) {}

    void put(char c);
    void put(const char* text);
    void number(uint64_t n, unsigned base = 10, int digits = 1);
    void id(uint64_t id);
    // A name that the program gave: what would break the line is not shown.
    void name(const char* name);

    // A line that may yet be dropped begins: what is put from here on stays here, if it is not longer than this.
    static constexpr size_t droppable = 400;
    size_t begin() {
        if (used_ > sizeof text_ - droppable) flush();
        return used_;
    }
    void drop(size_t begun) { used_ = begun; } // coverage: race

    // A line for each frame of a backtrace.
    void frames(void* const* frames, int count);

    // 0, or why it could not be written; then the rest is not tried.
    int end() {
        flush();
        return error_;
    }

private:
    void flush();
    bool await_room();

    int fd_;
    int64_t patience_ns_; // what is left of it
    int error_ = 0;
    size_t used_ = 0;
    char text_[1024];
};

} // namespace fiberrt
