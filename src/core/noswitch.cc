// SPDX-License-Identifier: MIT OR Apache-2.0
// No-switch sections: what builds for debugging tell.
#include "core/noswitch.h"

#ifdef FIBERRT_DEBUG

#include "base/keep_errno.h"

#include <execinfo.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt {

namespace {

struct Place {
    static constexpr int most = 8;
    static constexpr int own = 1; // the frames of take() and above, which tell nothing
    void* frames[most];
    int count;

    [[gnu::noinline]] void take() { count = backtrace(frames, most); }
    void put() const {
        if (count > own) backtrace_symbols_fd(frames + own, count - own, STDERR_FILENO);
    }
};

thread_local Place entered;

void put(const char* text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return; // nobody listens
}

} // namespace

void noswitch_entered() {
    KeepErrno keep;
    entered.take();
}

void noswitch_refused() {
    KeepErrno keep;
    Place refused;
    refused.take();
    put("fiberrt: a call that may wait was refused, as it was made in a no-switch section. It was made here:\n");
    refused.put();
    put("and the section was entered here:\n");
    entered.put();
}

} // namespace fiberrt

#endif
