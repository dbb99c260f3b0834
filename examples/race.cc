// SPDX-License-Identifier: MIT OR Apache-2.0
//
// race.cc - fiberrt.hpp in one page: several fibers look for the same thing, the first to find it wins, and the whole
// search has a time limit. Then the threads of a pool add up numbers, and a channel brings the sums together.
//
//     race [MILLISECONDS]      the time limit of the search; default 1000
#include <cstdio>
#include <cstdlib>
#include <fiberrt.hpp>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

// One runner: each has its own pace, and runner 3 gives up. If the runner is cancelled, its sleep throws.
static std::string look(int who) {
    fiberrt::sleep_for(who * 20ms);
    if (who == 3) throw std::runtime_error("nothing to be found here");
    return "found by " + std::to_string(who);
}

// Returns the first answer, or throws if no runner has one. The losers are cancelled, and have ended when it returns.
static std::string race() {
    fiberrt::channel<std::string> answers(4);
    fiberrt::scope runners(FIBER_SCOPE_FIRST);
    for (int who : {5, 3, 2, 4}) {
        runners.spawn([answers, who] { answers.send(look(who)); });
    }
    runners.close();
    return *answers.recv();
}

static int add_up(int parts) {
    fiberrt::pool workers;
    fiberrt::channel<int> sums(static_cast<std::size_t>(parts));
    fiberrt::wait_group all(parts);
    for (int part = 0; part < parts; part++) {
        workers.submit([sums, all, part] { // by value: both live until the last task that captured them ends
            int sum = 0;
            for (int i = 0; i < 1000; i++) sum += part;
            sums.send(sum);
            all.done();
        });
    }
    all.wait();
    sums.close();
    int total = 0;
    for (int sum : sums) total += sum;
    return total;
}

int main(int argc, char **argv) {
    std::chrono::milliseconds patience(argc > 1 ? std::atoi(argv[1]) : 1000);
    try {
        if (auto answer = fiberrt::with_timeout(patience, race)) {
            std::printf("%s\n", answer->c_str());
        } else {
            std::printf("not found in time\n");
        }
        std::printf("%d\n", add_up(10));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "race: %s\n", e.what());
        return 1;
    }
}
