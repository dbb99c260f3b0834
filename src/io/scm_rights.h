// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_send_fds and fiber_recv_fds: pass descriptors through a unix socket (SCM_RIGHTS).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

struct Cord;

constexpr size_t most_fds = 253; // SCM_MAX_FD: the most that the kernel passes with one message

// Sends bytes with copies of the descriptors.
int64_t send_descriptors(Cord& cord, int fd, const void* buffer, size_t count, const int* fds, size_t fd_count);

// Receives bytes and the descriptors that came with them: at most `room`; it closes the others.
int64_t receive_descriptors(Cord& cord, int fd, void* buffer, size_t count, int* fds, size_t room, size_t* fd_count,
                            int* flags);

} // namespace fiberrt
