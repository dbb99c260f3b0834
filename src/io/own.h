// SPDX-License-Identifier: MIT OR Apache-2.0
// Descriptors and memory that a call holds for itself: freed when the call ends, or with the cord.
#pragma once

#include "base/list.h"

namespace fiberrt {

struct Cord;

// A descriptor that a call has made for itself. It is closed when the call ends. If the fiber never runs again, the
// cord's I/O closes it when the cord ends.
class OwnDescriptor : public Link {
public:
    OwnDescriptor() = default;
    ~OwnDescriptor();
    OwnDescriptor(const OwnDescriptor&) = delete;
    OwnDescriptor& operator=(const OwnDescriptor&) = delete;

    void keep(Cord& cord, int fd);     // whose I/O is open
    int number() const { return fd_; } // -1: none yet
    int release();                     // the caller owns it from now on
    void close();

private:
    int fd_ = -1;
};

// Memory that a call holds for itself, freed in the same way. `free` is the function that frees it.
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
