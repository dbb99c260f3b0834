// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_offload and the like: a fiber calls a function on a thread of the pool (offload.h) and waits for it.
//
// On a thread of the pool itself the function is called directly. It may block there, and if it waited for another
// thread of the pool, all threads of the pool could be waiting in this way.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;

using Offloaded = int64_t (*)(void* arg);

// Returns the error that keeps a call from beginning now; 0: none. *out: the calling thread's cord, null on a thread of
// the pool without one.
int offload_begin(Cord** out);

// Calls fn(arg) on the pool. 0: *result is the function's result. Otherwise fn never begins: the error is the reason
// why the fiber's wait ended early, -EAGAIN, -ENOMEM or -ENOTSUP. Once fn runs, nothing ends the wait early.
int offload_call(Offloaded fn, void* arg, int64_t* result);

// Like offload_call(), but the wait may also end early while fn runs. 0: the caller owns arg again. Otherwise
// free_arg(arg) has been called, or will be when fn has returned.
int offload_detached(Offloaded fn, void* arg, void (*free_arg)(void*), int64_t* result);

} // namespace fiberrt
