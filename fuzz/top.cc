// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `top`: texts that a process may send to fiberrt-top, in place of a dump's JSON. The two first bytes choose the
// size of the terminal and the screen; then there are up to two texts, separated by a zero. A text that is no dump is
// refused with a sentence. Of others every screen is drawn: each line has the width of the terminal, and no control
// character reaches it.
#include "check.h"

#include "columns.h"
#include "model.h"
#include "view.h"

#include <clocale>
#include <string>

namespace {

void check_lines(const std::vector<top::Line>& lines, int width) {
    for (const top::Line& line : lines) {
        FUZZ_CHECK_EQ(top::width_of(line.text), width);
        for (char c : line.text) FUZZ_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    }
}

void draw_all_screens(const top::Model& model, uint8_t size, uint8_t choice) {
    top::View view;
    int width = 1 + size % 16 * 11;
    int height = 1 + size / 16 * 3;
    view.sort = top::Sort(choice % 5);
    view.backwards = choice & 8;
    view.filter = choice & 16 ? "a" : "";
    view.clock = "12:34:56";
    for (top::Mode mode : {top::Mode::list, top::Mode::stack, top::Mode::help}) {
        view.mode = mode;
        std::vector<top::Line> lines = top::draw(model, view, width, height);
        FUZZ_CHECK_EQ(lines.size(), height);
        check_lines(lines, width);
    }
    check_lines(top::draw_all(model, view, width), width);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static bool begun = false;
    if (!begun) setlocale(LC_ALL, "C.UTF-8");
    begun = true;
    Input input(data, size);
    uint8_t terminal = input.byte();
    uint8_t choice = input.byte();
    top::Model model;
    for (int samples = 0; samples < 2 && !input.done(); samples++) {
        std::string text;
        for (uint8_t c; !input.done() && (c = input.byte());) text += char(c);
        top::Sample sample;
        std::string error;
        if (!top::read_sample(text, sample, error)) {
            FUZZ_CHECK(!error.empty());
            continue;
        }
        model.add(sample);
        model.add_frames(std::move(sample));
        draw_all_screens(model, terminal, choice);
    }
    return 0;
}
