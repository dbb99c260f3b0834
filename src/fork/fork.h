// SPDX-License-Identifier: MIT OR Apache-2.0
// fork: what becomes of fibers, cords and pools in the child, in which only the fiber that forked goes on. How each
// layer takes part is in core/fork_part.h.
#pragma once

namespace fiberrt {

int fork_policy_set(int wanted); // FIBER_FORK_*; 0, -EINVAL

} // namespace fiberrt
