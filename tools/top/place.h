// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the socket of a process's agent, and tells in plain words why there is none.
#pragma once

#include "sample.h"

#include <string>
#include <vector>

#include <sys/types.h>

namespace top {

struct Place {
    std::string path;  // of the socket, or of a file with the JSON of a dump
    bool file = false; // it is such a file
    std::string error; // not empty: there is no such place, in a sentence
};

// What the user has named: a number is a process, all else a socket, a directory of sockets, or a file.
Place find_place(const std::string& named);

// The processes of this user that have an agent.
struct Candidate {
    pid_t pid;
    std::string program;
};
std::vector<Candidate> processes_with_agent();

// Adds the processor times of the cords' threads, as the kernel tells them, if the process has the number that the sample
// says: in a container it has another one, and so do its threads.
void add_thread_times(pid_t process, Sample& sample);

} // namespace top
