// SPDX-License-Identifier: MIT OR Apache-2.0
//
// State Threads. It has no call that only yields: st_usleep(0) is what its manual names for that; it passes through the
// heap of sleepers and, once all have had their turn, a look for I/O.
#include "bench.h"

#include <st.h>

#include <vector>

namespace {

struct StateThreads {
    static bool yield() { return st_usleep(0) == 0; }

    class Crowd {
    public:
        Crowd(long count, bench::Loop (*loop_of)(long)) {
            for (long i = 0; i < count; i++) {
                st_thread_t thread =
                    st_thread_create(entry, reinterpret_cast<void *>(loop_of(i)), 1, bench::stack_bytes);
                if (thread == nullptr) {
                    throw std::runtime_error("st_thread_create failed");
                }
                threads_.push_back(thread);
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

        std::vector<st_thread_t> threads_;
    };
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
    bench::add<Spawner>("spawn/warm", 1);
    return bench::run_main(argc, argv);
}
