// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of records.
#include "record/records.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include <stddef.h>
#include <sys/mman.h>

namespace fiberrt {

constinit FiberRecords fiber_records;

namespace {

constinit pthread_mutex_t records_mutex = PTHREAD_MUTEX_INITIALIZER; // held to change fiber_records

constexpr uint32_t fibers_most = SlotTable<Fiber, Tag::fiber>::most;
constexpr uint32_t usable_step = 1 << 13; // records made usable at once

constinit Relaxed<bool> memory_lacks;
constinit FiberRecord nowhere; // the record of all fibers for whose own records there is no memory

std::atomic<CordRecord*> cord_records[CordTable::most];

} // namespace

FiberRecord& record_of_index(uint32_t index) {
    KeepErrno keep;
    MutexGuard guard(records_mutex);
    FiberRecord* all = fiber_records.all.load(std::memory_order_relaxed);
    if (!all) {
        void* memory = mmap(nullptr, sizeof(FiberRecord) * size_t(fibers_most), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED) all = static_cast<FiberRecord*>(memory);
        fiber_records.all.store(all, std::memory_order_relaxed);
    }
    uint32_t room = fiber_records.room.load(std::memory_order_relaxed);
    if (all && index < room) return all[index]; // coverage: race
    uint32_t wanted = (index / usable_step + 1) * usable_step;
    if (!all || mprotect(all + room, sizeof(FiberRecord) * size_t(wanted - room), PROT_READ | PROT_WRITE) != 0) {
        memory_lacks = true; // coverage: no memory
        return nowhere;
    }
    // Release: a thread that finds the room finds the table's address, and its memory usable.
    fiber_records.room.store(wanted, std::memory_order_release);
    return all[index];
}

bool record_memory_lacks() { return memory_lacks; }

void records_lock() { pthread_mutex_lock(&records_mutex); }
void records_unlock() { pthread_mutex_unlock(&records_mutex); }

CordRecord* cord_record_if_any(const Cord& cord) { return cord_records[cord.index].load(std::memory_order_acquire); }

CordRecord* cord_record(Cord& cord) {
    std::atomic<CordRecord*>& place = cord_records[cord.index];
    CordRecord* record = place.load(std::memory_order_acquire);
    if (record) return record;
    KeepErrno keep;
    void* memory = mmap(nullptr, sizeof(CordRecord), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;      // coverage: no memory
    auto* made = static_cast<CordRecord*>(memory); // zero bytes are a new one; most pages of it are never touched
    made->cord = &cord;
    // Release: a thread that finds the record finds it made.
    if (place.compare_exchange_strong(record, made, std::memory_order_acq_rel)) return made;
    munmap(memory, sizeof(CordRecord)); // coverage: race
    return record;
}

} // namespace fiberrt
