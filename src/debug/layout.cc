// SPDX-License-Identifier: MIT OR Apache-2.0
// A table by which a debugger finds cords and fibers. Only gdb/fiberrt-gdb.py reads it.
//
// The table has its own ELF section. A debugger finds that section in a live process and in a core file, without
// symbols or debug information, once for each copy of the library. Each number has a name, so the script can say which
// number it lacks. The table also has the texts for states, kinds, reasons to wait and operations.
#include "debug/texts.h"
#include "core/children.h"
#include "core/cord.h"
#include "core/life.h"
#include "core/wait.h"
#include "io/op.h"
#include "sync/waiting.h"

#include <stddef.h>

// The standard does not promise offsetof for these classes; the compilers that build this support it.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace fiberrt {

namespace {

// Fiber::wait points to the Wait inside a larger object; this is the distance from that object's beginning.
constexpr int64_t before_wait = sizeof(Link);

#define FIBERRT_LAYOUT(X)                                      \
    X(fiber_size, sizeof(Fiber))                               \
    X(fiber_chunk, 64)                                         \
    X(fiber_chunks, 1 << 18)                                   \
    X(fiber_tag, int(Tag::fiber))                              \
    X(fiber_sp, offsetof(Fiber, sp))                           \
    X(fiber_generation, offsetof(Fiber, generation))           \
    X(fiber_state, offsetof(Fiber, sched.state))               \
    X(fiber_permit, offsetof(Fiber, sched.permit))             \
    X(fiber_cord, offsetof(Fiber, cord))                       \
    X(fiber_wait, offsetof(Fiber, wait))                       \
    X(fiber_stack_class, offsetof(Fiber, stack_class))         \
    X(fiber_detached, offsetof(Fiber, life.detached))          \
    X(fiber_kind, offsetof(Fiber, life.kind))                  \
    X(fiber_stack_low, offsetof(Fiber, stack_low))             \
    X(fiber_cancelled, offsetof(Fiber, requests.cancelled))    \
    X(fiber_flags, offsetof(Fiber, extras.flags))              \
    X(fiber_name, offsetof(Fiber, name))                       \
    X(fiber_name_size, FIBER_NAME_MAX)                         \
    X(flag_entered, fiberrt::flag_entered)                     \
    X(no_stack, StackPool::no_stack)                           \
    X(least_stack_bits, StackPool::least_bits)                 \
    X(stack_class_mask, StackPool::class_mask)                 \
    X(stack_size_shift, StackPool::size_shift)                 \
    X(stack_without_guard, StackPool::bare)                    \
    X(guard_default, StackPool::guard_default)                 \
    X(guard_step_bits, StackPool::guard_step_bits)             \
    X(cord_size, sizeof(Cord))                                 \
    X(cord_chunk, 8)                                           \
    X(cord_chunks, 1 << 13)                                    \
    X(cord_tag, int(Tag::cord))                                \
    X(cord_generation, offsetof(Cord, generation))             \
    X(cord_current, offsetof(Cord, sched.current))             \
    X(cord_main, offsetof(Cord, main_flow.fiber))              \
    X(cord_entered_by, offsetof(Cord, executor.entered_by))    \
    X(cord_executor, offsetof(Cord, executor.fiber))           \
    X(cord_thread, offsetof(Cord, thread))                     \
    X(cord_ended, offsetof(Cord, ended))                       \
    X(cord_name, offsetof(Cord, name))                         \
    X(cord_name_size, cord_name_max)                           \
    X(wait_what, offsetof(Wait, what))                         \
    X(wait_fiber, offsetof(JoinWait, target) - before_wait)    \
    X(wait_end, offsetof(EndWait, target) - before_wait)       \
    X(wait_waiters, offsetof(SyncWait, waiters) - before_wait) \
    X(waiter_kind, offsetof(Waiter, kind))                     \
    X(kind_text, offsetof(WaiterKind, text))                   \
    X(op_code, offsetof(Op, code))                             \
    X(op_fd, offsetof(Op, fd))                                 \
    X(op_offset, offsetof(Op, offset))                         \
    X(op_flags, offsetof(Op, flags))                           \
    X(op_stop_reason, offsetof(Op, stop_reason))

#define FIBERRT_NAME(name, value) #name " "
#define FIBERRT_VALUE(name, value) int64_t(value),

// The texts: a line "name text" for each enumerator, in the enum's order.
#define FIBERRT_LINE(name, text) #name " " text "\n"
#define FIBERRT_OP_LINE(code, name, ring, on) #code " " name "\n"

// How a parked fiber continues: gdb's names of the registers saved in the frame at Fiber::sp, with their offsets (arch/
// draws the frame). The last entry is the value of the stack pointer after the frame has been popped.
#if defined __x86_64__
#define FIBERRT_REGISTERS "r15=0 r14=8 r13=16 r12=24 rbx=32 rbp=40 rip=48 rsp+56"
#elif defined __aarch64__
#define FIBERRT_REGISTERS \
    "x29=0 x30=8 pc=8 x19=16 x20=24 x21=32 x22=40 x23=48 x24=56 x25=64 x26=72 x27=80 x28=88 sp+176"
#elif defined __riscv
#define FIBERRT_REGISTERS \
    "s1=104 s2=112 s3=120 s4=128 s5=136 s6=144 s7=152 s8=160 s9=168 s10=176 s11=184 s0=192 pc=200 sp+208"
#endif

struct Layout {
    char magic[16] = "fiberrt layout";
    uint64_t version = 3; // of this struct
    const void* fibers;   // this table and the next begin with the array of their chunks
    const void* cords;
    const char* names; // of the values, each followed by a space
    const char* registers;
    const char* states;
    const char* kinds;
    const char* waits;
    const char* ops;
    uint64_t library;
    int64_t values[64];
};

} // namespace

#if __has_attribute(retain)
#define FIBERRT_KEPT gnu::used, gnu::retain // kept also by a linker with --gc-sections
#else
#define FIBERRT_KEPT gnu::used
#endif
extern const Layout layout;
[[FIBERRT_KEPT, gnu::section(".fiberrt_layout")]] const Layout layout = {
    .fibers = &fibers,
    .cords = &cords,
    .names = FIBERRT_LAYOUT(FIBERRT_NAME),
    .registers = FIBERRT_REGISTERS,
    .states = FIBERRT_STATES(FIBERRT_LINE),
    .kinds = FIBERRT_KINDS(FIBERRT_LINE),
    .waits = FIBERRT_WAITS(FIBERRT_LINE),
    .ops = FIBERRT_OPS(FIBERRT_OP_LINE),
    .library = FIBERRT_VERSION_MAJOR * 10000 + FIBERRT_VERSION_MINOR * 100 + FIBERRT_VERSION_PATCH,
    .values = {FIBERRT_LAYOUT(FIBERRT_VALUE)},
};

} // namespace fiberrt
