// SPDX-License-Identifier: MIT OR Apache-2.0
// What an adopted library reads after a refused wait. The tests with real client libraries (client.c) found each of
// these cases.
#include "plain_calls.h"
#include "support.h"

#include <array>
#include <functional>
#include <thread>

using namespace support;

namespace {

using Ends = std::array<int, 2>;

class RefusedWait : public testing::Test {
protected:
    void SetUp() override { ASSERT_GT(fiber_posix_adopt("libposix_plain_calls.so", 0), 0); }

    // A TCP connection: the library's end, then that of its server.
    static Ends connection() {
        Ends ends = {-1, -1};
        int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(bind_to_own_address(listener), 0);
        EXPECT_EQ(::listen(listener, 1), 0);
        sockaddr_in address = {};
        socklen_t size = sizeof address;
        EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size), 0);
        ends[0] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::connect(ends[0], reinterpret_cast<sockaddr *>(&address), size), 0);
        ends[1] = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        ::close(listener);
        return ends;
    }
    static Ends pair() {
        Ends ends = {-1, -1};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        return ends;
    }
    static void close(Ends ends) {
        for (int end : ends) ::close(end);
    }

    // Runs body in a fiber, in a scope that is cancelled once the fiber waits.
    template <class Body>
    static void cancelled_while_waiting(Body body) {
        fiber_scope_t scope;
        auto run = [&] {
            ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
            body();
            ASSERT_EQ(fiber_scope_close(scope, nullptr), -ECANCELED);
        };
        fiber_t fiber = spawn(run);
        do ASSERT_EQ(fiber_reschedule(), 0);
        while (fiber_state(fiber) != FIBER_WAITING);
        ASSERT_EQ(fiber_scope_cancel(scope, nullptr), 0);
        join(fiber);
    }
};

// libcurl polls its connection together with a pair by which other threads wake it. If the pair is ended, every later
// poll returns at once, for as long as the handle lives.
TEST_F(RefusedWait, OfPollEndsTheConnectionAndNotThePairThatWakesTheLibrary) {
    Ends tcp = connection(), wakeup = pair();
    cancelled_while_waiting([&] {
        std::array<pollfd, 2> entries = {{{tcp[0], POLLIN, 0}, {wakeup[0], POLLIN, 0}}};
        EXPECT_EQ(plain_poll(entries.data(), entries.size(), -1), 1);
        EXPECT_EQ(entries[0].revents, POLLIN | POLLHUP);
        EXPECT_EQ(entries[1].revents, 0);
    });
    pollfd entry = {wakeup[0], POLLIN, 0};
    EXPECT_EQ(plain_poll(&entry, 1, 0), 0);
    EXPECT_EQ(::send(wakeup[1], "w", 1, MSG_NOSIGNAL), 1);
    EXPECT_EQ(plain_poll(&entry, 1, -1), 1);
    close(tcp), close(wakeup);
}

TEST_F(RefusedWait, OfPollOnSuchAPairAloneFails) {
    Ends wakeup = pair();
    cancelled_while_waiting([&] {
        pollfd entry = {wakeup[0], POLLIN, 0};
        EXPECT_EQ(plain_poll(&entry, 1, -1), -1);
        EXPECT_EQ(errno, ECANCELED);
    });
    EXPECT_EQ(::send(wakeup[1], "w", 1, MSG_NOSIGNAL), 1);
    close(wakeup);
}

// Each receiving call, with a buffer of this size.
using Receive = std::function<ssize_t(int fd, char *buffer, size_t size)>;
const std::array<Receive, 8> receives = {
    [](int fd, char *buffer, size_t size) { return plain_read(fd, buffer, size); },
    [](int fd, char *buffer, size_t size) { return plain_recv(fd, buffer, size, 0); },
    [](int fd, char *buffer, size_t size) { return plain_recv(fd, buffer, size, MSG_DONTWAIT); },
    [](int fd, char *buffer, size_t size) { return plain_recvfrom(fd, buffer, size, 0); },
    [](int fd, char *buffer, size_t size) {
        iovec part = {buffer, size};
        return plain_readv(fd, &part, 1);
    },
    [](int fd, char *buffer, size_t size) {
        iovec part = {buffer, size};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        return plain_recvmsg(fd, &message, 0);
    },
    [](int fd, char *buffer, size_t size) {
        char second = 0;
        const int messages = plain_recvmmsg(fd, buffer, &second, size);
        return ssize_t(size ? messages : messages > 0 ? 0 : messages);
    },
    [](int fd, char *, size_t size) {
        int ends[2];
        EXPECT_EQ(::pipe(ends), 0);
        const ssize_t result = plain_splice(fd, ends[1], size);
        const int error = errno;
        ::close(ends[0]), ::close(ends[1]);
        errno = error;
        return result;
    },
};
constexpr size_t without_wait = 2;
constexpr size_t of_messages = 6; // recvmmsg, which reports an ordinary end as messages without bytes

// An answer of HTTP/1.0 is complete when the connection ends. A library that reads the end of an ended connection as an
// ordinary one reports half of an answer as a whole one. After ECONNRESET, unlike ECANCELED, libpq gives up the
// connection.
TEST_F(RefusedWait, IsNotReadAsAnOrdinaryEnd) {
    for (const Receive &receive : receives) {
        Ends tcp = connection();
        cancelled_while_waiting([&] {
            char byte = 0;
            pollfd entry = {tcp[0], POLLIN, 0};
            EXPECT_EQ(plain_poll(&entry, 1, -1), 1);
            for (int again = 0; again < 2; again++) {
                EXPECT_EQ(receive(tcp[0], &byte, 1), -1);
                EXPECT_EQ(errno, ECONNRESET);
            }
            EXPECT_EQ(receive(tcp[0], &byte, 0), 0); // asked for nothing
        });
        close(tcp);
    }
}

TEST_F(RefusedWait, ByADeadlineIsNotReadAsAnOrdinaryEnd) {
    for (const Receive &receive : receives) {
        Ends tcp = connection();
        auto run = [&] {
            int verdict = 0;
            FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &verdict) {
                char byte = 0;
                pollfd entry = {tcp[0], POLLIN, 0};
                EXPECT_EQ(plain_poll(&entry, 1, -1), 1);
                EXPECT_EQ(receive(tcp[0], &byte, 1), -1);
                EXPECT_EQ(errno, ECONNRESET);
            }
            EXPECT_EQ(verdict, -ETIMEDOUT);
        };
        join(spawn(run));
        close(tcp);
    }
}

// The library may read again when no wait of the fiber is refused any more, from another fiber, or from another thread.
TEST_F(RefusedWait, IsRememberedForEachReader) {
    for (const Receive &receive : receives) {
        Ends tcp = connection();
        auto expect_reset = [&](const char *reader) {
            char byte = 0;
            EXPECT_EQ(receive(tcp[0], &byte, 1), -1) << reader;
            EXPECT_EQ(errno, ECONNRESET) << reader;
        };
        cancelled_while_waiting([&] {
            char byte = 0;
            EXPECT_EQ(plain_recv(tcp[0], &byte, 1, 0), -1);
            EXPECT_EQ(errno, ECANCELED);
        });
        auto later = [&] { expect_reset("a fiber"); };
        join(spawn(later));
        auto in_section = [&] {
            EXPECT_EQ(fiber_noswitch_enter(), 0);
            expect_reset("a fiber that may not wait");
            EXPECT_EQ(fiber_noswitch_leave(), 0);
        };
        join(spawn(in_section));
        std::thread([&] { expect_reset("a thread without fibers"); }).join();
        close(tcp);
    }
}

// Another fiber waits for the same connection.
TEST_F(RefusedWait, IsNotAnOrdinaryEndForAFiberThatWaitsToo) {
    for (const Receive &receive : receives) {
        if (&receive == &receives[without_wait]) continue;
        Ends tcp = connection();
        auto wait = [&] {
            char byte = 0;
            EXPECT_EQ(receive(tcp[0], &byte, 1), -1);
            EXPECT_EQ(errno, ECONNRESET);
        };
        fiber_t other = spawn(wait);
        do ASSERT_EQ(fiber_reschedule(), 0);
        while (fiber_state(other) != FIBER_WAITING);
        cancelled_while_waiting([&] {
            pollfd entry = {tcp[0], POLLIN, 0};
            EXPECT_EQ(plain_poll(&entry, 1, -1), 1);
        });
        join(other);
        close(tcp);
    }
}

// Only the connections that libfiberrt has ended: neither another one's end, nor one that the peer of a cancelled fiber
// makes.
TEST_F(RefusedWait, DoesNotChangeAnOrdinaryEnd) {
    Ends ended = connection();
    cancelled_while_waiting([&] {
        char byte = 0;
        EXPECT_EQ(plain_recv(ended[0], &byte, 1, 0), -1);
    });
    for (const Receive &receive : receives) {
        Ends tcp = connection();
        const ssize_t end = &receive == &receives[of_messages] ? 2 : 0;
        ::close(tcp[1]);
        pollfd arrives = {tcp[0], POLLIN, 0};
        ASSERT_EQ(plain_poll(&arrives, 1, -1), 1);
        auto read = [&] {
            char byte = 0;
            errno = EDOM;
            EXPECT_EQ(receive(tcp[0], &byte, 1), end);
            EXPECT_EQ(errno, EDOM);
        };
        join(spawn(read));
        std::thread(read).join();
        cancelled_while_waiting([&] {
            char byte = 0;
            EXPECT_EQ(plain_poll(nullptr, 0, -1), -1);
            EXPECT_EQ(plain_recv(tcp[0], &byte, 1, 0), 0);
        });
        ::close(tcp[0]);
    }
    close(ended);
}

TEST_F(RefusedWait, IsForgottenWhenTheSocketGetsANewConnection) {
    Ends tcp = connection();
    cancelled_while_waiting([&] {
        char byte = 0;
        EXPECT_EQ(plain_recv(tcp[0], &byte, 1, 0), -1);
    });
    int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind_to_own_address(listener), 0);
    ASSERT_EQ(::listen(listener, 1), 0);
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size), 0);
    auto connect_again = [&] {
        char byte = 0;
        EXPECT_EQ(plain_recv(tcp[0], &byte, 1, 0), -1);
        sockaddr none = {};
        none.sa_family = AF_UNSPEC;
        ASSERT_EQ(plain_connect(tcp[0], &none, sizeof none), 0);
        ASSERT_EQ(plain_connect(tcp[0], reinterpret_cast<sockaddr *>(&address), size), 0);
        ::close(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        EXPECT_EQ(plain_recv(tcp[0], &byte, 1, 0), 0);
    };
    join(spawn(connect_again));
    ::close(listener);
    close(tcp);
}

// A library that ignores the error makes the call again and again. The fiber pauses, so the other fibers run.
TEST_F(RefusedWait, MakesALibraryThatReadsAgainAndAgainPause) {
    Ends tcp = connection();
    constexpr int enough = 6;
    int reads = 0, turns = 0;
    auto count_turns = [&] {
        for (; reads < enough; turns++) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
    };
    fiber_t other = spawn(count_turns);
    cancelled_while_waiting([&] {
        char byte = 0;
        pollfd entry = {tcp[0], POLLIN, 0};
        EXPECT_EQ(plain_poll(&entry, 1, -1), 1);
        const int before = turns;
        for (; reads < enough; reads++) EXPECT_EQ(plain_recv(tcp[0], &byte, 1, 0), -1);
        EXPECT_GT(turns, before);
    });
    join(other);
    close(tcp);
}

// docs/posix.md has the number.
TEST_F(RefusedWait, OfTheLast1024ConnectionsIsRemembered) {
    constexpr int remembered = 1024;
    std::array<Ends, 2> kept = {pair(), pair()};
    auto refuse = [](int fd) {
        cancelled_while_waiting([&] {
            char byte = 0;
            EXPECT_EQ(plain_recv(fd, &byte, 1, 0), -1);
        });
    };
    auto next = [](int fd) {
        char byte = 0;
        const ssize_t result = plain_recv(fd, &byte, 1, 0);
        return result < 0 ? -errno : int(result);
    };
    for (const Ends &ends : kept) refuse(ends[0]);
    for (int i = 0; i < remembered - 1; i++) {
        Ends other = pair();
        refuse(other[0]);
        close(other);
    }
    EXPECT_EQ(next(kept[0][0]), 0) << "the oldest has made place";
    EXPECT_EQ(next(kept[1][0]), -ECONNRESET);
    for (const Ends &ends : kept) close(ends);
}

// An epoll instance watches the connections of unrelated exchanges, too.
TEST_F(RefusedWait, OfEpollEndsNoConnection) {
    Ends tcp = connection();
    int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {};
    event.events = EPOLLIN;
    ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, tcp[0], &event), 0);
    cancelled_while_waiting([&] {
        EXPECT_EQ(plain_epoll_wait(epoll, &event, 1, -1), -1);
        EXPECT_EQ(errno, ECANCELED);
    });
    EXPECT_EQ(::send(tcp[1], "a", 1, 0), 1);
    auto read = [&] {
        char byte = 0;
        EXPECT_EQ(plain_epoll_wait(epoll, &event, 1, -1), 1);
        EXPECT_EQ(plain_recv(tcp[0], &byte, 1, 0), 1);
    };
    join(spawn(read));
    ::close(epoll);
    close(tcp);
}

} // namespace
