// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Helpers for the benchmarks' subjects: the shapes, the loops with their call sites, and the frame around Google
// Benchmark. A subject is one executable; its benchmarks are named "bench/shape".
#ifndef FIBERRT_BENCH_BENCH_H
#define FIBERRT_BENCH_BENCH_H

#include <benchmark/benchmark.h>

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Which call instruction leads to a switch decides how well the processor predicts the way back. A function marked
// BENCH_EXACT stays the one copy that was written.
#ifdef __clang__
#define BENCH_EXACT __attribute__((noinline))
#else
#define BENCH_EXACT __attribute__((noipa))
#endif

namespace bench {

// The stacks of all subjects that let the benchmark choose the size: a stack's place costs cache and TLB misses, so all
// subjects get the same stacks.
constexpr size_t stack_bytes = 32768;

// A switch called `count` times; false if one of them failed.
using Loop = bool (*)(long count);

// A number that depends on `index` only, without a pattern to learn (splitmix64).
constexpr uint64_t scatter(long index) {
    uint64_t x = (static_cast<uint64_t>(index) + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// The numbers 0 ... count - 1: in order, or in an order that is the same at each run and has no pattern.
inline std::vector<long> order_of(long count, bool shuffled) {
    std::vector<long> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); shuffled && i > 1; i--) {
        std::swap(order[i - 1], order[scatter(static_cast<long>(i)) % i]);
    }
    return order;
}

// ---------------------------------------------------------------------------------------------------------------------
// Worlds: the fibers of one benchmark, made before the clock runs
// ---------------------------------------------------------------------------------------------------------------------

// Google Benchmark calls a benchmark several times to find out how often to repeat it. The fibers live on between these
// calls, so that making 100,000 of them is paid once. There is one world at a time: the next benchmark ends it first.
class Worlds {
public:
    template <class World, class... Args>
    static World &get(const std::string &name, Args... args) {
        if (name_ != name) {
            end();
            world_ = std::make_shared<World>(args...);
            name_ = name;
        }
        return *static_cast<World *>(world_.get());
    }

    static void end() {
        world_.reset();
        name_.clear();
    }

private:
    static inline std::string name_;
    static inline std::shared_ptr<void> world_;
};

// Registers the benchmark `name`. World(args...) makes its fibers; World::run(rounds) runs the measured code, and
// returns false if a call failed. One round counts as `per_round` of the unit (a switch, a round trip, a fiber).
template <class World, class... Args>
void add(const std::string &name, long per_round, Args... args) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State &state) {
        try {
            World &world = Worlds::get<World>(name, args...);
            const long rounds = std::max(1L, 10000 / per_round); // so long that the loop outside does not count
            while (state.KeepRunningBatch(rounds * per_round)) {
                if (!world.run(rounds)) {
                    state.SkipWithError("a call of the subject failed");
                    break;
                }
            }
        } catch (const std::exception &error) {
            state.SkipWithError(error.what());
        }
    });
}

// lock: uncontended. with_threads: the process has another thread.
template <class Mutex>
class FreeLock {
public:
    explicit FreeLock(bool with_threads) {
        if (with_threads) {
            std::thread([] { pause(); }).detach();
        }
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            mutex_.lock();
            mutex_.unlock();
        }
        return true;
    }

private:
    Mutex mutex_;
};

template <class Mutex>
void add_lock() {
    add<FreeLock<Mutex>>("lock/free", 1, false);
    add<FreeLock<Mutex>>("lock/free-threads", 1, true);
}

// The report of a benchmark that runs once, under the names that run.py knows.
using Figures = std::vector<std::pair<const char *, double>>;

// Registers a benchmark that is run once in its process, because it is long, or because only the first run counts.
template <class Measure>
void add_once(const std::string &name, Measure measure) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State &state) {
        try {
            for (auto _ : state) {
                for (const auto &[figure, value] : measure()) {
                    state.counters[figure] = value;
                }
            }
        } catch (const std::exception &error) {
            state.SkipWithError(error.what());
        }
    })->Iterations(1);
}

// The last fibers are not ended: a million of them would take seconds, to no use.
inline int run_main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    benchmark::RunSpecifiedBenchmarks();
    fflush(nullptr);
    _exit(0);
}

// The processor time that this process has taken so far, of all its threads, in ns.
inline double cpu_time_ns() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// ---------------------------------------------------------------------------------------------------------------------
// yield: all fibers of a ring give way, one after the other
// ---------------------------------------------------------------------------------------------------------------------

constexpr int numbered_sites = 16;

// The numbered call site of the fiber with this index: fixed, but without a pattern to learn.
constexpr int site_of(long index) { return static_cast<int>(scatter(index) % numbered_sites); }

// The loops around Subject::yield(). Each function is one call site.
template <class Subject>
struct Loops {
    BENCH_EXACT static bool first(long count) {
        for (; count > 0; count--) {
            if (!Subject::yield()) {
                return false;
            }
        }
        return true;
    }

    BENCH_EXACT static bool second(long count) {
        for (; count > 0; count--) {
            if (!Subject::yield()) {
                return false;
            }
        }
        return true;
    }

    // The padding puts the sites at unlike places of their cache lines.
    template <int site>
    BENCH_EXACT static bool numbered(long count) {
        for (; count > 0; count--) {
            if (!Subject::yield()) {
                return false;
            }
            asm volatile("# call site %c0\n\t.skip %c1, 0x90" : : "i"(site), "i"(site % 5 * 16 + 1) : "memory");
        }
        return true;
    }

    // The empty asm keeps the calls from becoming jumps.
    BENCH_EXACT static bool deep1() {
        bool ok = Subject::yield();
        asm volatile("" : : : "memory");
        return ok;
    }

    BENCH_EXACT static bool deep2() {
        bool ok = deep1();
        asm volatile("" : : : "memory");
        return ok;
    }

    BENCH_EXACT static bool deep3() {
        bool ok = deep2();
        asm volatile("" : : : "memory");
        return ok;
    }

    BENCH_EXACT static bool first_deep(long count) {
        for (; count > 0; count--) {
            if (!deep3()) {
                return false;
            }
        }
        return true;
    }

    BENCH_EXACT static bool second_deep(long count) {
        for (; count > 0; count--) {
            if (!deep3()) {
                return false;
            }
        }
        return true;
    }

    static Loop loop_first(long) { return first; }
    static Loop loop_second(long) { return second; }
    static Loop loop_second_deep(long) { return second_deep; }

    static Loop loop_numbered(long index) {
        static constexpr Loop all[numbered_sites] = {numbered<0>,  numbered<1>,  numbered<2>,  numbered<3>,
                                                     numbered<4>,  numbered<5>,  numbered<6>,  numbered<7>,
                                                     numbered<8>,  numbered<9>,  numbered<10>, numbered<11>,
                                                     numbered<12>, numbered<13>, numbered<14>, numbered<15>};
        return all[site_of(index)];
    }
};

// A shape of yield: the main flow runs `main_loop`, each other fiber the loop that `loop_of` gives for its index.
struct YieldShape {
    const char *name;
    long fibers; // the main flow is one of them
    Loop main_loop;
    Loop (*loop_of)(long index);
    bool shuffled = false; // they run in an order unlike that in which they and their stacks were made
};

inline long started; // fibers of the present world that run

// The function of a fiber of yield: its loop, until the subject ends it.
inline void enter(Loop loop) {
    started++;
    loop(LONG_MAX);
}

// Subject::Crowd(count, loop_of, shuffled) makes `count` fibers; number i runs enter(loop_of(i)) once the main flow
// gives way, in the order of order_of(count, shuffled); its destructor ends them. Shuffled fibers, too, have their
// stacks in the order of their numbers: fibers of a scheduler have started before, and parked, and are woken in the
// shuffled order. Subject::yield() lets each of the others run once; false means that it failed.
template <class Subject>
class YieldWorld {
public:
    explicit YieldWorld(const YieldShape &shape)
        : crowd_(shape.fibers - 1, shape.loop_of, shape.shuffled), main_loop_(shape.main_loop) {
        started = 0; // they start at the first yield
        if (!main_loop_(2)) {
            throw std::runtime_error("a yield failed");
        }
        if (started != shape.fibers - 1) {
            throw std::runtime_error("only " + std::to_string(started + 1) + " of " + std::to_string(shape.fibers) +
                                     " fibers run");
        }
    }

    bool run(long rounds) { return main_loop_(rounds); }

private:
    typename Subject::Crowd crowd_;
    Loop main_loop_;
};

template <class Subject>
std::vector<YieldShape> yield_shapes() {
    using L = Loops<Subject>;
    return {
        {"same", 2, L::first, L::loop_first},
        {"different", 2, L::first, L::loop_second},
        {"1000", 1000, L::first, L::loop_first},
        {"100000", 100000, L::first, L::loop_first},
        {"1000x16", 1000, L::first, L::loop_numbered},
        {"deep3", 2, L::first_deep, L::loop_second_deep},
        {"shuffled1000", 1000, L::first, L::loop_first, true},
        {"shuffled100000", 100000, L::first, L::loop_first, true},
    };
}

template <class Subject>
void add_yield(const YieldShape &shape) {
    add<YieldWorld<Subject>>(std::string("yield/") + shape.name, shape.fibers, shape);
}

// scale: one loop with ever more fibers, to draw as a curve.
inline constexpr const char *scale_shapes[] = {"10", "100", "1000", "10000", "100000", "1000000"};

template <class Subject>
void add_scale() {
    for (const char *name : scale_shapes) {
        YieldShape shape = {name, std::stol(name), Loops<Subject>::first, Loops<Subject>::loop_first};
        add<YieldWorld<Subject>>(std::string("scale/") + name, shape.fibers, shape);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// spawnbatch, sleep: many fibers are made before any of them runs; then all run, and are joined
// ---------------------------------------------------------------------------------------------------------------------

constexpr long batch_fibers = 100000;

inline long batch_done;

inline void end_at_once(long) { batch_done++; }

// Subject::batch(count, body) makes `count` fibers, lets them run, number i as body(i), and joins them.
template <class Subject>
Figures spawn_batch() {
    batch_done = 0;
    double before = cpu_time_ns();
    Subject::batch(batch_fibers, end_at_once);
    double after = cpu_time_ns();
    if (batch_done != batch_fibers) {
        throw std::runtime_error("only " + std::to_string(batch_done) + " fibers have run");
    }
    return {{"ns_per_fiber", (after - before) / batch_fibers}};
}

// sleep: CPU time only; a run takes nine seconds in every subject. Subject::sleep(nanoseconds), from a fiber.
template <class Subject>
void sleep_ten_times(long index) {
    for (long i = 0; i < 10; i++) {
        Subject::sleep(static_cast<int64_t>(scatter(index * 10 + i) % 1000000000));
    }
    batch_done++;
}

template <class Subject>
Figures sleep_batch() {
    batch_done = 0;
    double before = cpu_time_ns();
    Subject::batch(batch_fibers, sleep_ten_times<Subject>);
    double after = cpu_time_ns();
    if (batch_done != batch_fibers) {
        throw std::runtime_error("only " + std::to_string(batch_done) + " fibers have slept");
    }
    return {{"cpu_s", (after - before) / 1e9}};
}

// ---------------------------------------------------------------------------------------------------------------------
// memory: fibers that have run and are parked
// ---------------------------------------------------------------------------------------------------------------------

struct Memory {
    double bytes = 0;    // resident, and page tables
    double mappings = 0; // entries of the kernel's list
};

inline double kilobytes(const char *file, const std::string &field) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        if (line.compare(0, field.size() + 1, field + ":") == 0) {
            return std::stod(line.substr(field.size() + 1));
        }
    }
    throw std::runtime_error(std::string("no ") + field + " in " + file);
}

// Rss of smaps_rollup is counted when it is asked for; VmRSS of status may lag.
inline Memory memory_now() {
    Memory now;
    now.bytes = 1024 * (kilobytes("/proc/self/smaps_rollup", "Rss") + kilobytes("/proc/self/status", "VmPTE"));
    std::ifstream lines("/proc/self/maps");
    for (std::string line; std::getline(lines, line);) {
        now.mappings++;
    }
    return now;
}

inline std::vector<const char *> parked; // for each parked fiber an address in its frame

// The work of a fiber of memory before it parks.
BENCH_EXACT inline void about_to_park() {
    parked.push_back(reinterpret_cast<const char *>(__builtin_frame_address(0)));
}

// Whether the kernel lets this process read there: it tries to have the kernel copy a byte.
inline bool readable(const char *address) {
    static int ends[2] = {-1, -1};
    if (ends[0] < 0 && pipe(ends) != 0) {
        throw std::runtime_error("no pipe");
    }
    char byte;
    return write(ends[1], address, 1) == 1 && read(ends[0], &byte, 1) == 1;
}

// Whether a stack that overflows meets a page which it cannot use, before it meets its neighbour.
inline bool guarded(const char *frame, size_t stack) {
    constexpr size_t page = 4096;
    const char *at = frame - reinterpret_cast<uintptr_t>(frame) % page;
    for (const char *end = at - stack; at >= end; at -= page) {
        if (!readable(at)) {
            return true;
        }
    }
    return false;
}

// Subject::park(count, stack) makes `count` detached fibers on stacks of that size, lets each call about_to_park() and
// then park for good, and comes back.
template <class Subject>
Figures park_all(long count, size_t stack) {
    parked.assign(static_cast<size_t>(count), nullptr); // touched, so that it does not count
    parked.clear();
    memory_now(); // the memory that reading takes is allocated before, too
    Memory before = memory_now();
    Subject::park(count, stack);
    if (static_cast<long>(parked.size()) != count) {
        throw std::runtime_error("fails at " + std::to_string(parked.size()));
    }
    Memory after = memory_now();
    constexpr size_t probes = 100;
    size_t guards = 0;
    for (size_t i = 0; i < probes; i++) {
        guards += guarded(parked[parked.size() * i / probes], stack);
    }
    return {{"bytes", (after.bytes - before.bytes) / static_cast<double>(count)},
            {"mappings", after.mappings},
            {"guards", 100.0 * static_cast<double>(guards) / probes}};
}

template <class Subject>
void add_memory(const char *shape, long count, size_t stack) {
    add_once(std::string("memory/") + shape, [=] { return park_all<Subject>(count, stack); });
}

// The benchmarks of all schedulers.
template <class Subject>
void add_crowds() {
    add_scale<Subject>();
    add_once("spawnbatch/100000", spawn_batch<Subject>);
    add_memory<Subject>("10000", 10000, stack_bytes);
    add_memory<Subject>("100000", 100000, stack_bytes);
    add_memory<Subject>("1000000", 1000000, stack_bytes);
}

} // namespace bench

#endif
