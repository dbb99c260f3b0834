// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel: a queue of items of one size, between any fibers and threads. With a capacity of 0 an item passes from the
// sender's memory to the receiver's, while both are in their calls.
//
// Senders and receivers wait in one list. A receiver waits only while there are no items, and a sender only while there
// is no room, if their waits are not claimed. So a caller that can continue completes the first waiter of the other
// kind.
//
// A channel's record is a slot, like a fiber's: it is never unmapped, so a call with the handle of a destroyed channel
// is safe and fails.
// fuzz: waiting 95 %
#pragma once

#include "core/slots.h"
#include "sync/waiting.h"

#include <stddef.h>

namespace fiberrt {

struct Channel : Waiters {
    std::atomic<uint32_t> generation{0}; // of the slot: odd while in use. Its use ends under the lock
    uint32_t index = 0;
    Channel* next_free = nullptr;

    uint32_t item_size = 0;
    bool closed = false;
    uint64_t capacity = 0;
    uint64_t first_item = 0; // the oldest item's place in the ring
    uint64_t item_count = 0; // in the ring
    char* ring = nullptr;
    struct Returned* returned = nullptr; // items of receivers that never ran again: older than those in the ring
    uint64_t returned_count = 0;

    bool is(uint64_t id) const { return generation.load(std::memory_order_relaxed) == id_generation(id); }

    struct Tried {
        int result;   // 0, -EPIPE, -ESRCH, -EAGAIN: the caller must wait
        Waiter* peer; // the caller completes this waiter's wait, with 0, after it has unlocked; null: none
    };
    // Sends or receives an item if it need not wait. Under the lock.
    Tried try_transfer(uint64_t id, bool send, void* item) {
        if (!is(id)) return {-ESRCH, nullptr};
        return send ? try_send(item) : try_receive(item);
    }
    static const WaiterKind& kind(bool send) { return send ? sender : receiver; }

private:
    Tried try_send(const void* item);
    Tried try_receive(void* item);
    static void return_item(SyncWait& wait);
    static const WaiterKind sender, receiver;
    Waiter* claim_first(bool send);
    Waiter* claim_from(Waiter* foremost, bool send);
    void copy(void* to, const void* from) const;
    uint64_t wrapped(uint64_t place) const { return place < capacity ? place : place - capacity; }
    char* place(uint64_t number) const { return ring + wrapped(first_item + number) * item_size; }
    void append(const void* item);
};

using ChannelTable = SlotTable<Channel, Tag::channel, 20>;
extern ChannelTable channels;

constexpr uint32_t channel_item_most = 4096; // bytes: an item is copied under the lock

int channel_create(size_t item_size, size_t capacity, uint64_t* id); // 0, -ENOMEM, -EAGAIN
int channel_destroy(uint64_t id);                                    // 0, -EBUSY, -EINVAL, -ESRCH
int channel_close(uint64_t id);
int64_t channel_count(uint64_t id);
int64_t channel_capacity(uint64_t id);
int channel_is_closed(uint64_t id); // 1, 0
// Sends or receives an item, and waits if it must. 0, -EPIPE, -ESRCH, or why the wait ended early.
int channel_transfer(uint64_t id, bool send, void* item, int64_t timeout_ns);
// For fork: between lock and unlock, no thread makes or destroys a channel. The child has all channels with their
// items.
void channels_lock();
void channels_unlock();
int channel_try(uint64_t id, bool send, void* item); // as channel_transfer, but -EAGAIN instead of a wait

} // namespace fiberrt
