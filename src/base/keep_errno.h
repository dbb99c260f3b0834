// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's functions report errors by their results and never change errno; this undoes what a system call did.
#pragma once

#include <errno.h>

namespace fiberrt {

class KeepErrno {
public:
    KeepErrno() : saved_(errno) {}
    ~KeepErrno() {
        // clang takes it that malloc and its like leave errno alone, and would drop the store as one of what is there.
        __asm__ volatile("" ::: "memory");
        errno = saved_;
    }
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;

private:
    int saved_;
};

} // namespace fiberrt
