// SPDX-License-Identifier: MIT OR Apache-2.0
// The list of descriptors that are being closed, and how the closing cord ends other cords' uses.
//
// fiber_close (close.cc) uses it to end the waits on a descriptor on every cord, and to keep fibers from beginning a
// new use meanwhile.
//
// A fiber that begins to use a descriptor counts the use on its cord, and then checks whether the descriptor is being
// closed. A fiber that closes a descriptor lists it, and then reads the counts. All four accesses are sequentially
// consistent, so at least one of the two fibers sees the other.
#pragma once

#include "base/list.h"
#include "core/cord.h"

namespace fiberrt {

// The counter of a cord's uses of a descriptor. The table never grows, so that other cords may read it at any time.
// Numbers that differ by a multiple of its size share a counter: a close may then wait for a cord that does not use the
// descriptor until that cord polls (fiberrt.h). So the size is Linux's default limit of open descriptors.
inline std::atomic<uint32_t>& uses_of(Cord& cord, int fd) {
    return cord.descriptor_uses[unsigned(fd) % (sizeof cord.descriptor_uses / sizeof *cord.descriptor_uses)];
}

extern std::atomic<int> closings_listed; // how many descriptors are being closed
bool is_listed_as_closing(int fd);
inline bool being_closed(int fd) { return closings_listed.load(std::memory_order_seq_cst) && is_listed_as_closing(fd); }

// The lock of the list. A fork holds it, so that no close begins or ends meanwhile. In the child closings_forked()
// empties the list.
void closings_lock();
void closings_unlock();
void closings_forked();

// A descriptor that is being closed: from its construction until one of the two close functions has closed it.
class Closing : public Link {
public:
    Closing(Cord& owner, int number);
    ~Closing();
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

    bool is_only() const { return listed_; } // false: another fiber is closing it already
    // Closes the descriptor and takes it off the list, under the list's lock. op_blocking: nothing was done, as the
    // close could take long.
    int64_t close_at_once();
    // Frees the number and returns another number of the same open file, which the caller must close. For a regular
    // file it returns the same number, still open. If no number is free, it closes the file at once, however long that
    // takes: it returns op_blocking, and *result is the close's result.
    int64_t close_after_copy(int64_t* result);

    Cord& cord;
    const int fd;

private:
    bool listed_ = false; // only the list itself uses the links
    static void forget_all(Cord& cord);
    void forget();
};

// One cord's request that another cord ends all uses of a descriptor. It lies on the stack of the closing fiber,
// because fiber_close must not fail for lack of memory. Until the answer has come, the closing fiber's thread does not
// end.
struct CloseRequest : Wait, Message {
    Cord* closer;
    int fd;
};

// Tells the closing cord that no use is left. The cord that had the uses calls it.
void uses_ended(CloseRequest* request);

// Waits until no other cord uses a descriptor; nothing ends the wait early. end_uses runs on the thread of each cord
// that uses the descriptor and receives the request.
void end_uses_elsewhere(Cord& here, int fd, void (*end_uses)(Cord& cord, Message* request));

} // namespace fiberrt
