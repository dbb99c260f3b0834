// SPDX-License-Identifier: MIT OR Apache-2.0
// No terminal: fiberrt-top was built without ncurses.
#include "screen.h"

namespace top {

bool Screen::open(std::string& error) {
    error = "this fiberrt-top was built without ncurses and has no screen; use --once";
    return is_open_;
}
void Screen::close() {}
int Screen::width() const { return 80; }
int Screen::height() const { return 24; }
void Screen::draw(const std::vector<Line>&) {}
int Screen::key() { return key_none; }

} // namespace top
