// SPDX-License-Identifier: MIT OR Apache-2.0
// What a process told about cords and fibers at one moment: the JSON of fiber_dump_as, as the agent sends it.
#pragma once

#include <optional>
#include <stdint.h>
#include <string>
#include <string_view>
#include <vector>

namespace top {

struct Frame {
    std::string language; // of interpreted code; empty: a frame of the processor's stack
    std::string pc;       // or the line of interpreted code
    std::string function; // empty: not known
    std::string object;   // or the file of interpreted code
    uint64_t offset = 0;
};

// The times of a fiber, which a process has only while accounting is on.
struct Times {
    uint64_t run_ns = 0;
    uint64_t runnable_ns = 0;
    uint64_t wait_ns = 0;
    uint64_t turns = 0;
};

struct Fiber {
    uint64_t id = 0;
    std::string name;
    uint64_t cord = 0;
    std::string state;
    bool still = false; // the members about the wait are known
    bool main_flow = false;
    bool cancelled = false;
    std::string wait;
    uint64_t wait_fiber = 0;
    std::optional<uint64_t> wait_left_ns;
    uint64_t parent = 0;
    std::string function;
    uint64_t stack_size = 0;
    uint64_t stack_used = 0;
    uint64_t stack_touched = 0;
    std::optional<Times> times;
    std::vector<Frame> frames;
    bool frames_complete = true;
};

struct Cord {
    uint64_t id = 0;
    std::string name;
    uint64_t thread = 0;
    bool ended = false;
    bool closing = false;
    uint64_t switches = 0;
    uint64_t polls = 0;
    uint64_t blocking_polls = 0;
    uint64_t ops = 0;
    uint64_t ops_in_flight = 0;
    uint64_t fibers = 0;
    uint64_t stacks = 0;
    uint64_t stack_bytes = 0;
    std::optional<uint64_t> elapsed_ns; // since it began to count times; without a value: it does not
    std::optional<uint64_t> cpu_ns;     // what the kernel counts for the thread; not in the JSON
};

struct Sample {
    std::string version;
    uint64_t pid = 0;
    int64_t now_ns = 0;
    std::vector<Cord> cords;
    std::vector<Fiber> fibers;
    std::vector<std::vector<uint64_t>> dead_locks;
    std::vector<std::string> incomplete; // sentences that say what the dump lacks
};

// Reads the JSON. False: `error` says why it is no such text.
bool read_sample(std::string_view json, Sample& out, std::string& error);

} // namespace top
