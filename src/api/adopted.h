// SPDX-License-Identifier: MIT OR Apache-2.0
// What adopted libraries' calls (src/posix) need of the library beyond fiberrt.h.
#pragma once

namespace fiberrt {

// As fiber_close, but ends only the uses of the descriptor by fibers of the calling thread, and waits for no other
// thread.
int close_for_library(int fd);

// The descriptors without which the calling thread's cord cannot work; opens nothing. Returns how many.
constexpr int own_descriptors_most = 5;
int own_descriptors(int out[own_descriptors_most]);

} // namespace fiberrt
