// SPDX-License-Identifier: MIT OR Apache-2.0
// Done once for the process, as pthread_once does it, but for what may fail: then whoever comes next tries again.
#pragma once

#include <atomic>
#include <sched.h>
#include <unistd.h>

namespace fiberrt {

class TryOnce {
public:
    // Whether it is done: by now, before, or by another thread meanwhile.
    template <class Try>
    bool operator()(Try attempt) { // coverage: race
        if (done_.load(std::memory_order_acquire)) return true;
        // A process that was forked while another thread was at it begins anew: hence the process's number.
        pid_t me = getpid();
        for (pid_t busy = 0; !busy_.compare_exchange_weak(busy, me, std::memory_order_acquire);) {
            if (busy != me) continue;
            sched_yield();
            busy = 0;
        }
        bool done = done_.load(std::memory_order_relaxed) || attempt();
        done_.store(done, std::memory_order_release);
        busy_.store(0, std::memory_order_release);
        return done;
    }
    bool done() const { return done_.load(std::memory_order_acquire); }

private:
    std::atomic<bool> done_{false};
    std::atomic<pid_t> busy_{0};
};

} // namespace fiberrt
