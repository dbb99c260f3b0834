// SPDX-License-Identifier: MIT OR Apache-2.0
// What every file of the C boundary needs: handles to control blocks, and both names of each function.
#pragma once

#include "core/cord.h"
#include "core/relay.h"
#include "fiberrt.h"

#include <errno.h>

// Beside the linker name, which the header gives a function, the plain one, for dlsym.
#define FIBERRT_EXPORT(name) \
    extern "C" FIBERRT_API decltype(name) fiberrt_plain_##name __asm__(#name) __attribute__((alias("fiberrt_" #name)))

namespace fiberrt::api {

// The control block of a fiber of the calling thread. 0, -EINVAL, -ESRCH, -ENOTSUP.
inline int own_fiber(fiber_t handle, Fiber** out) {
    int error = fibers.resolve(handle.id, out);
    if (error) return error;
    Cord* cord = (*out)->cord.load(std::memory_order_relaxed);
    if (cord == this_cord && cord) [[likely]]
        return 0;
    return cord ? -ENOTSUP : -ESRCH; // none: it ended on its own thread a moment ago
}

// Fills an output struct of `size` bytes, as the caller knows it, from ours; what we do not know becomes zero.
void copy_out(void* out, size_t size, const void* known, size_t known_size);

inline fiber_t handle_of(const Fiber* fiber) { return {fibers.id_of(fiber)}; }

} // namespace fiberrt::api
