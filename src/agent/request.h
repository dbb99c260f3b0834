// SPDX-License-Identifier: MIT OR Apache-2.0
// The requests that a client of the agent may make: one line of words, separated by single spaces.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// X(enumerator of Command, the words of the request). A request whose words end with a space has a fiber's id after
// them.
#define FIBERRT_REQUESTS(X)       \
    X(dump_text, "dump text")     \
    X(dump_json, "dump json")     \
    X(list, "list")               \
    X(fiber, "fiber ")            \
    X(stacks, "stacks")           \
    X(stacks_json, "stacks json") \
    X(metrics, "metrics")         \
    X(times_on, "times on")       \
    X(times_off, "times off")

enum class Command : uint8_t {
#define FIBERRT_REQUEST(name, words) name,
    FIBERRT_REQUESTS(FIBERRT_REQUEST)
#undef FIBERRT_REQUEST
};

struct Request {
    Command command;
    uint64_t id; // Command::fiber: the fiber's id
};

// The longest line of a request, without the newline.
constexpr size_t request_most = 63;

// Reads the request that stands in a line, without the newline. 0; -EINVAL: it is no request.
int parse_request(const char* line, size_t length, Request* out);

} // namespace fiberrt
