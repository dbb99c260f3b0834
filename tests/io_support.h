// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for the I/O tests: descriptors that close themselves, every kind of stream with and without O_NONBLOCK, and
// reads of the kernel's remaining data by plain calls. Descriptors are closed with plain close(2): no operation may be
// under way.
#ifndef FIBERRT_TESTS_IO_SUPPORT_H
#define FIBERRT_TESTS_IO_SUPPORT_H

#include "support.h"

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <tuple>
#include <utility>
#include <vector>

namespace support {

class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor &&other) noexcept : number_(other.release()) {}
    Descriptor &operator=(Descriptor &&other) noexcept {
        if (this != &other) {
            close();
            number_ = other.release();
        }
        return *this;
    }
    ~Descriptor() { close(); }
    operator int() const { return number_; }
    int release() { return std::exchange(number_, -1); }
    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }

private:
    int number_ = -1;
};

// Lets queued operations reach the kernel and completed operations come back.
inline void settle() { EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); }

// Lets time pass until condition() is true; returns false after 20 s, which a sweep of refusals (tests/faults/) does
// not yet take for a hang.
template <class Condition>
bool eventually(Condition condition) {
    const int64_t give_up = fiber_now() + FIBER_SEC(20);
    while (!condition()) {
        if (fiber_now() > give_up || fiber_sleep(FIBER_USEC(200)) != 0) return false;
    }
    return true;
}

inline int status_flags(int fd) { return fcntl(fd, F_GETFL); }

inline void set_nonblock(int fd, bool on) {
    const int flags = status_flags(fd);
    EXPECT_EQ(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), 0);
}

// Reads the bytes available now, by a plain call, without a fiber and without waiting. -EAGAIN if there is nothing.
inline int64_t plain_read(int fd, void *buffer, size_t count) {
    pollfd look = {fd, POLLIN, 0};
    if (::poll(&look, 1, 0) == 0) return -EAGAIN;
    const ssize_t got = ::read(fd, buffer, count);
    return got < 0 ? -errno : got;
}

inline int64_t plain_write(int fd, const std::string &text) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    return put < 0 ? -errno : put;
}

// Reads, by plain calls, all bytes that are available now.
inline std::string drain(int fd) {
    std::string all;
    static thread_local char chunk[65536]; // not on the fiber's stack; nothing switches while it is in use
    for (;;) {
        const int64_t got = plain_read(fd, chunk, sizeof chunk);
        if (got <= 0) return all;
        all.append(chunk, static_cast<size_t>(got));
    }
}

// As drain(fd), but waits until `size` bytes have come: a terminal and TCP need a moment. Then reads once more, so that
// surplus bytes show as well.
inline std::string drain(int fd, size_t size) {
    std::string all;
    EXPECT_TRUE(eventually([&] { return (all += drain(fd)).size() >= size; })) << all.size() << " of " << size;
    settle();
    return all + drain(fd);
}

// Bytes that differ at every place where a mix-up would show.
inline std::string pattern(size_t size) {
    std::string text(size, '\0');
    uint32_t state = 2463534242u;
    for (size_t i = 0; i < size; i += sizeof state) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        std::memcpy(&text[i], &state, std::min(sizeof state, size - i));
    }
    return text;
}

enum class Kind { pipe, unix_stream, tcp, pty };

inline const char *kind_name(Kind kind) {
    switch (kind) {
    case Kind::pipe: return "pipe";
    case Kind::unix_stream: return "unix";
    case Kind::tcp: return "tcp";
    case Kind::pty: return "pty";
    }
    return "?";
}

struct Stream {
    Descriptor reader;
    Descriptor writer;
};

inline Descriptor tcp_listener(sockaddr_in &address, int backlog = 128, bool nonblock = false) {
    Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0));
    EXPECT_EQ(bind_to_own_address(listener), 0);
    EXPECT_EQ(::listen(listener, backlog), 0);
    socklen_t length = sizeof address;
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
    return listener;
}

// A new socket connected by plain calls; loopback TCP needs no accept for that.
inline Descriptor tcp_client(const sockaddr_in &address) {
    Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
    return client;
}

// A plain accept without waiting; -EAGAIN if the backlog is empty.
inline int plain_accept(int listener) {
    pollfd look = {listener, POLLIN, 0};
    if (::poll(&look, 1, 0) == 0) return -EAGAIN;
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

inline Stream make_stream(Kind kind, bool nonblock = false) {
    Stream stream;
    int ends[2] = {-1, -1};
    switch (kind) {
    case Kind::pipe:
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        stream = {Descriptor(ends[0]), Descriptor(ends[1])};
        break;
    case Kind::unix_stream:
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        stream = {Descriptor(ends[0]), Descriptor(ends[1])};
        break;
    case Kind::tcp: {
        sockaddr_in address;
        Descriptor listener = tcp_listener(address);
        stream.writer = tcp_client(address);
        stream.reader = Descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        break;
    }
    case Kind::pty: {
        stream.writer = Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
        char name[64] = {};
        EXPECT_EQ(::grantpt(stream.writer), 0);
        EXPECT_EQ(::unlockpt(stream.writer), 0);
        EXPECT_EQ(::ptsname_r(stream.writer, name, sizeof name), 0);
        stream.reader = Descriptor(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
        termios raw = {};
        EXPECT_EQ(::tcgetattr(stream.reader, &raw), 0);
        ::cfmakeraw(&raw);
        EXPECT_EQ(::tcsetattr(stream.reader, TCSANOW, &raw), 0);
        break;
    }
    }
    EXPECT_GE(stream.reader, 0);
    EXPECT_GE(stream.writer, 0);
    set_nonblock(stream.reader, nonblock);
    set_nonblock(stream.writer, nonblock);
    return stream;
}

// In a simulation, makes the buffer for written bytes small: megabytes show no more than some pages, and every seed
// moves them anew. (TCP may then send all of it, and learn up to 40 ms later that it came: no test may rely on the
// buffer staying full.)
inline void lessen_room(int fd) {
    if (!simulated()) return;
    const int room = 16 << 10;
    if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room) != 0) (void)fcntl(fd, F_SETPIPE_SZ, 4096);
}

// The kernel lets the send buffer of a TCP connection grow with the acknowledgements, also with those that come after it
// was full, unless the program has set its size. This keeps the present size.
inline void keep_room(int fd) {
    int room = 0;
    socklen_t size = sizeof room;
    if (::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &size) != 0) return;
    room /= 2; // the kernel doubles it
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}

// Whether bytes of a TCP connection have not been acknowledged yet: the acknowledgement makes room for others. (It never
// comes for bytes that the other side drops for want of room.)
inline bool tcp_on_the_way(int fd) {
    tcp_info about = {};
    socklen_t size = sizeof about;
    return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &about, &size) == 0 && about.tcpi_unacked != 0;
}

// Fills a stream until a write would block, and returns how many bytes went in. The flags are as before afterwards.
inline size_t fill(int fd) {
    const int flags = status_flags(fd);
    EXPECT_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    static const std::string chunk(65536, 'f');
    size_t total = 0;
    // TCP and terminals go on moving bytes to the other side for a moment, so full means full several times in a row.
    // For TCP it also means that the other side has acknowledged the bytes, unless it drops them for want of room.
    sockaddr_storage address = {};
    socklen_t length = sizeof address;
    (void)::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length);
    const bool terminal = ::isatty(fd), moves_on = terminal || address.ss_family == AF_INET;
    if (!terminal) keep_room(fd);
    lessen_room(fd);
    for (int full = 0, on_the_way = 0; full < (terminal ? 20 : moves_on ? 5 : 1);) {
        const ssize_t put = ::write(fd, chunk.data(), chunk.size());
        if (put > 0) {
            total += static_cast<size_t>(put);
            full = 0;
        } else {
            EXPECT_EQ(errno, EAGAIN);
            if (!(tcp_on_the_way(fd) && ++on_the_way < 200)) ++full;
            if (moves_on) ::usleep(simulated() ? 50 : 1000);
        }
    }
    EXPECT_EQ(fcntl(fd, F_SETFL, flags), 0);
    return total;
}

inline std::string mode_name(bool nonblock) { return nonblock ? "nonblock" : "block"; }

using StreamParameter = std::tuple<Kind, bool>;

inline std::string stream_parameter_name(const testing::TestParamInfo<StreamParameter> &info) {
    return std::string(kind_name(std::get<0>(info.param))) + "_" + mode_name(std::get<1>(info.param));
}

// Tests of each kind of stream, with and without O_NONBLOCK. At a test's end the flags must be unchanged.
class StreamTest : public testing::TestWithParam<StreamParameter> {
protected:
    Kind kind() const { return std::get<0>(GetParam()); }
    bool nonblock() const { return std::get<1>(GetParam()); }
    bool is_socket() const { return kind() == Kind::unix_stream || kind() == Kind::tcp; }

    void SetUp() override {
        if (kind() == Kind::pty) NOT_ON_SIM("has no terminals");
        stream = make_stream(kind(), nonblock());
        reader_flags = status_flags(stream.reader);
        writer_flags = status_flags(stream.writer);
    }
    void TearDown() override {
        if (stream.reader >= 0) {
            EXPECT_EQ(status_flags(stream.reader), reader_flags);
        }
        if (stream.writer >= 0) {
            EXPECT_EQ(status_flags(stream.writer), writer_flags);
        }
    }

    Stream stream;
    int reader_flags = 0;
    int writer_flags = 0;
};

// A fresh folder for each test, removed afterwards with the files that the test named through path().
class Folder {
public:
    Folder() {
        std::string name = testing::TempDir() + "fiberrt-XXXXXX";
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        name_ = name;
    }
    ~Folder() {
        for (const std::string &file : files_)
            if (::unlink(file.c_str()) != 0) ::rmdir(file.c_str());
        ::rmdir(name_.c_str());
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    const std::string &name() const { return name_; }
    std::string path(const std::string &file) {
        files_.insert(files_.begin(), name_ + "/" + file);
        return files_.front();
    }

private:
    std::string name_;
    std::vector<std::string> files_;
};

} // namespace support

#endif
