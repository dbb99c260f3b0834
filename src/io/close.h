// SPDX-License-Identifier: MIT OR Apache-2.0
// The part of fiber_close that a cord runs, for fibers with and without a stack.
#pragma once

namespace fiberrt {

struct Cord;

// The uses of a descriptor that a close ends before it closes.
enum class EndsUsesOf : bool {
    all_cords, // fiber_close. It waits until the threads of the other cords poll
    // close(2) of an adopted library. Its caller may hold a lock for which the thread of another cord waits, and the
    // kernel's close waits for no thread. So this waits for no other cord and for no close of a file on a disk.
    own_cord,
};

// Ends uses of fd by fibers, then closes it. No cancel, interrupt or timeout ends this early.
int io_close(Cord& cord, int fd, EndsUsesOf whose = EndsUsesOf::all_cords);

} // namespace fiberrt
