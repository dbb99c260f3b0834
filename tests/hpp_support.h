// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for the tests of fiberrt.hpp. They do not use support.h, which is C++20 and about fiberrt.h.
#pragma once

#include <fiberrt.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

using namespace std::chrono_literals;
namespace f = fiberrt;

inline bool simulated() {
    const char* backend = std::getenv("FIBERRT_BACKEND");
    return backend && std::string(backend) == "sim";
}

#define NEEDS_THREADS() \
    if (simulated()) GTEST_SKIP() << "a simulation has no threads without a cord"

inline constexpr auto hang = 60s; // the limit is reached only if there is a bug

// A captured object: counts the live ones, and can only be moved.
class Token {
public:
    explicit Token(int& alive) : alive_(&alive) { ++alive; }
    Token(Token&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
    Token& operator=(Token&&) = delete;
    ~Token() {
        if (alive_) --*alive_;
    }

private:
    int* alive_;
};

template <class Exception, class F>
std::string message_of(F&& function) {
    try {
        std::forward<F>(function)();
    } catch (const Exception& e) {
        return e.what();
    }
    return "nothing was thrown";
}

template <class F>
int code_of(F&& function) {
    try {
        std::forward<F>(function)();
    } catch (const f::error& e) {
        return e.code().value();
    }
    return 0;
}
