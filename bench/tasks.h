// SPDX-License-Identifier: MIT OR Apache-2.0
//
// task: empty tasks for a scheduler that runs them on some threads: the benchmark submits 10,000 at a time, and waits
// for them.
#ifndef FIBERRT_BENCH_TASKS_H
#define FIBERRT_BENCH_TASKS_H

#include "crosswake.h"

#include <chrono>

namespace bench {

constexpr long tasks_at_a_time = 10000;
constexpr int task_batches = 50;

// Subject(workers) makes the scheduler; run(count) gives it so many tasks, and waits for all; inside(body) calls body()
// in a task, and waits for it. The median leaves out a time slice that another program got.
template <class Subject>
Figures tasks(int workers, bool from_task) {
    Subject subject(workers);
    std::vector<double> times;
    auto body = [&] {
        for (int i = 0; i < task_batches; i++) {
            const auto begun = std::chrono::steady_clock::now();
            subject.run(tasks_at_a_time);
            const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begun;
            times.push_back(taken.count() / static_cast<double>(tasks_at_a_time));
        }
    };
    if (from_task) {
        subject.inside(body);
    } else {
        body();
    }
    return {{"ns_per_task", median_of(times)}};
}

template <class Subject>
void add_tasks() {
    for (int workers : {1, 2}) {
        const std::string number = workers == 1 ? "one" : "two";
        add_once("task/" + number + "-main", [=] { return tasks<Subject>(workers, false); });
        add_once("task/" + number + "-task", [=] { return tasks<Subject>(workers, true); });
    }
}

} // namespace bench

#endif
