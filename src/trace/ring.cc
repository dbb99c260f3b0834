// SPDX-License-Identifier: MIT OR Apache-2.0
// The slow half of the ring: its memory, events with a text, and a ring without room.
#include "trace/ring.h"

#include <new>
#include <string.h>
#include <sys/mman.h>

namespace fiberrt::trace {

namespace {

size_t bytes_of(uint32_t slots) { return sizeof(Ring) + slots * sizeof(Event); }

} // namespace

Ring* Ring::make(uint32_t slots, uint32_t session, void (*half_full)(), bool always) {
    void* memory = mmap(nullptr, bytes_of(slots), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) Ring(slots, session, half_full, always);
}

void Ring::leave() {
    // Acquire and release: all accesses of the owner that left first come before the end of the memory.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) munmap(this, bytes_of(size()));
}

void Ring::put(Event event, const char* text, size_t length) {
    auto kept = uint32_t(length < text_most ? length : text_most);
    uint32_t wanted = 1 + slots_of_text(kept);
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail + wanted > limit_) {
        if (!make_room(event.time, wanted)) return;
        tail = tail_.load(std::memory_order_relaxed);
    }
    event.detail = uint8_t(kept);
    slots()[tail & mask_] = event;
    for (uint32_t done = 0; done < kept; done += sizeof(Event)) {
        uint32_t part = kept - done < sizeof(Event) ? kept - done : uint32_t(sizeof(Event));
        memcpy(&slots()[(tail + 1 + done / sizeof(Event)) & mask_], text + done, part);
    }
    tail_.store(tail + wanted, std::memory_order_release); // as in put() without a text
}

// The event does not fit below limit_: looks whether the writer has made room. False: the event is dropped.
bool Ring::make_room(uint64_t now, uint32_t wanted) {
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (always_ || tail + wanted - head_.load(std::memory_order_relaxed) > size() / 2) half_full_();
    uint64_t head = head_.load(std::memory_order_acquire); // acquire: the writer has read the slots that it gives back
    uint64_t used = tail - head;
    bool fits = dropped_ ? used <= size() / 2 : used + wanted <= size();
    if (!fits) {
        if (!dropped_++) dropped_since_ = now;
        all_dropped_.store(all_dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        limit_ = 0;
        return false;
    }
    if (dropped_) {
        slots()[tail & mask_] = {dropped_since_, 0, dropped_, 0, What::dropped, 0, 0, 0};
        tail_.store(++tail, std::memory_order_release);
        dropped_ = 0;
        used++;
    }
    if (!always_) limit_ = head + (used + wanted <= size() / 2 ? size() / 2 : size());
    return true;
}

// Copies the text of the event that is next.
uint32_t Ring::copy_text(const Event& event, char (&text)[text_most + 1]) {
    uint32_t length = has_text(event.what) ? event.detail : 0;
    for (uint32_t done = 0; done < length; done += sizeof(Event)) {
        uint32_t part = length - done < sizeof(Event) ? length - done : uint32_t(sizeof(Event));
        memcpy(text + done, &slots()[(taken_ + 1 + done / sizeof(Event)) & mask_], part);
    }
    text[length] = '\0';
    return slots_of_text(length);
}

} // namespace fiberrt::trace
