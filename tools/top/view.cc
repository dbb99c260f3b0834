// SPDX-License-Identifier: MIT OR Apache-2.0
#include "view.h"

#include "columns.h"

#include <algorithm>

namespace top {

namespace {

struct Column {
    const char* title;
    int width;
    bool right;
};

std::string row(const std::vector<Column>& columns, const std::vector<std::string>& values, int width) {
    std::string out;
    int used = 0;
    for (size_t i = 0; i < columns.size() && used < width; i++) {
        bool last = i + 1 == columns.size();
        int room = std::min(last ? width - used : columns[i].width, width - used);
        out += fit(values[i], room, columns[i].right);
        used += room;
        if (used < width && !last) {
            out += ' ';
            used++;
        }
    }
    return out;
}

std::string titles(const std::vector<Column>& columns, int width) {
    std::vector<std::string> names;
    for (const Column& column : columns) names.push_back(column.title);
    return row(columns, names, width);
}

std::string number_or_none(const std::optional<double>& value) { return value ? short_number(*value) : "-"; }

std::string percent_or_none(const std::optional<double>& value) {
    if (!value) return "-";
    char text[16];
    snprintf(text, sizeof text, "%.1f", *value);
    return text;
}

std::string plural(size_t count, const char* one, const char* many) {
    return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

const char* text_of(Sort sort) {
    switch (sort) {
    case Sort::cpu: return "CPU";
    case Sort::waits: return "waits";
    case Sort::stack: return "stack";
    case Sort::name: return "name";
    case Sort::id: return "number";
    }
    return "";
}

// ---- The head: the process, its cords, its deadlocks

void put_head(const Model& model, const View& view, int width, std::vector<Line>& out) {
    const Sample& sample = model.sample();
    std::string left = "fiberrt-top  process " + std::to_string(sample.pid) + ", fiberrt " + sample.version;
    if (view.paused) left += ", paused";
    int room = width - int(view.clock.size()) - 1;
    out.push_back({room > 0 ? fit(left, room) + ' ' + view.clock : fit(left, width), Style::title});
    size_t waiting = 0;
    size_t runnable = 0;
    uint64_t touched = 0;
    for (const Fiber& fiber : sample.fibers) {
        waiting += fiber.state == "waiting";
        runnable += fiber.state == "runnable" || fiber.state == "running";
        touched += fiber.stack_touched;
    }
    std::string text = plural(sample.fibers.size(), "fiber", "fibers") + ": " + std::to_string(waiting) + " waiting, " +
                       std::to_string(runnable) + " runnable; " + short_bytes(touched) + " of stacks; sorted by " +
                       text_of(view.sort) + (view.backwards ? ", backwards" : "");
    if (!view.filter.empty()) text += "; with \"" + view.filter + "\"";
    out.push_back({fit(text, width)});
}

void put_cords(const Model& model, int width, size_t most, std::vector<Line>& out) {
    const std::vector<Column> columns = {{"CORD", 15, false},   {"THREAD", 8, true}, {"CPU%", 5, true},
                                         {"SWITCH/S", 8, true}, {"POLL/S", 7, true}, {"OPS/S", 7, true},
                                         {"FIBERS", 7, true},   {"STACKS", 7, true}, {"", 1, false}};
    const auto& cords = model.sample().cords;
    out.push_back({titles(columns, width), Style::header});
    size_t shown = cords.size() <= most ? cords.size() : most > 1 ? most - 1 : 0;
    for (size_t i = 0; i < shown; i++) {
        const Cord& cord = cords[i];
        CordRates rates = model.rates(cord);
        std::string state = cord.ended ? "ended" : cord.closing ? "shut down" : "";
        out.push_back({row(columns,
                           {model.name_of_cord(cord.id), std::to_string(cord.thread), percent_or_none(rates.cpu),
                            number_or_none(rates.switches), number_or_none(rates.polls), number_or_none(rates.ops),
                            std::to_string(cord.fibers), short_bytes(cord.stack_bytes), state},
                           width)});
    }
    if (shown < cords.size()) {
        out.push_back({fit("  and " + plural(cords.size() - shown, "cord", "cords") + " more", width), Style::note});
    }
}

void put_dead_locks(const Model& model, int width, size_t most, std::vector<Line>& out) {
    const auto& circles = model.sample().dead_locks;
    for (size_t i = 0; i < circles.size() && i < most; i++) {
        std::string text = circles.size() > most && i + 1 == most
                               ? "DEADLOCKS: " + std::to_string(circles.size() - i) + " more"
                               : "DEADLOCK:";
        if (text.ends_with(':')) {
            for (uint64_t id : circles[i]) text += ' ' + model.name_of_fiber(id) + " ->";
            text += ' ' + (circles[i].empty() ? "" : model.name_of_fiber(circles[i][0]));
        }
        out.push_back({fit(text, width), Style::dead_lock});
    }
    for (const std::string& text : model.sample().incomplete)
        out.push_back({fit("Incomplete: " + text, width), Style::note});
}

// ---- The list of fibers

std::vector<Column> fiber_columns(int width) {
    std::vector<Column> columns = {{"FIBER", 6, true}, {"NAME", width >= 110 ? 28 : 17, false},
                                   {"CORD", 8, false}, {"STATE", 8, false},
                                   {"CPU%", 5, true},  {"STACK", 6, true}};
    if (width >= 110) columns.insert(columns.end(), {{"WAIT%", 5, true}, {"TURNS/S", 8, true}});
    columns.push_back({"WAITS FOR", 0, false});
    return columns;
}

Line fiber_line(const Model& model, const Fiber& fiber, const View& view, const std::vector<Column>& columns,
                int width) {
    FiberRates rates = model.rates(fiber);
    std::vector<std::string> values = {std::to_string(fiber.id >> 32 & 0xffffff),
                                       model.name(fiber),
                                       model.name_of_cord(fiber.cord),
                                       fiber.state,
                                       percent_or_none(rates.cpu),
                                       fiber.stack_touched ? short_bytes(fiber.stack_touched) : "-"};
    if (width >= 110) {
        values.push_back(percent_or_none(rates.wait));
        values.push_back(number_or_none(rates.turns));
    }
    values.push_back(model.wait(fiber));
    bool selected = fiber.id == view.selected;
    bool dead_locked = model.is_dead_locked(fiber.id);
    Style style = selected      ? (dead_locked ? Style::selected_dead_lock : Style::selected)
                  : dead_locked ? Style::dead_lock
                                : Style::plain;
    return {row(columns, values, width), style};
}

// Finds the row of the selected fiber. If the fiber has gone, selects the fiber in its place.
void follow_selection(const std::vector<const Fiber*>& fibers, View& view, size_t rows) {
    if (fibers.empty()) {
        view.row = view.scroll = 0;
        view.selected = 0;
        return;
    }
    if (!view.chosen) view.row = view.scroll = 0;
    auto found = std::find_if(fibers.begin(), fibers.end(), [&](const Fiber* f) { return f->id == view.selected; });
    if (view.chosen && found != fibers.end()) view.row = size_t(found - fibers.begin());
    view.row = std::min(view.row, fibers.size() - 1);
    view.selected = fibers[view.row]->id;
    if (view.row < view.scroll) view.scroll = view.row;
    if (rows && view.row >= view.scroll + rows) view.scroll = view.row - rows + 1;
    if (view.scroll + rows > fibers.size()) view.scroll = fibers.size() > rows ? fibers.size() - rows : 0;
}

void draw_list(const Model& model, View& view, int width, size_t height, std::vector<Line>& out) {
    put_cords(model, width, std::max<size_t>(1, height / 5), out);
    put_dead_locks(model, width, std::max<size_t>(1, height / 6), out);
    std::vector<Column> columns = fiber_columns(width);
    out.push_back({titles(columns, width), Style::header});
    size_t rows = height > out.size() ? height - out.size() : 0;
    std::vector<const Fiber*> fibers = model.fibers(view.sort, view.backwards, view.filter);
    follow_selection(fibers, view, rows);
    for (size_t i = view.scroll; i < fibers.size() && i < view.scroll + rows; i++)
        out.push_back(fiber_line(model, *fibers[i], view, columns, width));
    if (fibers.empty()) out.push_back({fit("no fiber has this text", width), Style::note});
}

// ---- The stack of a fiber

std::string frame_text(const Frame& frame, size_t number) {
    std::string text = '#' + std::to_string(number) + ' ';
    if (!frame.language.empty()) {
        return text + frame.function + " (" + frame.object + (frame.pc.empty() ? "" : ':' + frame.pc) + ')';
    }
    text += frame.function.empty() ? frame.pc : frame.function + '+' + std::to_string(frame.offset);
    return frame.object.empty() ? text : text + " (" + frame.object + ')';
}

std::vector<Line> stack_lines(const Model& model, uint64_t id) {
    const Fiber* found = model.with_frames(id);
    if (!found) return {{"fiber " + hexadecimal(id) + " has ended", Style::title}};
    const Fiber& fiber = *found;
    std::vector<Line> out;
    out.push_back({"fiber " + hexadecimal(id) + ' ' + model.name(fiber) + " of cord " + model.name_of_cord(fiber.cord),
                   Style::title});
    std::string wait = model.wait(fiber);
    out.push_back({"  " + fiber.state + (fiber.cancelled ? ", cancelled" : "") + (wait.empty() ? "" : ": " + wait),
                   model.is_dead_locked(id) ? Style::dead_lock : Style::plain});
    for (const auto& circle : model.sample().dead_locks) {
        if (std::find(circle.begin(), circle.end(), id) == circle.end()) continue;
        std::string text = "  deadlock:";
        for (uint64_t member : circle) text += ' ' + model.name_of_fiber(member) + " ->";
        out.push_back({text + ' ' + model.name_of_fiber(circle[0]), Style::dead_lock});
    }
    if (fiber.parent) out.push_back({"  child of a scope of " + model.name_of_fiber(fiber.parent)});
    if (!fiber.function.empty()) out.push_back({"  runs " + fiber.function + "()"});
    if (fiber.stack_size) {
        out.push_back({"  stack of " + short_bytes(fiber.stack_size) + ", " + short_bytes(fiber.stack_touched) +
                       " in memory" +
                       (fiber.stack_used ? ", " + short_bytes(fiber.stack_used) + " in use" : std::string())});
    }
    if (fiber.times) {
        out.push_back({"  ran " + short_time(fiber.times->run_ns) + ", was runnable " +
                       short_time(fiber.times->runnable_ns) + ", waited " + short_time(fiber.times->wait_ns) + ", " +
                       std::to_string(fiber.times->turns) + " turns"});
    }
    out.push_back({"FRAMES", Style::header});
    std::string language;
    for (size_t i = 0, number = 0; i < fiber.frames.size(); i++, number++) {
        const Frame& frame = fiber.frames[i];
        if (frame.language != language) {
            language = frame.language;
            number = 0;
        }
        out.push_back({"  " + (language.empty() ? "" : language + ' ') + frame_text(frame, number)});
    }
    if (fiber.frames.empty()) {
        out.push_back({fiber.state == "running" ? "  the fiber runs" : "  none, or not known", Style::note});
    } else if (!fiber.frames_complete) {
        out.push_back({"  further frames are not known", Style::note});
    }
    return out;
}

void draw_stack(const Model& model, View& view, int width, size_t height, std::vector<Line>& out) {
    std::vector<Line> lines = stack_lines(model, view.selected);
    size_t rows = height > out.size() ? height - out.size() : 0;
    view.scroll = std::min(view.scroll, lines.size() > rows ? lines.size() - rows : 0);
    for (size_t i = view.scroll; i < lines.size() && i < view.scroll + rows; i++)
        out.push_back({fit(lines[i].text, width), lines[i].style});
}

// ---- Keys

void draw_help(int width, std::vector<Line>& out) {
    constexpr const char* lines[] = {
        "Up, Down, PgUp, PgDn, Home, End   select a fiber, or scroll its stack",
        "Enter                             the stack of the fiber; back",
        "Esc, Left                         back",
        "c  w  s  n  i                     sort by CPU, waits, stack, name, number",
        "r                                 sort backwards",
        "/                                 show only fibers that have a text",
        "t                                 times: let the process count them, or not",
        "p                                 pause",
        "+  -                              look less or more often",
        "q                                 quit",
        "",
        "Red fibers are in a deadlock. CPU% is the part of one processor that a cord's",
        "thread used since the last look, and the part of the time in which a fiber ran.",
        "STACK is the memory of its stack. '-' is a figure that is not known; 't' makes",
        "the process count the times of fibers.",
    };
    for (const char* line : lines) out.push_back({fit(line, width)});
}

std::string bottom(const View& view) {
    if (view.typing) return "Show fibers with: " + view.filter + "_  (Enter: done, Esc: all fibers)";
    if (!view.note.empty()) return view.note;
    if (view.mode == Mode::stack) return "Esc back  Up/Down scroll  p pause  ? help  q quit";
    if (view.mode == Mode::help) return "Esc back  q quit";
    return "Enter stack  c CPU  w waits  s stack  n name  / filter  t times  ? help  q quit";
}

} // namespace

std::vector<Line> draw(const Model& model, View& view, int width, int height) {
    std::vector<Line> out;
    if (width < 1 || height < 1) return out;
    size_t body = size_t(height) - 1;
    put_head(model, view, width, out);
    switch (view.mode) {
    case Mode::list: draw_list(model, view, width, body, out); break;
    case Mode::stack: draw_stack(model, view, width, body, out); break;
    case Mode::help: draw_help(width, out); break;
    }
    out.resize(body, Line{std::string(size_t(width), ' ')});
    out.push_back({fit(bottom(view), width), Style::header});
    return out;
}

std::vector<Line> draw_all(const Model& model, View& view, int width) {
    std::vector<Line> out;
    put_head(model, view, width, out);
    put_cords(model, width, SIZE_MAX, out);
    put_dead_locks(model, width, SIZE_MAX, out);
    std::vector<Column> columns = fiber_columns(width);
    out.push_back({titles(columns, width), Style::header});
    for (const Fiber* fiber : model.fibers(view.sort, view.backwards, view.filter))
        out.push_back(fiber_line(model, *fiber, view, columns, width));
    return out;
}

} // namespace top
