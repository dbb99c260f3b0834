// SPDX-License-Identifier: MIT OR Apache-2.0
// The recorder's clock by itself.
#include "record/clock.h"

#include <gtest/gtest.h>
#include <stdint.h>

using namespace fiberrt;

namespace {

class TicksTest : public testing::Test {
protected:
    TicksTest() { ticks_begin(); }
};

TEST_F(TicksTest, DurationsGoThereAndBack) {
    for (int64_t ns : {int64_t(0), int64_t(1000), int64_t(1'000'000'000), int64_t(1'000'000'000) * 3600 * 24 * 365}) {
        const int64_t back = ns_of_ticks(ticks_of_ns(ns));
        const int64_t rounding = ns / 1000 + ns_of_ticks(1) + 2; // a tick of AArch64's counter may be 40 ns
        EXPECT_LE(back, ns + rounding);
        EXPECT_GE(back, ns - rounding);
    }
}

// The counters of two processors may differ: a thread that moves from one to the other may measure less than nothing.
TEST_F(TicksTest, LessThanNothingIsNothing) {
    for (uint64_t ticks : {uint64_t(1), uint64_t(20), uint64_t(1) << 40}) EXPECT_EQ(ns_of_ticks(-ticks), 0);
}

} // namespace
