// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers at the position of a file, which take turns.
#pragma once

#include "base/list.h"
#include "io/op.h"

#include <stdint.h>
#include <sys/stat.h>

namespace fiberrt {

class DescriptorUse;

// A call's turn at the position of a file. Operations at the file's own position begin with the position that they find
// and store it when they are done, with no lock between: two at once would read the same bytes, or write over each
// other. So the calls of a cord that move one position, by whatever descriptors, follow one another.
class PositionTurn : Wait, public Link {
public:
    PositionTurn(DescriptorUse& use, int fd, const struct stat& file);
    ~PositionTurn(); // gives the turn to the next call
    PositionTurn(const PositionTurn&) = delete;
    PositionTurn& operator=(const PositionTurn&) = delete;

    int take(); // waits for the turn: 0, or why the wait ended early

private:
    PositionTurn* first();
    bool same_position(const PositionTurn& other) const;

    DescriptorUse& use_;
    int fd_;
    uint64_t device_;
    uint64_t inode_;
    List<PositionTurn>* list_ = nullptr;
};

// Runs a transfer at the file's own position, if the file has one.
int64_t run_at_position(DescriptorUse& use, Op& op, const struct stat& file, int events);

// Whether the kernel takes a position for a transfer. lseek does not tell: that of an eventfd succeeds. This asks for
// an impossible number of buffers: the kernel answers -ESPIPE before it looks at the number, and refuses that without a
// look at the file. An emulator may refuse the number by itself.
bool has_positions(int fd, const struct stat& file, bool writes);

} // namespace fiberrt
