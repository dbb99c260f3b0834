// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_cord_fd, _run and _next_deadline: a cord that a foreign loop runs, by embed/embed.h.
#include "embed/embed.h"

#include "api/api.h"
#include "core/noswitch.h"
#include "io/io.h"

using namespace fiberrt;

int fiber_cord_fd(void) {
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    if (!cord->sched.current->main_flow()) return -EPERM;
    if (cord->loop.fd >= 0) return cord->loop.fd;
    int error = cord->io ? 0 : Io::open(*cord);
    if (!error) error = embed(*cord);
    return error ? error : cord->loop.fd;
}

int fiber_cord_run(int64_t duration_ns) {
    if (duration_ns < 0) return -EINVAL;
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    const Fiber* me = cord->sched.current;
    if (!me->main_flow() || noswitch_refuses(me)) return -EPERM;
    return run(*cord, duration_ns ? deadline_after(*cord, duration_ns) : 0);
}

int fiber_cord_next_deadline(int64_t* out) {
    if (!out) return -EINVAL;
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    if (!cord->sched.current->main_flow()) return -EPERM;
    *out = next_run(*cord);
    return 0;
}
