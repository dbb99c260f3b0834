// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks a trace, and prints how many tracks and slices it has, or, with "slices", each slice as a line of JSON:
// trace_check FILE [slices]
#include "trace_reader.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace {

void print_text(const std::string &text) {
    std::putchar('"');
    for (const char letter : text) {
        if (letter == '"' || letter == '\\') std::putchar('\\');
        std::putchar(letter); // traces have no control characters
    }
    std::putchar('"');
}

void print(const trace_reader::Trace &trace, const trace_reader::Slice &slice) {
    std::printf("{\"track\": \"0x%016" PRIx64 "\", \"of\": ", slice.track);
    print_text(trace.tracks.at(slice.track).name);
    std::printf(", \"name\": ");
    print_text(slice.name);
    std::printf(", \"begin\": %" PRId64 ", \"end\": ", slice.begin);
    slice.end == trace_reader::still_open ? std::printf("null") : std::printf("%" PRId64, slice.end);
    const char *before = ", \"notes\": {";
    for (const auto &[name, value] : slice.notes) {
        std::printf("%s", before);
        print_text(name);
        std::printf(": ");
        print_text(value);
        before = ", ";
    }
    std::printf(slice.notes.empty() ? "}\n" : "}}\n");
}

} // namespace

int main(int argc, char **argv) {
    const bool slices = argc == 3 && std::strcmp(argv[2], "slices") == 0;
    if (argc != 2 && !slices) return 2;
    const auto trace = trace_reader::Trace::of_file(argv[1]);
    for (const std::string &error : trace.errors) std::fprintf(stderr, "%s: %s\n", argv[1], error.c_str());
    if (slices) {
        for (const trace_reader::Slice &slice : trace.slices) print(trace, slice);
    } else {
        std::printf("%zu tracks, %zu slices, %zu errors\n", trace.tracks.size(), trace.slices.size(),
                    trace.errors.size());
    }
    return trace.errors.empty() && !trace.slices.empty() ? 0 : 1;
}
