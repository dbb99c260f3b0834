// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts living fibers by their names, so a monitoring system sees which names have ever more fibers.
#pragma once

#include "base/arena.h"
#include "fiberrt.h"

#include <stdint.h>

namespace fiberrt {

struct NameCount {
    uint64_t hash;
    NameCount* child[4];
    char name[FIBER_NAME_MAX];
    uint64_t fibers;
    uint64_t dead_locked;
    NameCount* next;
};

class Names {
public:
    int collect(); // 0, -ENOMEM

    // Notes that a fiber is in a deadlock. 0, -ENOMEM.
    int add_dead_locked(const char (&name)[FIBER_NAME_MAX]);

    const NameCount* first() const { return list_; }

private:
    NameCount* of(const char (&name)[FIBER_NAME_MAX]);

    Arena arena_;
    NameCount* root_ = nullptr;
    NameCount* list_ = nullptr;
};

} // namespace fiberrt
