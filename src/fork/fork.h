// SPDX-License-Identifier: MIT OR Apache-2.0
// fork(): in the child only the fiber that called fork() continues; other fibers, cords and pools are discarded. The
// handlers are registered by pthread_atfork. core/fork_part.h tells how each layer takes part.
#pragma once

namespace fiberrt {

int fork_policy_set(int wanted); // FIBER_FORK_*; 0, -EINVAL

} // namespace fiberrt
