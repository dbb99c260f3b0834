// SPDX-License-Identifier: MIT OR Apache-2.0
// Timer coalescing: a cord that only waits for timers fires many at once where deadlines lie close together.
//
// After it has woken for a deadline, a cord does not wake for the next ones until most_delay_ns have passed, unless one
// of them would be late by more than an eighth of the duration that it was set for. So a single deadline is not
// delayed, and no deadline by more than most_delay_ns. None fires early: this only puts off the waking.
#pragma once

#include <stdint.h>

namespace fiberrt {

class TimerCoalescing {
public:
    static constexpr int64_t most_delay_ns = 1'000'000;
    static constexpr int64_t fraction = 8; // a deadline may be late by its duration divided by this

    // Notes a deadline that was set `duration` from now. A deadline that is dropped need not be reported: its limit
    // costs at most one wake that comes earlier than needed, at another deadline.
    void note_deadline(int64_t deadline, int64_t duration) {
        if (duration >= most_delay_ns * fraction) return;
        int64_t granule = deadline >> granule_bits;
        int64_t latest = deadline + int64_t(uint64_t(duration) / fraction);
        int64_t& limit = limits_[uint64_t(granule) % granules];
        if (limit < granule << granule_bits || latest < limit) limit = latest;
    }

    // When to wake if the earliest deadline is `next`: not before it.
    int64_t wake_at(int64_t next) const {
        int64_t latest = last_ + most_delay_ns;
        if (latest <= next) return next;
        for (int64_t granule = next >> granule_bits; granule << granule_bits < latest; granule++) {
            int64_t limit = limits_[uint64_t(granule) % granules];
            if (limit >= granule << granule_bits && limit < latest) latest = limit; // else unset, or a round old
        }
        return latest > next ? latest : next;
    }

    // Notes that the cord has woken for a deadline.
    void note_wake(int64_t now) { last_ = now; }

private:
    static constexpr int granule_bits = 17;
    static constexpr int64_t granules = 64;
    static_assert((granules - 1) << granule_bits >= most_delay_ns * fraction, "a round takes longer than any limit");

    int64_t last_ = 0;
    int64_t limits_[granules] = {}; // by when to wake for the deadlines that lie in a granule of time
};

} // namespace fiberrt
