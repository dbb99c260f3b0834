// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's I/O: its backend, which the cord's first operation opens, and the uses of each descriptor.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/backend.h"
#include "io/descriptor_guard.h"
#include "io/own.h"
#include "io/position.h"

#include <new>
#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

// Opens the backend of a cord (backend/selection.h). It is set before the process has its first cord. Returns 0, or an
// error as Backend::open does.
using OpenBackend = int (*)(const Backend** backend, void** state, uint32_t* word, uint32_t asleep, int* doorbell_fd);
extern Relaxed<OpenBackend> open_backend;

// The lock that a thread holds to open or close a backend or the descriptor of a foreign loop. A fork holds it too, so
// that at a fork some cord knows each such descriptor.
void backends_lock();
void backends_unlock();

// The uses of one descriptor, and the fiber that waits for their end to close it.
struct Descriptor {
    List<DescriptorGuard> guards;
    Wait* closer = nullptr;                 // a closing fiber of this cord
    struct CloseRequest* request = nullptr; // the request of a closing fiber of another cord
    bool drained = false;                   // the last read or recv by a call got less than it asked for
};

struct Io : CordIo {
    Descriptor unbound;                 // operations on no descriptor
    Descriptor** descriptors = nullptr; // indexed by descriptor; entries made when first used
    int descriptor_count = 0;
    List<PositionLock> position_locks[32]; // by inode; in order of arrival
    List<struct FifoOpen> fifos;           // opens of FIFOs that wait for the other side (io/fifo.h)
    List<OwnDescriptor> own;
    List<OwnMemory> own_memory;
    bool ending = false; // no fiber of the cord runs again

    static int open(Cord& cord);              // 0, -ENOTSUP, -ENOMEM, -EMFILE, -ENFILE
    static void close(Cord& cord);            // CordIo::end
    static void drop(Cord& cord, bool own);   // CordIo::disown
    int descriptor(int fd, Descriptor** out); // 0, -EBADF, -ENOMEM
    Descriptor* used(int fd) const;           // null if it has no use
    static void end_uses(Descriptor& descriptor);
};

// Allocates an object by malloc; null: no memory. (operator new would need the C++ runtime.)
template <class T>
T* make_by_malloc() {
    void* memory = malloc(sizeof(T));
    return memory ? new (memory) T : nullptr;
}

inline Io& io_of(Cord& cord) { return *static_cast<Io*>(cord.io); }

} // namespace fiberrt
