// SPDX-License-Identifier: MIT OR Apache-2.0
// Cords that spin for messages before they sleep: when they do, and that nothing else has to wait for it.
#include "cord_support.h"

#include <algorithm>
#include <unistd.h>
#include <vector>

using namespace support;

namespace {

// Answers each wakeup by one, until the end of the scope.
class Answerer {
public:
    explicit Answerer(const fiber_cord_attr_t *attr = nullptr) {
        cord_ = start_cord(body_, attr);
        await_holding_the_thread([&] { return ready_.load(); });
    }
    ~Answerer() {
        stop_ = true;
        EXPECT_EQ(fiber_wakeup(main_), 0);
        join_cord(cord_);
    }

    // One round trip.
    void ask() {
        uint64_t awaited = ++asked_;
        EXPECT_EQ(fiber_wakeup(main_), 0);
        while (answered_ != awaited) EXPECT_EQ(fiber_yield(), 0);
    }

private:
    struct Main {
        Answerer *of;
        void operator()() const {
            of->main_ = self();
            of->ready_ = true;
            while (!of->stop_) {
                EXPECT_EQ(fiber_yield(), 0);
                if (of->answered_ == of->asked_) continue;
                of->answered_ = of->asked_.load();
                EXPECT_EQ(fiber_wakeup(of->asker_), 0);
            }
        }
    };
    Main body_{this};
    fiber_t asker_ = self();
    fiber_cord_t cord_{};
    fiber_t main_{};
    std::atomic<bool> ready_{false};
    std::atomic<bool> stop_{false};
    std::atomic<uint64_t> asked_{0};
    std::atomic<uint64_t> answered_{0};
};

// Attributes of a cord that runs on one processor: the first, second, ... that this thread may run on.
class Bound {
public:
    explicit Bound(int cpu) {
        EXPECT_EQ(fiber_cord_attr_create(&attr_), 0);
        EXPECT_EQ(fiber_cord_attr_set_affinity(attr_, &cpu, 1), 0);
    }
    ~Bound() { fiber_cord_attr_destroy(attr_); }
    Bound(const Bound &) = delete;
    Bound &operator=(const Bound &) = delete;
    operator const fiber_cord_attr_t *() const { return attr_; }

private:
    fiber_cord_attr_t *attr_ = nullptr;
};

// Runs body(answerer) on a cord that is bound to one processor, while the answering cord is bound to the other.
template <class Body>
void with_pair(int cpu, int answerers_cpu, Body body) {
    auto main = [&] {
        Answerer answerer{Bound(answerers_cpu)};
        body(answerer);
    };
    join_cord(start_cord(main, Bound(cpu)));
}

// Makes round trips until done() holds, at most so many; returns how many.
template <class Done>
int trips_until(Answerer &answerer, int most, Done done) {
    int trips = 0;
    while (trips < most && !done()) {
        answerer.ask();
        trips++;
    }
    return trips;
}

bool never() { return false; }

// How many of so many round trips put the asking cord to sleep.
uint64_t sleeps_in(Answerer &answerer, int trips) {
    uint64_t before = stats().blocking_polls;
    trips_until(answerer, trips, never);
    return stats().blocking_polls - before;
}

#define NEEDS_TWO_PROCESSORS()                    \
    NOT_UNDER_QEMU("distorts times");             \
    const std::vector<int> cpus = allowed_cpus(); \
    if (cpus.size() < 2) GTEST_SKIP() << "it needs two processors"

TEST(Lookout, CordsBoundToDifferentProcessorsLookOut) {
    NEEDS_TWO_PROCESSORS();
    constexpr int trips = 100'000;
    with_pair(cpus[0], cpus[1], [](Answerer &answerer) { EXPECT_LT(sleeps_in(answerer, trips), uint64_t(trips / 2)); });
}

// A pipe that a fiber reads byte by byte, counting the bytes.
class Reader {
public:
    Reader() { EXPECT_EQ(pipe(ends_), 0); }
    ~Reader() {
        close(ends_[0]);
        close(ends_[1]);
    }
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;

    void read_all() {
        char byte;
        while (fiber_read(ends_[0], &byte, 1) == 1 && byte != '.') read_++;
    }
    void end() { EXPECT_EQ(write(ends_[1], ".", 1), 1); }

    // How many messages, sent by message(), go by while a byte that is written now is read: 21 times, the least first.
    // (Every now and then other programs take the processor of the one or the other, which shortens it or makes it
    // longer.)
    template <class SendMessage>
    std::vector<int> messages_meanwhile(SendMessage message) {
        std::vector<int> counts;
        for (int round = 0; round < 21; round++) {
            for (int i = 0; i < 5'000; i++) message();
            int before = read_;
            EXPECT_EQ(write(ends_[1], "x", 1), 1);
            int count = 0;
            for (; read_ == before && count < 1'000'000; count++) message();
            counts.push_back(count);
        }
        std::sort(counts.begin(), counts.end());
        return counts;
    }

private:
    int ends_[2];
    std::atomic<int> read_{0};
};

TEST(Lookout, MessagesThatKeepComingDoNotKeepIoOut) {
    NEEDS_IO();
    NEEDS_TWO_PROCESSORS();
    with_pair(cpus[0], cpus[1], [](Answerer &answerer) {
        Reader reader;
        auto body = [&] { reader.read_all(); };
        fiber_t fiber = spawn(body);
        EXPECT_LT(reader.messages_meanwhile([&] { answerer.ask(); })[10], 1'000);
        reader.end();
        join(fiber);
    });
}

// Wakeups that make nothing runnable, as the fiber waits for something else.
TEST(Lookout, IdleMessagesThatKeepComingDoNotKeepIoOut) {
    NEEDS_IO();
    NEEDS_TWO_PROCESSORS();
    Reader reader;
    fiber_t fiber{};
    std::atomic<bool> ready{false};
    auto body = [&] {
        fiber = self();
        ready = true;
        reader.read_all();
    };
    fiber_cord_t cord = start_cord(body, Bound(cpus[1]));
    auto storm = [&] {
        await_holding_the_thread([&] { return ready.load(); });
        // Not the median: these messages go on while the reader's processor is taken.
        EXPECT_LT(reader.messages_meanwhile([&] { fiber_wakeup(fiber); })[3], 10'000);
        reader.end();
    };
    join_cord(start_cord(storm, Bound(cpus[0])));
    join_cord(cord);
}

TEST(Lookout, MessagesThatKeepComingDoNotKeepTimersOut) {
    NEEDS_TWO_PROCESSORS();
    with_pair(cpus[0], cpus[1], [](Answerer &answerer) {
        trips_until(answerer, 50'000, never);
        bool woken = false;
        auto sleeper = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            woken = true;
        };
        fiber_t fiber = spawn(sleeper);
        trips_until(answerer, 1, never);
        for (int64_t begun = fiber_now(); fiber_now() - begun < FIBER_USEC(100);) {}
        EXPECT_LT(trips_until(answerer, 100'000, [&] { return woken; }), 1'000);
        join(fiber);
    });
}

} // namespace
