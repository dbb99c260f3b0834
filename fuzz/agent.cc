// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `agent`: lines of clients, to the parser of requests of src/agent. Compared with a list of all requests. An input
// has several lines.
#include "check.h"

#include "agent/request.h"

#include <errno.h>
#include <string>
#include <string_view>

namespace {

// The number after "fiber ", if it is one of 64 bits; else -1.
__int128 number_in(std::string_view digits) {
    __int128 number = 0;
    for (char digit : digits) {
        if (digit < '0' || digit > '9' || number > UINT64_MAX) return -1;
        number = number * 10 + (digit - '0');
    }
    return digits.empty() || number > UINT64_MAX ? -1 : number;
}

int expected(std::string_view line, fiberrt::Request* out) {
    using fiberrt::Command;
    constexpr std::string_view fiber = "fiber ";
    if (line.size() > fiberrt::request_most) return -EINVAL;
    constexpr std::pair<std::string_view, Command> all[] = {
        {"dump text", Command::dump_text}, {"dump json", Command::dump_json},     {"list", Command::list},
        {"stacks", Command::stacks},       {"stacks json", Command::stacks_json}, {"metrics", Command::metrics},
        {"times on", Command::times_on},   {"times off", Command::times_off}};
    for (const auto& [words, command] : all) {
        if (line == words) {
            *out = {command, 0};
            return 0;
        }
    }
    __int128 id = line.starts_with(fiber) ? number_in(line.substr(fiber.size())) : -1;
    if (id < 0) return -EINVAL;
    *out = {Command::fiber, uint64_t(id)};
    return 0;
}

void try_line(const std::string& line) {
    // On the heap, without a zero behind it: AddressSanitizer sees a read beyond the end.
    std::string exact = line;
    exact.shrink_to_fit();
    fiberrt::Request found = {}, wanted = {};
    int result = fiberrt::parse_request(exact.data(), exact.size(), &found);
    FUZZ_CHECK_EQ(result, expected(line, &wanted));
    if (result == 0) FUZZ_CHECK(found.command == wanted.command && found.id == wanted.id);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string line;
    for (Input input(data, size); !input.done();) {
        char c = char(input.byte());
        if (c != '\n') {
            line += c;
            continue;
        }
        try_line(line);
        line.clear();
    }
    try_line(line);
    return 0;
}
