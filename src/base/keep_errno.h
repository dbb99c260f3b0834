// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's functions report errors by their results and never change errno; this undoes what a system call did.
#pragma once

#include <errno.h>

namespace fiberrt {

class KeepErrno {
public:
    KeepErrno() : saved_(errno) {}
    ~KeepErrno() { errno = saved_; }
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;

private:
    int saved_;
};

} // namespace fiberrt
