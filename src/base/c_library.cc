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
    int count; // -1: the next frame is that of take_backtrace
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* argument) {
    auto& taken = *static_cast<TakenFrames*>(argument);
    auto* address = reinterpret_cast<void*>(_Unwind_GetIP(context));
    if (taken.count == taken.most || !address) return _URC_END_OF_STACK;
    if (taken.count >= 0) taken.frames[taken.count] = address;
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

// Of the C library's functions, backtrace(3) does this, too, but musl lacks it.
[[gnu::noinline]] int take_backtrace(void** frames, int most) {
    TakenFrames taken = {frames, most, -1};
    _Unwind_Backtrace(take_frame, &taken);
    return taken.count > 0 ? taken.count : 0;
}

} // namespace fiberrt
