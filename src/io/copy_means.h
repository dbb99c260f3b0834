// SPDX-License-Identifier: MIT OR Apache-2.0
// What fiber_copy takes from the system for the time of a call.
#pragma once

#include "base/keep_errno.h"
#include "base/list.h"

#include <stdlib.h>
#include <unistd.h>

namespace fiberrt {

// Listed in its cord's Io, which gives it back if the fiber never runs again.
struct CopyMeans : Link {
    int pipe[2] = {-1, -1}; // between two ends that are none
    char* buffer = nullptr; // for ends that cannot be spliced

    CopyMeans() = default;
    ~CopyMeans() {
        if (linked()) unlink();
        give_back();
    }
    CopyMeans(const CopyMeans&) = delete;
    CopyMeans& operator=(const CopyMeans&) = delete;

    void give_back() {
        KeepErrno keep;
        for (int& end : pipe) {
            if (end >= 0) close(end);
            end = -1;
        }
        free(buffer);
        buffer = nullptr;
    }
};

} // namespace fiberrt
