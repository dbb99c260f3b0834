// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the socket of a process's agent, or says in plain words why there is none.
#pragma once

#include "sample.h"

#include <string>
#include <vector>

#include <sys/types.h>

namespace top {

struct Place {
    std::string path;  // of the socket, or of a file with the JSON of a dump
    bool file = false; // the path is that of a file
    std::string error; // a sentence that says why there is no such place; empty: there is one
};

// Finds the place that the user has named: a number is a process, any other text a socket, a directory of sockets, or a
// file.
Place find_place(const std::string& named);

// The processes of this user that have an agent.
struct Candidate {
    pid_t pid;
    std::string program;
};
std::vector<Candidate> processes_with_agent();

// Adds the processor times of the cords' threads, as the kernel tells them, if the process has the number in the
// sample: in a container, the process and its threads have other numbers.
void add_thread_times(pid_t process, Sample& sample);

} // namespace top
