// SPDX-License-Identifier: MIT OR Apache-2.0
// Every I/O call that can wait, in a situation in which it waits; for tests of how close, cancel and deadlines affect
// it.
#ifndef FIBERRT_TESTS_IO_CALLS_H
#define FIBERRT_TESTS_IO_CALLS_H

#include "io_support.h"

namespace support {

enum class Call {
    read,
    readv,
    read_socket,
    read_terminal,
    recv,
    recvfrom,
    recvmsg,
    recv_fds,
    splice_in,
    copy_in,
    accept,
    accept4,
    connect,
    poll_in,
    poll_out,
    write,
    writev,
    write_socket,
    send,
    sendto,
    sendmsg,
    send_fds,
    splice_out,
    copy_out,
};

constexpr Call all_calls[] = {Call::read,     Call::readv,    Call::read_socket,  Call::read_terminal, Call::recv,
                              Call::recvfrom, Call::recvmsg,  Call::recv_fds,     Call::splice_in,     Call::copy_in,
                              Call::accept,   Call::accept4,  Call::connect,      Call::poll_in,       Call::poll_out,
                              Call::write,    Call::writev,   Call::write_socket, Call::send,          Call::sendto,
                              Call::sendmsg,  Call::send_fds, Call::splice_out,   Call::copy_out};

inline const char *call_name(Call call) {
    static const char *const names[] = {
        "read",      "readv",        "read_socket", "read_terminal", "recv",    "recvfrom", "recvmsg",    "recv_fds",
        "splice_in", "copy_in",      "accept",      "accept4",       "connect", "poll_in",  "poll_out",   "write",
        "writev",    "write_socket", "send",        "sendto",        "sendmsg", "send_fds", "splice_out", "copy_out"};
    return names[static_cast<int>(call)];
}

// One call and the descriptors around it. It waits until allow() or let_through().
class WaitingCall {
public:
    WaitingCall(Call call, bool nonblock) : call_(call) {
        switch (call) {
        case Call::accept:
        case Call::accept4: listener_ = tcp_listener(tcp_address_, 128, nonblock); break;
        case Call::connect:
            make_full_backlog();
            socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0));
            break;
        case Call::read_terminal:
            if (!simulated()) stream_ = make_stream(Kind::pty, nonblock);
            break;
        case Call::splice_in:
        case Call::splice_out:
        case Call::copy_in:
        case Call::copy_out:
            other_ = make_stream(Kind::pipe);
            if (puts()) {
                EXPECT_EQ(plain_write(other_.writer, "data"), 4);
            }
            [[fallthrough]];
        case Call::read:
        case Call::readv:
        case Call::poll_in:
        case Call::poll_out:
        case Call::write:
        case Call::writev: stream_ = make_stream(Kind::pipe, nonblock); break;
        default: stream_ = make_stream(Kind::unix_stream, nonblock);
        }
        if (puts() || call == Call::poll_out) filled_ = fill(stream_.writer);
        memset(buffer, 'w', sizeof buffer);
    }

    // The descriptor that the call waits on.
    Descriptor &descriptor() {
        if (call_ == Call::accept || call_ == Call::accept4) return listener_;
        if (call_ == Call::connect) return socket_;
        return puts() || call_ == Call::poll_out ? stream_.writer : stream_.reader;
    }

    // The call itself; an accepted connection is closed again.
    int64_t run() {
        const int fd = descriptor();
        iovec part = {buffer, 4};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        switch (call_) {
        case Call::read:
        case Call::read_socket:
        case Call::read_terminal: return fiber_read(fd, buffer, 4);
        case Call::readv: return fiber_readv(fd, &part, 1);
        case Call::recv: return fiber_recv(fd, buffer, 4, 0);
        case Call::recvfrom: return receive_from_peer(fd);
        case Call::recvmsg: return fiber_recvmsg(fd, &message, 0);
        case Call::accept: return take(fiber_accept(fd, nullptr, nullptr));
        case Call::accept4: return take(fiber_accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
        case Call::connect: return fiber_connect(fd, reinterpret_cast<sockaddr *>(&unix_address_), unix_length_);
        case Call::poll_in: return fiber_poll_fd(fd, POLLIN);
        case Call::poll_out: return fiber_poll_fd(fd, POLLOUT);
        case Call::write:
        case Call::write_socket: return fiber_write(fd, buffer, 4);
        case Call::writev: return fiber_writev(fd, &part, 1);
        case Call::send: return fiber_send(fd, buffer, 4, 0);
        case Call::sendto: return fiber_sendto(fd, buffer, 4, 0, nullptr, 0);
        case Call::sendmsg: return fiber_sendmsg(fd, &message, 0);
        case Call::recv_fds: return receive_with_descriptors(fd);
        case Call::send_fds: return fiber_send_fds(fd, buffer, 4, &fd, 1);
        case Call::splice_in: return fiber_splice(fd, nullptr, other_.writer, nullptr, 4, 0);
        case Call::splice_out: return fiber_splice(other_.reader, nullptr, fd, nullptr, 4, 0);
        case Call::copy_in: return fiber_copy(fd, other_.writer, 4, nullptr, nullptr);
        case Call::copy_out: return fiber_copy(other_.reader, fd, 4, nullptr, nullptr);
        }
        return -ENOSYS;
    }

    // The result of run() when nothing hinders it.
    int64_t success() const {
        if (call_ == Call::poll_in) return POLLIN;
        if (call_ == Call::poll_out) return POLLOUT;
        if (call_ == Call::accept || call_ == Call::accept4 || call_ == Call::connect) return 0;
        return 4;
    }

    // Lets the wait end, by plain calls.
    void let_through() {
        if (call_ == Call::accept || call_ == Call::accept4) {
            others_.push_back(tcp_client(tcp_address_));
        } else if (call_ == Call::connect) {
            Descriptor served(plain_accept(listener_));
            EXPECT_GE(served, 0);
        } else if (puts() || call_ == Call::poll_out) {
            EXPECT_EQ(drain(stream_.reader).size(), filled_);
            filled_ = 0;
        } else {
            EXPECT_EQ(plain_write(stream_.writer, "data"), 4);
        }
    }

    // After let_through(): waits until the kernel reports that the call can go on. A kernel thread passes a terminal's
    // data on; there a ring's thread may read them first, so that this waits in vain.
    void await_readiness() {
        bool writes = puts() || call_ == Call::poll_out || call_ == Call::connect;
        pollfd look = {descriptor(), short(writes ? POLLOUT : POLLIN), 0};
        const bool ready = ::poll(&look, 1, call_ == Call::read_terminal ? 20 : -1) == 1;
        EXPECT_TRUE(ready || call_ == Call::read_terminal);
    }

    // After a call that failed: checks that it took nothing, put nothing, and will not.
    void expect_untouched() {
        EXPECT_EQ(std::string(buffer, sizeof buffer), std::string(sizeof buffer, 'w'));
        if (call_ == Call::accept || call_ == Call::accept4) {
            Descriptor client = tcp_client(tcp_address_);
            settle();
            Descriptor served(plain_accept(listener_));
            EXPECT_GE(served, 0) << "the connection has gone";
        } else if (puts()) {
            EXPECT_EQ(drain(stream_.reader).size(), filled_);
            settle();
            EXPECT_EQ(drain(stream_.reader), "");
        } else if (call_ != Call::connect && call_ != Call::poll_out) {
            EXPECT_EQ(plain_write(stream_.writer, "kept"), 4);
            EXPECT_EQ(drain(stream_.reader, 4), "kept");
        }
        EXPECT_EQ(std::string(buffer, sizeof buffer), std::string(sizeof buffer, 'w'));
    }

    char buffer[64];

private:
    bool puts() const {
        return call_ == Call::write || call_ == Call::writev || call_ == Call::write_socket || call_ == Call::send ||
               call_ == Call::sendto || call_ == Call::sendmsg || call_ == Call::send_fds ||
               call_ == Call::splice_out || call_ == Call::copy_out;
    }
    int64_t receive_from_peer(int fd) {
        sockaddr_un peer;
        socklen_t length = sizeof peer;
        const int64_t result = fiber_recvfrom(fd, buffer, 4, 0, reinterpret_cast<sockaddr *>(&peer), &length);
        EXPECT_EQ(length, result < 0 ? sizeof peer : 0);
        return result;
    }
    int64_t receive_with_descriptors(int fd) {
        size_t none = 0;
        return fiber_recv_fds(fd, buffer, 4, nullptr, &none, nullptr);
    }
    static int64_t take(int fd) {
        if (fd < 0) return fd;
        ::close(fd);
        return 0;
    }
    void make_full_backlog() {
        listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        unix_address_.sun_family = AF_UNIX; // only the family: the kernel picks a free abstract name
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr *>(&unix_address_), sizeof(sa_family_t)), 0);
        EXPECT_EQ(::listen(listener_, 0), 0);
        unix_length_ = sizeof unix_address_;
        EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr *>(&unix_address_), &unix_length_), 0);
        for (;;) {
            Descriptor filler(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            if (::connect(filler, reinterpret_cast<sockaddr *>(&unix_address_), unix_length_) != 0) break;
            others_.push_back(std::move(filler));
        }
    }

    Call call_;
    Stream stream_;
    Stream other_; // the other side of a call that moves data from one descriptor to another
    Descriptor listener_;
    Descriptor socket_;
    std::vector<Descriptor> others_;
    sockaddr_in tcp_address_ = {};
    sockaddr_un unix_address_ = {};
    socklen_t unix_length_ = 0;
    size_t filled_ = 0;
};

using CallParameter = std::tuple<Call, bool>;

inline std::string call_parameter_name(const testing::TestParamInfo<CallParameter> &info) {
    return std::string(call_name(std::get<0>(info.param))) + "_" + mode_name(std::get<1>(info.param));
}

} // namespace support

#endif
