// SPDX-License-Identifier: MIT OR Apache-2.0
// A list of operations, used by the simulated backend (sim_ops.cc).
#pragma once

#include "io/op.h"
#include "sim/sim.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

// Operations in order of arrival.
struct OpList {
    Op** ops = nullptr;
    uint32_t count = 0;
    uint32_t room = 0;

    void push(Op* op) {
        if (count == room) {
            room = room ? 2 * room : 64;
            ops = static_cast<Op**>(realloc(ops, room * sizeof *ops));
            if (!ops) simulation_fails("there is no memory for it");
        }
        ops[count++] = op;
    }
    Op* remove(uint32_t index) {
        Op* op = ops[index];
        memmove(ops + index, ops + index + 1, (--count - index) * sizeof *ops);
        return op;
    }
    uint32_t find(const Op* op) const { // returns count if op is not in the list
        uint32_t i = 0;
        while (i < count && ops[i] != op) i++;
        return i;
    }
};

} // namespace fiberrt
