// SPDX-License-Identifier: MIT OR Apache-2.0
// Sweeps over the scenarios of the conformance suite, and those of scenarios.cc: the sweep runs each scenario again and
// again, and each time refuses another one of the library's calls for memory, mappings, descriptors, rings and threads.
//
//   conformance_faults --places [--uses N]   each place in the library that makes such a call is refused its first N
//                                            calls in one scenario, the fastest that comes there, or in as many as
//                                            --scenarios says
//   conformance_faults --calls [--most N]    in each scenario each call of each kind is refused, at most N of a kind,
//                                            evenly spread
//   ... [--kind NAME] [--shorter-than MILLISECONDS] [--every N] [--jobs N] [--verbose]
//   conformance_faults --one KIND|ADDRESS WHICH   runs the scenario that --gtest_filter names so, in this process
//
// A scenario knows nothing of this. A refusal may make it fail where it wanted success: the library told it. The
// scenario must not end its process, nor hang without having been told. It runs once more in the same process, with
// nothing refused: then it must pass. If it passed the first time, too, nothing may be left over: no library memory,
// descriptor, mapping or thread that would not be there anyway. A scenario that gives up when it is told (ASSERT_...),
// or returns without its fibers, leaves these behind in a world that is gone, and is not run again; a scenario that
// then waits for what it did not get is ended.
//
// Those of scenarios.cc ("Faults.") handle each refusal, and must pass whatever is refused.
//
// The scenarios run in children of this process, which never has a cord: each begins as the first one did.
#include "conformance/conformance.h"
#include "core/cord.h"
#include "core/stack_pool.h"
#include "fault_calls.h"
#include "io/offload.h"

#include <cinttypes>
#include <csignal>
#include <ctime>
#include <dirent.h>
#include <map>
#include <set>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace {

using faults::Kind;

constexpr int64_t HANGS_AFTER_MS = 30'000;     // far more than any scenario takes
constexpr int64_t TOLD_HANGS_AFTER_MS = 1'000; // after its first failure: it waits for a result that it did not get
constexpr int64_t LEFT_OVER_AFTER_MS = 500;    // resources that end on other threads have ended by then
constexpr int64_t TABLES = 256 * 1024;         // of handles, which are kept, and grow with how many there were at once
constexpr int64_t LONE_THREAD = 3;             // entries of /proc/self/task, with "." and ".."

[[noreturn]] void die(const char *what) {
    std::perror(what);
    std::exit(2);
}

int64_t now_ms() {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// The process's resources when a scenario has run.
struct Holdings {
    int64_t blocks, mapped, descriptors, threads;

    bool within(const Holdings &most) const {
        return blocks <= most.blocks && mapped <= most.mapped + TABLES && descriptors <= most.descriptors &&
               threads <= most.threads;
    }
    void raise_to(const Holdings &other) {
        blocks = std::max(blocks, other.blocks);
        mapped = std::max(mapped, other.mapped);
        descriptors = std::max(descriptors, other.descriptors);
        threads = std::max(threads, other.threads);
    }
};

int64_t entries_of(const char *folder) {
    DIR *dir = opendir(folder);
    if (!dir) return -1;
    int64_t count = 0;
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

Holdings holdings() {
    Holdings all = {0, faults::mapped, entries_of("/proc/self/fd"), entries_of("/proc/self/task")};
    for (auto &held : faults::held) all.blocks += held;
    return all;
}

enum class Stage : uint32_t { first, again, over };

// The report of a run's process to the process that watches it.
struct Report {
    faults::Shared calls;
    std::atomic<Stage> stage;
    std::atomic<int64_t> told_at_ms; // the first failure of the first run; 0: none
    std::atomic<bool> gave_up;
    std::atomic<bool> skipped, failed_again;
    std::atomic<int64_t> first_us; // how long the first run took
    Holdings left;
    int32_t held[faults::most_places]; // blocks of memory, by place
};

Report *report; // of this process

// In the place of GoogleTest's printer.
class Listener : public testing::EmptyTestEventListener {
public:
    void OnTestPartResult(const testing::TestPartResult &part) override {
        if (part.skipped()) report->skipped = true;
        if (!part.failed()) return;
        int64_t none = 0;
        if (report->stage == Stage::first) report->told_at_ms.compare_exchange_strong(none, now_ms());
        std::fprintf(stderr, "  %s:%d: %s\n", part.file_name() ? part.file_name() : "?", part.line_number(),
                     part.message());
        if (!part.fatally_failed() || report->stage != Stage::first) return;
        report->gave_up = true;
        _exit(0); // at once, while the objects that its fibers use still exist
    }
};

struct Refusal {
    uint64_t address = 0; // of a place; 0: the kind's calls are counted
    Kind kind = Kind::memory;
    uint32_t which = 0; // 0: none is refused
};

struct Job {
    std::string scenario;
    Refusal refusal;
    Holdings most = {}; // the resources that may be left
    int64_t limit_ms = HANGS_AFTER_MS;
    int tries = 0;
};

struct Run {
    Job job;
    pid_t pid = -1;
    int output = -1;
    Report *report = nullptr;
    int64_t begun_ms = 0;
    bool killed = false;
};

[[noreturn]] void run_child(const Job &job) {
    faults::shared = &report->calls;
    faults::Shared &calls = report->calls;
    calls.address = job.refusal.address;
    calls.kind = job.refusal.kind;
    calls.which = job.refusal.which;
    GTEST_FLAG_SET(filter, job.scenario);
    fiberrt::offload_idle_ns = 20'000'000; // then threads for which there is no work end
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    timespec begun = {}, ended = {};
    clock_gettime(CLOCK_MONOTONIC, &begun);
    const int failed = RUN_ALL_TESTS();
    clock_gettime(CLOCK_MONOTONIC, &ended);
    report->first_us = (ended.tv_sec - begun.tv_sec) * 1'000'000 + (ended.tv_nsec - begun.tv_nsec) / 1000;
    calls.over = true;
    report->stage = Stage::again;
    if (failed && !report->told_at_ms) report->told_at_ms = now_ms();
    if (failed && fiberrt::this_cord && fiberrt::this_cord->counts.live) {
        report->gave_up = true;
        _exit(0);
    }
    const bool counting = job.refusal.which == 0;
    if (counting && report->first_us > 1000 * job.limit_ms / 2) _exit(0); // it is not swept
    report->failed_again = RUN_ALL_TESTS() != 0;
    fiberrt::cord_close(); // with the memory that it keeps for its fibers
    for (int64_t until = now_ms() + LEFT_OVER_AFTER_MS;; usleep(1000)) {
        report->left = holdings();
        if (counting ? report->left.threads == LONE_THREAD : report->left.within(job.most)) break;
        if (now_ms() > (counting ? until - LEFT_OVER_AFTER_MS / 2 : until)) break;
    }
    for (uint32_t i = 0; i < faults::most_places; i++) report->held[i] = faults::held[i];
    report->stage = Stage::over;
    std::fflush(nullptr);
    _exit(0);
}

Run begin(const Job &job) {
    Run run;
    run.job = job;
    run.output = memfd_create("conformance_faults", MFD_CLOEXEC);
    void *memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.output < 0 || memory == MAP_FAILED) die("no memory for a run");
    run.report = static_cast<Report *>(memory); // each part of it starts as zeroes
    run.begun_ms = now_ms();
    std::fflush(nullptr);
    run.pid = fork();
    if (run.pid < 0) die("no process for a run");
    if (run.pid) {
        setpgid(run.pid, run.pid);
        return run;
    }
    setpgid(0, 0); // a scenario's own children end with it
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    report = run.report;
    dup2(run.output, 1);
    dup2(run.output, 2);
    close_range(3, ~0u, 0); // of other runs, too
    run_child(job);
}

std::string contents(int fd) {
    std::string text;
    char chunk[4096];
    lseek(fd, 0, SEEK_SET);
    for (ssize_t got; (got = read(fd, chunk, sizeof chunk)) > 0;) text.append(chunk, size_t(got));
    return text;
}

void release(Run &run) {
    kill(-run.pid, SIGKILL);
    close(run.output);
    munmap(run.report, sizeof(Report));
}

// Whether the run has lasted for longer than it may.
bool overdue(const Run &run, int64_t now) {
    if (now - run.begun_ms > run.job.limit_ms) return true;
    const int64_t told = run.report->told_at_ms;
    return told && run.job.refusal.which && now - told > TOLD_HANGS_AFTER_MS + LEFT_OVER_AFTER_MS;
}

// Runs jobs, some at a time, and has each run judged when it has ended: next() returns the next job, or false if there
// is none at the moment; ended() may make more.
template <class Next, class Ended>
void run_all(size_t at_once, Next next, Ended ended) {
    std::vector<Run> runs;
    for (;;) {
        Job job;
        while (runs.size() < at_once && next(job)) runs.push_back(begin(job));
        if (runs.empty()) return;
        int status = 0;
        const pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno != EINTR) die("waitpid");
        if (pid > 0) {
            auto found = std::find_if(runs.begin(), runs.end(), [&](const Run &run) { return run.pid == pid; });
            if (found == runs.end()) continue;
            Run run = *found;
            runs.erase(found);
            ended(run, status);
            release(run);
            continue;
        }
        const int64_t now = now_ms();
        for (Run &run : runs)
            if (!run.killed && overdue(run, now)) {
                run.killed = true;
                kill(-run.pid, SIGKILL);
            }
        // SIGCHLD is blocked: it ends this wait.
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        const timespec some = {0, 20'000'000};
        sigtimedwait(&child, nullptr, &some);
    }
}

// The blocks of memory that are left, by the places where they were taken.
std::map<uint64_t, int32_t> blocks_by_place(const Report &report) {
    std::map<uint64_t, int32_t> blocks;
    for (uint32_t i = 0; i < faults::most_places; i++)
        if (report.held[i]) blocks[report.calls.places[i].address] = report.held[i];
    return blocks;
}

std::map<std::string, std::map<uint64_t, int32_t>> blocks_else; // by scenario, when nothing is refused

std::set<uint64_t> stack_places; // that are made for want of a stack

// Takes stacks by themselves, in a child, to see which places that comes by.
void find_stack_places() {
    void *memory = mmap(nullptr, sizeof(faults::Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory for a run");
    auto *calls = static_cast<faults::Shared *>(memory);
    const pid_t pid = fork();
    if (pid == 0) {
        using fiberrt::StackPool;
        faults::shared = calls;
        StackPool pool;
        for (auto guard : {StackPool::Guard::require, StackPool::Guard::prefer, StackPool::Guard::none})
            for (int i = 0; i < 200; i++) {
                uint8_t stack_class = StackPool::class_for(16384, guard);
                pool.take(stack_class);
            }
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) die("no stacks in a child");
    for (auto &place : calls->places)
        if (place.address) stack_places.insert(place.address);
    munmap(memory, sizeof(faults::Shared));
}

// ---- the calls that can be refused ----------------------------------------------------------------------------------

struct Count {
    uint64_t address;
    Kind kind;
    uint32_t calls;
};

struct Scenario {
    std::string name;
    int64_t us = 0;
    std::vector<Count> places;
    uint32_t calls[faults::kinds] = {};
    Holdings most = {};
};

struct Options {
    bool places = false, calls = false, verbose = false;
    uint32_t uses = 1, scenarios = 1, most = 100, every = 1;
    int kind = -1;
    int64_t shorter_than_ms = HANGS_AFTER_MS;
    size_t jobs = size_t(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
};

bool strict(const std::string &scenario) { return scenario.starts_with("Faults."); }

std::vector<std::string> scenarios_of_filter(uint32_t every) {
    // GoogleTest applies its filter when it runs tests, or lists them.
    std::fflush(stdout);
    const int output = dup(1), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    GTEST_FLAG_SET(list_tests, true);
    const int listed = RUN_ALL_TESTS();
    GTEST_FLAG_SET(list_tests, false);
    std::fflush(stdout);
    dup2(output, 1);
    close(output);
    close(nowhere);
    if (listed != 0) die("no list of scenarios");
    std::vector<std::string> names;
    uint32_t ordinal = 0;
    testing::UnitTest &unit = *testing::UnitTest::GetInstance();
    for (int i = 0; i < unit.total_test_suite_count(); i++)
        for (int j = 0; j < unit.GetTestSuite(i)->total_test_count(); j++) {
            const testing::TestInfo &test = *unit.GetTestSuite(i)->GetTestInfo(j);
            const std::string name = std::string(test.test_suite_name()) + "." + test.name();
            if (!test.should_run()) continue;
            if (strict(name) || ordinal++ % every == 0) names.push_back(name);
        }
    return names;
}

// Runs each scenario with nothing refused, and records its calls, its time and its leftovers.
std::vector<Scenario> count(const Options &options, const std::vector<std::string> &names) {
    std::vector<Scenario> all;
    size_t at = 0, too_long = 0, skipped = 0, not_twice = 0;
    auto next = [&](Job &job) {
        if (at == names.size()) return false;
        job.scenario = names[at++];
        job.limit_ms = 2 * options.shorter_than_ms;
        return true;
    };
    auto ended = [&](Run &run, int status) {
        Report &report = *run.report;
        if (report.skipped) {
            skipped++;
        } else if (run.killed || report.first_us > options.shorter_than_ms * 1000) {
            too_long++;
        } else if (status != 0 || report.stage != Stage::over || report.told_at_ms || report.failed_again) {
            not_twice++;
            std::printf("not swept, as it fails by itself, or if run twice: %s\n%s", run.job.scenario.c_str(),
                        contents(run.output).c_str());
        } else {
            Scenario scenario;
            scenario.name = run.job.scenario;
            scenario.us = report.first_us;
            scenario.most = report.left;
            blocks_else[scenario.name] = blocks_by_place(report);
            for (auto &place : report.calls.places)
                if (place.address && place.calls) scenario.places.push_back({place.address, place.kind, place.calls});
            for (int kind = 0; kind < faults::kinds; kind++) scenario.calls[kind] = report.calls.calls[kind];
            all.push_back(std::move(scenario));
        }
    };
    run_all(options.jobs, next, ended);
    std::sort(all.begin(), all.end(), [](const Scenario &a, const Scenario &b) {
        return strict(a.name) != strict(b.name) ? strict(a.name) : a.us < b.us;
    });
    std::printf("%zu scenarios; left out: %zu not for this backend, %zu longer than %" PRId64 " ms, %zu that fail\n",
                all.size(), skipped, too_long, options.shorter_than_ms, not_twice);
    return all;
}

std::vector<Job> jobs_of_places(const Options &options, const std::vector<Scenario> &all) {
    std::vector<Job> jobs;
    std::map<uint64_t, uint32_t> used, used_by_strict; // scenarios, by place
    size_t places[faults::kinds] = {};
    for (const Scenario &scenario : all)
        for (const Count &place : scenario.places) {
            if (options.kind >= 0 && int(place.kind) != options.kind) continue;
            if (!used[place.address] && !used_by_strict[place.address]) places[int(place.kind)]++;
            uint32_t &times = (strict(scenario.name) ? used_by_strict : used)[place.address];
            if (times >= options.scenarios && !strict(scenario.name)) continue;
            times++;
            for (uint32_t which = 1; which <= std::min(options.uses, place.calls); which++)
                jobs.push_back({scenario.name, {place.address, place.kind, which}, scenario.most});
        }
    for (int kind = 0; kind < faults::kinds; kind++)
        std::printf("%zu places for %s%s\n", places[kind], faults::kind_names[kind],
                    options.kind >= 0 && options.kind != kind ? ": not asked for" : "");
    return jobs;
}

std::vector<Job> jobs_of_calls(const Options &options, const std::vector<Scenario> &all) {
    std::vector<Job> jobs;
    for (const Scenario &scenario : all)
        for (int kind = 0; kind < faults::kinds; kind++) {
            if (options.kind >= 0 && kind != options.kind) continue;
            const uint32_t calls = scenario.calls[kind];
            const uint32_t some = std::min(calls, options.most);
            for (uint32_t i = 0; i < some; i++)
                jobs.push_back(
                    {scenario.name, {0, Kind(kind), uint32_t(uint64_t{i} * calls / some) + 1}, scenario.most});
        }
    return jobs;
}

// ---- the sweep ---------------------------------------------------------------------------------------------------------

const char *program;

std::string again(const Job &job) {
    char text[64];
    if (job.refusal.address)
        std::snprintf(text, sizeof text, "--one 0x%" PRIx64 " %u", job.refusal.address, job.refusal.which);
    else
        std::snprintf(text, sizeof text, "--one %s %u", faults::kind_names[int(job.refusal.kind)], job.refusal.which);
    const char *backend = getenv("FIBERRT_BACKEND");
    return std::string(backend ? std::string("FIBERRT_BACKEND=") + backend + " " : "") + program + " " + text +
           " --gtest_filter='" + job.scenario + "'";
}

struct Totals {
    size_t runs = 0, refused = 0, passed = 0, told = 0, gave_up = 0, stuck = 0, defects = 0;
    std::set<uint64_t> places;
};

// Describes what went wrong in a run; empty if nothing did.
std::string judge(const Run &run, int status, Totals &totals) {
    const Report &report = *run.report;
    const std::string &name = run.job.scenario;
    const bool told = report.told_at_ms != 0;
    char text[200];
    if (report.calls.refused) {
        totals.refused++;
        totals.places.insert(report.calls.refused_at);
    }
    if (told && strict(name)) return "failed, although it expects refusals";
    if (run.killed) {
        // A fiber that got no stack reports this only to its joiner, and the scenario may be waiting for the fiber's
        // work.
        if (!told && !stack_places.contains(report.calls.refused_at)) return "hangs, and was told of nothing";
        totals.stuck++;
        return "";
    }
    if (report.gave_up && status == 0) {
        totals.gave_up++;
        return "";
    }
    if (WIFSIGNALED(status) || report.stage != Stage::over) {
        std::snprintf(text, sizeof text, "ended its process: %s %d%s", WIFSIGNALED(status) ? "signal" : "status",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), told ? ", after it was told" : "");
        return text;
    }
    if (report.failed_again)
        return told ? "fails when nothing is refused any more, after it was told"
                    : "fails when nothing is refused any more";
    if (told) {
        totals.told++;
        return "";
    }
    Holdings most = run.job.most;
    if (run.job.refusal.kind == Kind::ring) most.descriptors++; // an eventfd for a doorbell that is a futex else
    if (report.calls.refused && !report.left.within(most)) {
        const Holdings &left = report.left;
        std::snprintf(text, sizeof text,
                      "left over: %" PRId64 " blocks of memory (else %" PRId64 "), %" PRId64 " bytes mapped (%" PRId64
                      "), %" PRId64 " descriptors (%" PRId64 "), %" PRId64 " threads (%" PRId64 ")",
                      left.blocks, most.blocks, left.mapped, most.mapped, left.descriptors, most.descriptors,
                      left.threads, most.threads);
        std::string all = text;
        for (const auto &[address, blocks] : blocks_by_place(report)) {
            const int32_t before = blocks_else[name][address];
            std::snprintf(text, sizeof text, "\n  taken at %#" PRIx64 ": %d blocks (%d)", address, blocks, before);
            if (blocks > before) all += text;
        }
        return all;
    }
    totals.passed++;
    return "";
}

int sweep(const Options &options) {
    const int64_t begun = now_ms();
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    find_stack_places();
    const std::vector<std::string> names = scenarios_of_filter(options.every);
    const std::vector<Scenario> all = count(options, names);
    if (options.verbose) std::printf("counted after %.1f s\n", 1e-3 * double(now_ms() - begun));
    std::vector<Job> jobs = options.places ? jobs_of_places(options, all) : jobs_of_calls(options, all);
    std::fflush(stdout);
    Totals totals;
    size_t at = 0;
    std::vector<Job> once_more;
    auto next = [&](Job &job) {
        if (!once_more.empty()) {
            job = once_more.back();
            once_more.pop_back();
            return true;
        }
        if (at == jobs.size()) return false;
        job = jobs[at++];
        return true;
    };
    auto ended = [&](Run &run, int status) {
        totals.runs++;
        const std::string wrong = judge(run, status, totals);
        if (options.verbose && run.report->told_at_ms)
            std::printf("told: %s%s\n%s", again(run.job).c_str(), run.killed ? " (stuck)" : "",
                        contents(run.output).c_str());
        if (wrong.empty()) return;
        // Leftovers and times depend on threads: they count only if they occur each time.
        Job job = run.job;
        if (wrong.starts_with("left over") && ++job.tries < 4) {
            once_more.push_back(job);
            return;
        }
        totals.defects++;
        std::printf("DEFECT: %s, place %#" PRIx64 ": %s\n%s  to see it again: %s\n", job.scenario.c_str(),
                    run.report->calls.refused_at.load(), wrong.c_str(), contents(run.output).c_str(),
                    again(job).c_str());
        std::fflush(stdout);
    };
    run_all(options.jobs, next, ended);
    std::printf(
        "%zu runs, %zu with a refused call, at %zu places: %zu passed, %zu reported it, %zu reported it and gave up, "
        "%zu waited for a result that never came; %zu defects; %.1f s\n",
        totals.runs, totals.refused, totals.places.size(), totals.passed, totals.told, totals.gave_up, totals.stuck,
        totals.defects, 1e-3 * double(now_ms() - begun));
    if (totals.refused == 0) {
        std::printf("nothing was refused: this has shown nothing\n");
        return 1;
    }
    return totals.defects != 0;
}

int run_one(const char *what, const char *which) {
    static faults::Shared shared;
    for (int kind = 0; kind < faults::kinds; kind++)
        if (strcmp(what, faults::kind_names[kind]) == 0) shared.kind = Kind(kind);
    shared.address = strtoull(what, nullptr, 0);
    shared.which = uint32_t(atoi(which));
    faults::shared = &shared;
    const int result = RUN_ALL_TESTS();
    std::printf("%s\n", shared.refused ? "one call was refused" : "nothing was refused");
    return result;
}

int kind_by_name(const std::string &name) {
    for (int kind = 0; kind < faults::kinds; kind++)
        if (name == faults::kind_names[kind]) return kind;
    std::fprintf(stderr, "there is no kind %s\n", name.c_str());
    std::exit(2);
}

} // namespace

int main(int argc, char **argv) {
    program = argv[0];
    testing::InitGoogleTest(&argc, argv);
    if (!GTEST_FLAG_GET(internal_run_death_test).empty()) return RUN_ALL_TESTS();
    if (argc == 4 && strcmp(argv[1], "--one") == 0) return run_one(argv[2], argv[3]);
    setenv("TEST_TMPDIR", "/dev/shm/", 0); // the scenarios' files
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string option = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        const long number = atol(value);
        if (option == "--places")
            options.places = true;
        else if (option == "--calls")
            options.calls = true;
        else if (option == "--verbose")
            options.verbose = true;
        else if (option == "--kind")
            options.kind = kind_by_name(argv[++i] ? value : "");
        else if (number > 0 && option == "--uses")
            options.uses = uint32_t(number), i++;
        else if (number > 0 && option == "--scenarios")
            options.scenarios = uint32_t(number), i++;
        else if (number > 0 && option == "--most")
            options.most = uint32_t(number), i++;
        else if (number > 0 && option == "--every")
            options.every = uint32_t(number), i++;
        else if (number > 0 && option == "--shorter-than")
            options.shorter_than_ms = number, i++;
        else if (number > 0 && option == "--jobs")
            options.jobs = size_t(number), i++;
        else
            options.places = options.calls = true; // says how it is used
    }
    if (options.places == options.calls) {
        std::fprintf(stderr,
                     "usage: %s --places [--uses N] [--scenarios N] | --calls [--most N]\n"
                     "    [--kind NAME] [--shorter-than MILLISECONDS] [--every N] [--jobs N] [--verbose]\n"
                     "or: %s --one KIND|ADDRESS WHICH --gtest_filter=SCENARIO\n",
                     program, program);
        return 2;
    }
    testing::TestEventListeners &listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Listener);
    return sweep(options);
}
