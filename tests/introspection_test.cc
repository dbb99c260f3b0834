// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_dump: its text for each state that a fiber can be in, for other cords while they run, and how it writes.
#include "cord_support.h"
#include "io_support.h"

#include <atomic>
#include <cinttypes>
#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <vector>

using namespace support;

namespace {

std::string hex(uint64_t id) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%016" PRIx64, id);
    return text;
}

// A file in memory, and the text written to it.
class Sink {
public:
    Sink() : fd_(::memfd_create("dump", MFD_CLOEXEC)) { EXPECT_GE(fd_, 0); }
    int fd() const { return fd_; }
    std::string text() const {
        std::string all(static_cast<size_t>(::lseek(fd_, 0, SEEK_END)), '\0');
        EXPECT_EQ(::pread(fd_, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
        return all;
    }

private:
    Descriptor fd_;
};

std::string dump() {
    Sink sink;
    const uint64_t switches = stats().switches;
    EXPECT_EQ(fiber_dump(sink.fd()), 0);
    EXPECT_EQ(stats().switches, switches);
    return sink.text();
}

// The line that begins with this text, without its newline; empty if there is none, or more than one.
std::string line_of(const std::string &text, const std::string &begin) {
    std::string found;
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
        end = text.find('\n', at);
        if (end == std::string::npos) {
            ADD_FAILURE() << "the last line has no end";
            break;
        }
        if (text.compare(at, begin.size(), begin) != 0) continue;
        if (!found.empty()) return "";
        found = text.substr(at, end - at);
    }
    return found;
}
std::string line_of(const std::string &text, fiber_t fiber) { return line_of(text, "fiber " + hex(fiber.id)); }

bool has(const std::string &line, const std::string &part) { return line.find(part) != std::string::npos; }

// The seconds before " s left" that follow a text; -1 if they do not.
double left_after(const std::string &line, const std::string &what) {
    const size_t at = line.find(what);
    double seconds = -1;
    if (at == std::string::npos || std::sscanf(line.c_str() + at + what.size(), "%lf s left", &seconds) != 1) return -1;
    return seconds;
}

#define EXPECT_HAS(line, part) EXPECT_TRUE(has(line, part)) << (line)
#define EXPECT_HAS_NOT(line, part) EXPECT_FALSE(has(line, part)) << (line)

#define ASSERT_HAS(line, part) ASSERT_TRUE(has(line, part)) << (line)

// Ends fibers that would wait for long.
void finish(const std::vector<fiber_t> &fibers) {
    for (fiber_t fiber : fibers) EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    for (fiber_t fiber : fibers) EXPECT_EQ(fiber_join(fiber, nullptr), 0);
}

// The dump of the backend, which a process chooses at its first operation; each time in a fresh process. First of the
// tests of this file: it forks a process that has neither threads nor a cord yet.
void dump_of_backend(const char *wish, std::string &before, std::string &after, int64_t &answer) {
    std::fflush(nullptr);
    Sink first, second;
    Pipe pipe;
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        wish ? ::setenv("FIBERRT_BACKEND", wish, 1) : ::unsetenv("FIBERRT_BACKEND");
        char byte = 0;
        const int dumped = fiber_dump(first.fd());
        int result = -1;
        auto reads = [&] { result = int(fiber_write(pipe.write_end, &byte, 1)); };
        run(reads);
        ::_exit(dumped == 0 && fiber_dump(second.fd()) == 0 ? (result < 0 ? -result : 200) : 255);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 255);
    answer = WEXITSTATUS(status) == 200 ? 1 : -WEXITSTATUS(status);
    before = first.text();
    after = second.text();
}

TEST(Dump, ReportsTheBackendsError) {
    NEEDS_IO();
    std::string before, after;
    int64_t answer = 0;
    dump_of_backend("nonsense", before, after, answer);
    EXPECT_EQ(answer, -EINVAL);
    for (const std::string &text : {before, after}) {
        EXPECT_NE(line_of(text, "There is no backend: FIBERRT_BACKEND is \"nonsense\","), "") << text;
        EXPECT_HAS(text, "backend of this thread: none yet\n");
    }
    dump_of_backend("non\nsense", before, after, answer);
    EXPECT_NE(line_of(after, "There is no backend: FIBERRT_BACKEND is \"non?sense\","), "") << after;
    dump_of_backend(nullptr, before, after, answer);
    EXPECT_EQ(answer, 1);
    EXPECT_NE(line_of(before, "No backend has been opened yet."), "") << before;
    const std::string of_thread = line_of(after, "backend of this thread: ");
    const std::string name = of_thread.substr(24, of_thread.find(',') - 24);
    EXPECT_TRUE(name == "uring" || name == "ev") << of_thread;
    EXPECT_NE(line_of(after, "The backend is " + name), "") << after;
    // Asking for that one by its name.
    dump_of_backend(name.c_str(), before, after, answer);
    EXPECT_EQ(answer, 1);
    EXPECT_NE(line_of(before, "No backend has been opened yet; it will be " + name), "") << before;
    EXPECT_EQ(line_of(after, "The backend is "), "The backend is " + name + ", as FIBERRT_BACKEND says.");
}

TEST(Dump, BeginsWithTheVersionAndThisCord) {
    const std::string text = dump();
    const std::string version = std::to_string(FIBERRT_VERSION_MAJOR) + "." + std::to_string(FIBERRT_VERSION_MINOR) +
                                "." + std::to_string(FIBERRT_VERSION_PATCH) + "\n";
    EXPECT_EQ(text.substr(0, 8 + version.size()), "fiberrt " + version);
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_self(&cord), 0);
    EXPECT_EQ(line_of(text, "cord "), "cord " + hex(cord.id) + ", of this thread");
    EXPECT_EQ(line_of(text, self()), "fiber " + hex(self().id) + " of cord " + hex(cord.id) + ", main flow: running");
}

TEST(Dump, OpensNoCord) {
    Sink sink;
    in_thread([&] { EXPECT_EQ(fiber_dump(sink.fd()), 0); });
    EXPECT_HAS(sink.text(), "backend of this thread: none yet\n");
    EXPECT_HAS_NOT(sink.text(), ", of this thread");
}

TEST(Dump, ShowsEachState) {
    auto nothing = [] {};
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
    auto yields = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto yields_a_while = [] { EXPECT_EQ(fiber_yield_timeout(FIBER_SEC(500)), -ECANCELED); };
    fiber_t fresh = create(nothing), scheduled = spawn(nothing), ended = start(nothing);
    fiber_t sleeper = start(sleeps), yielder = start(yields), patient = start(yields_a_while);
    auto joins = [&] { EXPECT_EQ(fiber_join(sleeper, nullptr), -ECANCELED); };
    fiber_t joiner = start(joins);
    auto takes = [&] { EXPECT_EQ(fiber_yield(), -ECANCELED); };
    fiber_t taker = create(takes);
    auto transfers = [&] {
        void *out;
        EXPECT_EQ(fiber_transfer(taker, nullptr, &out), -ECANCELED);
    };
    fiber_t giver = start(transfers);
    const std::string text = dump();
    EXPECT_HAS(line_of(text, fresh), ": new");
    EXPECT_HAS_NOT(line_of(text, fresh), "stack");
    EXPECT_HAS(line_of(text, scheduled), ": runnable, for its first run");
    EXPECT_HAS(line_of(text, ended), ": ended, not joined");
    EXPECT_HAS_NOT(line_of(text, ended), "stack");
    const double left = left_after(line_of(text, sleeper), ": sleeps, ");
    EXPECT_LT(left, 1000);
    EXPECT_GT(left, 900);
    EXPECT_HAS(line_of(text, sleeper), "; stack of 256 KiB");
    EXPECT_HAS(line_of(text, yielder), ": waits for a wakeup;");
    const double patience = left_after(line_of(text, patient), ": waits for a wakeup, ");
    EXPECT_LT(patience, 500);
    EXPECT_GT(patience, 400);
    EXPECT_HAS(line_of(text, joiner), ": joins fiber " + hex(sleeper.id) + ";");
    EXPECT_HAS(line_of(text, giver), ": has transferred to " + hex(taker.id) + ";");
    EXPECT_EQ(fiber_wakeup(yielder), 0);
    EXPECT_HAS(line_of(dump(), yielder), ": runnable;");
    finish({fresh, sleeper, patient, giver, taker, joiner});
    join(yielder);
    join(scheduled);
    join(ended);
    EXPECT_EQ(line_of(dump(), ended), "");
}

TEST(Dump, ShowsFibersThatWaitForAStack) {
#if FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN
    GTEST_SKIP() << "a sanitizer's own address space is over any limit";
#else
    NOT_UNDER_QEMU("ignores limits on address space");
    auto yields = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t holder = start(yields); // while a stack is in use, one may become free
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, FIBER_STACK_MAX), 0);
    auto nothing = [] {};
    fiber_t waiter = create(nothing, attr);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    rlimit old{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &old), 0);
    const rlimit low = {1 << 30, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &low), 0);
    EXPECT_EQ(fiber_wakeup(waiter), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_HAS(line_of(dump(), waiter), ": waits for a stack, for its first run");
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &old), 0);
    finish({waiter});
    EXPECT_EQ(fiber_wakeup(holder), 0);
    join(holder);
#endif
}

TEST(Dump, ShowsEveryFactAboutAFiber) {
    auto in_a_shield = [] {
        fiber_scope_t outer, inner;
        EXPECT_EQ(fiber_scope_open(&outer, FIBER_SEC(300), 0), 0);
        EXPECT_EQ(fiber_scope_open(&inner, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        EXPECT_EQ(fiber_yield(), 0);
    };
    auto in_a_fired_scope = [] {
        fiber_scope_t scope;
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(fiber_sleep(FIBER_SEC(100)), -ETIMEDOUT);
        fiber_scope_t shield;
        EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        EXPECT_EQ(fiber_yield(), 0);
    };
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
    fiber_t shielded = start(in_a_shield), fired = start(in_a_fired_scope);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(10)), 0);
    EXPECT_EQ(fiber_set_name(shielded, "two\nlines"), 0);
    EXPECT_EQ(fiber_interrupt(shielded, nullptr), 0);
    EXPECT_EQ(fiber_cancel(shielded, nullptr), 0);
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_daemon(attr, 1), 0);
    EXPECT_EQ(fiber_attr_set_detached(attr, 1), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, 1 << 20), 0);
    EXPECT_EQ(fiber_attr_set_name(attr, "the daemon"), 0);
    fiber_t daemon = create(sleeps, attr);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    EXPECT_EQ(fiber_start(daemon), 0);
    EXPECT_EQ(fiber_wakeup(daemon), 0);

    const std::string text = dump();
    const std::string of_shielded = line_of(text, shielded);
    EXPECT_HAS(of_shielded, " \"two?lines\" of cord ");
    const double left = left_after(of_shielded, "; scope without a deadline, shielded; scope, ");
    EXPECT_LT(left, 300);
    EXPECT_GT(left, 200);
    EXPECT_HAS(of_shielded, "; cancelled; interrupted; stack of");
    EXPECT_HAS(line_of(text, fired), "; scope without a deadline, shielded; scope whose deadline has fired; stack of");
    EXPECT_HAS(line_of(text, daemon), " \"the daemon\" of cord ");
    EXPECT_HAS(line_of(text, daemon), "; a wakeup is remembered; detached; daemon; stack of 1024 KiB");

    EXPECT_EQ(fiber_wakeup(shielded), 0);
    EXPECT_EQ(fiber_wakeup(fired), 0);
    join(shielded);
    join(fired);
    EXPECT_EQ(fiber_cancel(daemon, nullptr), 0);
    EXPECT_EQ(fiber_sleep(0), 0);
}

TEST(Dump, ShowsTheOperationThatAFiberWaitsFor) {
    NEEDS_IO();
    Pipe pipe;
    auto polls = [&] { EXPECT_EQ(fiber_poll_fd(pipe.read_end, POLLIN), -EBADF); };
    fiber_t poller = start(polls);
    const std::string on = " on descriptor " + std::to_string(pipe.read_end);
    const std::string text = dump();
    EXPECT_HAS(line_of(text, poller), ": waits for poll of POLLIN" + on + ";");
    EXPECT_HAS_NOT(line_of(text, "backend of this thread: "), "none yet");
    auto closes = [&] { EXPECT_EQ(fiber_close(pipe.read_end), 0); };
    fiber_t closer = start(closes);
    EXPECT_HAS(line_of(dump(), closer), ": waits to close a descriptor that others use;");
    join(poller);
    join(closer);
    pipe.read_end = -1;
}

TEST(Dump, ShowsFibersThatWaitForATurn) {
    NEEDS_IO();
    Sink file;
    std::vector<char> all(16 << 20); // takes a while to read
    ASSERT_EQ(::ftruncate(file.fd(), static_cast<off_t>(all.size())), 0);
    auto reads = [&] { EXPECT_GE(fiber_read(file.fd(), all.data(), all.size()), 0); };
    std::string of_first, of_second;
    // A poll may come in between, and then the first one is done already.
    auto both = [&] { return has(of_first, "waits for read") && has(of_second, "its turn"); };
    for (int tries = 0; tries < 20 && !both(); ++tries) {
        ASSERT_EQ(::lseek(file.fd(), 0, SEEK_SET), 0);
        fiber_t first = start(reads), second = start(reads);
        const std::string text = dump();
        of_first = line_of(text, first);
        of_second = line_of(text, second);
        join(first);
        join(second);
    }
    EXPECT_HAS(of_first, ": waits for read on descriptor " + std::to_string(file.fd()) + ";");
    EXPECT_HAS(of_second, ": waits for its turn at the position of a file;");
}

TEST(DumpOfCords, ShowsTheWaitsOfOtherCords) {
    std::atomic<bool> done{false}, ready{false};
    fiber_t sleeper{}, joiner{}, cord_joiner{};
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
    auto body = [&] {
        sleeper = start(sleeps);
        ready = true;
        await([&] { return done.load(); });
        finish({sleeper});
    };
    fiber_cord_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_cord_attr_create(&attr), 0);
    EXPECT_EQ(fiber_cord_attr_set_name(attr, "the other"), 0);
    fiber_cord_t other = start_cord(body, attr);
    EXPECT_EQ(fiber_cord_attr_destroy(attr), 0);
    await([&] { return ready.load(); });
    auto joins = [&] { EXPECT_EQ(fiber_join(sleeper, nullptr), -ECANCELED); };
    auto joins_cord = [&] { EXPECT_EQ(fiber_cord_join(other, nullptr), -ECANCELED); };
    joiner = start(joins);
    cord_joiner = start(joins_cord);
    const std::string text = dump();
    EXPECT_EQ(line_of(text, "cord " + hex(other.id)), "cord " + hex(other.id) + " \"the other\"");
    const std::string of_cord = " of cord " + hex(other.id);
    EXPECT_HAS(line_of(text, sleeper), of_cord + ": sleeps, ");
    EXPECT_HAS(line_of(text, sleeper), " s left; stack of 256 KiB");
    EXPECT_HAS(line_of(text, joiner), ": joins fiber " + hex(sleeper.id) + ";");
    EXPECT_HAS(line_of(text, cord_joiner), ": joins cord " + hex(other.id) + ";");
    finish({joiner, cord_joiner});
    done = true;
    join_cord(other);
    EXPECT_EQ(line_of(dump(), "cord " + hex(other.id)), "");
}

TEST(DumpOfCords, ShowsACordThatIsShutDown) {
    std::string of_cord, of_shutter;
    auto body = [&] {
        auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
        fiber_t sleeper = start(sleeps);
        auto shuts = [] {
            EXPECT_EQ(fiber_cord_shutdown(this_cord_handle(), FIBER_SEC(100), FIBER_SEC(200)), -ECANCELED);
        };
        fiber_t shutter = start(shuts);
        const std::string text = dump();
        of_cord = line_of(text, "cord " + hex(this_cord_handle().id));
        of_shutter = line_of(text, shutter);
        finish({shutter, sleeper});
    };
    join_cord(start_cord(body));
    EXPECT_HAS(of_cord, ", of this thread, being shut down");
    EXPECT_HAS(of_shutter, ": waits for the end of other fibers of its cord, ");
}

TEST(DumpOfCords, ShowsACordThatHasEndedUntilItIsJoined) {
    auto nothing = [] {};
    fiber_cord_t cord = start_cord(nothing);
    const std::string begin = "cord " + hex(cord.id);
    await([&] { return line_of(dump(), begin) == begin + ", ended, not joined"; });
    join_cord(cord);
    EXPECT_EQ(line_of(dump(), begin), "");
}

TEST(Dump, AThousandFibersEachOnce) {
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 1000; ++i) fibers.push_back(start(sleeps));
    const std::string text = dump();
    for (fiber_t fiber : fibers) ASSERT_HAS(line_of(text, fiber), ": sleeps, ");
    finish(fibers);
}

// Cords that make and end fibers all the time: each line is whole, and none is of a fiber that its text does not fit.
TEST(DumpOfCords, WhileOtherCordsRun) {
    std::atomic<bool> done{false};
    std::atomic<int> made{0};
    auto churns = [&] {
        auto nothing = [&] { made++; };
        while (!done) {
            fiber_t fiber = create(nothing);
            EXPECT_EQ(fiber_set_name(fiber, "of the moment"), 0);
            EXPECT_EQ(fiber_wakeup(fiber), 0);
            join(fiber);
        }
    };
    auto starts = [&] {
        auto nothing = [] {};
        while (!done) join_cord(start_cord(nothing));
    };
    fiber_cord_t one = start_cord(churns), two = start_cord(starts);
    int lines = 0;
    for (int round = 0; round < 100 || (made < 1000 && round < 100000); ++round) {
        const std::string text = dump();
        for (size_t at = 0, end; at < text.size(); at = end + 1, ++lines) {
            end = text.find('\n', at);
            const std::string line = text.substr(at, end - at);
            ASSERT_TRUE(line.starts_with("fiber") || line.starts_with("cord 0x02") || line.starts_with("backend") ||
                        line.starts_with("No backend") || line.starts_with("The backend"))
                << line;
            if (!line.starts_with("fiber 0x")) continue;
            ASSERT_TRUE(line.starts_with("fiber 0x01") && has(line, " of cord 0x02") && has(line, ": ")) << line;
        }
    }
    done = true;
    join_cord(one);
    join_cord(two);
    EXPECT_GE(made.load(), 1000);
    EXPECT_GT(lines, 400);
}

TEST(Dump, ReturnsTheErrorOfTheWrite) {
    errno = 4711;
    EXPECT_EQ(fiber_dump(-1), -EBADF);
    Descriptor only_read(::open("/dev/null", O_RDONLY | O_CLOEXEC)), full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    errno = 4711;
    EXPECT_EQ(fiber_dump(only_read), -EBADF);
    EXPECT_EQ(fiber_dump(full), -ENOSPC);
    EXPECT_EQ(errno, 4711);
    Stream pair = make_stream(Kind::pipe);
    pair.reader.close();
    ::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(fiber_dump(pair.writer), -EPIPE);
    ::signal(SIGPIPE, SIG_DFL);
}

TEST(Dump, InANoSwitchSection) {
    Sink sink;
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_dump(sink.fd()), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_HAS(line_of(sink.text(), self()), ": running");
}

// A pipe that holds one page, with and without O_NONBLOCK, and a reader that takes a little at a time.
TEST(Dump, WritesAllInPiecesOfAnySize) {
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 300; ++i) fibers.push_back(start(sleeps));
    for (int flags : {0, O_NONBLOCK}) {
        Pipe pipe(O_CLOEXEC);
        ASSERT_EQ(::fcntl(pipe.write_end, F_SETFL, flags), 0);
        ASSERT_EQ(::fcntl(pipe.write_end, F_SETPIPE_SZ, 4096), 4096);
        std::string text;
        std::thread reader([&] {
            char part[777];
            for (ssize_t got; (got = ::read(pipe.read_end, part, sizeof part)) > 0;) {
                text.append(part, static_cast<size_t>(got));
                std::this_thread::yield();
            }
        });
        EXPECT_EQ(fiber_dump(pipe.write_end), 0);
        pipe.close_write();
        reader.join();
        EXPECT_GT(text.size(), 5 * 4096u);
        for (fiber_t fiber : fibers) ASSERT_HAS(line_of(text, fiber), ": sleeps, ");
    }
    finish(fibers);
}

} // namespace
