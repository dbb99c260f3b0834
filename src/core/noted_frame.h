// SPDX-License-Identifier: MIT OR Apache-2.0
// The frame in which a thread sleeps, for backtraces by other threads.
#pragma once

#include "core/cord.h"

// A label behind the instructions that save the caller's registers. Without the jump, which is never made, compilers
// take the address of the label for that of the function's beginning, where no register has been saved.
#define FIBERRT_HERE(label)              \
    asm volatile goto("" : : : : label); \
    label:                               \
    static_cast<void>(0)

namespace fiberrt {

// Notes the frame of a function, and the fiber on whose stack it lies, as long as the frame exists. The function saves
// all registers of the caller there (__builtin_unwind_init).
class NotedFrame {
public:
    [[gnu::always_inline]] NotedFrame(Cord& cord, const void* pc, void* cfa) : in_use_(cord.stack_in_use) {
        in_use_ = {nullptr, cord.sched.current, pc, static_cast<char*>(cfa)};
    }
    ~NotedFrame() { in_use_.sleep_cfa = nullptr; }
    NotedFrame(const NotedFrame&) = delete;
    NotedFrame& operator=(const NotedFrame&) = delete;

private:
    Cord::StackInUse& in_use_;
};

} // namespace fiberrt
