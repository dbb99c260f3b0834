// SPDX-License-Identifier: MIT OR Apache-2.0
// The screen in use: keys, refreshes, and the questions to the process.
#pragma once

#include "place.h"
#include "view.h"

#include <stdint.h>
#include <string>

namespace top {

struct Options {
    int64_t interval_ns = 1'000'000'000;
    Sort sort = Sort::cpu;
    bool times = false; // let the process count times
};

// Takes one sample. False: error says why.
bool take_sample(const Place& place, const std::string& request, Sample& out, std::string& error);

// Shows the screen until the user quits. Returns false, and why, if there is no screen or nothing to show. A signal
// that ends the program ends it here, after the terminal has been restored.
bool show_screen(const Place& place, const Options& options, std::string& error);

} // namespace top
