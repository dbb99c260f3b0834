// SPDX-License-Identifier: MIT OR Apache-2.0
// What a layer does around a fork. Each layer that has locks or something of other threads to forget defines a ForkPart;
// fork/fork.cc calls them in order.
//
//   before        every lock of the process is taken, so that the state that the locks guard is whole in the child
//   in the parent the locks are released again
//   in the child  the locks are released; then everything is forgotten that belonged to a thread that is gone
//
// The child cannot rely on what other threads own, not even on its being whole: they run on while the kernel copies the
// memory, page by page. So the child follows none of their pointers. It finds slots in their tables, and frees them;
// memory of the user's shows by a stamp whether this process has touched it (base/spin_lock.h). What the forking thread
// owns is whole, since that thread does nothing else meanwhile.
#pragma once

namespace fiberrt {

struct Cord;
struct Fiber;

// What goes on in the child.
struct Survivor {
    Cord* cord;   // null: the thread has none, and all cords are gone
    Fiber* fiber; // of that cord
    bool alone;   // the parent had no other thread and was not simulated: nothing can have been under way
};

struct ForkPart {
    void (*before)();                        // takes the layer's locks
    void (*after)();                         // releases them, in parent and child
    void (*child)(const Survivor& survivor); // before the slots of fibers and cords that are gone are freed
};

} // namespace fiberrt
