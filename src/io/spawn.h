// SPDX-License-Identifier: MIT OR Apache-2.0
// How a child process begins: its attributes, and its start.
#pragma once

#include "fiberrt.h"

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct fiber_process_attr {
    int streams[3] = {FIBER_PROCESS_INHERIT, FIBER_PROCESS_INHERIT, FIBER_PROCESS_INHERIT};
    char** environment = nullptr; // and its strings behind it; null: the program's own
    char* directory = nullptr;
    pid_t group = -1; // -1: the program's
    bool session = false;
    size_t fd_count = 0;
    struct {
        int fd; // in the child
        int source;
    } fds[FIBER_PROCESS_FDS_MAX]; // that it has besides its streams
    sigset_t mask;
    sigset_t reset; // signals whose dispositions are to be the default ones

    fiber_process_attr() {
        sigemptyset(&mask);
        sigemptyset(&reset);
        sigaddset(&reset, SIGPIPE);
    }
};

namespace fiberrt {

// Starts a program. pipes: the caller's ends of the streams that are pipes; may be null if there is none. 0, or -E...
int spawn(pid_t* pid, int* pipes, const fiber_process_attr& attr, const char* file, char* const argv[]);

// A copy of the strings, in one piece of memory; null: there is none.
char** copy_strings(char* const strings[]);

} // namespace fiberrt
