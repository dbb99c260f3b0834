// SPDX-License-Identifier: MIT OR Apache-2.0
// Cords: started, joined, shut down; what fibers of one cord do to fibers of another.
#include "support.h"

using namespace support;

namespace {

void *return_arg(void *arg) { return arg; }

TEST(Cord, RunsItsFunctionAndJoinReportsTheResult) {
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, return_arg, pointer(5)), 0);
    void *result = nullptr;
    EXPECT_EQ(fiber_cord_join(cord, &result), 0);
    EXPECT_EQ(result, pointer(5));
    EXPECT_EQ(fiber_cord_join(cord, &result), -ESRCH);
}

} // namespace
