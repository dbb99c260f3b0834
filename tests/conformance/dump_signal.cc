// SPDX-License-Identifier: MIT OR Apache-2.0
// Dumps by a signal, the frames of fibers that run, and the records of where fibers were created.
#include "conformance.h"
#include "cord_support.h"
#include "dumps.h"

#include <csignal>
#include <poll.h>
#include <sys/wait.h>

#include <array>
#include <string>
#include <vector>

using namespace support;

namespace {

#define NEEDS_A_DUMPER() NOT_ON_SIM("has one thread, and none of the library's")

const int dump_signal = SIGRTMIN + 3, ask_signal = SIGRTMIN + 4;

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// Reads from a pipe, without a fiber's calls, until the text has this part.
std::string read_until(int fd, const std::string &part) {
    std::string text;
    while (!has(text, part)) {
        pollfd ready = {fd, POLLIN, 0};
        std::array<char, 4096> some{};
        if (::poll(&ready, 1, 60000) != 1) {
            ADD_FAILURE() << "waited in vain for " << part << " after " << text;
            break;
        }
        const ssize_t got = ::read(fd, some.data(), some.size());
        if (got <= 0) break;
        text.append(some.data(), size_t(got));
    }
    return text;
}

// A cord whose fiber keeps its thread until `done`.
class Hog {
public:
    explicit Hog(bool blocks_signals = false) : blocks_(blocks_signals), cord_(start_cord(body_)) {
        while (!runs_) sched_yield();
    }
    ~Hog() {
        done_ = true;
        join_cord(cord_);
    }
    fiber_t fiber() const { return fiber_; }

private:
    [[gnu::noinline]] static void keeps_its_thread(std::atomic<bool> &runs, const std::atomic<bool> &done) {
        runs = true;
        while (!done) continue;
        asm volatile("" : : : "memory"); // no tail call
    }
    std::atomic<bool> runs_{false}, done_{false};
    bool blocks_;
    fiber_t fiber_{};
    std::function<void()> hogs_ = [this] {
        sigset_t all;
        ::sigfillset(&all);
        if (blocks_) ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
        keeps_its_thread(runs_, done_);
    };
    std::function<void()> body_ = [this] {
        fiber_ = spawn(hogs_);
        join(fiber_);
    };
    fiber_cord_t cord_;
};

} // namespace

TEST(DumpSignal, WritesADumpThoughEachCordIsStuck) {
    NEEDS_A_DUMPER();
    Pipe pipe;
    ASSERT_EQ(fiber_dump_on_signal(dump_signal, pipe.write_end, FIBER_DUMP_FRAMES), 0);
    self(); // this thread has a cord, too, and is stuck in the read
    {
        Hog hog;
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(::kill(::getpid(), dump_signal), 0);
            const std::string text = read_until(pipe.read_end, "fiber " + hex(hog.fiber().id));
            EXPECT_TRUE(text.starts_with("fiberrt ") || i > 0) << text;
        }
    }
    EXPECT_EQ(fiber_dump_on_signal(0, -1, 0), 0);
    EXPECT_EQ(fiber_dump_on_signal(0, -1, 0), 0); // there is none
}

TEST(DumpSignal, IsReplacedByALaterCall) {
    NEEDS_A_DUMPER();
    Pipe text, json;
    ASSERT_EQ(fiber_dump_on_signal(dump_signal, text.write_end, 0), 0);
    ASSERT_EQ(fiber_dump_on_signal(ask_signal, json.write_end, FIBER_DUMP_JSON), 0);
    struct sigaction now = {};
    ASSERT_EQ(::sigaction(dump_signal, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
    ASSERT_EQ(::kill(::getpid(), ask_signal), 0);
    EXPECT_TRUE(read_until(json.read_end, "\n").starts_with("{\"fiberrt\":"));
    EXPECT_EQ(fiber_dump_on_signal(0, -1, 0), 0);
    pollfd ready = {text.read_end, POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

// The call that ends the dumps waits for the dump that a signal has asked for, also if it has not begun.
TEST(DumpSignal, WritesTheDumpAskedForBeforeItEnds) {
    NEEDS_A_DUMPER();
    for (int round = 0; round < 20; round++) {
        Descriptor file(::memfd_create("dump", MFD_CLOEXEC));
        ASSERT_EQ(fiber_dump_on_signal(dump_signal, file, 0), 0);
        ASSERT_EQ(::raise(dump_signal), 0);
        ASSERT_EQ(fiber_dump_on_signal(0, -1, 0), 0);
        ASSERT_GT(::lseek(file, 0, SEEK_END), 0) << "in round " << round;
    }
}

TEST(DumpSignal, ReturnsErrors) {
    NEEDS_A_DUMPER();
    EXPECT_EQ(fiber_dump_on_signal(-1, 2, 0), -EINVAL);
    EXPECT_EQ(fiber_dump_on_signal(SIGRTMAX + 1, 2, 0), -EINVAL);
    EXPECT_EQ(fiber_dump_on_signal(SIGSEGV, 2, 0), -EINVAL);
    EXPECT_EQ(fiber_dump_on_signal(SIGKILL, 2, 0), -EINVAL);
    EXPECT_EQ(fiber_dump_on_signal(dump_signal, 2, 8), -EINVAL);
    EXPECT_EQ(fiber_dump_running_signal(-1), -EINVAL);
    EXPECT_EQ(fiber_dump_running_signal(SIGRTMAX + 1), -EINVAL);
    EXPECT_EQ(fiber_dump_running_signal(SIGSEGV), -EINVAL);
    EXPECT_EQ(fiber_dump_running_signal(SIGKILL), -EINVAL);
    auto handler = +[](int) {};
    ASSERT_NE(::signal(dump_signal, handler), SIG_ERR);
    EXPECT_EQ(fiber_dump_on_signal(dump_signal, 2, 0), -EBUSY);
    EXPECT_EQ(fiber_dump_running_signal(dump_signal), -EBUSY);
    ASSERT_EQ(::signal(dump_signal, SIG_DFL), handler); // it has stayed
    ASSERT_EQ(fiber_dump_on_signal(dump_signal, 2, 0), 0);
    ASSERT_EQ(fiber_dump_running_signal(ask_signal), 0);
    ASSERT_NE(::signal(dump_signal, handler), SIG_ERR);
    ASSERT_NE(::signal(ask_signal, handler), SIG_ERR);
    EXPECT_EQ(fiber_dump_on_signal(0, 2, 0), -EBUSY); // the program's handler stays
    EXPECT_EQ(fiber_dump_running_signal(0), -EBUSY);
    ASSERT_EQ(::signal(dump_signal, SIG_DFL), handler);
    ASSERT_EQ(::signal(ask_signal, SIG_DFL), handler);
    EXPECT_EQ(fiber_dump_on_signal(dump_signal, 2, 0), 0);
    EXPECT_EQ(fiber_dump_running_signal(ask_signal), 0);
    EXPECT_EQ(fiber_dump_on_signal(0, 2, 0), 0);
    EXPECT_EQ(fiber_dump_running_signal(0), 0);
}

TEST(DumpSignal, IsRefusedInASimulation) {
    if (!simulated()) GTEST_SKIP() << "this is about the simulation";
    EXPECT_EQ(fiber_dump_on_signal(dump_signal, 2, 0), -ENOTSUP);
    EXPECT_EQ(fiber_dump_running_signal(ask_signal), -ENOTSUP);
}

TEST(DumpSignal, TheChildOfAForkHasNone) {
    NEEDS_A_DUMPER();
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer does not know children of processes with threads";
    Pipe pipe;
    ASSERT_EQ(fiber_dump_on_signal(dump_signal, pipe.write_end, 0), 0);
    ASSERT_EQ(fiber_dump_running_signal(ask_signal), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        struct sigaction of_dumps = {}, of_questions = {};
        ::sigaction(dump_signal, nullptr, &of_dumps);
        ::sigaction(ask_signal, nullptr, &of_questions);
        if (of_dumps.sa_handler != SIG_DFL || of_questions.sa_handler != SIG_DFL) ::_exit(1);
        if (fiber_dump_on_signal(dump_signal, pipe.write_end, 0) != 0) ::_exit(2);
        ::kill(::getpid(), dump_signal);
        for (;;) ::pause(); // the parent ends it when the dump has come
    }
    read_until(pipe.read_end, "fiberrt ");
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    EXPECT_EQ(fiber_dump_on_signal(0, -1, 0), 0);
    EXPECT_EQ(fiber_dump_running_signal(0), 0);
}

TEST(DumpSignal, CutsADumpThatNoProcessReads) {
    NEEDS_A_DUMPER();
    ASSERT_EQ(fiber_reschedule(), 0); // opens the cord that the dump tells of
    Pipe full, good;
    ASSERT_EQ(::fcntl(full.write_end, F_SETFL, O_NONBLOCK), 0);
    std::array<char, 4096> some{};
    while (::write(full.write_end, some.data(), some.size()) > 0) continue;
    ASSERT_EQ(fiber_dump_on_signal(dump_signal, full.write_end, 0), 0);
    ASSERT_EQ(::kill(::getpid(), dump_signal), 0);
    ASSERT_EQ(fiber_dump_on_signal(dump_signal, good.write_end, 0), 0); // waits for the dump under way
    ASSERT_EQ(::kill(::getpid(), dump_signal), 0);
    read_until(good.read_end, "main flow: running");
    EXPECT_EQ(fiber_dump_on_signal(0, -1, 0), 0);
}

TEST(DumpRunning, TellsTheFramesOfAFiberThatRuns) {
    NEEDS_A_DUMPER();
    Hog early;
    ASSERT_EQ(fiber_dump_running_signal(ask_signal), 0);
    {
        Hog hog;
        std::string text = dumped(FIBER_DUMP_GROUPED);
        EXPECT_TRUE(has(text, "keeps_its_thread")) << text;
        text = dumped(FIBER_DUMP_FRAMES);
        const std::string of_hog = text.substr(text.find("\nfiber " + hex(hog.fiber().id)) + 1);
        EXPECT_TRUE(has(of_hog.substr(0, of_hog.find("\nfiber ")), "keeps_its_thread")) << text;
        // This one's cord was opened before the call, so it has no stack for the handler.
        EXPECT_TRUE(has(text, "no frames: its thread has no signal stack, or a small one")) << text;
        text = dumped(FIBER_DUMP_FRAMES | FIBER_DUMP_JSON);
        EXPECT_TRUE(has(text, "\"frames_missing\":\"its thread has no signal stack")) << text;
    }
    EXPECT_EQ(fiber_dump_running_signal(0), 0);
    Hog hog;
    EXPECT_FALSE(has(dumped(FIBER_DUMP_FRAMES), "keeps_its_thread"));
}

TEST(DumpRunning, SaysThatAThreadDoesNotAnswer) {
    NEEDS_A_DUMPER();
    ASSERT_EQ(fiber_dump_running_signal(ask_signal), 0);
    {
        Hog deaf(true);
        const std::string text = dumped(FIBER_DUMP_FRAMES);
        EXPECT_TRUE(has(text, "no frames: its thread does not answer")) << text;
        EXPECT_EQ(fiber_dump_running_signal(0), 0); // the signal is still pending there, and does no harm
    }
}

TEST(DumpRunning, WhileFibersTakeTurns) {
    NEEDS_A_DUMPER();
    ASSERT_EQ(fiber_dump_running_signal(ask_signal), 0);
    std::atomic<bool> done{false};
    auto takes_turns = [&] {
        while (!done) EXPECT_EQ(fiber_reschedule(), 0);
    };
    auto body = [&] {
        fiber_t first = spawn(takes_turns), second = spawn(takes_turns);
        join(first);
        join(second);
    };
    fiber_cord_t cord = start_cord(body), other = start_cord(body);
    for (unsigned round = 0; round < 60; round++) EXPECT_FALSE(dumped(FIBER_DUMP_FRAMES | (round % 8)).empty());
    done = true;
    join_cord(cord);
    join_cord(other);
    EXPECT_EQ(fiber_dump_running_signal(0), 0);
}

namespace {

[[gnu::noinline]] fiber_t creates_one(std::function<void()> &body) {
    fiber_t fiber = spawn(body);
    asm volatile("" : : : "memory"); // no tail call
    return fiber;
}

} // namespace

TEST(Creation, IsRecordedWhenAsked) {
    std::function<void()> sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
    fiber_t before = creates_one(sleeps), of_old{};
    std::atomic<bool> opened{false}, on{false};
    auto waits_and_creates = [&] {
        fiber_t early = creates_one(sleeps);
        opened = true;
        await([&] { return on.load(); });
        EXPECT_EQ(fiber_sleep(FIBER_USEC(1)), 0); // the cord polls, and follows
        of_old = creates_one(sleeps);
        for (fiber_t fiber : {early, of_old}) EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        EXPECT_EQ(info(early).created_at, 0u);
        EXPECT_NE(info(of_old).created_at, 0u);
        for (fiber_t fiber : {early, of_old}) join(fiber);
    };
    fiber_cord_t old_cord = start_cord(waits_and_creates); // it has a place for a further fiber by now
    await([&] { return opened.load(); });
    ASSERT_EQ(expect_memory(fiber_record_creation(1)), 0);
    on = true;
    join_cord(old_cord);
    fiber_t during{}, inner{}, elsewhere{}, of_other{};
    std::function<void()> creates = [&] { inner = creates_one(sleeps); };
    during = creates_one(creates);
    join(during);
    EXPECT_EQ(info(inner).created_by, during.id);
    const fiber_t first = creates_one(sleeps);
    EXPECT_EQ(info(first).created_by, self().id);
    EXPECT_NE(info(first).created_at, 0u);
    EXPECT_EQ(info(first).created_at, info(inner).created_at);
    // A cord that is opened later, and a fiber that is made for it.
    std::atomic<bool> ready{false}, done{false};
    auto body = [&] {
        of_other = creates_one(sleeps);
        ready = true;
        await([&] { return done.load(); });
        EXPECT_EQ(fiber_cancel(of_other, nullptr), 0);
        join(of_other);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return ready.load(); });
    EXPECT_EQ(info(of_other).created_at, info(first).created_at);
    EXPECT_NE(info(of_other).created_by, 0u);
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    ASSERT_EQ(fiber_attr_set_cord(attr, cord), 0);
    ASSERT_EQ(expect_memory(fiber_spawn_attr(&elsewhere, attr, entry<std::function<void()>>, &sleeps)), 0);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    EXPECT_EQ(info(elsewhere).created_by, self().id);
    const std::string text = dumped(0);
    EXPECT_TRUE(has(text, "; created at ")) << text;
    EXPECT_TRUE(has(text, " by fiber " + hex(during.id) + "\n")) << text;
    EXPECT_EQ(info(before).created_at, 0u);
    EXPECT_EQ(info(before).created_by, 0u);
    EXPECT_EQ(fiber_record_creation(0), 0);
    EXPECT_EQ(fiber_record_creation(0), 0);
    const fiber_t after = creates_one(sleeps);
    EXPECT_EQ(info(after).created_at, 0u);
    EXPECT_EQ(info(first).created_by, self().id); // its record stays
    for (fiber_t fiber : {before, first, inner, after, elsewhere}) {
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
    }
    done = true;
    join_cord(cord);
}
