// SPDX-License-Identifier: MIT OR Apache-2.0
// The wait in the list of one primitive.
// fuzz: waiting 95 %
#include "sync/one_wait.h"

#include "sync/perform.h"

namespace fiberrt {

namespace {

// The operation of wait_in(). Its constructor joins the locked list and unlocks it, so that it need not store the list.
class WaitInList {
public:
    static constexpr bool waits_once = true;
    WaitInList(Waiters* list, const WaiterKind* kind, uint64_t number, void* item, Cord* home)
        : one_(*kind, number, item) {
        one_.join(*list, home);
        list->unlock_list();
    }

    static int begin() { return must_wait; }
    static int64_t go_on(int64_t ended) { return ended; }
    SharedWait& wait() { return one_.wait; }

private:
    OneWait one_;
};

} // namespace

FIBERRT_RETURNS_BY_JUMP
int wait_in(Waiters& list, const WaiterKind& kind, uint64_t number, void* item, Cord* home, int64_t deadline) {
    return int(perform<WaitInList>(home, deadline, &list, &kind, number, item, home));
}

[[gnu::noinline]] void give_turn(Waiters& list, const WaiterKind& kind, uint64_t number, void* item) {
    OneWait one(kind, number, item);
    one.wait.give_turn(one.waiter, list);
}

} // namespace fiberrt
