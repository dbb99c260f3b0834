// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_close of a descriptor that fibers of other cords use.
#include "conformance.h"
#include "cord_support.h"
#include "io_calls.h"

#include <semaphore>
#include <thread>
#include <vector>

using namespace support;

namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Lets a cord submit the operations that its fibers have begun.
void settle_on(const Worker &worker) {
    run_on(worker.cord, [] { settle(); });
}

class CloseElsewhereTest : public testing::TestWithParam<CallParameter> {
protected:
    void SetUp() override {
        if (std::get<0>(GetParam()) == Call::read_terminal) NOT_ON_SIM("has no terminals");
    }
    WaitingCall call{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

// TRAP: the waiters of a descriptor that another thread closes sleep for ever.
TEST_P(CloseElsewhereTest, TheWaiterGetsEbadf) {
    Worker worker;
    int64_t result = 1;
    auto body = [&] { result = call.run(); };
    fiber_t fiber = spawn_on(worker.cord, body);
    settle_on(worker);
    const int number = call.descriptor().release();
    EXPECT_EQ(fiber_close(number), 0);
    EXPECT_FALSE(is_open(number));
    join(fiber);
    EXPECT_EQ(result, -EBADF);
}

// The cord that closes has done no I/O and opens no backend for it.
TEST_P(CloseElsewhereTest, ByACordWithoutIo) {
    Worker worker;
    int64_t result = 1;
    auto body = [&] { result = call.run(); };
    fiber_t fiber = spawn_on(worker.cord, body);
    settle_on(worker);
    const int number = call.descriptor().release();
    in_thread([&] { EXPECT_EQ(fiber_close(number), 0); });
    EXPECT_FALSE(is_open(number));
    join(fiber);
    EXPECT_EQ(result, -EBADF);
}

INSTANTIATE_TEST_SUITE_P(Calls, CloseElsewhereTest, testing::Combine(testing::ValuesIn(all_calls), testing::Bool()),
                         call_parameter_name);

TEST(CloseElsewhere, OfTwoAtOnceOneIsRefused) {
    for (int round = 0; round < often(100, 3); round++) {
        Stream pipe = make_stream(Kind::pipe);
        int number = pipe.reader.release();
        Worker worker;
        auto read_one = [&] {
            char byte;
            EXPECT_EQ(fiber_read(number, &byte, 1), -EBADF);
        };
        fiber_t reader = spawn_on(worker.cord, read_one);
        settle_on(worker);
        int there = 1;
        auto close_there = [&] { there = fiber_close(number); };
        fiber_t closer = spawn_on(worker.cord, close_there);
        int here = fiber_close(number);
        join(closer);
        join(reader);
        EXPECT_EQ(here + there, -EBADF) << here << " and " << there;
    }
}

// A thread that blocks does not poll. Its fibers' operations on other descriptors do not matter.
TEST(CloseElsewhere, DoesNotWaitForACordThatUsesOnlyOtherDescriptors) {
    NOT_ON_SIM("has one thread, which this would block");
    Worker worker;
    Stream used = make_stream(Kind::pipe);
    auto read_one = [&] {
        char byte;
        EXPECT_EQ(fiber_read(used.reader, &byte, 1), 1);
    };
    fiber_t reader = spawn_on(worker.cord, read_one);
    settle_on(worker);
    std::binary_semaphore blocks{0}, closed{0};
    auto block = [&] {
        blocks.release();
        closed.acquire();
    };
    fiber_t blocker = spawn_on(worker.cord, block);
    blocks.acquire();
    for (int apart : {64, 128, 512}) {
        const int other = dup2(used.writer, used.reader + apart);
        ASSERT_GE(other, 0);
        EXPECT_EQ(fiber_close(other), 0);
    }
    closed.release();
    EXPECT_EQ(write(used.writer, "x", 1), 1);
    for (fiber_t fiber : {blocker, reader}) join(fiber);
}

// Each cord waits for the other's fiber to let go.
TEST(CloseElsewhere, TwoCordsCloseEachOthersAtOnce) {
    for (int round = 0; round < often(100, 3); round++) {
        Worker a, b;
        Stream of_a = make_stream(Kind::pipe), of_b = make_stream(Kind::pipe);
        int number_a = of_a.reader.release(), number_b = of_b.reader.release();
        char bytes[2];
        int64_t results[2] = {1, 1};
        auto read_a = [&] { results[0] = fiber_read(number_a, &bytes[0], 1); };
        auto read_b = [&] { results[1] = fiber_read(number_b, &bytes[1], 1); };
        fiber_t reader_a = spawn_on(a.cord, read_a), reader_b = spawn_on(b.cord, read_b);
        settle_on(a);
        settle_on(b);
        auto close_b = [&] { EXPECT_EQ(fiber_close(number_b), 0); };
        auto close_a = [&] { EXPECT_EQ(fiber_close(number_a), 0); };
        fiber_t closer_b = spawn_on(a.cord, close_b), closer_a = spawn_on(b.cord, close_a);
        for (fiber_t fiber : {closer_a, closer_b, reader_a, reader_b}) join(fiber);
        EXPECT_EQ(results[0], -EBADF);
        EXPECT_EQ(results[1], -EBADF);
    }
}

// A fiber that reads again and again finds its descriptor closed between two reads as well as in one.
TEST(CloseElsewhere, AFiberThatReadsInALoopIsStopped) {
    Worker worker;
    auto open_backend = [] {
        EXPECT_EQ(fiber_write(-1, "x", 1), -EBADF);
    }; // which would take the number that is closed
    run_on(worker.cord, open_backend);
    for (int round = 0; round < often(300, 10); round++) {
        Stream pipe = make_stream(Kind::unix_stream);
        int number = pipe.reader.release();
        int64_t last = 1;
        auto read_all = [&] {
            char bytes[16];
            while ((last = fiber_read(number, bytes, sizeof bytes)) > 0) {}
        };
        fiber_t reader = spawn_on(worker.cord, read_all);
        for (int i = 0; i < round % 20; i++) {
            EXPECT_EQ(write(pipe.writer, "x", 1), 1);
            for (volatile int spin = 0; spin < round * 10;) spin = spin + 1;
        }
        EXPECT_EQ(fiber_close(number), 0);
        join(reader);
        EXPECT_EQ(last, -EBADF);
    }
}

// A cord removes from its kernel's set a descriptor that was reported in vain, while another cord closes it: this is no
// mistake, also not for ThreadSanitizer, which sees no order.
TEST(CloseElsewhere, OfADescriptorThatWasReportedToACordInVain) {
    NEEDS_THREADS();
    Stream idle = make_stream(Kind::pipe), watched = make_stream(Kind::pipe);
    Worker worker;
    char byte;
    auto read_idle = [&] { EXPECT_EQ(fiber_read(idle.reader, &byte, 1), 1); };
    auto read_once = [&] {
        char own;
        EXPECT_EQ(fiber_read(watched.reader, &own, 1), 1);
    };
    const fiber_t keeps_the_cord_looking = spawn_on(worker.cord, read_idle), reader = spawn_on(worker.cord, read_once);
    settle_on(worker);
    EXPECT_EQ(plain_write(watched.writer, "x"), 1);
    join(reader);
    EXPECT_EQ(plain_write(watched.writer, "y"), 1); // for which no fiber waits
    std::atomic<bool> told{false};
    auto looks = [&] {
        for (int i = 0; i < 100; i++) EXPECT_EQ(fiber_reschedule(), 0);
        told.store(true, std::memory_order_relaxed);
        EXPECT_EQ(fiber_reschedule(), 0);
    };
    const fiber_t looker = spawn_on(worker.cord, looks);
    while (!told.load(std::memory_order_relaxed)) usleep(100);
    EXPECT_EQ(fiber_close(watched.reader.release()), 0);
    EXPECT_EQ(plain_write(idle.writer, "x"), 1);
    join(looker);
    join(keeps_the_cord_looking);
}

// Numbers go from cord to cord: the new owner of a number is not taken for the previous one.
TEST(CloseElsewhere, AReusedNumberIsNotConfusedWithTheOldDescriptor) {
    const int rounds = often(2000, 10);
    auto body = [=] {
        for (int round = 0; round < rounds; round++) {
            int ends[2];
            ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
            uint64_t sent = self().id ^ uint64_t(round), got = 0;
            ASSERT_EQ(fiber_write(ends[1], &sent, sizeof sent), int64_t(sizeof sent));
            ASSERT_EQ(fiber_read(ends[0], &got, sizeof got), int64_t(sizeof got));
            ASSERT_EQ(got, sent);
            ASSERT_EQ(fiber_close(ends[0]), 0);
            ASSERT_EQ(fiber_close(ends[1]), 0);
        }
    };
    Worker workers[4];
    std::vector<fiber_t> fibers;
    for (const Worker &worker : workers) {
        for (int i = 0; i < 2; i++) fibers.push_back(spawn_on(worker.cord, body));
    }
    for (fiber_t fiber : fibers) join(fiber);
}

// Another thread begins its first I/O, on the very descriptor, while a close of it waits for the thread that closes.
void expect_refused_during_close(Descriptor descriptor) {
    const int number = fcntl(descriptor, F_DUPFD_CLOEXEC, 200); // which the other thread's backend does not get
    ASSERT_GE(number, 200);
    descriptor.close();
    auto close_it = [&] { EXPECT_EQ(fiber_close(number), 0); };
    fiber_t closer = start(close_it);
    int64_t result = 1;
    in_thread([&] {
        char byte;
        FIBER_WITH_TIMEOUT(FIBER_SEC(60), nullptr) { result = fiber_read(number, &byte, 1); }
    });
    EXPECT_EQ(result, -EBADF);
    join(closer);
    EXPECT_FALSE(is_open(number));
}

TEST(CloseElsewhere, TRAP_AnOperationThatBeginsDuringACloseIsRefused) {
    NEEDS_THREADS();
    settle();
    for (Kind kind : {Kind::pipe, Kind::unix_stream, Kind::tcp, Kind::pty}) {
        SCOPED_TRACE(kind_name(kind));
        Stream stream = make_stream(kind);
        EXPECT_EQ(fiber_write(stream.writer, "x", 1), 1); // this thread's backend is open
        char byte;
        EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1);
        expect_refused_during_close(std::move(stream.reader));
    }
}

TEST(CloseElsewhere, TRAP_AnOperationThatBeginsDuringTheCloseOfALingeringSocketIsRefused) {
    NEEDS_THREADS();
    Stream stream = make_stream(Kind::tcp);
    const linger patient = {1, 5};
    ASSERT_EQ(::setsockopt(stream.reader, SOL_SOCKET, SO_LINGER, &patient, sizeof patient), 0);
    EXPECT_EQ(fiber_write(stream.reader, "x", 1), 1);
    expect_refused_during_close(std::move(stream.reader));
    char byte;
    EXPECT_EQ(fiber_read(stream.writer, &byte, 1), 1);
    EXPECT_EQ(fiber_read(stream.writer, &byte, 1), 0);
}

// A close may wait for the peer; the thread does not, whether its backend is open or not.
TEST(CloseElsewhere, TRAP_OfASocketThatLingersKeepsNoOtherFiber) {
    NEEDS_THREADS();
    for (const bool first_operation : {true, false}) {
        SCOPED_TRACE(first_operation ? "the thread's first operation" : "after another");
        Stream stream = make_stream(Kind::tcp);
        const linger patient = {1, 5};
        ASSERT_EQ(::setsockopt(stream.writer, SOL_SOCKET, SO_LINGER, &patient, sizeof patient), 0);
        static char zeros[1 << 16];
        while (::send(stream.writer, zeros, sizeof zeros, MSG_DONTWAIT) > 0) {}
        in_thread([&] {
            if (!first_operation) {
                EXPECT_EQ(fiber_poll_fd(stream.reader, POLLIN), POLLIN);
            }
            bool closed = false;
            auto close_it = [&] {
                EXPECT_EQ(fiber_close(stream.writer.release()), 0);
                closed = true;
            };
            fiber_t closer = start(close_it);
            EXPECT_FALSE(closed) << "the thread has waited for the peer";
            while (::recv(stream.reader, zeros, sizeof zeros, 0) > 0) {}
            ::close(stream.reader.release());
            join(closer);
        });
    }
}

// The thread that uses the descriptor ends, with the operation under way, while another closes it.
TEST(CloseElsewhere, OfAThreadThatIsJustEnding) {
    NEEDS_THREADS();
    for (int round = 0; round < 100; round++) {
        Stream pipe = make_stream(Kind::pipe);
        int number = pipe.reader.release();
        std::atomic<bool> reading{false};
        std::thread user([&] {
            char byte;
            auto read_one = [&] { fiber_read(number, &byte, 1); };
            spawn(read_one);
            settle();
            reading = true;
        });
        await_holding_the_thread([&] { return reading.load(); });
        EXPECT_EQ(fiber_close(number), 0);
        user.join();
        EXPECT_FALSE(is_open(number));
    }
}

// The thread that closes ends, by returning from its function while its fiber still waits for the other cord.
TEST(CloseElsewhere, ByAThreadThatIsJustEnding) {
    NEEDS_THREADS();
    for (int round = 0; round < 100; round++) {
        Stream pipe = make_stream(Kind::pipe);
        int number = pipe.reader.release();
        Worker worker;
        int64_t result = 1;
        char byte;
        auto read_one = [&] { result = fiber_read(number, &byte, 1); };
        fiber_t reader = spawn_on(worker.cord, read_one);
        settle_on(worker);
        std::thread([&] {
            auto close_it = [&] { fiber_close(number); };
            spawn(close_it);
            fiber_reschedule(); // it has asked the other cord by now
        }).join();
        join(reader);
        EXPECT_EQ(result, -EBADF);
        close(number);
    }
}

// Each closes a descriptor that a fiber of the other uses; none of these fibers runs again.
TEST(CloseElsewhere, ByTwoThreadsThatAreJustEnding) {
    NEEDS_THREADS();
    for (int round = 0; round < 100; round++) {
        Stream pipes[2] = {make_stream(Kind::pipe), make_stream(Kind::pipe)};
        int numbers[2] = {pipes[0].reader.release(), pipes[1].reader.release()};
        std::atomic<int> reading{0}, asked{0};
        auto user = [&](int own) {
            char byte;
            auto read_one = [&] { fiber_read(numbers[own], &byte, 1); };
            auto close_other = [&] { fiber_close(numbers[!own]); };
            spawn(read_one);
            settle();
            reading++;
            await_holding_the_thread([&] { return reading == 2; });
            spawn(close_other);
            fiber_reschedule(); // it has asked the other cord by now
            asked++;
            await_holding_the_thread([&] { return asked == 2; });
        };
        std::thread first(user, 0), second(user, 1);
        first.join();
        second.join();
        close(numbers[0]);
        close(numbers[1]);
    }
}

} // namespace
