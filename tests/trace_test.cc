// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of traces, each by itself; and the traces of programs that end in several ways (trace_subject.c).
#include "core/handles.h"
#include "trace/file_name.h"
#include "trace/names.h"
#include "trace/out.h"
#include "trace/packets.h"
#include "trace/ring.h"
#include "trace/story.h"

#include "subprocess.h"
#include "trace_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace fiberrt::trace;
using fiberrt_test::Process;
using File = trace_reader::Trace;

namespace {

// ---- the ring

std::atomic<uint64_t> half_full_calls;
void half_full() { half_full_calls++; }

Event numbered(uint64_t number) { return {number, number, ~number, int32_t(number), What::runs, 0, 0, 0}; }

// Takes all events that are there, and adds them up.
struct Taken {
    uint64_t events = 0, dropped = 0, last = 0, wrong = 0;
    void take_all(Ring &ring) {
        ring.look();
        while (ring.has_event()) {
            char text[text_most + 1];
            const Event event = ring.take(text);
            if (event.what == What::dropped) {
                dropped += event.object;
                continue;
            }
            wrong += event.subject <= last || (event.what == What::runs && event.object != ~event.subject);
            if (event.what == What::named) {
                const std::string expected(event.subject % (text_most + 1), char('a' + event.subject % 26));
                wrong += expected != text;
            }
            last = event.subject;
            events++;
        }
        ring.give_back();
    }
};

TEST(Ring, HandsOverEachEventOrCountsIt) {
    for (const uint32_t slots : {64u, 4096u}) {
        Ring *ring = Ring::make(slots, 1, half_full, false);
        ASSERT_NE(ring, nullptr);
        constexpr uint64_t count = 200'000;
        std::thread cord([&] {
            for (uint64_t i = 1; i <= count; i++) {
                if (i % 7 == 0) {
                    const std::string text(i % (text_most + 1), char('a' + i % 26));
                    ring->put({i, i, 0, 0, What::named, 0, 0, 0}, text.data(), text.size());
                } else {
                    ring->put(numbered(i));
                }
                if (i % 1000 == 0) std::this_thread::yield();
            }
            ring->close();
        });
        Taken taken;
        for (bool over = false; !over;) {
            over = ring->closed();
            taken.take_all(*ring);
        }
        cord.join();
        EXPECT_EQ(taken.wrong, 0u);
        EXPECT_EQ(taken.events + ring->dropped(), count);
        EXPECT_LE(taken.dropped, ring->dropped()); // the last ones may not be told of yet
        ring->leave();
        ring->leave();
    }
}

TEST(Ring, TellsHowManyEventsItDroppedOnceThereIsRoom) {
    Ring *ring = Ring::make(64, 1, half_full, false);
    ASSERT_NE(ring, nullptr);
    half_full_calls = 0;
    for (uint64_t i = 1; i <= 100; i++) ring->put(numbered(i));
    EXPECT_GT(half_full_calls, 0u);
    EXPECT_EQ(ring->dropped(), 36u);
    Taken taken;
    taken.take_all(*ring);
    EXPECT_EQ(taken.events, 64u);
    EXPECT_EQ(taken.dropped, 0u);
    ring->put(numbered(101));
    taken.take_all(*ring);
    EXPECT_EQ(taken.events, 65u);
    EXPECT_EQ(taken.dropped, 36u);
    ring->leave();
    ring->leave();
}

// ---- the file

struct Pair {
    Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); }
    ~Pair() {
        for (int end : ends) ::close(end);
    }
    int ends[2];
};

TEST(Out, DoesNotBlockInASocketThatHasRoomForAPart) {
    Pair pair;
    const int least = 1; // the kernel makes it some kilobytes
    ASSERT_EQ(::setsockopt(pair.ends[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    const std::vector<uint8_t> bytes(1 << 18);
    Out out;
    out.open(::dup(pair.ends[0]));
    out.hurry(1);
    std::atomic<bool> over{false};
    std::thread guard([&] { // ends a write that blocks; then it fails with -EPIPE
        for (int i = 0; i < 2000 && !over; i++) ::usleep(10'000);
        ::shutdown(pair.ends[1], SHUT_RDWR);
    });
    out.write(bytes.data(), 1); // now the socket has room, but not for a whole piece
    out.write(bytes.data(), bytes.size());
    EXPECT_EQ(out.error(), -ETIMEDOUT);
    EXPECT_GT(out.written(), 0u);
    over = true;
    guard.join();
    out.close();
}

std::atomic<int> alarms;

TEST(Out, SignalsDoNotShortenTheWaitForAReader) {
    Pair pair;
    struct sigaction before, action = {};
    action.sa_handler = [](int) { alarms++; };
    ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGALRM);
    const std::vector<uint8_t> bytes(1 << 20); // more than the socket takes
    ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
    std::atomic<bool> over{false};
    std::thread reader([&] {
        while (alarms < 300 && !over) std::this_thread::yield(); // each interrupts the writer's wait
        std::vector<uint8_t> part(1 << 16);
        for (size_t all = 0; all < bytes.size();) {
            const ssize_t got = ::read(pair.ends[1], part.data(), part.size());
            if (got <= 0) break;
            all += size_t(got);
        }
    });
    ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    const itimerval often = {{0, 1000}, {0, 1000}}, never = {};
    Out out;
    out.open(::dup(pair.ends[0]));
    out.hurry(20'000'000'000); // the waits of 200 looks
    alarms = 0;
    ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
    out.write(bytes.data(), bytes.size());
    ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
    EXPECT_EQ(out.error(), 0);
    EXPECT_EQ(out.written(), bytes.size());
    out.close();
    over = true;
    ::shutdown(pair.ends[0], SHUT_RDWR); // if the write has failed, the reader waits for more
    reader.join();
    ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
}

// ---- names

TEST(Names, MakesTextsUtf8) {
    const auto clean = [](const std::string &text, size_t most = 100) {
        std::string out(most, '\0');
        out.resize(clean_text(out.data(), most, text.data(), text.size()));
        return out;
    };
    EXPECT_EQ(clean("plain"), "plain");
    EXPECT_EQ(clean("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    EXPECT_EQ(clean("a\xff"
                    "b\n\x7f"),
              "a?b??");
    EXPECT_EQ(clean("\xc0\x80"), "??");           // overlong
    EXPECT_EQ(clean("\xed\xa0\x80"), "???");      // a surrogate
    EXPECT_EQ(clean("\xf4\x90\x80\x80"), "????"); // beyond the last character
    EXPECT_EQ(clean("\xe2\x82"), "??");           // cut off
    EXPECT_EQ(clean("ab\xe2\x82\xac", 4), "ab");  // no room for the whole character
    EXPECT_EQ(clean("abcd", 2), "ab");
}

TEST(Names, ReplacesTheNumberOfTheProcess) {
    const std::string pid = std::to_string(::getpid());
    char name[32];
    EXPECT_EQ(file_name("a.%p.b%%", name, sizeof name), 0);
    EXPECT_EQ(std::string(name), "a." + pid + ".b%");
    EXPECT_EQ(file_name("%x%", name, sizeof name), 0);
    EXPECT_STREQ(name, "%x%");
    EXPECT_EQ(file_name(std::string(32, 'x').c_str(), name, sizeof name), -ENAMETOOLONG);
    EXPECT_EQ(file_name(std::string(31, 'x').c_str(), name, sizeof name), 0);
}

// ---- packets

std::string written(int fd) {
    std::string bytes;
    char part[1 << 16];
    for (ssize_t size; (size = ::pread(fd, part, sizeof part, off_t(bytes.size()))) > 0;)
        bytes.append(part, size_t(size));
    return bytes;
}

TEST(Packets, BeginNamesAnewWhenTheTableIsFull) {
    FILE *file = ::tmpfile();
    const auto packets = std::make_unique<Packets>();
    packets->open(::dup(::fileno(file)), {1000, 2000, 3000});
    packets->process(1, 42, "a process");
    packets->thread(2, 42, 43, "a thread");
    constexpr int count = 20'000; // more than twice the table's size
    for (int i = 0; i < count; i++) {
        const std::string name = "name " + std::to_string(i);
        const Note notes[] = {{NoteName::descriptor, Note::number, uint64_t(i), nullptr},
                              {NoteName::holder, Note::handle, 0x0123456789abcdef, nullptr},
                              {NoteName::name, Note::text, 0, "a text"}};
        packets->begin({2, 1000 + i, name.data(), name.size(), notes, 3, nullptr, 0, 0});
        packets->end(2, 1000 + i);
    }
    packets->counter(3, 1, "a counter");
    packets->value(3, 5000, -7);
    packets->close();
    EXPECT_EQ(packets->out().error(), 0);
    const std::string bytes = written(::fileno(file));
    EXPECT_EQ(packets->out().written(), bytes.size());
    const File trace(bytes);
    for (const std::string &error : trace.errors) ADD_FAILURE() << error;
    EXPECT_EQ(trace.clocks.at(3), 1000);
    EXPECT_EQ(trace.clocks.at(6), 2000);
    EXPECT_EQ(trace.clocks.at(1), 3000);
    ASSERT_EQ(trace.slices.size(), size_t(count));
    for (int i = 0; i < count; i++) {
        ASSERT_EQ(trace.slices[i].name, "name " + std::to_string(i));
        ASSERT_EQ(trace.slices[i].notes.at("descriptor"), std::to_string(i));
    }
    EXPECT_EQ(trace.slices[0].notes.at("holder"), "0x0123456789abcdef");
    EXPECT_EQ(trace.slices[0].notes.at("name"), "a text");
    EXPECT_EQ(trace.tracks.at(2).tid, 43);
    EXPECT_EQ(trace.counter("a counter")->values.at(0).second, -7);
    ::fclose(file);
}

TEST(Packets, HaveRoomForTheLargestSlice) {
    FILE *file = ::tmpfile();
    const auto packets = std::make_unique<Packets>();
    packets->open(::dup(::fileno(file)), {});
    packets->track(9, 0, std::string(300, 't').c_str());
    std::vector<uint64_t> flows;
    for (uint64_t i = 0; i < Packets::flows_most; i++) flows.push_back(UINT64_MAX - i);
    const std::string text(255, 'x');
    const Note notes[] = {{NoteName::name, Note::text, 0, text.c_str()},
                          {NoteName::object, Note::pointer, UINT64_MAX, nullptr},
                          {NoteName::dropped, Note::number, UINT64_MAX, nullptr}};
    for (int64_t i = 0; i < 1000; i++) {
        packets->begin({9, INT64_MAX - 1000 + i, text.data(), text.size(), notes, 3, i ? nullptr : flows.data(),
                        i ? 0 : flows.size(), 0});
    }
    packets->close();
    const File trace(written(::fileno(file)));
    for (const std::string &error : trace.errors) ADD_FAILURE() << error;
    ASSERT_EQ(trace.slices.size(), 1000u);
    EXPECT_EQ(trace.slices[0].flows, flows);
    EXPECT_EQ(trace.slices[999].depth, 999u);
    EXPECT_EQ(trace.slices[0].notes.at("object"), std::to_string(UINT64_MAX));
    ::fclose(file);
}

// ---- the story

TEST(Story, ACordThatHasToldNothingEndsNoOthersSlices) {
    FILE *file = ::tmpfile();
    const auto story = std::make_unique<Story>();
    story->open(::dup(::fileno(file)), {}, true);
    const uint64_t first_cord = fiberrt::make_id(fiberrt::Tag::cord, 0, 1);
    const uint64_t fiber = fiberrt::make_id(fiberrt::Tag::fiber, 0, 1);
    KnownCord cord = {}, silent = {};
    story->take(cord, {0, first_cord, 0, 1, What::cord, 0, 0, 0}, 100, "first");
    story->take(cord, {0, fiber, 0, 0, What::runs, 0, 0, 0}, 200, "");
    story->finish(silent, 0);
    story->finish(cord, 0);
    story->close();
    const File trace(written(::fileno(file)));
    for (const std::string &error : trace.errors) ADD_FAILURE() << error;
    EXPECT_EQ(File::named(trace.slices, "runs").size(), 1u);
    ::fclose(file);
}

TEST(Story, TimesOfACordDoNotGoBack) {
    FILE *file = ::tmpfile();
    const auto story = std::make_unique<Story>();
    story->open(::dup(::fileno(file)), {}, true);
    const uint64_t first_cord = fiberrt::make_id(fiberrt::Tag::cord, 0, 1);
    const uint64_t fiber = fiberrt::make_id(fiberrt::Tag::fiber, 0, 1);
    KnownCord cord = {};
    story->take(cord, {0, first_cord, 0, 1, What::cord, 0, 0, 0}, 100, "first");
    story->take(cord, {0, fiber, 0, 0, What::runnable, 0, 0, 0}, 203, "");
    story->take(cord, {0, fiber, 0, 0, What::runs, 0, 0, 0}, 200, ""); // by another processor's counter
    story->take(cord, {0, fiber, 0, -1, What::parks, uint8_t(fiberrt::State::yielding), 0, 0}, 300, "");
    story->finish(cord, 0);
    story->close();
    const File trace(written(::fileno(file)));
    for (const std::string &error : trace.errors) ADD_FAILURE() << error;
    const std::vector<trace_reader::Slice> runs = File::named(trace.slices, "runs");
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].begin, 203);
    EXPECT_EQ(runs[0].end, 300);
    ::fclose(file);
}

// ---- programs

class Programs : public testing::Test {
protected:
    Programs() {
        std::string name = testing::TempDir() + "fiberrt-trace-XXXXXX";
        ::close(::mkstemp(name.data()));
        path_ = name;
    }
    ~Programs() override { ::unlink(path_.c_str()); }

    // Runs the subject with these variables, and returns its status.
    int run(const std::string &how, const std::vector<std::string> &variables = {}, std::string *errors = nullptr) {
        Process subject({FIBERRT_TRACE_SUBJECT, how}, [&] {
            ::setenv("FIBERRT_TRACE", path_.c_str(), 1);
            for (const std::string &variable : variables) ::putenv(const_cast<char *>(variable.c_str()));
        });
        const std::string told = subject.ReadErrors();
        if (errors) *errors = told;
        return subject.Wait();
    }
    // The trace, which has to be whole, with the slices of the subject.
    File whole_trace() {
        File trace = File::of_file(path_);
        for (const std::string &error : trace.errors) ADD_FAILURE() << error;
        EXPECT_EQ(File::named(trace.slices, "work").size(), 20u);
        EXPECT_EQ(File::named(trace.of("one #"), "sleeps").size(), 20u);
        EXPECT_EQ(File::named(trace.of("other #"), "sleeps").size(), 20u);
        return trace;
    }
    std::string bytes() const {
        const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
        const std::string all = written(fd);
        ::close(fd);
        return all;
    }

    std::string path_;
};

TEST_F(Programs, EndTheTraceAtAReturnFromMainAndAtExit) {
    for (const char *how : {"return", "exit"}) {
        EXPECT_EQ(run(how), 0) << how;
        whole_trace();
    }
}

TEST_F(Programs, HaveNoSecondEndByAForkedChild) {
    EXPECT_EQ(run("child"), 0);
    const File trace = whole_trace();
    size_t processes = 0;
    for (const auto &[uuid, track] : trace.tracks) processes += track.kind == trace_reader::Track::process;
    EXPECT_EQ(processes, 1u);
}

TEST_F(Programs, MayHaveLongNamesOfAnyBytes) {
    EXPECT_EQ(run("renamed"), 0);
    const File trace = whole_trace();
    std::string name;
    for (const auto &[uuid, track] : trace.tracks) {
        if (track.kind == trace_reader::Track::process) name = track.name;
    }
    EXPECT_EQ(name, '?' + std::string(text_most - 1, 'n'));
}

TEST_F(Programs, LeaveTheLargestPartWhenTheyAreKilled) {
    EXPECT_EQ(run("_exit"), 0);
    whole_trace();
    EXPECT_NE(run("abort"), 0);
    whole_trace();
}

TEST_F(Programs, RunWithoutATraceThatCannotBeWritten) {
    ::unlink(path_.c_str());
    path_ = "/nowhere/trace";
    std::string errors;
    EXPECT_EQ(run("return", {}, &errors), 0);
    EXPECT_EQ(errors, "fiberrt: FIBERRT_TRACE: cannot write /nowhere/trace: No such file or directory\n");
}

TEST_F(Programs, MakeTheSameTraceOfTheSameSeed) {
    std::string one, again, other;
    ASSERT_EQ(run("return", {"FIBERRT_BACKEND=sim", "FIBERRT_SEED=7"}), 0);
    whole_trace();
    one = bytes();
    ASSERT_EQ(run("return", {"FIBERRT_BACKEND=sim", "FIBERRT_SEED=7"}), 0);
    again = bytes();
    ASSERT_EQ(run("return", {"FIBERRT_BACKEND=sim", "FIBERRT_SEED=8"}), 0);
    other = bytes();
    EXPECT_TRUE(one == again);
    EXPECT_FALSE(one == other);
}

} // namespace
