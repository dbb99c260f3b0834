// SPDX-License-Identifier: MIT OR Apache-2.0
// observe: what it costs to look inside: switches while they are recorded, and dumps.
#include "subject.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

using namespace subject;

namespace {

enum class By { nothing, accounting, trace };

// Two fibers that give way to each other at the same place.
class Recorded {
public:
    explicit Recorded(By by) : by_(by) {
        if (by_ == By::accounting) check(fiber_accounting_start(), "fiber_accounting_start");
        if (by_ != By::trace) return;
        fiber_trace_t options = {};
        options.path = "/dev/null";
        check(fiber_trace_start(&options, sizeof options), "fiber_trace_start");
    }
    Recorded(const Recorded &) = delete;
    Recorded &operator=(const Recorded &) = delete;
    ~Recorded() {
        if (by_ == By::accounting) fiber_accounting_stop();
        if (by_ == By::trace) fiber_trace_stop();
    }

    bool run(long rounds) {
        rounds_ = rounds;
        ok_ = true;
        fiber_t one, other;
        check(fiber_spawn(&one, take_turns, this), "fiber_spawn");
        check(fiber_spawn(&other, take_turns, this), "fiber_spawn");
        check(fiber_join(one, nullptr), "fiber_join");
        check(fiber_join(other, nullptr), "fiber_join");
        if (by_ == By::trace) ok_ &= wait_until_written();
        return ok_;
    }

private:
    static void *take_turns(void *argument) {
        auto *it = static_cast<Recorded *>(argument);
        for (long i = 0; i < it->rounds_ && it->ok_; i++) {
            it->ok_ = fiber_reschedule() == 0;
        }
        return nullptr;
    }

    // Waits until the events of this run are in the file: two fibers that only switch make events faster than the
    // trace's thread writes them, and the cord would drop the events of the next run. The figure is the CPU time of this
    // thread, so the wait hardly counts.
    bool wait_until_written() {
        uint64_t written_before = written_;
        do {
            fiber_trace_stats_t stats;
            if (fiber_sleep(FIBER_MSEC(2)) != 0 || fiber_trace_stats(&stats, sizeof stats) != 0) return false;
            if (stats.dropped || stats.error) return false;
            written_ = stats.events;
        } while (written_ - written_before < static_cast<uint64_t>(rounds_) * events_per_round);
        return true;
    }

    static constexpr uint64_t events_per_round = 4; // each of the fibers stops and runs
    By by_;
    long rounds_ = 0;
    uint64_t written_ = 0; // events of the trace so far
    bool ok_ = true;
};

// Dumps of parked fibers, grouped by equal stacks.
class Dumped {
public:
    explicit Dumped(long count) : null_(::open("/dev/null", O_WRONLY | O_CLOEXEC)) {
        check(null_, "open");
        Attr attr(bench::stack_bytes);
        for (long i = 0; i < count; i++) {
            fiber_t fiber;
            check(fiber_spawn_attr(&fiber, attr.get(), park, nullptr), "fiber_spawn_attr");
            fibers_.push_back(fiber);
        }
        check(fiber_reschedule(), "fiber_reschedule");
    }
    Dumped(const Dumped &) = delete;
    Dumped &operator=(const Dumped &) = delete;
    ~Dumped() {
        for (fiber_t fiber : fibers_) {
            fiber_cancel(fiber, nullptr);
        }
        for (fiber_t fiber : fibers_) {
            check(fiber_join(fiber, nullptr), "fiber_join");
        }
        ::close(null_);
    }

    // A round is a fiber of a dump.
    bool run(long rounds) {
        for (long done = 0; done < rounds; done += long(fibers_.size())) {
            if (fiber_dump_as(null_, FIBER_DUMP_GROUPED) != 0) return false;
        }
        return true;
    }

private:
    static void *park(void *) {
        fiber_yield();
        return nullptr;
    }

    int null_;
    std::vector<fiber_t> fibers_;
};

} // namespace

void subject::add_observe() {
    bench::add<Recorded>("observe/off", 2, By::nothing);
    bench::add<Recorded>("observe/accounting", 2, By::accounting);
    bench::add<Recorded>("observe/trace", 2, By::trace);
    bench::add<Dumped>("observe/dump10000", 1, 10000L);
}
