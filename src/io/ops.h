// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of all operations. OpCode, the names in dumps, in traces of a simulation and in gdb, and the operations
// that a ring is asked for are made of it.
#pragma once

#include <stdint.h>

namespace fiberrt {

// X(code, name, ring, on). code: the OpCode. name: the system call's name, for dumps. ring: the IORING_OP_… that
// performs it. on: descriptor if Op::fd is the descriptor that it works on; other if Op::fd is the folder of a path or
// not used. The order matters: a transfer of bytes is at most sendmsg, one without flags at most writev.
#define FIBERRT_RING_OPS(X)                    \
    X(read, "read", READ, descriptor)          \
    X(write, "write", WRITE, descriptor)       \
    X(readv, "readv", READV, descriptor)       \
    X(writev, "writev", WRITEV, descriptor)    \
    X(recv, "recv", RECV, descriptor)          \
    X(send, "send", SEND, descriptor)          \
    X(recvmsg, "recvmsg", RECVMSG, descriptor) \
    X(sendmsg, "sendmsg", SENDMSG, descriptor) \
    X(accept, "accept", ACCEPT, descriptor)    \
    X(connect, "connect", CONNECT, descriptor) \
    X(open, "open", OPENAT, other)             \
    X(close, "close", CLOSE, other)            \
    X(statx, "statx", STATX, other)            \
    X(fsync, "fsync", FSYNC, descriptor)       \
    X(poll, "poll", POLL_ADD, descriptor)      \
    X(open2, "openat2", OPENAT2, other)        \
    X(rename, "rename", RENAMEAT, other)       \
    X(unlink, "unlink", UNLINKAT, other)       \
    X(mkdir, "mkdir", MKDIRAT, other)          \
    X(splice, "splice", SPLICE, descriptor)

// Rings do not have these operations: a call on the pool performs them. Only a simulation uses the moment, which does
// nothing and ends at a time that the simulation picks.
#define FIBERRT_CALL_OPS(X)                            \
    X(getdents, "getdents64", none, descriptor)        \
    X(copy_range, "copy_file_range", none, descriptor) \
    X(moment, "moment", none, other)

#define FIBERRT_OPS(X) FIBERRT_RING_OPS(X) FIBERRT_CALL_OPS(X)

#define FIBERRT_OP(code, name, ring, on) \
    static_assert(sizeof("" name) > 1, "src/io/ops.h: the operation " #code " has no name");
FIBERRT_OPS(FIBERRT_OP)
#undef FIBERRT_OP

#define FIBERRT_OP(code, name, ring, on) code,
enum class OpCode : uint8_t { FIBERRT_OPS(FIBERRT_OP) };
#undef FIBERRT_OP

constexpr const char* name_of(OpCode code) {
    switch (code) {
#define FIBERRT_OP(code, name, ring, on) \
    case OpCode::code: return "" name;
        FIBERRT_OPS(FIBERRT_OP)
#undef FIBERRT_OP
    }
    return "an operation"; // coverage: never
}

// Whether a backend that performs operations may be given this one. If not, a call performs it.
constexpr bool rings_have(OpCode code) {
    switch (code) {
#define FIBERRT_OP(code, name, ring, on) case OpCode::code:
        FIBERRT_CALL_OPS(FIBERRT_OP) return false;
#undef FIBERRT_OP
    default: return true;
    }
}

constexpr bool is_on_descriptor(OpCode code) {
    enum { other, descriptor };
    switch (code) {
#define FIBERRT_OP(code, name, ring, on) \
    case OpCode::code: return on;
        FIBERRT_OPS(FIBERRT_OP)
#undef FIBERRT_OP
    }
    return false; // coverage: never
}

} // namespace fiberrt
