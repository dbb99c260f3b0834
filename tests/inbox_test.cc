// SPDX-License-Identifier: MIT OR Apache-2.0
// The inbox by itself, and how cords sleep and are rung: by futex, through the ring's futex operation, through an
// eventfd.
#include "core/inbox.h"

#include "cord_support.h"
#include "core/cord.h"
#include "core/remote_requests.h"
#include "backend/backends.h"

#include <cstdarg>
#include <dlfcn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <vector>

using namespace support;

namespace {

// Called by a thread before each ring of an eventfd; true: the thread rings anyway.
thread_local bool (*before_ring)() = nullptr;

} // namespace

// Replaces the C library's function, for the library under test too. ThreadSanitizer calls it before its own
// initialisation is complete.
extern "C" __attribute__((visibility("default"), no_sanitize_thread)) long syscall(long number, ...) noexcept {
    static long (*real)(long, ...);
    if (!real) real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (long &argument : arguments) argument = va_arg(list, long);
    va_end(list);
    if (number == SYS_write && before_ring && !before_ring()) return arguments[2];
    return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

namespace {

using fiberrt::Cord;
using fiberrt::Inbox;
using fiberrt::Message;

TEST(Inbox, TakesMessagesInTheOrderInWhichTheyCame) {
    Inbox inbox;
    Message messages[3] = {};
    EXPECT_EQ(inbox.push(&messages[0]), Inbox::closed); // it is not open yet
    EXPECT_FALSE(inbox.has_message());
    inbox.open();
    EXPECT_EQ(inbox.take(), nullptr);
    for (Message &message : messages) EXPECT_NE(inbox.push(&message), Inbox::closed);
    EXPECT_TRUE(inbox.has_message());
    Message *taken = inbox.take();
    for (Message &message : messages) {
        ASSERT_EQ(taken, &message);
        taken = taken->next;
    }
    EXPECT_EQ(taken, nullptr);
    EXPECT_FALSE(inbox.has_message());
}

TEST(Inbox, OnlyTheFirstMessageRings) {
    for (uintptr_t parked : {Inbox::asleep_on_word, Inbox::asleep_on_eventfd}) {
        Inbox inbox;
        Message messages[2] = {};
        inbox.open();
        ASSERT_TRUE(inbox.mark_asleep(parked));
        EXPECT_FALSE(inbox.has_message());
        EXPECT_EQ(inbox.push(&messages[0]), parked);
        EXPECT_NE(inbox.push(&messages[1]), parked);
        EXPECT_FALSE(inbox.mark_asleep(parked)); // not over messages that have not been seen
        EXPECT_EQ(inbox.take(), &messages[0]);
        ASSERT_TRUE(inbox.mark_asleep(parked));
        EXPECT_EQ(inbox.take(), nullptr); // woken for another reason: no ring is needed
        EXPECT_EQ(inbox.push(&messages[0]), Inbox::empty);
    }
}

TEST(Inbox, AClosedOneTakesNothing) {
    Inbox inbox;
    Message messages[2] = {};
    inbox.open();
    EXPECT_EQ(inbox.push(&messages[0]), Inbox::empty);
    EXPECT_FALSE(inbox.close_if_empty());
    EXPECT_EQ(inbox.close(), &messages[0]);
    EXPECT_EQ(inbox.push(&messages[1]), Inbox::closed);
    inbox.open();
    EXPECT_TRUE(inbox.close_if_empty());
    EXPECT_EQ(inbox.push(&messages[1]), Inbox::closed);
}

TEST(Inbox, AWakeupFromAPlainThreadOpensNoCordForIt) {
    Worker worker;
    auto yields = [] { fiber_yield(); };
    const fiber_t fiber = spawn_on(worker, yields);
    auto posted = [](void *) -> void * { return nullptr; };
    in_thread([&] {
        EXPECT_EQ(fiber_post(worker, posted, nullptr), 0);
        EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        fiber_t made{};
        EXPECT_EQ(fiber_new(&made, On(worker), posted, nullptr), 0);
        EXPECT_EQ(fiber_cancel(made, nullptr), 0);
        EXPECT_EQ(fiber_detach(made), 0);
        EXPECT_GE(fiber_state(fiber), 0);
        EXPECT_EQ(fiberrt::this_cord, nullptr);
    });
    join(fiber);
}

// A slot whose last request was half the generations ago still takes requests.
TEST(RemoteRequests, ReachesAFiberWhoseSlotWasReusedABillionTimesWithoutAny) {
    Worker worker;
    run_on(worker, [] {
        auto yields = [] { EXPECT_EQ(fiber_yield(), 0); };
        const fiber_t first = create(yields);
        EXPECT_EQ(fiber_cancel(first, nullptr), 0); // notes the reason in its RemoteRequests
        fiberrt::Fiber *slot = nullptr;
        EXPECT_EQ(fiberrt::fibers.resolve(first.id, &slot), 0);
        join(first);
        slot->generation.fetch_add(0x90000000);
        const fiber_t fiber = create(yields);
        EXPECT_EQ(uint32_t(fiber.id) >> 31, 1u); // it has that slot
        EXPECT_EQ(fiber_start(fiber), 0);
        in_thread([&] { EXPECT_EQ(fiber_wakeup(fiber), 0); });
        join(fiber);
    });
}

// The calling fiber's cord opens its ring.
auto open_ring = [] {
    Pipe pipe;
    char byte = 0;
    EXPECT_EQ(fiber_write(pipe.write_end, &byte, 1), 1);
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
};

// Each way to ring. The first cords of this process detect the kernel's features.
class Doorbell : public testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        NEEDS_IO();
        fiberrt::uring_may_use_futex_op = GetParam();
        in_thread([&] {
            open_ring();
            rings_by_futex_ = fiberrt::this_cord->doorbell_fd < 0;
        });
        if (GetParam() && !rings_by_futex_) GTEST_SKIP() << "this kernel's rings do not wait on futexes";
        EXPECT_EQ(rings_by_futex_, GetParam());
    }
    void TearDown() override { fiberrt::uring_may_use_futex_op = true; }

private:
    bool rings_by_futex_ = false;
};

INSTANTIATE_TEST_SUITE_P(Both, Doorbell, testing::Bool(),
                         [](const auto &info) { return info.param ? "FutexOperation" : "Eventfd"; });

TEST_P(Doorbell, WakesACordBeforeItsFirstIoAndAfterIt) {
    Worker worker;
    std::atomic<int> ran{0};
    auto body = [&] { ran++; };
    for (int i = 0; i < 20; i++) {
        if (i == 10) run_on(worker, open_ring);
        usleep(1000); // it sleeps; if not, less is tried
        EXPECT_EQ(fiber_post(worker, entry<decltype(body)>, &body), 0);
        await_holding_the_thread([&] { return ran == i + 1; });
    }
}

TEST_P(Doorbell, WakesACordThatSleepsOverAnOperation) {
    Worker worker;
    Pipe pipe;
    std::atomic<int> ran{0};
    auto reads = [&] {
        char byte = 0;
        return pointer(fiber_read(pipe.read_end, &byte, 1));
    };
    auto body = [&] { ran++; };
    const fiber_t reader = spawn_on(worker, reads);
    await([&] { return fiber_state(reader) == FIBER_WAITING; });
    for (int i = 0; i < 20; i++) {
        usleep(500);
        EXPECT_EQ(fiber_post(worker, entry<decltype(body)>, &body), 0);
        await_holding_the_thread([&] { return ran == i + 1; });
    }
    EXPECT_EQ(fiber_state(reader), FIBER_WAITING);
    EXPECT_EQ(::write(pipe.write_end, "x", 1), 1);
    EXPECT_EQ(join(reader), pointer(1));
}

TEST_P(Doorbell, DeadlinesAndOperationsEndASleepToo) {
    Worker worker;
    run_on(worker, [] {
        open_ring();
        for (int i = 0; i < 20; i++) {
            const int64_t until = fiber_now() + FIBER_USEC(300);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(300)), 0);
            EXPECT_GE(fiber_now(), until);
        }
    });
}

TEST_P(Doorbell, AStormOfWakesLosesNone) {
    constexpr int producers = 3, each = 1000;
    static std::atomic<int> ran;
    ran = 0;
    Worker worker;
    run_on(worker, open_ring);
    auto count = [](void *) -> void * {
        ran++;
        return nullptr;
    };
    std::vector<std::thread> threads;
    for (int p = 0; p < producers; p++) {
        threads.emplace_back([&, p] {
            for (int i = 0; i < each; i++) {
                EXPECT_EQ(fiber_post(worker, count, nullptr), 0);
                if (i % 64 == p) usleep(100); // let it fall asleep
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    await([&] { return ran == producers * each; });
}

TEST_P(Doorbell, PingPongBetweenTwoRings) {
    Worker a, b;
    run_on(a, open_ring);
    run_on(b, open_ring);
    ping_pong(a, b, 500);
}

// The number of a cord's eventfd belongs to another file when the cord has ended: no thread may ring there.
TEST_P(Doorbell, TRAP_NoThreadRingsAtADescriptorOfACordThatHasEnded) {
    std::atomic<uint64_t> newest{0};
    std::atomic<bool> stop{false};
    auto nothing = [](void *) -> void * { return nullptr; };
    auto produce = [&] {
        uint64_t last = 0;
        for (int posts = 0; !stop; posts++) {
            const uint64_t id = newest;
            if (id != last) last = id, posts = 0;
            if (posts < 50) { // a cord that is given ever more to do does not end
                fiber_post({id}, nothing, nullptr);
            } else {
                sched_yield();
            }
        }
    };
    std::thread producers[2] = {std::thread(produce), std::thread(produce)};
    auto body = [] {
        open_ring();
        fiber_yield_timeout(FIBER_USEC(100));
    };
    for (int i = 0; i < 100; i++) {
        const fiber_cord_t cord = start_cord(body);
        newest = cord.id;
        join_cord(cord);
        int reused[8];
        for (int &fd : reused) fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); // the lowest numbers that are free
        sched_yield();
        for (int fd : reused) {
            uint64_t rings = 0;
            EXPECT_EQ(::read(fd, &rings, sizeof rings), -1) << rings << " rings";
            ::close(fd);
        }
    }
    stop = true;
    for (std::thread &thread : producers) thread.join();
}

// A thread that has sent a message, and is about to ring, may be kept from it for long: the cord, which has woken for
// another reason, keeps its eventfd until the ring has come.
TEST_P(Doorbell, IsKeptWhileAThreadIsStillToRing) {
    static std::atomic<bool> held, ended, ended_too_early;
    held = ended = ended_too_early = false;
    Pipe pipe;
    fiber_t main{};
    std::atomic<bool> ready{false};
    auto body = [&] {
        open_ring();
        main = self();
        ready = true;
        char byte = 0;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    const fiber_cord_t cord = start_cord(body);
    await_holding_the_thread([&] { return ready.load() && fiber_state(main) == FIBER_WAITING; });
    std::thread rings([&] {
        before_ring = [] {
            held = true;
            for (int i = 0; i < 1000 && !ended; i++) usleep(200);
            ended_too_early = ended.load();
            return !ended_too_early;
        };
        auto nothing = [](void *) -> void * { return nullptr; };
        for (int i = 0; i < (GetParam() ? 1 : 10'000) && !held; i++) { // a ring by futex is not held
            usleep(100);                                               // the cord sleeps
            fiber_post(cord, nothing, nullptr);
        }
        before_ring = nullptr;
    });
    if (!GetParam()) await_holding_the_thread([] { return held.load(); });
    EXPECT_EQ(::write(pipe.write_end, "x", 1), 1);
    join_cord(cord);
    ended = true;
    rings.join();
    EXPECT_FALSE(ended_too_early);
}

// The kernel takes down a closed ring at its leisure; until then an operation of the ring waits on the word of the
// cord's record, which serves the next cord.
TEST_P(Doorbell, TRAP_ARingThatWasClosedTakesNoWakeFromTheNextCordOfTheRecord) {
    auto sleeps_in_ring = [] {
        open_ring();
        fiber_sleep(FIBER_USEC(100)); // leaves the doorbell with the kernel
    };
    for (int i = 0; i < 200; i++) {
        join_cord(start_cord(sleeps_in_ring));
        fiber_t main{};
        std::atomic<bool> ready{false};
        auto body = [&] {
            main = self();
            ready = true;
            EXPECT_EQ(fiber_yield_timeout(FIBER_SEC(30)), 0) << "the wake was lost";
        };
        const fiber_cord_t cord = start_cord(body);
        await_holding_the_thread([&] { return ready.load() && fiber_state(main) == FIBER_WAITING; });
        if (i % 2) usleep(20);
        EXPECT_EQ(fiber_wakeup(main), 0);
        join_cord(cord);
    }
}

} // namespace
