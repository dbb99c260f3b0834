// SPDX-License-Identifier: MIT OR Apache-2.0
// One operation, between the fiber that waits for it and the backend that performs it.
//
// The waiter makes it, on its stack; the backend has it from give() until it calls op_done(), exactly once, when the
// kernel has let go of everything the Op points to.
#pragma once

#include "base/list.h"
#include "core/wait.h"

#include <stdint.h>

namespace fiberrt {

enum class OpCode : uint8_t {
    read, write, readv, writev, recv, send, recvmsg, sendmsg,
    accept, connect, open, close, statx, fsync, poll,
};

// Its Link is in Io's list of the operations on one descriptor, from give() until op_done().
struct Op : Link, Wait {
    OpCode code;
    bool waiting_for_room = false; // in the backend's own queue: the kernel has not seen it
    int fd = -1;
    void* address = nullptr;  // buffer, iovec array, msghdr, sockaddr or path
    void* address2 = nullptr; // accept: socklen_t; statx: result
    uint64_t offset = 0;      // position, ~0: the file's own; connect: length of the address
    uint32_t length = 0;      // bytes or entries; open: mode; statx: mask
    uint32_t flags = 0;       // of recv, send, accept4, open, statx, fsync; poll: events
    int stop_reason = 0;      // why its early end was asked for; 0: it was not
    Op* next_waiting = nullptr; // in the backend's queues
    Op* prev_waiting = nullptr;

    explicit Op(OpCode code, int fd) : code(code), fd(fd) {}
};

// Reports the end of an operation, with what the kernel answered: wakes its waiter.
void op_done(Op* op, int32_t result);

constexpr uint32_t fsync_data_only = 1; // flags of OpCode::fsync

} // namespace fiberrt
