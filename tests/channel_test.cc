// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel's list of waiters by itself: how far it is looked through.
#include "sync/channel.h"
#include "sync/one_wait.h"

#include <gtest/gtest.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

using namespace fiberrt;

namespace {

// A wait in memory that can be made inaccessible.
class Untouchable {
public:
    explicit Untouchable(bool send)
        : memory_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          wait(new (memory_) OneWait(Channel::kind(send))) {}
    ~Untouchable() { munmap(memory_, size_); }
    void protect(int access) { ASSERT_EQ(mprotect(memory_, size_, access), 0); }

private:
    size_t size_ = size_t(sysconf(_SC_PAGESIZE));
    void* memory_;

public:
    OneWait* const wait;
};

// Else many that wait would make each call of one more take long, under the lock.
TEST(ChannelWaiters, WaitersOfTheSameKindAreNotSearched) {
    for (bool send : {false, true}) {
        Channel channel;
        const WaiterKind& kind = Channel::kind(send);
        OneWait first(kind), second(kind), last(kind);
        Untouchable third(send);
        for (OneWait* wait : {&first, &second, third.wait, &last}) channel.add(wait->waiter);
        char item = 0;
        third.protect(PROT_NONE);
        EXPECT_EQ(channel.try_transfer(0, send, &item).result, -EAGAIN);
        third.protect(PROT_READ | PROT_WRITE);
    }
}

} // namespace
