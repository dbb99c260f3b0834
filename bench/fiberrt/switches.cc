// SPDX-License-Identifier: MIT OR Apache-2.0
// yield, parkwake, spawn, and the costs of crowds of fibers: scale, spawnbatch, memory, sleep.
#include "subject.h"

#include <vector>

using namespace subject;

namespace {

struct Fiberrt {
    static bool yield() { return fiber_reschedule() == 0; }

    class Crowd {
    public:
        Crowd(long count, bench::Loop (*loop_of)(long), bool shuffled) {
            Attr attr(bench::stack_bytes);
            for (long i = 0; i < count; i++) {
                fiber_t fiber;
                void *arg = reinterpret_cast<void *>(loop_of(i));
                check(fiber_new(&fiber, attr.get(), shuffled ? park_first : entry, arg), "fiber_new");
                fibers_.push_back(fiber);
                check(fiber_wakeup(fiber), "fiber_wakeup");
            }
            if (shuffled) {
                check(fiber_reschedule(), "fiber_reschedule"); // they park
                for (long i : bench::order_of(count, true)) {
                    check(fiber_wakeup(fibers_[static_cast<size_t>(i)]), "fiber_wakeup");
                }
            }
        }

        // The cancel makes each one's yield fail, which ends its loop.
        ~Crowd() {
            for (fiber_t fiber : fibers_) {
                fiber_cancel(fiber, nullptr);
            }
            for (fiber_t fiber : fibers_) {
                check(fiber_join(fiber, nullptr), "fiber_join");
            }
        }

    private:
        static void *entry(void *loop) {
            bench::enter(reinterpret_cast<bench::Loop>(loop));
            return nullptr;
        }

        static void *park_first(void *loop) { return fiber_yield() == 0 ? entry(loop) : nullptr; }

        std::vector<fiber_t> fibers_;
    };

    static inline void (*body)(long);

    static void batch(long count, void (*of_each)(long)) {
        body = of_each;
        Attr attr(bench::stack_bytes);
        std::vector<fiber_t> fibers(static_cast<size_t>(count));
        for (long i = 0; i < count; i++) {
            fiber_t *fiber = &fibers[static_cast<size_t>(i)];
            check(fiber_new(fiber, attr.get(), run_body, reinterpret_cast<void *>(i)), "fiber_new");
            check(fiber_wakeup(*fiber), "fiber_wakeup");
        }
        for (fiber_t fiber : fibers) {
            check(fiber_join(fiber, nullptr), "fiber_join");
        }
    }

    static void *run_body(void *index) {
        body(reinterpret_cast<long>(index));
        return nullptr;
    }

    static void sleep(int64_t ns) { fiber_sleep(ns); }

    static void park(long count, size_t stack) {
        Attr attr(stack);
        attr.detach();
        for (long i = 0; i < count; i++) {
            fiber_t fiber;
            check(fiber_new(&fiber, attr.get(), park_for_good, nullptr), "fiber_new");
            check(fiber_wakeup(fiber), "fiber_wakeup");
        }
        check(fiber_reschedule(), "fiber_reschedule");
    }

    static void *park_for_good(void *) {
        bench::about_to_park();
        fiber_yield();
        return nullptr;
    }
};

// parkwake: a round trip is two wakeups and two parks, handles checked each time.
class Pair {
public:
    Pair() {
        turn_ = 0;
        check(fiber_self(&main_), "fiber_self");
        check(fiber_spawn(&other_, answer, nullptr), "fiber_spawn");
        check(fiber_reschedule(), "fiber_reschedule"); // the other one parks
    }

    ~Pair() {
        fiber_cancel(other_, nullptr);
        check(fiber_join(other_, nullptr), "fiber_join");
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            turn_ = 1;
            if (fiber_wakeup(other_) != 0) {
                return false;
            }
            while (turn_ != 0) {
                if (fiber_yield() != 0) {
                    return false;
                }
            }
        }
        return true;
    }

private:
    static void *answer(void *) {
        for (;;) {
            while (turn_ != 1) {
                if (fiber_yield() != 0) {
                    return nullptr;
                }
            }
            turn_ = 0;
            if (fiber_wakeup(main_) != 0) {
                return nullptr;
            }
        }
    }

    static inline fiber_t main_;
    static inline fiber_t other_;
    static inline volatile int turn_;
};

// spawn: a fiber is made, runs, and is joined. Its stack and its slot are those of the one before.
class Spawner {
public:
    Spawner() {
        if (!run(100)) {
            throw std::runtime_error("fiber_spawn or fiber_join failed");
        }
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            fiber_t fiber;
            void *result;
            if (fiber_spawn(&fiber, entry, &fiber) != 0 || fiber_join(fiber, &result) != 0 || result != &fiber) {
                return false;
            }
        }
        return true;
    }

private:
    static void *entry(void *arg) { return arg; }
};

} // namespace

void subject::add_switches() {
    for (const bench::YieldShape &shape : bench::yield_shapes<Fiberrt>()) {
        bench::add_yield<Fiberrt>(shape);
    }
    bench::add<Pair>("parkwake/pair", 1);
    bench::add<Spawner>("spawn/warm", 1);
    bench::add_crowds<Fiberrt>();
    bench::add_once("sleep/100000x10", bench::sleep_batch<Fiberrt>);
    bench::add_memory<Fiberrt>("100000x256k", 100000, FIBER_STACK_DEFAULT);
    bench::add_memory<Fiberrt>("1000000x256k", 1000000, FIBER_STACK_DEFAULT);
}
