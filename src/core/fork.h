// SPDX-License-Identifier: MIT OR Apache-2.0
// fork: what becomes of fibers, cords and pools in the child, which goes on with the one fiber that forked.
//
//   before        every lock of the process is taken, so that what they guard is whole in the child
//   in the parent they are left again
//   in the child  they are left; then all is forgotten that belonged to somebody who is no more
//
// What other threads own cannot be relied on in the child, not even to be whole: they run on while the kernel copies
// the memory, page by page. So nothing of theirs is followed there. Slots are found in their tables, and freed; what
// lies in memory of the user's shows by a stamp that it has not been touched in this process (base/spin_lock.h). The
// forking thread's own things are whole, since it does nothing else meanwhile.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// Who goes on in the child.
struct Survivor {
    Cord* cord;   // null: the thread has none, and all cords are gone
    Fiber* fiber; // of it
    bool alone;   // the parent had no other thread, nor was it simulated: nothing can have been under way
};

// What the layers beside core do about it.
struct ForkPart {
    void (*before)();                        // takes its locks
    void (*after)();                         // leaves them, in parent and child
    void (*child)(const Survivor& survivor); // before the slots of those who are no more are freed
};
extern const ForkPart fork_part_of_sync; // sync/fork.cc
extern const ForkPart fork_part_of_io;   // io/fork.cc

bool fork_handlers_install(); // false: no memory. Once

int fork_policy_set(int wanted); // FIBER_FORK_*; 0, -EINVAL

} // namespace fiberrt
