// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles and the slots that they name: fibers, cords, scopes, channels and other records lie in tables of slots.
//
//   id:  63      56 55            32 31              0
//        [  tag   ] [  slot index  ] [  generation   ]
//
// A slot's generation is odd while the slot is in use and even while it is free, and only grows. So a handle with
// another generation than its slot is stale for ever. A slot whose generation would wrap is never used again. Slots are
// never unmapped, so any thread may look at any slot at any time.
#pragma once

#include "base/planted.h"
#include "core/hooks.h"

#include <atomic>
#include <errno.h>
#include <new>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <type_traits>

namespace fiberrt {

enum class Tag : uint8_t { fiber = 1, cord = 2, scope = 3, key = 4, channel = 5, child = 6, pool = 7 };

constexpr uint64_t make_id(Tag tag, uint32_t index, uint32_t generation) {
    return uint64_t(tag) << 56 | uint64_t(index) << 32 | generation;
}
constexpr uint32_t id_index(uint64_t id) { return uint32_t(id >> 32) & 0xffffff; }
constexpr uint32_t id_generation(uint64_t id) { return uint32_t(id); }

// The free slots of one cord, a list through T::next_free. Only that cord's thread touches it.
template <class T>
struct FreeSlots {
    T* head = nullptr;
    uint32_t count = 0;
};

// A table of slots. T has the members std::atomic<uint32_t> generation, uint32_t index and T* next_free. There are at
// most 1 << index_bits slots; the table allocates 1 << chunk_bits at a time.
template <class T, Tag tag, uint32_t index_bits = 24, uint32_t chunk_bits = 6>
class SlotTable {
    static constexpr uint32_t chunk_slots = 1u << chunk_bits; // also how many a cord takes at a time
    static constexpr uint32_t max_chunks = 1u << (index_bits - chunk_bits);
    static constexpr uint32_t keep_most = 4096; // free slots of one cord; beyond, all go to the table

public:
    static constexpr uint32_t most = 1u << index_bits; // slots

    // Finds the slot that a handle names. 0; -EINVAL: no slot had this handle; -ESRCH: the handle is stale.
    int resolve(uint64_t id, T** out) {
        if (uint8_t(id >> 56) != uint8_t(tag)) [[unlikely]]
            return -EINVAL;
        uint32_t index = id_index(id);
        if (index >> index_bits) [[unlikely]]
            return -EINVAL;
        T* chunk = chunk_at(index >> chunk_bits);
        if (!chunk) [[unlikely]]
            return -EINVAL;
        T* slot = &chunk[index & (chunk_slots - 1)];
        uint32_t generation = slot->generation.load(std::memory_order_relaxed);
        if (generation == id_generation(id) && (PLANTED(free_slot_is_found) || (generation & 1))) [[likely]] {
            *out = slot;
            return 0;
        }
        bool given_out = (id_generation(id) & 1) && id_generation(id) < generation;
        return given_out ? -ESRCH : -EINVAL;
    }

    static uint64_t id_of(const T* slot) {
        return make_id(tag, slot->index, slot->generation.load(std::memory_order_relaxed));
    }

    // Takes a slot into use; its other members are as the last user left them, or zero. 0, -ENOMEM, -EAGAIN.
    int take(FreeSlots<T>& free, T** out) {
        if (!free.head) [[unlikely]] {
            int error = refill(free);
            if (error) return error;
        }
        *out = take_free(free);
        return 0;
    }

    // take() when free is known not to be empty.
    static T* take_free(FreeSlots<T>& free) {
        T* slot = free.head;
        free.head = slot->next_free;
        free.count--;
        slot->generation.store(slot->generation.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return slot;
    }

    // Makes the handles of a slot stale: the slot's use ends.
    // Release: a thread that finds the new generation, by an acquire, sees the writes of the use that has ended.
    static void end_use(T* slot) {
        slot->generation.store(slot->generation.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }

    // Gives back a slot whose use has ended.
    void give_back(FreeSlots<T>& free, T* slot) {
        if (!PLANTED(generations_begin_anew) && slot->generation.load(std::memory_order_relaxed) == UINT32_MAX - 1)
            return; // one more use would end in a wrap
        slot->next_free = free.head;
        free.head = slot;
        if (++free.count > keep_most) [[unlikely]]
            give_back_all(free); // one cord makes fibers, another ends them
    }

    // Gives all free slots of a cord to the table, for example when the cord ends.
    void give_back_all(FreeSlots<T>& free) {
        if (!free.head) return;
        T* last = free.head;
        while (last->next_free) last = last->next_free;
        pthread_mutex_lock(&mutex_);
        last->next_free = spare_;
        spare_ = free.head;
        pthread_mutex_unlock(&mutex_);
        free = {};
    }

    // Around a fork: no cord takes slots from the table or gives any back between these two.
    void lock() { pthread_mutex_lock(&mutex_); }
    void unlock() { pthread_mutex_unlock(&mutex_); }

    // In the child of a fork: frees every slot for which keep() does not hold. The free lists of cords must be emptied,
    // as their slots are in the table's list now.
    template <class Keep>
    void reclaim(Keep keep) {
        spare_ = nullptr;
        T** end = &spare_;
        each([&](T* slot) {
            if (keep(slot)) return;
            if (slot->generation.load(std::memory_order_relaxed) & 1) end_use(slot);
            if (slot->generation.load(std::memory_order_relaxed) == UINT32_MAX - 1) return;
            slot->next_free = nullptr;
            *end = slot;
            end = &slot->next_free;
        });
    }

    // The slot with this index; null: the table has not allocated it.
    T* at(uint32_t index) {
        T* chunk = chunk_at(index >> chunk_bits);
        return chunk ? &chunk[index & (chunk_slots - 1)] : nullptr;
    }

    // Calls visit(slot) for every slot that the table has allocated. If visit returns a bool, until that is false.
    template <class Visit>
    void each(Visit visit) {
        for (uint32_t c = 0; c < max_chunks; c++) {
            T* chunk = chunk_at(c);
            if (!chunk) return;
            for (uint32_t i = 0; i < chunk_slots; i++) {
                if constexpr (std::is_same_v<decltype(visit(&chunk[i])), bool>) {
                    if (!visit(&chunk[i])) return;
                } else {
                    visit(&chunk[i]);
                }
            }
        }
    }

private:
    // Acquire: pairs with the release in grow(), so that the chunk's slots are seen as made.
    T* chunk_at(uint32_t number) const { return __atomic_load_n(&chunks_[number], __ATOMIC_ACQUIRE); }

    int refill(FreeSlots<T>& free) {
        pthread_mutex_lock(&mutex_);
        int error = 0;
        if (spare_) {
            free.head = spare_;
            T* last = spare_;
            for (free.count = 1; free.count < chunk_slots && last->next_free; free.count++) last = last->next_free;
            spare_ = last->next_free;
            last->next_free = nullptr;
        } else {
            error = grow(free);
        }
        pthread_mutex_unlock(&mutex_);
        return error;
    }

    int grow(FreeSlots<T>& free) {
        if (chunk_count_ == max_chunks) return -EAGAIN;
        size_t size = sizeof(T) * chunk_slots;
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return -ENOMEM;
        hooks::pointers_made(memory, size);
        T* chunk = static_cast<T*>(memory);
        // In order of their indices, so that fibers made one after the other lie one after the other.
        for (uint32_t i = chunk_slots; i-- > 0;) {
            T* slot = new (&chunk[i]) T;
            slot->index = chunk_count_ << chunk_bits | i;
            slot->next_free = free.head;
            free.head = slot;
        }
        free.count = chunk_slots;
        // Release: a thread that finds the chunk finds its slots made.
        __atomic_store_n(&chunks_[chunk_count_++], chunk, __ATOMIC_RELEASE);
        return 0;
    }

    T* chunks_[max_chunks] = {}; // std::atomic would be too many constructors for a constant initializer, for clang
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER; // guards the two below
    uint32_t chunk_count_ = 0;
    T* spare_ = nullptr;
};

} // namespace fiberrt
