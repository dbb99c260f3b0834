// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks a trace, and prints how many tracks and slices it has: trace_check FILE
#include "trace_reader.h"

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const auto trace = trace_reader::Trace::of_file(argv[1]);
    for (const std::string &error : trace.errors) std::fprintf(stderr, "%s: %s\n", argv[1], error.c_str());
    std::printf("%zu tracks, %zu slices, %zu errors\n", trace.tracks.size(), trace.slices.size(), trace.errors.size());
    return trace.errors.empty() && !trace.slices.empty() ? 0 : 1;
}
