// SPDX-License-Identifier: MIT OR Apache-2.0
// The connections that libfiberrt has ended after a refused wait. To the kernel, such an end is an ordinary one: a
// receive returns 0. A library that believes that the peer has ended the connection would take a part of an answer for
// the whole. So libfiberrt remembers these connections, and a receive from one fails, whichever fiber or thread calls.
#pragma once

#include <atomic>
#include <stdint.h>

namespace fiberrt::posix {

// So many connections are remembered. The next one takes the place of the oldest.
constexpr unsigned ended_most = 1024;

// How many connections have been ended. Read it by any_ended().
extern constinit std::atomic<uint64_t> ended_count;
inline bool any_ended() { return ended_count.load(std::memory_order_acquire); }

// Each of these functions keeps errno.
void remember_ended(int fd); // called before the connection is ended
void forget_ended(int fd);   // the socket gets a new connection
bool was_ended(int fd);

} // namespace fiberrt::posix
