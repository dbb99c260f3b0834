// SPDX-License-Identifier: MIT OR Apache-2.0
#include "session.h"

#include "exchange.h"
#include "screen.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace top {

namespace {

// Up to so many fibers, each look also brings all frames.
constexpr size_t with_frames_most = 2000;

constexpr int64_t shortest_ns = 100'000'000;
constexpr int64_t longest_ns = 60'000'000'000;

volatile sig_atomic_t ended_by; // a signal that ends the program

void note_signal(int signal) { ended_by = signal; }

// The program blocks the signals that end it, except while it waits, so it misses none.
class Signals {
public:
    Signals() {
        sigset_t ends;
        sigemptyset(&ends);
        for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
            struct sigaction before, action = {};
            sigaction(signal, nullptr, &before);
            if (before.sa_handler == SIG_IGN) continue;
            action.sa_handler = note_signal;
            sigaction(signal, &action, nullptr);
            sigaddset(&ends, signal);
        }
        sigprocmask(SIG_BLOCK, &ends, &while_waiting);
    }
    sigset_t while_waiting;
};

// Ends the program as the signal would have.
void end_by_signal(int number) {
    signal(number, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
}

std::string time_of_day() {
    time_t now = time(nullptr);
    tm local;
    char text[16];
    localtime_r(&now, &local);
    strftime(text, sizeof text, "%H:%M:%S", &local);
    return text;
}

class Session {
public:
    Session(const Place& place, const Options& options) : place_(place), interval_ns_(options.interval_ns) {
        view_.sort = options.sort;
        view_.live = !place.file;
        set_times_ = options.times;
    }

    bool run(std::string& error);

private:
    enum class Ask { none, sample, frames, times };

    void begin_next();
    void answered();
    void redraw();
    bool on_key(int key); // false: quit
    void on_filter_key(int key);
    void on_list_key(int key);
    void on_stack_key(int key);
    void move(long by);
    void sort_by(Sort sort);
    void wait();

    const Place place_;
    Screen screen_;
    Signals signals_;
    Exchange exchange_;
    Ask asked_ = Ask::none;
    Model model_;
    View view_;
    int64_t interval_ns_;
    int64_t next_ns_ = 0;       // when to look next
    bool wants_frames_ = false; // of the selected fiber
    bool set_times_ = false;    // the next request turns the times on or off
    bool times_are_ours_ = false;
    bool gone_ = false;
};

void Session::redraw() {
    view_.clock = time_of_day();
    screen_.draw(draw(model_, view_, screen_.width(), screen_.height()));
}

void Session::begin_next() {
    if (exchange_.under_way() || asked_ != Ask::none || gone_ || !view_.live) return;
    if (set_times_) {
        asked_ = Ask::times;
        exchange_.begin(place_.path, times_are_ours_ ? "times off" : "times on");
    } else if (!view_.paused && now_ns() >= next_ns_) {
        asked_ = Ask::sample;
        next_ns_ = now_ns() + interval_ns_;
        exchange_.begin(place_.path, model_.sample().fibers.size() > with_frames_most ? "list" : "dump json");
    } else if (wants_frames_) {
        asked_ = Ask::frames;
        wants_frames_ = false;
        exchange_.begin(place_.path, "fiber " + std::to_string(view_.selected));
    }
}

void Session::answered() {
    Ask asked = asked_;
    asked_ = Ask::none;
    const std::string& error = exchange_.error();
    if (asked == Ask::times) {
        set_times_ = false;
        bool changed = error.empty() && exchange_.text() == "ok\n"; // otherwise the process counted them already
        if (changed) times_are_ours_ = !times_are_ours_;
        view_.note = !error.empty()    ? error
                     : !changed        ? "times are counted already"
                     : times_are_ours_ ? "times are counted"
                                       : "times are not counted any more";
        return;
    }
    Sample sample;
    std::string why = error;
    if (why.empty() && !read_sample(exchange_.text(), sample, why)) why = "the answer cannot be read: " + why;
    if (!why.empty()) {
        view_.note = why + "; q quits";
        gone_ = !error.empty();
        return;
    }
    if (asked == Ask::frames) {
        model_.add_frames(std::move(sample));
        return;
    }
    add_thread_times(exchange_.peer(), sample);
    model_.add(std::move(sample));
    const Fiber* fiber = model_.fiber(view_.selected);
    wants_frames_ = view_.mode == Mode::stack && fiber && fiber->frames.empty();
}

void Session::wait() {
    pollfd wanted[2] = {{STDIN_FILENO, POLLIN, 0}, {exchange_.fd(), POLLIN, 0}};
    bool waits_for_answer = exchange_.under_way();
    int64_t until = waits_for_answer ? exchange_.deadline() : next_ns_;
    bool forever = !waits_for_answer && (view_.paused || gone_ || !view_.live);
    int64_t left = std::max<int64_t>(until - now_ns(), 0);
    timespec limit = {left / 1'000'000'000, left % 1'000'000'000};
    ppoll(wanted, 2, forever ? nullptr : &limit, &signals_.while_waiting);
}

void Session::move(long by) {
    long row = std::max(0L, long(view_.row) + by);
    std::vector<const Fiber*> fibers = model_.fibers(view_.sort, view_.backwards, view_.filter);
    if (fibers.empty()) return;
    view_.row = std::min(size_t(row), fibers.size() - 1);
    view_.chosen = true;
    view_.selected = fibers[view_.row]->id;
}

void Session::sort_by(Sort sort) {
    view_.sort = sort;
    view_.chosen = false;
}

void Session::on_filter_key(int key) {
    if (key == key_enter || key == key_escape) {
        view_.typing = false;
        if (key == key_escape) view_.filter.clear();
    } else if (key == key_backspace) {
        // The last character has one byte, or continues with bytes 10xxxxxx.
        while (!view_.filter.empty()) {
            bool follows = (static_cast<unsigned char>(view_.filter.back()) & 0xc0) == 0x80;
            view_.filter.pop_back();
            if (!follows) break;
        }
    } else if (key >= ' ' && key < 0x100 && view_.filter.size() < 64) {
        view_.filter += char(key);
    }
}

void Session::on_list_key(int key) {
    int page = std::max(1, screen_.height() / 2);
    switch (key) {
    case key_up: move(-1); break;
    case key_down: move(1); break;
    case key_page_up: move(-page); break;
    case key_page_down: move(page); break;
    case key_home: move(-long(view_.row)); break;
    case key_end: move(long(model_.sample().fibers.size())); break;
    case 'c': sort_by(Sort::cpu); break;
    case 'w': sort_by(Sort::waits); break;
    case 's': sort_by(Sort::stack); break;
    case 'n': sort_by(Sort::name); break;
    case 'i': sort_by(Sort::id); break;
    case 'r':
        view_.backwards = !view_.backwards;
        view_.chosen = false;
        break;
    case '/':
        view_.typing = true;
        view_.chosen = false;
        break;
    case key_enter:
        if (!view_.selected) break;
        view_.chosen = true;
        view_.mode = Mode::stack;
        view_.scroll = 0;
        wants_frames_ = true;
        break;
    default: break;
    }
}

void Session::on_stack_key(int key) {
    size_t page = size_t(std::max(1, screen_.height() / 2));
    switch (key) {
    case key_up: view_.scroll -= view_.scroll > 0; break;
    case key_down: view_.scroll++; break; // draw() keeps it in the list
    case key_page_up: view_.scroll -= std::min(view_.scroll, page); break;
    case key_page_down: view_.scroll += page; break;
    case key_home: view_.scroll = 0; break;
    case key_enter:
    case key_escape:
    case key_left:
    case key_backspace:
        view_.mode = Mode::list;
        view_.scroll = 0;
        break;
    default: break;
    }
}

bool Session::on_key(int key) {
    if (key == key_resize) return true;
    if (view_.typing) {
        on_filter_key(key);
        return true;
    }
    if (!gone_) view_.note.clear();
    switch (key) {
    case 'q': return false;
    case '?': view_.mode = Mode::help; return true;
    case 'p': view_.paused = !view_.paused; return true;
    case 't': set_times_ = view_.live && !gone_; return true;
    case '+':
    case '-':
        interval_ns_ = std::clamp(key == '+' ? interval_ns_ * 2 : interval_ns_ / 2, shortest_ns, longest_ns);
        view_.note = "a look every " + std::to_string(interval_ns_ / 1'000'000) + " ms";
        next_ns_ = std::min(next_ns_, now_ns() + interval_ns_);
        return true;
    default: break;
    }
    switch (view_.mode) {
    case Mode::list: on_list_key(key); break;
    case Mode::stack: on_stack_key(key); break;
    case Mode::help: view_.mode = Mode::list; break;
    }
    return true;
}

bool Session::run(std::string& error) {
    Sample first;
    if (!take_sample(place_, "list", first, error)) return false;
    if (!screen_.open(error)) return false;
    model_.add(std::move(first));
    for (bool more = true; more && !ended_by;) {
        begin_next();
        if (asked_ != Ask::none && exchange_.advance()) {
            answered();
            continue;
        }
        redraw();
        wait();
        pollfd terminal = {STDIN_FILENO, POLLIN, 0};
        if (poll(&terminal, 1, 0) > 0 && (terminal.revents & (POLLHUP | POLLERR | POLLNVAL))) break;
        for (int key; more && (key = screen_.key()) != key_none;) more = on_key(key);
    }
    screen_.close();
    if (times_are_ours_ && !gone_) {
        exchange_.begin(place_.path, "times off");
        exchange_.finish();
    }
    if (ended_by) end_by_signal(ended_by);
    return true;
}

} // namespace

bool take_sample(const Place& place, const std::string& request, Sample& out, std::string& error) {
    std::string text;
    pid_t peer = 0;
    if (place.file) {
        std::ifstream file(place.path, std::ios::binary);
        std::ostringstream all;
        all << file.rdbuf();
        text = all.str();
        if (!file) error = place.path + ": " + strerror(errno);
    } else {
        Exchange exchange;
        exchange.begin(place.path, request);
        exchange.finish();
        error = exchange.error();
        text = exchange.text();
        peer = exchange.peer();
    }
    if (!error.empty()) return false;
    if (read_sample(text, out, error)) {
        add_thread_times(peer, out);
        return true;
    }
    error = place.path + ": " + error;
    return false;
}

bool show_screen(const Place& place, const Options& options, std::string& error) {
    return Session(place, options).run(error);
}

} // namespace top
