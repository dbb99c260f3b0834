// SPDX-License-Identifier: MIT OR Apache-2.0
// The library itself: version, texts of errors, clock, backend.
#include "api/api.h"
#include "base/c_library.h"
#include "base/keep_errno.h"
#include "fork/fork.h"
#include "core/backend.h"
#include "backend/selection.h"
#include "sim/sim.h"

#include <limits.h>
#include <string.h>

int fiber_version(void) { return FIBERRT_VERSION_MAJOR * 10000 + FIBERRT_VERSION_MINOR * 100 + FIBERRT_VERSION_PATCH; }

const char* fiber_strerror(int error) {
    if (error == INT_MIN) return "unknown error";
    switch (error < 0 ? -error : error) {
    case 0: return "success";
    case EINVAL: return "invalid argument or handle";
    case ESRCH: return "the object of the handle is gone";
    case EPERM:
        return "not allowed here: in a no-switch section, on a main flow, or for another fiber's or cord's object";
    case EDEADLK: return "the wait could never end";
    case ECANCELED: return "the calling fiber is cancelled";
    case ETIMEDOUT: return "timed out";
    case EINTR: return "the calling fiber was interrupted";
    case EBUSY: return "busy: in use, pending already, or not parked";
    case ENOTSUP: return "not supported here";
    default: break;
    }
    const char* text = fiberrt::error_text(error < 0 ? -error : error);
    return text ? text : "unknown error";
}

int64_t fiber_now(void) {
    if (!fiberrt::this_cord) fiberrt::simulation_begin();
    return fiberrt::simulated() ? fiberrt::simulation_look_at_clock() : fiberrt::clock_now();
}

int64_t fiber_sim_pick(uint32_t count, uint32_t one_in) {
    if (!count) return -EINVAL;
    if (!fiberrt::simulation_is_here()) return -ENOTSUP;
    return fiberrt::simulation.pick(count, fiberrt::Site::program, one_in);
}

const char* fiber_backend_name(void) {
    fiberrt::KeepErrno keep;
    const fiberrt::Cord* cord = fiberrt::cord_if_any();
    if (cord && cord->io) return cord->io->backend->name;
    int error;
    const fiberrt::Backend* backend = fiberrt::backend_find(&error);
    return backend ? backend->name : "none";
}

int fiber_set_fork_policy(int policy) { return fiberrt::fork_policy_set(policy); }

uint64_t fiber_features(void) {
    return (fiberrt::backend_built_in("uring") ? FIBER_FEATURE_URING : 0) |
           (fiberrt::backend_built_in("ev") ? FIBER_FEATURE_EV : 0) |
           (fiberrt::backend_built_in("sim") ? FIBER_FEATURE_SIM : 0);
}
