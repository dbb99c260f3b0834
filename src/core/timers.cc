// SPDX-License-Identifier: MIT OR Apache-2.0
// The lazily kept heap of timers.h.
#include "core/timers.h"

#include <stdlib.h>

namespace fiberrt {

bool Timers::reserve(uint32_t timers) {
    if (timers <= capacity_) return true;
    uint32_t capacity = capacity_ ? capacity_ * 2 : 16;
    while (capacity < timers) capacity *= 2;
    auto* heap = static_cast<Entry*>(realloc(heap_, capacity * sizeof(Entry)));
    if (!heap) return false;
    heap_ = heap;
    capacity_ = capacity;
    return true;
}

void Timers::set(Timer* timer, int64_t deadline) {
    timer->deadline = deadline;
    if (deadline == never) return;
    timer->sequence = sequence_++;
    if (!timer->position) {
        sift_up(size_++, {deadline, timer});
    } else if (deadline < heap_[timer->position - 1].key) {
        sift_up(timer->position - 1, {deadline, timer});
    } else { // it keeps its key, but the new sequence puts it behind the others of that key
        sift_down(timer->position - 1, {heap_[timer->position - 1].key, timer});
    }
}

void Timers::remove(Timer* timer) {
    timer->deadline = never;
    if (timer->position) take_out(timer->position - 1);
}

int64_t Timers::next() { return settle_top() ? heap_[0].key : never; }

Timer* Timers::expired(int64_t now) {
    if (size_ == 0 || heap_[0].key > now || !settle_top() || heap_[0].key > now) return nullptr;
    Timer* timer = heap_[0].timer;
    remove(timer);
    return timer;
}

void Timers::release() {
    free(heap_);
    *this = Timers();
}

bool Timers::settle_top() {
    while (size_) {
        Timer* timer = heap_[0].timer;
        if (timer->deadline == heap_[0].key) return true;
        if (timer->deadline == never) {
            take_out(0);
        } else {
            sift_down(0, {timer->deadline, timer});
        }
    }
    return false;
}

void Timers::take_out(uint32_t position) {
    heap_[position].timer->position = 0;
    Entry last = heap_[--size_];
    if (position == size_) return;
    if (position && before(last, heap_[(position - 1) / 4])) {
        sift_up(position, last);
    } else {
        sift_down(position, last);
    }
}

void Timers::sift_up(uint32_t position, Entry entry) {
    while (position) {
        uint32_t parent = (position - 1) / 4;
        if (!before(entry, heap_[parent])) break;
        place(position, heap_[parent]);
        position = parent;
    }
    place(position, entry);
}

void Timers::sift_down(uint32_t position, Entry entry) {
    for (;;) {
        uint32_t child = position * 4 + 1;
        if (child >= size_) break;
        uint32_t least = child;
        uint32_t end = child + 4 < size_ ? child + 4 : size_;
        while (++child < end) {
            if (before(heap_[child], heap_[least])) least = child;
        }
        if (!before(heap_[least], entry)) break;
        place(position, heap_[least]);
        position = least;
    }
    place(position, entry);
}

} // namespace fiberrt
