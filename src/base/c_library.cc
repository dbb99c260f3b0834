// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors and backtraces, with any C library.
#include "base/c_library.h"

#include <limits.h>
#include <string.h>
#include <unwind.h>

namespace fiberrt {

namespace {

struct TakenFrames {
    void** frames;
    int most;
    int count;            // -1: the next frame is that of take_backtrace
    _Unwind_Word address; // of the last frame
    _Unwind_Word stack;
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* argument) {
    auto& taken = *static_cast<TakenFrames*>(argument);
    _Unwind_Word address = _Unwind_GetIP(context), stack = _Unwind_GetCFA(context);
    if (taken.count == taken.most || !address) return _URC_END_OF_STACK;
    // The unwinder makes no progress, as it may in code without unwind information.
    if (address == taken.address && stack == taken.stack) return _URC_END_OF_STACK;
    taken.address = address;
    taken.stack = stack;
    if (taken.count >= 0) taken.frames[taken.count] = reinterpret_cast<void*>(address);
    taken.count++;
    return _URC_NO_REASON;
}

} // namespace

const char* error_text(int error) {
#if FIBERRT_GLIBC(2, 32)
    return strerrordesc_np(error);
#elif defined __GLIBC__
    char unknown[64];
    const char* text = strerror_r(error, unknown, sizeof unknown); // the text of a known error is not in the buffer
    return text == unknown ? nullptr : text;
#else
    const char* text = strerror(error); // musl has one text for all unknown errors
    return text == strerror(INT_MAX) ? nullptr : text;
#endif
}

// glibc's backtrace(3) does the same; musl has no such function.
[[gnu::noinline]] int take_backtrace(void** frames, int most) {
    TakenFrames taken = {frames, most, -1, 0, 0};
    _Unwind_Backtrace(take_frame, &taken);
    return taken.count > 0 ? taken.count : 0;
}

} // namespace fiberrt
