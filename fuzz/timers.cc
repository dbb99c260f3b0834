// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `timers`: core/timers.h over the whole range of time and with thousands of timers, against an ordered set. The
// target `runqueue` uses few timers with near deadlines. This target adds the slots' edges on every level, deadlines in
// the past and
// at the end of time, timers armed by a timer that fires, growth by several steps, with and without memory, and the
// promise on which a cord's sleep relies: next() is never late, and a thread that sleeps until next() comes to the
// earliest deadline in a few steps.
#include "check.h"

#include "core/timers.h"

#include <memory>
#include <set>

using fiberrt::never;
using fiberrt::Timer;
using fiberrt::Timers;

static bool out_of_memory; // while set, the allocator refuses

extern "C" void* __real_realloc(void* memory, size_t size);
extern "C" void* __wrap_realloc(void* memory, size_t size) {
    return out_of_memory ? nullptr : __real_realloc(memory, size);
}

namespace {

class Trial {
public:
    static constexpr unsigned limit = 5000; // four times the first reservation

    explicit Trial(int64_t now) : now_(now), all_(new Timer[limit]), armed_(new uint64_t[limit]) {
        for (unsigned i = 0; i < limit; i++) all_[i].init();
        FUZZ_CHECK(timers_.next() == never && !timers_.expired(now_));
        reserve(1, false);
    }
    ~Trial() {
        while (!waiting_.empty()) step_to_next();
        FUZZ_CHECK(timers_.next() == never && !timers_.expired(never - 1));
        for (unsigned i = 0; i < limit; i++) {
            timers_.remove(&all_[i]);
            FUZZ_CHECK_EQ(all_[i].position, 0);
        }
        timers_.release();
    }

    int64_t now() const { return now_; }

    void reserve(unsigned count, bool fail) {
        uint32_t before = timers_.capacity();
        out_of_memory = fail;
        bool done = timers_.reserve(count);
        out_of_memory = false;
        FUZZ_CHECK(done == (!fail || count <= before));
        FUZZ_CHECK(done ? timers_.capacity() >= count : timers_.capacity() == before);
    }

    void set(unsigned number, int64_t deadline) {
        if (number >= timers_.capacity()) number %= timers_.capacity();
        number %= limit;
        forget(number);
        timers_.set(&all_[number], deadline);
        FUZZ_CHECK(all_[number].deadline == deadline);
        if (deadline == never) return;
        armed_[number] = ++armings_;
        waiting_.insert({deadline, armed_[number], number});
    }

    void remove(unsigned number) {
        number %= limit;
        forget(number);
        timers_.remove(&all_[number]);
        FUZZ_CHECK(all_[number].position == 0 && all_[number].deadline == never);
    }

    // The deadline of a timer, or the time if it is not armed.
    int64_t deadline_of(unsigned number) const {
        int64_t deadline = all_[number % limit].deadline;
        return deadline == never ? now_ : deadline;
    }

    // Moves time forward; all due timers fire, or the first `most` of them. `again` of them are armed again when they
    // fire, `later` after that time.
    void go_on(int64_t to, unsigned most, unsigned again, int64_t later) {
        if (to > now_) now_ = to;
        for (; most; most--) {
            int64_t fired_at = -1;
            Timer* timer = timers_.expired(now_, &fired_at);
            if (!timer) {
                FUZZ_CHECK(waiting_.empty() || waiting_.begin()->deadline > now_);
                break;
            }
            FUZZ_CHECK(!waiting_.empty());
            Waiting first = *waiting_.begin();
            FUZZ_CHECK_EQ(timer - all_.get(), first.number);
            FUZZ_CHECK_EQ(fired_at, first.deadline);
            FUZZ_CHECK(fired_at <= now_ && timer->deadline == never && timer->position == 0);
            waiting_.erase(waiting_.begin());
            if (again) {
                again--;
                set(first.number, later < never - now_ ? now_ + later : never - 1);
            }
        }
    }

    void look() { check_next(timers_.next()); }

    // Does what an idle cord does: sleeps until next(), and checks for expired timers, until one has expired.
    void step_to_next() {
        size_t before = waiting_.size();
        int64_t last = -1;
        for (unsigned steps = 0; before && waiting_.size() == before; steps++) {
            FUZZ_CHECK(steps < 200);
            int64_t next = timers_.next();
            check_next(next);
            FUZZ_CHECK(next > last); // else it would turn without end
            last = next;
            go_on(next, ~0u, 0, 0);
        }
        if (!before) look();
    }

    void restart() {
        timers_.release();
        FUZZ_CHECK_EQ(timers_.capacity(), 0);
        for (unsigned i = 0; i < limit; i++) all_[i].init();
        waiting_.clear();
        reserve(1, false);
    }

private:
    struct Waiting {
        int64_t deadline;
        uint64_t armed;
        unsigned number;
        bool operator<(const Waiting& other) const {
            return deadline != other.deadline ? deadline < other.deadline : armed < other.armed;
        }
    };

    void forget(unsigned number) {
        if (all_[number].deadline != never) waiting_.erase({all_[number].deadline, armed_[number], number});
    }

    void check_next(int64_t next) {
        if (waiting_.empty()) {
            FUZZ_CHECK(next == never);
        } else {
            FUZZ_CHECK(next <= waiting_.begin()->deadline);
        }
    }

    Timers timers_;
    int64_t now_;
    std::unique_ptr<Timer[]> all_;
    std::unique_ptr<uint64_t[]> armed_; // when, in armings
    uint64_t armings_ = 0;
    std::set<Waiting> waiting_;
};

int64_t after(int64_t time, int64_t duration) { return duration < never - 1 - time ? time + duration : never - 1; }

// A time that is worth a try.
int64_t time_of(Trial& trial, Input& input) {
    uint8_t how = input.byte();
    int64_t now = trial.now();
    unsigned few = how >> 3;
    switch (how & 7) {
    case 0: return after(now, few);
    case 1: return after(now, int64_t(input.byte()) << few);
    case 2: return after(now, int64_t(input.byte()) << (few + 24));
    // At the edge of a slot: its last nanosecond, or the next one's first.
    case 3: return after(now | ((int64_t(1) << (8 + 6 * (few % 9))) - 1), few / 9);
    case 4: return now > few << 6 ? now - (int64_t(few) << 6) : 0; // past
    case 5: return never - 1 - few;
    case 6: return after(trial.deadline_of(input.byte()), few & 3);
    default: return few ? after(now, few * 256) : never;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    uint8_t begin = input.byte(); // the machine has been up for so long
    Trial trial(int64_t(begin & 15) << (begin >> 4) * 3);
    unsigned budget = 20000; // timers set by operations that set many: an input is to take milliseconds
    while (!input.done()) {
        uint8_t op = input.byte();
        unsigned few = op >> 3;
        switch (op & 7) {
        case 0: {
            unsigned number = input.byte();
            trial.set(number, time_of(trial, input));
            break;
        }
        case 1: { // many, at steps from each other
            unsigned first = input.byte() * 19u;
            unsigned count = few * few;
            int64_t begins = time_of(trial, input);
            int64_t step = int64_t(input.byte()) << (few & 15);
            if (begins == never) begins = trial.now();
            for (unsigned i = 0; i < count && budget; i++, budget--)
                trial.set(first + i * 7, after(begins, step * ((i * 5) % 64)));
            break;
        }
        case 2: {
            unsigned number = input.byte();
            for (unsigned i = 0; i <= few; i++) trial.remove(number + i * 7);
            break;
        }
        case 3: {
            int64_t to = time_of(trial, input);
            if (to == never) to = trial.now();
            trial.go_on(to, few & 1 ? few : ~0u, few & 2 ? few : 0, int64_t(1) << few);
            break;
        }
        case 4: trial.look(); break;
        case 5:
            for (unsigned i = 0; i <= few; i++) trial.step_to_next();
            break;
        case 6: trial.reserve(input.byte() * 20u, few & 1); break;
        case 7:
            if (few == 31) {
                trial.restart();
            } else {
                trial.set(input.byte() * 19u, time_of(trial, input));
            }
            break;
        }
    }
    return 0;
}
