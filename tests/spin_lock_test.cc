// SPDX-License-Identifier: MIT OR Apache-2.0
// Debug builds check at each switch whether the thread holds a spin lock, which then could not be released.
#include "base/spin_lock.h"

#include <fiberrt.h>
#include <gtest/gtest.h>

namespace {

#ifndef FIBERRT_DEBUG
TEST(SpinLock, NoSwitchUnderOne) { GTEST_SKIP() << "only debug builds check that"; }
#else
void *returns(void *) { return nullptr; }

TEST(SpinLock, NoSwitchUnderOne) {
    fiberrt::SpinLock lock{};
    auto switches = [&] {
        lock.lock();
        fiber_spawn(nullptr, returns, nullptr);
        fiber_reschedule();
    };
    EXPECT_DEATH(switches(), "holds_spin_lock");
    lock.lock();
    lock.unlock();
    fiber_t fiber{};
    EXPECT_EQ(fiber_spawn(&fiber, returns, nullptr), 0);
    EXPECT_EQ(fiber_join(fiber, nullptr), 0);
}
#endif

} // namespace
