// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_chan_...: channels of sync/channel.h, by their handles.
// fuzz: waiting 90 %
#include "sync/channel.h"

#include "api/api.h"

using namespace fiberrt;

namespace {

int transfer(fiber_chan_t chan, bool send, const void* item, int64_t timeout_ns) {
    if (!item || timeout_ns < 0) return -EINVAL;
    return channel_transfer(chan.id, send, const_cast<void*>(item), timeout_ns);
}

} // namespace

int fiber_chan_create(fiber_chan_t* out, size_t item_size, size_t capacity) {
    if (!out || !item_size || item_size > FIBER_CHAN_ITEM_MAX) return -EINVAL;
    static_assert(FIBER_CHAN_ITEM_MAX == channel_item_most);
    return channel_create(item_size, capacity, &out->id);
}

int fiber_chan_destroy(fiber_chan_t chan) { return channel_destroy(chan.id); }
int fiber_chan_close(fiber_chan_t chan) { return channel_close(chan.id); }
int64_t fiber_chan_count(fiber_chan_t chan) { return channel_count(chan.id); }
int64_t fiber_chan_capacity(fiber_chan_t chan) { return channel_capacity(chan.id); }
int fiber_chan_is_closed(fiber_chan_t chan) { return channel_is_closed(chan.id); }

int fiber_chan_send(fiber_chan_t chan, const void* item) { return transfer(chan, true, item, FIBER_FOREVER); }
int fiber_chan_recv(fiber_chan_t chan, void* item) { return transfer(chan, false, item, FIBER_FOREVER); }

int fiber_chan_send_timeout(fiber_chan_t chan, const void* item, int64_t timeout_ns) {
    return transfer(chan, true, item, timeout_ns);
}

int fiber_chan_recv_timeout(fiber_chan_t chan, void* item, int64_t timeout_ns) {
    return transfer(chan, false, item, timeout_ns);
}

int fiber_chan_try_send(fiber_chan_t chan, const void* item) {
    return item ? channel_try(chan.id, true, const_cast<void*>(item)) : -EINVAL;
}

int fiber_chan_try_recv(fiber_chan_t chan, void* item) { return item ? channel_try(chan.id, false, item) : -EINVAL; }
