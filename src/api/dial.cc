// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_dial: connects to an address given as text, by io/dial.h.
#include "io/dial.h"

#include "api/api.h"

#include <sys/socket.h>

using namespace fiberrt;

int fiber_dial(const char* address, int flags) {
    if (!address || (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    if (cord->sched.current->sched.pending) return check_pending(*cord, cord->sched.current);
    return dial(*cord, address, flags);
}
