// SPDX-License-Identifier: MIT OR Apache-2.0
// A call's turn at the position of a file.
#pragma once

#include "base/list.h"
#include "core/wait.h"

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
    ~PositionTurn(); // the next one's turn
    PositionTurn(const PositionTurn&) = delete;
    PositionTurn& operator=(const PositionTurn&) = delete;

    int take(); // waits for it: 0, or why the wait ended early

private:
    PositionTurn* first();
    bool same_position(const PositionTurn& other) const;

    DescriptorUse& use_;
    int fd_;
    uint64_t device_;
    uint64_t inode_;
    List<PositionTurn>* list_ = nullptr;
};

} // namespace fiberrt
