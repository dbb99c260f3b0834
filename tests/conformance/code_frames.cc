// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames of interpreted code: fiber_frames_reader_set, fiber_code_frames.
#include "conformance.h"
#include "cord_support.h"

#include <array>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>

using namespace support;

namespace {

constexpr unsigned kind = 7;

// An interpreter's frame.
struct Frame {
    const char *function;
    int line;
    const Frame *outer;
};

// What the tag points to.
struct Interpreter {
    const Frame *innermost = nullptr;
    int first = 0; // these two are changed by the fiber while it runs, and are equal whenever it gives way
    int second = 0;
};

// Reads the frames of an Interpreter as a careful reader does.
int read_frames(fiber_tag_t tag, int64_t (*copy)(void *, const void *, size_t), fiber_code_frame_t *frames, int max) {
    const auto *interpreter = static_cast<const Interpreter *>(tag.pointer);
    const Frame *at = nullptr;
    if (copy(&at, &interpreter->innermost, sizeof at) != sizeof at) return -1;
    int count = 0;
    for (; at && count < max; count++) {
        Frame frame{};
        if (copy(&frame, at, sizeof frame) != sizeof frame) return -1;
        std::snprintf(frames[count].function, sizeof frames[count].function, "%s", frame.function);
        std::snprintf(frames[count].file, sizeof frames[count].file, "%s.i", frame.function);
        frames[count].line = frame.line;
        at = frame.outer;
    }
    return count;
}

using Frames = std::array<fiber_code_frame_t, 4>;

int frames_of(fiber_t fiber, Frames &out) {
    int count = 0;
    await([&] {
        count = fiber_code_frames(fiber, out.data(), int(out.size()));
        return count != -EBUSY;
    });
    return count;
}

// Sets the reader for as long as a scenario lasts.
struct WithReader {
    explicit WithReader(fiber_frames_reader_t read) { EXPECT_EQ(fiber_frames_reader_set(kind, "tests", read), 0); }
    ~WithReader() { EXPECT_EQ(fiber_frames_reader_set(kind, nullptr, nullptr), 0); }
    WithReader(const WithReader &) = delete;
    WithReader &operator=(const WithReader &) = delete;
};

void expect_frame(const fiber_code_frame_t &frame, const std::string &function, int line) {
    EXPECT_EQ(frame.function, function);
    EXPECT_EQ(frame.file, function + ".i");
    EXPECT_EQ(frame.line, line);
}

} // namespace

TEST(CodeFrames, OfParkedFibersOfAnyCord) {
    const WithReader reader(read_frames);
    const Frame outer = {"serve", 3, nullptr};
    const Frame inner = {"read_request", 17, &outer};
    Interpreter interpreter;
    interpreter.innermost = &inner;
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto waits = [&] {
        EXPECT_EQ(fiber_tag_set(self(), {&interpreter, kind}), 0);
        EXPECT_EQ(fiber_event_wait(&over), 0);
    };
    fiber_t elsewhere{};
    std::atomic<bool> ready{false};
    auto body = [&] {
        elsewhere = start(waits);
        EXPECT_EQ(fiber_sleep(0), 0);
        ready = true;
        EXPECT_EQ(fiber_event_wait(&over), 0);
        join(elsewhere);
    };
    fiber_t here = start(waits);
    fiber_cord_t cord = start_cord(body);
    await([&] { return ready.load(); });
    for (fiber_t fiber : {here, elsewhere}) {
        Frames frames;
        ASSERT_EQ(frames_of(fiber, frames), 2);
        expect_frame(frames[0], "read_request", 17);
        expect_frame(frames[1], "serve", 3);
        fiber_code_frame_t first;
        EXPECT_EQ(fiber_code_frames(fiber, &first, 1), 1);
        expect_frame(first, "read_request", 17);
    }
    EXPECT_EQ(fiber_event_set(&over), 0);
    join(here);
    join_cord(cord);
}

TEST(CodeFrames, OfTheCaller) {
    const WithReader reader(read_frames);
    const Frame only = {"itself", 1, nullptr};
    Interpreter interpreter;
    interpreter.innermost = &only;
    Frames frames;
    EXPECT_EQ(fiber_code_frames(self(), frames.data(), 4), 0); // it has no tag
    EXPECT_EQ(fiber_tag_set(self(), {&interpreter, kind}), 0);
    ASSERT_EQ(fiber_code_frames(self(), frames.data(), 4), 1);
    expect_frame(frames[0], "itself", 1);
    EXPECT_EQ(fiber_tag_set(self(), {&interpreter, kind + 1}), 0); // no reader has this kind
    EXPECT_EQ(fiber_code_frames(self(), frames.data(), 4), 0);
    EXPECT_EQ(fiber_tag_set(self(), {&interpreter, kind}), 0);
    EXPECT_EQ(fiber_frames_reader_set(kind, "tests", nullptr), 0);
    EXPECT_EQ(fiber_code_frames(self(), frames.data(), 4), 0);
    EXPECT_EQ(fiber_tag_set(self(), {nullptr, 0}), 0);
}

// The library drops what a reader has read if the fiber has continued meanwhile. The reader gives the fiber some time to
// do so.
int read_both(fiber_tag_t tag, int64_t (*copy)(void *, const void *, size_t), fiber_code_frame_t *frames, int max) {
    const auto *interpreter = static_cast<const Interpreter *>(tag.pointer);
    EXPECT_EQ(max, 4);
    frames[0] = frames[1] = {};
    int meanwhile = 0;
    bool all = copy(&frames[0].line, &interpreter->second, sizeof(int)) == sizeof(int);
    for (int i = 0; i < 20; i++) all &= copy(&meanwhile, &interpreter->second, sizeof(int)) == sizeof(int);
    all &= copy(&frames[1].line, &interpreter->first, sizeof(int)) == sizeof(int);
    return all ? 2 : -1;
}

TEST(CodeFrames, AreOfOneMoment) {
    NEEDS_THREADS();
    const WithReader reader(read_both);
    Interpreter interpreter;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> id{0};
    auto body = [&] {
        EXPECT_EQ(fiber_tag_set(self(), {&interpreter, kind}), 0);
        auto other = [&] {
            while (!done) EXPECT_EQ(fiber_reschedule(), 0);
        };
        fiber_t fiber = start(other);
        id = self().id;
        while (!done) {
            const int value = interpreter.first + 1;
            __atomic_store_n(&interpreter.first, value, __ATOMIC_RELAXED);
            __atomic_store_n(&interpreter.second, value, __ATOMIC_RELAXED);
            EXPECT_EQ(value % 64 ? fiber_reschedule() : fiber_sleep(FIBER_USEC(100)), 0);
        }
        join(fiber);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return id.load() != 0; });
    for (int told = 0; told < often(300, 10);) {
        Frames frames;
        const int count = fiber_code_frames({id}, frames.data(), 4);
        if (count == -EBUSY) continue;
        ASSERT_EQ(count, 2);
        ASSERT_EQ(frames[0].line, frames[1].line);
        told++;
    }
    done = true;
    join_cord(cord);
}

TEST(CodeFrames, OfAReaderThatErrs) {
    struct Plan {
        int result;
        int expected;
    };
    auto read = [](fiber_tag_t tag, int64_t (*copy)(void *, const void *, size_t), fiber_code_frame_t *frames,
                   int max) {
        int readable = 0;
        EXPECT_LT(copy(&readable, nullptr, sizeof readable), 0);
        for (int i = 0; i < max; i++) memset(&frames[i], 'x', sizeof frames[i]);
        return static_cast<Plan *>(tag.pointer)->result;
    };
    const WithReader reader(read);
    for (Plan plan : {Plan{-EFAULT, 0}, Plan{5, 4}, Plan{2, 2}}) {
        EXPECT_EQ(fiber_tag_set(self(), {&plan, kind}), 0);
        Frames frames;
        EXPECT_EQ(fiber_code_frames(self(), frames.data(), 4), plan.expected);
        if (plan.expected) {
            EXPECT_EQ(std::strlen(frames[0].function), sizeof frames[0].function - 1);
            EXPECT_EQ(std::strlen(frames[0].file), sizeof frames[0].file - 1);
        }
    }
    EXPECT_EQ(fiber_tag_set(self(), {nullptr, 0}), 0);
}

namespace {

// What the reader below fills when it is called, so that the dump cannot write on.
std::atomic<int> filled{-1};
std::atomic<bool> called{false};

int read_and_fill(fiber_tag_t, int64_t (*)(void *, const void *, size_t), fiber_code_frame_t *frames, int) {
    strcpy(frames[0].function, "read_request");
    std::array<char, 4096> dots{};
    dots.fill('.');
    while (!called && ::write(filled, dots.data(), dots.size()) > 0) {}
    called = true;
    return 1;
}

[[gnu::noinline]] void dig(fiber_event_t &over, int depth) {
    if (depth) {
        dig(over, depth - 1);
    } else {
        EXPECT_EQ(fiber_event_wait(&over), 0);
    }
    asm volatile("" : : : "memory"); // no tail call
}

} // namespace

// The program may free the name of the language as soon as another reader is set, also during a dump that has it.
TEST(CodeFrames, TheNameOfTheLanguageIsCopied) {
    NEEDS_THREADS();
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto interpreted = [&] {
        EXPECT_EQ(fiber_tag_set(self(), {nullptr, kind}), 0);
        EXPECT_EQ(fiber_event_wait(&over), 0);
    };
    auto digs = [&] { dig(over, 20); };
    fiber_t one = start(interpreted);
    fiber_t others[] = {start(digs), start(digs)}; // a larger group of fibers, which comes before
    std::string name = "tests";
    called = false;
    Pipe pipe(O_CLOEXEC | O_NONBLOCK);
    filled = pipe.write_end;
    EXPECT_EQ(fiber_frames_reader_set(kind, name.c_str(), read_and_fill), 0);
    std::atomic<bool> done{false};
    std::thread dumps([&] {
        EXPECT_EQ(fiber_dump_as(pipe.write_end, FIBER_DUMP_FRAMES | FIBER_DUMP_GROUPED), 0);
        done = true;
    });
    std::string text;
    auto read_some = [&] {
        std::array<char, 4096> part{};
        ssize_t got = ::read(pipe.read_end, part.data(), part.size());
        if (got > 0) text.append(part.data(), size_t(got));
        return got;
    };
    while (!called) read_some();                                   // cords come first
    EXPECT_EQ(fiber_frames_reader_set(kind, nullptr, nullptr), 0); // returns after the look
    name.assign(name.size(), '!');
    while (!done) read_some();
    while (read_some() > 0) {}
    dumps.join();
    EXPECT_NE(text.find("    tests #0 read_request\n"), std::string::npos) << text;
    EXPECT_EQ(fiber_event_set(&over), 0);
    for (fiber_t fiber : {one, others[0], others[1]}) join(fiber);
}

TEST(CodeFrames, Errors) {
    Frames frames;
    EXPECT_EQ(fiber_code_frames(self(), nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_code_frames(self(), frames.data(), 0), -EINVAL);
    EXPECT_EQ(fiber_code_frames(self(), frames.data(), -1), -EINVAL);
    EXPECT_EQ(fiber_code_frames({}, frames.data(), 1), -EINVAL);
    auto nothing = [] {};
    fiber_t fiber = start(nothing);
    join(fiber);
    EXPECT_EQ(fiber_code_frames(fiber, frames.data(), 1), -ESRCH);
    EXPECT_EQ(fiber_frames_reader_set(0, "tests", read_frames), -EINVAL);
    EXPECT_EQ(fiber_frames_reader_set(FIBER_TAG_KIND_MAX + 1, "tests", read_frames), -EINVAL);
    for (const char *name : {static_cast<const char *>(nullptr), "", "Tests", "a_b", "two words", "abcdefghijklmnop"})
        EXPECT_EQ(fiber_frames_reader_set(kind + 1, name, read_frames), -EINVAL);
    EXPECT_EQ(fiber_frames_reader_set(FIBER_TAG_KIND_MAX, "abcdefghijklmno", read_frames), 0);
    EXPECT_EQ(fiber_frames_reader_set(FIBER_TAG_KIND_MAX, nullptr, nullptr), 0);
}
