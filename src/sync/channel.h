// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel: a queue of items of one size, between any fibers and threads. With a capacity of 0 an item passes from the
// sender's memory to the receiver's, while both are in their calls.
//
// Senders and receivers wait in one list. Receivers that are not decided wait only while there are no items, senders
// only while there is no room; so a caller looks at the first of the other kind.
//
// A channel's record is a slot, like a fiber's: what comes late, with a handle of one that is gone, finds it mapped.
// fuzz: waiting 95 %
#pragma once

#include "core/slots.h"
#include "sync/waiting.h"

#include <stddef.h>

namespace fiberrt {

struct Channel : Waiters {
    std::atomic<uint32_t> generation{0}; // of the slot: odd while in use. Its end is told under the lock
    uint32_t index = 0;
    Channel* next_free = nullptr;

    uint32_t item_size = 0;
    bool closed = false;
    uint64_t capacity = 0;
    uint64_t first_item = 0; // in the ring,
    uint64_t item_count = 0; // and how many
    char* ring = nullptr;
    struct Returned* returned = nullptr; // items of receivers that never ran again: older than those of the ring
    uint64_t returned_count = 0;

    bool is(uint64_t id) const { return generation.load(std::memory_order_relaxed) == id_generation(id); }

    struct Tried {
        int result;  // 0, -EPIPE, -ESRCH, -EAGAIN: it must be waited for
        Waiter* met; // the caller completes its wait, with 0, after it has left the lock; null: there is none
    };
    // Under the lock.
    Tried try_transfer(uint64_t id, bool send, void* item) {
        if (!is(id)) return {-ESRCH, nullptr};
        return send ? try_send(item) : try_receive(item);
    }
    static const WaiterKind& kind(bool send) { return send ? sender : receiver; }

private:
    Tried try_send(const void* item);
    Tried try_receive(void* item);
    static void give_back(SyncWait& wait);
    static const WaiterKind sender, receiver;
    Waiter* take_first(bool send);
    Waiter* take_from(Waiter* foremost, bool send);
    void copy(void* to, const void* from) const;
    uint64_t wrapped(uint64_t place) const { return place < capacity ? place : place - capacity; }
    char* place(uint64_t number) const { return ring + wrapped(first_item + number) * item_size; }
    void append(const void* item);
};

using ChannelTable = SlotTable<Channel, Tag::channel, 20>;
extern ChannelTable channels;

constexpr uint32_t channel_item_most = 4096; // bytes, as they are copied under the lock

int channel_create(size_t item_size, size_t capacity, uint64_t* id); // 0, -ENOMEM, -EAGAIN
int channel_destroy(uint64_t id);                                    // 0, -EBUSY, -EINVAL, -ESRCH
int channel_close(uint64_t id);
int64_t channel_count(uint64_t id);
int64_t channel_capacity(uint64_t id);
int channel_is_closed(uint64_t id); // 1, 0
int channel_transfer(uint64_t id, bool send, void* item, int64_t timeout_ns);
// Around a fork: no thread makes or destroys a channel meanwhile. The child has all channels, and all items in them.
void channels_hold();
void channels_let_go();
int channel_try(uint64_t id, bool send, void* item); // also -EAGAIN

} // namespace fiberrt
