// SPDX-License-Identifier: MIT OR Apache-2.0
// The terminal: screen_ncurses.cc, or screen_none.cc where fiberrt-top was built without ncurses.
#pragma once

#include "view.h"

#include <string>
#include <vector>

namespace top {

enum Key : int { // others are characters
    key_none = 0,
    key_up = 0x1000,
    key_down,
    key_page_up,
    key_page_down,
    key_home,
    key_end,
    key_left,
    key_enter,
    key_escape,
    key_backspace,
    key_resize,
    key_gone, // the terminal has gone
};

// One at a time. close() gives the terminal back as it was.
class Screen {
public:
    Screen() = default;
    ~Screen() { close(); }
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    bool open(std::string& error);
    void close();
    int width() const;
    int height() const;
    void draw(const std::vector<Line>& lines);
    int key(); // does not wait; key_none: there is no key

private:
    bool is_open_ = false;
};

} // namespace top
