// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks of internal invariants, in every build: continuing after one is broken could corrupt the stack of a fiber.
// FIBERRT_CHECK prints the condition and aborts.
#pragma once

namespace fiberrt {

[[noreturn, gnu::cold]] void check_failed(const char* what);

#define FIBERRT_STRING2_(x) #x
#define FIBERRT_STRING_(x) FIBERRT_STRING2_(x)
#define FIBERRT_CHECK(condition)                                                                  \
    do {                                                                                          \
        if (__builtin_expect(!(condition), 0))                                                    \
            ::fiberrt::check_failed(__FILE_NAME__ ":" FIBERRT_STRING_(__LINE__) ": " #condition); \
    } while (0)

} // namespace fiberrt
