// SPDX-License-Identifier: MIT OR Apache-2.0
// The one table of operations: what each is called, which call of the kernel it is, and what it is about. Made of it are
// OpCode, the names in dumps, in the traces of a simulation and in gdb, and what a ring is asked whether it has it.
#pragma once

#include <stdint.h>

namespace fiberrt {

// X(code, name, ring, on). code: of OpCode. name: of the system call, for people. ring: IORING_OP_… of it. on: it is
// performed on the descriptor Op::fd (descriptor), or Op::fd is the folder of a path or not used (other).
// The order says what belongs together: a transfer of bytes is at most sendmsg, one without flags at most writev.
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

// Rings do not have these: a call performs them. The moment is the simulation's alone: nothing, at a time that it picks.
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

// Whether a backend that performs operations may be given one. Where it may not, calls do it.
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
