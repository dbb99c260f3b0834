// SPDX-License-Identifier: MIT OR Apache-2.0
// A lambda in the child of a fork.
#pragma once

#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

namespace support {

// Runs the lambda in the child of a fork, which exits with its result. Returns that, or minus the signal that ended it.
template <class Body>
int in_child(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        ::_exit(body());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

} // namespace support
