// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces: what they show of fibers and cords, and that no use of them, and no file that cannot be written, does more harm
// than the loss of the trace. A reader that does as Perfetto's reads them (trace_reader.h).
#include "conformance.h"
#include "cord_support.h"
#include "dumps.h"
#include "trace_reader.h"

#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace support;
using trace_reader::Slice;
using trace_reader::still_open;
using trace_reader::Track;
using File = trace_reader::Trace;

namespace {

std::string bytes_of(int fd) {
    std::string bytes;
    char part[4096];
    for (ssize_t size; (size = ::pread(fd, part, sizeof part, off_t(bytes.size()))) > 0;)
        bytes.append(part, size_t(size));
    return bytes;
}

fiber_trace_t to(int fd, uint32_t ring_events = 0) {
    fiber_trace_t options = {};
    options.fd = fd;
    options.ring_events = ring_events;
    return options;
}

// A trace to a file without a name, for as long as the object exists.
class Tracing {
public:
    explicit Tracing(uint32_t ring_events = 0) : file_(::tmpfile()) {
        const fiber_trace_t options = to(::fileno(file_), ring_events);
        EXPECT_EQ(fiber_trace_start(&options, sizeof options), 0);
    }
    ~Tracing() {
        if (runs_) stop();
        ::fclose(file_);
    }
    Tracing(const Tracing &) = delete;
    Tracing &operator=(const Tracing &) = delete;

    // Stops the trace, and reads it.
    File stop() {
        EXPECT_EQ(fiber_trace_stop(), 0);
        runs_ = false;
        File file(bytes_of(::fileno(file_)));
        for (const std::string &error : file.errors) ADD_FAILURE() << error;
        return file;
    }

private:
    FILE *file_;
    bool runs_ = true;
};

fiber_trace_stats_t trace_stats() {
    fiber_trace_stats_t stats{};
    EXPECT_EQ(fiber_trace_stats(&stats, sizeof stats), 0);
    return stats;
}

void set_name(const char *name) { EXPECT_EQ(fiber_set_name(self(), name), 0); }

// The one slice of this name on tracks whose names begin so.
Slice only(const File &file, const std::string &track, const std::string &name) {
    const std::vector<Slice> found = File::named(file.of(track), name);
    EXPECT_EQ(found.size(), 1u) << track << ": " << name;
    return found.empty() ? Slice{} : found[0];
}

TEST(Trace, ShowsRunsAndWaitsByTheirReasons) {
    Tracing tracing;
    fiber_sem_t semaphore = FIBER_SEM_INITIALIZER(0);
    auto waits = [&] {
        set_name("the waiter");
        EXPECT_EQ(fiber_sem_wait(&semaphore, 1), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    };
    auto posts = [&] {
        set_name("the poster");
        EXPECT_EQ(fiber_sem_post(&semaphore, 1), 0);
    };
    const fiber_t waiter = start(waits);
    EXPECT_EQ(fiber_reschedule(), 0);
    const fiber_t poster = start(posts);
    join(waiter);
    join(poster);
    const File file = tracing.stop();

    const std::vector<Slice> waiters = file.of("the waiter #");
    const Slice semaphore_wait = only(file, "the waiter #", "waits for a semaphore");
    const Slice sleep = only(file, "the waiter #", "sleeps");
    const std::vector<Slice> runs = File::named(waiters, "runs");
    ASSERT_EQ(runs.size(), 3u); // until the semaphore, until the sleep, to the end
    // The timer starts before the fiber gives way, so the slice of the sleep may be shorter. The rate of the trace's
    // clock is measured, and off by a little.
    EXPECT_GE(sleep.end - runs[1].begin, FIBER_MSEC(1) - FIBER_USEC(10));
    EXPECT_LE(runs[0].end, semaphore_wait.begin);
    EXPECT_LE(semaphore_wait.end, runs[1].begin);
    EXPECT_LE(runs[1].end, sleep.begin);
    EXPECT_LE(sleep.end, runs[2].begin);
    EXPECT_NE(runs[2].end, still_open);

    const Slice *waker = file.woken_by(runs[1]);
    ASSERT_NE(waker, nullptr);
    EXPECT_EQ(file.tracks.at(waker->track).name.rfind("the poster #", 0), 0u);
    EXPECT_EQ(waker->name, "runs");
    EXPECT_EQ(file.woken_by(runs[2]), nullptr); // a timer has woken it

    // The thread's track has a slice for each run.
    size_t on_the_thread = 0;
    for (const Slice &slice : file.slices) {
        if (slice.name != "the waiter") continue;
        EXPECT_EQ(file.tracks.at(slice.track).kind, Track::thread);
        EXPECT_EQ(slice.notes.at("fiber"), hex(waiter.id));
        on_the_thread++;
    }
    EXPECT_EQ(on_the_thread, runs.size());
}

TEST(Trace, TellsAWaitAtAChannel) {
    Tracing tracing;
    fiber_chan_t chan{};
    ASSERT_EQ(fiber_chan_create(&chan, sizeof(int), 0), 0);
    auto receives = [&] {
        set_name("the receiver");
        int value = 0;
        EXPECT_EQ(fiber_chan_recv(chan, &value), 0);
    };
    const fiber_t receiver = start(receives);
    EXPECT_EQ(fiber_reschedule(), 0);
    const int sent = 4711;
    EXPECT_EQ(fiber_chan_send(chan, &sent), 0);
    join(receiver);
    EXPECT_EQ(fiber_chan_destroy(chan), 0);
    const Slice wait = only(tracing.stop(), "the receiver #", "waits at a channel");
    EXPECT_NE(wait.end, still_open);
}

TEST(Trace, NamesTheDescriptorAndTheOperation) {
    NEEDS_IO();
    Tracing tracing;
    Pipe pipe;
    auto reads = [&] {
        set_name("the reader");
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    const fiber_t reader = start(reads);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    join(reader);
    const File file = tracing.stop();
    bool found = false;
    for (const Slice &slice : file.of("the reader #")) {
        const bool is_wait = slice.name == "waits for read" || slice.name == "waits for poll";
        if (!is_wait) continue;
        EXPECT_EQ(slice.notes.at("descriptor"), std::to_string(pipe.read_end));
        found = true;
    }
    EXPECT_TRUE(found);
}

TEST(Trace, LeavesWaitsThatHaveNotEndedOpenAndNamesTheHolders) {
    Tracing tracing;
    fiber_rwlock_t first = FIBER_RWLOCK_INITIALIZER;
    fiber_rwlock_t second = FIBER_RWLOCK_INITIALIZER;
    fiber_t fibers[2];
    auto dead_locks = [&](fiber_rwlock_t &one, fiber_rwlock_t &other) {
        EXPECT_EQ(fiber_rwlock_wrlock(&one), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_rwlock_wrlock(&other), -ECANCELED);
        EXPECT_EQ(fiber_rwlock_unlock(&one), 0);
    };
    auto one = [&] { set_name("one"), dead_locks(first, second); };
    auto other = [&] { set_name("other"), dead_locks(second, first); };
    fibers[0] = start(one);
    fibers[1] = start(other);
    while (fiber_state(fibers[0]) != FIBER_WAITING || fiber_state(fibers[1]) != FIBER_WAITING)
        EXPECT_EQ(fiber_reschedule(), 0);
    const File file = tracing.stop();
    const Slice by_one = only(file, "one #", "waits for a lock");
    const Slice by_other = only(file, "other #", "waits for a lock");
    EXPECT_EQ(by_one.end, still_open);
    EXPECT_EQ(by_other.end, still_open);
    EXPECT_EQ(by_one.notes.at("holder"), hex(fibers[1].id));
    EXPECT_EQ(by_other.notes.at("holder"), hex(fibers[0].id));
    for (fiber_t fiber : fibers) EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(Trace, BeginsInTheMiddleOfWaits) {
    fiber_event_t event = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto waits = [&] {
        set_name("early");
        EXPECT_EQ(fiber_event_wait(&event), 0);
    };
    const fiber_t early = start(waits);
    EXPECT_EQ(fiber_reschedule(), 0);
    Tracing tracing;
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_event_set(&event), 0);
    join(early);
    const File file = tracing.stop();
    EXPECT_NE(only(file, "early #", "waits for an event").end, still_open);
    EXPECT_EQ(File::named(file.of("early #"), "runs").size(), 1u);
}

TEST(Trace, HasTheSlicesAndCountersOfTheProgram) {
    Tracing tracing;
    auto body = [] {
        set_name("sliced");
        EXPECT_EQ(fiber_trace_begin("outer"), 0);
        EXPECT_EQ(fiber_trace_begin("inner"), 0);
        EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); // a wait lies within slices
        EXPECT_EQ(fiber_trace_end(), 0);
        EXPECT_EQ(fiber_trace_counter("level", 3), 0);
        EXPECT_EQ(fiber_trace_counter("level", -5), 0);
        EXPECT_EQ(fiber_trace_end(), 0);
    };
    run(body);
    const File file = tracing.stop();
    const Slice outer = only(file, "slices of the program", "outer");
    const Slice inner = only(file, "slices of the program", "inner");
    EXPECT_EQ(outer.depth, 0u);
    EXPECT_EQ(inner.depth, 1u);
    EXPECT_LE(inner.end, outer.end);
    EXPECT_EQ(file.tracks.at(file.tracks.at(outer.track).parent).name.rfind("sliced #", 0), 0u);
    const Track *level = file.counter("level");
    ASSERT_NE(level, nullptr);
    ASSERT_EQ(level->values.size(), 2u);
    EXPECT_EQ(level->values[0].second, 3);
    EXPECT_EQ(level->values[1].second, -5);
}

TEST(Trace, MendsUnevenSlicesAndNames) {
    EXPECT_EQ(fiber_trace_begin(nullptr), 0); // there is no trace: the name does not matter
    Tracing tracing;
    const std::string long_name(10'000, 'n');
    auto body = [&] {
        EXPECT_EQ(fiber_trace_end(), 0); // none is open
        EXPECT_EQ(fiber_trace_begin(nullptr), -EINVAL);
        EXPECT_EQ(fiber_trace_counter(nullptr, 0), -EINVAL);
        for (int i = 0; i < 100; i++) EXPECT_EQ(fiber_trace_begin("nested"), 0);
        EXPECT_EQ(fiber_trace_begin(long_name.c_str()), 0);
        EXPECT_EQ(fiber_trace_begin("\xff is not UTF-8\n"), 0);
        EXPECT_EQ(fiber_trace_begin(""), 0); // all end with the fiber
    };
    run(body);
    const File file = tracing.stop();
    const std::vector<Slice> slices = file.of("slices of the program");
    ASSERT_EQ(slices.size(), 103u);
    for (size_t i = 0; i < slices.size(); i++) {
        EXPECT_EQ(slices[i].depth, i);
        EXPECT_NE(slices[i].end, still_open);
    }
    EXPECT_EQ(slices[100].name, long_name.substr(0, 255));
    EXPECT_EQ(slices[101].name, "? is not UTF-8?");
    EXPECT_EQ(slices[102].name, "");
}

TEST(Trace, TellsOfANameThatIsSetLater) {
    Tracing tracing;
    fiber_event_t go = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto body = [&] {
        set_name("before");
        EXPECT_EQ(fiber_event_wait(&go), 0);
        set_name("after");
    };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_event_set(&go), 0);
    join(fiber);
    const File file = tracing.stop();
    EXPECT_EQ(only(file, "before #", "named").notes.at("name"), "after");
}

TEST(Trace, ShowsAllCordsAlsoIfTheyEnd) {
    Tracing tracing;
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); };
    auto main = [&] {
        auto body = [&] {
            set_name("elsewhere");
            sleeps();
        };
        run(body);
    };
    for (int i = 0; i < 3; i++) join_cord(start_cord(main));
    const File file = tracing.stop();
    EXPECT_EQ(File::named(file.of("elsewhere #"), "sleeps").size(), 3u);
    size_t threads = 0;
    for (const auto &[uuid, track] : file.tracks) threads += track.kind == Track::thread;
    EXPECT_EQ(threads, 4u);
    for (const Slice &slice : file.of("elsewhere #")) EXPECT_NE(slice.end, still_open);
}

TEST(Trace, ACordsNameMayHaveAnyBytes) {
    Tracing tracing;
    fiber_cord_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_cord_attr_create(&attr), 0);
    ASSERT_EQ(fiber_cord_attr_set_name(attr, "\xff\033[31m\xc3\xa4"), 0);
    auto main = [] { EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); };
    join_cord(start_cord(main, attr));
    EXPECT_EQ(fiber_cord_attr_destroy(attr), 0);
    const File file = tracing.stop();
    size_t found = 0;
    for (const auto &[uuid, track] : file.tracks)
        found += track.kind == Track::thread && track.name == "??[31m\xc3\xa4";
    EXPECT_EQ(found, 1u);
}

TEST(Trace, CountsAndShowsTheEventsThatItDrops) {
    NOT_ON_SIM("has no writer beside the cords");
    Tracing tracing(64);
    auto gives_way = [&] {
        for (int i = 0; i < 20'000; i++) EXPECT_EQ(fiber_reschedule(), 0);
    };
    const fiber_t one = start(gives_way);
    run(gives_way);
    join(one);
    const File file = tracing.stop();
    uint64_t shown = 0;
    for (const Slice &slice : file.slices) {
        if (slice.name == "events dropped") shown += std::stoull(slice.notes.at("dropped"));
    }
    EXPECT_GT(shown, 0u);
    EXPECT_EQ(shown, trace_stats().dropped);
}

TEST(Trace, RefusesBadOptions) {
    fiber_trace_t options = to(-1);
    EXPECT_EQ(fiber_trace_stop(), -ESRCH);
    EXPECT_EQ(fiber_trace_start(nullptr, sizeof options), -EINVAL);
    EXPECT_EQ(fiber_trace_start(&options, 0), -EINVAL);
    EXPECT_EQ(fiber_trace_start(&options, 3), -EINVAL);
    EXPECT_EQ(fiber_trace_start(&options, sizeof options), -EBADF);
    for (const uint32_t events : {1u, 63u, (1u << 24) + 1}) {
        options = to(2, events);
        EXPECT_EQ(fiber_trace_start(&options, sizeof options), -EINVAL) << events;
    }
    options = {};
    options.path = "/nowhere/at all";
    EXPECT_EQ(fiber_trace_start(&options, sizeof options), -ENOENT);
    options.path = "/";
    EXPECT_EQ(fiber_trace_start(&options, sizeof options), -EISDIR);
    const std::string long_path(10'000, 'x');
    options.path = long_path.c_str();
    EXPECT_EQ(fiber_trace_start(&options, sizeof options), -ENAMETOOLONG);
    struct {
        fiber_trace_t known;
        uint64_t more;
    } later = {to(2), 1};
    EXPECT_EQ(fiber_trace_start(&later.known, sizeof later), -ENOTSUP);
    EXPECT_EQ(fiber_trace_stats(nullptr, 8), -EINVAL);
    fiber_trace_stats_t stats;
    EXPECT_EQ(fiber_trace_stats(&stats, 0), -EINVAL);
    EXPECT_EQ(fiber_trace_stop(), -ESRCH);
    EXPECT_EQ(trace_stats().running, 0);
}

TEST(Trace, IsOneAtATime) {
    EXPECT_EQ(fiber_reschedule(), 0); // opens the cord, which has events then
    Tracing tracing;
    const fiber_trace_t options = to(2);
    EXPECT_EQ(fiber_trace_start(&options, sizeof options), -EBUSY);
    EXPECT_EQ(trace_stats().running, 1);
    tracing.stop();
    EXPECT_EQ(fiber_trace_stop(), -ESRCH);
    EXPECT_EQ(trace_stats().running, 0);
    EXPECT_GT(trace_stats().events, 0u);
    EXPECT_GT(trace_stats().bytes, 0u);
    Tracing again;
    EXPECT_FALSE(again.stop().slices.empty());
}

// Makes enough events that some are written.
void make_events() {
    auto body = [] {
        for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_sleep(FIBER_USEC(1)), 0);
    };
    run(body);
}

TEST(Trace, EndsAtAFullDisk) {
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(full, 0);
    const fiber_trace_t options = to(full);
    ASSERT_EQ(fiber_trace_start(&options, sizeof options), 0);
    ::close(full); // the trace has a duplicate
    make_events();
    EXPECT_EQ(fiber_trace_stop(), -ENOSPC);
    EXPECT_EQ(trace_stats().error, -ENOSPC);
    EXPECT_EQ(trace_stats().bytes, 0u);
}

TEST(Trace, EndsAtAPipeWithoutAReaderAndRaisesNoSignal) {
    Pipe pipe;
    const fiber_trace_t options = to(pipe.write_end);
    ASSERT_EQ(fiber_trace_start(&options, sizeof options), 0);
    ::close(pipe.read_end);
    pipe.read_end = -1;
    struct sigaction before, now = {};
    now.sa_handler = SIG_DFL; // SIGPIPE would end the test
    ::sigaction(SIGPIPE, &now, &before);
    make_events();
    EXPECT_EQ(fiber_trace_stop(), -EPIPE);
    ::sigaction(SIGPIPE, &before, nullptr);
}

TEST(Trace, DoesNotWaitForEverForAReader) {
    Pipe pipe;
    ::fcntl(pipe.write_end, F_SETPIPE_SZ, 4096);
    const fiber_trace_t options = to(pipe.write_end);
    ASSERT_EQ(fiber_trace_start(&options, sizeof options), 0);
    for (int i = 0; i < 100; i++) make_events();
    EXPECT_EQ(fiber_trace_stop(), -ETIMEDOUT);
}

TEST(Trace, IsTheParentsAtAFork) {
    Tracing tracing;
    make_events();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        EXPECT_EQ(trace_stats().running, 0);
        EXPECT_EQ(fiber_trace_stop(), -ESRCH);
        EXPECT_EQ(fiber_trace_begin("nothing"), 0);
        if (!under_qemu()) { // which ends a forked process that makes a thread
            Tracing own;
            auto body = [] {
                set_name("child");
                EXPECT_EQ(fiber_sleep(FIBER_USEC(1)), 0);
            };
            run(body);
            EXPECT_EQ(File::named(own.stop().of("child #"), "sleeps").size(), 1u);
        }
        ::_exit(testing::Test::HasFailure());
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    make_events();
    const File file = tracing.stop();
    EXPECT_TRUE(file.of("child #").empty());
    EXPECT_FALSE(file.slices.empty());
}

} // namespace
