// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of records.
#include "record/records.h"

#include "base/keep_errno.h"
#include "core/hooks.h"
#include "core/wait.h"

#include <new>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

namespace fiberrt {

namespace {

// The records of all fibers that there can ever be: address space, of which the table makes the first `room` records
// usable. Slots' indices are dense, so few records are.
constexpr uint32_t fibers_most = SlotTable<Fiber, Tag::fiber>::most;
constexpr uint32_t step = 1 << 13; // records made usable at once

struct FiberRecords {
    std::atomic<FiberRecord*> all;
    std::atomic<uint32_t> room;
    pthread_mutex_t mutex;
};
constinit FiberRecords fiber_records = {{}, {}, PTHREAD_MUTEX_INITIALIZER};

FiberRecord nowhere; // of fibers for whose records there is no memory

std::atomic<CordRecord*> cord_records[CordTable::most];

// Makes the record of this index usable. False: no memory.
[[gnu::noinline, gnu::cold]] bool grow(uint32_t index) {
    KeepErrno keep;
    pthread_mutex_lock(&fiber_records.mutex);
    FiberRecord* all = fiber_records.all.load(std::memory_order_relaxed);
    if (!all) {
        void* memory = mmap(nullptr, sizeof(FiberRecord) * size_t(fibers_most), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED) all = static_cast<FiberRecord*>(memory);
        fiber_records.all.store(all, std::memory_order_relaxed);
    }
    uint32_t room = fiber_records.room.load(std::memory_order_relaxed);
    bool fits = index < room;
    if (all && !fits) {
        uint32_t wanted = (index / step + 1) * step;
        fits = mprotect(all + room, sizeof(FiberRecord) * size_t(wanted - room), PROT_READ | PROT_WRITE) == 0;
        // Release: a thread that finds the room finds the table's address, and its memory usable.
        if (fits) fiber_records.room.store(wanted, std::memory_order_release);
    }
    pthread_mutex_unlock(&fiber_records.mutex);
    return fits;
}

Doing doing_in(const Wait* wait) {
    switch (wait->what) {
    case WaitFor::time: return Doing::waits_for_time;
    case WaitFor::fiber:
    case WaitFor::foreign_fiber:
    case WaitFor::cord:
    case WaitFor::quiet: return Doing::waits_for_fiber;
    case WaitFor::children: return Doing::waits_for_children;
    case WaitFor::op:
    case WaitFor::uses:
    case WaitFor::position: return Doing::waits_for_io;
    case WaitFor::primitive: return Doing::waits_for_lock;
    case WaitFor::select: return Doing::waits_for_channel;
    case WaitFor::something:
    case WaitFor::pool:
    case WaitFor::offload:
    case WaitFor::executor:
    case WaitFor::exchange:
    case WaitFor::call: return Doing::waits_for_other;
    }
    return Doing::waits_for_other; // coverage: never
}

} // namespace

Doing doing_now(const Fiber* fiber) {
    switch (fiber->sched.state) {
    case State::scheduled:
    case State::awaiting_stack:
    case State::queued:
    case State::woken:
    case State::offered: return Doing::runnable;
    case State::waiting: return doing_in(fiber->wait);
    case State::yielding:
    case State::transferring: return Doing::waits_for_wakeup;
    case State::created:
    case State::running: // the executor, while a step runs; a hosted fiber, whose step has just returned
    case State::handed_out:
    case State::dead: return Doing::waits_for_other;
    }
    return Doing::waits_for_other; // coverage: never
}

FiberRecord* record_if_any(const Fiber* fiber) {
    // Acquire: pairs with the release in grow().
    if (fiber->index >= fiber_records.room.load(std::memory_order_acquire)) return nullptr;
    return fiber_records.all.load(std::memory_order_relaxed) + fiber->index;
}

FiberRecord& record_of(const Fiber* fiber) {
    if (FiberRecord* record = record_if_any(fiber)) [[likely]]
        return *record;
    return grow(fiber->index) ? *record_if_any(fiber) : nowhere;
}

CordRecord* cord_record_if_any(const Cord& cord) { return cord_records[cord.index].load(std::memory_order_acquire); }

CordRecord* cord_record(Cord& cord) {
    std::atomic<CordRecord*>& place = cord_records[cord.index];
    CordRecord* record = place.load(std::memory_order_acquire);
    if (record) return record;
    KeepErrno keep;
    void* memory = mmap(nullptr, sizeof(CordRecord), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr; // coverage: no memory
    auto* made = new (memory) CordRecord;
    made->cord = &cord;
    // Release: a thread that finds the record finds it made.
    if (place.compare_exchange_strong(record, made, std::memory_order_acq_rel)) return made;
    munmap(memory, sizeof(CordRecord)); // coverage: race
    return record;
}

} // namespace fiberrt
