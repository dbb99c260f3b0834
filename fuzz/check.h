// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for the targets: the input as a stream of small choices, and checks that end the process, as libFuzzer wants.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_CHECK(condition)                                                       \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

// As above, with the two numbers.
#define FUZZ_CHECK_EQ(found, expected)                                                                                \
    do {                                                                                                              \
        long long found_ = (long long)(found), expected_ = (long long)(expected);                                     \
        if (found_ != expected_) {                                                                                    \
            fprintf(stderr, "%s:%d: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, #found, found_, #expected, \
                    expected_);                                                                                       \
            abort();                                                                                                  \
        }                                                                                                             \
    } while (0)

class Input {
public:
    Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
    bool done() const { return at_ == end_; }
    uint8_t byte() { return done() ? 0 : *at_++; } // zeros follow the input's end
    int peek() const { return done() ? 0 : *at_; }
    unsigned below(unsigned bound) { return byte() % bound; }

private:
    const uint8_t* at_;
    const uint8_t* end_;
};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
