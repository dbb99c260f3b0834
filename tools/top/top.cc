// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-top: shows the fibers of a running process. It asks the process's agent (src/agent), which a process starts
// by fiber_agent_start or FIBERRT_TOP. See docs/top.md.
#include "columns.h"
#include "exchange.h"
#include "model.h"
#include "place.h"
#include "session.h"
#include "view.h"

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <getopt.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

namespace {

const char usage[] =
    "Usage: fiberrt-top [OPTION]... [PID|SOCKET|DIRECTORY|FILE]\n"
    "\n"
    "Shows the fibers of a process of the same user that allows it: one that was started with FIBERRT_TOP=DIRECTORY, "
    "or\n"
    "has called fiber_agent_start(). Without an argument, the only such process. A FILE has the JSON of an earlier\n"
    "--json, or of fiber_dump_as().\n"
    "\n"
    "  --once              print all fibers once, as text\n"
    "  --json              print the process's answer, with the frames of all stacks, as JSON\n"
    "  --stacks            print equal stacks with the number of their fibers\n"
    "  --interval SECONDS  the time between two looks (default 1). --once looks twice; with 0 it looks once, and\n"
    "                      shows no rates\n"
    "  --sort KEY          cpu, waits, stack, name or number\n"
    "  --times             let the process count the times of its fibers meanwhile\n"
    "  --help              print this text\n"
    "  --version           print the release\n"
    "\n"
    "Exit status: 0; 1 if the process cannot be looked at, or its answer cannot be printed; 2 if the arguments are\n"
    "wrong.\n";

// Calls a function for each line, without control characters: names of files and texts of processes may have any bytes.
template <class Function>
void each_line(std::string_view text, Function function) {
    while (!text.empty()) {
        size_t length = std::min(text.find('\n'), text.size());
        function(top::plain(text.substr(0, length)));
        text.remove_prefix(std::min(length + 1, text.size()));
    }
}

[[noreturn]] void die(int status, const std::string& message) {
    fputs("fiberrt-top: ", stderr);
    each_line(message, [](const std::string& line) { fprintf(stderr, "%s\n", line.c_str()); });
    exit(status);
}

enum class Form { screen, once, json, stacks };

struct Arguments {
    Form form = Form::screen;
    top::Options options;
    std::string named;
};

int64_t interval_of(const char* text) {
    double seconds = -1;
    auto [end, error] = std::from_chars(text, text + strlen(text), seconds);
    bool good = error == std::errc() && !*end && (seconds == 0 || (seconds >= 0.1 && seconds <= 60));
    if (!good) die(2, "--interval wants 0, or 0.1 to 60 seconds");
    return int64_t(seconds * 1e9);
}

top::Sort sort_of(const char* text) {
    constexpr struct {
        const char* name;
        top::Sort sort;
    } known[] = {{"cpu", top::Sort::cpu},
                 {"waits", top::Sort::waits},
                 {"stack", top::Sort::stack},
                 {"name", top::Sort::name},
                 {"number", top::Sort::id}};
    for (const auto& each : known) {
        if (strcmp(text, each.name) == 0) return each.sort;
    }
    die(2, "--sort wants cpu, waits, stack, name or number");
}

Arguments take_arguments(int argc, char** argv) {
    static const option known[] = {{"once", no_argument, nullptr, 'o'},
                                   {"json", no_argument, nullptr, 'j'},
                                   {"stacks", no_argument, nullptr, 'g'},
                                   {"interval", required_argument, nullptr, 'i'},
                                   {"sort", required_argument, nullptr, 's'},
                                   {"times", no_argument, nullptr, 't'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {"version", no_argument, nullptr, 'v'},
                                   {nullptr, 0, nullptr, 0}};
    Arguments out;
    for (int which; (which = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
        switch (which) {
        case 'o': out.form = Form::once; break;
        case 'j': out.form = Form::json; break;
        case 'g': out.form = Form::stacks; break;
        case 'i': out.options.interval_ns = interval_of(optarg); break;
        case 's': out.options.sort = sort_of(optarg); break;
        case 't': out.options.times = true; break;
        case 'h': fputs(usage, stdout); exit(fflush(stdout) != 0);
        case 'v': puts("fiberrt-top " FIBERRT_RELEASE); exit(fflush(stdout) != 0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc - 1) die(2, "only one process can be named; see --help");
    if (optind < argc) out.named = argv[optind];
    if (out.form == Form::screen && !out.options.interval_ns) die(2, "--interval 0 is for --once");
    return out;
}

top::Place find(const std::string& named) {
    if (!named.empty()) return top::find_place(named);
    std::vector<top::Candidate> all = top::processes_with_agent();
    if (all.size() == 1) return top::find_place(std::to_string(all[0].pid));
    if (all.empty())
        die(1, "no process of this user has an agent: start one with the environment variable FIBERRT_TOP=DIRECTORY");
    std::string list = "several processes have an agent; name one of them:";
    for (const top::Candidate& each : all) list += "\n  " + std::to_string(each.pid) + "  " + top::plain(each.program);
    die(1, list);
}

std::string ask(const top::Place& place, const std::string& request) {
    if (place.file) die(1, place.path + " is a file; a process is needed here");
    top::Exchange exchange;
    exchange.begin(place.path, request);
    exchange.finish();
    if (!exchange.error().empty()) die(1, exchange.error());
    return exchange.text();
}

top::Sample sample_of(const top::Place& place) {
    top::Sample sample;
    std::string error;
    if (!top::take_sample(place, "dump json", sample, error)) die(1, error);
    return sample;
}

void print_json(const top::Place& place) {
    std::string text = ask(place, "dump json");
    top::Sample sample;
    std::string error;
    if (!top::read_sample(text, sample, error)) die(1, error);
    fwrite(text.data(), 1, text.size(), stdout);
}

void print_stacks(const top::Place& place) {
    each_line(ask(place, "stacks"), [](const std::string& line) { puts(line.c_str()); });
}

int columns_of_output() {
    winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) return size.ws_col;
    const char* wanted = getenv("COLUMNS");
    int columns = wanted ? atoi(wanted) : 0;
    return columns >= 40 && columns <= 1000 ? columns : 80;
}

std::string counts_times_for_us; // the socket of the process, if it counts times only for this program

void count_no_times() {
    if (counts_times_for_us.empty()) return;
    top::Exchange exchange;
    exchange.begin(counts_times_for_us, "times off");
    exchange.finish();
    counts_times_for_us.clear();
}

// The signals that would end the program are blocked until count_no_times().
sigset_t count_times(const top::Place& place) {
    sigset_t ends;
    sigemptyset(&ends);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        struct sigaction action;
        if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&ends, signal);
    }
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    atexit(count_no_times); // die() may end the program
    if (ask(place, "times on") == "ok\n") counts_times_for_us = place.path;
    return ends;
}

void print_once(const top::Place& place, const top::Options& options) {
    bool looks_again = options.interval_ns && !place.file;
    sigset_t ends;
    sigemptyset(&ends);
    if (options.times) ends = count_times(place);
    top::Model model;
    model.add(sample_of(place));
    if (looks_again) {
        timespec pause = {options.interval_ns / 1'000'000'000, options.interval_ns % 1'000'000'000};
        int ended_by = sigtimedwait(&ends, nullptr, &pause);
        if (ended_by > 0) raise(ended_by); // pending until it is unblocked
        if (ended_by < 0) model.add(sample_of(place));
    }
    count_no_times();
    sigprocmask(SIG_UNBLOCK, &ends, nullptr);
    top::View view;
    view.sort = options.sort;
    for (const top::Line& line : top::draw_all(model, view, columns_of_output())) {
        size_t end = line.text.find_last_not_of(' ');
        printf("%.*s\n", int(end == std::string::npos ? 0 : end + 1), line.text.c_str());
    }
}

} // namespace

int main(int argc, char** argv) {
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C");
    Arguments arguments = take_arguments(argc, argv);
    top::Place place = find(arguments.named);
    if (!place.error.empty()) die(1, place.error);
    std::string error;
    switch (arguments.form) {
    case Form::screen:
        if (!top::show_screen(place, arguments.options, error)) die(1, error);
        break;
    case Form::once: print_once(place, arguments.options); break;
    case Form::json: print_json(place); break;
    case Form::stacks: print_stacks(place); break;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) die(1, "the text cannot be written");
    return 0;
}
