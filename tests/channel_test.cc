// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel's list of waiters by itself: how far it is looked through.
#include "sync/channel.h"

#include <gtest/gtest.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

using namespace fiberrt;

namespace {

// A wait in memory that can be made to be touched by nobody.
class Untouchable {
public:
    Untouchable()
        : memory_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          wait(new (memory_) OneWait(WaitFor::channel)) {}
    ~Untouchable() { munmap(memory_, size_); }
    void protect(int access) { ASSERT_EQ(mprotect(memory_, size_, access), 0); }

private:
    size_t size_ = size_t(sysconf(_SC_PAGESIZE));
    void* memory_;

public:
    OneWait* const wait;
};

void add(Channel& channel, OneWait& wait, bool send) {
    channel.prepare(wait.waiter, 0, send, nullptr);
    channel.add(wait.waiter);
}

// Else many that wait would make each call of one more take long, under the lock.
TEST(ChannelWaiters, WhoWaitsAlikeIsNotLookedThrough) {
    for (bool send : {false, true}) {
        Channel channel;
        OneWait first(WaitFor::channel), second(WaitFor::channel), last(WaitFor::channel);
        Untouchable third;
        for (OneWait* wait : {&first, &second, third.wait, &last}) add(channel, *wait, send);
        char item = 0;
        third.protect(PROT_NONE);
        EXPECT_EQ(channel.try_transfer(0, send, &item).result, -EAGAIN);
        third.protect(PROT_READ | PROT_WRITE);
    }
}

} // namespace
