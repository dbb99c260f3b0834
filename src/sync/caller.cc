// SPDX-License-Identifier: MIT OR Apache-2.0
// Prepares a caller for a wait: its thread may need a cord.
// fuzz: waiting 15 %
#include "sync/caller.h"

#include "core/begin.h"

namespace fiberrt {

int Caller::prepare_slowly() {
    if (!cord) {
        process_begin(); // if this fails for lack of memory, there is no simulation, and the thread can wait as it is
        if (!environment) return 0;
        if (!environment->admits()) return -ENOTSUP;
    }
    cord = cord_here(); // a foreign loop's cord; or in a simulation a new one, because time passes only for cords
    if (!cord) return no_cord();
    fiber = cord->sched.current;
    return 0;
}

int64_t Caller::clock_deadline(Cord* cord, int64_t timeout_ns) {
    if (cord) return deadline_after(*cord, timeout_ns);
    int64_t deadline;
    return __builtin_add_overflow(clock_now(), timeout_ns, &deadline) ? never : deadline;
}

} // namespace fiberrt
