// SPDX-License-Identifier: MIT OR Apache-2.0
// A child process: a fiber waits for its end, and signals it (fiber_waitpid, fiber_process_wait).
//
// A Process watches the child by a pidfd, which names the child even after its number was reused. If there is no pidfd
// - no free descriptor, or an emulator without the call - it checks the child by its number, at growing intervals.
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

    // Reaps the child if it has ended. 1: it has, and *status is as in waitpid(2); 0: not yet; -ECHILD: it is no child
    // of this process, or has been reaped already.
    int reap(int* status);
    // Like reap(), and opens the pidfd, if one is available, for later calls.
    int look(int* status);
    // Waits until the child ends, and reaps it. 1; -ECHILD; or why the wait ended early: then the child is not reaped.
    int await_end(int* status);
    // Sends the child a signal; if it leads a process group, to the group. 0; -ESRCH: it has ended; -EPERM: this
    // process may not signal the child, even if others of the group got the signal.
    int send(int signal);
    // Ends the child after the calling fiber's wait was ended for `reason`, and reaps it, within a shield: first by
    // SIGTERM, if grace_ns is not 0, then by SIGKILL. Returns reason, or the error that kept it from ending the child.
    int end(int* status, int64_t grace_ns, int reason);

private:
    void open();
    int send_to_it(int signal); // not to its group
    int wait();                 // until it may have ended: 0, or why the wait ended early
    int pause();

    Cord& cord_;
    pid_t pid_;
    OwnDescriptor pidfd_;
    bool opened_ = false;         // the pidfd was opened, or could not be
    bool pidfd_readable_ = false; // the pidfd has reported the child's end
    int64_t pause_ns_ = first_pause_ns;
};

} // namespace fiberrt
