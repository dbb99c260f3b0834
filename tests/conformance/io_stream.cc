// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams: pipes, unix sockets, TCP and pseudo-terminals, each with and without O_NONBLOCK; accept and connect;
// descriptor passing; fiber_poll_fd; SIGPIPE.
#include "conformance.h"
#include "io_support.h"

#include <climits>
#include <sys/eventfd.h>
#include <sys/inotify.h>

using namespace support;

namespace {

// ---------------------------------------------------------------------------------------------------------------
// Reading and writing, on every kind of stream
// ---------------------------------------------------------------------------------------------------------------

TEST_P(StreamTest, ReadWaitsForDataAndReturnsIt) {
    char buffer[16] = {};
    int64_t got = -1;
    bool done = false;
    auto body = [&] {
        got = fiber_read(stream.reader, buffer, sizeof buffer);
        done = true;
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_FALSE(done);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(plain_write(stream.writer, "hello"), 5);
    join(fiber);
    EXPECT_EQ(got, 5);
    EXPECT_STREQ(buffer, "hello");
}

TEST_P(StreamTest, TheMainFlowReadsToo) {
    auto body = [&] {
        settle();
        EXPECT_EQ(fiber_write(stream.writer, "main", 4), 4);
    };
    fiber_t fiber = spawn(body);
    char buffer[16] = {};
    EXPECT_EQ(fiber_read(stream.reader, buffer, sizeof buffer), 4);
    EXPECT_STREQ(buffer, "main");
    join(fiber);
}

TEST_P(StreamTest, AReadReturnsTheBytesAvailableAndLeavesTheRest) {
    EXPECT_EQ(plain_write(stream.writer, "0123456789"), 10);
    char buffer[100] = {};
    EXPECT_EQ(fiber_read(stream.reader, buffer, 4), 4);
    EXPECT_EQ(std::string(buffer), "0123");
    EXPECT_EQ(drain(stream.reader, 6), "456789");
    EXPECT_EQ(plain_write(stream.writer, "short"), 5);
    EXPECT_EQ(fiber_read(stream.reader, buffer, sizeof buffer), 5);
}

// A library that reads ahead, or leaves an operation armed, takes bytes that a plain reader of the same process
// expects.
TEST_P(StreamTest, NothingIsTakenAfterTheCallHasReturned) {
    char buffer[4];
    auto body = [&] { EXPECT_EQ(fiber_read(stream.reader, buffer, sizeof buffer), 2); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(plain_write(stream.writer, "ab"), 2);
    join(fiber);
    EXPECT_EQ(plain_write(stream.writer, "the rest"), 8);
    EXPECT_EQ(drain(stream.reader, 8), "the rest");
}

// How often a full stream may turn out to have room: the kernel's TCP moves bytes on up to 40 ms after it took them.
int times_it_may_have_room(Kind kind) { return kind == Kind::tcp ? 20 : 0; }

TEST_P(StreamTest, WriteWaitsForRoom) {
    size_t expected = 0;
    int64_t put = -1;
    bool done = false;
    auto body = [&] {
        put = expect_memory(fiber_write(stream.writer, "Z", 1));
        done = true;
    };
    fiber_t fiber{};
    for (int times = times_it_may_have_room(kind()); times >= 0; times--) {
        expected += fill(stream.writer) + 1;
        fiber = start(body);
        settle();
        if (!done || times == 0) break;
        join(fiber);
        done = false;
    }
    EXPECT_FALSE(done);
    char last = 0;
    std::vector<char> chunk(65536);
    while (expected > 0) {
        const int64_t got = fiber_read(stream.reader, chunk.data(), chunk.size());
        if (got <= 0) {
            ADD_FAILURE() << "read: " << fiber_strerror(static_cast<int>(got));
            break;
        }
        last = chunk[static_cast<size_t>(got) - 1];
        expected -= static_cast<size_t>(got);
    }
    join(fiber);
    EXPECT_EQ(put, 1);
    EXPECT_EQ(last, 'Z');
}

TEST_P(StreamTest, APartialWriteReturnsTheNumberOfBytes) {
    static const std::string text = pattern(often(16 << 20, 1 << 20));
    lessen_room(stream.writer);
    int64_t put = 0;
    // With no reader, the kernel takes some bytes and no more. Whether the call returns then or waits for its deadline,
    // it must report the number of bytes that went in, and a pseudo-terminal or pipe may not hold on to others.
    // On a busy machine a helper thread may not have begun by then: so the test tries again, with more time.
    for (int64_t time = FIBER_MSEC(50); put <= 0 && time < FIBER_SEC(10); time *= 2) {
        FIBER_WITH_TIMEOUT(time, nullptr) { put = fiber_write(stream.writer, text.data(), text.size()); }
        ASSERT_TRUE(put > 0 || put == -ETIMEDOUT) << put;
    }
    ASSERT_GT(put, 0);
    ASSERT_LT(static_cast<size_t>(put), text.size());
    const std::string seen = drain(stream.reader, static_cast<size_t>(put));
    EXPECT_EQ(seen.size(), static_cast<size_t>(put));
    EXPECT_TRUE(text.compare(0, seen.size(), seen) == 0);
}

TEST_P(StreamTest, ALongTransferArrivesWholeAndInOrder) {
    const std::string text = pattern(kind() == Kind::pty ? 128 << 10 : often(4 << 20, 48 << 10));
    auto write_all = [&] {
        size_t at = 0;
        while (at < text.size()) {
            const int64_t put = fiber_write(stream.writer, text.data() + at, std::min<size_t>(70001, text.size() - at));
            ASSERT_GT(put, 0) << fiber_strerror(static_cast<int>(put));
            at += static_cast<size_t>(put);
        }
    };
    fiber_t writer = spawn(write_all);
    std::string seen;
    std::vector<char> chunk(7777);
    while (seen.size() < text.size()) {
        const int64_t got = fiber_read(stream.reader, chunk.data(), chunk.size());
        ASSERT_GT(got, 0) << fiber_strerror(static_cast<int>(got));
        seen.append(chunk.data(), static_cast<size_t>(got));
    }
    join(writer);
    EXPECT_TRUE(seen == text);
}

TEST_P(StreamTest, ReadsToTheEndAndTheEndStays) {
    if (kind() == Kind::pty) {
        // A terminal has no end of file but a hang-up: its other side gets EIO, as in POSIX.
        stream.reader.close();
        char byte;
        EXPECT_EQ(fiber_read(stream.writer, &byte, 1), -EIO);
        return;
    }
    EXPECT_EQ(plain_write(stream.writer, "tail"), 4);
    stream.writer.close();
    char buffer[16];
    EXPECT_EQ(fiber_read(stream.reader, buffer, sizeof buffer), 4);
    EXPECT_EQ(fiber_read(stream.reader, buffer, sizeof buffer), 0);
    EXPECT_EQ(fiber_read(stream.reader, buffer, sizeof buffer), 0);
}

TEST_P(StreamTest, TheEndWakesAReaderThatWaits) {
    if (kind() == Kind::pty) {
        auto body = [&] {
            char byte;
            EXPECT_EQ(fiber_read(stream.writer, &byte, 1), -EIO);
        };
        fiber_t fiber = start(body);
        settle();
        stream.reader.close();
        join(fiber);
        return;
    }
    auto body = [&] {
        char byte;
        EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 0);
    };
    fiber_t fiber = start(body);
    settle();
    stream.writer.close();
    join(fiber);
}

TEST_P(StreamTest, ZeroBytesAreNoWait) {
    EXPECT_EQ(fiber_read(stream.reader, nullptr, 0), 0);
    EXPECT_EQ(fiber_write(stream.writer, nullptr, 0), 0);
    EXPECT_EQ(fiber_readv(stream.reader, nullptr, 0), 0);
    EXPECT_EQ(fiber_writev(stream.writer, nullptr, 0), 0);
    settle();
    EXPECT_EQ(drain(stream.reader), "");
}

TEST_P(StreamTest, SeveralBuffersAreOneTotal) {
    char first[3], second[1], third[100];
    iovec parts[4] = {{first, sizeof first}, {nullptr, 0}, {second, sizeof second}, {third, sizeof third}};
    int64_t got = -1;
    auto body = [&] { got = fiber_readv(stream.reader, parts, 4); };
    fiber_t fiber = start(body);
    settle();
    char a[] = "ab", b[] = "cdefgh", c[] = "ij";
    iovec out[3] = {{a, 2}, {b, 6}, {c, 2}};
    EXPECT_EQ(fiber_writev(stream.writer, out, 3), 10);
    join(fiber);
    // A stream may hand over the parts of a writev one by one only where the kernel writes them so: a terminal.
    if (kind() != Kind::pty) {
        EXPECT_EQ(got, 10);
    }
    ASSERT_GE(got, 4);
    EXPECT_EQ(std::string(first, 3) + std::string(second, 1), "abcd");
    EXPECT_EQ(std::string(third, static_cast<size_t>(got) - 4) + drain(stream.reader, 10 - static_cast<size_t>(got)),
              "efghij");
}

TEST_P(StreamTest, TheCountOfBuffersIsChecked) {
    char byte = 'x';
    std::vector<iovec> parts(1025, iovec{&byte, 1});
    EXPECT_EQ(fiber_writev(stream.writer, parts.data(), -1), -EINVAL);
    EXPECT_EQ(fiber_writev(stream.writer, parts.data(), 1025), -EINVAL);
    EXPECT_EQ(fiber_readv(stream.reader, parts.data(), -1), -EINVAL);
    EXPECT_EQ(fiber_readv(stream.reader, parts.data(), 1025), -EINVAL);
    EXPECT_EQ(fiber_writev(stream.writer, parts.data(), 1024), 1024);
    int64_t got = fiber_readv(stream.reader, parts.data(), 1024);
    while (kind() == Kind::pty && got > 0 && got < 1024) { // a terminal hands over as much as it was written at once
        got += fiber_readv(stream.reader, parts.data(), static_cast<int>(1024 - got));
    }
    EXPECT_EQ(got, 1024);
}

TEST_P(StreamTest, TwoFibersWaitingOnOneDescriptorAreBothServed) {
    std::string seen;
    int served = 0;
    auto body = [&] {
        char byte = '?';
        EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1);
        seen += byte;
        ++served;
    };
    fiber_t one = start(body);
    fiber_t two = start(body);
    settle();
    EXPECT_EQ(served, 0);
    EXPECT_EQ(plain_write(stream.writer, "a"), 1);
    EXPECT_TRUE(eventually([&] { return served == 1; }));
    settle();
    EXPECT_EQ(served, 1);
    EXPECT_EQ(plain_write(stream.writer, "b"), 1);
    join(one);
    join(two);
    EXPECT_EQ(seen, "ab");
}

TEST_P(StreamTest, OneWriteServesTwoWaitingFibers) {
    std::string seen;
    auto body = [&] {
        char byte = '?';
        EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1);
        seen += byte;
    };
    fiber_t one = start(body);
    fiber_t two = start(body);
    settle();
    EXPECT_EQ(plain_write(stream.writer, "ab"), 2);
    join(one);
    join(two);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, "ab");
}

TEST_P(StreamTest, TwoWritersWaitingForRoomAreBothServed) {
    const size_t filled = fill(stream.writer);
    auto body = [&] { EXPECT_EQ(fiber_write(stream.writer, "w", 1), 1); };
    fiber_t one = start(body);
    fiber_t two = start(body);
    settle();
    std::string seen;
    std::vector<char> chunk(65536);
    while (seen.size() < filled + 2) {
        const int64_t got = fiber_read(stream.reader, chunk.data(), chunk.size());
        ASSERT_GT(got, 0);
        seen.append(chunk.data(), static_cast<size_t>(got));
    }
    join(one);
    join(two);
    EXPECT_EQ(seen.substr(filled), "ww");
}

TEST_P(StreamTest, OneDescriptorIsReadAndWrittenAtOnce) {
    if (kind() == Kind::pipe) return; // its ends go one way only: the sockets and the terminal prove this
    char byte = 0;
    auto read_here = [&] { EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1); };
    fiber_t fiber = start(read_here);
    settle();
    EXPECT_EQ(fiber_write(stream.reader, "back", 4), 4);
    char buffer[8] = {};
    EXPECT_EQ(fiber_read(stream.writer, buffer, sizeof buffer), 4);
    EXPECT_STREQ(buffer, "back");
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(fiber_write(stream.writer, "x", 1), 1);
    join(fiber);
    EXPECT_EQ(byte, 'x');
}

// TRAP: a wakeup that is meant for a yield ends an I/O wait early in other systems.
TEST_P(StreamTest, AWakeupDoesNotEndAWaitForData) {
    bool done = false;
    auto body = [&] {
        char byte = 0;
        EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1);
        EXPECT_EQ(byte, 'd');
        done = true;
        EXPECT_EQ(fiber_yield_timeout(FIBER_SEC(10)), 0); // the wakeup was kept for here
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    settle();
    EXPECT_FALSE(done);
    EXPECT_EQ(info(fiber).permit, 1);
    EXPECT_EQ(plain_write(stream.writer, "d"), 1);
    join(fiber);
    EXPECT_TRUE(done);
}

// The library may remember a descriptor's kind, but the program may change the flag at any time.
TEST_P(StreamTest, TheNonblockFlagMayChangeBetweenCalls) {
    for (bool on : {!nonblock(), nonblock(), !nonblock(), nonblock()}) {
        set_nonblock(stream.reader, on);
        char byte = 0;
        auto body = [&] { EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1); };
        fiber_t fiber = start(body);
        settle();
        EXPECT_EQ(plain_write(stream.writer, "n"), 1);
        join(fiber);
        EXPECT_EQ(byte, 'n');
        EXPECT_EQ((status_flags(stream.reader) & O_NONBLOCK) != 0, on);
    }
}

TEST_P(StreamTest, TheFlagMayChangeDuringTheWait) {
    char byte = 0;
    auto body = [&] { EXPECT_EQ(fiber_read(stream.reader, &byte, 1), 1); };
    fiber_t fiber = start(body);
    settle();
    set_nonblock(stream.reader, !nonblock());
    settle();
    EXPECT_EQ(plain_write(stream.writer, "n"), 1);
    join(fiber);
    EXPECT_EQ(byte, 'n');
    set_nonblock(stream.reader, nonblock());
}

TEST_P(StreamTest, PositionsAreRefused) {
    if (kind() == Kind::pty) {
        NOT_UNDER_QEMU("itself decides whether a transfer takes a position");
    }
    char byte = 'x';
    EXPECT_EQ(fiber_pread(stream.reader, &byte, 1, 0), -ESPIPE);
    EXPECT_EQ(fiber_pwrite(stream.writer, &byte, 1, 0), -ESPIPE);
    EXPECT_EQ(drain(stream.reader), "");
}

TEST_P(StreamTest, PollWaitsUntilReadable) {
    int events = 0;
    auto body = [&] { events = fiber_poll_fd(stream.reader, POLLIN); };
    fiber_t one = start(body);
    settle();
    EXPECT_EQ(events, 0);
    EXPECT_EQ(plain_write(stream.writer, "p"), 1);
    join(one);
    EXPECT_EQ(events, POLLIN);
    // Readiness takes nothing.
    EXPECT_EQ(fiber_poll_fd(stream.reader, POLLIN), POLLIN);
    EXPECT_EQ(drain(stream.reader), "p");
}

TEST_P(StreamTest, PollWaitsUntilWritable) {
    EXPECT_EQ(fiber_poll_fd(stream.writer, POLLOUT), POLLOUT);
    size_t filled = 0;
    int events = 0;
    auto body = [&] { events = fiber_poll_fd(stream.writer, POLLOUT); };
    fiber_t fiber{};
    for (int times = times_it_may_have_room(kind()); times >= 0; times--) {
        filled += fill(stream.writer);
        fiber = start(body);
        settle();
        if (!events || times == 0) break;
        join(fiber);
        events = 0;
    }
    EXPECT_EQ(events, 0);
    EXPECT_EQ(drain(stream.reader, filled).size(), filled);
    join(fiber);
    EXPECT_EQ(events, POLLOUT);
}

TEST_P(StreamTest, PollReportsAHangUpUnasked) {
    const int fd = kind() == Kind::pty ? stream.writer : stream.reader;
    int events = 0;
    auto body = [&] { events = fiber_poll_fd(fd, POLLPRI); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(events, 0);
    if (kind() == Kind::pty) {
        stream.reader.close();
    } else if (kind() == Kind::tcp) {
        // Both directions must be shut before TCP says so.
        EXPECT_EQ(::shutdown(stream.reader, SHUT_WR), 0);
        stream.writer.close();
    } else {
        stream.writer.close();
    }
    join(fiber);
    EXPECT_EQ(events & ~(POLLHUP | POLLERR), 0) << events;
    EXPECT_TRUE(events & POLLHUP) << events;
}

TEST_P(StreamTest, SeveralFibersPollOneDescriptor) {
    int ready = 0;
    auto body = [&] { ready += fiber_poll_fd(stream.reader, POLLIN) == POLLIN; };
    fiber_t fibers[3] = {start(body), start(body), start(body)};
    settle();
    EXPECT_EQ(ready, 0);
    EXPECT_EQ(plain_write(stream.writer, "p"), 1);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(ready, 3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StreamTest,
                         testing::Combine(testing::Values(Kind::pipe, Kind::unix_stream, Kind::tcp, Kind::pty),
                                          testing::Bool()),
                         stream_parameter_name);

// ---------------------------------------------------------------------------------------------------------------
// Sockets
// ---------------------------------------------------------------------------------------------------------------

class SocketTest : public StreamTest {};

TEST_P(SocketTest, RecvTakesNoMoreThanAsked) {
    char buffer[4] = {};
    int64_t got = -1;
    auto body = [&] { got = fiber_recv(stream.reader, buffer, 3, 0); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(fiber_send(stream.writer, "abcdef", 6, 0), 6);
    join(fiber);
    EXPECT_EQ(got, 3);
    EXPECT_STREQ(buffer, "abc");
    char rest[16] = {};
    EXPECT_EQ(::recv(stream.reader, rest, sizeof rest, MSG_DONTWAIT), 3);
    EXPECT_STREQ(rest, "def");
}

TEST_P(SocketTest, DontWaitReturnsAtOnce) {
    char buffer[16] = {};
    iovec part = {buffer, sizeof buffer};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    EXPECT_EQ(fiber_recv(stream.reader, buffer, sizeof buffer, MSG_DONTWAIT), -EAGAIN);
    EXPECT_EQ(fiber_recvmsg(stream.reader, &message, MSG_DONTWAIT), -EAGAIN);
    fill(stream.writer);
    int64_t sent; // TCP may still have moved some on
    while ((sent = fiber_send(stream.writer, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {}
    EXPECT_EQ(sent, -EAGAIN);
    while ((sent = fiber_sendmsg(stream.writer, &message, MSG_DONTWAIT)) > 0) {}
    EXPECT_EQ(sent, -EAGAIN);
}

TEST_P(SocketTest, DontWaitTakesTheBytesAvailable) {
    EXPECT_EQ(fiber_send(stream.writer, "now", 3, MSG_DONTWAIT), 3);
    char buffer[16];
    EXPECT_EQ(fiber_poll_fd(stream.reader, POLLIN), POLLIN);
    EXPECT_EQ(fiber_recv(stream.reader, buffer, sizeof buffer, MSG_DONTWAIT), 3);
}

TEST_P(SocketTest, PeekLeavesTheData) {
    char buffer[16] = {};
    auto body = [&] { EXPECT_EQ(fiber_recv(stream.reader, buffer, sizeof buffer, MSG_PEEK), 4); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(plain_write(stream.writer, "peek"), 4);
    join(fiber);
    EXPECT_EQ(drain(stream.reader, 4), "peek");
}

TEST_P(SocketTest, WaitAllWaitsForAll) {
    char buffer[11] = {};
    bool done = false;
    auto body = [&] {
        EXPECT_EQ(fiber_recv(stream.reader, buffer, 10, MSG_WAITALL), 10);
        done = true;
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(plain_write(stream.writer, "01234"), 5);
    settle();
    EXPECT_FALSE(done);
    EXPECT_EQ(plain_write(stream.writer, "56789rest"), 9);
    join(fiber);
    EXPECT_STREQ(buffer, "0123456789");
    EXPECT_EQ(drain(stream.reader, 4), "rest");
}

TEST_P(SocketTest, MessagesOfSeveralBuffers) {
    char first[2], second[30];
    iovec parts[2] = {{first, sizeof first}, {second, sizeof second}};
    msghdr in = {};
    in.msg_iov = parts;
    in.msg_iovlen = 2;
    in.msg_flags = -1;
    int64_t got = -1;
    auto body = [&] { got = fiber_recvmsg(stream.reader, &in, 0); };
    fiber_t fiber = start(body);
    settle();
    char a[] = "mess", b[] = "age";
    iovec out_parts[2] = {{a, 4}, {b, 3}};
    msghdr out = {};
    out.msg_iov = out_parts;
    out.msg_iovlen = 2;
    EXPECT_EQ(fiber_sendmsg(stream.writer, &out, 0), 7);
    join(fiber);
    EXPECT_EQ(got, 7);
    EXPECT_EQ(std::string(first, 2) + std::string(second, 5), "message");
    EXPECT_EQ(in.msg_flags & (MSG_TRUNC | MSG_CTRUNC), 0);
    EXPECT_EQ(in.msg_controllen, 0u);
}

TEST_P(SocketTest, RecvReadsToTheEnd) {
    EXPECT_EQ(fiber_send(stream.writer, "tail", 4, 0), 4);
    EXPECT_EQ(::shutdown(stream.writer, SHUT_WR), 0);
    char buffer[16];
    EXPECT_EQ(fiber_recv(stream.reader, buffer, sizeof buffer, 0), 4);
    EXPECT_EQ(fiber_recv(stream.reader, buffer, sizeof buffer, 0), 0);
    iovec part = {buffer, sizeof buffer};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    EXPECT_EQ(fiber_recvmsg(stream.reader, &message, 0), 0);
    // The other direction lives on.
    EXPECT_EQ(fiber_send(stream.reader, "x", 1, 0), 1);
    EXPECT_EQ(fiber_recv(stream.writer, buffer, sizeof buffer, 0), 1);
}

TEST_P(SocketTest, ShutdownWakesAReader) {
    auto body = [&] {
        char byte;
        EXPECT_EQ(fiber_recv(stream.reader, &byte, 1, 0), 0);
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(::shutdown(stream.reader, SHUT_RD), 0);
    join(fiber);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SocketTest,
                         testing::Combine(testing::Values(Kind::unix_stream, Kind::tcp), testing::Bool()),
                         stream_parameter_name);

// Descriptors other than streams are read the same way.
TEST(EventfdTest, AReadWaitsForTheCounter) {
    for (int flags : {0, static_cast<int>(EFD_NONBLOCK)}) {
        Descriptor counter(::eventfd(0, EFD_CLOEXEC | flags));
        uint64_t value = 0;
        bool done = false;
        auto body = [&] {
            EXPECT_EQ(fiber_read(counter, &value, sizeof value), 8);
            done = true;
        };
        fiber_t fiber = start(body);
        settle();
        EXPECT_FALSE(done);
        const uint64_t seven = 7;
        EXPECT_EQ(fiber_write(counter, &seven, sizeof seven), 8);
        join(fiber);
        EXPECT_EQ(value, 7u);
        uint32_t small;
        EXPECT_EQ(fiber_write(counter, &seven, sizeof seven), 8);
        EXPECT_EQ(fiber_read(counter, &small, sizeof small), -EINVAL);
        EXPECT_EQ((status_flags(counter) & O_NONBLOCK) != 0, flags != 0);
    }
}

// It has room, says poll: but not for so large a number.
TEST(EventfdTest, TRAP_AWriteThatDoesNotFitWaitsAndDoesNotSpin) {
    for (int flags : {0, static_cast<int>(EFD_NONBLOCK)}) {
        Descriptor counter(::eventfd(0, EFD_CLOEXEC | flags));
        uint64_t value = UINT64_MAX - 2;
        ASSERT_EQ(::write(counter, &value, sizeof value), 8);
        bool done = false;
        auto body = [&] {
            const uint64_t five = 5;
            EXPECT_EQ(fiber_write(counter, &five, sizeof five), 8);
            done = true;
        };
        const uint64_t ops_before = stats().ops;
        fiber_t fiber = start(body);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(100)), 0);
        EXPECT_FALSE(done);
        EXPECT_LT(stats().ops - ops_before, 100u);
        ASSERT_EQ(::read(counter, &value, sizeof value), 8);
        join(fiber);
        ASSERT_EQ(::read(counter, &value, sizeof value), 8);
        EXPECT_EQ(value, 5u);
    }
}

// The one number that no eventfd takes. (Of a full one a ring waits for room before it tries.)
TEST(EventfdTest, TRAP_TheLargestNumberIsRefused) {
    Descriptor counter(::eventfd(0, EFD_CLOEXEC));
    const uint64_t largest = UINT64_MAX;
    int64_t result = 0;
    FIBER_WITH_TIMEOUT(FIBER_SEC(60), nullptr) { result = fiber_write(counter, &largest, sizeof largest); }
    EXPECT_EQ(result, -EINVAL);
}

TEST(EventfdTest, TRAP_ABadAddressIsEfault) {
    Descriptor counter(::eventfd(0, EFD_CLOEXEC));
    void *const nowhere = pointer(8);
    EXPECT_EQ(fiber_write(counter, nowhere, 8), -EFAULT);
    const iovec null = {nullptr, 8};
    EXPECT_EQ(fiber_writev(counter, &null, 1), -EFAULT);
    uint64_t one = 1;
    const iovec parts[2] = {{&one, sizeof one}, {nowhere, 8}};
    EXPECT_EQ(fiber_writev(counter, parts, 2), 8);
    EXPECT_EQ(fiber_read(counter, &one, sizeof one), 8);
}

// The kernel writes them one after the other, and would wait with the second.
TEST(EventfdTest, TRAP_OfTwoNumbersTheSecondDoesNotFit) {
    Descriptor counter(::eventfd(0, EFD_CLOEXEC));
    uint64_t value = UINT64_MAX - 3;
    ASSERT_EQ(::write(counter, &value, sizeof value), 8);
    uint64_t numbers[2] = {1, 5};
    int64_t put = 0;
    auto body = [&] {
        const iovec parts[2] = {{&numbers[0], 8}, {&numbers[1], 8}};
        put = fiber_writev(counter, parts, 2);
    };
    const fiber_t fiber = start(body);
    settle(); // the thread goes on
    ASSERT_EQ(::read(counter, &value, sizeof value), 8);
    // A ring's thread may not have begun.
    EXPECT_TRUE(value == UINT64_MAX - 2 || (value == UINT64_MAX - 3 && std::string(fiber_backend_name()) == "uring"))
        << value;
    join(fiber);
    EXPECT_TRUE(put == 8 || put == 16) << put; // or may wait
}

// Of inotify the kernel reads into one buffer after the other, and would wait with the second.
TEST(InotifyTest, TRAP_ABufferThatIsJustFilled) {
    NOT_ON_SIM("has no inotify");
    Folder folder;
    Descriptor watch(::inotify_init1(IN_CLOEXEC));
    ASSERT_GE(::inotify_add_watch(watch, folder.name().c_str(), IN_CREATE), 0);
    constexpr size_t size = sizeof(inotify_event) + 16; // of a short name
    alignas(inotify_event) char events[2][size];
    int64_t got = 0;
    auto body = [&] {
        const iovec parts[2] = {{events[0], size}, {events[1], size}};
        got = fiber_readv(watch, parts, 2);
    };
    const fiber_t fiber = start(body);
    settle();
    for (const char *name : {"one", "two"}) {
        Descriptor file(::open(folder.path(name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        ASSERT_GE(file, 0);
        settle(); // the thread goes on
    }
    join(fiber);
    EXPECT_TRUE(got == int64_t(size) || got == int64_t(2 * size)) << got; // a ring's thread may wait
}

// ---------------------------------------------------------------------------------------------------------------
// Descriptor passing
// ---------------------------------------------------------------------------------------------------------------

TEST(ScmRightsTest, DescriptorsTravelOverAUnixSocket) {
    for (bool nonblock : {false, true}) {
        Stream carrier = make_stream(Kind::unix_stream, nonblock);
        Pipe first, second;
        char byte = 0;
        iovec part = {&byte, 1};
        alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
        msghdr in = {};
        in.msg_iov = &part;
        in.msg_iovlen = 1;
        in.msg_control = control;
        in.msg_controllen = sizeof control;
        int64_t got = -1;
        auto body = [&] { got = fiber_recvmsg(carrier.reader, &in, MSG_CMSG_CLOEXEC); };
        fiber_t fiber = start(body);
        settle();

        char payload = 'p';
        iovec out_part = {&payload, 1};
        alignas(cmsghdr) char out_control[CMSG_SPACE(2 * sizeof(int))] = {};
        msghdr out = {};
        out.msg_iov = &out_part;
        out.msg_iovlen = 1;
        out.msg_control = out_control;
        out.msg_controllen = sizeof out_control;
        cmsghdr *header = CMSG_FIRSTHDR(&out);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(2 * sizeof(int));
        const int sent[2] = {first.read_end, second.read_end};
        memcpy(CMSG_DATA(header), sent, sizeof sent);
        EXPECT_EQ(fiber_sendmsg(carrier.writer, &out, 0), 1);
        join(fiber);

        ASSERT_EQ(got, 1);
        EXPECT_EQ(byte, 'p');
        cmsghdr *received = CMSG_FIRSTHDR(&in);
        ASSERT_NE(received, nullptr);
        EXPECT_EQ(received->cmsg_type, SCM_RIGHTS);
        ASSERT_EQ(received->cmsg_len, CMSG_LEN(2 * sizeof(int)));
        int numbers[2];
        memcpy(numbers, CMSG_DATA(received), sizeof numbers);
        Descriptor one(numbers[0]), two(numbers[1]);
        EXPECT_NE(fcntl(one, F_GETFD) & FD_CLOEXEC, 0);
        EXPECT_EQ(plain_write(first.write_end, "1"), 1);
        EXPECT_EQ(plain_write(second.write_end, "2"), 1);
        EXPECT_EQ(fiber_read(one, &byte, 1), 1);
        EXPECT_EQ(byte, '1');
        EXPECT_EQ(fiber_read(two, &byte, 1), 1);
        EXPECT_EQ(byte, '2');
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Accept and connect
// ---------------------------------------------------------------------------------------------------------------

class ListenerTest : public testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        listener = tcp_listener(address, 128, GetParam());
        flags = status_flags(listener);
    }
    void TearDown() override { EXPECT_EQ(status_flags(listener), flags); }
    const sockaddr *generic() const { return reinterpret_cast<const sockaddr *>(&address); }
    Descriptor new_socket() const {
        return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (GetParam() ? SOCK_NONBLOCK : 0), 0));
    }

    Descriptor listener;
    sockaddr_in address;
    int flags = 0;
};

TEST_P(ListenerTest, AcceptWaitsAndReturnsTheAddress) {
    sockaddr_in peer = {};
    socklen_t length = sizeof peer;
    int accepted = -1;
    auto body = [&] { accepted = fiber_accept(listener, reinterpret_cast<sockaddr *>(&peer), &length); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(accepted, -1);
    Descriptor client = new_socket();
    EXPECT_EQ(fiber_connect(client, generic(), sizeof address), 0);
    join(fiber);
    ASSERT_GE(accepted, 0);
    Descriptor served(accepted);
    sockaddr_in mine = {};
    socklen_t mine_length = sizeof mine;
    EXPECT_EQ(::getsockname(client, reinterpret_cast<sockaddr *>(&mine), &mine_length), 0);
    EXPECT_EQ(length, sizeof peer);
    EXPECT_EQ(peer.sin_family, AF_INET);
    EXPECT_EQ(peer.sin_port, mine.sin_port);
    EXPECT_EQ(peer.sin_addr.s_addr, mine.sin_addr.s_addr);
    // As in POSIX on Linux: neither flag is handed down.
    EXPECT_EQ(fcntl(served, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(status_flags(served) & O_NONBLOCK, 0);
    EXPECT_EQ((status_flags(client) & O_NONBLOCK) != 0, GetParam());
    EXPECT_EQ(fiber_send(client, "hi", 2, 0), 2);
    char buffer[4];
    EXPECT_EQ(fiber_recv(served, buffer, sizeof buffer, 0), 2);
}

TEST_P(ListenerTest, AnAddressThatDoesNotFitIsCutAndItsLengthReturned) {
    Descriptor client = tcp_client(address);
    char small[4] = {0, 0, 77, 77};
    socklen_t length = 2;
    Descriptor served(fiber_accept(listener, reinterpret_cast<sockaddr *>(small), &length));
    EXPECT_GE(served, 0);
    EXPECT_EQ(length, sizeof(sockaddr_in));
    EXPECT_EQ(small[2], 77);
}

TEST_P(ListenerTest, AcceptFlags) {
    Descriptor one = tcp_client(address), two = tcp_client(address), three = tcp_client(address);
    Descriptor plain(fiber_accept4(listener, nullptr, nullptr, 0));
    Descriptor cloexec(fiber_accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    Descriptor both(fiber_accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_EQ(fcntl(plain, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(status_flags(plain) & O_NONBLOCK, 0);
    EXPECT_EQ(fcntl(cloexec, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(status_flags(cloexec) & O_NONBLOCK, 0);
    EXPECT_EQ(fcntl(both, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(status_flags(both) & O_NONBLOCK, O_NONBLOCK);
    EXPECT_EQ(fiber_accept4(listener, nullptr, nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_accept4(listener, nullptr, nullptr, -1), -EINVAL);
}

TEST_P(ListenerTest, TwoFibersAcceptOnOneListener) {
    int accepted[2] = {-1, -1};
    auto first = [&] { accepted[0] = fiber_accept(listener, nullptr, nullptr); };
    auto second = [&] { accepted[1] = fiber_accept(listener, nullptr, nullptr); };
    fiber_t one = start(first), two = start(second);
    settle();
    Descriptor client = tcp_client(address);
    EXPECT_TRUE(eventually([&] { return accepted[0] >= 0 || accepted[1] >= 0; }));
    settle();
    EXPECT_TRUE(accepted[0] == -1 || accepted[1] == -1);
    Descriptor other = tcp_client(address);
    join(one);
    join(two);
    Descriptor a(accepted[0]), b(accepted[1]);
    EXPECT_GE(a, 0);
    EXPECT_GE(b, 0);
    EXPECT_NE(static_cast<int>(a), static_cast<int>(b));
}

// TRAP: multishot accept takes connections, behind the program's back, that no call asked for.
TEST_P(ListenerTest, NoConnectionIsAcceptedWithoutACaller) {
    int accepted = -1;
    auto body = [&] { accepted = fiber_accept(listener, nullptr, nullptr); };
    fiber_t fiber = start(body);
    settle();
    Descriptor one = tcp_client(address), two = tcp_client(address), three = tcp_client(address);
    join(fiber);
    settle();
    Descriptor served(accepted), rest(plain_accept(listener)), last(plain_accept(listener));
    EXPECT_GE(served, 0);
    EXPECT_GE(rest, 0);
    EXPECT_GE(last, 0);
    EXPECT_EQ(plain_accept(listener), -EAGAIN);
}

TEST_P(ListenerTest, ConnectIsRefused) {
    // Bound but not listening: no other socket can take the port meanwhile.
    Descriptor holder(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in nobody = {};
    socklen_t length = sizeof nobody;
    ASSERT_EQ(bind_to_own_address(holder), 0);
    ASSERT_EQ(::getsockname(holder, reinterpret_cast<sockaddr *>(&nobody), &length), 0);
    Descriptor client = new_socket();
    EXPECT_EQ(fiber_connect(client, reinterpret_cast<sockaddr *>(&nobody), sizeof nobody), -ECONNREFUSED);
}

TEST_P(ListenerTest, ConnectWaitsUntilItIsConnected) {
    Descriptor client = new_socket();
    const int client_flags = status_flags(client);
    EXPECT_EQ(fiber_connect(client, generic(), sizeof address), 0);
    int error = -1;
    socklen_t length = sizeof error;
    EXPECT_EQ(::getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    EXPECT_EQ(error, 0);
    sockaddr_in peer = {};
    length = sizeof peer;
    EXPECT_EQ(::getpeername(client, reinterpret_cast<sockaddr *>(&peer), &length), 0);
    EXPECT_EQ(peer.sin_port, address.sin_port);
    EXPECT_EQ(status_flags(client), client_flags);
    EXPECT_EQ(fiber_connect(client, generic(), sizeof address), -EISCONN);
}

TEST_P(ListenerTest, ADeadlineEndsAnUnansweredConnect) {
    sockaddr_in full_address;
    Descriptor full = tcp_listener(full_address, 0);
    // The kernel completes hand-shakes until the backlog is full and then lets the calls hang.
    std::vector<Descriptor> waiting;
    bool hangs = false;
    while (!hangs && waiting.size() < 16) {
        Descriptor filler(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        (void)::connect(filler, reinterpret_cast<sockaddr *>(&full_address), sizeof full_address);
        pollfd look = {filler, POLLOUT, 0};
        hangs = ::poll(&look, 1, often(20, 2)) == 0;
        waiting.push_back(std::move(filler));
    }
    ASSERT_TRUE(hangs);
    Descriptor client = new_socket();
    int verdict = 0, result = 1;
    const int64_t begin = fiber_now();
    FIBER_WITH_TIMEOUT(FIBER_MSEC(20), &verdict) {
        result = fiber_connect(client, reinterpret_cast<sockaddr *>(&full_address), sizeof full_address);
    }
    EXPECT_EQ(result, -ETIMEDOUT);
    EXPECT_EQ(verdict, -ETIMEDOUT);
    EXPECT_GE(fiber_now() - begin, FIBER_MSEC(20));
}

TEST_P(ListenerTest, ManyClientsAreServedByFibersOfTheirOwn) {
    const int count = often(64, 6);
    int served = 0;
    auto serve = [&] {
        for (int i = 0; i < count; ++i) {
            const int fd = fiber_accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
            ASSERT_GE(fd, 0);
            auto echo = [](void *argument) -> void * {
                const int connection = static_cast<int>(reinterpret_cast<intptr_t>(argument));
                char buffer[64];
                int64_t got;
                while ((got = fiber_recv(connection, buffer, sizeof buffer, 0)) > 0)
                    EXPECT_EQ(fiber_send(connection, buffer, static_cast<size_t>(got), 0), got);
                EXPECT_EQ(got, 0);
                EXPECT_EQ(fiber_close(connection), 0);
                return nullptr;
            };
            ASSERT_EQ(fiber_spawn(nullptr, echo, pointer(fd)), 0);
        }
    };
    fiber_t server = spawn(serve);
    auto talk = [&] {
        Descriptor client = new_socket();
        ASSERT_EQ(fiber_connect(client, generic(), sizeof address), 0);
        char buffer[64] = {};
        for (const char *text : {"one", "three", "a longer text than before"}) {
            const size_t length = strlen(text);
            ASSERT_EQ(fiber_send(client, text, length, 0), static_cast<int64_t>(length));
            ASSERT_EQ(fiber_recv(client, buffer, length, MSG_WAITALL), static_cast<int64_t>(length));
            ASSERT_EQ(memcmp(buffer, text, length), 0);
        }
        ASSERT_EQ(fiber_close(client.release()), 0);
        ++served;
    };
    std::vector<fiber_t> clients;
    for (int i = 0; i < count; ++i) clients.push_back(spawn(talk));
    for (fiber_t client : clients) join(client);
    join(server);
    EXPECT_EQ(served, count);
}

INSTANTIATE_TEST_SUITE_P(Modes, ListenerTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool> &info) { return mode_name(info.param); });

class UnixListenerTest : public testing::TestWithParam<bool> {
protected:
    Folder folder;
    sockaddr_un address = {};
    socklen_t length = 0;

    Descriptor listen(const std::string &path, int backlog) {
        address.sun_family = AF_UNIX;
        strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
        Descriptor listener = new_socket();
        EXPECT_EQ(::bind(listener, generic(), length), 0);
        EXPECT_EQ(::listen(listener, backlog), 0);
        return listener;
    }
    const sockaddr *generic() const { return reinterpret_cast<const sockaddr *>(&address); }
    Descriptor new_socket() const {
        return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (GetParam() ? SOCK_NONBLOCK : 0), 0));
    }
};

TEST_P(UnixListenerTest, ConnectAcceptAndTalk) {
    Descriptor listener = listen(folder.path("socket"), 8);
    int accepted = -1;
    sockaddr_un peer;
    socklen_t peer_length = sizeof peer;
    auto body = [&] { accepted = fiber_accept(listener, reinterpret_cast<sockaddr *>(&peer), &peer_length); };
    fiber_t fiber = start(body);
    settle();
    Descriptor client = new_socket();
    EXPECT_EQ(fiber_connect(client, generic(), length), 0);
    join(fiber);
    Descriptor served(accepted);
    ASSERT_GE(served, 0);
    EXPECT_EQ(peer_length, sizeof(sa_family_t)); // the client has no name
    EXPECT_EQ(peer.sun_family, AF_UNIX);
    EXPECT_EQ(fiber_write(served, "u", 1), 1);
    EXPECT_EQ(fiber_poll_fd(client, POLLIN), POLLIN);
    EXPECT_EQ(drain(client), "u");
}

TEST_P(UnixListenerTest, ConnectWithoutAListener) {
    { Descriptor gone = listen(folder.path("socket"), 8); }
    Descriptor client = new_socket();
    EXPECT_EQ(fiber_connect(client, generic(), length), -ECONNREFUSED);
    ASSERT_EQ(::unlink(address.sun_path), 0);
    EXPECT_EQ(fiber_connect(client, generic(), length), -ENOENT);
}

// A unix socket's connect waits for room in the backlog; with O_NONBLOCK the kernel would say EAGAIN.
TEST_P(UnixListenerTest, ConnectWaitsForRoomInTheBacklog) {
    Descriptor listener = listen(folder.path("socket"), 0);
    std::vector<Descriptor> waiting;
    for (;;) {
        Descriptor filler(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const bool full = ::connect(filler, generic(), length) != 0;
        if (full) {
            EXPECT_EQ(errno, EAGAIN);
            break;
        }
        waiting.push_back(std::move(filler));
        ASSERT_LT(waiting.size(), 100u);
    }
    Descriptor client = new_socket();
    int result = 1;
    auto body = [&] { result = fiber_connect(client, generic(), length); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(result, 1);
    Descriptor served(plain_accept(listener));
    EXPECT_GE(served, 0);
    join(fiber);
    EXPECT_EQ(result, 0);
    EXPECT_EQ((status_flags(client) & O_NONBLOCK) != 0, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Modes, UnixListenerTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool> &info) { return mode_name(info.param); });

// ---------------------------------------------------------------------------------------------------------------
// fiber_poll_fd beyond streams
// ---------------------------------------------------------------------------------------------------------------

TEST(PollTest, EventsAreChecked) {
    Pipe pipe;
    EXPECT_EQ(fiber_poll_fd(pipe.read_end, 0), -EINVAL);
    EXPECT_EQ(fiber_poll_fd(pipe.read_end, -1), -EINVAL);
    EXPECT_EQ(fiber_poll_fd(pipe.read_end, 0x10000), -EINVAL);
    EXPECT_EQ(fiber_poll_fd(pipe.read_end, INT_MAX), -EINVAL);
}

TEST(PollTest, OnlyEventsThatHoldAreReturned) {
    Stream pair = make_stream(Kind::unix_stream);
    EXPECT_EQ(fiber_poll_fd(pair.reader, POLLIN | POLLOUT), POLLOUT);
    EXPECT_EQ(plain_write(pair.writer, "x"), 1);
    EXPECT_EQ(fiber_poll_fd(pair.reader, POLLIN | POLLOUT), POLLIN | POLLOUT);
    EXPECT_EQ(::shutdown(pair.writer, SHUT_WR), 0);
    EXPECT_EQ(fiber_poll_fd(pair.reader, POLLRDHUP), POLLRDHUP);
}

// No requested event holds when the other side shuts one direction: the wait goes on, and 0 is never returned.
TEST(PollTest, AHalfCloseEndsNoWaitForSomethingElse) {
    for (Kind kind : {Kind::unix_stream, Kind::tcp}) {
        Stream pair = make_stream(kind);
        int events = -1;
        auto body = [&] { events = fiber_poll_fd(pair.reader, POLLPRI); };
        fiber_t fiber = start(body);
        settle();
        EXPECT_EQ(::shutdown(pair.writer, SHUT_WR), 0);
        settle();
        settle();
        EXPECT_EQ(events, -1) << kind_name(kind);
        EXPECT_EQ(::shutdown(pair.reader, SHUT_WR), 0);
        join(fiber);
        EXPECT_EQ(events, POLLHUP) << kind_name(kind);
    }
}

TEST(PollTest, APipeWithoutReaderIsAnError) {
    Pipe pipe;
    fill(pipe.write_end);
    int events = 0;
    auto body = [&] { events = fiber_poll_fd(pipe.write_end, POLLPRI); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(events, 0);
    pipe.close_read();
    join(fiber);
    EXPECT_EQ(events, POLLERR);
}

TEST(PollTest, RegularFilesAndFoldersAreAlwaysReady) {
    Folder folder;
    Descriptor file(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(fiber_poll_fd(file, POLLIN), POLLIN);
    EXPECT_EQ(fiber_poll_fd(file, POLLOUT), POLLOUT);
    EXPECT_EQ(fiber_poll_fd(file, POLLIN | POLLOUT), POLLIN | POLLOUT);
    Descriptor here(::open(folder.name().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(fiber_poll_fd(here, POLLIN), POLLIN);
}

TEST(PollTest, AListenerIsReadableWhenAConnectionWaits) {
    sockaddr_in address;
    Descriptor listener = tcp_listener(address);
    int events = 0;
    auto body = [&] { events = fiber_poll_fd(listener, POLLIN); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(events, 0);
    Descriptor client = tcp_client(address);
    join(fiber);
    EXPECT_EQ(events, POLLIN);
    Descriptor served(plain_accept(listener));
    EXPECT_GE(served, 0);
}

// ---------------------------------------------------------------------------------------------------------------
// SIGPIPE
// ---------------------------------------------------------------------------------------------------------------

// How a socket comes to have no peer.
enum class Loss { before, during };

using SigpipeParameter = std::tuple<Kind, bool, Loss>;

int64_t send_by(int call, int fd) {
    static char text[] = "x";
    iovec part = {text, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    switch (call) {
    case 0: return fiber_send(fd, text, 1, 0);
    case 1: return fiber_write(fd, text, 1);
    case 2: return fiber_writev(fd, &part, 1);
    default: return fiber_sendmsg(fd, &message, 0);
    }
}

bool is_gone(int64_t result) { return result == -EPIPE || result == -ECONNRESET; }

// Every sending call on a socket whose peer is gone. Exits with 0 if all return the error; a SIGPIPE kills.
[[noreturn]] void send_to_nobody(Kind kind, bool nonblock, Loss loss) {
    ::signal(SIGPIPE, SIG_DFL);
    for (int call = 0; call < 4; ++call) {
        Stream pair = make_stream(kind, nonblock);
        if (loss == Loss::before) {
            pair.reader.close();
            // TCP learns of the loss with the first packet that the other side answers by a reset.
            int64_t result = 1;
            const int64_t give_up = fiber_now() + FIBER_SEC(10);
            while (result > 0 && fiber_now() < give_up) {
                result = send_by(call, pair.writer);
                (void)fiber_sleep(FIBER_USEC(100));
            }
            if (!is_gone(result) || !is_gone(send_by(call, pair.writer))) _exit(10 + call);
        } else {
            fill(pair.writer);
            int64_t result = 1;
            auto body = [&] {
                while (result > 0) result = send_by(call, pair.writer);
            };
            fiber_t fiber = start(body);
            settle();
            pair.reader.close();
            join(fiber);
            if (!is_gone(result)) _exit(20 + call);
        }
    }
    struct sigaction after = {};
    ::sigaction(SIGPIPE, nullptr, &after);
    sigset_t mask;
    ::sigprocmask(SIG_BLOCK, nullptr, &mask);
    _exit(after.sa_handler == SIG_DFL && sigismember(&mask, SIGPIPE) == 0 ? 0 : 30);
}

class SigpipeDeathTest : public testing::TestWithParam<SigpipeParameter> {
protected:
    // The child is a fresh process: it has no ring and no fibers of this one.
    void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_P(SigpipeDeathTest, SocketsNeverRaiseIt) {
    NOT_ON_SIM("has one process");
    const auto [kind, nonblock, loss] = GetParam();
    EXPECT_EXIT(send_to_nobody(kind, nonblock, loss), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Sockets, SigpipeDeathTest,
                         testing::Combine(testing::Values(Kind::unix_stream, Kind::tcp), testing::Bool(),
                                          testing::Values(Loss::before, Loss::during)),
                         [](const testing::TestParamInfo<SigpipeParameter> &info) {
                             return std::string(kind_name(std::get<0>(info.param))) + "_" +
                                    mode_name(std::get<1>(info.param)) +
                                    (std::get<2>(info.param) == Loss::before ? "_before" : "_during");
                         });

// Pipes are not sockets: there the signal is POSIX's, and the program's own wish.
TEST(SigpipePipeDeathTest, APipeWithoutReaderRaisesIt) {
    NOT_ON_SIM("has one process");
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            ::signal(SIGPIPE, SIG_DFL);
            Pipe pipe;
            pipe.close_read();
            (void)fiber_write(pipe.write_end, "x", 1);
            _exit(0);
        },
        testing::KilledBySignal(SIGPIPE), "");
}

TEST(SigpipePipeTest, WithTheSignalIgnoredAPipeSaysEpipe) {
    struct sigaction ignore = {}, before = {};
    ignore.sa_handler = SIG_IGN;
    ASSERT_EQ(::sigaction(SIGPIPE, &ignore, &before), 0);
    for (bool nonblock : {false, true}) {
        Stream pipe = make_stream(Kind::pipe, nonblock);
        fill(pipe.writer);
        int64_t result = 0;
        auto body = [&] { result = fiber_write(pipe.writer, "x", 1); };
        fiber_t fiber = start(body);
        settle();
        EXPECT_EQ(result, 0);
        pipe.reader.close();
        join(fiber);
        EXPECT_EQ(result, -EPIPE);
        EXPECT_EQ(fiber_write(pipe.writer, "x", 1), -EPIPE);
    }
    ASSERT_EQ(::sigaction(SIGPIPE, &before, nullptr), 0);
}

// Facts that a library remembers about a number must not outlive the descriptor: plain close(2) closes the number,
// which is allowed when no fiber waits, and the number comes back as another file.
TEST(SigpipeReuseDeathTest, ANumberThatWasAPipeBecomesASocket) {
    NOT_ON_SIM("has one process");
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            ::signal(SIGPIPE, SIG_DFL);
            Pipe pipe;
            const int number = pipe.write_end;
            if (fiber_write(number, "x", 1) != 1) _exit(1);
            Stream pair = make_stream(Kind::unix_stream);
            if (::dup2(pair.writer, number) != number) _exit(2);
            pair.reader.close();
            _exit(is_gone(fiber_write(number, "x", 1)) ? 0 : 3);
        },
        testing::ExitedWithCode(0), "");
}

TEST(ReuseTest, ANumberThatWasASocketBecomesAFile) {
    Folder folder;
    Stream pair = make_stream(Kind::unix_stream);
    const int number = pair.writer;
    EXPECT_EQ(fiber_write(number, "x", 1), 1);
    Descriptor file(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::dup2(file, number), number);
    char text[] = "in the file";
    iovec part = {text, 11};
    EXPECT_EQ(fiber_write(number, text, 11), 11);
    EXPECT_EQ(fiber_writev(number, &part, 1), 11);
    char buffer[32] = {};
    EXPECT_EQ(fiber_pread(number, buffer, sizeof buffer, 0), 22);
    EXPECT_STREQ(buffer, "in the filein the file");
}

// A file system gives the inode of a FIFO that was removed to a new file, most of them at once.
TEST(ReuseTest, AnInodeThatWasAFifosBecomesAFile) {
    Folder folder;
    const std::string path = folder.path("reused");
    struct stat before {
    }, now{};
    Descriptor file;
    for (int i = 0; i < 100 && (file < 0 || now.st_ino != before.st_ino); i++) {
        file.close();
        ::unlink(path.c_str());
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        Descriptor fifo(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        ASSERT_EQ(::fstat(fifo, &before), 0);
        EXPECT_EQ(fiber_write(fifo, "x", 1), 1);
        fifo.close();
        ::unlink(path.c_str());
        file = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        ASSERT_EQ(::fstat(file, &now), 0);
    }
    char buffer[8] = {};
    EXPECT_EQ(fiber_write(file, "text", 4), 4);
    EXPECT_EQ(fiber_pread(file, buffer, sizeof buffer, 0), 4);
    EXPECT_STREQ(buffer, "text");
}

// A read that got fewer bytes than it asked for says nothing about a read that asks for none.
TEST(EmptyReadTest, AfterAShortReadItReturnsAtOnce) {
    for (Kind kind : {Kind::pipe, Kind::unix_stream}) {
        Stream stream = make_stream(kind);
        EXPECT_EQ(plain_write(stream.writer, "abc"), 3);
        char bytes[8];
        EXPECT_EQ(fiber_read(stream.reader, bytes, sizeof bytes), 3);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_SEC(2), 0), 0);
        EXPECT_EQ(fiber_read(stream.reader, bytes, 0), 0);
        fiber_scope_close(scope, nullptr);
    }
}

} // namespace
