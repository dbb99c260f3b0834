// SPDX-License-Identifier: MIT OR Apache-2.0
// The calling thread's cord, and the beginning of the library in a process.
#include "api/here.h"

#include "fork/fork.h"
#include "sim/sim.h"

#include <errno.h>

namespace fiberrt {

constinit TryOnce process_begun;

int begin_process_slowly() {
    bool done = process_begun([] {
        simulation_begin();
        return fork_handlers_install() && cords_begin();
    });
    return done ? 0 : -ENOMEM;
}

Cord* open_here() { return begin_process() < 0 ? nullptr : cord_open(); }

} // namespace fiberrt
