// SPDX-License-Identifier: MIT OR Apache-2.0
// The cases of a select that are channels, events and semaphores: tries them, and waits in their lists.
// fuzz: waiting 95 %
#include "sync/select_list.h"

#include "sync/channel.h"
#include "sync/event.h"
#include "sync/semaphore.h"

namespace fiberrt {

namespace {

bool of_channel(const fiber_case_t& what) { return what.kind == FIBER_CASE_SEND || what.kind == FIBER_CASE_RECV; }

// Tries a case under the lock of its list.
int64_t try_locked(const fiber_case_t& what, Waiters* list, Completions& done) {
    bool had = false;
    if (of_channel(what)) {
        auto& channel = static_cast<Channel&>(*list);
        auto [result, peer] = channel.try_transfer(what.chan.id, what.kind == FIBER_CASE_SEND, what.item);
        if (peer) done.add(peer, 0);
        return result;
    }
    if (what.kind == FIBER_CASE_EVENT) had = static_cast<Event*>(list)->try_take();
    if (what.kind == FIBER_CASE_SEM) had = static_cast<Semaphore*>(list)->try_take(uint64_t(what.number));
    return had ? 0 : -EAGAIN;
}

// Sets the waiter of a case. list: the case's.
void prepare(Waiter& waiter, SyncWait& wait, const fiber_case_t& what, Waiters& list) {
    waiter.wait = &wait;
    if (of_channel(what)) {
        waiter.kind = &Channel::kind(what.kind == FIBER_CASE_SEND);
        waiter.number = what.chan.id;
        waiter.item = what.item;
    } else if (what.kind == FIBER_CASE_EVENT) {
        waiter.kind = &event_waiter;
        waiter.number = static_cast<Event&>(list).serves_one();
    } else {
        waiter.kind = &semaphore_waiter;
        waiter.number = uint64_t(what.number);
    }
}

// Holds the locks of all lists of a select. Completes the added waits after it has released them.
class AllLocked : public Completions {
public:
    explicit AllLocked(const SelectLists& select) : select_(select) {
        for (uint32_t i = 0; Waiters* list = at(i); i++) list->lock_list();
    }
    ~AllLocked() {
        for (uint32_t i = 0; Waiters* list = at(i); i++) list->unlock_list();
    }

private:
    Waiters* at(uint32_t i) const { return i < select_.count ? select_.entries[i].locked : nullptr; }
    const SelectLists& select_;
};

// Adds a list to `locked`, in the order of addresses, unless it is there already.
void insert(SelectLists::Entry* entries, uint32_t* known, Waiters* list) {
    uint32_t at = *known;
    while (at > 0 && entries[at - 1].locked > list) at--;
    if (at > 0 && entries[at - 1].locked == list) return;
    for (uint32_t i = (*known)++; i > at; i--) entries[i].locked = entries[i - 1].locked;
    entries[at].locked = list;
}

} // namespace

int select_list(const fiber_case_t& what, Waiters** list) {
    *list = nullptr;
    if (of_channel(what)) {
        Channel* channel;
        int error = channels.resolve(what.chan.id, &channel);
        if (!error) *list = channel;
        return error;
    }
    if (what.kind == FIBER_CASE_EVENT) *list = static_cast<Event*>(what.object);
    if (what.kind == FIBER_CASE_SEM) *list = static_cast<Semaphore*>(what.object);
    return 0;
}

int64_t select_try_list(const fiber_case_t& what) {
    Waiters* list;
    int error = select_list(what, &list);
    if (error || !list) return error ? error : -EAGAIN;
    LockedList locked(*list);
    return try_locked(what, list, locked);
}

void select_give_turn(const fiber_case_t& what) {
    Waiters* list;
    if (what.result || select_list(what, &list) || !list)
        return poll_and_give_way(*this_cord); // the select has taken nothing
    Waiter waiter;
    SyncWait wait(&waiter, 1);
    prepare(waiter, wait, what, *list);
    wait.give_turn(waiter, *list);
}

int SelectLists::find_lists(int64_t* error) const {
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++) {
        entries[i].locked = nullptr;
        *error = select_list(cases[i], &entries[i].list);
        if (*error) return int(i);
        if (entries[i].list) insert(entries, &known, entries[i].list);
    }
    return -1;
}

int SelectLists::try_or_join(SyncWait& wait, Cord* home, int64_t* result) {
    int invalid = find_lists(result);
    if (invalid >= 0) return invalid;
    AllLocked locked(*this);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = (begin + n) % count;
        if (!entries[i].list) continue;
        *result = try_locked(cases[i], entries[i].list, locked);
        if (*result != -EAGAIN) return int(i);
    }
    wait.begin(home);
    for (uint32_t i = 0; i < count; i++) {
        if (!entries[i].list) continue;
        prepare(waiters[i], wait, cases[i], *entries[i].list);
        entries[i].list->add(waiters[i]);
    }
    return -1;
}

} // namespace fiberrt
