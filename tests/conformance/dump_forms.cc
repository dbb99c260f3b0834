// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_dump_as: frames, groups of equal stacks, and deadlocks, of fibers of any cord. (tests/dump_json.py reads its
// JSON, and tests/introspection_test.cc has the lines of fiber_dump.)
#include "conformance.h"
#include "cord_support.h"
#include "dumps.h"

#include <csignal>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

using namespace support;

namespace {

std::vector<std::string> lines_of(const std::string &text) {
    std::vector<std::string> lines;
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        lines.push_back(text.substr(at, end - at));
    return lines;
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// The lines that follow the one with this beginning, as long as they are indented.
std::vector<std::string> below(const std::string &text, const std::string &begin) {
    std::vector<std::string> found;
    bool within = false;
    for (const std::string &line : lines_of(text)) {
        if (line.starts_with(begin)) {
            within = true;
        } else if (!line.starts_with("    ")) {
            within = false;
        } else if (within) {
            found.push_back(line);
        }
    }
    return found;
}

std::vector<std::string> frames_of(const std::string &text, fiber_t fiber) {
    return below(text, "fiber " + hex(fiber.id));
}

// How many of the lines have the name of a function.
size_t count_of(const std::vector<std::string> &lines, const std::string &name) {
    size_t count = 0;
    for (const std::string &line : lines) count += has(line, name);
    return count;
}

// The line below the one with this end, which names some fibers of a group. The group may have fibers of other tests.
std::string ids_of_group(const std::string &text, const std::string &end) {
    const std::vector<std::string> lines = lines_of(text);
    for (size_t i = 0; i + 1 < lines.size(); i++) {
        if (lines[i].ends_with(end)) return lines[i + 1];
    }
    return "";
}

[[gnu::noinline]] void dig(fiber_event_t &over, int depth) {
    if (depth) {
        dig(over, depth - 1);
    } else {
        EXPECT_EQ(fiber_event_wait(&over), 0);
    }
    asm volatile("" : : : "memory"); // no tail call
}

void *digs_two(void *over) {
    dig(*static_cast<fiber_event_t *>(over), 2);
    return nullptr;
}

void *digs_five(void *over) {
    dig(*static_cast<fiber_event_t *>(over), 5);
    return nullptr;
}

fiber_t started(void *(*fn)(void *), void *arg) {
    fiber_t fiber{};
    EXPECT_EQ(fiber_new(&fiber, nullptr, fn, arg), 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    return fiber;
}

// Two mutexes, and fibers of two cords that wait for each other.
struct Circle {
    fiber_mutex_t one = FIBER_MUTEX_INITIALIZER, other = FIBER_MUTEX_INITIALIZER;
    fiber_t locker{}, joiner{}, joined{};
    int64_t timeout_ns = FIBER_FOREVER;
    int expected = -ECANCELED;

    // locker holds `one` and waits for `other`. joiner holds `other` and joins `joined`, which waits for `one`.
    void run() {
        std::atomic<bool> holds_one{false}, holds_other{false};
        auto locks = [&] {
            EXPECT_EQ(fiber_mutex_lock(&one), 0);
            holds_one = true;
            await([&] { return holds_other.load(); });
            EXPECT_EQ(fiber_mutex_lock(&other), 0);
            EXPECT_EQ(fiber_mutex_unlock(&other), 0);
            EXPECT_EQ(fiber_mutex_unlock(&one), 0);
        };
        auto waits_for_one = [&] {
            await([&] { return holds_one.load(); });
            EXPECT_EQ(fiber_mutex_lock_timeout(&one, timeout_ns), expected);
        };
        auto joins = [&] {
            EXPECT_EQ(fiber_mutex_lock(&other), 0);
            holds_other = true;
            EXPECT_EQ(fiber_join(joined, nullptr), 0);
            EXPECT_EQ(fiber_mutex_unlock(&other), 0);
        };
        std::atomic<bool> ready{false};
        auto there = [&] {
            locker = start(locks);
            ready = true;
            join(locker);
        };
        fiber_cord_t cord = start_cord(there);
        await([&] { return ready.load(); });
        joined = start(waits_for_one);
        joiner = start(joins);
        await([&] { return info(locker).wait_fiber == joiner.id && info(joined).wait_fiber == locker.id; });
        while_they_wait();
        join(joiner);
        join_cord(cord);
    }
    std::function<void()> while_they_wait;
};

} // namespace

TEST(DumpForms, NamesTheFunctionsOfAParkedFiber) {
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    fiber_t fiber{};
    std::atomic<bool> ready{false};
    auto body = [&] {
        fiber = started(digs_five, &over);
        ready = true;
        EXPECT_EQ(fiber_event_wait(&over), 0);
        join(fiber);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return ready.load() && info(fiber).still; });
    const std::vector<std::string> frames = frames_of(dumped(FIBER_DUMP_FRAMES), fiber);
    EXPECT_EQ(count_of(frames, " (anonymous namespace)::dig+0x"), 6u) << dumped(FIBER_DUMP_FRAMES);
    EXPECT_EQ(count_of(frames, "dig"), 7u) << dumped(FIBER_DUMP_FRAMES);
    ASSERT_FALSE(frames.empty());
    EXPECT_TRUE(has(frames.back(), "digs_five")) << frames.back(); // the library's first frame is left out
    EXPECT_FALSE(has(dumped(0), "#0"));
    EXPECT_EQ(fiber_event_set(&over), 0);
    join_cord(cord);
}

[[gnu::noinline]] static std::string dumps_itself() {
    std::string text = dumped(FIBER_DUMP_FRAMES);
    asm volatile("" : : : "memory");
    return text;
}

TEST(DumpForms, BeginsTheCallersFramesWithItsOwnFunction) {
    std::vector<std::string> frames;
    auto dumps = [&] { frames = frames_of(dumps_itself(), self()); };
    join(start(dumps));
    ASSERT_GE(frames.size(), 3u);
    EXPECT_TRUE(has(frames[0], "dumped")) << frames[0];
    EXPECT_TRUE(has(frames[1], "dumps_itself")) << frames[1];
}

TEST(DumpForms, CountsEqualStacks) {
    const int count = FIBERRT_TEST_TSAN ? 1000 : often(10000, 100); // ThreadSanitizer allows 8,128 threads and fibers
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    std::vector<fiber_t> fibers;
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    ASSERT_EQ(fiber_attr_set_stack_size(attr, 64 << 10), 0);
    std::atomic<bool> ready{false};
    auto body = [&] {
        for (int i = 0; i < count + 3; i++) {
            fiber_t fiber{};
            ASSERT_EQ(expect_memory(fiber_spawn_attr(&fiber, attr, i < count ? digs_two : digs_five, &over)), 0);
            fibers.push_back(fiber);
        }
        EXPECT_EQ(fiber_reschedule(), 0);
        ready = true;
        EXPECT_EQ(fiber_event_wait(&over), 0);
        for (fiber_t fiber : fibers) join(fiber);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return ready.load() && info(fibers.back()).state == FIBER_WAITING; });
    const std::string text = dumped(FIBER_DUMP_GROUPED);
    std::vector<std::string> groups;
    for (const std::string &line : lines_of(text)) {
        if (has(line, " fiber: ") || has(line, " fibers: ")) groups.push_back(line);
    }
    ASSERT_GE(groups.size(), 2u) << text;
    const std::string many = count == 10000 ? "10,000 fibers: " : count == 1000 ? "1,000 fibers: " : "100 fibers: ";
    EXPECT_TRUE(groups[0].starts_with(many)) << text; // the most frequent first
    EXPECT_TRUE(has(groups[0], "digs_two") && !has(groups[0], "digs_five")) << groups[0];
    EXPECT_TRUE(groups[1].starts_with("3 fibers: ") && has(groups[1], "digs_five")) << text;
    // Some of them, in the order of their slots.
    const std::vector<std::string> lines = lines_of(text);
    const std::string &some = *std::next(std::find(lines.begin(), lines.end(), groups[0]));
    EXPECT_TRUE(some.starts_with("    fiber 0x01") && some.ends_with(", …")) << text;
    size_t named = 0;
    for (size_t at = 0; (at = some.find("0x", at)) != std::string::npos; at++) named++;
    EXPECT_EQ(named, 8u) << some;
    EXPECT_EQ(frames_of(text, fibers[0]).size(), 0u);
    EXPECT_EQ(fiber_event_set(&over), 0);
    join_cord(cord);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

TEST(DumpForms, TellsFibersWithoutFrames) {
    auto nothing = [] {};
    fiber_t fresh = create(nothing), ended = start(nothing);
    std::string text = dumped(FIBER_DUMP_FRAMES);
    EXPECT_EQ(frames_of(text, fresh).size(), 0u);
    EXPECT_EQ(frames_of(text, ended).size(), 0u);
    text = dumped(FIBER_DUMP_GROUPED);
    EXPECT_TRUE(has(ids_of_group(text, ": new"), hex(fresh.id))) << text;
    EXPECT_TRUE(has(ids_of_group(text, ": ended, not joined"), hex(ended.id))) << text;
    EXPECT_EQ(fiber_wakeup(fresh), 0);
    join(fresh);
    join(ended);
}

TEST(DumpForms, SaysThatAFiberRuns) {
    NEEDS_THREADS();
    std::atomic<bool> runs{false}, done{false};
    fiber_t hog{};
    auto body = [&] {
        hog = self();
        runs = true;
        while (!done) continue;
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return runs.load(); });
    const std::string text = dumped(FIBER_DUMP_GROUPED);
    EXPECT_TRUE(has(text, "running\n    fiber " + hex(hog.id))) << text;
    EXPECT_EQ(frames_of(dumped(FIBER_DUMP_FRAMES), hog).size(), 0u);
    done = true;
    join_cord(cord);
}

TEST(DumpForms, NamesADeadlockAcrossCords) {
    Circle circle;
    circle.while_they_wait = [&] {
        for (unsigned flags : {0u, FIBER_DUMP_FRAMES, FIBER_DUMP_GROUPED}) {
            const std::string text = dumped(flags);
            const std::vector<std::string> waits = below(text, "deadlock: ");
            ASSERT_EQ(waits.size(), 3u) << text;
            EXPECT_EQ(count_of(waits, "fiber " + hex(circle.joiner.id) + " joins fiber " + hex(circle.joined.id)), 1u)
                << text;
            EXPECT_EQ(count_of(waits, ", held by fiber " + hex(circle.locker.id)), 1u) << text;
            EXPECT_EQ(count_of(waits, ", held by fiber " + hex(circle.joiner.id)), 1u) << text;
        }
        EXPECT_EQ(fiber_cancel(circle.joined, nullptr), 0);
    };
    circle.run();
    EXPECT_FALSE(has(dumped(0), "deadlock"));
}

TEST(DumpForms, SaysThatADeadlineEndsACircleOfWaits) {
    Circle circle;
    circle.timeout_ns = FIBER_SEC(1000);
    circle.while_they_wait = [&] {
        const std::string text = dumped(0);
        EXPECT_FALSE(has(text, "deadlock")) << text;
        EXPECT_EQ(below(text, "fibers wait for each other, until a deadline").size(), 3u) << text;
        EXPECT_EQ(fiber_cancel(circle.joined, nullptr), 0);
    };
    circle.run();
}

TEST(DumpForms, NamesADeadlockOfAScopeAndItsChild) {
    fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    fiber_t child{};
    auto locks = [](void *what) -> int64_t {
        return fiber_mutex_lock_timeout(static_cast<fiber_mutex_t *>(what), FIBER_FOREVER);
    };
    auto opens = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        fiber_scope_t scope;
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT), 0);
        EXPECT_EQ(fiber_scope_spawn(scope, &child, locks, &mutex), 0);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    fiber_t opener = start(opens);
    await([&] { return child.id && info(child).wait_fiber == opener.id; });
    const std::string text = dumped(0);
    const std::vector<std::string> waits = below(text, "deadlock: ");
    ASSERT_EQ(waits.size(), 2u) << text;
    EXPECT_EQ(count_of(waits, "waits for the children of a scope, such as fiber " + hex(child.id)), 1u) << text;
    EXPECT_EQ(fiber_cancel(child, nullptr), 0);
    join(opener);
}

TEST(DumpForms, NamesADeadlockThroughTheEndOfACord) {
    fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    fiber_t waiter{}, joiner{};
    auto locks = [&] { EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, FIBER_FOREVER), -ECANCELED); };
    std::atomic<bool> ready{false};
    auto body = [&] {
        waiter = start(locks);
        ready = true; // the main flow returns, and its cord waits for the fiber
    };
    fiber_cord_t cord{};
    auto joins = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        cord = start_cord(body);
        join_cord(cord);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    joiner = start(joins);
    await([&] { return ready.load() && info(waiter).wait_fiber == joiner.id && info(joiner).state == FIBER_WAITING; });
    std::vector<std::string> waits;
    std::string text;
    await([&] { // the main flow may still be about to wait
        text = dumped(0);
        waits = below(text, "deadlock: ");
        return !waits.empty();
    });
    ASSERT_EQ(waits.size(), 3u) << text;
    EXPECT_EQ(count_of(waits, "joins cord " + hex(cord.id) + ", whose main flow is fiber "), 1u) << text;
    EXPECT_EQ(count_of(waits, "waits for the end of other fibers of its cord, such as fiber " + hex(waiter.id)), 1u)
        << text;
    EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
    join(joiner);
}

// Fibers of two cords wait for each other's locks all the time, but in the same order: there is never a deadlock.
TEST(DumpForms, NamesNoDeadlockWhereThereIsNone) {
    fiber_mutex_t one = FIBER_MUTEX_INITIALIZER, other = FIBER_MUTEX_INITIALIZER;
    std::atomic<bool> done{false};
    std::atomic<int> turns{0};
    auto takes_turns = [&] {
        while (!is_set(done)) {
            EXPECT_EQ(fiber_mutex_lock(&one), 0);
            EXPECT_EQ(fiber_mutex_lock(&other), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_mutex_unlock(&other), 0);
            EXPECT_EQ(fiber_mutex_unlock(&one), 0);
            EXPECT_EQ(fiber_mutex_lock(&other), 0); // alone, in the other order
            EXPECT_EQ(fiber_mutex_unlock(&other), 0);
            EXPECT_EQ(fiber_mutex_lock(&one), 0);
            turns++;
            EXPECT_EQ(fiber_mutex_unlock(&one), 0);
        }
    };
    auto body = [&] {
        fiber_t first = start(takes_turns), second = start(takes_turns);
        join(first);
        join(second);
    };
    fiber_cord_t cord = start_cord(body), second_cord = start_cord(body);
    const int rounds = often(300, 5);
    for (int i = 0; i < rounds || turns < rounds; i++) {
        const std::string text = dumped(0);
        ASSERT_FALSE(has(text, "deadlock") || has(text, "each other")) << text;
        EXPECT_EQ(fiber_sleep(0), 0);
    }
    done = true;
    join_cord(cord);
    join_cord(second_cord);
}

// Cords that make and end fibers all the time, while others look at them in each form.
TEST(DumpForms, WhileOtherCordsRun) {
    std::atomic<bool> done{false};
    std::atomic<int> made{0};
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto churns = [&] {
        auto digs = [&] {
            made++;
            EXPECT_EQ(fiber_reschedule(), 0);
        };
        while (!is_set(done)) {
            fiber_t first = spawn(digs), second = spawn(digs);
            join(first);
            join(second);
        }
    };
    auto starts = [&] {
        auto nothing = [] {};
        while (!is_set(done)) join_cord(start_cord(nothing));
    };
    fiber_t parked = started(digs_two, &over);
    fiber_cord_t one = start_cord(churns), two = start_cord(starts);
    const int rounds = often(100, 4);
    for (int round = 0; round < rounds || made < rounds; round++) {
        const unsigned flags = unsigned(round) % 8;
        const std::string text = dumped(flags);
        ASSERT_EQ(text.back(), '\n');
        if (flags & FIBER_DUMP_JSON) {
            ASSERT_TRUE(text.starts_with("{\"fiberrt\":\"") && text.ends_with("]}\n")) << text;
        } else if (flags == FIBER_DUMP_FRAMES) {
            ASSERT_EQ(count_of(frames_of(text, parked), "dig"), 4u) << text;
        }
        EXPECT_EQ(fiber_sleep(0), 0);
    }
    done = true;
    EXPECT_EQ(fiber_event_set(&over), 0);
    join(parked);
    join_cord(one);
    join_cord(two);
}

// As in Look.SurvivesAStackThatIsOverwritten: the text says that frames are missing, and the dump goes on.
TEST(DumpForms, SurvivesAStackThatIsOverwritten) {
    if (FIBERRT_TEST_ASAN) GTEST_SKIP() << "AddressSanitizer reports writes into a parked fiber's stack";
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    fiber_t fiber = started(digs_five, &over);
    const fiber_info_t about = info(fiber);
    std::vector<void *> frames(64);
    ASSERT_GT(fiber_backtrace(fiber, frames.data(), int(frames.size())), 5);
    // The return address of the first dig: below it nothing changes.
    auto *at = reinterpret_cast<uintptr_t *>(about.stack_high - about.stack_used);
    auto *end = reinterpret_cast<uintptr_t *>(about.stack_high);
    while (at < end && *at != reinterpret_cast<uintptr_t>(frames[3])) at++;
    ASSERT_LT(at, end);
    const uintptr_t saved = *at;
    for (uintptr_t bad : {uintptr_t(0x4711), about.stack_low, ~uintptr_t(0), saved + (uintptr_t(1) << 46)}) {
        *at = bad;
        for (unsigned flags : {FIBER_DUMP_FRAMES, FIBER_DUMP_GROUPED, FIBER_DUMP_FRAMES | FIBER_DUMP_JSON}) {
            const std::string text = dumped(flags);
            if (flags == FIBER_DUMP_FRAMES) {
                EXPECT_EQ(count_of(frames_of(text, fiber), "further frames cannot be found"), 1u) << text;
            }
        }
    }
    *at = saved;
    EXPECT_EQ(count_of(frames_of(dumped(FIBER_DUMP_FRAMES), fiber), "further frames"), 0u);
    EXPECT_EQ(fiber_event_set(&over), 0);
    join(fiber);
}

TEST(DumpForms, SaysThatAStackHasMoreFrames) {
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto digs_deep = [&] { dig(over, 300); };
    fiber_t fiber = start(digs_deep);
    const std::vector<std::string> frames = frames_of(dumped(FIBER_DUMP_FRAMES), fiber);
    EXPECT_GT(count_of(frames, "dig"), 100u);
    ASSERT_FALSE(frames.empty());
    EXPECT_EQ(frames.back(), "    further frames are left out");
    EXPECT_EQ(fiber_event_set(&over), 0);
    join(fiber);
}

TEST(DumpForms, ReturnsErrors) {
    Descriptor only_read(::open("/dev/null", O_RDONLY | O_CLOEXEC)), full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    Stream pair = make_stream(Kind::pipe);
    pair.reader.close();
    for (unsigned flags = 0; flags < 8; flags++) {
        errno = 4711;
        EXPECT_EQ(fiber_dump_as(-1, flags), -EBADF);
        EXPECT_EQ(fiber_dump_as(only_read, flags), -EBADF);
        EXPECT_EQ(fiber_dump_as(full, flags), -ENOSPC);
        EXPECT_EQ(fiber_dump_as(pair.writer, flags), -EPIPE); // and raises no SIGPIPE
        EXPECT_EQ(errno, 4711);
    }
    EXPECT_EQ(fiber_dump_as(full, 8), -EINVAL);
    EXPECT_EQ(fiber_dump_as(full, ~0u), -EINVAL);
}
