// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's I/O: its backend, opened at the first operation, and the uses of each descriptor.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/backend.h"
#include "io/descriptor_use.h"
#include "io/own.h"
#include "io/position.h"

#include <new>
#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

// Opens the backend that a cord gets (backend/choice.h): set before the process has its first cord. 0, or as Backend::open.
using OpenBackend = int (*)(const Backend** backend, void** state, uint32_t* word, uint32_t parked, int* doorbell_fd);
extern Relaxed<OpenBackend> open_backend;

// Held to open or close a backend, or what a foreign loop waits on, and around a fork: so that each descriptor is known
// to a cord then.
void backends_hold();
void backends_let_go();

// The uses of one descriptor, and who waits for their end to close it.
struct Descriptor {
    List<DescriptorUse> uses;
    Wait* closer = nullptr;                 // of this cord,
    struct CloseRequest* request = nullptr; // of another
    bool drained = false;                   // the last read or recv that was attempted got less than it asked for
};

struct Io : CordIo {
    Descriptor unbound;                 // operations on no descriptor
    Descriptor** descriptors = nullptr; // by number, made when first used
    int descriptor_count = 0;
    List<PositionTurn> turns[32]; // by inode, in order of arrival
    List<struct FifoOpen> fifos;  // that are waited for, see io/fifo.h
    List<OwnDescriptor> own;
    List<OwnMemory> own_memory;
    bool ending = false; // no fiber of the cord runs again

    static int open(Cord& cord);              // 0, -ENOTSUP, -ENOMEM, -EMFILE, -ENFILE
    static void close(Cord& cord);            // CordIo::end
    static void drop(Cord& cord, bool own);   // CordIo::disown
    int descriptor(int fd, Descriptor** out); // 0, -EBADF, -ENOMEM
    Descriptor* used(int fd) const;           // null: by nobody
    static void end_uses(Descriptor& descriptor);
};

// operator new would make the library need the C++ runtime's.
template <class T>
T* make_plain() {
    void* memory = malloc(sizeof(T));
    return memory ? new (memory) T : nullptr;
}

inline Io& io_of(Cord& cord) { return *static_cast<Io*>(cord.io); }

} // namespace fiberrt
