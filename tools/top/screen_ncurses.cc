// SPDX-License-Identifier: MIT OR Apache-2.0
// The terminal by ncurses.
#include "screen.h"

#include <cstdio>
#include <cstdlib>

#define NCURSES_NOMACROS
#include <curses.h>

#include <unistd.h>

namespace top {

namespace {

enum Pair : short {
    pair_none,
    pair_title,
    pair_header,
    pair_dead_lock,
    pair_selected,
    pair_selected_dead_lock,
    pair_note
};

attr_t attribute_of(Style style) {
    bool colours = has_colors();
    switch (style) {
    case Style::plain: return A_NORMAL;
    case Style::title: return A_BOLD;
    case Style::header: return A_REVERSE;
    case Style::dead_lock: return colours ? attr_t(COLOR_PAIR(pair_dead_lock)) | A_BOLD : A_BOLD;
    case Style::selected: return colours ? attr_t(COLOR_PAIR(pair_selected)) : A_STANDOUT;
    case Style::selected_dead_lock:
        return colours ? attr_t(COLOR_PAIR(pair_selected_dead_lock)) | A_BOLD : A_STANDOUT | A_BOLD;
    case Style::note: return A_DIM;
    }
    return A_NORMAL;
}

void begin_colours() {
    if (!has_colors()) return;
    start_color();
    short ground = use_default_colors() == OK ? -1 : COLOR_BLACK;
    init_pair(pair_dead_lock, COLOR_RED, ground);
    init_pair(pair_selected, COLOR_BLACK, COLOR_CYAN);
    init_pair(pair_selected_dead_lock, COLOR_WHITE, COLOR_RED);
}

} // namespace

bool Screen::open(std::string& error) {
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        error = "the screen needs a terminal; use --once or --json";
        return false;
    }
    setenv("ESCDELAY", "25", 0); // milliseconds that decide whether Esc begins the sequence of another key
    if (!newterm(nullptr, stdout, stdin)) {
        const char* kind = getenv("TERM");
        error = std::string("the terminal ") + (kind ? kind : "without a TERM") + " is not known; use --once";
        return false;
    }
    is_open_ = true;
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    begin_colours();
    return true;
}

void Screen::close() {
    if (is_open_) endwin();
    is_open_ = false;
}

int Screen::width() const { return COLS; }
int Screen::height() const { return LINES; }

void Screen::draw(const std::vector<Line>& lines) {
    erase();
    for (int i = 0; i < LINES && i < int(lines.size()); i++) {
        const Line& line = lines[size_t(i)];
        attrset(int(attribute_of(line.style)));
        mvaddnstr(i, 0, line.text.c_str(), -1);
    }
    attrset(A_NORMAL);
    refresh();
}

int Screen::key() {
    int got = getch();
    switch (got) {
    case ERR: return key_none;
    case KEY_UP: return key_up;
    case KEY_DOWN: return key_down;
    case KEY_PPAGE: return key_page_up;
    case KEY_NPAGE: return key_page_down;
    case KEY_HOME: return key_home;
    case KEY_END: return key_end;
    case KEY_LEFT: return key_left;
    case KEY_ENTER:
    case '\r':
    case '\n': return key_enter;
    case 27: return key_escape;
    case KEY_BACKSPACE:
    case 127:
    case '\b': return key_backspace;
    case KEY_RESIZE: return key_resize;
    default: return got < 0x100 ? got : int(key_none);
    }
}

} // namespace top
