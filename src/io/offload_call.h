// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions that a fiber has called on a thread of the pool (offload.h), and how it waits for them.
//
// On one of these threads a function is called right there: it may block, and if it waited for another thread of the
// pool, all of them could be waiting so.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;

using Offloaded = int64_t (*)(void* arg);

// What stands in the way of a call that would begin now; 0: nothing. *out: the calling thread's cord, null on a thread
// of the pool that has none.
int offload_begin(Cord** out);

// 0 and the result of fn(arg); or fn has not begun, and never will: why the calling fiber's wait ended early, -EAGAIN,
// -ENOMEM, -ENOTSUP. A function that runs is waited for.
int offload_call(Offloaded fn, void* arg, int64_t* result);

// The same, but that the wait may also end early while fn runs. 0: arg is the caller's again. Else free_arg(arg) has
// been called, or will be when fn has returned.
int offload_detached(Offloaded fn, void* arg, void (*free_arg)(void*), int64_t* result);

} // namespace fiberrt
