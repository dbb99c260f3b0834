// SPDX-License-Identifier: MIT OR Apache-2.0
// Does an action once for the process, like pthread_once. The action may fail: then the next caller tries again.
#pragma once

#include <atomic>
#include <sched.h>
#include <unistd.h>

namespace fiberrt {

class TryOnce {
public:
    // Returns whether the action is done: by this call, by an earlier one, or by another thread meanwhile.
    template <class Try>
    bool operator()(Try attempt) { // coverage: race
        if (done_.load(std::memory_order_acquire)) return true;
        // The word holds the process's number, so that a child that was forked during another thread's attempt tries
        // again.
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
