// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_close: operations on the descriptor end first, with -EBADF, so that no operation meets the next file with that
// number.
#include "conformance.h"
#include "io_calls.h"

#include <climits>
#include <dirent.h>
#include <poll.h>

#include <sys/resource.h>

using namespace support;

namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// A pipe whose read end has exactly this number.
Stream pipe_at(int number) {
    Stream pipe = make_stream(Kind::pipe);
    if (pipe.reader == number) return pipe;
    EXPECT_FALSE(is_open(number));
    EXPECT_EQ(fcntl(pipe.reader, F_DUPFD_CLOEXEC, number), number);
    pipe.reader = Descriptor(number);
    return pipe;
}

// ---------------------------------------------------------------------------------------------------------------
// Every call that waits
// ---------------------------------------------------------------------------------------------------------------

class CloseTest : public testing::TestWithParam<CallParameter> {
protected:
    void SetUp() override {
        if (std::get<0>(GetParam()) == Call::read_terminal) NOT_ON_SIM("has no terminals");
    }
    WaitingCall call{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

// TRAP: the waiters of a closed descriptor sleep for ever.
TEST_P(CloseTest, TheWaiterGetsEbadf) {
    int64_t result = 1;
    auto body = [&] { result = call.run(); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(result, 1);
    const int number = call.descriptor().release();
    EXPECT_EQ(fiber_close(number), 0);
    EXPECT_FALSE(is_open(number));
    join(fiber);
    EXPECT_EQ(result, -EBADF);
}

TEST_P(CloseTest, AWaiterWhoseOperationIsNotYetSubmittedGetsEbadfToo) {
    int64_t result = 1;
    auto body = [&] { result = call.run(); };
    fiber_t fiber = start(body);
    const int number = call.descriptor().release();
    EXPECT_EQ(fiber_close(number), 0);
    EXPECT_FALSE(is_open(number));
    join(fiber);
    EXPECT_EQ(result, -EBADF);
}

TEST_P(CloseTest, ManyWaitersAllGetEbadf) {
    constexpr int count = 20;
    int bad = 0;
    auto body = [&] { bad += call.run() == -EBADF; };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < count; ++i) fibers.push_back(start(body));
    settle();
    EXPECT_EQ(bad, 0);
    EXPECT_EQ(fiber_close(call.descriptor().release()), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(bad, count);
}

INSTANTIATE_TEST_SUITE_P(Calls, CloseTest, testing::Combine(testing::ValuesIn(all_calls), testing::Bool()),
                         call_parameter_name);

// ---------------------------------------------------------------------------------------------------------------
// The number comes back
// ---------------------------------------------------------------------------------------------------------------

class ReuseTest : public testing::TestWithParam<bool> {}; // the operation has reached the kernel, or not

// A queued, unsubmitted operation reaches whatever file has its number at the time of submission, unless close reaps it
// first.
TEST_P(ReuseTest, AReadNeverTakesFromTheNewDescriptor) {
    for (int i = 0; i < often(100, 2); ++i) {
        Stream old = make_stream(Kind::pipe);
        char buffer[8] = {};
        int64_t result = 1;
        auto body = [&] { result = fiber_read(old.reader, buffer, sizeof buffer); };
        fiber_t fiber = start(body);
        if (GetParam()) {
            EXPECT_EQ(fiber_sleep(0), 0);
        }
        const int number = old.reader.release();
        ASSERT_EQ(fiber_close(number), 0);
        Stream fresh = pipe_at(number);
        EXPECT_EQ(plain_write(fresh.writer, "for the new one"), 15);
        ASSERT_EQ(fiber_sleep(0), 0);
        join(fiber);
        ASSERT_EQ(result, -EBADF);
        ASSERT_EQ(drain(fresh.reader), "for the new one");
        ASSERT_EQ(buffer[0], 0);
    }
}

TEST_P(ReuseTest, AWriteNeverReachesTheNewDescriptor) {
    for (int i = 0; i < often(100, 2); ++i) {
        Stream old = make_stream(Kind::unix_stream);
        const size_t filled = GetParam() ? fill(old.writer) : 0;
        int64_t result = 1;
        auto body = [&] { result = fiber_write(old.writer, "old", 3); };
        fiber_t fiber = start(body);
        if (GetParam()) {
            EXPECT_EQ(fiber_sleep(0), 0);
        }
        const int number = old.writer.release();
        ASSERT_EQ(fiber_close(number), 0);
        Stream fresh = make_stream(Kind::unix_stream);
        if (fresh.reader == number) std::swap(fresh.reader, fresh.writer);
        Descriptor same_number;
        if (fresh.writer != number) same_number = Descriptor(fcntl(fresh.writer, F_DUPFD_CLOEXEC, number));
        ASSERT_TRUE(fresh.writer == number || same_number == number);
        join(fiber);
        ASSERT_EQ(fiber_sleep(0), 0);
        ASSERT_EQ(drain(fresh.reader), "");
        // It completed on the old one, or not at all.
        const std::string seen = drain(old.reader).substr(filled);
        ASSERT_TRUE((result == -EBADF && seen == "") || (result == 3 && seen == "old")) << result << seen;
    }
}

TEST_P(ReuseTest, NoStrayCompletionReachesTheNewReader) {
    for (int i = 0; i < often(100, 2); ++i) {
        Stream old = make_stream(Kind::pipe);
        int64_t old_result = 1;
        auto old_body = [&] {
            char byte;
            old_result = fiber_read(old.reader, &byte, 1);
        };
        fiber_t old_fiber = start(old_body);
        if (GetParam()) {
            EXPECT_EQ(fiber_sleep(0), 0);
        }
        const int number = old.reader.release();
        ASSERT_EQ(fiber_close(number), 0);
        Stream fresh = pipe_at(number);
        char byte = 0;
        int64_t result = 1;
        auto body = [&] { result = fiber_read(number, &byte, 1); };
        fiber_t fiber = start(body);
        ASSERT_EQ(fiber_sleep(0), 0);
        ASSERT_EQ(fiber_sleep(0), 0);
        ASSERT_EQ(fiber_state(fiber), FIBER_WAITING);
        ASSERT_EQ(result, 1);
        ASSERT_EQ(plain_write(fresh.writer, "n"), 1);
        join(fiber);
        join(old_fiber);
        ASSERT_EQ(result, 1);
        ASSERT_EQ(byte, 'n');
        ASSERT_EQ(old_result, -EBADF);
    }
}

TEST_P(ReuseTest, AnAcceptNeverTakesFromTheNewListener) {
    for (int i = 0; i < often(50, 2); ++i) {
        sockaddr_in address;
        Descriptor old = tcp_listener(address);
        int result = 1;
        auto body = [&] { result = fiber_accept(old, nullptr, nullptr); };
        fiber_t fiber = start(body);
        if (GetParam()) {
            EXPECT_EQ(fiber_sleep(0), 0);
        }
        const int number = old.release();
        ASSERT_EQ(fiber_close(number), 0);
        Descriptor fresh = tcp_listener(address);
        ASSERT_EQ(fresh, number) << "the lowest free number is given out";
        Descriptor client = tcp_client(address);
        join(fiber);
        ASSERT_EQ(result, -EBADF);
        Descriptor served(plain_accept(fresh));
        ASSERT_GE(served, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Submitted, ReuseTest, testing::Bool(), [](const testing::TestParamInfo<bool> &info) {
    return std::string(info.param ? "submitted" : "unsubmitted");
});

// ---------------------------------------------------------------------------------------------------------------
// The call itself
// ---------------------------------------------------------------------------------------------------------------

TEST(CloseCallTest, NoFiberWaits) {
    Stream pipe = make_stream(Kind::pipe);
    const int number = pipe.reader.release();
    EXPECT_EQ(fiber_close(number), 0);
    EXPECT_FALSE(is_open(number));
    EXPECT_EQ(fiber_poll_fd(pipe.writer, POLLOUT), POLLOUT | POLLERR);
    Descriptor file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(fiber_close(file.release()), 0);
}

TEST(CloseCallTest, BadDescriptors) {
    // A number so high that nothing that is opened meanwhile takes it: the backend opens descriptors too.
    Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const int number = fcntl(null, F_DUPFD_CLOEXEC, 600);
    EXPECT_EQ(fiber_close(number), 0);
    EXPECT_EQ(fiber_close(number), -EBADF);
    EXPECT_EQ(fiber_close(-1), -EBADF);
    EXPECT_EQ(fiber_close(INT_MIN), -EBADF);
    EXPECT_EQ(fiber_close(INT_MAX), -EBADF);
    EXPECT_EQ(fiber_close(1 << 24), -EBADF);
}

TEST(CloseCallTest, TheOtherSideSeesTheEnd) {
    Stream pair = make_stream(Kind::unix_stream);
    auto body = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pair.writer, &byte, 1), -EBADF);
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(fiber_close(pair.writer.release()), 0);
    join(fiber);
    // An operation that still held the file would keep the connection up.
    char byte;
    EXPECT_EQ(fiber_read(pair.reader, &byte, 1), 0);
}

TEST(CloseCallTest, ACancelledFiberMayClose) {
    Stream pair = make_stream(Kind::unix_stream), idle = make_stream(Kind::pipe);
    int64_t waiter_result = 1;
    auto wait = [&] {
        char byte;
        waiter_result = fiber_read(pair.reader, &byte, 1);
    };
    fiber_t waiter = start(wait);
    settle();
    auto close_cancelled = [&] {
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_close(idle.reader.release()), 0);
        EXPECT_EQ(fiber_close(pair.reader.release()), 0);
        EXPECT_EQ(fiber_close(-1), -EBADF);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
    };
    run(close_cancelled);
    join(waiter);
    EXPECT_EQ(waiter_result, -EBADF);
}

TEST(CloseCallTest, NoDeadlineEndsIt) {
    Stream pair = make_stream(Kind::unix_stream);
    int64_t waiter_result = 1;
    auto wait = [&] {
        char byte;
        waiter_result = fiber_read(pair.reader, &byte, 1);
    };
    fiber_t waiter = start(wait);
    settle();
    int verdict = 0;
    FIBER_WITH_TIMEOUT(FIBER_USEC(100), &verdict) {
        EXPECT_EQ(fiber_sleep(FIBER_SEC(10)), -ETIMEDOUT);
        EXPECT_EQ(fiber_close(pair.reader.release()), 0);
    }
    EXPECT_EQ(verdict, -ETIMEDOUT);
    join(waiter);
    EXPECT_EQ(waiter_result, -EBADF);
}

TEST(CloseCallTest, AnInterruptDoesNotKeepItFromClosing) {
    Stream pair = make_stream(Kind::unix_stream);
    int64_t waiter_result = 1;
    auto wait = [&] {
        char byte;
        waiter_result = fiber_read(pair.reader, &byte, 1);
    };
    fiber_t waiter = start(wait);
    settle();
    auto body = [&] {
        const int number = pair.reader.release();
        EXPECT_EQ(fiber_close(number), 0);
        EXPECT_FALSE(is_open(number));
        EXPECT_EQ(fiber_sleep(FIBER_SEC(10)), -EINTR);
    };
    fiber_t closer = create(body);
    EXPECT_EQ(fiber_interrupt(closer, nullptr), 0);
    EXPECT_EQ(fiber_start(closer), 0);
    join(closer);
    join(waiter);
    EXPECT_EQ(waiter_result, -EBADF);
}

TEST(CloseCallTest, InsideANoSwitchSectionItDoesNothing) {
    Stream pipe = make_stream(Kind::pipe);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_close(pipe.reader), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_TRUE(is_open(pipe.reader));
    EXPECT_EQ(fiber_close(pipe.reader.release()), 0);
}

TEST(CloseCallTest, OfTwoClosersOneIsTooLate) {
    for (int waiters : {0, 1, 5}) {
        Stream pair = make_stream(Kind::unix_stream);
        const int number = pair.reader.release();
        auto wait = [&] {
            char byte;
            EXPECT_EQ(fiber_read(number, &byte, 1), -EBADF);
        };
        std::vector<fiber_t> fibers;
        for (int i = 0; i < waiters; ++i) fibers.push_back(start(wait));
        settle();
        int closed = 0, late = 0;
        auto close_it = [&] {
            const int result = fiber_close(number);
            closed += result == 0;
            late += result == -EBADF;
        };
        fiber_t one = spawn(close_it), two = spawn(close_it);
        join(one);
        join(two);
        EXPECT_EQ(closed, 1);
        EXPECT_EQ(late, 1);
        for (fiber_t fiber : fibers) join(fiber);
    }
}

TEST(CloseCallTest, ACallBegunDuringACloseGetsEbadf) {
    Stream pair = make_stream(Kind::unix_stream);
    const int number = pair.reader.release();
    char byte;
    auto wait = [&] { EXPECT_EQ(fiber_read(number, &byte, 1), -EBADF); };
    fiber_t waiter = start(wait);
    settle();
    int result = 1;
    auto close_it = [&] { result = fiber_close(number); };
    fiber_t closer = start(close_it);
    EXPECT_EQ(fiber_read(number, &byte, 1), -EBADF);
    EXPECT_EQ(fiber_send(number, &byte, 1, 0), -EBADF);
    EXPECT_EQ(fiber_poll_fd(number, POLLIN), -EBADF);
    join(closer);
    EXPECT_EQ(result, 0);
    join(waiter);
}

TEST(CloseCallTest, AnotherNumberOfTheSameFileIsNotTouched) {
    Stream pipe = make_stream(Kind::pipe);
    Descriptor twin(fcntl(pipe.reader, F_DUPFD_CLOEXEC, 0));
    char byte = 0;
    int64_t result = -1, twin_result = 1;
    auto wait = [&] { result = fiber_read(pipe.reader, &byte, 1); };
    auto wait_twin = [&] {
        char other;
        twin_result = fiber_read(twin, &other, 1);
    };
    fiber_t waiter = start(wait), twin_waiter = start(wait_twin);
    settle();
    EXPECT_EQ(fiber_close(twin.release()), 0);
    join(twin_waiter);
    EXPECT_EQ(twin_result, -EBADF);
    EXPECT_EQ(fiber_state(waiter), FIBER_WAITING);
    EXPECT_EQ(plain_write(pipe.writer, "d"), 1);
    join(waiter);
    EXPECT_EQ(result, 1);
    EXPECT_EQ(byte, 'd');
}

// Completed before the close: the result stands. One poll wakes two readers; the first to run closes the descriptor of
// the other.
TEST(CloseCallTest, AnOperationThatHasCompletedKeepsItsResult) {
    int met = 0;
    for (int i = 0; i < often(100, 3); ++i) {
        Stream streams[2] = {make_stream(Kind::pipe), make_stream(Kind::pipe)};
        fiber_t fibers[2];
        int64_t results[2] = {-1, -1};
        bool completed = false;
        int finished = 0;
        auto body = [&](int mine) {
            const int other = 1 - mine;
            char byte = 0;
            results[mine] = expect_memory(fiber_read(streams[mine].reader, &byte, 1));
            if (finished++ != 0) return;
            completed = fiber_state(fibers[other]) == FIBER_RUNNABLE;
            EXPECT_EQ(fiber_close(streams[other].reader.release()), 0);
        };
        auto first = [&] { body(0); };
        auto second = [&] { body(1); };
        fibers[0] = start(first);
        fibers[1] = start(second);
        ASSERT_EQ(fiber_sleep(0), 0);
        ASSERT_EQ(plain_write(streams[0].writer, "a"), 1);
        ASSERT_EQ(plain_write(streams[1].writer, "b"), 1);
        join(fibers[0]);
        join(fibers[1]);
        const int64_t late = std::min(results[0], results[1]);
        EXPECT_EQ(std::max(results[0], results[1]), 1);
        EXPECT_TRUE(late == 1 || (late == -EBADF && !completed)) << late;
        met += completed;
        // Told of their ends libev watches the next ones of these numbers from the first look on.
        for (Stream &stream : streams) {
            if (stream.reader < 0) continue;
            EXPECT_EQ(fiber_close(stream.reader.release()), 0);
        }
    }
    if (!simulated()) {
        EXPECT_GT(met, 0) << "never were two completions found by one look";
    }
}

TEST(CloseCallTest, FilesWithOperationsUnderWay) {
    Folder folder;
    const std::string path = folder.path("file");
    const size_t size = often(65536, 4096);
    const std::string text = pattern(16 * size);
    for (int i = 0; i < often(20, 2); ++i) {
        Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        ASSERT_EQ(::pwrite(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
        int whole = 0, bad = 0;
        auto body = [&] {
            std::string part(size, '\0');
            const int64_t got = fiber_pread(file, part.data(), part.size(), static_cast<int64_t>(2 * size));
            whole += got == static_cast<int64_t>(size) && text.compare(2 * size, size, part) == 0;
            bad += got == -EBADF;
        };
        std::vector<fiber_t> fibers;
        for (int j = 0; j < 20; ++j) fibers.push_back(start(body));
        if (i % 2 != 0) {
            EXPECT_EQ(fiber_sleep(0), 0);
        }
        EXPECT_EQ(fiber_close(file.release()), 0);
        for (fiber_t fiber : fibers) join(fiber);
        EXPECT_EQ(whole + bad, 20);
    }
}

TEST(CloseCallTest, AThousandWaiters) {
    Stream pair = make_stream(Kind::unix_stream);
    const int number = pair.reader.release();
    int bad = 0;
    auto body = [&] {
        char byte;
        bad += fiber_recv(number, &byte, 1, 0) == -EBADF;
    };
    std::vector<fiber_t> fibers;
    const int count = often(1000, 30);
    for (int i = 0; i < count; ++i) fibers.push_back(spawn(body));
    settle();
    EXPECT_EQ(bad, 0);
    EXPECT_EQ(fiber_close(number), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(bad, count);
    EXPECT_EQ(stats().ops_in_flight, 0u);
}

// A close that takes long goes off the thread, also where the thread has no ring or loop yet.
TEST(CloseFirst, ASocketThatLingersDoesNotKeepAThreadThatHasDoneNoIo) {
    NEEDS_THREADS();
    Stream stream = make_stream(Kind::tcp);
    const size_t sent = fill(stream.reader);
    const linger patient = {1, 5};
    ASSERT_EQ(::setsockopt(stream.reader, SOL_SOCKET, SO_LINGER, &patient, sizeof patient), 0);
    in_thread([&] {
        int result = 1;
        auto body = [&] { result = fiber_close(stream.reader.release()); };
        fiber_t fiber = start(body);
        EXPECT_EQ(result, 1) << "the close kept the thread until it had ended";
        std::string taken(sent, '\0');
        EXPECT_EQ(::recv(stream.writer, taken.data(), sent, MSG_WAITALL), static_cast<ssize_t>(sent));
        join(fiber);
        EXPECT_EQ(result, 0);
    });
}

// Closing a descriptor with no operation under way needs no ring.
TEST(CloseFirst, TRAP_WorksWhenNoDescriptorIsLeftForTheRing) {
    NEEDS_THREADS();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    rlimit old;
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
    in_thread([&] {
        rlimit none = old;
        none.rlim_cur = 3;
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
        char byte;
        EXPECT_EQ(fiber_read(ends[0], &byte, 1), -EMFILE);
        EXPECT_EQ(fiber_close(ends[1]), 0);
        EXPECT_EQ(fiber_close(ends[1]), -EBADF);
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
        EXPECT_EQ(fiber_read(ends[0], &byte, 1), 0); // end of file: it was closed
        EXPECT_EQ(fiber_close(ends[0]), 0);
    });
}

int open_descriptors() {
    int count = 0;
    DIR *dir = ::opendir("/proc/self/fd");
    while (::readdir(dir)) count++;
    ::closedir(dir);
    return count;
}

// The descriptor that an operation has opened, or is just opening, for a fiber that never goes on.
TEST(CloseFirst, AThreadThatExitsClosesDescriptorsThatItsFibersNeverReceived) {
    NEEDS_THREADS();
    sockaddr_in address = own_address();
    const Descriptor listener = tcp_listener(address);
    in_thread([] { EXPECT_EQ(fiber_close(fiber_open("/dev/null", O_RDONLY | O_CLOEXEC, 0)), 0); });
    const int before = open_descriptors();
    for (const bool at_once : {true, false}) {
        for (int i = 0; i < 3; i++) {
            const Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            int opened = -1, accepted = -1;
            in_thread([&] {
                auto opens = [&] { opened = fiber_open("/dev/null", O_RDONLY | O_CLOEXEC, 0); };
                auto accepts = [&] { accepted = fiber_accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); };
                const fiber_t acceptor = start(accepts), opener = start(opens);
                EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
                while (!at_once && (fiber_state(opener) == FIBER_WAITING || fiber_state(acceptor) == FIBER_WAITING)) {
                    EXPECT_EQ(fiber_reschedule(), 0);
                }
            });
            if (opened >= 0) ::close(opened);
            if (accepted >= 0) ::close(accepted);
            if (accepted < 0) { // the connection may not have been taken from the queue
                pollfd look = {listener, POLLIN, 0};
                if (::poll(&look, 1, 0) == 1) ::close(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
            }
        }
        EXPECT_EQ(open_descriptors(), before) << at_once;
    }
    for (int i = 0; i < 3; i++) { // where others have their turn before the fiber hears of it
        int client = -1;
        bool given_way = false;
        in_thread([&] {
            auto accepts = [&] {
                for (int n = 0; n < 100'000 && !given_way; n++) {
                    client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                    EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
                    ::close(fiber_accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
                    ::close(client);
                }
            };
            start(accepts);
            given_way = true;
        });
        ::close(client);
        pollfd look = {listener, POLLIN, 0};
        if (::poll(&look, 1, 0) == 1) ::close(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        EXPECT_EQ(open_descriptors(), before);
    }
}

} // namespace
