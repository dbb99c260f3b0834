// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/creation.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "core/begin.h"
#include "core/cord.h"
#include "core/handles.h"
#include "core/life.h"
#include "core/noted_frame.h"
#include "debug/describe.h"
#include "debug/own_code.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace fiberrt {

namespace {

// Only the thread that creates the fiber writes its record, before any other thread knows the fiber. A reader compares
// the generation before and after it reads the rest.
struct CreationRecord {
    std::atomic<uint32_t> generation; // of the fiber; 0: there is no record
    std::atomic<uintptr_t> at;
    std::atomic<uint64_t> by;
};

constinit pthread_mutex_t creation_mutex = PTHREAD_MUTEX_INITIALIZER; // for turning on and off
constinit std::atomic<CreationRecord*> creation_records{nullptr};     // by Fiber::index; never unmapped

constexpr size_t records_size = sizeof(CreationRecord) * decltype(fibers)::most;

// The first return address on the calling thread's stack that is not the library's.
[[gnu::noinline]] uintptr_t address_outside() {
    __builtin_unwind_init();
    FIBERRT_HERE(here);
    constexpr int frames_most = 24; // more than the library has on a stack
    void* frames[frames_most];
    Backtrace trace = {frames, frames_most, 0, true, 0};
    look_lock(); // the unwinder's memory
    unwind_from(&&here, static_cast<char*>(__builtin_dwarf_cfa()), nullptr, trace);
    look_unlock();
    for (int i = 0; i < trace.count; i++) {
        auto address = reinterpret_cast<uintptr_t>(frames[i]);
        if (address && !is_own_code(address - 1)) return address;
    }
    return 0;
}

void note_creation(Fiber* fiber) {
    CreationRecord* records = creation_records.load(std::memory_order_acquire);
    // Null: this thread sees the observer, which was set last, but not the records yet.
    if (!records || is_internal(fiber->life.kind) || fiber->main_flow()) return;
    CreationRecord& record = records[fiber->index];
    const Cord* here = this_cord;
    const Fiber* by = here ? here->sched.current : nullptr;
    // Release, and a reader's acquire: a reader that finds a new value below finds the 0, too.
    record.generation.store(0, std::memory_order_relaxed);
    record.at.store(address_outside(), std::memory_order_release);
    record.by.store(by ? id_in(by) : 0, std::memory_order_release);
    record.generation.store(fiber->generation.load(std::memory_order_relaxed), std::memory_order_release);
}

// Makes a cord take the slow way, on its own thread. The message is from malloc.
void slow_down(Cord& cord, Message* message) {
    cord.counts.room = 0;
    free(message);
}

// False: there is no memory for a message, so a cord goes on without records.
bool slow_down_all() {
    bool all = true;
    cords.each([&](Cord* cord) {
        if (!(cord->generation.load(std::memory_order_acquire) & 1) || cord->lost) return;
        if (cord == cord_if_any()) {
            cord->counts.room = 0;
            return;
        }
        auto* message = static_cast<Message*>(malloc(sizeof(Message)));
        if (!message) { // coverage: no memory
            all = false;
            return;
        }
        message->receive = slow_down;
        if (!send(*cord, message)) free(message);
    });
    return all;
}

} // namespace

int record_creation(bool on) {
    KeepErrno keep;
    if (!process_begin()) return -ENOMEM; // there may have been no cord yet
    MutexGuard guard(creation_mutex);
    if (!on) {
        creation_observer = nullptr; // each cord has room again after the next fiber that it creates
        return 0;
    }
    if (!own_code_begin()) return -ENOMEM;
    if (!creation_records.load(std::memory_order_relaxed)) {
        void* memory =
            mmap(nullptr, records_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return -ENOMEM;
        creation_records.store(static_cast<CreationRecord*>(memory), std::memory_order_release);
    }
    creation_observer = note_creation;
    if (slow_down_all()) return 0;
    creation_observer = nullptr;
    return -ENOMEM;
}

bool creation_of(fiber_t fiber, Creation* out) {
    const CreationRecord* records = creation_records.load(std::memory_order_acquire);
    if (!records) return false;
    const CreationRecord& record = records[id_index(fiber.id)];
    uint32_t generation = id_generation(fiber.id);
    if (record.generation.load(std::memory_order_acquire) != generation) return false;
    out->at = record.at.load(std::memory_order_acquire);
    out->by = record.by.load(std::memory_order_acquire);
    return record.generation.load(std::memory_order_relaxed) == generation;
}

void creation_lock() {
    pthread_mutex_lock(&creation_mutex);
    own_code_lock();
}
void creation_unlock() {
    own_code_unlock();
    pthread_mutex_unlock(&creation_mutex);
}

} // namespace fiberrt
