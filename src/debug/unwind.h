// SPDX-License-Identifier: MIT OR Apache-2.0
// Follows the frames of a stack that is not the caller's, and whose memory may change or vanish meanwhile: each word of
// it is read by copy_readable(), so a stack that has overflowed or is overwritten leads to a short answer at worst.
//
// The program's own unwinder cannot do this: _Unwind_Backtrace starts in its caller's frame and reads the stack
// directly. But it finds the call frame information (CFI) of an address, by _Unwind_Find_FDE; this file interprets it.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

struct Backtrace {
    void** frames; // return addresses, innermost first, as backtrace(3) has them; null: they are only counted
    int most;      // room in frames
    int count;
    bool complete;              // frames has the outermost frame, or is full
    uintptr_t function;         // the address of the outermost function that the library has called; 0: not found
    const void* from = nullptr; // the address with which frames begins; null: that of the innermost frame
};

// Follows the stack of a parked fiber, whose saved frame lies at sp. The caller holds the lock of looks (debug/look.h),
// because this uses memory that exists once. `top`: where the stack ends; null: not known.
void unwind(const char* sp, const char* top, Backtrace& out);

// Follows the stack of a thread that is in a call of the function with the address pc, whose frame has the address cfa.
// That function has saved its caller's registers in its frame.
void unwind_from(const void* pc, const char* cfa, const char* top, Backtrace& out);

} // namespace fiberrt
