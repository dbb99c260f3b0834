// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts child processes (fiber_process_spawn): their attributes, and posix_spawn.
#pragma once

#include "fiberrt.h"

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct fiber_process_attr {
    int streams[3] = {FIBER_PROCESS_INHERIT, FIBER_PROCESS_INHERIT, FIBER_PROCESS_INHERIT};
    char** environment = nullptr; // with its strings behind it; null: the program's own
    char* directory = nullptr;
    pid_t group = -1; // -1: the program's
    bool session = false;
    size_t fd_count = 0;
    struct {
        int fd; // in the child
        int source;
    } fds[FIBER_PROCESS_FDS_MAX]; // the child's descriptors besides its streams
    sigset_t mask;
    sigset_t reset; // signals whose dispositions the child resets

    fiber_process_attr() {
        sigemptyset(&mask);
        sigemptyset(&reset);
        sigaddset(&reset, SIGPIPE);
    }
};

namespace fiberrt {

// Starts a program. *pid: the child. pipes: receives the caller's ends of the streams that are pipes; may be null if
// there are none. Returns 0, or -E...
int spawn(pid_t* pid, int* pipes, const fiber_process_attr& attr, const char* file, char* const argv[]);

// Copies the strings into one piece of memory; null: no memory.
char** copy_strings(char* const strings[]);

} // namespace fiberrt
