// SPDX-License-Identifier: MIT OR Apache-2.0
// The registers of interrupted code, as a signal handler finds them.
#pragma once

#include <stdint.h>
#include <ucontext.h>

namespace fiberrt {

inline uintptr_t interrupted_sp(const void* context) {
    const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return uintptr_t(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
    return uintptr_t(machine.sp);
#elif defined(__riscv)
    return uintptr_t(machine.__gregs[REG_SP]);
#endif
}

inline uintptr_t interrupted_pc(const void* context) {
    const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return uintptr_t(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return uintptr_t(machine.pc);
#elif defined(__riscv)
    return uintptr_t(machine.__gregs[REG_PC]);
#endif
}

} // namespace fiberrt
