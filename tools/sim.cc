// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-sim: runs a program in the simulation of libfiberrt again and again, each time with other choices, until the
// program fails. Then it looks for the shortest list of choices that makes the program fail, and prints the command
// that repeats this run. See docs/simulation.md.
//
// fiberrt-sim is not linked with the library. All it knows about a run is the exit status and the trace.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

const char usage[] =
    "Usage: fiberrt-sim [OPTION]... -- PROGRAM [ARGUMENT]...\n"
    "\n"
    "Runs PROGRAM in the simulation of libfiberrt, once for each seed, until a run fails: PROGRAM exits with a status\n"
    "other than 0, or is killed. Then shrinks the list of choices that made it fail, and prints the command that\n"
    "repeats the shrunk run.\n"
    "\n"
    "  --seeds FIRST-LAST  the seeds to try (default 1-1000)\n"
    "  --exhaustive        try every possible list of choices instead of seeds; for small programs\n"
    "  --deviations N      with --exhaustive: only lists with at most N choices other than 0 (default: all lists)\n"
    "  --faults LEVEL      inject faults (FIBERRT_SIM_FAULTS): 0 none, only other orders of events; 1 short "
    "transfers,\n"
    "                      EAGAIN and similar results; 2 also errors from outside, such as ECONNRESET and ENOSPC; 3\n"
    "                      also lack of memory for fibers and stacks (default 0)\n"
    "  --steps N           treat a run with more switches as failed; 0: no limit (default 10000000)\n"
    "  --jobs N            make N runs at the same time (default: one per processor)\n"
    "  --timeout SECONDS   treat a run that takes longer as failed; at least 1 (default 10)\n"
    "  --runs N            make at most N runs, with --exhaustive (default 100000) and to shrink (default 3000)\n"
    "  --trace FILE        write the trace of the shrunk run to FILE\n"
    "  --help              print this text\n"
    "\n"
    "Exit status: 0 if no run failed, 1 if a run failed, 2 if the arguments are wrong or nothing could be run.\n";

struct Options {
    uint64_t first_seed = 1;
    uint64_t last_seed = 1000;
    bool exhaustive = false;
    uint64_t deviations = UINT64_MAX;
    std::string faults = "0";
    std::string steps = "10000000";
    unsigned timeout = 10;
    unsigned jobs = 1;
    uint64_t runs = 0;
    std::string trace;
    char** program = nullptr;
};

Options options;
std::string scratch;   // a temporary directory, removed at exit
volatile int* refusal; // in memory shared with the runs: the errno of an exec that failed, or 0

[[noreturn]] void die(const std::string& message) {
    fprintf(stderr, "fiberrt-sim: %s\n", message.c_str());
    exit(2);
}

// ---- Choices
// ----------------------------------------------------------------------------------------------------------

// A choice that a run made: its position in the run, the alternative chosen, the number of alternatives, and the name
// that the trace gives to the place in the code.
struct Choice {
    uint64_t position;
    uint32_t chosen;
    uint32_t possible;
    std::string site;
};

using Choices = std::vector<Choice>; // by position; a choice that is not in the list is 0

std::string list_of(const Choices& choices) {
    std::string text;
    for (const Choice& choice : choices) {
        if (!choice.chosen) continue;
        if (!text.empty()) text += ',';
        text += std::to_string(choice.position) + ':' + std::to_string(choice.chosen);
    }
    return text;
}

Choices choices_of_trace(const std::string& path) {
    Choices choices;
    FILE* file = fopen(path.c_str(), "r");
    if (!file) return choices; // the program made no choices
    char line[512];
    char site[64];
    while (fgets(line, sizeof line, file)) {
        unsigned chosen, possible;
        if (sscanf(line, "%*d pick %u/%u %63s", &chosen, &possible, site) != 3) continue;
        choices.push_back({choices.size(), chosen, possible, site});
    }
    fclose(file);
    return choices;
}

// ---- Runs
// -------------------------------------------------------------------------------------------------------------

using Environment = std::vector<std::pair<std::string, std::string>>;

// Runs in the child. Stores errno, because a program may exit with 127 too.
[[noreturn]] void be_refused() {
    *refusal = errno;
    _exit(127);
}

// Runs in the child: executes the program. The program's output goes to a file, because the simulation cannot write to
// a pipe or a terminal: the file `output` or, if that is empty, an unlinked file that ends with the process.
[[noreturn]] void become_program(pid_t parent, const Environment& environment, const std::string& output) {
    setenv("FIBERRT_BACKEND", "sim", 1);
    setenv("FIBERRT_SIM_FAULTS", options.faults.c_str(), 1);
    setenv("FIBERRT_SIM_STEPS", options.steps.c_str(), 1);
    for (const char* name : {"FIBERRT_SEED", "FIBERRT_SIM_REPLAY", "FIBERRT_SIM_TRACE"}) unsetenv(name);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    int in = open("/dev/null", O_RDONLY);
    std::string path = output.empty() ? scratch + "/output." + std::to_string(getpid()) : output;
    int out = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (in < 0 || out < 0) be_refused();
    if (output.empty()) unlink(path.c_str());
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    for (int fd : {in, out}) {
        if (fd > 2) close(fd);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); // the run ends if fiberrt-sim is killed
    if (getppid() != parent) _exit(1);
    alarm(options.timeout);
    execvp(options.program[0], options.program);
    be_refused();
}

pid_t start(const Environment& environment, const std::string& output) {
    fflush(nullptr);
    pid_t self = getpid();
    pid_t child = fork();
    if (child < 0) die(std::string("fork failed: ") + strerror(errno));
    if (child == 0) become_program(self, environment, output);
    return child;
}

// Waits for the child and returns its wait status.
int end_of(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) die(strerror(errno));
    }
    if (*refusal) die(std::string(options.program[0]) + " cannot be run: " + strerror(*refusal));
    return status;
}

int run(const Environment& environment) { return end_of(start(environment, scratch + "/output")); }

std::string list_argument(const std::string& list) {
    if (list.size() < 4000) return list;
    std::string path = scratch + "/list";
    FILE* file = fopen(path.c_str(), "w");
    if (!file || fputs(list.c_str(), file) < 0 || fclose(file) != 0) die(path + " cannot be written");
    return '@' + path;
}

int replay(const Choices& choices, const std::string& trace) {
    Environment environment = {{"FIBERRT_SIM_REPLAY", list_argument(list_of(choices))}};
    if (!trace.empty()) {
        unlink(trace.c_str());
        environment.emplace_back("FIBERRT_SIM_TRACE", trace);
    }
    return run(environment);
}

std::string verdict_of(int status) {
    if (WIFEXITED(status)) return "exits with " + std::to_string(WEXITSTATUS(status));
    int signal = WTERMSIG(status);
    if (signal == SIGALRM) return "does not end within " + std::to_string(options.timeout) + " seconds";
    return std::string("is killed by ") + strsignal(signal);
}

// ---- Progress
// ---------------------------------------------------------------------------------------------------------

double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

// A progress line on a terminal, redrawn in place. With a total of 0 (unknown, or 2^64) it shows only the count so far.
class Progress {
public:
    Progress(const char* what, uint64_t total) : what_(what), total_(total) {}
    ~Progress() {
        if (drawn_) fprintf(stderr, "\r\033[K");
    }
    void at(uint64_t done) {
        double now = seconds();
        if (!terminal_ || now - last_ < 0.1) return;
        last_ = now;
        drawn_ = true;
        fprintf(stderr, "\r\033[K");
        if (total_) {
            int filled = int(double(done) * width / double(total_));
            fprintf(stderr, "[%.*s%.*s] ", filled, "########################################", width - filled,
                    "........................................");
        }
        fprintf(stderr, "%llu%s%s %s, %.0f a second", static_cast<unsigned long long>(done), total_ ? "/" : "",
                total_ ? std::to_string(total_).c_str() : "", what_, double(done) / (now - begun_));
    }

private:
    static constexpr int width = 40;
    const char* what_;
    uint64_t total_;
    bool terminal_ = isatty(2);
    bool drawn_ = false;
    double begun_ = seconds();
    double last_ = begun_;
};

// ---- Shrinking
// --------------------------------------------------------------------------------------------------------

// Looks for fewer and smaller choices with which the program ends with the same status. Removing a choice makes it 0.
class Shrinking {
public:
    Shrinking(Choices choices, int status)
        : choices_(std::move(choices)), status_(status), progress_("runs to shrink it", 0) {
        std::erase_if(choices_, [](const Choice& choice) { return choice.chosen == 0; });
    }

    Choices shrunk() {
        size_t before;
        do {
            before = weight();
            keep_a_head();
            for (size_t part = std::max<size_t>(choices_.size() / 2, 1);; part /= 2) {
                drop_parts(part);
                if (part <= 1) break;
            }
            make_smaller();
        } while (weight() < before && may_run());
        return choices_;
    }

private:
    size_t weight() const {
        size_t sum = choices_.size();
        for (const Choice& choice : choices_) sum += choice.chosen;
        return sum;
    }
    bool may_run() const { return runs_ < (options.runs ? options.runs : 3000); }

    bool keep_if_it_fails(Choices candidate) {
        if (!may_run()) return false;
        progress_.at(++runs_);
        if (replay(candidate, "") != status_) return false;
        choices_ = std::move(candidate);
        return true;
    }

    // Shortens the list from its end: choices after the failure are not needed, and late ones often are not either.
    void keep_a_head() {
        size_t low = 0; // no shorter list failed
        size_t high = choices_.size();
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (keep_if_it_fails(Choices(choices_.begin(), choices_.begin() + long(middle)))) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
    }

    void drop_parts(size_t part) {
        for (size_t end = choices_.size(); end > 0;) {
            size_t begin = end > part ? end - part : 0;
            Choices candidate = choices_;
            candidate.erase(candidate.begin() + long(begin), candidate.begin() + long(end));
            keep_if_it_fails(std::move(candidate));
            end = std::min(begin, choices_.size());
        }
    }

    void make_smaller() {
        for (size_t i = 0; i < choices_.size(); i++) {
            for (uint32_t smaller : {1u, choices_[i].chosen / 2, choices_[i].chosen - 1}) {
                if (smaller < 1 || smaller >= choices_[i].chosen) continue;
                Choices candidate = choices_;
                candidate[i].chosen = smaller;
                keep_if_it_fails(std::move(candidate));
            }
        }
    }

    Choices choices_;
    int status_;
    uint64_t runs_ = 0;
    Progress progress_;
};

// ---- The report
// ------------------------------------------------------------------------------------------

std::string quoted(const std::string& word) {
    if (!word.empty() &&
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-") ==
            std::string::npos) {
        return word;
    }
    std::string text = "'";
    for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + '\'';
}

std::string command_line(const std::string& settings) {
    std::string line = "FIBERRT_BACKEND=sim ";
    if (options.faults != "0") line += "FIBERRT_SIM_FAULTS=" + options.faults + ' ';
    if (options.steps != "0") line += "FIBERRT_SIM_STEPS=" + options.steps + ' ';
    line += settings;
    for (char** word = options.program; *word; word++) line += ' ' + quoted(*word);
    return line;
}

void show_output() {
    FILE* file = fopen((scratch + "/output").c_str(), "r");
    if (!file) return;
    char line[512];
    constexpr int most = 40;
    for (int i = 0; i < most && fgets(line, sizeof line, file); i++) printf("  | %s", line);
    fclose(file);
}

// Reports a failed run: shrinks the choices in its trace and prints them. Returns the exit status of fiberrt-sim.
int report(int status, const std::string& trace) {
    Choices choices = choices_of_trace(trace);
    if (replay(choices, "") != status) {
        printf("these choices do not make it fail again: it depends on something that is not simulated\n");
        return 1;
    }
    size_t made = choices.size();
    Choices least = Shrinking(std::move(choices), status).shrunk();
    int again = replay(least, trace);
    if (!options.trace.empty()) {
        replay(least, options.trace);
        printf("the trace of the run below is in %s\n", options.trace.c_str());
    }
    printf("choices that make it fail: %zu of %zu; the others are 0:\n", least.size(), made);
    Choices traced = choices_of_trace(trace);
    for (const Choice& choice : least) {
        bool known = choice.position < traced.size();
        printf("  %llu: %u of %u, %s\n", static_cast<unsigned long long>(choice.position), choice.chosen,
               known ? traced[choice.position].possible : 0, known ? traced[choice.position].site.c_str() : "?");
    }
    if (again != status) printf("(but not every time)\n");
    printf("then it %s:\n", verdict_of(again).c_str());
    show_output();
    printf("again:  %s\n", command_line("FIBERRT_SIM_REPLAY=" + quoted(list_of(least))).c_str());
    return 1;
}

// ---- The runs, by seeds or exhaustively
// ----------------------------------------------------------------------------------

int by_seeds() {
    double begun = seconds();
    uint64_t ended = 0;
    uint64_t failing = 0;
    int status = 0;
    {
        Progress progress("seeds", options.last_seed - options.first_seed + 1);
        std::deque<pid_t> running; // of the seeds before `next`
        uint64_t next = options.first_seed;
        bool all_begun = false; // a flag, because the number of all seeds does not fit into 64 bits
        while (!status && !(all_begun && running.empty())) {
            while (!all_begun && running.size() < options.jobs) {
                running.push_back(start({{"FIBERRT_SEED", std::to_string(next)}}, ""));
                all_begun = next++ == options.last_seed;
            }
            progress.at(ended);
            failing = options.first_seed + ended;
            status = end_of(running.front());
            running.pop_front();
            ended++;
        }
        for (pid_t child : running) {
            kill(child, SIGKILL);
            end_of(child);
        }
    }
    if (!status) {
        printf("no run failed: %llu seeds in %.1f seconds\n", static_cast<unsigned long long>(ended),
               seconds() - begun);
        return 0;
    }
    printf("seed %llu: it %s\n", static_cast<unsigned long long>(failing), verdict_of(status).c_str());
    printf("again:  %s\n", command_line("FIBERRT_SEED=" + std::to_string(failing)).c_str());
    std::string trace = scratch + "/trace";
    int again = run({{"FIBERRT_SEED", std::to_string(failing)}, {"FIBERRT_SIM_TRACE", trace}});
    if (again != status) {
        printf("this seed does not make it fail again: it depends on something that is not simulated\n");
        return 1;
    }
    return report(status, trace);
}

// Advances to the next list, as a counter does, starting with its last digit. Returns false after the last list.
bool count_up(Choices& choices) {
    uint64_t deviations = 0;
    for (const Choice& choice : choices) deviations += choice.chosen != 0;
    for (; !choices.empty(); choices.pop_back()) {
        Choice& last = choices.back();
        deviations -= last.chosen != 0; // counts only the choices before the last
        if (last.chosen + 1 < last.possible && deviations < options.deviations) {
            last.chosen++;
            return true;
        }
    }
    return false;
}

int by_all_choices() {
    std::string trace = scratch + "/trace";
    Choices choices;
    uint64_t most = options.runs ? options.runs : 100000;
    uint64_t done = 0;
    int status = 0;
    bool more = true;
    {
        Progress progress("runs", 0);
        while (more && !status && done < most) {
            status = replay(choices, trace);
            done++;
            progress.at(done);
            choices = choices_of_trace(trace);
            more = !status && count_up(choices);
        }
    }
    if (status) {
        printf("run %llu: it %s\n", static_cast<unsigned long long>(done), verdict_of(status).c_str());
        return report(status, trace);
    }
    printf("no run failed: %llu runs, %s\n", static_cast<unsigned long long>(done),
           more ? "and more are possible (--runs)" : "all possible runs");
    return 0;
}

// ---- Options
// ----------------------------------------------------------------------------------------------------------

uint64_t number(const char* name, const std::string& text) {
    uint64_t value;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        die(std::string(name) + " wants a number, not " + text);
    return value;
}

// For numbers of processes or seconds: larger values are cut to a million.
unsigned small_number(const char* option, const std::string& text) {
    return unsigned(std::min<uint64_t>(number(option, text), 1'000'000));
}

void take_seeds(const std::string& text) {
    size_t dash = text.find('-');
    options.first_seed = number("--seeds", text.substr(0, dash));
    options.last_seed = dash == std::string::npos ? options.first_seed : number("--seeds", text.substr(dash + 1));
    if (options.last_seed < options.first_seed) die("--seeds takes FIRST-LAST, not " + text);
}

void take_options(int argc, char** argv) {
    static const option known[] = {{"seeds", required_argument, nullptr, 's'},
                                   {"exhaustive", no_argument, nullptr, 'e'},
                                   {"deviations", required_argument, nullptr, 'd'},
                                   {"faults", required_argument, nullptr, 'f'},
                                   {"steps", required_argument, nullptr, 'S'},
                                   {"timeout", required_argument, nullptr, 't'},
                                   {"jobs", required_argument, nullptr, 'j'},
                                   {"runs", required_argument, nullptr, 'r'},
                                   {"trace", required_argument, nullptr, 'T'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) options.jobs = unsigned(CPU_COUNT(&cpus));
    int which;
    while ((which = getopt_long(argc, argv, "+", known, nullptr)) != -1) {
        switch (which) {
        case 's': take_seeds(optarg); break;
        case 'e': options.exhaustive = true; break;
        case 'd': options.deviations = number("--deviations", optarg); break;
        case 'f': options.faults = std::to_string(number("--faults", optarg)); break;
        case 'S': options.steps = std::to_string(number("--steps", optarg)); break;
        case 'j': options.jobs = small_number("--jobs", optarg); break;
        case 't': options.timeout = small_number("--timeout", optarg); break;
        case 'r': options.runs = number("--runs", optarg); break;
        case 'T': options.trace = optarg; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (options.jobs < 1 || options.jobs > 1000) die("--jobs wants 1 to 1000");
    if (options.timeout < 1) die("--timeout takes at least 1 second");
    if (options.faults.size() > 1 || options.faults > "3") die("--faults wants 0 to 3");
    if (!argv[optind]) die("there is no program to run; see --help");
    options.program = argv + optind;
}

// The files in `scratch`, complete paths: remove_scratch() also runs in a signal handler, which must not allocate.
std::string in_scratch[3];

void remove_scratch() {
    for (const std::string& path : in_scratch) unlink(path.c_str());
    rmdir(scratch.c_str());
}

void interrupted(int signal) {
    remove_scratch();
    _exit(128 + signal);
}

} // namespace

int main(int argc, char** argv) {
    take_options(argc, argv);
    void* shared = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) die(strerror(errno));
    refusal = static_cast<volatile int*>(shared);
    const char* temporary = getenv("TMPDIR");
    std::string folder = std::string(temporary && *temporary ? temporary : "/tmp") + "/fiberrt-sim-XXXXXX";
    if (!mkdtemp(folder.data())) die(folder + " cannot be created");
    scratch = folder;
    in_scratch[0] = scratch + "/output";
    in_scratch[1] = scratch + "/list";
    in_scratch[2] = scratch + "/trace";
    atexit(remove_scratch);
    for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
        if (signal(signal_number, interrupted) == SIG_IGN) signal(signal_number, SIG_IGN); // for example under nohup
    }
    int status = options.exhaustive ? by_all_choices() : by_seeds();
    if (fflush(stdout) != 0 || ferror(stdout)) die("the report cannot be written");
    return status;
}
