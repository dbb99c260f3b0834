// SPDX-License-Identifier: MIT OR Apache-2.0
// The screens as lines of text. This part knows neither the terminal nor the process.
#pragma once

#include "model.h"

#include <string>
#include <vector>

namespace top {

enum class Style { plain, title, header, dead_lock, selected, selected_dead_lock, note };

struct Line {
    std::string text;
    Style style = Style::plain;
};

enum class Mode { list, stack, help };

// What the user has chosen.
struct View {
    Mode mode = Mode::list;
    Sort sort = Sort::cpu;
    bool backwards = false;
    bool paused = false;
    bool live = true; // there is a process; false: a file
    std::string filter;
    bool typing = false;   // the keys go into the filter
    bool chosen = false;   // the user has selected a fiber; else the first one is
    uint64_t selected = 0; // the id of the fiber; of the stack, too
    size_t row = 0;        // and its place in the list
    size_t scroll = 0;     // the first fiber, or the first line of the stack, on the screen
    std::string note;      // a message at the bottom; empty: the keys
    std::string clock;     // the time of day, in the title
};

// The whole screen: `height` lines of `width` columns, at least 1 of 20. May correct view.row and view.scroll.
std::vector<Line> draw(const Model& model, View& view, int width, int height);

// The list with all fibers, for --once.
std::vector<Line> draw_all(const Model& model, View& view, int width);

} // namespace top
