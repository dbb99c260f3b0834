// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Boost.Context: stacks that are changed by hand, without a scheduler. The ring around them is the bare swap's.
#include "bench.h"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>

#include <utility>
#include <vector>

namespace {

namespace ctx = boost::context;

struct Fiber {
    ctx::fiber context; // the flow's next position; empty while it runs
    Fiber *next;
    Fiber *previous;
    bench::Loop loop;
};

struct BoostContext {
    static inline Fiber *current;

    // A resume returns in another fiber, with the context of the one that resumed: in a ring, the previous one.
    static bool yield() {
        Fiber *me = current;
        current = me->next;
        me->previous->context = std::move(me->next->context).resume();
        return true;
    }

    class Crowd {
    public:
        Crowd(long count, bench::Loop (*loop_of)(long), bool shuffled) : fibers_(static_cast<size_t>(count) + 1) {
            Fiber *last = fibers_.data(); // number 0 is the main flow
            for (long i : bench::order_of(count, shuffled)) {
                link(last, &fibers_[static_cast<size_t>(i) + 1]);
                last = last->next;
            }
            link(last, fibers_.data());
            ctx::fixedsize_stack stack(bench::stack_bytes);
            for (size_t i = 0; i < fibers_.size(); i++) {
                Fiber *fiber = &fibers_[i];
                if (i > 0) {
                    fiber->loop = loop_of(static_cast<long>(i) - 1);
                    fiber->context = ctx::fiber(std::allocator_arg, stack, [fiber](ctx::fiber &&from) {
                        fiber->previous->context = std::move(from);
                        bench::enter(fiber->loop);
                        return ctx::fiber(); // not reached: the destructor of the context unwinds the stack
                    });
                }
            }
            current = fibers_.data();
        }

    private:
        static void link(Fiber *one, Fiber *next) {
            one->next = next;
            next->previous = one;
        }

        std::vector<Fiber> fibers_;
    };

    static void batch(long count, void (*body)(long)) {
        ctx::fixedsize_stack stack(bench::stack_bytes);
        std::vector<ctx::fiber> all;
        all.reserve(static_cast<size_t>(count));
        for (long i = 0; i < count; i++) {
            all.emplace_back(std::allocator_arg, stack, [body, i](ctx::fiber &&from) {
                body(i);
                return std::move(from);
            });
        }
        for (ctx::fiber &fiber : all) {
            fiber = std::move(fiber).resume();
        }
    }
};

// parkwake: the exchange of the bare swap.
class Pair {
public:
    Pair() {
        turn_ = 0;
        other_ = ctx::fiber(std::allocator_arg, ctx::fixedsize_stack(bench::stack_bytes), [](ctx::fiber &&from) {
            for (;;) {
                while (turn_ != 1) {
                    from = std::move(from).resume();
                }
                turn_ = 0;
                from = std::move(from).resume();
            }
            return ctx::fiber();
        });
        run(1);
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            turn_ = 1;
            while (turn_ != 0) {
                other_ = std::move(other_).resume();
            }
        }
        return true;
    }

private:
    static inline volatile int turn_;
    ctx::fiber other_;
};

// spawn: a context is made on a warm stack, runs, and ends.
class Spawner {
public:
    Spawner() : stack_(bench::stack_bytes) { run(100); }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            ctx::fiber fiber(std::allocator_arg, stack_, [](ctx::fiber &&from) { return std::move(from); });
            fiber = std::move(fiber).resume();
            if (fiber) {
                return false; // it has not ended
            }
        }
        return true;
    }

private:
    ctx::pooled_fixedsize_stack stack_;
};

} // namespace

int main(int argc, char **argv) {
    for (const bench::YieldShape &shape : bench::yield_shapes<BoostContext>()) {
        bench::add_yield<BoostContext>(shape);
    }
    bench::add<Pair>("parkwake/pair", 1);
    bench::add<Spawner>("spawn/warm", 1);
    bench::add_scale<BoostContext>();
    bench::add_once("spawnbatch/100000", bench::spawn_batch<BoostContext>);
    return bench::run_main(argc, argv);
}
