// SPDX-License-Identifier: MIT OR Apache-2.0
// A mutex's holder may lie anywhere in memory, also where this machine puts nothing.
#include "sync/mutex.h"

#include <fiberrt.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using fiberrt::Caller;
using fiberrt::Mutex;

constexpr uintptr_t wide = uintptr_t(1) << 55 | 64; // an address with five levels of page tables

TEST(Mutex, AHolderAtAWideAddressIsNotLost) {
    Mutex mutex;
    mutex.word = wide;
    EXPECT_EQ(fiberrt::mutex_trylock(mutex, Caller::here()), -EBUSY);
    EXPECT_TRUE(mutex.held_by(wide));
    mutex.woken = wide;
    EXPECT_TRUE(mutex.has_woken_waiter());
}

TEST(Mutex, AHolderAtAWideAddressHoldsItInTheChildOfALoneThreadToo) {
    ASSERT_TRUE(__libc_single_threaded);
    Mutex mutex;
    ASSERT_EQ(fiber_reschedule(), 0); // makes the cord
    ASSERT_EQ(fiberrt::mutex_trylock(mutex, Caller::here()), 0);
    const uintptr_t here = mutex.word;
    mutex.word = wide;
    const pid_t child = fork();
    if (child == 0) _exit(!mutex.held_by(wide));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    mutex.word = here;
    EXPECT_EQ(fiberrt::mutex_unlock(mutex, Caller::here()), 0);
}

} // namespace
