// SPDX-License-Identifier: MIT OR Apache-2.0
//
// crosswake: a round trip between two threads, each on its own processor: one asks, the other answers.
//
// "awake": one trip follows the other, as fast as they can. "asleep": each trip begins when the other thread is seen
// asleep, and has been for a moment; so it must be woken, and most of the trip's cost is the kernel's.
#ifndef FIBERRT_BENCH_CROSSWAKE_H
#define FIBERRT_BENCH_CROSSWAKE_H

#include "bench.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>

namespace bench {

// Pins the calling thread to the processor with that number, counted among those allowed when the process began.
inline void pin_thread(int number) {
    static const cpu_set_t all = [] {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        return set;
    }();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && number-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
    }
    throw std::runtime_error("it takes two processors");
}

inline std::atomic<long> other_thread; // its number in the kernel

// The other thread's first action.
inline void begin_other() {
    pin_thread(1);
    other_thread = syscall(SYS_gettid);
}

inline double now_ns() { return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count()); }

inline bool is_asleep(int stat) {
    char text[512];
    ssize_t length = pread(stat, text, sizeof text - 1, 0);
    if (length <= 0) {
        throw std::runtime_error("no state of the other thread");
    }
    text[length] = 0;
    return std::string(text).find(") S ") != std::string::npos;
}

inline double median_of(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

// Pair() starts the other side, which calls begin_other(); trip() makes one round trip. The medians let a time slice
// that other programs took not count.
template <class Pair>
Figures trips_awake() {
    pin_thread(0);
    Pair pair;
    constexpr int batches = 300;
    constexpr int trips = 200;
    std::vector<double> times;
    for (int batch = 0; batch < batches; batch++) {
        double start = now_ns();
        for (int i = 0; i < trips; i++) {
            pair.trip();
        }
        times.push_back((now_ns() - start) / trips);
    }
    return {{"ns_per_trip", median_of(times)}};
}

template <class Pair>
Figures trips_asleep() {
    pin_thread(0);
    Pair pair;
    pair.trip(); // now the other side is known to run
    int stat = open(("/proc/self/task/" + std::to_string(other_thread) + "/stat").c_str(), O_RDONLY);
    std::vector<double> times;
    for (int i = 0; i < 1000; i++) {
        constexpr double moment_ns = 20'000;
        for (double since = now_ns(); now_ns() - since < moment_ns;) {
            if (!is_asleep(stat)) {
                since = now_ns();
            }
        }
        double start = now_ns();
        pair.trip();
        times.push_back(now_ns() - start);
    }
    return {{"ns_per_trip", median_of(times)}};
}

} // namespace bench

#endif
