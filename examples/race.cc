// SPDX-License-Identifier: MIT OR Apache-2.0
//
// race.cc - fiberrt.hpp: several fibers look for the same thing, the first to find it wins, and the whole search has a
// time limit. Lambdas, results and exceptions work across fibers; the losers are cancelled, and their sleep throws.
//
//     race [MILLISECONDS]      the time limit of the search; default 1000
#include <cstdio>
#include <cstdlib>
#include <fiberrt.hpp>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

// One runner: each has its own pace, and runner 3 gives up.
static std::string look(int runner) {
    fiberrt::sleep_for(runner * 20ms);
    if (runner == 3) throw std::runtime_error("nothing to be found here");
    return "found by " + std::to_string(runner);
}

// Returns the first answer, or throws if no runner has one. The losers have ended when it returns.
static std::string race() {
    fiberrt::channel<std::string> answers(4);
    fiberrt::scope runners(FIBER_SCOPE_FIRST);
    for (int runner : {5, 3, 2, 4}) {
        runners.spawn([answers, runner] { answers.send(look(runner)); });
    }
    runners.close();
    return *answers.recv();
}

int main(int argc, char **argv) {
    std::chrono::milliseconds limit(argc > 1 ? std::atoi(argv[1]) : 1000);
    try {
        auto answer = fiberrt::with_timeout(limit, race);
        std::printf("%s\n", answer ? answer->c_str() : "not found in time");
    } catch (const std::exception &e) {
        std::fprintf(stderr, "race: %s\n", e.what());
        return 1;
    }
}
