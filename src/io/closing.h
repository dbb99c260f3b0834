// SPDX-License-Identifier: MIT OR Apache-2.0
// Which descriptors are being closed, and which cords use them: so that fiber_close ends the waits of fibers of any
// cord on a descriptor, and no fiber begins to use it meanwhile.
//
// A fiber that begins to use a descriptor counts the use on its cord, and then looks whether the descriptor is being
// closed. A fiber that closes a descriptor lists it, and then looks at the counts. All four accesses are sequentially
// consistent: one of the two fibers sees the other.
#pragma once

#include "base/list.h"
#include "core/cord.h"

namespace fiberrt {

// What a cord's count of uses of a descriptor is kept in: in a few numbers for all, so that other cords may look at any
// time. Two descriptors in one number cost a message more than needed, no more.
inline std::atomic<uint32_t>& uses_of(Cord& cord, int fd) {
    return cord.descriptor_uses[unsigned(fd) % (sizeof cord.descriptor_uses / sizeof *cord.descriptor_uses)];
}

extern std::atomic<int> closings_listed; // how many descriptors are being closed
bool is_listed_as_closing(int fd);
inline bool being_closed(int fd) { return closings_listed.load(std::memory_order_seq_cst) && is_listed_as_closing(fd); }

// closings_hold() and closings_let_go() are called around a fork: no close begins or ends meanwhile. In the child
// closings_forked() empties the list.
void closings_hold();
void closings_let_go();
void closings_forked();

// While it lives, until one of the two below has closed it, the descriptor is being closed.
class Closing : public Link {
public:
    Closing(Cord& owner, int number);
    ~Closing();
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

    bool alone() const { return listed_; } // else another fiber is closing it already
    // Closes it, so that no thread looks in between. op_blocking: it is still open, as closing it could take long.
    int64_t close_at_once();
    // The same, but what it named stays open under another number, which is returned and is to be closed. Of a regular
    // file it is the same one, and still open. If no number is free, it is closed here and now, however long that
    // takes: op_blocking, and *result is the answer.
    int64_t close_but_a_copy(int64_t* result);

    Cord& cord;
    const int fd;

private:
    bool listed_ = false; // its links are the list's own affair
    static void forget_all(Cord& cord);
    void forget();
};

// One cord's request that another cord ends all uses of a descriptor.
struct CloseRequest : Wait, Message {
    Cord* closer;
    int fd;
};

// Answers a request: no use is left. Called on the cord that had them.
void uses_ended(CloseRequest* request);

// Waits until no other cord uses a descriptor; nothing ends the wait early. end_uses: what the others' threads are to
// do with the request.
void end_uses_elsewhere(Cord& here, int fd, void (*end_uses)(Cord& cord, Message* request));

} // namespace fiberrt
