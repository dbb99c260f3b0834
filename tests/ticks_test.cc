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
        int64_t back = ns_of_ticks(ticks_of_ns(ns));
        EXPECT_LE(back, ns + ns / 1000 + 2);
        EXPECT_GE(back, ns - ns / 1000 - 2);
    }
}

// The counters of two processors may differ: a thread that moves from one to the other may measure less than nothing.
TEST_F(TicksTest, LessThanNothingIsNothing) {
    for (uint64_t ticks : {uint64_t(1), uint64_t(20), uint64_t(1) << 40}) EXPECT_EQ(ns_of_ticks(-ticks), 0);
}

} // namespace
