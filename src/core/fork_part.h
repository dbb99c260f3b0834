// SPDX-License-Identifier: MIT OR Apache-2.0
// A layer's part in a fork. Each layer that has locks, or records of other threads to discard, defines a ForkPart;
// fork/fork.cc calls them in order.
//
//   before        takes every lock of the library, so that the state that the locks guard is whole in the child
//   in the parent releases the locks again
//   in the child  releases the locks; then discards everything that belonged to the threads that are gone
//
// Other threads run on while the kernel copies the memory, page by page. So their data may be half changed in the
// child, and the child follows none of their pointers. It finds slots in their tables, and frees them; locks in the
// user's memory carry a stamp that tells whether this process has touched them (base/spin_lock.h). The data of the
// forking thread is whole, since that thread does nothing else meanwhile.
#pragma once

namespace fiberrt {

struct Cord;
struct Fiber;

// The cord and the fiber that continue in the child.
struct Forked {
    Cord* cord;   // null: the thread has none, and all cords are gone
    Fiber* fiber; // the cord's fiber that called fork()
    bool alone;   // the parent had no other thread and was not simulated: nothing can have been under way
};

struct ForkPart {
    void (*before)();                    // takes the layer's locks
    void (*after)();                     // releases them, in parent and child
    void (*child)(const Forked& forked); // before the slots of fibers and cords that are gone are freed
};

} // namespace fiberrt
