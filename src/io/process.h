// SPDX-License-Identifier: MIT OR Apache-2.0
// A child process and its end, which a fiber may wait for.
//
// It is watched by a descriptor of it (pidfd), which goes on naming it whatever becomes of its number. Where none is to
// be had - none is left, or an emulator knows no such call - it is looked at, by its number, at growing intervals.
#pragma once

#include "io/io.h"

#include <stdint.h>
#include <sys/types.h>

namespace fiberrt {

class Process {
public:
    Process(Cord& cord, pid_t pid) : cord_(cord), pid_(pid) {}
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    // Takes its end, if it has come: 1, and the status as waitpid(2) has it; 0: not yet; -ECHILD: it is no child of
    // this process, or somebody else has taken that.
    int take_end(int* status);
    // The same, and from now on watches it by a descriptor of it, if there is one to be had.
    int look(int* status);
    // Waits for its end, and takes it. 1, -ECHILD, or what ended the wait early: then it is still to be taken.
    int await_end(int* status);
    // Sends it a signal; if it leads a process group, to that. 0, -ESRCH: it has ended, -EPERM: it may not be sent any,
    // whoever else of its group has got this one.
    int send(int signal);
    // The caller has been stopped, for that reason: ends the process, within a shield, and takes its end. First by
    // SIGTERM, if grace_ns is not 0, then by SIGKILL. The reason; or why that could not be.
    int end(int* status, int64_t grace_ns, int reason);

private:
    void open();
    int send_to_it(int signal); // alone
    int wait();                 // until it may have ended: 0, or what ended the wait early
    int pause();

    Cord& cord_;
    pid_t pid_;
    OwnDescriptor pidfd_;
    bool opened_ = false; // as far as it could be
    bool told_ = false;   // that it has ended, by the descriptor
    int64_t pause_ns_ = 1'000'000;
};

} // namespace fiberrt
