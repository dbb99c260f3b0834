// SPDX-License-Identifier: MIT OR Apache-2.0
// hosted: coroutines that the library runs.
#include "subject.h"

#include "../turns.h"

#include <fiberrt.hpp>

using namespace subject;

namespace {

// hosted: coroutines as hosted fibers; the first counts the rounds, and wakes the main flow after the last.
class Turns {
public:
    explicit Turns(long count) {
        check(fiber_self(&main_), "fiber_self");
        for (long i = 0; i < count; i++) {
            fiber_t fiber;
            void *frame = bench::take_turns(&turns_).handle.address();
            if (i == 0) {
                first_ = std::coroutine_handle<>::from_address(frame);
                check(fiber_hosted_new(&fiber, nullptr, count_round, this), "fiber_hosted_new");
            } else {
                check(fiber_hosted_new(&fiber, nullptr, step, frame), "fiber_hosted_new");
            }
            check(fiber_wakeup(fiber), "fiber_wakeup");
        }
    }

    bool run(long rounds) {
        left_ = rounds;
        return fiber_yield() == 0;
    }

private:
    static int step(void *frame, int64_t) {
        std::coroutine_handle<>::from_address(frame).resume();
        return FIBER_STEP_AGAIN;
    }
    static int count_round(void *argument, int64_t) {
        auto *it = static_cast<Turns *>(argument);
        it->first_.resume();
        if (--it->left_ == 0) {
            fiber_wakeup(it->main_);
        }
        return FIBER_STEP_AGAIN;
    }

    long turns_ = 0;
    long left_ = 0;
    fiber_t main_;
    std::coroutine_handle<> first_;
};

// hosted/task: hosted turns through the C++ header; the first fiber ends the round as well.
class TaskTurns {
public:
    explicit TaskTurns(long count) {
        check(fiber_self(&main_), "fiber_self");
        for (long i = 0; i < count; i++) {
            fiberrt::spawn_detached(i == 0 ? count_rounds(this) : take_turns(this));
        }
    }

    bool run(long rounds) {
        left_ = rounds;
        return fiber_yield() == 0;
    }

private:
    static fiberrt::task<> take_turns(TaskTurns *it) {
        for (;;) {
            ++it->turns_;
            co_await fiberrt::co::reschedule();
        }
    }
    static fiberrt::task<> count_rounds(TaskTurns *it) {
        for (;;) {
            ++it->turns_;
            if (--it->left_ == 0) {
                fiber_wakeup(it->main_);
            }
            co_await fiberrt::co::reschedule();
        }
    }

    long turns_ = 0;
    long left_ = 0;
    fiber_t main_;
};

} // namespace

void subject::add_hosted() {
    bench::add_turns<Turns>();
    bench::add_turns<TaskTurns>("task-");
}
