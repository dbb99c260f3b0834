// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Boost.Fiber with its default scheduler (round robin).
#include "bench.h"

#include <boost/fiber/fiber.hpp>
#include <boost/fiber/fixedsize_stack.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>

#include <vector>

namespace {

namespace fibers = boost::fibers;

struct BoostFiber {
    static inline bool stopping;

    static bool yield() {
        boost::this_fiber::yield();
        return !stopping;
    }

    class Crowd {
    public:
        Crowd(long count, bench::Loop (*loop_of)(long)) {
            stopping = false;
            fibers::fixedsize_stack stack(bench::stack_bytes);
            for (long i = 0; i < count; i++) {
                fibers_.emplace_back(fibers::launch::post, std::allocator_arg, stack, bench::enter, loop_of(i));
            }
        }

        ~Crowd() {
            stopping = true;
            for (fibers::fiber &fiber : fibers_) {
                fiber.join();
            }
        }

    private:
        std::vector<fibers::fiber> fibers_;
    };
};

// parkwake: suspend and schedule of its contexts, on which its mutexes and channels are built; those cost more.
class Pair {
public:
    Pair() {
        turn_ = 0;
        main_ = fibers::context::active();
        fiber_ = fibers::fiber(fibers::launch::post, std::allocator_arg, fibers::fixedsize_stack(bench::stack_bytes),
                               answer);
        boost::this_fiber::yield(); // the other one parks
    }

    ~Pair() {
        turn_ = 2;
        main_->schedule(other_);
        fiber_.join();
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            turn_ = 1;
            main_->schedule(other_);
            while (turn_ != 0) {
                main_->suspend();
            }
        }
        return true;
    }

private:
    static void answer() {
        other_ = fibers::context::active();
        for (;;) {
            while (turn_ == 0) {
                other_->suspend();
            }
            if (turn_ == 2) {
                return;
            }
            turn_ = 0;
            other_->schedule(main_);
        }
    }

    static inline fibers::context *main_;
    static inline fibers::context *other_;
    static inline volatile int turn_;
    fibers::fiber fiber_;
};

// spawn: a fiber is made on a stack of a pool, runs, and is joined.
class Spawner {
public:
    Spawner() : stack_(bench::stack_bytes) { run(100); }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            long result = 0;
            fibers::fiber fiber(fibers::launch::post, std::allocator_arg, stack_, entry, &result);
            fiber.join();
            if (result != 1) {
                return false;
            }
        }
        return true;
    }

private:
    static void entry(long *result) { *result = 1; }

    fibers::pooled_fixedsize_stack stack_;
};

} // namespace

int main(int argc, char **argv) {
    for (const bench::YieldShape &shape : bench::yield_shapes<BoostFiber>()) {
        bench::add_yield<BoostFiber>(shape);
    }
    bench::add<Pair>("parkwake/pair", 1);
    bench::add<Spawner>("spawn/warm", 1);
    return bench::run_main(argc, argv);
}
