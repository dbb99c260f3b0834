// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for tests of adopted calls: the test program adopts itself, so its own calls of read, waitpid, … wait as
// fibers. If a thread without a cord makes such a call, it gets the kernel's function.
#ifndef FIBERRT_TESTS_POSIX_ADOPTED_H
#define FIBERRT_TESTS_POSIX_ADOPTED_H

#include "support.h"

#include <ostream>
#include <thread>

namespace adopted {

// The test program's own calls wait as fibers while a test runs.
class Program : public testing::Test {
protected:
    void SetUp() override { ASSERT_GT(fiber_posix_adopt(nullptr, 0), 0); }
    void TearDown() override { EXPECT_GE(fiber_posix_release(nullptr), 0); }
};

// Runs body on a thread without a cord, and returns its result.
template <class Body>
auto on_thread(Body body) {
    decltype(body()) result{};
    std::thread([&] { result = body(); }).join();
    return result;
}

// Runs body in a fiber, and returns its result.
template <class Body>
auto on_fiber(Body body) {
    decltype(body()) result{};
    auto run = [&] { result = body(); };
    support::join(support::spawn(run));
    return result;
}

// The result and the errno of a call.
struct Outcome {
    int64_t result = 0;
    int error = 0; // 0 if the result is not below 0
    bool operator==(const Outcome &other) const { return result == other.result && error == other.error; }
};
inline std::ostream &operator<<(std::ostream &out, const Outcome &outcome) {
    return out << outcome.result << " (" << (outcome.error ? strerrorname_np(outcome.error) : "no error") << ")";
}

template <class Call>
Outcome outcome(Call call) {
    errno = 0;
    int64_t result = call();
    return {result, result < 0 ? errno : 0};
}

// Runs `waits` in a fiber until it waits, then `then`, then joins. Hangs if the wait blocks the thread.
template <class Waits, class Then>
void while_it_waits(Waits waits, Then then) {
    fiber_t fiber = support::start(waits);
    EXPECT_EQ(fiber_sleep(0), 0); // it may have begun with a pause of the run queue
    then(fiber);
    support::join(fiber);
}

// Cancels and limits a call that would wait for ever: each must end it with the error, before it waits and while it does.
template <class Call>
void ends_early(Call call) {
    Outcome ended;
    while_it_waits([&] { ended = outcome(call); }, [](fiber_t fiber) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
    EXPECT_EQ(ended, (Outcome{-1, ECANCELED})) << "cancelled while it waits";

    auto after_a_cancel = [&] {
        EXPECT_EQ(fiber_cancel(support::self(), nullptr), 0);
        ended = outcome(call);
    };
    support::run(after_a_cancel);
    EXPECT_EQ(ended, (Outcome{-1, ECANCELED})) << "cancelled before";

    for (int64_t limit_ns : {FIBER_MSEC(1), INT64_C(0)}) {
        auto limited = [&] {
            fiber_scope_t scope;
            ASSERT_EQ(fiber_scope_open(&scope, limit_ns, 0), 0);
            ended = outcome(call);
            EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
        };
        support::run(limited);
        EXPECT_EQ(ended, (Outcome{-1, ETIMEDOUT})) << "limited to " << limit_ns << " ns";
    }
}

// An interrupt ends the call with EINTR.
template <class Call>
void is_interrupted(Call call) {
    Outcome ended;
    while_it_waits([&] { ended = outcome(call); },
                   [](fiber_t fiber) { EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0); });
    EXPECT_EQ(ended, (Outcome{-1, EINTR}));
}

} // namespace adopted

#endif
