// SPDX-License-Identifier: MIT OR Apache-2.0
// crosswake: two threads that wake each other's fibers.
#include "subject.h"

#include "../crosswake.h"

using namespace subject;

namespace {

// crosswake: two cords whose main flows ask and answer. With a ring, a cord sleeps in io_uring, not in a futex.
template <bool with_ring>
class CordPair {
public:
    CordPair() {
        begin_side();
        check(fiber_self(&asker_), "fiber_self");
        fiber_cord_t cord;
        check(fiber_cord_start(&cord, nullptr, answer, nullptr), "fiber_cord_start");
        while (!ready_) {
            sched_yield();
        }
    }

    void trip() {
        turn_ = 1;
        check(fiber_wakeup(answerer_), "fiber_wakeup");
        while (turn_ != 0) {
            check(fiber_yield(), "fiber_yield");
        }
    }

private:
    static void begin_side() {
        if (with_ring) {
            int fd = fiber_open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
            check(fd, "fiber_open");
            check(fiber_close(fd), "fiber_close");
        }
    }

    static void *answer(void *) {
        bench::begin_other();
        begin_side();
        check(fiber_self(&answerer_), "fiber_self");
        ready_ = true;
        for (;;) {
            while (turn_ != 1) {
                check(fiber_yield(), "fiber_yield");
            }
            turn_ = 0;
            check(fiber_wakeup(asker_), "fiber_wakeup");
        }
    }

    static inline fiber_t asker_;
    static inline fiber_t answerer_;
    static inline std::atomic<bool> ready_;
    static inline std::atomic<int> turn_;
};

} // namespace

void subject::add_cords() {
    bench::add_once("crosswake/awake", bench::trips_awake<CordPair<false>>);
    bench::add_once("crosswake/asleep", bench::trips_asleep<CordPair<false>>);
    bench::add_once("crosswake/asleep-ring", bench::trips_asleep<CordPair<true>>);
}
