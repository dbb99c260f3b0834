// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the subjects of the benchmarks share: the shapes, the loops with their call sites, and the frame around Google
// Benchmark. A subject is one executable; its benchmarks are named "bench/shape".
#ifndef FIBERRT_BENCH_BENCH_H
#define FIBERRT_BENCH_BENCH_H

#include <benchmark/benchmark.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Which call instruction leads to a switch decides how well the processor predicts the way back. A function marked
// BENCH_EXACT stays the one copy that was written.
#ifdef __clang__
#define BENCH_EXACT __attribute__((noinline))
#else
#define BENCH_EXACT __attribute__((noipa))
#endif

namespace bench {

// The stacks of all subjects that can be told: where a stack lies costs cache and TLB misses, so they all get the same.
constexpr size_t stack_bytes = 32768;

// A switch called `count` times; false if one of them failed.
using Loop = bool (*)(long count);

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

// Registers the benchmark `name`. World(args...) makes its fibers; World::run(rounds) does what is measured, and
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

inline int run_main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    benchmark::RunSpecifiedBenchmarks();
    Worlds::end();
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// yield: all fibers of a ring give way, one after the other
// ---------------------------------------------------------------------------------------------------------------------

constexpr int numbered_sites = 16;

// Which of the numbered call sites the fiber with this index uses: fixed, but without a pattern to learn (splitmix64).
constexpr int site_of(long index) {
    uint64_t x = static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return static_cast<int>((x ^ (x >> 31)) % numbered_sites);
}

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
        static constexpr Loop all[numbered_sites] = {
            numbered<0>,  numbered<1>,  numbered<2>,  numbered<3>, numbered<4>,  numbered<5>,
            numbered<6>,  numbered<7>,  numbered<8>,  numbered<9>, numbered<10>, numbered<11>,
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
};

inline long started; // fibers of the present world that run

// What a fiber of yield does: its loop, until the subject ends it.
inline void enter(Loop loop) {
    started++;
    loop(LONG_MAX);
}

// Subject::Crowd(count, loop_of) makes `count` fibers, of which number i runs enter(loop_of(i)) once the main flow
// gives way; its destructor ends them. Subject::yield() lets each of the others run once; false means that it failed.
template <class Subject>
class YieldWorld {
public:
    explicit YieldWorld(const YieldShape &shape)
        : crowd_(shape.fibers - 1, shape.loop_of), main_loop_(shape.main_loop) {
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
    };
}

template <class Subject>
void add_yield(const YieldShape &shape) {
    add<YieldWorld<Subject>>(std::string("yield/") + shape.name, shape.fibers, shape);
}

} // namespace bench

#endif
