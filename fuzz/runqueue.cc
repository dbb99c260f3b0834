// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `runqueue`: operations on core/run_queue.h and core/timers.h, each against a reference that is plainly right:
// a deque of numbers, and an array of deadlines searched from end to end.
#include "check.h"

#include "core/run_queue.h"
#include "core/timers.h"

#include <deque>
#include <new>
#include <vector>

using fiberrt::Fiber;
using fiberrt::never;
using fiberrt::RunQueue;
using fiberrt::Timer;
using fiberrt::Timers;

static bool out_of_memory; // while set, the allocator refuses

// The linker leads the library's calls here (--wrap).
extern "C" void* __real_malloc(size_t size);
extern "C" void* __real_aligned_alloc(size_t alignment, size_t size);
extern "C" void* __real_realloc(void* memory, size_t size);
extern "C" void* __wrap_malloc(size_t size) { return out_of_memory ? nullptr : __real_malloc(size); }
extern "C" void* __wrap_aligned_alloc(size_t alignment, size_t size) {
    return out_of_memory ? nullptr : __real_aligned_alloc(alignment, size);
}
extern "C" void* __wrap_realloc(void* memory, size_t size) {
    return out_of_memory ? nullptr : __real_realloc(memory, size);
}

namespace {

constexpr unsigned fiber_limit = 256;

// A fiber is in the queue at most once, and room is reserved for each: the rules that the runtime keeps too.
class RunQueueTrial {
public:
    RunQueueTrial() {
        fibers_ = new Fiber[fiber_limit];
        for (unsigned i = 0; i < fiber_limit; i++) fibers_[i].sp = nullptr;
        FUZZ_CHECK(queue_.empty() && !queue_.front() && !queue_.pop());
        reserve(1, false);
    }
    ~RunQueueTrial() {
        take(fiber_limit + 1);
        queue_.release();
        FUZZ_CHECK(queue_.empty());
        delete[] fibers_;
    }

    void reserve(unsigned count, bool fail) {
        if (count > fiber_limit) count = fiber_limit;
        out_of_memory = fail;
        bool done = queue_.reserve(count, &fibers_[0]);
        out_of_memory = false;
        FUZZ_CHECK(done || fail);
        if (done && count > reserved_) reserved_ = count;
        agree();
    }

    void put(unsigned first, unsigned count, bool in_front) {
        const RunQueue::Place before = queue_.end();
        std::deque<unsigned> pushed;
        for (unsigned i = 0; i < count && order_.size() < reserved_; i++) {
            unsigned number = (first + i) % fiber_limit;
            if (queued_[number]) continue;
            queued_[number] = true;
            if (in_front) {
                queue_.push_front(&fibers_[number]);
                order_.push_front(number);
            } else {
                queue_.push(&fibers_[number]);
                order_.push_back(number);
                pushed.push_back(number);
            }
            agree();
        }
        queue_.each_since(before, [&](Fiber* fiber) {
            FUZZ_CHECK(!pushed.empty() && fiber == &fibers_[pushed.front()]);
            pushed.pop_front();
        });
        FUZZ_CHECK(pushed.empty());
    }

    void take(unsigned count) {
        for (unsigned i = 0; i < count && !order_.empty(); i++) {
            queue_.prefetch();
            Fiber* fiber = queue_.pop();
            FUZZ_CHECK(fiber == &fibers_[order_.front()]);
            queued_[order_.front()] = false;
            order_.pop_front();
            agree();
        }
        if (order_.empty()) FUZZ_CHECK(!queue_.pop());
    }

    // A release discards everything, so that the queue can be used again.
    void restart() {
        queue_.release();
        order_.clear();
        for (bool& queued : queued_) queued = false;
        reserved_ = 0;
        reserve(1, false);
    }

private:
    void agree() {
        FUZZ_CHECK_EQ(queue_.size(), order_.size());
        FUZZ_CHECK_EQ(queue_.empty(), order_.empty());
        FUZZ_CHECK(queue_.front() == (order_.empty() ? nullptr : &fibers_[order_.front()]));
        if (!order_.empty()) FUZZ_CHECK(queue_.nth(order_.size() - 1) == &fibers_[order_.back()]);
    }

    RunQueue queue_;
    Fiber* fibers_;
    std::deque<unsigned> order_;
    bool queued_[fiber_limit] = {};
    unsigned reserved_ = 0;
};

class TimersTrial {
public:
    TimersTrial() {
        for (Timer& timer : all_) timer.init();
        FUZZ_CHECK(timers_.next() == never && !timers_.expired(never - 1));
        reserve(1, false);
    }
    ~TimersTrial() {
        expire(never - 1);
        FUZZ_CHECK(timers_.next() == never);
        for (Timer& timer : all_) timers_.remove(&timer);
        timers_.release();
    }

    void reserve(unsigned count, bool fail) {
        if (count > limit) count = limit;
        out_of_memory = fail;
        bool done = timers_.reserve(count);
        out_of_memory = false;
        FUZZ_CHECK(done || fail);
        if (done && count > reserved_) reserved_ = count;
    }

    void set(unsigned number, int64_t deadline) {
        if (number >= reserved_) return;
        timers_.set(&all_[number], deadline);
        deadlines_[number] = deadline;
        if (deadline != never) armed_[number] = ++armings_;
        FUZZ_CHECK(all_[number].deadline == deadline);
    }

    void remove(unsigned number) {
        if (number >= reserved_) return;
        timers_.remove(&all_[number]);
        deadlines_[number] = never;
        FUZZ_CHECK_EQ(all_[number].position, 0);
    }

    // Not after the earliest; and exactly that, unless many lie together. (32 looks; two at a timer that was moved.)
    void next() {
        int64_t next = timers_.next();
        unsigned placed = 0;
        for (const Timer& timer : all_) placed += timer.position != 0;
        FUZZ_CHECK(next == deadlines_[first()] || (next < deadlines_[first()] && 2 * placed > 32));
    }

    // Fires all that is due, in the order of deadlines and, among equals, of arming.
    void expire(int64_t now) {
        while (Timer* timer = timers_.expired(now)) {
            unsigned number = unsigned(timer - all_);
            FUZZ_CHECK_EQ(number, first());
            FUZZ_CHECK(deadlines_[number] <= now && timer->deadline == never && timer->position == 0);
            deadlines_[number] = never;
        }
        FUZZ_CHECK(deadlines_[first()] > now);
    }

    static constexpr unsigned limit = 96;

private:
    unsigned first() const {
        unsigned least = 0;
        for (unsigned i = 1; i < limit; i++) {
            bool before =
                deadlines_[i] != deadlines_[least] ? deadlines_[i] < deadlines_[least] : armed_[i] < armed_[least];
            if (before) least = i;
        }
        return least;
    }

    struct Deadlines {
        int64_t at[limit];
        Deadlines() {
            for (int64_t& deadline : at) deadline = never;
        }
        int64_t& operator[](unsigned i) { return at[i]; }
        int64_t operator[](unsigned i) const { return at[i]; }
    };

    Timers timers_;
    Timer all_[limit];
    Deadlines deadlines_;
    uint64_t armed_[limit] = {};
    uint64_t armings_ = 0;
    unsigned reserved_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    RunQueueTrial queue;
    TimersTrial timers;
    int64_t now = 0;
    while (!input.done()) {
        uint8_t op = input.byte();
        unsigned few = op >> 4;
        switch (op & 15) {
        case 0: queue.put(input.byte(), few + 1, false); break;
        case 1: queue.put(input.byte(), few + 1, true); break;
        case 2: queue.take(few + 1); break;
        case 3: queue.take(few * 16); break;
        case 4: queue.put(input.byte(), few * 16, few & 1); break;
        case 5: queue.reserve(input.byte() + 1, false); break;
        case 6: queue.reserve(input.byte() + 1, true); break;
        case 7: queue.restart(); break;
        case 8: timers.set(input.below(TimersTrial::limit), now + few); break;
        case 9: timers.set(input.below(TimersTrial::limit), now + (int64_t(input.byte()) << (2 * few))); break;
        case 10: timers.set(input.below(TimersTrial::limit), never); break;
        case 11: timers.remove(input.below(TimersTrial::limit)); break;
        case 12:
            now += few < 8 ? few : int64_t(1) << (4 * few - 24);
            timers.expire(now);
            break;
        case 13: timers.next(); break;
        case 14: timers.reserve(input.byte() + 1, few & 1); break;
        case 15: // many at once, so that some are sorted
            for (unsigned i = 0, first = input.byte(), step = input.byte(); i < few * 4; i++)
                timers.set((first + i) % TimersTrial::limit, now + (i * step) % 31);
            break;
        }
    }
    return 0;
}
