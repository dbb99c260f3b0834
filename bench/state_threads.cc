// SPDX-License-Identifier: MIT OR Apache-2.0
//
// State Threads. It has no call that only yields: its manual names st_usleep(0) for that; it passes through the heap of
// sleepers and, once all have had their turn, a look for I/O.
#include "bench.h"

#include <st.h>

#include <vector>

namespace {

struct StateThreads {
    static bool yield() { return st_usleep(0) == 0; }

    class Crowd {
    public:
        Crowd(long count, bench::Loop (*loop_of)(long), bool shuffled) {
            for (long i = 0; i < count; i++) {
                threads_.push_back(create(shuffled ? park_first : entry, reinterpret_cast<void *>(loop_of(i)), 1,
                                          bench::stack_bytes, i));
            }
            if (shuffled) {
                st_usleep(0); // they park
                for (long i : bench::order_of(count, true)) {
                    st_thread_interrupt(threads_[static_cast<size_t>(i)]);
                }
            }
        }

        // The interrupt makes each one's sleep fail, which ends its loop.
        ~Crowd() {
            for (st_thread_t thread : threads_) {
                st_thread_interrupt(thread);
            }
            for (st_thread_t thread : threads_) {
                st_thread_join(thread, nullptr);
            }
        }

    private:
        static void *entry(void *loop) {
            bench::enter(reinterpret_cast<bench::Loop>(loop));
            return nullptr;
        }

        static void *park_first(void *loop) {
            st_usleep(ST_UTIME_NO_TIMEOUT); // until the interrupt
            return entry(loop);
        }

        std::vector<st_thread_t> threads_;
    };

    static st_thread_t create(void *(*entry)(void *), void *arg, int joinable, size_t stack, long index) {
        st_thread_t thread = st_thread_create(entry, arg, joinable, static_cast<int>(stack));
        if (thread == nullptr) {
            throw std::runtime_error("fails at " + std::to_string(index));
        }
        return thread;
    }

    static inline void (*body)(long);

    static void batch(long count, void (*of_each)(long)) {
        body = of_each;
        std::vector<st_thread_t> threads(static_cast<size_t>(count));
        for (long i = 0; i < count; i++) {
            threads[static_cast<size_t>(i)] = create(run_body, reinterpret_cast<void *>(i), 1, bench::stack_bytes, i);
        }
        for (st_thread_t thread : threads) {
            if (st_thread_join(thread, nullptr) != 0) {
                throw std::runtime_error("st_thread_join failed");
            }
        }
    }

    static void *run_body(void *index) {
        body(reinterpret_cast<long>(index));
        return nullptr;
    }

    static void park(long count, size_t stack) {
        for (long i = 0; i < count; i++) {
            create(park_for_good, nullptr, 0, stack, i);
        }
        st_usleep(0);
    }

    static void *park_for_good(void *) {
        bench::about_to_park();
        st_usleep(ST_UTIME_NO_TIMEOUT);
        return nullptr;
    }
};

// parkwake: one condition variable for each of the two.
class Pair {
public:
    Pair() {
        turn_ = 0;
        main_wakes_ = st_cond_new();
        other_wakes_ = st_cond_new();
        other_ = st_thread_create(answer, nullptr, 1, bench::stack_bytes);
        if (main_wakes_ == nullptr || other_wakes_ == nullptr || other_ == nullptr) {
            throw std::runtime_error("st_cond_new or st_thread_create failed");
        }
        st_usleep(0); // the other one parks
    }

    ~Pair() {
        st_thread_interrupt(other_);
        st_thread_join(other_, nullptr);
        st_cond_destroy(main_wakes_);
        st_cond_destroy(other_wakes_);
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            turn_ = 1;
            st_cond_signal(other_wakes_);
            while (turn_ != 0) {
                if (st_cond_wait(main_wakes_) != 0) {
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
                if (st_cond_wait(other_wakes_) != 0) {
                    return nullptr;
                }
            }
            turn_ = 0;
            st_cond_signal(main_wakes_);
        }
    }

    static inline st_cond_t main_wakes_;
    static inline st_cond_t other_wakes_;
    static inline volatile int turn_;
    st_thread_t other_;
};

// spawn: a thread is made, runs, and is joined. Its stack is that of the one before.
class Spawner {
public:
    Spawner() {
        if (!run(100)) {
            throw std::runtime_error("st_thread_create or st_thread_join failed");
        }
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            void *result;
            st_thread_t thread = st_thread_create(entry, &result, 1, bench::stack_bytes);
            if (thread == nullptr || st_thread_join(thread, &result) != 0 || result != &result) {
                return false;
            }
        }
        return true;
    }

private:
    static void *entry(void *arg) { return arg; }
};

} // namespace

int main(int argc, char **argv) {
    st_set_eventsys(ST_EVENTSYS_ALT); // epoll
    if (st_init() != 0) {
        return 1;
    }
    for (const bench::YieldShape &shape : bench::yield_shapes<StateThreads>()) {
        bench::add_yield<StateThreads>(shape);
    }
    bench::add<Pair>("parkwake/pair", 1);
    bench::add<Pair>("channel/pair", 1); // it has no channels
    bench::add<Spawner>("spawn/warm", 1);
    bench::add_crowds<StateThreads>();
    return bench::run_main(argc, argv);
}
