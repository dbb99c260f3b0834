// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels: sending, receiving, and the table of all channels.
// fuzz: waiting 65 %
#include "sync/channel.h"

#include "base/keep_errno.h"
#include "base/planted.h"
#include "sync/one_wait.h"

#include <new>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

constinit ChannelTable channels;

// An item that was given to a receiver whose thread ended before the receiver could run again. It is stored next to the
// ring, which may be full, and is dropped if there is no memory for it. The items of receivers on several cords come
// back as these cords end, so their order may change.
struct Returned {
    Returned* next;
    char item[];
};

namespace {

constinit pthread_mutex_t free_channels_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit FreeSlots<Channel> free_channels;

// Locks a channel and checks that the record still belongs to this handle; another channel may get it at any time
// before.
class LockedChannel : public LockedList {
public:
    LockedChannel(Channel& channel, uint64_t id) : LockedList(channel), error(channel.is(id) ? 0 : -ESRCH) {}
    const int error;
};

} // namespace

void Channel::copy(void* to, const void* from) const {
    if (item_size == sizeof(uint64_t)) {
        memcpy(to, from, sizeof(uint64_t)); // one instruction
    } else if (item_size) {
        memcpy(to, from, item_size);
    }
}

void Channel::append(const void* item) { copy(place(item_count++), item); }

// Claims the first waiter that sends, or receives. foremost: the first waiter that is not claimed.
Waiter* Channel::claim_from(Waiter* foremost, bool send) {
    Waiter* next;
    for (Waiter* waiter = foremost; waiter; waiter = next) {
        next = following(waiter);
        if (waiter->kind == &kind(send)) {
            if (claim(waiter)) return waiter;
        } else if (waiter->wait != foremost->wait && !waiter->wait->is_claimed()) {
            return nullptr; // only a select waits as both kinds: so all others are of the other kind, too
        }
    }
    return nullptr;
}

inline Waiter* Channel::claim_first(bool send) {
    Waiter* foremost = first();
    if (!foremost || (foremost->kind == &kind(send) && claim(foremost))) return foremost;
    return claim_from(foremost, send);
}

Channel::Tried Channel::try_send(const void* item) {
    if (closed) return {-EPIPE, nullptr};
    Waiter* receiver = claim_first(false);
    if (receiver) {
        copy(receiver->item, item);
    } else if (item_count < capacity) {
        append(item);
    } else {
        return {-EAGAIN, nullptr};
    }
    return {0, receiver};
}

Channel::Tried Channel::try_receive(void* item) {
    if (Returned* oldest = returned) {
        copy(item, oldest->item);
        returned = oldest->next;
        returned_count--;
        free(oldest);
        return {0, nullptr};
    }
    if (item_count) {
        copy(item, place(0));
        first_item = wrapped(first_item + 1);
        item_count--;
        if (PLANTED(receive_leaves_the_sender)) return {0, nullptr};
        Waiter* sender = claim_first(true);
        if (sender) append(sender->item);
        return {0, sender};
    }
    Waiter* sender = claim_first(true);
    if (!sender) return {closed ? -EPIPE : -EAGAIN, nullptr};
    copy(item, sender->item);
    return {0, sender};
}

// Gives back the item of a receiver that never runs again: to the next receiver, or as the next item to be received.
void Channel::return_item(SyncWait& wait) { // coverage: race
    Waiter& waiter = *wait.selected;
    Channel* channel;
    if (wait.result || channels.resolve(waiter.number, &channel) < 0) return;
    KeepErrno keep;
    auto* item = static_cast<Returned*>(malloc(sizeof(Returned) + channel_item_most));
    LockedChannel locked(*channel, waiter.number);
    if (Waiter* receiver = locked.error ? nullptr : channel->claim_first(false)) {
        channel->copy(receiver->item, waiter.item);
        locked.add(receiver, 0);
    } else if (item && !locked.error) {
        channel->copy(item->item, waiter.item);
        item->next = nullptr;
        Returned** end = &channel->returned;
        while (*end) end = &(*end)->next;
        *end = item;
        channel->returned_count++;
        return;
    }
    free(item);
}

constinit const WaiterKind Channel::sender = {"at a channel", nullptr, nullptr, 0, 0, WaitFor::channel};
constinit const WaiterKind Channel::receiver = {"at a channel", nullptr, return_item, 0, 0, WaitFor::channel};

int channel_create(size_t item_size, size_t capacity, uint64_t* id) {
    KeepErrno keep;
    size_t bytes;
    if (__builtin_mul_overflow(item_size, capacity, &bytes) || bytes > PTRDIFF_MAX) return -ENOMEM;
    char* ring = bytes ? static_cast<char*>(malloc(bytes)) : nullptr;
    if (bytes && !ring) return -ENOMEM;
    Channel* channel;
    pthread_mutex_lock(&free_channels_mutex);
    int error = channels.take(free_channels, &channel);
    pthread_mutex_unlock(&free_channels_mutex);
    if (error) { // coverage: no memory
        free(ring);
        return error;
    }
    LockedList locked(*channel); // a thread may be looking at it with an old handle
    channel->item_size = uint32_t(item_size);
    channel->capacity = capacity;
    channel->first_item = channel->item_count = 0;
    channel->closed = false;
    channel->ring = ring;
    *id = ChannelTable::id_of(channel);
    return 0;
}

int channel_destroy(uint64_t id) {
    Channel* channel;
    if (int error = channels.resolve(id, &channel)) return error;
    char* ring;
    Returned* returned;
    {
        LockedChannel locked(*channel, id);
        if (locked.error) return locked.error;
        if (!channel->empty()) return -EBUSY;
        ring = channel->ring;
        returned = channel->returned;
        channel->ring = nullptr;
        channel->returned = nullptr;
        channel->returned_count = 0;
        ChannelTable::end_use(channel);
    }
    KeepErrno keep;
    free(ring);
    while (returned) { // coverage: race
        Returned* next = returned->next;
        free(returned);
        returned = next;
    }
    pthread_mutex_lock(&free_channels_mutex);
    channels.give_back(free_channels, channel);
    pthread_mutex_unlock(&free_channels_mutex);
    return 0;
}

int channel_close(uint64_t id) {
    Channel* channel;
    if (int error = channels.resolve(id, &channel)) return error;
    LockedChannel locked(*channel, id);
    if (locked.error) return locked.error;
    if (channel->closed) return -EPIPE;
    channel->closed = true;
    locked.claim_all(*channel, -EPIPE);
    return 0;
}

int64_t channel_count(uint64_t id) {
    Channel* channel;
    if (int error = channels.resolve(id, &channel)) return error;
    LockedChannel locked(*channel, id);
    return locked.error ? locked.error : int64_t(channel->item_count + channel->returned_count);
}

int64_t channel_capacity(uint64_t id) {
    Channel* channel;
    if (int error = channels.resolve(id, &channel)) return error;
    LockedChannel locked(*channel, id);
    return locked.error ? locked.error : int64_t(channel->capacity);
}

int channel_is_closed(uint64_t id) {
    Channel* channel;
    if (int error = channels.resolve(id, &channel)) return error;
    LockedChannel locked(*channel, id);
    return locked.error ? locked.error : channel->closed;
}

int channel_transfer(uint64_t id, bool send, void* item, int64_t timeout_ns) {
    Channel* channel;
    if (int error = channels.resolve(id, &channel)) return error;
    Caller caller = Caller::here();
    if (int error = caller.begin(timeout_ns)) return error;
    channel->lock_list();
    auto [result, peer] = channel->try_transfer(id, send, item);
    if (result == -EAGAIN && timeout_ns)
        return wait_in(*channel, Channel::kind(send), id, item, caller.cord, caller.deadline(timeout_ns));
    channel->unlock_list();
    if (peer) shared_wait_complete(peer->wait);
    if (result == -EAGAIN) return -ETIMEDOUT;
    if (!result && caller.charge_makes_poll_due()) [[unlikely]]
        give_turn(*channel, Channel::kind(send), id, item);
    return result;
}

int channel_try(uint64_t id, bool send, void* item) {
    Channel* channel;
    if (int error = channels.resolve(id, &channel)) return error;
    channel->lock_list();
    auto [result, peer] = channel->try_transfer(id, send, item);
    channel->unlock_list();
    if (peer) shared_wait_complete(peer->wait);
    return result;
}

void channels_lock() {
    pthread_mutex_lock(&free_channels_mutex);
    channels.lock();
}

void channels_unlock() {
    channels.unlock();
    pthread_mutex_unlock(&free_channels_mutex);
}

} // namespace fiberrt
