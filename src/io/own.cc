// SPDX-License-Identifier: MIT OR Apache-2.0
// Descriptors and memory that a call holds for itself.
#include "io/own.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "io/io.h"

#include <unistd.h>

namespace fiberrt {

OwnDescriptor::~OwnDescriptor() {
    if (linked()) unlink();
    close();
}

void OwnDescriptor::keep(Cord& cord, int fd) {
    fd_ = fd;
    io_of(cord).own.push_back(this);
}

void OwnDescriptor::close() {
    if (fd_ < 0) return;
    KeepErrno keep;
    CordIo& io = *this_cord->io;
    if (io.backend && io.backend->closing) io.backend->closing(io.state, fd_);
    ::close(fd_);
    fd_ = -1;
}

int OwnDescriptor::release() {
    int fd = fd_;
    fd_ = -1;
    if (linked()) unlink();
    return fd;
}

OwnMemory::~OwnMemory() {
    if (linked()) unlink();
    give_back();
}

void OwnMemory::keep(Cord& cord, void* memory, Free free) {
    memory_ = memory;
    free_ = free;
    io_of(cord).own_memory.push_back(this);
}

void OwnMemory::give_back() {
    if (!memory_) return;
    KeepErrno keep;
    free_(memory_);
    memory_ = nullptr;
}

} // namespace fiberrt
