// SPDX-License-Identifier: MIT OR Apache-2.0
// The edges of I/O: more operations than the queues hold, busy threads, huge counts, bad memory, bad descriptors, and
// threads that end with operations under way.
#include "conformance.h"
#include "io_calls.h"

#include <linux/openat2.h>
#include <climits>
#include <cstdio>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <termios.h>

using namespace support;

namespace {

// Fibers with the smallest stack, for tests that make very many.
template <class Body>
std::vector<fiber_t> spawn_many(int count, Body &body) {
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, 32768), 0);
    std::vector<fiber_t> fibers;
    for (int i = 0; i < count; ++i) {
        fiber_t fiber{};
        const int made = fiber_new(&fiber, attr, entry<Body>, &body);
        if (made != 0 || fiber_wakeup(fiber) != 0) {
            ADD_FAILURE() << "fiber " << i << ": " << fiber_strerror(made);
            break;
        }
        fibers.push_back(fiber);
    }
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    return fibers;
}

// ---------------------------------------------------------------------------------------------------------------
// Full queues
// ---------------------------------------------------------------------------------------------------------------

TEST(QueueTest, MoreOperationsAtOnceThanTheSubmissionQueueHolds) {
    const int count = often(5000, 40);
    Folder folder;
    Descriptor file(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const std::string text = pattern(count * 4);
    ASSERT_EQ(::pwrite(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    int next = 0, right = 0;
    auto body = [&] {
        const int at = 4 * next++;
        char part[4];
        if (fiber_pread(file, part, 4, at) == 4) right += memcmp(part, text.data() + at, 4) == 0;
    };
    for (fiber_t fiber : spawn_many(count, body)) join(fiber);
    EXPECT_EQ(right, count);
    EXPECT_EQ(stats().ops_in_flight, 0u);
}

TEST(QueueTest, AFullSubmissionQueueKeepsTheOrderOfOneDescriptorsWaiters) {
    const int count = often(3000, 40);
    Pipe pipe;
    int served = 0;
    auto body = [&] {
        char byte;
        served += fiber_read(pipe.read_end, &byte, 1) == 1;
    };
    std::vector<fiber_t> fibers = spawn_many(count, body);
    settle();
    EXPECT_EQ(served, 0);
    for (int put = 0; put < count;) {
        const size_t more = std::min<size_t>(1000, static_cast<size_t>(count - put));
        const int64_t wrote = fiber_write(pipe.write_end, std::string(more, 'x').data(), more);
        ASSERT_GT(wrote, 0);
        put += static_cast<int>(wrote);
    }
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(served, count);
    EXPECT_EQ(drain(pipe.read_end), "");
}

// Cancels need room in the submission queue too, and each ends an operation that may still lie in the queue.
TEST(QueueTest, CancellingMoreOperationsThanTheQueueHolds) {
    const int count = often(5000, 40);
    for (bool submitted : {false, true}) {
        Pipe pipe;
        int cancelled = 0;
        auto body = [&] {
            char byte;
            cancelled += fiber_read(pipe.read_end, &byte, 1) == -ECANCELED;
        };
        std::vector<fiber_t> fibers = spawn_many(count, body);
        EXPECT_EQ(fiber_reschedule(), 0);
        if (submitted) settle();
        for (fiber_t fiber : fibers) EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        for (fiber_t fiber : fibers) join(fiber);
        EXPECT_EQ(cancelled, count);
        EXPECT_EQ(plain_write(pipe.write_end, "kept"), 4);
        settle();
        EXPECT_EQ(drain(pipe.read_end), "kept");
    }
    EXPECT_EQ(stats().ops_in_flight, 0u);
}

TEST(QueueTest, MoreCompletionsAtOnceThanTheCompletionQueueHolds) {
    const int count = often(20000, 50);
    Pipe pipe;
    int ready = 0;
    auto body = [&] { ready += fiber_poll_fd(pipe.read_end, POLLIN) == POLLIN; };
    std::vector<fiber_t> fibers = spawn_many(count, body);
    settle();
    EXPECT_EQ(ready, 0);
    EXPECT_EQ(stats().ops_in_flight, static_cast<uint64_t>(count));
    EXPECT_EQ(plain_write(pipe.write_end, "x"), 1); // all of them at once, while this thread is busy
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(ready, count);
    EXPECT_EQ(stats().ops_in_flight, 0u);
    // The backend goes on as before.
    char byte;
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
}

TEST(QueueTest, ManyDeadlinesFireWhileManyOperationsComplete) {
    const int count = often(4000, 40);
    Pipe silent, loud;
    int timed_out = 0, ready = 0, turn = 0;
    auto body = [&] {
        if (turn++ % 2 == 0) {
            char byte;
            FIBER_WITH_TIMEOUT(FIBER_MSEC(5), nullptr) {
                timed_out += fiber_read(silent.read_end, &byte, 1) == -ETIMEDOUT;
            }
        } else {
            ready += fiber_poll_fd(loud.read_end, POLLIN) == POLLIN;
        }
    };
    std::vector<fiber_t> fibers = spawn_many(count, body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
    EXPECT_EQ(plain_write(loud.write_end, "x"), 1);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(timed_out, count / 2);
    EXPECT_EQ(ready, count / 2);
}

TEST(QueueTest, TheOperationsOfMuchTrafficLeaveNothingBehind) {
    Pipe pipe;
    char byte = 'x';
    const fiber_stats_t before = stats();
    for (int i = 0; i < often(2000, 100); ++i) {
        ASSERT_EQ(fiber_write(pipe.write_end, &byte, 1), 1);
        ASSERT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    }
    const fiber_stats_t after = stats();
    EXPECT_EQ(after.ops_in_flight, before.ops_in_flight);
    EXPECT_EQ(after.fibers, before.fibers);
}

// ---------------------------------------------------------------------------------------------------------------
// Busy threads, and time
// ---------------------------------------------------------------------------------------------------------------

// TRAP: fibers that only give each other turns starve I/O in other systems.
TEST(BusyTest, OperationsCompleteWhileFibersReschedule) {
    for (int busy : {1, 2}) {
        Pipe pipe;
        bool done = false;
        int64_t passes = 0;
        auto read_once = [&] {
            char byte;
            EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
            done = true;
        };
        auto reschedule = [&] {
            const int64_t give_up = fiber_now() + FIBER_SEC(10);
            while (!done && fiber_now() < give_up) {
                ASSERT_EQ(fiber_reschedule(), 0);
                ++passes;
            }
        };
        fiber_t reader = start(read_once);
        std::vector<fiber_t> fibers;
        for (int i = 0; i < busy; ++i) fibers.push_back(spawn(reschedule));
        EXPECT_EQ(plain_write(pipe.write_end, "x"), 1);
        for (fiber_t fiber : fibers) join(fiber);
        EXPECT_TRUE(done) << "after " << passes << " passes";
        if (!done) {
            EXPECT_EQ(fiber_cancel(reader, nullptr), 0);
        }
        join(reader);
    }
}

TEST(BusyTest, TheMainFlowAloneReschedulesAndStillPolls) {
    Pipe pipe;
    bool done = false;
    auto read_once = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        done = true;
    };
    fiber_t reader = start(read_once);
    settle();
    EXPECT_EQ(plain_write(pipe.write_end, "x"), 1);
    const int64_t give_up = fiber_now() + FIBER_SEC(10);
    while (!done && fiber_now() < give_up) ASSERT_EQ(fiber_reschedule(), 0);
    EXPECT_TRUE(done);
    join(reader);
}

TEST(BusyTest, ALongComputationLetsIoThroughByRescheduleIfDue) {
    Pipe pipe;
    bool done = false;
    auto read_once = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        done = true;
    };
    fiber_t reader = start(read_once);
    settle();
    EXPECT_EQ(plain_write(pipe.write_end, "x"), 1);
    const int64_t give_up = fiber_now() + FIBER_SEC(10);
    while (!done && fiber_now() < give_up) ASSERT_EQ(fiber_reschedule_if_due(), 0);
    EXPECT_TRUE(done);
    join(reader);
}

// An operation may complete while no thread polls; the next poll finds it.
TEST(BusyTest, OperationsOfABusyThreadCompleteAtTheNextLook) {
    NOT_ON_SIM("chooses the events that one poll finds");
    // On libev the pipe must not have the number of one that was waited on until a moment ago, and closed by close(2):
    // that is found out some milliseconds later.
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
    Pipe pipe;
    bool done = false;
    auto read_once = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        done = true;
    };
    fiber_t reader = start(read_once);
    EXPECT_EQ(fiber_sleep(0), 0);
    EXPECT_EQ(plain_write(pipe.write_end, "x"), 1);
    const int64_t end = fiber_now() + FIBER_MSEC(2);
    while (fiber_now() < end) {}
    EXPECT_FALSE(done);
    // One pass with one look for I/O makes the reader runnable; the second lets it run.
    EXPECT_EQ(fiber_sleep(0), 0);
    EXPECT_EQ(fiber_sleep(0), 0);
    EXPECT_TRUE(done);
    join(reader);
}

TEST(TimeTest, AShortSleepIsNeverShortAndOvershootsLittle) {
    // With and without operations under way: they are waited for in different places.
    Pipe pipe;
    auto read_once = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    fiber_t reader{};
    for (bool with_operation : {false, true}) {
        if (with_operation) reader = start(read_once);
        std::vector<int64_t> overshoots;
        for (int i = 0; i < often(500, 10); ++i) {
            const int64_t begin = fiber_now();
            ASSERT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            const int64_t overshoot = fiber_now() - begin - FIBER_USEC(100);
            ASSERT_GE(overshoot, 0);
            overshoots.push_back(overshoot);
        }
        std::sort(overshoots.begin(), overshoots.end());
        const double median_us = static_cast<double>(overshoots[overshoots.size() / 2]) / 1000;
        printf("100 us sleep, %s: median overshoot %.1f us (goal: below 200)\n",
               with_operation ? "an operation under way" : "nothing else", median_us);
        RecordProperty(with_operation ? "overshoot_us_busy" : "overshoot_us_idle", std::to_string(median_us));
    }
    EXPECT_EQ(plain_write(pipe.write_end, "x"), 1);
    join(reader);
}

// A signal whose handler does not restart system calls ends neither waits nor sleeps: -EINTR speaks of
// fiber_interrupt alone.
TEST(SignalTest, HandledSignalsAreNotSeenByCalls) {
    NOT_ON_SIM("has no terminals, and a time that passes too quickly for signals");
    static volatile sig_atomic_t handled;
    handled = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { handled = handled + 1; };
    ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
    const itimerval often = {{0, 500}, {0, 500}};
    const itimerval never = {};
    Pipe pipe;
    Stream terminal = make_stream(Kind::pty);
    auto read_pipe = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    auto read_terminal = [&] {
        char byte;
        EXPECT_EQ(fiber_read(terminal.reader, &byte, 1), 1);
    };
    fiber_t fibers[2] = {start(read_pipe), start(read_terminal)};
    const int64_t begin = fiber_now();
    ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
    EXPECT_GE(fiber_now() - begin, FIBER_MSEC(20));
    EXPECT_TRUE(eventually([] { return handled > 1; })); // which may take long where others want the processor
    for (int fd : {pipe.write_end, int(terminal.writer)}) {
        int64_t put; // by a plain call, which a signal may end
        while ((put = plain_write(fd, "x")) == -EINTR) {}
        EXPECT_EQ(put, 1);
    }
    for (fiber_t fiber : fibers) join(fiber);
    ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0); // the handler stays: one more may be on its way
    EXPECT_GT(handled, 1);
}

// ---------------------------------------------------------------------------------------------------------------
// Counts and memory
// ---------------------------------------------------------------------------------------------------------------

TEST(CountTest, HugeCountsAreRefusedOrCut) {
    for (size_t count : {size_t(INT_MAX), size_t(INT_MAX) + 1, size_t(3) << 30, size_t(UINT_MAX), size_t(UINT_MAX) + 4,
                         size_t(SSIZE_MAX), size_t(SSIZE_MAX) + 1, SIZE_MAX}) {
        // A buffer that really has that many bytes where that is possible.
        const size_t mapped = std::min(count, size_t(5) << 30);
        const int map_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, map_flags, -1, 0);
        if (memory == MAP_FAILED) GTEST_SKIP() << "there is no address space for a buffer of " << mapped << " bytes";
        Stream pipe = make_stream(Kind::pipe), pair = make_stream(Kind::unix_stream);
        EXPECT_EQ(plain_write(pipe.writer, "abc"), 3);
        EXPECT_EQ(plain_write(pair.writer, "abc"), 3);
        int64_t got = fiber_read(pipe.reader, memory, count);
        EXPECT_TRUE(got == 3 || got == -EINVAL) << count << ": " << got;
        got = fiber_recv(pair.reader, memory, count, 0);
        EXPECT_TRUE(got == 3 || got == -EINVAL) << count << ": " << got;
        Descriptor file(fiber_open("/proc/self/comm", O_RDONLY | O_CLOEXEC, 0));
        got = fiber_pread(file, memory, count, 0);
        EXPECT_TRUE((got > 0 && got < 64) || got == -EINVAL) << count << ": " << got;
        iovec parts[2] = {{memory, count}, {memory, count}};
        Descriptor null(fiber_open("/dev/null", O_RDWR | O_CLOEXEC, 0));
        got = fiber_readv(null, parts, 2);
        // Past the end of the address space the kernel sees bad memory first.
        EXPECT_TRUE(got == 0 || got == -EINVAL || (got == -EFAULT && count > mapped)) << count << ": " << got;
        // Writing so much to nowhere reads no memory: a short count, the whole, or a refusal; never a wrapped one.
        for (bool at_offset : {false, true}) {
            got = at_offset ? fiber_pwrite(null, memory, count, 0) : fiber_write(null, memory, count);
            const bool sound = got >= INT_MAX - 8191 && static_cast<size_t>(got) <= count;
            EXPECT_TRUE(sound || got == -EINVAL) << count << ": " << got;
        }
        EXPECT_EQ(::munmap(memory, mapped), 0);
    }
}

// accept(2) says so when it has taken the connection: another attempt would wait for one more.
TEST(IoLimits, AnAcceptWithANegativeLengthOfTheAddressFails) {
    NOT_ON_SIM("reads its own arguments");
    sockaddr_in address;
    Descriptor listener = tcp_listener(address), client = tcp_client(address);
    socklen_t negative = static_cast<socklen_t>(-1);
    FIBER_WITH_TIMEOUT(FIBER_SEC(20), nullptr) {
        EXPECT_EQ(fiber_accept(listener, reinterpret_cast<sockaddr *>(&address), &negative), -EINVAL);
    }
}

TEST(CountTest, NoMemoryWhereMemoryIsNeeded) {
    Stream pair = make_stream(Kind::unix_stream), pipe = make_stream(Kind::pipe);
    sockaddr_in address;
    Descriptor listener = tcp_listener(address), client = tcp_client(address);
    EXPECT_EQ(plain_write(pair.writer, "abc"), 3);
    EXPECT_EQ(plain_write(pipe.writer, "abc"), 3);
    EXPECT_EQ(fiber_read(pipe.reader, nullptr, 3), -EINVAL);
    EXPECT_EQ(fiber_write(pipe.writer, nullptr, 3), -EINVAL);
    EXPECT_EQ(fiber_readv(pipe.reader, nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_writev(pipe.writer, nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_recv(pair.reader, nullptr, 3, 0), -EINVAL);
    EXPECT_EQ(fiber_send(pair.writer, nullptr, 3, 0), -EINVAL);
    EXPECT_EQ(fiber_recvmsg(pair.reader, nullptr, 0), -EINVAL);
    EXPECT_EQ(fiber_sendmsg(pair.writer, nullptr, 0), -EINVAL);
    EXPECT_EQ(fiber_connect(client, nullptr, sizeof address), -EINVAL);
    EXPECT_EQ(fiber_accept(listener, reinterpret_cast<sockaddr *>(&address), nullptr), -EINVAL);
    EXPECT_EQ(fiber_accept4(listener, reinterpret_cast<sockaddr *>(&address), nullptr, 0), -EINVAL);
    Descriptor file(fiber_open("/proc/self/comm", O_RDONLY | O_CLOEXEC, 0));
    EXPECT_EQ(fiber_pread(file, nullptr, 3, 0), -EINVAL);
    Descriptor null(fiber_open("/dev/null", O_RDWR | O_CLOEXEC, 0));
    EXPECT_EQ(fiber_pwrite(null, nullptr, 3, 0), -EINVAL);
    EXPECT_EQ(fiber_open(nullptr, O_RDONLY, 0), -EINVAL);
    // None of them took anything.
    EXPECT_EQ(drain(pair.reader), "abc");
    EXPECT_EQ(drain(pipe.reader), "abc");
    Descriptor served(plain_accept(listener));
    EXPECT_GE(served, 0);
}

// Memory that does not exist, beyond what a NULL check finds, gives the kernel's EFAULT.
TEST(CountTest, BadMemoryIsAnErrorAndTakesNothing) {
    void *hole = ::mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    for (Kind kind : {Kind::pipe, Kind::unix_stream}) {
        Stream stream = make_stream(kind);
        EXPECT_EQ(plain_write(stream.writer, "abc"), 3);
        EXPECT_EQ(fiber_read(stream.reader, hole, 3), -EFAULT);
        iovec part = {hole, 3};
        EXPECT_EQ(fiber_readv(stream.reader, &part, 1), -EFAULT);
        EXPECT_EQ(fiber_write(stream.writer, hole, 3), -EFAULT);
        EXPECT_EQ(fiber_open(static_cast<const char *>(hole), O_RDONLY, 0), -EFAULT);
        EXPECT_EQ(drain(stream.reader), "abc");
    }
    EXPECT_EQ(::munmap(hole, 65536), 0);
}

TEST(CountTest, AnAddressThatCannotBeReadIsAnError) {
    void *hole = ::mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    auto *address = static_cast<sockaddr *>(hole);
    for (int type : {SOCK_STREAM, SOCK_DGRAM}) {
        Descriptor local(::socket(AF_INET, type, 0));
        EXPECT_EQ(fiber_connect(local, address, sizeof(sockaddr_in)), -EFAULT);
    }
    Descriptor sender(::socket(AF_INET, SOCK_DGRAM, 0));
    EXPECT_EQ(fiber_sendto(sender, "x", 1, 0, address, sizeof(sockaddr_in)), -EFAULT);
    char byte = 'x';
    iovec part = {&byte, 1};
    msghdr header = {};
    header.msg_name = hole;
    header.msg_namelen = sizeof(sockaddr_in);
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    EXPECT_EQ(fiber_sendmsg(sender, &header, 0), -EFAULT);
    EXPECT_EQ(::munmap(hole, 65536), 0);
}

TEST(CountTest, AcceptOfABadLengthIsAnErrorAndTheListenerGoesOn) {
    const bool by_ring = strcmp(fiber_backend_name(), "uring") == 0; // else by accept4
    if ((FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) && !by_ring) {
        GTEST_SKIP() << "a sanitizer's accept4 reads the length itself and dies of it";
    }
    void *hole = ::mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    sockaddr_in address{};
    Descriptor listener = tcp_listener(address);
    sockaddr_storage peer{};
    for (bool is_waited_for : {false, true}) {
        int result = 1;
        auto accepts = [&] {
            result = fiber_accept(listener, reinterpret_cast<sockaddr *>(&peer), static_cast<socklen_t *>(hole));
        };
        fiber_t fiber{};
        if (is_waited_for) fiber = start(accepts);
        Descriptor client = tcp_client(address);
        if (!is_waited_for) fiber = start(accepts);
        join(fiber);
        EXPECT_EQ(result, -EFAULT) << is_waited_for;
    }
    Descriptor client = tcp_client(address);
    Descriptor served(fiber_accept(listener, nullptr, nullptr));
    EXPECT_GE(served, 0);
    EXPECT_EQ(::munmap(hole, 65536), 0);
}

// An array of buffers that cannot be read, or not to its end, is -EFAULT, too.
TEST(CountTest, AnUnreadableArrayIsAnErrorAndTakesNothing) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void *const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    auto *const hole = reinterpret_cast<iovec *>(static_cast<char *>(pages) + page);
    ASSERT_EQ(::mprotect(hole, page, PROT_NONE), 0);
    char buffer[8] = {};
    hole[-1] = {buffer, sizeof buffer};
    auto *const nowhere = reinterpret_cast<iovec *>(8);
    const std::pair<const iovec *, int> arrays[] = {{nowhere, 1}, {hole, 1}, {hole - 1, 2}, {hole - 128, 129}};

    Folder folder;
    const std::string name = folder.path("fifo"), file_name = folder.path("file");
    ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
    std::vector<std::pair<const char *, Stream>> streams;
    auto add = [&](const char *kind, int fd) {
        streams.emplace_back(kind, Stream{Descriptor(fd), Descriptor(::dup(fd))});
    };
    streams.emplace_back("pipe", make_stream(Kind::pipe));
    streams.emplace_back("socket", make_stream(Kind::unix_stream));
    add("fifo", ::open(name.c_str(), O_RDWR | O_CLOEXEC));
    add("eventfd", ::eventfd(0, EFD_CLOEXEC));
    add("null", ::open("/dev/null", O_RDWR | O_CLOEXEC));
    add("file", ::open(file_name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!simulated()) streams.emplace_back("terminal", make_stream(Kind::pty));
    const uint64_t number = 7;
    for (auto &[kind, stream] : streams) {
        SCOPED_TRACE(kind);
        for (bool ready : {false, true}) {
            if (!ready && simulated()) continue; // where a read may be refused, and wait
            if (ready) {
                ASSERT_EQ(::write(stream.writer, &number, sizeof number), ssize_t{sizeof number});
            }
            for (auto [array, count] : arrays) {
                EXPECT_EQ(fiber_readv(stream.reader, array, count), -EFAULT);
                // fiber_writev reads the array of a socket itself.
                if (kind != std::string("socket")) {
                    EXPECT_EQ(fiber_writev(stream.writer, array, count), -EFAULT);
                }
            }
        }
        if (kind == std::string("file")) {
            EXPECT_EQ(::lseek(stream.reader, 0, SEEK_CUR), off_t{sizeof number});
            EXPECT_EQ(::lseek(stream.reader, 0, SEEK_SET), 0);
        }
        if (kind != std::string("null")) {
            uint64_t got = 0;
            EXPECT_EQ(::read(stream.reader, &got, sizeof got), ssize_t{sizeof got});
            EXPECT_EQ(got, number);
        }
    }
    if (!simulated()) { // a read that counts the bytes of all buffers
        Stream terminal = make_stream(Kind::pty);
        termios mode;
        ASSERT_EQ(::tcgetattr(terminal.reader, &mode), 0);
        mode.c_cc[VMIN] = 2;
        ASSERT_EQ(::tcsetattr(terminal.reader, TCSANOW, &mode), 0);
        for (auto [array, count] : arrays) EXPECT_EQ(fiber_readv(terminal.reader, array, count), -EFAULT);
    }
    EXPECT_EQ(::munmap(pages, 2 * page), 0);
}

// So is the header of a message, and the array that it names.
TEST(CountTest, AnUnreadableMessageIsAnErrorAndTakesNothing) {
    Stream pair = make_stream(Kind::unix_stream);
    EXPECT_EQ(plain_write(pair.writer, "abc"), 3);
    msghdr message = {};
    message.msg_iov = reinterpret_cast<iovec *>(8);
    message.msg_iovlen = 1;
    for (msghdr *header : {&message, reinterpret_cast<msghdr *>(8)}) {
        for (int flags : {0, int{MSG_WAITALL}, int{MSG_WAITALL} | int{MSG_PEEK}, int{MSG_DONTWAIT}}) {
            EXPECT_EQ(fiber_recvmsg(pair.reader, header, flags), -EFAULT) << flags;
        }
        EXPECT_EQ(fiber_sendmsg(pair.writer, header, 0), -EFAULT);
    }
    // The library reads a message on its fiber's stack. This message begins in the guard below the stack.
    auto below_stack = [&] {
        auto *header = reinterpret_cast<msghdr *>(info(self()).stack_low - sizeof(void *));
        EXPECT_EQ(fiber_recvmsg(pair.reader, header, 0), -EFAULT);
    };
    run(below_stack);
    EXPECT_EQ(drain(pair.reader), "abc");
}

TEST(DescriptorTest, BadDescriptorsInEveryCall) {
    // A number so high that nothing that is opened meanwhile takes it: the backend opens descriptors too.
    Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC)), closed(fcntl(null, F_DUPFD_CLOEXEC, 600));
    const int gone = closed;
    ASSERT_GE(gone, 600);
    closed.close();
    Pipe pipe;
    EXPECT_EQ(plain_write(pipe.write_end, "kept"), 4);
    for (int fd : {-1, gone, 1 << 24, INT_MAX, INT_MIN}) {
        SCOPED_TRACE(fd);
        char buffer[4] = {};
        iovec part = {buffer, 4};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        struct statx about;
        EXPECT_EQ(fiber_read(fd, buffer, 4), -EBADF);
        EXPECT_EQ(fiber_write(fd, buffer, 4), -EBADF);
        EXPECT_EQ(fiber_readv(fd, &part, 1), -EBADF);
        EXPECT_EQ(fiber_writev(fd, &part, 1), -EBADF);
        EXPECT_EQ(fiber_pread(fd, buffer, 4, 0), -EBADF);
        EXPECT_EQ(fiber_pwrite(fd, buffer, 4, 0), -EBADF);
        EXPECT_EQ(fiber_recv(fd, buffer, 4, 0), -EBADF);
        EXPECT_EQ(fiber_send(fd, buffer, 4, 0), -EBADF);
        EXPECT_EQ(fiber_recvfrom(fd, buffer, 4, 0, nullptr, nullptr), -EBADF);
        EXPECT_EQ(fiber_sendto(fd, buffer, 4, 0, nullptr, 0), -EBADF);
        EXPECT_EQ(fiber_recvmsg(fd, &message, 0), -EBADF);
        EXPECT_EQ(fiber_sendmsg(fd, &message, 0), -EBADF);
        EXPECT_EQ(fiber_accept(fd, nullptr, nullptr), -EBADF);
        EXPECT_EQ(fiber_accept4(fd, nullptr, nullptr, SOCK_CLOEXEC), -EBADF);
        EXPECT_EQ(fiber_connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address), -EBADF);
        EXPECT_EQ(fiber_fsync(fd), -EBADF);
        EXPECT_EQ(fiber_fdatasync(fd), -EBADF);
        EXPECT_EQ(fiber_poll_fd(fd, POLLIN), -EBADF);
        size_t none = 0;
        EXPECT_EQ(fiber_getdents64(fd, buffer, 4), -EBADF);
        EXPECT_EQ(fiber_splice(fd, nullptr, pipe.write_end, nullptr, 4, 0), -EBADF);
        EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, fd, nullptr, 4, 0), -EBADF);
        EXPECT_EQ(fiber_copy(fd, pipe.write_end, 4, nullptr, nullptr), -EBADF);
        EXPECT_EQ(fiber_copy(pipe.read_end, fd, 4, nullptr, nullptr), -EBADF);
        EXPECT_EQ(fiber_send_fds(fd, buffer, 4, nullptr, 0), -EBADF);
        EXPECT_EQ(fiber_recv_fds(fd, buffer, 4, nullptr, &none, nullptr), -EBADF);
        EXPECT_EQ(fiber_close(fd), -EBADF);
        if (fd != INT_MIN) {
            open_how how = {};
            EXPECT_EQ(fiber_openat2(fd, "f", &how, sizeof how), -EBADF);
            EXPECT_EQ(fiber_renameat2(fd, "f", AT_FDCWD, "/no/such", 0), -EBADF);
            EXPECT_EQ(fiber_renameat2(AT_FDCWD, "/dev", fd, "f", 0), -EBADF);
            EXPECT_EQ(fiber_unlinkat(fd, "f", 0), -EBADF);
            EXPECT_EQ(fiber_mkdirat(fd, "f", 0700), -EBADF);
        }
        if (fd != INT_MIN) {
            EXPECT_EQ(fiber_statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &about), -EBADF);
        }
    }
}

TEST(DescriptorTest, HighNumbers) {
    rlimit limit = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    Pipe pipe;
    const int high = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, often(1 << 20, 1 << 12))) - 1;
    Descriptor reader(fcntl(pipe.read_end, F_DUPFD_CLOEXEC, high));
    ASSERT_EQ(reader, high) << "errno " << errno;
    char byte = 0;
    auto body = [&] { EXPECT_EQ(fiber_read(reader, &byte, 1), 1); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(plain_write(pipe.write_end, "h"), 1);
    join(fiber);
    EXPECT_EQ(byte, 'h');
    EXPECT_EQ(fiber_close(reader.release()), 0);
}

TEST(DescriptorTest, WithoutAFreeDescriptorTheBackendIsUnavailableForNow) {
    NOT_ON_SIM("needs no descriptors");
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    Pipe pipe;
    const std::string usual = fiber_backend_name();
    std::string then, later;
    int64_t refused = 0, read = 0;
    in_thread([&] {
        const int lowest = ::dup(0);
        ::close(lowest);
        const rlimit none = {static_cast<rlim_t>(lowest), before.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
        char byte;
        then = fiber_backend_name();
        refused = fiber_read(pipe.read_end, &byte, 1);
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        later = fiber_backend_name();
        EXPECT_EQ(plain_write(pipe.write_end, "b"), 1);
        read = fiber_read(pipe.read_end, &byte, 1);
    });
    EXPECT_EQ(then, "none");
    EXPECT_EQ(refused, -EMFILE);
    EXPECT_EQ(later, usual);
    EXPECT_EQ(read, 1);
}

TEST(DescriptorTest, ErrnoIsLeftAlone) {
    Pipe pipe;
    char byte = 'x';
    errno = 4711;
    EXPECT_EQ(fiber_read(-1, &byte, 1), -EBADF);
    EXPECT_EQ(errno, 4711);
    EXPECT_EQ(fiber_write(pipe.write_end, &byte, 1), 1);
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    EXPECT_EQ(fiber_open("/nowhere/at/all", O_RDONLY, 0), -ENOENT);
    EXPECT_EQ(fiber_close(-1), -EBADF);
    EXPECT_EQ(fiber_pread(pipe.read_end, &byte, 1, 0), -ESPIPE);
    FIBER_WITH_TIMEOUT(FIBER_USEC(100), nullptr) { EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), -ETIMEDOUT); }
    EXPECT_EQ(errno, 4711);
    errno = 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Threads that end with operations under way
// ---------------------------------------------------------------------------------------------------------------

TEST(ThreadExitTest, NoOperationOutlivesItsThread) {
    NEEDS_THREADS();
    for (int i = 0; i < 100; ++i) {
        Stream streams[4] = {make_stream(Kind::pipe), make_stream(Kind::unix_stream), make_stream(Kind::tcp),
                             make_stream(Kind::pipe, true)};
        int returned = 0;
        auto read_forever = [&](int index) {
            char frame[256];
            (void)fiber_read(streams[index].reader, frame, sizeof frame);
            ++returned;
        };
        auto zero = [&] { read_forever(0); };
        auto one = [&] { read_forever(1); };
        auto two = [&] { read_forever(2); };
        auto three = [&] { read_forever(3); };
        auto sleeper = [&] {
            (void)fiber_sleep(FIBER_SEC(1000));
            ++returned;
        };
        in_thread([&] {
            spawn(zero);
            spawn(one);
            spawn(two);
            spawn(three);
            spawn(sleeper);
            // Sometimes the thread ends with the operations queued, sometimes with them in the kernel.
            EXPECT_EQ(i % 2 == 0 ? fiber_reschedule() : fiber_sleep(FIBER_USEC(50)), 0);
        });
        EXPECT_EQ(returned, 0) << "a fiber ran after its thread's function had returned";
        // The stacks are gone. A read that was left behind would take these bytes, or write where the stacks were.
        for (Stream &stream : streams) EXPECT_EQ(plain_write(stream.writer, "left alone"), 10);
        for (Stream &stream : streams) ASSERT_EQ(drain(stream.reader, 10), "left alone");
    }
}

TEST(ThreadExitTest, ManyOperationsOfOneThread) {
    NEEDS_THREADS();
    Pipe pipe;
    auto body = [&] {
        char frame[64];
        (void)fiber_read(pipe.read_end, frame, sizeof frame);
    };
    in_thread([&] {
        (void)spawn_many(2000, body);
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
    });
    EXPECT_EQ(plain_write(pipe.write_end, "left alone"), 10);
    settle();
    EXPECT_EQ(drain(pipe.read_end), "left alone");
}

TEST(ThreadExitTest, EveryThreadHasABackendOfItsOwn) {
    NEEDS_THREADS();
    Pipe pipe;
    auto talk = [&] {
        Pipe mine;
        auto body = [&] {
            char byte;
            EXPECT_EQ(fiber_read(mine.read_end, &byte, 1), 1);
            EXPECT_EQ(fiber_write(pipe.write_end, "t", 1), 1);
        };
        fiber_t fiber = start(body);
        settle();
        EXPECT_EQ(fiber_write(mine.write_end, "x", 1), 1);
        join(fiber);
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(talk);
    // A plain thread's write ends this cord's wait.
    std::string seen;
    while (seen.size() < 8) {
        char byte;
        ASSERT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        seen += byte;
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(seen, "tttttttt");
}

} // namespace
