// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for an event that no descriptor reports: the fiber looks at growing intervals.
#pragma once

#include "posix/wait.h"

namespace fiberrt::posix {

class Pauses {
public:
    // Waits for the next interval. timed_out: the interval is over, the caller looks again. fail, block: as wait_time.
    Next pause() {
        int64_t ns = ns_;
        if (ns_ < longest_ns) ns_ *= 2;
        return wait_time(ns);
    }

private:
    static constexpr int64_t longest_ns = 16'000'000;
    int64_t ns_ = 500'000;
};

// Calls try_once() at growing intervals while it fails with an error for which is_busy(errno) is true. Calls block() if
// the fiber cannot wait here.
template <class Try, class Busy, class Block>
int until_free(Try try_once, Busy is_busy, Block block) {
    Pauses pauses;
    for (bool waited = false;; waited = true) {
        int result = try_once();
        if (result >= 0 || !is_busy(errno)) {
            if (!waited) done_at_once();
            return result;
        }
        switch (pauses.pause()) {
        case Next::block: return block();
        case Next::fail: return -1;
        default: break;
        }
    }
}

} // namespace fiberrt::posix
