// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Boost.Fiber with its default scheduler (round robin).
#include "bench.h"
#include "tasks.h"

#include <boost/fiber/algo/work_stealing.hpp>
#include <boost/fiber/condition_variable.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/fixedsize_stack.hpp>
#include <boost/fiber/mutex.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>
#include <boost/fiber/unbuffered_channel.hpp>

#include <chrono>
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
        Crowd(long count, bench::Loop (*loop_of)(long), bool shuffled) {
            stopping = false;
            fibers::fixedsize_stack stack(bench::stack_bytes);
            std::vector<fibers::context *> contexts;
            for (long i = 0; i < count; i++) {
                bench::Loop loop = loop_of(i);
                fibers_.emplace_back(fibers::launch::post, std::allocator_arg, stack, [=, &contexts] {
                    if (shuffled) {
                        contexts.push_back(fibers::context::active());
                        fibers::context::active()->suspend();
                    }
                    bench::enter(loop);
                });
            }
            if (shuffled) {
                boost::this_fiber::yield(); // they park
                for (long i : bench::order_of(count, true)) {
                    fibers::context::active()->schedule(contexts[static_cast<size_t>(i)]);
                }
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

    static void batch(long count, void (*body)(long)) {
        fibers::fixedsize_stack stack(bench::stack_bytes);
        std::vector<fibers::fiber> all;
        all.reserve(static_cast<size_t>(count));
        for (long i = 0; i < count; i++) {
            all.emplace_back(fibers::launch::post, std::allocator_arg, stack, body, i);
        }
        for (fibers::fiber &fiber : all) {
            fiber.join();
        }
    }

    static void sleep(int64_t ns) { boost::this_fiber::sleep_for(std::chrono::nanoseconds(ns)); }

    static void park(long count, size_t stack_size) {
        fibers::fixedsize_stack stack(stack_size);
        for (long i = 0; i < count; i++) {
            try {
                fibers::fiber(fibers::launch::post, std::allocator_arg, stack, park_for_good).detach();
            } catch (const std::exception &) {
                throw std::runtime_error("fails at " + std::to_string(i));
            }
        }
        boost::this_fiber::yield();
    }

    static void park_for_good() {
        bench::about_to_park();
        fibers::context::active()->suspend();
    }
};

// parkwake: suspend and schedule on its contexts, on which its mutexes and channels are built; those cost more.
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

// channel: the other fiber sends the received item back.
class ChannelPair {
public:
    ChannelPair()
        : fiber_(fibers::launch::post, std::allocator_arg, fibers::fixedsize_stack(bench::stack_bytes),
                 [this] { answer(); }) {}

    ~ChannelPair() {
        there_.close();
        fiber_.join();
    }

    BENCH_EXACT bool run(long rounds) {
        long item;
        for (; rounds > 0; rounds--) {
            if (there_.push(rounds) != fibers::channel_op_status::success ||
                back_.pop(item) != fibers::channel_op_status::success || item != rounds) {
                return false;
            }
        }
        return true;
    }

private:
    void answer() {
        long item;
        while (there_.pop(item) == fibers::channel_op_status::success) {
            back_.push(item);
        }
    }

    fibers::unbuffered_channel<long> there_;
    fibers::unbuffered_channel<long> back_;
    fibers::fiber fiber_;
};

// task: a detached fiber, on the threads of the work-stealing algorithm, including the calling thread; the last task
// wakes the waiter.
class Tasks {
public:
    explicit Tasks(int workers) {
        for (int i = 1; i < workers; i++) {
            threads_.emplace_back([this, workers] {
                fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(static_cast<uint32_t>(workers));
                std::unique_lock<fibers::mutex> lock(mutex_);
                ended_.wait(lock, [this] { return end_; });
            });
        }
        fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(static_cast<uint32_t>(workers));
    }
    ~Tasks() {
        {
            std::unique_lock<fibers::mutex> lock(mutex_);
            end_ = true;
        }
        ended_.notify_all();
        for (std::thread &thread : threads_) {
            thread.join();
        }
    }

    void run(long count) {
        left_ = count;
        for (long i = 0; i < count; i++) {
            fibers::fiber(fibers::launch::post, std::allocator_arg, stack_, [this] { end_of_task(); }).detach();
        }
        std::unique_lock<fibers::mutex> lock(mutex_);
        done_.wait(lock, [this] { return left_ == 0; });
    }

    template <class Body>
    void inside(Body &body) {
        fibers::fiber(fibers::launch::post, std::allocator_arg, stack_, [&] { body(); }).join();
    }

private:
    void end_of_task() {
        if (--left_ == 0) {
            std::unique_lock<fibers::mutex> lock(mutex_);
            done_.notify_all();
        }
    }

    fibers::fixedsize_stack stack_{bench::stack_bytes};
    alignas(64) std::atomic<long> left_{0}; // written by each task
    fibers::mutex mutex_;
    fibers::condition_variable done_, ended_;
    bool end_ = false;
    std::vector<std::thread> threads_;
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
    bench::add_lock<fibers::mutex>();
    bench::add<ChannelPair>("channel/pair", 1);
    bench::add_tasks<Tasks>();
    bench::add_crowds<BoostFiber>();
    bench::add_once("sleep/100000x10", bench::sleep_batch<BoostFiber>);
    return bench::run_main(argc, argv);
}
