// SPDX-License-Identifier: MIT OR Apache-2.0
//
// hosted: the cost of a coroutine's turn that gives way at once. Each subject runs one coroutine: bare, in a queue,
// or as a hosted fiber.
#ifndef FIBERRT_BENCH_TURNS_H
#define FIBERRT_BENCH_TURNS_H

#include "bench.h"

#include <coroutine>
#include <string>

namespace bench {

struct Turner {
    struct promise_type {
        Turner get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

// Takes turns for ever.
inline Turner take_turns(long *turns) {
    for (;;) {
        ++*turns;
        co_await std::suspend_always();
    }
}

inline constexpr long turner_counts[] = {2, 1000};

template <class World>
void add_turns(const char *prefix = "") {
    for (long count : turner_counts) {
        add<World>("hosted/" + (prefix + std::to_string(count)), count, count);
    }
}

} // namespace bench

#endif
