// SPDX-License-Identifier: MIT OR Apache-2.0
// A histogram of durations: log-linear buckets, 16 for each power of two, so a bucket is at most a sixteenth of its
// values wide. One thread adds, by one increment; any thread reads.
#pragma once

#include "base/relaxed.h"

#include <stdint.h>

namespace fiberrt {

class Histogram {
public:
    static constexpr int bits = 4; // of a value that tell its bucket, after the leading one
    static constexpr uint32_t buckets = (64 - bits + 1) << bits;

    static uint32_t bucket_of(uint64_t value) {
        uint32_t shift = uint32_t(63 - bits) - uint32_t(__builtin_clzll(value | (1 << bits)));
        return (shift << bits) + uint32_t(value >> shift);
    }
    // The greatest value in the bucket.
    static uint64_t greatest_in(uint32_t bucket) {
        uint32_t shift = bucket >> bits;
        if (shift) shift--; // the lowest 32 buckets are of one value each
        uint64_t first = uint64_t(bucket - (shift << bits)) << shift;
        return first + ((uint64_t(1) << shift) - 1);
    }

    // A value whose highest bit is set is negative, and counts as 0: the counters of two processors may differ.
    void add(uint64_t value) {
        if (int64_t(value) < 0) value = 0;
        Relaxed<uint64_t>& count = counts_[bucket_of(value)];
        count = count + 1;
    }
    void clear() {
        for (Relaxed<uint64_t>& count : counts_) count = 0;
    }
    uint64_t count_in(uint32_t bucket) const { return counts_[bucket]; }

private:
    Relaxed<uint64_t> counts_[buckets];
};

} // namespace fiberrt
