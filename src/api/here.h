// SPDX-License-Identifier: MIT OR Apache-2.0
// The calling thread's cord. Every call of the boundary that needs one gets it here, and the first such call of the
// process begins the library: it connects the core with the simulation, if the process is to be simulated, and with
// fork.
#pragma once

#include "base/try_once.h"
#include "core/cord.h"

namespace fiberrt {

extern constinit TryOnce process_begun;
int begin_process_slowly();

// 0; -ENOMEM: there is no memory for what the process needs once. Calls by which a thread without a cord may wait begin the
// process too: in a simulation such a thread gets a cord.
inline int begin_process() { return process_begun.done() ? 0 : begin_process_slowly(); }

Cord* open_here(); // null: no memory, or the thread may have no cord

// The calling thread's cord; opened if there is none. Null: see no_cord().
inline Cord* cord_here() {
    Cord* cord = this_cord;
    return cord ? cord : open_here();
}

} // namespace fiberrt
