// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports of calls that a no-switch section refused, in builds for debugging.
#include "core/noswitch.h"

#ifdef FIBERRT_DEBUG

#include "base/c_library.h"
#include "base/keep_errno.h"
#include "base/report.h"

#include <unistd.h>

namespace fiberrt {

namespace {

struct CallPlace {
    static constexpr int most = 8;
    static constexpr int own = 1; // the frames of take() and above, which tell nothing
    void* frames[most];
    int count;

    [[gnu::noinline]] void take() { count = take_backtrace(frames, most); }
    void put(Report& r) const { r.frames(frames + own, count - own); }
};

thread_local CallPlace entered;

} // namespace

void noswitch_entered() {
    KeepErrno keep;
    entered.take();
}

void noswitch_refused() {
    KeepErrno keep;
    CallPlace refused;
    refused.take();
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put("fiberrt: a call that may wait was refused, as it was made in a no-switch section. It was made here:\n");
    refused.put(r);
    r.put("and the section was entered here:\n");
    entered.put(r);
    r.end();
}

} // namespace fiberrt

#endif
