// SPDX-License-Identifier: MIT OR Apache-2.0
// Descriptors through unix sockets: fiber_send_fds and fiber_recv_fds.
#include "conformance.h"
#include "io_support.h"

#include <sys/resource.h>

using namespace support;

namespace {

// With the backend open, whose descriptors stay.
int lowest_free() {
    {
        Pipe pipe;
        EXPECT_EQ(fiber_poll_fd(pipe.write_end, POLLOUT), POLLOUT);
    }
    const int lowest = ::dup(0);
    ::close(lowest);
    return lowest;
}

TEST(ScmRights, DescriptorsComeWithTheBytes) {
    for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
        int ends[2];
        ASSERT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
        Descriptor in(ends[0]), out(ends[1]);
        Pipe pipe;
        int got[4] = {-1, -1, -1, -1}, flags = -1;
        size_t count = 4;
        char bytes[8] = {};
        int64_t result = 0;
        auto body = [&] { result = fiber_recv_fds(in, bytes, sizeof bytes, got, &count, &flags); };
        fiber_t fiber = start(body);
        settle();
        const int sent[2] = {pipe.read_end, pipe.write_end};
        EXPECT_EQ(fiber_send_fds(out, "data", 4, sent, 2), 4);
        join(fiber);
        EXPECT_EQ(result, 4);
        EXPECT_STREQ(bytes, "data");
        ASSERT_EQ(count, 2u);
        EXPECT_EQ(flags & MSG_CTRUNC, 0);
        Descriptor reader(got[0]), writer(got[1]);
        EXPECT_NE(fcntl(reader, F_GETFD) & FD_CLOEXEC, 0);
        EXPECT_EQ(plain_write(writer, "through"), 7);
        EXPECT_EQ(drain(pipe.read_end), "through");
        // And bytes alone, and the end.
        EXPECT_EQ(fiber_send_fds(out, "more", 4, nullptr, 0), 4);
        count = 4;
        EXPECT_EQ(fiber_recv_fds(in, bytes, sizeof bytes, got, &count, nullptr), 4);
        EXPECT_EQ(count, 0u);
        if (type == SOCK_DGRAM) continue;
        out.close();
        EXPECT_EQ(fiber_recv_fds(in, bytes, sizeof bytes, got, &count, nullptr), 0);
    }
}

TEST(ScmRights, AsManyAsFit) {
    Stream pair = make_stream(Kind::unix_stream);
    std::vector<int> sent(FIBER_FDS_MAX, pair.writer), got(FIBER_FDS_MAX, -1);
    const int lowest = lowest_free();
    EXPECT_EQ(fiber_send_fds(pair.writer, "d", 1, sent.data(), sent.size()), 1);
    char byte = 0;
    size_t count = got.size();
    EXPECT_EQ(fiber_recv_fds(pair.reader, &byte, 1, got.data(), &count, nullptr), 1);
    EXPECT_EQ(count, sent.size());
    for (int fd : got) EXPECT_EQ(::close(fd), 0);
    EXPECT_EQ(lowest_free(), lowest);
    int closed = ::dup(0);
    ::close(closed);
    EXPECT_EQ(fiber_send_fds(pair.writer, "d", 1, &closed, 1), -EBADF);
    EXPECT_EQ(drain(pair.reader), ""); // nothing was sent
}

TEST(ScmRights, DescriptorsWithoutRoomAreClosedAndReported) {
    Stream pair = make_stream(Kind::unix_stream);
    Pipe pipe;
    const int lowest = lowest_free();
    const int sent[3] = {pipe.read_end, pipe.read_end, pipe.write_end};
    for (const size_t room : {size_t{0}, size_t{1}, size_t{2}}) {
        EXPECT_EQ(fiber_send_fds(pair.writer, "data", 4, sent, 3), 4);
        int got[2] = {-1, -1}, flags = 0;
        size_t count = room;
        char bytes[4];
        EXPECT_EQ(fiber_recv_fds(pair.reader, bytes, 4, got, &count, &flags), 4);
        EXPECT_EQ(count, room);
        EXPECT_NE(flags & MSG_CTRUNC, 0);
        for (size_t i = 0; i < count; i++) EXPECT_EQ(::close(got[i]), 0);
        EXPECT_EQ(lowest_free(), lowest);
    }
    // The third was the only other writer.
    pipe.close_write();
    char byte;
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 0);
}

TEST(ScmRights, WithoutFreeNumbers) {
    Stream pair = make_stream(Kind::unix_stream);
    Pipe pipe;
    const int sent[3] = {pipe.read_end, pipe.read_end, pipe.read_end};
    EXPECT_EQ(fiber_send_fds(pair.writer, "data", 4, sent, 3), 4);
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = lowest_free();
    const rlimit one = {static_cast<rlim_t>(lowest + 1), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one), 0);
    int got[3] = {-1, -1, -1}, flags = 0;
    size_t count = 3;
    char bytes[4];
    const int64_t result = fiber_recv_fds(pair.reader, bytes, 4, got, &count, &flags);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(result, 4);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(got[0], lowest);
    EXPECT_NE(flags & MSG_CTRUNC, 0);
    EXPECT_EQ(::close(got[0]), 0);
    EXPECT_EQ(lowest_free(), lowest);
}

// Bytes with other descriptors are another message.
TEST(ScmRights, MessagesOfAStreamDoNotMix) {
    Stream pair = make_stream(Kind::unix_stream);
    Pipe one, two;
    EXPECT_EQ(fiber_send_fds(pair.writer, "11", 2, &one.read_end, 1), 2);
    EXPECT_EQ(fiber_send_fds(pair.writer, "22", 2, &two.read_end, 1), 2);
    for (Pipe *pipe : {&one, &two}) {
        int got[2] = {-1, -1};
        size_t count = 2;
        char bytes[8];
        EXPECT_EQ(fiber_recv_fds(pair.reader, bytes, sizeof bytes, got, &count, nullptr), 2);
        ASSERT_EQ(count, 1u);
        Descriptor reader(got[0]);
        EXPECT_EQ(plain_write(pipe->write_end, "x"), 1);
        EXPECT_EQ(drain(reader), "x");
    }
}

// A cancel that meets the message: either it has come, or it is still there.
TEST(ScmRights, ACancelLosesNoDescriptor) {
    Stream pair = make_stream(Kind::unix_stream);
    Pipe pipe;
    const int lowest = lowest_free();
    for (int round = 0; round < often(100, 2); round++) {
        int got = -1;
        size_t count = 1;
        char byte = 0;
        int64_t result = 0;
        auto body = [&] { result = fiber_recv_fds(pair.reader, &byte, 1, &got, &count, nullptr); };
        fiber_t fiber = start(body);
        if (round % 2) settle();
        EXPECT_EQ(fiber_send_fds(pair.writer, "d", 1, &pipe.read_end, 1), 1);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
        EXPECT_TRUE(result == 1 || result == -ECANCELED) << result;
        if (result < 0) {
            EXPECT_EQ(count, 0u);
            count = 1;
            EXPECT_EQ(fiber_recv_fds(pair.reader, &byte, 1, &got, &count, nullptr), 1);
        }
        ASSERT_EQ(count, 1u);
        EXPECT_EQ(::close(got), 0);
        EXPECT_EQ(lowest_free(), lowest);
    }
}

TEST(ScmRights, NotThroughOtherSockets) {
    Stream tcp = make_stream(Kind::tcp);
    Pipe pipe;
    int fd = pipe.read_end, got = -1;
    size_t count = 1;
    char byte;
    EXPECT_EQ(fiber_send_fds(pipe.write_end, "d", 1, &fd, 1), -ENOTSOCK);
    EXPECT_EQ(fiber_recv_fds(pipe.read_end, &byte, 1, &got, &count, nullptr), -ENOTSOCK);
    EXPECT_EQ(count, 0u);
    EXPECT_LT(fiber_send_fds(tcp.writer, "d", 1, &fd, 1), 2); // an error, or the byte alone
    EXPECT_EQ(fiber_send_fds(pipe.write_end, "d", 1, &fd, FIBER_FDS_MAX + 1), -EINVAL);
}

} // namespace
