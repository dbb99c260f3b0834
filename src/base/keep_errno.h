// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps errno. The library's functions report errors by their results and never change errno: a function that makes
// system calls declares a KeepErrno, which restores errno at the end of the scope.
#pragma once

#include <errno.h>

namespace fiberrt {

class KeepErrno {
public:
    KeepErrno() : saved_(errno) {}
    ~KeepErrno() {
        // clang assumes that malloc and similar functions leave errno alone, and would drop the store as redundant.
        __asm__ volatile("" ::: "memory");
        errno = saved_;
    }
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;

private:
    int saved_;
};

} // namespace fiberrt
