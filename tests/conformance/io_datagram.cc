// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams: UDP with addresses, over IPv4 and IPv6, and unix datagram sockets, with and without O_NONBLOCK.
#include "conformance.h"
#include "cord_support.h"
#include "io_support.h"

#include <sys/mman.h>

using namespace support;

namespace {

enum class Family { udp4, udp6, unix_datagram };

// A socket bound to a fresh address, and that address.
struct Endpoint {
    Descriptor socket;
    sockaddr_storage address = {};
    socklen_t length = 0;

    const sockaddr *generic() const { return reinterpret_cast<const sockaddr *>(&address); }
};

Endpoint make_endpoint(Family family, bool nonblock) {
    Endpoint end;
    const int type = SOCK_DGRAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0);
    if (family == Family::udp4) {
        end.socket = Descriptor(::socket(AF_INET, type, 0));
        auto *in = reinterpret_cast<sockaddr_in *>(&end.address);
        *in = own_address();
        end.length = sizeof *in;
    } else if (family == Family::udp6) {
        end.socket = Descriptor(::socket(AF_INET6, type, 0));
        auto *in = reinterpret_cast<sockaddr_in6 *>(&end.address);
        in->sin6_family = AF_INET6;
        in->sin6_addr = in6addr_loopback;
        end.length = sizeof *in;
    } else {
        // The family alone as the address: the kernel picks a free abstract name.
        end.socket = Descriptor(::socket(AF_UNIX, type, 0));
        end.address.ss_family = AF_UNIX;
        end.length = sizeof(sa_family_t);
    }
    if (end.socket < 0 || ::bind(end.socket, end.generic(), end.length) != 0) {
        end.socket.close();
        return end;
    }
    end.length = sizeof end.address;
    EXPECT_EQ(::getsockname(end.socket, reinterpret_cast<sockaddr *>(&end.address), &end.length), 0);
    return end;
}

using Parameter = std::tuple<Family, bool>;

class DatagramTest : public testing::TestWithParam<Parameter> {
protected:
    void SetUp() override {
        const auto [family, nonblock] = GetParam();
        one = make_endpoint(family, nonblock);
        two = make_endpoint(family, nonblock);
        if (one.socket < 0 || two.socket < 0) {
            ASSERT_EQ(family, Family::udp6) << "no socket: errno " << errno;
            GTEST_SKIP() << "this machine has no IPv6 loopback; other tests cover UDP over IPv4";
        }
        flags = status_flags(one.socket);
    }
    void TearDown() override {
        if (one.socket >= 0) {
            EXPECT_EQ(status_flags(one.socket), flags);
        }
    }

    int64_t send_to(Endpoint &from, const Endpoint &to, const std::string &text) {
        iovec part = {const_cast<char *>(text.data()), text.size()};
        msghdr message = {};
        message.msg_name = const_cast<sockaddr_storage *>(&to.address);
        message.msg_namelen = to.length;
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        return fiber_sendmsg(from.socket, &message, 0);
    }

    struct Received {
        int64_t result = -1;
        std::string text;
        sockaddr_storage from = {};
        socklen_t from_length = 0;
        int message_flags = 0;
    };
    Received receive(Endpoint &at, size_t room = 256, int recv_flags = 0) {
        Received out;
        std::vector<char> buffer(room);
        iovec part = {buffer.data(), room};
        msghdr message = {};
        message.msg_name = &out.from;
        message.msg_namelen = sizeof out.from;
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        out.result = fiber_recvmsg(at.socket, &message, recv_flags);
        out.from_length = message.msg_namelen;
        out.message_flags = message.msg_flags;
        if (out.result > 0) out.text.assign(buffer.data(), std::min(static_cast<size_t>(out.result), room));
        return out;
    }
    void connect_both() {
        ASSERT_EQ(fiber_connect(one.socket, two.generic(), two.length), 0);
        ASSERT_EQ(fiber_connect(two.socket, one.generic(), one.length), 0);
    }

    Endpoint one, two;
    int flags = 0;
};

TEST_P(DatagramTest, AMessageWaitedForHasItsSender) {
    Received received;
    bool done = false;
    auto body = [&] {
        received = receive(one);
        done = true;
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_FALSE(done);
    EXPECT_EQ(send_to(two, one, "datagram"), 8);
    join(fiber);
    EXPECT_EQ(received.result, 8);
    EXPECT_EQ(received.text, "datagram");
    EXPECT_EQ(received.message_flags & MSG_TRUNC, 0);
    ASSERT_EQ(received.from_length, two.length);
    EXPECT_EQ(memcmp(&received.from, &two.address, two.length), 0);
}

TEST_P(DatagramTest, AnAnswerGoesBackToTheSender) {
    auto echo = [&] {
        Received request = receive(one);
        Endpoint back;
        back.address = request.from;
        back.length = request.from_length;
        EXPECT_EQ(send_to(one, back, request.text + "!"), 5);
    };
    fiber_t fiber = spawn(echo);
    EXPECT_EQ(send_to(two, one, "ping"), 4);
    EXPECT_EQ(receive(two).text, "ping!");
    join(fiber);
}

TEST_P(DatagramTest, RecvfromReturnsTheSenderAndSendtoAnswersIt) {
    char text[8] = {};
    sockaddr_storage from = {};
    socklen_t length = sizeof from;
    auto *sender = reinterpret_cast<sockaddr *>(&from);
    auto echo = [&] {
        EXPECT_EQ(fiber_recvfrom(one.socket, text, sizeof text, 0, sender, &length), 4); // it waits
        EXPECT_EQ(length, two.length);
        EXPECT_EQ(memcmp(&from, &two.address, two.length), 0);
        EXPECT_EQ(fiber_sendto(one.socket, text, 4, 0, sender, length), 4);
    };
    fiber_t fiber = start(echo);
    settle();
    EXPECT_EQ(fiber_sendto(two.socket, "ping", 4, 0, one.generic(), one.length), 4);
    char answer[8] = {};
    EXPECT_EQ(fiber_recvfrom(two.socket, answer, sizeof answer, 0, nullptr, nullptr), 4);
    EXPECT_STREQ(answer, "ping");
    join(fiber);
    // An address that does not fit is truncated, and its full size is reported.
    EXPECT_EQ(fiber_sendto(two.socket, "", 0, 0, one.generic(), one.length), 0);
    from = {};
    length = sizeof(sa_family_t);
    EXPECT_EQ(fiber_recvfrom(one.socket, text, sizeof text, 0, sender, &length), 0);
    EXPECT_EQ(length, two.length);
    EXPECT_EQ(from.ss_family, two.address.ss_family);
    EXPECT_EQ(reinterpret_cast<const char *>(&from)[sizeof(sa_family_t)], 0);
    // Without an address they are recv and send.
    connect_both();
    EXPECT_EQ(fiber_sendto(two.socket, "peer", 4, 0, nullptr, 0), 4);
    EXPECT_EQ(fiber_recvfrom(one.socket, text, 2, MSG_TRUNC, sender, &length), 4);
}

TEST_P(DatagramTest, RecvfromAndSendtoRefuseBadArgumentsAndTakeNothing) {
    char byte = 0;
    sockaddr_storage from = {};
    auto *sender = reinterpret_cast<sockaddr *>(&from);
    socklen_t length = sizeof from;
    EXPECT_EQ(fiber_sendto(two.socket, "x", 1, 0, one.generic(), one.length), 1);
    EXPECT_EQ(fiber_recvfrom(one.socket, &byte, 1, 0, sender, nullptr), -EINVAL);
    EXPECT_EQ(fiber_recvfrom(one.socket, nullptr, 1, 0, sender, &length), -EINVAL);
    void *hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    EXPECT_EQ(fiber_recvfrom(one.socket, &byte, 1, 0, sender, static_cast<socklen_t *>(hole)), -EFAULT);
    munmap(hole, 4096);
    length = socklen_t(-1);
    EXPECT_EQ(fiber_recvfrom(one.socket, &byte, 1, 0, sender, &length), -EINVAL);
    EXPECT_EQ(length, socklen_t(-1));
    length = sizeof from;
    EXPECT_EQ(fiber_recvfrom(-1, &byte, 1, 0, sender, &length), -EBADF);
    EXPECT_EQ(fiber_sendto(two.socket, nullptr, 1, 0, one.generic(), one.length), -EINVAL);
    EXPECT_EQ(fiber_sendto(two.socket, "x", 1, 0, one.generic(), sizeof from + 1), -EINVAL);
    EXPECT_EQ(fiber_sendto(-1, "x", 1, 0, one.generic(), one.length), -EBADF);
    EXPECT_EQ(fiber_recvfrom(one.socket, &byte, 1, MSG_DONTWAIT, sender, &length), 1);
    EXPECT_EQ(fiber_recvfrom(one.socket, &byte, 1, MSG_DONTWAIT, sender, &length), -EAGAIN);
}

TEST_P(DatagramTest, ACancelAndADeadlineEndARecvfromAndTakeNothing) {
    char byte = 0;
    sockaddr_storage from = {};
    socklen_t length = sizeof from;
    auto body = [&] {
        return pointer(fiber_recvfrom(one.socket, &byte, 1, 0, reinterpret_cast<sockaddr *>(&from), &length));
    };
    const fiber_t cancelled = start(body);
    settle();
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    run([&] {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(body(), pointer(-ETIMEDOUT));
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(body(), pointer(-ECANCELED));
        EXPECT_EQ(fiber_sendto(two.socket, "x", 1, 0, one.generic(), one.length), -ECANCELED);
    });
    EXPECT_EQ(length, sizeof from);
    EXPECT_EQ(fiber_sendto(two.socket, "y", 1, 0, one.generic(), one.length), 1);
    EXPECT_EQ(body(), pointer(1));
    EXPECT_EQ(byte, 'y');
}

TEST_P(DatagramTest, RecvfromReceivesMessagesOfOtherCords) {
    char text[4] = {};
    int64_t sent = 0;
    auto sender = [&] { sent = fiber_sendto(two.socket, "cord", 4, 0, one.generic(), one.length); };
    Worker worker;
    const fiber_t fiber = spawn_on(worker, sender);
    sockaddr_storage from = {};
    socklen_t length = sizeof from;
    EXPECT_EQ(fiber_recvfrom(one.socket, text, sizeof text, 0, reinterpret_cast<sockaddr *>(&from), &length), 4);
    EXPECT_EQ(length, two.length);
    join(fiber);
    EXPECT_EQ(sent, 4);
}

TEST_P(DatagramTest, BoundariesAreKept) {
    connect_both();
    for (const char *text : {"a", "bcd", "ef"}) {
        EXPECT_EQ(fiber_send(two.socket, text, strlen(text), 0), static_cast<int64_t>(strlen(text)));
    }
    char buffer[64];
    EXPECT_EQ(fiber_recv(one.socket, buffer, sizeof buffer, 0), 1);
    EXPECT_EQ(fiber_read(one.socket, buffer, sizeof buffer), 3);
    EXPECT_EQ(fiber_recv(one.socket, buffer, sizeof buffer, 0), 2);
    EXPECT_EQ(fiber_recv(one.socket, buffer, sizeof buffer, MSG_DONTWAIT), -EAGAIN);
}

TEST_P(DatagramTest, OneCallTakesOneMessage) {
    connect_both();
    char buffer[64];
    auto body = [&] { EXPECT_EQ(fiber_recv(one.socket, buffer, sizeof buffer, 0), 5); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(fiber_send(two.socket, "first", 5, 0), 5);
    EXPECT_EQ(fiber_send(two.socket, "second", 6, 0), 6);
    join(fiber);
    settle();
    EXPECT_EQ(::recv(one.socket, buffer, sizeof buffer, MSG_DONTWAIT), 6);
}

TEST_P(DatagramTest, AnEmptyMessageIsAMessage) {
    connect_both();
    int64_t got = -1;
    char byte;
    auto body = [&] { got = fiber_recv(one.socket, &byte, 1, 0); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(got, -1);
    EXPECT_EQ(fiber_send(two.socket, nullptr, 0, 0), 0);
    join(fiber);
    EXPECT_EQ(got, 0);
    EXPECT_EQ(send_to(two, one, ""), 0);
    EXPECT_EQ(receive(one).result, 0);
    EXPECT_EQ(fiber_recv(one.socket, &byte, 1, MSG_DONTWAIT), -EAGAIN);
}

TEST_P(DatagramTest, AMessageThatDoesNotFitIsCutAndSaysSo) {
    EXPECT_EQ(send_to(two, one, "0123456789"), 10);
    Received cut = receive(one, 4);
    EXPECT_EQ(cut.result, 4);
    EXPECT_EQ(cut.text, "0123");
    EXPECT_TRUE(cut.message_flags & MSG_TRUNC);
    EXPECT_EQ(send_to(two, one, "0123456789"), 10);
    char buffer[4];
    EXPECT_EQ(fiber_recv(one.socket, buffer, sizeof buffer, MSG_TRUNC), 10);
    EXPECT_EQ(fiber_recv(one.socket, buffer, sizeof buffer, MSG_DONTWAIT), -EAGAIN);
}

TEST_P(DatagramTest, SeveralBuffersAreOneMessage) {
    connect_both();
    char a[] = "one", b[] = "message";
    iovec out[2] = {{a, 3}, {b, 7}};
    EXPECT_EQ(fiber_writev(two.socket, out, 2), 10);
    char first[5], second[64];
    iovec in[2] = {{first, 5}, {second, 64}};
    EXPECT_EQ(fiber_readv(one.socket, in, 2), 10);
    EXPECT_EQ(std::string(first, 5) + std::string(second, 5), "onemessage");
}

TEST_P(DatagramTest, TwoFibersWaitingGetOneMessageEach) {
    connect_both();
    std::string seen;
    auto body = [&] {
        char byte = '?';
        EXPECT_EQ(fiber_recv(one.socket, &byte, 1, 0), 1);
        seen += byte;
    };
    fiber_t first = start(body), second = start(body);
    settle();
    EXPECT_EQ(fiber_send(two.socket, "a", 1, 0), 1);
    EXPECT_EQ(fiber_send(two.socket, "b", 1, 0), 1);
    join(first);
    join(second);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, "ab");
}

TEST_P(DatagramTest, AMessageThatIsTooLargeIsRefused) {
    connect_both();
    int room = 0;
    socklen_t length = sizeof room;
    ASSERT_EQ(::getsockopt(one.socket, SOL_SOCKET, SO_SNDBUF, &room, &length), 0);
    const std::string text(static_cast<size_t>(room) + (64 << 10), 'x'); // more than UDP knows, too
    EXPECT_EQ(fiber_send(one.socket, text.data(), text.size(), 0), -EMSGSIZE);
}

TEST_P(DatagramTest, PollReportsAMessage) {
    int events = 0;
    auto body = [&] { events = fiber_poll_fd(one.socket, POLLIN); };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(events, 0);
    EXPECT_EQ(send_to(two, one, "p"), 1);
    join(fiber);
    EXPECT_EQ(events, POLLIN);
}

std::string parameter_name(const testing::TestParamInfo<Parameter> &info) {
    const char *const names[] = {"udp4", "udp6", "unix"};
    return std::string(names[static_cast<int>(std::get<0>(info.param))]) + "_" + mode_name(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Families, DatagramTest,
                         testing::Combine(testing::Values(Family::udp4, Family::udp6, Family::unix_datagram),
                                          testing::Bool()),
                         parameter_name);

TEST(UdpTest, AnUnboundPortRefuses) {
    NOT_ON_SIM("has no peers outside the process");
    Endpoint end = make_endpoint(Family::udp4, false), gone = make_endpoint(Family::udp4, false);
    ASSERT_EQ(fiber_connect(end.socket, gone.generic(), gone.length), 0);
    gone.socket.close();
    int64_t got = 0;
    auto body = [&] {
        char byte;
        FIBER_WITH_TIMEOUT(FIBER_SEC(60), nullptr) got = fiber_recv(end.socket, &byte, 1, 0);
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(fiber_send(end.socket, "x", 1, 0), 1);
    join(fiber);
    EXPECT_EQ(got, -ECONNREFUSED);
}

// Unix datagrams are never dropped: the sender waits until the receiver's queue has room.
TEST(UnixDatagramTest, ASenderWaitsForRoom) {
    for (bool nonblock : {false, true}) {
        int ends[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0, ends), 0);
        Descriptor in(ends[0]), out(ends[1]);
        int queued = 0;
        while (::send(out, "q", 1, MSG_DONTWAIT) == 1) ++queued;
        ASSERT_EQ(errno, EAGAIN);
        bool done = false;
        auto body = [&] {
            EXPECT_EQ(fiber_send(out, "last", 4, 0), 4);
            done = true;
        };
        fiber_t fiber = start(body);
        settle();
        EXPECT_FALSE(done);
        char buffer[8];
        for (int i = 0; i < queued; ++i) ASSERT_EQ(fiber_recv(in, buffer, sizeof buffer, 0), 1);
        EXPECT_EQ(fiber_recv(in, buffer, sizeof buffer, 0), 4);
        join(fiber);
    }
}

// The kernel's own second attempt, when there is room, would send the rest that the first left of the message: nothing.
TEST(UnixDatagramTest, TRAP_AMessageThatWaitedForRoomArrivesWhole) {
    for (bool nonblock : {false, true}) {
        for (int way = 0; way < 4; ++way) {
            Endpoint in = make_endpoint(Family::unix_datagram, false),
                     out = make_endpoint(Family::unix_datagram, nonblock);
            ASSERT_EQ(fiber_connect(out.socket, in.generic(), in.length), 0);
            int queued = 0;
            while (::send(out.socket, "q", 1, MSG_DONTWAIT) == 1) ++queued;
            ASSERT_EQ(errno, EAGAIN);
            auto body = [&] {
                char text[] = "last";
                iovec parts[2] = {{text, 2}, {text + 2, 2}};
                msghdr message = {};
                message.msg_iov = parts;
                message.msg_iovlen = 2;
                int64_t sent = -1;
                switch (way) {
                case 0: sent = fiber_send(out.socket, text, 4, 0); break;
                case 1: sent = fiber_sendmsg(out.socket, &message, 0); break;
                case 2: sent = fiber_write(out.socket, text, 4); break;
                case 3: sent = fiber_writev(out.socket, parts, 2); break;
                }
                EXPECT_EQ(sent, 4) << "way " << way;
            };
            fiber_t fiber = start(body);
            settle();
            char buffer[8] = {};
            for (int i = 0; i < queued; ++i) ASSERT_EQ(fiber_recv(in.socket, buffer, sizeof buffer, 0), 1);
            EXPECT_EQ(fiber_recv(in.socket, buffer, sizeof buffer, 0), 4) << "way " << way;
            EXPECT_STREQ(buffer, "last");
            join(fiber);
        }
    }
}

// Readiness concerns the sender's own socket, which is not the one without room: to believe it would be a busy loop.
TEST(UnixDatagramTest, TRAP_AnUnconnectedSenderToAFullReceiverDoesNotSpin) {
    for (bool nonblock : {false, true}) {
        Endpoint in = make_endpoint(Family::unix_datagram, false), out = make_endpoint(Family::unix_datagram, nonblock);
        int queued = 0;
        while (::sendto(out.socket, "q", 1, MSG_DONTWAIT, in.generic(), in.length) == 1) ++queued;
        ASSERT_EQ(errno, EAGAIN);
        bool done = false;
        auto body = [&] {
            char text[] = "last";
            iovec part = {text, 4};
            msghdr message = {};
            message.msg_name = &in.address;
            message.msg_namelen = in.length;
            message.msg_iov = &part;
            message.msg_iovlen = 1;
            EXPECT_EQ(fiber_sendmsg(out.socket, &message, 0), 4);
            done = true;
        };
        const uint64_t ops_before = stats().ops;
        fiber_t fiber = start(body);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(100)), 0);
        EXPECT_FALSE(done);
        EXPECT_LT(stats().ops - ops_before, 100u);
        char buffer[8];
        for (int i = 0; i < queued; ++i) ASSERT_EQ(fiber_recv(in.socket, buffer, sizeof buffer, 0), 1);
        EXPECT_EQ(fiber_recv(in.socket, buffer, sizeof buffer, 0), 4);
        join(fiber);
    }
}

// As in POSIX, whatever the socket's flags are.
TEST_P(DatagramTest, TheQueueOfErrorsIsNotWaitedFor) {
    if (std::get<0>(GetParam()) == Family::unix_datagram) return; // it has none
    char buffer[8];
    iovec part = {buffer, sizeof buffer};
    for (const char *data : {"", "data"}) {
        if (*data) {
            EXPECT_EQ(::sendto(two.socket, data, 4, 0, one.generic(), one.length), 4);
        }
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        const uint64_t ops_before = stats().ops;
        int verdict = 0;
        FIBER_WITH_TIMEOUT(FIBER_SEC(10), &verdict) {
            EXPECT_EQ(fiber_recvmsg(one.socket, &message, MSG_ERRQUEUE), -EAGAIN);
        }
        EXPECT_EQ(verdict, 0);
        EXPECT_LT(stats().ops - ops_before, 5u);
    }
}

TEST(UnixDatagramTest, ASendWithoutAReceiverIsAnErrorWithoutASignal) {
    NOT_ON_SIM("has no peers outside the process");
    struct sigaction before = {};
    ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &before), 0);
    Endpoint one = make_endpoint(Family::unix_datagram, false), two = make_endpoint(Family::unix_datagram, false);
    ASSERT_EQ(fiber_connect(one.socket, two.generic(), two.length), 0);
    two.socket.close();
    EXPECT_EQ(fiber_send(one.socket, "x", 1, 0), -ECONNREFUSED);
    EXPECT_EQ(fiber_write(one.socket, "x", 1), -ENOTCONN);
    struct sigaction after = {};
    ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &after), 0);
    EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(SeqpacketTest, RecordsAreKeptAndTheEndIsSeen) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    Descriptor in(ends[0]), out(ends[1]);
    EXPECT_EQ(fiber_write(out, "one", 3), 3);
    EXPECT_EQ(fiber_send(out, "three", 5, 0), 5);
    char buffer[64];
    EXPECT_EQ(fiber_read(in, buffer, sizeof buffer), 3);
    EXPECT_EQ(fiber_recv(in, buffer, sizeof buffer, 0), 5);
    out.close();
    EXPECT_EQ(fiber_recv(in, buffer, sizeof buffer, 0), 0);
}

TEST(EmptyWrite, ByWritevSendsNoDatagramAndByWriteOne) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    iovec empty = {nullptr, 0};
    EXPECT_EQ(fiber_writev(ends[0], &empty, 1), 0);
    EXPECT_EQ(fiber_writev(ends[0], nullptr, 0), 0);
    char byte = 'x';
    EXPECT_EQ(fiber_recv(ends[1], &byte, 1, MSG_DONTWAIT), -EAGAIN);
    EXPECT_EQ(fiber_write(ends[0], "", 0), 0);
    EXPECT_EQ(fiber_recv(ends[1], &byte, 1, MSG_DONTWAIT), 0);
    EXPECT_EQ(fiber_recv(ends[1], &byte, 1, MSG_DONTWAIT), -EAGAIN);
    ::close(ends[0]);
    ::close(ends[1]);
}

} // namespace
