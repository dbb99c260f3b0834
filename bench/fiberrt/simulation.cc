// SPDX-License-Identifier: MIT OR Apache-2.0
// sim: steps of a simulated run.
#include "subject.h"

#include <fcntl.h>

using namespace subject;

namespace {

// sim: steps of a simulated run, made by 20 fibers that do the same.
class Simulated {
public:
    // turn: the work that each fiber repeats; it takes at least steps_per_turn steps.
    static bench::Figures measure(bool (*turn)(), long steps_per_turn) {
        setenv("FIBERRT_BACKEND", "sim", 1); // the first call that needs a cord reads it
        check(pipe2(ends_, O_CLOEXEC), "pipe2");
        turn_ = turn;
        const long turns = 400000 / fibers;
        const double steps = static_cast<double>(turns * fibers * steps_per_turn);
        double before = bench::cpu_time_ns();
        std::vector<fiber_t> all(fibers);
        for (fiber_t &fiber : all) {
            check(fiber_spawn(&fiber, take_turns, reinterpret_cast<void *>(turns)), "fiber_spawn");
        }
        for (fiber_t fiber : all) {
            void *failed;
            check(fiber_join(fiber, &failed), "fiber_join");
            if (failed != nullptr) {
                throw std::runtime_error("a call of the subject failed");
            }
        }
        double after = bench::cpu_time_ns();
        fiber_stats_t stats;
        check(fiber_stats(&stats, sizeof stats), "fiber_stats");
        if (fiber_backend_name() != std::string("sim") ||
            static_cast<double>(stats.switches + stats.instant_resumes) < steps) {
            throw std::runtime_error("that was not simulated");
        }
        return {{"million_steps_per_s", steps / (after - before) * 1e3}};
    }

    static bool give_way() { return fiber_reschedule() == 0; }
    static bool sleep() { return fiber_sleep(FIBER_USEC(1)) == 0; }
    static bool pass_byte() {
        char byte = 'x';
        return fiber_write(ends_[1], &byte, 1) == 1 && fiber_read(ends_[0], &byte, 1) == 1;
    }

private:
    static constexpr long fibers = 20;

    static void *take_turns(void *turns) {
        for (auto left = reinterpret_cast<intptr_t>(turns); left > 0; left--) {
            if (!turn_()) {
                return turns;
            }
        }
        return nullptr;
    }

    static inline bool (*turn_)();
    static inline int ends_[2];
};

} // namespace

void subject::add_simulation() {
    bench::add_once("sim/switches", [] { return Simulated::measure(Simulated::give_way, 1); });
    bench::add_once("sim/sleeps", [] { return Simulated::measure(Simulated::sleep, 1); });
    bench::add_once("sim/pipe", [] { return Simulated::measure(Simulated::pass_byte, 2); });
}
