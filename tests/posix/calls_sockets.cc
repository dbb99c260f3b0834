// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls on sockets by a fiber, compared with the kernel's by a plain thread.
#include "posix/calls.h"

#include <algorithm>
#include <csignal>
#include <span>
#include <sys/un.h>

namespace {

using namespace calls;

class Sockets : public testing::TestWithParam<Kind> {
protected:
    Kind kind() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Sockets, testing::Values(Kind::unix_stream, Kind::tcp),
                         [](const auto &info) { return support::kind_name(info.param); });

// Waits, without a library call that the scenario compares, until this many bytes are in the socket's buffer.
void until_received(int fd, int bytes) {
    const std::unique_ptr<char[]> seen(new char[size_t(bytes)]);
    while (::recv(fd, seen.get(), size_t(bytes), MSG_PEEK | MSG_DONTWAIT) < bytes) ::usleep(100);
}

void send_in_pieces(int fd, const std::string &text) {
    for (char byte : text) {
        EXPECT_EQ(::send(fd, &byte, 1, 0), 1);
        ::usleep(100);
    }
}

TEST_P(Sockets, Receives) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        char bytes[16] = {};
        {
            Peer peer(trial, [&] { EXPECT_EQ(::send(stream.writer, "first", 5, 0), 5); });
            trial.note("recv of no bytes", ::recv(stream.reader, bytes, 0, 0));
            trial.note("peek", ::recv(stream.reader, bytes, 3, MSG_PEEK));
            trial.note("recv", ::recv(stream.reader, bytes, sizeof bytes, 0));
            trial.text("bytes", bytes);
        }
        {
            Peer peer(trial, [&] { send_in_pieces(stream.writer, "second"); });
            trial.note("recv all", ::recv(stream.reader, bytes, 6, MSG_WAITALL));
            trial.text("bytes", bytes);
        }
        {
            Peer peer(trial, [&] { send_in_pieces(stream.writer, "third!"); });
            sockaddr_storage address;
            socklen_t length = sizeof address;
            trial.note("recvfrom all", ::recvfrom(stream.reader, bytes, 6, MSG_WAITALL,
                                                  reinterpret_cast<sockaddr *>(&address), &length));
            trial.text("bytes", bytes);
            trial.note("address", length);
        }
        {
            Peer peer(trial, [&] { send_in_pieces(stream.writer, "fourth"); });
            char one[2], two[4];
            iovec parts[] = {{one, 2}, {two, 4}};
            msghdr message = {};
            message.msg_iov = parts;
            message.msg_iovlen = 2;
            trial.note("recvmsg all", ::recvmsg(stream.reader, &message, MSG_WAITALL));
            trial.text("bytes", std::string(one, 2) + std::string(two, 4));
            trial.note("flags", message.msg_flags);
        }
        trial.note("dontwait", ::recv(stream.reader, bytes, 1, MSG_DONTWAIT));
        if (kind() == Kind::tcp) trial.note("error queue", ::recv(stream.reader, bytes, 1, MSG_ERRQUEUE));
        trial.note("out of band", ::recv(stream.reader, bytes, 1, MSG_OOB));
        {
            Peer peer(trial, [&] {
                EXPECT_EQ(::send(stream.writer, "end", 3, 0), 3);
                stream.writer.close();
            });
            trial.note("all that there was", ::recv(stream.reader, bytes, 10, MSG_WAITALL));
            trial.note("end", ::recv(stream.reader, bytes, 10, MSG_WAITALL));
            trial.note("end", ::recv(stream.reader, bytes, 10, MSG_WAITALL | MSG_PEEK));
        }
    });
}

TEST_P(Sockets, APeekForAllBytes) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        char bytes[16] = {};
        Peer peer(trial, [&] { EXPECT_EQ(::send(stream.writer, "peek", 4, 0), 4); });
        trial.note("peek", ::recv(stream.reader, bytes, 1, MSG_PEEK));
        peer.join();
        until_received(stream.reader, 4);
        // TCP waits for all of them, a Unix stream reports those that it has.
        Peer more(trial, [&] { EXPECT_EQ(::send(stream.writer, "more", 4, 0), 4); });
        if (kind() == Kind::tcp) trial.note("peek", ::recv(stream.reader, bytes, 8, MSG_PEEK | MSG_WAITALL));
        more.join();
        until_received(stream.reader, 8);
        trial.note("peek", ::recv(stream.reader, bytes, 8, MSG_PEEK | MSG_WAITALL));
        if (kind() == Kind::tcp) {
            iovec parts[] = {{bytes, 2}, {bytes + 2, 8}};
            sockaddr_storage name = {};
            msghdr message = {};
            message.msg_name = &name;
            message.msg_namelen = sizeof name;
            message.msg_iov = parts;
            message.msg_iovlen = 2;
            Peer last(trial, [&] { EXPECT_EQ(::send(stream.writer, "st", 2, 0), 2); });
            trial.note("peek at a message", ::recvmsg(stream.reader, &message, MSG_PEEK | MSG_WAITALL));
            trial.note("length of the name", message.msg_namelen);
            trial.text("bytes", bytes);
        }
        ::shutdown(stream.writer, SHUT_WR);
        trial.note("peek at the end", ::recv(stream.reader, bytes, 16, MSG_PEEK | MSG_WAITALL));
        trial.note("recv", ::recv(stream.reader, bytes, 16, 0));
        trial.text("bytes", bytes);
    });
}

TEST_P(Sockets, SendsOfAllBytes) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        const std::string text = support::pattern(3 << 20);
        std::string received(text.size() * 3, '\0');
        ssize_t got = 0;
        Peer peer(trial, [&] { got = ::recv(stream.reader, received.data(), received.size(), MSG_WAITALL); });
        trial.note("send", ::send(stream.writer, text.data(), text.size(), 0));
        trial.note("sendto", ::sendto(stream.writer, text.data(), text.size(), 0, nullptr, 0));
        iovec parts[] = {{const_cast<char *>(text.data()), 10},
                         {nullptr, 0},
                         {const_cast<char *>(text.data()) + 10, text.size() - 10}};
        msghdr message = {};
        message.msg_iov = parts;
        message.msg_iovlen = 3;
        trial.note("sendmsg", ::sendmsg(stream.writer, &message, 0));
        peer.join();
        trial.note("recv", got);
        trial.note("equal", received == text + text + text);
        trial.note("send of no bytes", ::send(stream.writer, "", 0, 0));
        message.msg_iovlen = 0;
        trial.note("sendmsg of no bytes", ::sendmsg(stream.writer, &message, 0));
    });
}

TEST_P(Sockets, TimeLimits) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        limit(stream.reader, SO_RCVTIMEO, 10);
        limit(stream.writer, SO_SNDTIMEO, 10);
        char bytes[16];
        trial.note("recv", ::recv(stream.reader, bytes, 1, 0));
        trial.note("read", ::read(stream.reader, bytes, 1));
        EXPECT_EQ(::send(stream.writer, "ab", 2, 0), 2);
        until_received(stream.reader, 2);
        trial.note("recv all", ::recv(stream.reader, bytes, 3, MSG_WAITALL));
        if (kind() == Kind::tcp && support::simulated()) return; // the small buffer does not stay full
        support::fill(stream.writer);
        trial.note("send", ::send(stream.writer, bytes, 1, 0));
        trial.note("write", ::write(stream.writer, bytes, 1));
    });
}

// The kernel's receives end by their time limit with the bytes that there are.
TEST_P(Sockets, TimeLimitsOfAPart) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        limit(stream.reader, SO_RCVTIMEO, 10);
        char bytes[16] = {};
        iovec parts[] = {{bytes, 1}, {bytes + 1, 8}};
        msghdr message = {};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        EXPECT_EQ(::send(stream.writer, "abcd", 4, 0), 4);
        until_received(stream.reader, 4);
        errno = EDOM;
        trial.note("peek all", ::recv(stream.reader, bytes, 9, MSG_PEEK | MSG_WAITALL));
        trial.note("peek all of a message", ::recvmsg(stream.reader, &message, MSG_PEEK | MSG_WAITALL));
        trial.note("all of a message", ::recvmsg(stream.reader, &message, MSG_WAITALL));
        trial.note("peek all of nothing", ::recv(stream.reader, bytes, 9, MSG_PEEK | MSG_WAITALL));
        trial.note("all of a message of nothing", ::recvmsg(stream.reader, &message, MSG_WAITALL));
        EXPECT_EQ(::send(stream.writer, "efg", 3, 0), 3);
        until_received(stream.reader, 3);
        errno = EDOM;
        trial.note("recvfrom all", ::recvfrom(stream.reader, bytes + 4, 9, MSG_WAITALL, nullptr, nullptr));
        trial.note("errno", errno == EDOM);
        trial.text("bytes", bytes);
    });
}

// A receive that waits ends at the mark. (The kernel's receive also waits if fewer bytes are there; a fiber's returns
// them.)
TEST_P(Sockets, ALowWaterMark) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        const int mark = 100;
        EXPECT_EQ(::setsockopt(stream.reader, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark), 0);
        char bytes[256] = {};
        const std::string text = support::pattern(mark);
        Peer peer(trial, [&] { EXPECT_EQ(::send(stream.writer, text.data(), text.size(), 0), mark); });
        trial.note("recv", ::recv(stream.reader, bytes, sizeof bytes, 0));
        peer.join();
        EXPECT_EQ(::send(stream.writer, text.data(), text.size(), 0), mark);
        until_received(stream.reader, mark);
        trial.note("recv", ::recv(stream.reader, bytes, 4, 0));
        trial.note("recv without a wait", ::recv(stream.reader, bytes, sizeof bytes, MSG_DONTWAIT));
    });
}

TEST_P(Sockets, BadArguments) {
    NEEDS_THE_KERNELS_CHECKS();
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        EXPECT_EQ(::send(stream.writer, "0123456789", 10, 0), 10);
        until_received(stream.reader, 10);
        trial.note("recv nowhere", ::recv(stream.reader, nowhere<void>(), 1, 0));
        trial.note("recvmsg nowhere", ::recvmsg(stream.reader, nowhere<msghdr>(), 0));
        trial.note("recvmsg nowhere at once", ::recvmsg(stream.reader, nowhere<msghdr>(), MSG_DONTWAIT));
        trial.note("recvmsg all nowhere", ::recvmsg(stream.reader, nowhere<msghdr>(), MSG_WAITALL));
        trial.note("sendmsg nowhere", ::sendmsg(stream.writer, nowhere<msghdr>(), 0));
        msghdr message = {};
        message.msg_iov = nowhere<iovec>();
        message.msg_iovlen = 1;
        trial.note("recvmsg parts nowhere", ::recvmsg(stream.reader, &message, 0));
        trial.note("sendmsg parts nowhere", ::sendmsg(stream.writer, &message, 0));
        message.msg_iovlen = 1025;
        trial.note("sendmsg 1025", ::sendmsg(stream.writer, &message, 0));
        trial.note("send nowhere", ::send(stream.writer, nowhere<void>(), 10, 0));
        trial.note("sendto nowhere", ::sendto(stream.writer, "x", 1, 0, nowhere<sockaddr>(), 16));
        trial.note("sendto length", ::sendto(stream.writer, "x", 1, 0, nowhere<sockaddr>(), 100000));
        trial.note("recvfrom nowhere", ::recvfrom(stream.reader, nullptr, 0, 0, nowhere<sockaddr>(), nullptr));
        trial.note("recv -1", ::recv(-1, nullptr, 0, 0));
        Descriptor file(::open("/dev/null", O_RDWR | O_CLOEXEC));
        char byte = 0;
        trial.note("recv of a file", ::recv(file, &byte, 1, 0));
        trial.note("send to a file", ::send(file, &byte, 1, 0));
        trial.note("accept of a file", ::accept(file, nullptr, nullptr));
        trial.note("accept of a connection", ::accept(stream.reader, nullptr, nullptr));
        trial.note("connect of a file", ::connect(file, reinterpret_cast<sockaddr *>(&message), 16));
        trial.note("connect nowhere", ::connect(stream.reader, nowhere<sockaddr>(), 16));
        trial.note("connect closed", ::connect(-1, nullptr, 0));
        trial.note("recvmmsg nowhere", ::recvmmsg(stream.reader, nowhere<mmsghdr>(), 1, 0, nullptr));
        trial.note("sendmmsg nowhere", ::sendmmsg(stream.writer, nowhere<mmsghdr>(), 1, 0));
        trial.note("recvmmsg timeout nowhere", ::recvmmsg(stream.reader, nullptr, 1, 0, nowhere<timespec>()));
        trial.note("left", ::recv(stream.reader, nullptr, 0, 0));
    });
}

TEST(TcpSocket, AResetBetweenTheBytesIsTheNextCallsError) {
    compare([](Trial &trial) {
        Stream stream = make_stream(Kind::tcp);
        EXPECT_EQ(::send(stream.writer, "abc", 3, 0), 3);
        until_received(stream.reader, 3);
        char bytes[16];
        Peer peer(trial, [&] {
            const linger at_once = {1, 0};
            EXPECT_EQ(::setsockopt(stream.writer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
            stream.writer.close();
        });
        trial.note("recv all", ::recv(stream.reader, bytes, 16, MSG_WAITALL));
        trial.note("recv", ::recv(stream.reader, bytes, 16, 0));
        trial.note("recv", ::recv(stream.reader, bytes, 16, 0));
    });
}

TEST(Datagrams, KeepTheirBounds) {
    compare([](Trial &trial) {
        Stream pair = datagrams();
        char bytes[16] = {};
        {
            Peer peer(trial, [&] { EXPECT_EQ(::send(pair.writer, "datagram", 8, 0), 8); });
            trial.note("recv", ::recv(pair.reader, bytes, 4, MSG_TRUNC));
            trial.text("bytes", bytes);
        }
        {
            Peer peer(trial, [&] { EXPECT_EQ(::send(pair.writer, "", 0, 0), 0); });
            trial.note("empty", ::recv(pair.reader, bytes, 4, 0));
        }
        {
            Peer peer(trial, [&] { EXPECT_EQ(::send(pair.writer, "abc", 3, 0), 3); });
            trial.note("all", ::recv(pair.reader, bytes, 10, MSG_WAITALL));
        }
        {
            Peer peer(trial, [&] { EXPECT_EQ(::write(pair.writer, "abc", 3), 3); });
            trial.note("no bytes", ::recv(pair.reader, bytes, 0, 0));
        }
        trial.note("then", ::recv(pair.reader, bytes, 1, MSG_DONTWAIT));
        trial.note("write of no bytes", ::write(pair.writer, "", 0));
        trial.note("recv", ::recv(pair.reader, bytes, 10, 0));
        iovec nothing = {bytes, 0};
        trial.note("writev of no bytes", ::writev(pair.writer, &nothing, 1));
        trial.note("then", ::recv(pair.reader, bytes, 1, MSG_DONTWAIT));
        const std::string large(1 << 20, 'x');
        trial.note("too large", ::send(pair.writer, large.data(), large.size(), 0));
    });
}

TEST(Datagrams, ByAddress) {
    compare([](Trial &trial) {
        Descriptor one(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        Descriptor two(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(support::bind_to_own_address(one), 0);
        EXPECT_EQ(support::bind_to_own_address(two), 0);
        sockaddr_in address;
        socklen_t length = sizeof address;
        EXPECT_EQ(::getsockname(one, reinterpret_cast<sockaddr *>(&address), &length), 0);
        char bytes[16] = {};
        {
            Peer peer(trial, [&] {
                EXPECT_EQ(::sendto(two, "abc", 3, 0, reinterpret_cast<sockaddr *>(&address), sizeof address), 3);
            });
            sockaddr_in from;
            trial.note("recvfrom",
                       ::recvfrom(one, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr *>(&from), &length));
            trial.note("address", length);
            trial.note("family", from.sin_family);
        }
        trial.note("send without an address", ::send(two, "x", 1, 0));
        trial.note("write without an address", ::write(two, "x", 1));
        trial.note("connect", ::connect(two, reinterpret_cast<sockaddr *>(&address), sizeof address));
        trial.note("send", ::send(two, "x", 1, 0));
        one.close();
        // The first send to a closed port is answered by an error, which the next call reports.
        while (::send(two, "x", 1, 0) == 1) ::usleep(100);
        trial.note("refused", -1);
    });
}

TEST(Datagrams, ManyByOneCall) {
    compare([](Trial &trial) {
        Stream pair = datagrams();
        constexpr unsigned count = 4;
        char bytes[count][8] = {};
        iovec parts[count];
        mmsghdr messages[count] = {};
        for (unsigned i = 0; i < count; i++) {
            parts[i] = {bytes[i], 8};
            messages[i].msg_hdr.msg_iov = &parts[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        const auto send_some = [&](int some) {
            for (int i = 0; i < some; i++) EXPECT_EQ(::send(pair.writer, "datagram", size_t(i + 1), 0), i + 1);
        };
        {
            Peer peer(trial, [&] {
                for (int i = 0; i < 4; i++) {
                    send_some(1);
                    ::usleep(100);
                }
            });
            trial.note("recvmmsg", ::recvmmsg(pair.reader, messages, count, 0, nullptr));
            trial.note("length", messages[3].msg_len);
        }
        {
            Peer peer(trial, [&] { send_some(1); });
            trial.note("for one", ::recvmmsg(pair.reader, messages, count, MSG_WAITFORONE, nullptr));
        }
        send_some(2);
        limit(pair.reader, SO_RCVTIMEO, 10);
        trial.note("two", ::recvmmsg(pair.reader, messages, count, 0, nullptr));
        trial.note("none", ::recvmmsg(pair.reader, messages, count, 0, nullptr));
        send_some(2);
        timespec timeout = {100, 0};
        trial.note("with a timeout", ::recvmmsg(pair.reader, messages, 2, 0, &timeout));
        trial.note("left", timeout.tv_sec >= 50 && timeout.tv_sec <= 100);
        send_some(2);
        timeout = {0, 0};
        trial.note("with none", ::recvmmsg(pair.reader, messages, count, 0, &timeout));
        timeout = {-1, 0};
        trial.note("bad timeout", ::recvmmsg(pair.reader, messages, count, 0, &timeout));
        trial.note("no message", ::recvmmsg(pair.reader, messages, 0, MSG_DONTWAIT, nullptr));
        support::drain(pair.reader);

        // More than the queue takes, so the sender waits.
        std::string received;
        Peer peer(trial, [&] {
            for (int i = 0; i < 200; i++) {
                char one[8];
                received += std::to_string(::recv(pair.reader, one, 8, 0));
            }
        });
        for (unsigned i = 0; i < count; i++) parts[i] = {bytes[i], i + 1};
        for (int i = 0; i < 50; i++) trial.note("sendmmsg", ::sendmmsg(pair.writer, messages, count, 0));
        peer.join();
        trial.text("received", received);
        trial.note("length", messages[3].msg_len);
    });
}

TEST_P(Sockets, ManyMessagesOfAStream) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        std::string text = support::pattern(2 << 20);
        iovec parts[] = {{&text[0], 1 << 20}, {&text[1 << 20], 1 << 20}};
        mmsghdr messages[2] = {};
        for (int i = 0; i < 2; i++) {
            messages[i].msg_hdr.msg_iov = &parts[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        std::string received(text.size(), '\0');
        Peer peer(trial, [&] {
            EXPECT_EQ(::recv(stream.reader, received.data(), received.size(), MSG_WAITALL), ssize_t(text.size()));
        });
        trial.note("sendmmsg", ::sendmmsg(stream.writer, messages, 2, 0));
        peer.join();
        trial.note("one", messages[0].msg_len);
        trial.note("two", messages[1].msg_len);
        trial.note("equal", received == text);
    });
}

TEST(Connections, AcceptWaits) {
    compare([](Trial &trial) {
        sockaddr_in address;
        Descriptor listener = support::tcp_listener(address);
        {
            Descriptor client;
            Peer peer(trial, [&] { client = support::tcp_client(address); });
            sockaddr_in from = {};
            socklen_t length = sizeof from;
            Descriptor accepted(::accept(listener, reinterpret_cast<sockaddr *>(&from), &length));
            trial.note("accepted", accepted >= 0);
            trial.note("length", length);
            trial.note("family", from.sin_family);
        }
        {
            Descriptor client;
            Peer peer(trial, [&] { client = support::tcp_client(address); });
            Descriptor accepted(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
            trial.note("flags", ::fcntl(accepted, F_GETFL) & O_NONBLOCK);
        }
        trial.note("bad flags", ::accept4(listener, nullptr, nullptr, 1));
        limit(listener, SO_RCVTIMEO, 10);
        trial.note("time limit", ::accept(listener, nullptr, nullptr));
        if (!sanitized) {
            Descriptor client = support::tcp_client(address);
            trial.note("address nowhere", ::accept(listener, nowhere<sockaddr>(), nowhere<socklen_t>()));
        }
        limit(listener, SO_RCVTIMEO, 0);
        support::set_nonblock(listener, true);
        trial.note("nonblocking", ::accept(listener, nullptr, nullptr));
    });
}

TEST(Connections, Connect) {
    compare([](Trial &trial) {
        sockaddr_in address;
        Descriptor listener = support::tcp_listener(address);
        const auto *to = reinterpret_cast<const sockaddr *>(&address);
        Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        trial.note("connect", ::connect(client, to, sizeof address));
        trial.note("flags", ::fcntl(client, F_GETFL) & O_NONBLOCK);
        trial.note("again", ::connect(client, to, sizeof address));
        trial.note("length", ::connect(client, to, 3));
        listener.close();
        Descriptor late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        trial.note("refused", ::connect(late, to, sizeof address));
        trial.note("flags", ::fcntl(late, F_GETFL) & O_NONBLOCK);
        if (!sanitized) trial.note("nowhere", ::connect(late, nowhere<sockaddr>(), sizeof address));
        trial.note("refused again", ::connect(late, to, sizeof address));
        Descriptor other = support::tcp_listener(address);
        trial.note("another port", ::connect(late, to, sizeof address));
    });
}

TEST(Connections, AFullQueueOfAUnixListener) {
    compare([](Trial &trial) {
        Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address = {};
        address.sun_family = AF_UNIX; // any free name of the abstract namespace
        EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address.sun_family), 0);
        socklen_t length = sizeof address;
        EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
        EXPECT_EQ(::listen(listener, 0), 0);
        const auto *to = reinterpret_cast<const sockaddr *>(&address);
        Descriptor first(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        Descriptor second(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        trial.note("first", ::connect(first, to, length));
        limit(second, SO_SNDTIMEO, 10);
        trial.note("time limit", ::connect(second, to, length));
        limit(second, SO_SNDTIMEO, 0);
        Descriptor accepted;
        Peer peer(trial, [&] { accepted = Descriptor(::accept(listener, nullptr, nullptr)); });
        trial.note("second", ::connect(second, to, length));
        peer.join();
        trial.note("accepted", accepted >= 0);
    });
}

TEST(Connections, FastOpen) {
    compare([](Trial &trial) {
        sockaddr_in address;
        Descriptor listener = support::tcp_listener(address);
        auto *to = reinterpret_cast<sockaddr *>(&address);
        const int queue = 5;
        (void)::setsockopt(listener, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof queue);
        const std::string text = support::pattern(1 << 20);
        for (int by_message = 0; by_message < 2; by_message++) {
            Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            std::string received(text.size(), '\0');
            Peer peer(trial, [&] {
                Descriptor accepted(::accept(listener, nullptr, nullptr));
                EXPECT_EQ(::recv(accepted, received.data(), received.size(), MSG_WAITALL), ssize_t(text.size()));
            });
            iovec part = {const_cast<char *>(text.data()), text.size()};
            msghdr message = {};
            message.msg_name = to;
            message.msg_namelen = sizeof address;
            message.msg_iov = &part;
            message.msg_iovlen = 1;
            const ssize_t sent = by_message
                                     ? ::sendmsg(client, &message, MSG_FASTOPEN)
                                     : ::sendto(client, text.data(), text.size(), MSG_FASTOPEN, to, sizeof address);
            trial.note("sent", sent);
            if (sent < 0) (void)::connect(client, to, sizeof address), client.close();
            peer.join();
            trial.note("equal", received == text);
        }
        listener.close();
        Descriptor late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        trial.note("refused", ::sendto(late, text.data(), text.size(), MSG_FASTOPEN, to, sizeof address));
    });
}

void send_with_descriptor(int socket, std::string bytes, int descriptor) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {bytes.data(), bytes.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    EXPECT_EQ(::sendmsg(socket, &message, 0), ssize_t(bytes.size()));
}

// Receives into `bytes` and notes the outcome, with the result of a close of the received descriptor.
void receive_with_descriptor(Trial &trial, int socket, std::span<char> bytes, int flags) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {bytes.data(), bytes.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t result = ::recvmsg(socket, &message, flags);
    trial.note("recvmsg", result);
    trial.text("bytes", std::string(bytes.data(), size_t(std::max<ssize_t>(result, 0))));
    trial.note("flags", message.msg_flags);
    trial.note("size of the control data", message.msg_controllen);
    int descriptor = -1;
    if (const cmsghdr *header = CMSG_FIRSTHDR(&message)) std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    trial.note("descriptor", ::close(descriptor));
}

TEST(Connections, DescriptorsArrive) {
    compare([](Trial &trial) {
        Stream stream = make_stream(Kind::unix_stream);
        char bytes[1];
        Peer peer(trial, [&] { send_with_descriptor(stream.writer, "d", stream.writer); });
        receive_with_descriptor(trial, stream.reader, bytes, 0);
    });
}

// A receive of all bytes ends with the part that a descriptor comes with, whichever part that is.
TEST(Connections, ADescriptorEndsAReceiveOfAllBytes) {
    for (const char *before : {"", "1", "12"})
        compare([before](Trial &trial) {
            Stream stream = make_stream(Kind::unix_stream);
            Peer peer(trial, [&] {
                send_in_pieces(stream.writer, before);
                send_with_descriptor(stream.writer, "with", stream.writer);
                EXPECT_EQ(::send(stream.writer, "after", 5, 0), 5);
            });
            char bytes[16];
            receive_with_descriptor(trial, stream.reader, bytes, MSG_WAITALL);
            trial.note("rest", ::recv(stream.reader, bytes, 5, MSG_WAITALL));
        });
}

} // namespace
