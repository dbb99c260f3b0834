// SPDX-License-Identifier: MIT OR Apache-2.0
// Signals: fiber_sigwait.
#include "api/api.h"
#include "io/sigwait.h"

using namespace fiberrt;

int fiber_sigwait(const sigset_t* set, struct signalfd_siginfo* info) {
    if (!set || !all_blocked(*set)) return -EINVAL;
    Cord* cord = cord_here();
    return cord ? wait_for_signal(*cord, *set, info) : no_cord();
}
