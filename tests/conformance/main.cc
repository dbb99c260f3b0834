// SPDX-License-Identifier: MIT OR Apache-2.0
// The conformance suite: the library's promises. Each scenario is written once and runs on the backend named by
// FIBERRT_BACKEND: uring, ev, sim.
//
//   conformance [--gtest_list_tests] [--gtest_filter=NAMES] ...   runs scenarios, as any GoogleTest does
//   conformance --trace                                           prints their traces, to be compared between backends
//   conformance --seeds FIRST-LAST [--jobs N] [--slowest N]       runs them under many seeds, in simulation: each
//                                                                 scenario under each seed
//
// --slowest prints the scenarios that took the most time in a run: CPU time and elapsed time.
//
// Every failure is reported with the scenario, the backend, the seed, and the command that repeats it. A run under a
// seed has its own process, forked from one that has no cord: so each run is the same whichever ran before.
#include "conformance.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <linux/magic.h>
#include <map>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int SEED_SECONDS = 120;  // a run under one seed that takes longer hangs
constexpr int FAILURES_ENOUGH = 5; // no more seeds are begun then
constexpr int NONE_MATCHED = -1;   // instead of the number of scenarios that a run ran

const char *program;

// The running scenario, where the parent of the process sees it whatever ends the process.
char *running;
constexpr size_t RUNNING_SIZE = 4096;

std::string from_environment(const char *name, const char *otherwise) {
    const char *value = ::getenv(name);
    return value ? value : otherwise;
}

// The command that runs scenarios again as they ran here.
std::string replay(const std::string &filter, const std::string &more = "") {
    std::string command;
    for (const char *name :
         {"FIBERRT_BACKEND", "FIBERRT_SEED", "FIBERRT_SIM_FAULTS", "FIBERRT_SIM_STEPS", "TEST_TMPDIR"})
        if (const char *value = ::getenv(name)) command += std::string(name) + "=" + value + " ";
    return command + program + " --gtest_filter='" + filter + "'" + more;
}

// What the scenarios took, summed over all processes, in memory that they share. Null: not measured.
struct Spent {
    std::atomic<int64_t> cpu_ns, clock_ns, runs;
};
Spent *spent;
std::map<std::string, size_t> places; // in it, by name

int64_t ns_of(clockid_t clock) {
    timespec now = {};
    ::clock_gettime(clock, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string name_of(const testing::TestInfo &test) { return std::string(test.test_suite_name()) + "." + test.name(); }

// Tells the parent where we are, and the user how a failure is repeated.
class Reporter : public testing::EmptyTestEventListener {
public:
    void OnTestStart(const testing::TestInfo &test) override {
        conformance::traces.clear();
        std::snprintf(running, RUNNING_SIZE, "%s", name_of(test).c_str());
        cpu_begun_ = ns_of(CLOCK_PROCESS_CPUTIME_ID);
        clock_begun_ = ns_of(CLOCK_MONOTONIC);
    }
    void OnTestEnd(const testing::TestInfo &test) override {
        if (spent) {
            Spent &own = spent[places[name_of(test)]];
            own.cpu_ns += ns_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun_;
            own.clock_ns += ns_of(CLOCK_MONOTONIC) - clock_begun_;
            own.runs++;
        }
        if (!test.result()->Failed()) return;
        std::printf("%s failed on %s, seed %s; to see it again:\n  %s\n", name_of(test).c_str(),
                    from_environment("FIBERRT_BACKEND", "the default backend").c_str(),
                    from_environment("FIBERRT_SEED", "none").c_str(), replay(name_of(test)).c_str());
    }
    void OnTestProgramEnd(const testing::UnitTest &) override { running[0] = 0; }

private:
    int64_t cpu_begun_ = 0, clock_begun_ = 0;
};

// Replaces GoogleTest's printer: prints each failure, and at the end the reasons of all skipped scenarios.
class Brief : public testing::EmptyTestEventListener {
public:
    void OnTestPartResult(const testing::TestPartResult &part) override {
        if (part.failed())
            std::fprintf(stderr, "%s:%d: %s\n", part.file_name() ? part.file_name() : "?", part.line_number(),
                         part.message());
        if (part.skipped()) left_out_[part.message()]++;
    }
    void OnTestProgramEnd(const testing::UnitTest &unit) override {
        std::printf("%d scenarios\n", unit.successful_test_count());
        for (const auto &[reason, count] : left_out_)
            std::printf("left out, %d scenarios: %s\n", count, reason.c_str());
    }

private:
    std::map<std::string, int> left_out_;
};

// Prints the traces of each scenario that has any.
class TracePrinter : public testing::EmptyTestEventListener {
public:
    void OnTestPartResult(const testing::TestPartResult &part) override {
        if (part.failed())
            std::fprintf(stderr, "%s:%d: %s\n", part.file_name() ? part.file_name() : "?", part.line_number(),
                         part.message());
    }
    void OnTestEnd(const testing::TestInfo &test) override {
        if (conformance::traces.empty() || !test.result()->Passed() || test.result()->Skipped()) return;
        std::printf("trace %s:", name_of(test).c_str());
        for (const std::string &trace : conformance::traces) std::printf(" %s", trace.c_str());
        std::printf("\n");
    }
};

void print_by(testing::TestEventListener *printer) {
    testing::TestEventListeners &listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(printer);
}

// ---- many seeds -----------------------------------------------------------------------------------------------------

struct Run {
    long seed = 0;
    pid_t pid = -1;
    int output = -1; // its standard output
    std::string filter;
    char *running = nullptr; // the scenario that it was in
    int *ran = nullptr;      // how many it ran, or NONE_MATCHED, when it had come to its end; 0 until then
};

[[noreturn]] void die(const char *what) {
    std::perror(what);
    std::exit(2);
}

void *shared_memory(size_t size) {
    void *memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

// Starts a run under a seed in its own process.
Run begin(long seed, const std::string &filter) {
    Run run;
    run.seed = seed;
    run.filter = filter;
    run.output = ::memfd_create("conformance", 0);
    run.running = static_cast<char *>(shared_memory(RUNNING_SIZE + sizeof(int)));
    if (run.output < 0 || !run.running) die("no memory for a run");
    run.ran = reinterpret_cast<int *>(run.running + RUNNING_SIZE);
    std::fflush(nullptr);
    run.pid = ::fork();
    if (run.pid < 0) die("no process for a run");
    if (run.pid != 0) return run;
    running = run.running;
    ::setenv("FIBERRT_SEED", std::to_string(seed).c_str(), 1);
    ::dup2(run.output, 1);
    ::dup2(run.output, 2);
    ::close(run.output);
    const rlimit cpu = {SEED_SECONDS, SEED_SECONDS}; // which ends it also if it never waits
    ::setrlimit(RLIMIT_CPU, &cpu);
    ::alarm(SEED_SECONDS);
    GTEST_FLAG_SET(filter, filter);
    const int result = RUN_ALL_TESTS();
    std::fflush(nullptr);
    const int ran = testing::UnitTest::GetInstance()->test_to_run_count();
    *run.ran = ran ? ran : NONE_MATCHED;
    ::_exit(result);
}

std::string contents(int fd) {
    std::string text;
    char chunk[4096];
    ::lseek(fd, 0, SEEK_SET);
    for (ssize_t got; (got = ::read(fd, chunk, sizeof chunk)) > 0;) text.append(chunk, static_cast<size_t>(got));
    return text;
}

void release(Run &run) {
    ::close(run.output);
    ::munmap(run.running, RUNNING_SIZE + sizeof(int));
}

bool fails_alone(long seed, const std::string &scenario) {
    Run run = begin(seed, scenario);
    int status = 0;
    while (::waitpid(run.pid, &status, 0) < 0)
        if (errno != EINTR) die("waitpid");
    const bool failed = status != 0 || *run.ran <= 0;
    release(run);
    return failed;
}

void report(const Run &run, int status) {
    std::printf("%s", contents(run.output).c_str());
    ::setenv("FIBERRT_SEED", std::to_string(run.seed).c_str(), 1);
    if (!run.running[0]) return; // it ended by itself, and has reported the failures
    const std::string scenario = run.running;
    std::printf("%s ended its process on sim, seed %ld, %s %d\n", scenario.c_str(), run.seed,
                WIFSIGNALED(status) ? "by signal" : "with status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

// The failure is repeated by the scenario alone if that fails too, else by all that ran before it.
void report_replay(const Run &run, const std::string &first_failed) {
    if (first_failed.empty()) return;
    if (fails_alone(run.seed, first_failed))
        std::printf("seed %ld: it fails alone as well:\n  %s\n", run.seed, replay(first_failed).c_str());
    else
        std::printf("seed %ld: it fails only after those before it:\n  %s\n", run.seed,
                    replay(run.filter, " --gtest_fail_fast").c_str());
}

std::string first_failed_in(const Run &run) {
    if (run.running[0]) return run.running;
    const std::string text = contents(run.output);
    const size_t end = text.find(" failed on sim");
    if (end == std::string::npos) return "";
    const size_t line = text.rfind('\n', end);
    const size_t from = line == std::string::npos ? 0 : line + 1;
    return text.substr(from, end - from);
}

// Keeps the scenarios' files in memory: a run must not wait for a disk, to which the simulation writes nothing.
void keep_files_in_memory() {
    struct statfs memory = {};
    const char *folder = "/dev/shm/";
    if (::statfs(folder, &memory) != 0 || memory.f_type != TMPFS_MAGIC || ::access(folder, W_OK) != 0) return;
    ::setenv("TEST_TMPDIR", folder, 0);
}

void begin_to_measure() {
    const testing::UnitTest &unit = *testing::UnitTest::GetInstance();
    for (int i = 0; i < unit.total_test_suite_count(); i++)
        for (int j = 0; j < unit.GetTestSuite(i)->total_test_count(); j++)
            places.emplace(name_of(*unit.GetTestSuite(i)->GetTestInfo(j)), places.size());
    spent = static_cast<Spent *>(shared_memory(places.size() * sizeof(Spent))); // zeroes
}

void print_slowest(size_t most) {
    std::vector<std::pair<int64_t, std::string>> by_time;
    int64_t cpu_ns = 0, clock_ns = 0;
    for (const auto &[name, place] : places) {
        by_time.emplace_back(spent[place].cpu_ns, name);
        cpu_ns += spent[place].cpu_ns;
        clock_ns += spent[place].clock_ns;
    }
    std::sort(by_time.rbegin(), by_time.rend());
    std::printf("%zu scenarios: %.2f s of processor time, %.2f s of the clock\n", places.size(), 1e-9 * double(cpu_ns),
                1e-9 * double(clock_ns));
    for (size_t i = 0; i < std::min(most, by_time.size()); i++) {
        const Spent &one = spent[places[by_time[i].second]];
        const double runs = double(std::max<int64_t>(one.runs, 1));
        std::printf("%9.3f ms, %9.3f ms of the clock: %s\n", 1e-6 * double(one.cpu_ns) / runs,
                    1e-6 * double(one.clock_ns) / runs, by_time[i].second.c_str());
    }
}

int run_seeds(long first, long last, long jobs) {
    if (!support::simulated()) {
        std::fprintf(stderr, "--seeds is for the simulation: set FIBERRT_BACKEND=sim\n");
        return 2;
    }
    print_by(new Brief);
    keep_files_in_memory();
    const std::string filter = GTEST_FLAG_GET(filter);
    std::vector<Run> runs;
    const int64_t begun = ns_of(CLOCK_MONOTONIC);
    int failures = 0;
    long passed = 0;
    bool matched = true;
    for (long next = first; next <= last || !runs.empty();) {
        if (next <= last && static_cast<long>(runs.size()) < jobs && failures < FAILURES_ENOUGH && matched) {
            runs.push_back(begin(next, filter));
            next++;
            continue;
        }
        if (runs.empty()) break;
        int status = 0;
        const pid_t ended = ::waitpid(-1, &status, 0);
        if (ended < 0 && errno != EINTR) die("waitpid");
        auto found = std::find_if(runs.begin(), runs.end(), [&](const Run &run) { return run.pid == ended; });
        if (found == runs.end()) continue;
        Run run = *found;
        runs.erase(found);
        if (status == 0 && *run.ran == NONE_MATCHED) {
            matched = false;
        } else if (status == 0 && *run.ran > 0) { // else the run ended its process in the middle
            if (passed++ == 0) std::printf("seed %ld: %s", run.seed, contents(run.output).c_str());
        } else {
            failures++;
            report(run, status);
            std::fflush(stdout);
            report_replay(run, first_failed_in(run));
        }
        std::fflush(stdout);
        release(run);
    }
    if (!matched) {
        std::fprintf(stderr, "no scenario matches %s\n", filter.c_str());
        return 1;
    }
    rusage used = {};
    ::getrusage(RUSAGE_CHILDREN, &used);
    const double cpu = double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                       1e-6 * double(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    std::printf("sim, seeds %ld to %ld: %ld passed, %d failed; %.1f s, %.1f s of processors' time\n", first, last,
                passed, failures, 1e-9 * double(ns_of(CLOCK_MONOTONIC) - begun), cpu);
    return failures != 0;
}

} // namespace

int main(int argc, char **argv) {
    program = argv[0];
    static char own[RUNNING_SIZE];
    running = own;
    testing::InitGoogleTest(&argc, argv);
    testing::UnitTest::GetInstance()->listeners().Append(new Reporter);
    long first = 0, last = 0, jobs = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)), slowest = 0;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        const std::string option = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (option == "--trace") {
            trace = true;
        } else if (option == "--seeds" && std::sscanf(value, "%ld-%ld", &first, &last) == 2 && first > 0 &&
                   last >= first) {
            i++;
        } else if (option == "--jobs" && std::sscanf(value, "%ld", &jobs) == 1 && jobs > 0) {
            i++;
        } else if (option == "--slowest" && std::sscanf(value, "%ld", &slowest) == 1 && slowest > 0) {
            i++;
        } else {
            std::fprintf(stderr,
                         "usage: %s [--trace | --seeds FIRST-LAST [--jobs N] [--slowest N]] "
                         "[GoogleTest's options]\n",
                         program);
            return 2;
        }
    }
    if (first) {
        if (slowest) begin_to_measure();
        const int result = run_seeds(first, last, jobs);
        if (slowest) print_slowest(static_cast<size_t>(slowest));
        return result;
    }
    if (trace) print_by(new TracePrinter);
    return RUN_ALL_TESTS();
}
