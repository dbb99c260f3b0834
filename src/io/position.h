// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers at the position of a file: a lock lets one call of a cord at a time use the position.
#pragma once

#include "base/list.h"
#include "io/op.h"

#include <stdint.h>
#include <sys/stat.h>

namespace fiberrt {

class DescriptorGuard;

// The file-position lock. An operation at the file's own position reads the position at its start and stores it at its
// end, and the kernel locks nothing in between: two at once would read the same bytes, or overwrite each other's. So a
// call that moves a position holds this lock. It excludes the other calls of its cord on the same position, by whatever
// descriptors; they get it in order of arrival.
class PositionLock : Wait, public Link {
public:
    PositionLock(DescriptorGuard& guard, int fd, const struct stat& file);
    ~PositionLock(); // passes the lock to the next call
    PositionLock(const PositionLock&) = delete;
    PositionLock& operator=(const PositionLock&) = delete;

    int lock(); // waits for the lock: 0, or why the wait ended early

private:
    PositionLock* first();
    bool same_position(const PositionLock& other) const;

    DescriptorGuard& guard_;
    int fd_;
    uint64_t device_;
    uint64_t inode_;
    List<PositionLock>* list_ = nullptr;
};

// Runs a transfer at the file's own position, if the file has one.
int64_t run_at_position(DescriptorGuard& guard, Op& op, const struct stat& file, int events);

// Whether the kernel accepts a position for a transfer. lseek does not tell: it succeeds on an eventfd. So this asks
// for an impossible number of buffers: the kernel returns -ESPIPE before it checks the number, and otherwise refuses
// the number without using the file. An emulator may check the number first.
bool has_positions(int fd, const struct stat& file, bool writes);

} // namespace fiberrt
