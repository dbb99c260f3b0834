// SPDX-License-Identifier: MIT OR Apache-2.0
// Descriptors and memory that a call holds for itself: freed when the call ends, or with the cord.
#pragma once

#include "base/list.h"

namespace fiberrt {

struct Cord;

// A descriptor that a call has made for itself. It is closed when the call ends, or by its cord's end, if the fiber
// never runs again.
class OwnDescriptor : public Link {
public:
    OwnDescriptor() = default;
    ~OwnDescriptor();
    OwnDescriptor(const OwnDescriptor&) = delete;
    OwnDescriptor& operator=(const OwnDescriptor&) = delete;

    void keep(Cord& cord, int fd);     // whose I/O is open
    int number() const { return fd_; } // -1: none yet
    int release();                     // it is somebody else's from now on
    void close();

private:
    int fd_ = -1;
};

// Memory, in the same way: also of the C library's, which has its own way to free it.
class OwnMemory : public Link {
public:
    using Free = void (*)(void* memory);

    OwnMemory() = default;
    ~OwnMemory();
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;

    void keep(Cord& cord, void* memory, Free free); // whose I/O is open
    void* address() const { return memory_; }       // null: none yet
    void give_back();

private:
    void* memory_ = nullptr;
    Free free_ = nullptr;
};

} // namespace fiberrt
