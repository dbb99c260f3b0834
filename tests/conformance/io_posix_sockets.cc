// SPDX-License-Identifier: MIT OR Apache-2.0
// The scenarios of docs/posix-calls.md about sockets.
#include "io_posix.h"
#include "io_support.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace posix {

namespace {

constexpr int ROOM = 1 << 16;

// ---- Events at the other end ----------------------------------------------------------------------------------------

void put(int fd, const char *text, int flags = 0) {
    EXPECT_EQ(::send(fd, text, strlen(text), MSG_NOSIGNAL | flags), ssize_t(strlen(text)));
}

void set(int fd, int level, int option, int value) {
    EXPECT_EQ(setsockopt(fd, level, option, &value, sizeof value), 0) << strerror(errno);
}

void set_time_limit(int fd, int option) {
    const timeval limit = {0, 50'000};
    EXPECT_EQ(setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit), 0);
}

// Sends text with a descriptor.
void put_descriptor(int fd, const char *text) {
    union {
        cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {};
    iovec data = {const_cast<char *>(text), strlen(text)};
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    EXPECT_EQ(::sendmsg(fd, &message, MSG_NOSIGNAL), ssize_t(strlen(text)));
}

// A signal, in this thread and in the threads that it makes. posix_spawn blocks signals for a moment; a SIGCHLD of that
// moment interrupts another thread, though no handler runs, and the kernel's recvmsg then returns without credentials.
class Blocked {
public:
    explicit Blocked(int signal) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signal);
        pthread_sigmask(SIG_BLOCK, &one, &before_);
    }
    Blocked(const Blocked &) = delete;
    Blocked &operator=(const Blocked &) = delete;
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

void put_by_another_process(int fd, const std::string &text) {
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    int status = -1;
    std::string script = "printf " + text;
    char shell[] = "sh", option[] = "-c", *const words[] = {shell, option, script.data(), nullptr};
    EXPECT_EQ(posix_spawn_file_actions_init(&actions), 0);
    EXPECT_EQ(posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO), 0);
    EXPECT_EQ(posix_spawn(&child, "/bin/sh", &actions, nullptr, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// Sends as much as there is room for.
void fill(int fd) {
    static const char zeros[ROOM] = {};
    support::keep_room(fd);
    sockaddr_storage address = {};
    socklen_t length = sizeof address;
    if (::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length) == 0 && address.ss_family == AF_INET)
        tcp_fills++;
    for (int i = 0; i < 200; i++) {
        for (size_t size : {sizeof zeros, size_t{1024}, size_t{1}})
            while (::send(fd, zeros, size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {}
        if (!support::tcp_on_the_way(fd)) break;
        ::usleep(1000);
    }
}

void drain(int fd) {
    static char buffer[ROOM];
    while (::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) > 0) {}
}

// Ends a tcp connection by a reset.
void reset(Trial &trial, int fd) {
    const linger at_once = {1, 0};
    EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    trial.disown(fd);
    ::close(fd);
}

void close_end(Trial &trial, int fd) {
    trial.disown(fd);
    ::close(fd);
}

// ---- The calls ------------------------------------------------------------------------------------------------------

struct Message {
    explicit Message(size_t size = 16, size_t room_for_control = 0) {
        data = {buffer, size};
        header.msg_iov = &data;
        header.msg_iovlen = 1;
        if (room_for_control) {
            header.msg_control = control;
            header.msg_controllen = room_for_control;
        }
    }
    Message(const Message &) = delete;
    Message &operator=(const Message &) = delete;

    char buffer[ROOM];
    alignas(cmsghdr) char control[256];
    iovec data;
    msghdr header = {};
};

// "3 bytes, 1 descriptor, MSG_CTRUNC": of a recvmsg.
std::string received(int64_t result, Message &message) {
    if (result < 0) return name_of_error(result);
    std::string text = bytes(result);
    size_t descriptors = 0;
    bool close_on_exec = true;
    for (cmsghdr *part = CMSG_FIRSTHDR(&message.header); part; part = CMSG_NXTHDR(&message.header, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
            ucred sender;
            memcpy(&sender, CMSG_DATA(part), sizeof sender);
            text += sender.pid == getpid() ? ", credentials"
                    : sender.pid           ? ", credentials of another"
                                           : ", none's credentials";
        }
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, reinterpret_cast<char *>(part) + at, sizeof fd);
            close_on_exec &= fcntl(fd, F_GETFD) == FD_CLOEXEC;
            ::close(fd);
            descriptors++;
        }
    }
    if (descriptors) text += ", " + std::to_string(descriptors) + (descriptors == 1 ? " descriptor" : " descriptors");
    if (descriptors && close_on_exec) text += ", FD_CLOEXEC";
    for (const auto &[flag, name] :
         {std::pair{MSG_CTRUNC, ", MSG_CTRUNC"}, std::pair{MSG_TRUNC, ", MSG_TRUNC"}, std::pair{MSG_OOB, ", MSG_OOB"},
          std::pair{MSG_ERRQUEUE, ", MSG_ERRQUEUE"}, std::pair{MSG_EOR, ", MSG_EOR"}})
        if (message.header.msg_flags & flag) text += name;
    return text;
}

// One call in its four forms, on as many descriptors at once. They agree, or each result is named.
class Shapes {
public:
    Shapes(Trial &trial, bool receive, const std::function<Trial::Pair()> &make, int flags = 0)
        : trial_(trial), names_(receive ? receiving : sending) {
        for (int shape = 0; shape < count; shape++) {
            pairs.push_back(make());
            messages_.push_back(std::make_unique<Message>());
            const int fd = pairs.back().here;
            Message &message = *messages_.back();
            if (!receive) message.data.iov_len = ROOM;
            if (!receive) fill(fd);
            waiters_.push_back(trial.begin([=, &message](Calls &calls) {
                iovec &data = message.data;
                switch (shape + (receive ? 0 : count)) {
                case 0: return bytes(calls.recv(fd, data.iov_base, data.iov_len, flags));
                case 1: return bytes(calls.recvmsg(fd, &message.header, flags));
                case 2: return bytes(calls.read(fd, data.iov_base, data.iov_len));
                case 3: return bytes(calls.readv(fd, &data, 1));
                case 4: return bytes(calls.send(fd, data.iov_base, data.iov_len, flags));
                case 5: return bytes(calls.sendmsg(fd, &message.header, flags));
                case 6: return bytes(calls.write(fd, data.iov_base, data.iov_len));
                default: return bytes(calls.writev(fd, &data, 1));
                }
            }));
        }
    }
    void outcome() {
        std::vector<std::string> states;
        for (auto &waiter : waiters_) states.push_back(trial_.state(*waiter));
        std::string all = states[0];
        for (const std::string &state : states) {
            if (state == states[0]) continue;
            all.clear();
            for (int shape = 0; shape < count; shape++)
                all += std::string(names_[shape]) + ": " + states[size_t(shape)] + (shape < count - 1 ? ", " : "");
            break;
        }
        trial_.note(all);
    }
    template <class Act>
    void each(Act act) {
        for (const Trial::Pair &pair : pairs) act(pair);
    }
    std::vector<Trial::Pair> pairs;

private:
    static constexpr int count = 4;
    static constexpr const char *receiving[count] = {"recv", "recvmsg", "read", "readv"};
    static constexpr const char *sending[count] = {"send", "sendmsg", "write", "writev"};
    Trial &trial_;
    const char *const *names_;
    std::vector<std::unique_ptr<Message>> messages_;
    std::vector<std::unique_ptr<Waiter>> waiters_; // after the messages, which they use
};

// The kernel's write raises SIGPIPE, but also returns the error.
struct NoSigpipe {
    NoSigpipe() { before = ::signal(SIGPIPE, SIG_IGN); }
    ~NoSigpipe() { ::signal(SIGPIPE, before); }
    void (*before)(int);
};

enum class Kind { tcp, unix_stream, unix_seqpacket, unix_dgram, udp };

Trial::Pair make(Trial &trial, Kind kind) {
    switch (kind) {
    case Kind::tcp: return trial.tcp();
    case Kind::unix_stream: return trial.pair(SOCK_STREAM);
    case Kind::unix_seqpacket: return trial.pair(SOCK_SEQPACKET);
    case Kind::unix_dgram: return trial.pair(SOCK_DGRAM);
    default: return trial.udp();
    }
}

// ---- One end is shut down, or closed, while a call waits ------------------------------------------------------------

template <Kind kind, class Act>
void parked_receive(Trial &trial, Act act) {
    Shapes calls(trial, true, [&] { return make(trial, kind); });
    calls.outcome();
    calls.each(act);
    calls.outcome();
}

template <Kind kind, class Act>
void parked_send(Trial &trial, Act act) {
    NoSigpipe ignored;
    Shapes calls(trial, false, [&] { return make(trial, kind); });
    calls.outcome();
    calls.each(act);
    calls.outcome();
}

template <Kind kind, class Act>
void parked_poll(Trial &trial, int wanted, Act act) {
    const Trial::Pair pair = make(trial, kind);
    if (wanted == POLLOUT) fill(pair.here);
    auto waiter = trial.begin([&](Calls &calls) { return events(calls.poll(pair.here, wanted)); });
    trial.outcome(*waiter);
    act(pair);
    trial.outcome(*waiter);
}

// Of one kind of socket.
template <Kind kind>
struct ShutdownScenarios {
    static void add(const std::string &what, const char *name, void (*run)(Trial &trial)) {
        Scenario(what + "_" + name, run);
    }
    static void add_all(const char *name) {
        add("recv_own_shut_rd", name, [](Trial &trial) {
            parked_receive<kind>(trial, [](Trial::Pair pair) { ::shutdown(pair.here, SHUT_RD); });
        });
        add("recv_own_shut_rdwr", name, [](Trial &trial) {
            parked_receive<kind>(trial, [](Trial::Pair pair) { ::shutdown(pair.here, SHUT_RDWR); });
        });
        add("recv_peer_shut_wr", name, [](Trial &trial) {
            parked_receive<kind>(trial, [](Trial::Pair pair) { ::shutdown(pair.there, SHUT_WR); });
        });
        add("recv_peer_closes", name,
            [](Trial &trial) { parked_receive<kind>(trial, [&](Trial::Pair pair) { close_end(trial, pair.there); }); });
        add("recv_after_own_shut_rd", name, [](Trial &trial) {
            Shapes calls(trial, true, [&] {
                const Trial::Pair pair = make(trial, kind);
                ::shutdown(pair.here, SHUT_RD);
                return pair;
            });
            calls.outcome();
        });
        if (kind != Kind::udp) { // a send on udp never waits: the datagram is received at once
            add("send_own_shut_wr", name, [](Trial &trial) {
                parked_send<kind>(trial, [](Trial::Pair pair) { ::shutdown(pair.here, SHUT_WR); });
            });
            add("send_own_shut_rdwr", name, [](Trial &trial) {
                parked_send<kind>(trial, [](Trial::Pair pair) { ::shutdown(pair.here, SHUT_RDWR); });
            });
            add("send_peer_shut_rd", name, [](Trial &trial) {
                parked_send<kind>(trial, [](Trial::Pair pair) { ::shutdown(pair.there, SHUT_RD); });
            });
            add("send_peer_closes", name, [](Trial &trial) {
                parked_send<kind>(trial, [&](Trial::Pair pair) { close_end(trial, pair.there); });
            });
            add("poll_out_own_shut_wr", name, [](Trial &trial) {
                parked_poll<kind>(trial, POLLOUT, [](Trial::Pair pair) { ::shutdown(pair.here, SHUT_WR); });
            });
            add("poll_out_peer_shut_rd", name, [](Trial &trial) {
                parked_poll<kind>(trial, POLLOUT, [](Trial::Pair pair) { ::shutdown(pair.there, SHUT_RD); });
            });
        }
        add("poll_in_own_shut_rd", name, [](Trial &trial) {
            parked_poll<kind>(trial, POLLIN, [](Trial::Pair pair) { ::shutdown(pair.here, SHUT_RD); });
        });
        add("poll_in_peer_shut_wr", name, [](Trial &trial) {
            parked_poll<kind>(trial, POLLIN, [](Trial::Pair pair) { ::shutdown(pair.there, SHUT_WR); });
        });
        add("poll_in_peer_closes", name, [](Trial &trial) {
            parked_poll<kind>(trial, POLLIN, [&](Trial::Pair pair) { close_end(trial, pair.there); });
        });
    }
};

const bool shutdowns = [] {
    ShutdownScenarios<Kind::tcp>::add_all("tcp");
    ShutdownScenarios<Kind::unix_stream>::add_all("unix");
    ShutdownScenarios<Kind::unix_seqpacket>::add_all("seqpacket");
    ShutdownScenarios<Kind::unix_dgram>::add_all("unix_dgram");
    ShutdownScenarios<Kind::udp>::add_all("udp");
    return true;
}();

// ---- Flags of a receive ---------------------------------------------------------------------------------------------

std::string left_in(const Trial &trial, int fd) {
    char rest[64];
    if (trial.expected() != "then -EAGAIN") { // the network may take a moment
        pollfd look = {fd, POLLIN, 0};
        ::poll(&look, 1, 10'000);
    }
    const ssize_t got = ::recv(fd, rest, sizeof rest, MSG_DONTWAIT);
    return "then " + (got < 0 ? name_of_error(-errno) : bytes(got));
}

// Sends with MSG_ZEROCOPY, and does not take the kernel's notice that the memory is free again: so poll(2) reports
// POLLERR.
void leave_zerocopy_notice(Trial::Pair pair) {
    char got[3];
    set(pair.here, SOL_SOCKET, SO_ZEROCOPY, 1);
    EXPECT_EQ(::send(pair.here, "abc", 3, MSG_ZEROCOPY), 3);
    EXPECT_EQ(::recv(pair.there, got, 3, MSG_WAITALL), 3);
    pollfd look = {pair.here, 0, 0};
    EXPECT_EQ(::poll(&look, 1, 10'000), 1);
}

// "abc" is there when the receives begin, after `prepare`; `more` happens to one that waits; the last outcome is the bytes
// that they leave.
void receive(Trial &trial, Kind kind, int flags, const std::function<void(Trial::Pair)> &more = nullptr,
             void (*prepare)(Trial::Pair) = nullptr) {
    const Trial::Pair by_recv = make(trial, kind), by_recvmsg = make(trial, kind);
    if (prepare) {
        prepare(by_recv);
        prepare(by_recvmsg);
    }
    Message plain(10), message(10);
    put(by_recv.there, "abc");
    put(by_recvmsg.there, "abc");
    {
        auto first =
            trial.begin([&](Calls &calls) { return bytes(calls.recv(by_recv.here, plain.buffer, 10, flags)); });
        auto second =
            trial.begin([&](Calls &calls) { return bytes(calls.recvmsg(by_recvmsg.here, &message.header, flags)); });
        auto outcome = [&] {
            const std::string one = trial.state(*first), other = trial.state(*second);
            trial.note(one == other ? one : "recv: " + one + ", recvmsg: " + other);
        };
        outcome();
        if (more) {
            more(by_recv);
            more(by_recvmsg);
            outcome();
        }
    }
    const std::string one = left_in(trial, by_recv.here), other = left_in(trial, by_recvmsg.here);
    trial.note(one == other ? one : "recv: " + one + ", recvmsg: " + other);
}

const Scenario waitall[] = {
    {"waitall_tcp", [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL, [](auto p) { put(p.there, "defghijk"); }); }},
    {"waitall_unix",
     [](Trial &t) { receive(t, Kind::unix_stream, MSG_WAITALL, [](auto p) { put(p.there, "defghijk"); }); }},
    {"waitall_seqpacket", [](Trial &t) { receive(t, Kind::unix_seqpacket, MSG_WAITALL); }},
    {"waitall_unix_dgram", [](Trial &t) { receive(t, Kind::unix_dgram, MSG_WAITALL); }},
    {"waitall_udp", [](Trial &t) { receive(t, Kind::udp, MSG_WAITALL); }},
    {"waitall_dontwait_tcp", [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL | MSG_DONTWAIT); }},
    {"waitall_dontwait_unix", [](Trial &t) { receive(t, Kind::unix_stream, MSG_WAITALL | MSG_DONTWAIT); }},
    {"waitall_peer_closes_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL, [&](auto p) { close_end(t, p.there); }); }},
    {"waitall_peer_closes_unix",
     [](Trial &t) { receive(t, Kind::unix_stream, MSG_WAITALL, [&](auto p) { close_end(t, p.there); }); }},
    {"waitall_own_shut_rd_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL, [](auto p) { ::shutdown(p.here, SHUT_RD); }); }},
    {"waitall_own_shut_rd_unix",
     [](Trial &t) { receive(t, Kind::unix_stream, MSG_WAITALL, [](auto p) { ::shutdown(p.here, SHUT_RD); }); }},
    {"waitall_reset_tcp", [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL, [&](auto p) { reset(t, p.there); }); }},
    {"waitall_reset_unix", // the peer leaves something unread
     [](Trial &t) {
         receive(t, Kind::unix_stream, MSG_WAITALL, [&](auto p) {
             put(p.here, "x");
             close_end(t, p.there);
         });
     }},
    {"waitall_trunc_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL | MSG_TRUNC, [](auto p) { put(p.there, "defghijk"); }); }},
    {"waitall_zerocopy_tcp",
     [](Trial &t) {
         receive(
             t, Kind::tcp, MSG_WAITALL, [](auto p) { put(p.there, "defghijk"); }, leave_zerocopy_notice);
     }},
    {"waitall_urgent_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL, [](auto p) { put(p.there, "deX", MSG_OOB); }); }},
    {"waitall_urgent_next_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_WAITALL, [](auto p) { put(p.there, "X", MSG_OOB); }); }},
    {"waitall_urgent_unix",
     [](Trial &t) { receive(t, Kind::unix_stream, MSG_WAITALL, [](auto p) { put(p.there, "deX", MSG_OOB); }); }},
    {"peek_waitall_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_PEEK | MSG_WAITALL, [](auto p) { put(p.there, "defghijk"); }); }},
    {"peek_waitall_zerocopy_tcp",
     [](Trial &t) {
         receive(
             t, Kind::tcp, MSG_PEEK | MSG_WAITALL, [](auto p) { put(p.there, "defghijk"); }, leave_zerocopy_notice);
     }},
    {"peek_waitall_unix", [](Trial &t) { receive(t, Kind::unix_stream, MSG_PEEK | MSG_WAITALL); }},
    {"peek_waitall_seqpacket", [](Trial &t) { receive(t, Kind::unix_seqpacket, MSG_PEEK | MSG_WAITALL); }},
    {"peek_waitall_udp", [](Trial &t) { receive(t, Kind::udp, MSG_PEEK | MSG_WAITALL); }},
    {"peek_waitall_peer_closes_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_PEEK | MSG_WAITALL, [&](auto p) { close_end(t, p.there); }); }},
    {"peek_waitall_urgent_tcp",
     [](Trial &t) { receive(t, Kind::tcp, MSG_PEEK | MSG_WAITALL, [](auto p) { put(p.there, "deX", MSG_OOB); }); }},
    {"peek_tcp", [](Trial &t) { receive(t, Kind::tcp, MSG_PEEK); }},
    {"peek_unix", [](Trial &t) { receive(t, Kind::unix_stream, MSG_PEEK); }},
    {"peek_udp", [](Trial &t) { receive(t, Kind::udp, MSG_PEEK); }},
    {"trunc_tcp", [](Trial &t) { receive(t, Kind::tcp, MSG_TRUNC); }},
    {"waitforone_tcp", [](Trial &t) { receive(t, Kind::tcp, MSG_WAITFORONE); }},
    {"waitforone_udp", [](Trial &t) { receive(t, Kind::udp, MSG_WAITFORONE); }},
};

// By a number that no receive has used: after one that got less than it asked for, the next on libev waits for readiness
// first, which takes the option into account.
Trial::Pair fresh(Trial &trial, Trial::Pair pair) {
    static int number = 200;
    return {trial.own(fcntl(pair.here, F_DUPFD_CLOEXEC, number++)), pair.there};
}

void poll_for_urgent_data(Trial &trial, const Trial::Pair &pair) {
    auto waiter = trial.begin([&](Calls &calls) { return events(calls.poll(pair.here, POLLPRI)); });
    trial.outcome(*waiter);
    put(pair.there, "ab");
    trial.outcome(*waiter);
    put(pair.there, "X", MSG_OOB);
    trial.outcome(*waiter);
}

// A receive with flags; `more` happens while it waits.
template <class More>
void receive_on_empty(Trial &trial, const Trial::Pair &pair, int flags, More more) {
    Message message(10);
    auto waiter = trial.begin([&](Calls &calls) { return bytes(calls.recv(pair.here, message.buffer, 10, flags)); });
    trial.outcome(*waiter);
    if constexpr (!std::is_null_pointer_v<More>) {
        more();
        trial.outcome(*waiter);
    }
}

const Scenario receives[] = {
    {"dontwait_tcp", [](Trial &t) { receive_on_empty(t, t.tcp(), MSG_DONTWAIT, nullptr); }},
    {"dontwait_unix", [](Trial &t) { receive_on_empty(t, t.pair(SOCK_STREAM), MSG_DONTWAIT, nullptr); }},
    {"dontwait_udp", [](Trial &t) { receive_on_empty(t, t.udp(), MSG_DONTWAIT, nullptr); }},
    {"peek_waits_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         receive_on_empty(t, pair, MSG_PEEK, [&] { put(pair.there, "abc"); });
     }},
    {"errqueue_empty_tcp", [](Trial &t) { receive_on_empty(t, t.tcp(), MSG_ERRQUEUE, nullptr); }},
    {"errqueue_empty_udp", [](Trial &t) { receive_on_empty(t, t.udp(), MSG_ERRQUEUE, nullptr); }},
    {"oob_none_tcp", [](Trial &t) { receive_on_empty(t, t.tcp(), MSG_OOB, nullptr); }},
    {"oob_none_unix", [](Trial &t) { receive_on_empty(t, t.pair(SOCK_STREAM), MSG_OOB, nullptr); }},
    {"oob_inline_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         set(pair.here, SOL_SOCKET, SO_OOBINLINE, 1);
         put(pair.there, "X", MSG_OOB);
         receive_on_empty(t, pair, MSG_OOB, nullptr);
         receive_on_empty(t, pair, 0, nullptr);
     }},
    {"oob_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         put(pair.there, "abX", MSG_OOB);
         receive_on_empty(t, pair, MSG_OOB, nullptr);
         receive_on_empty(t, pair, MSG_OOB, nullptr);
         receive_on_empty(t, pair, 0, nullptr);
     }},
    {"oob_waitall_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         put(pair.there, "abX", MSG_OOB);
         receive_on_empty(t, pair, MSG_OOB | MSG_WAITALL, nullptr);
     }},
    {"urgent_alone_tcp", // only the urgent byte: no data for a receive without MSG_OOB
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         put(pair.there, "X", MSG_OOB);
         receive_on_empty(t, pair, 0, [&] { put(pair.there, "abc"); });
     }},
    {"urgent_alone_unix",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         put(pair.there, "X", MSG_OOB);
         receive_on_empty(t, pair, 0, [&] { put(pair.there, "abc"); });
     }},
    {"urgent_splits_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         put(pair.there, "abX", MSG_OOB);
         put(pair.there, "cde");
         receive_on_empty(t, pair, 0, nullptr);
         receive_on_empty(t, pair, 0, nullptr);
     }},
    {"urgent_poll_tcp", [](Trial &t) { poll_for_urgent_data(t, t.tcp()); }},
    {"urgent_poll_unix", [](Trial &t) { poll_for_urgent_data(t, t.pair(SOCK_STREAM)); }},
    {"peek_off_unix", // beyond the bytes that are there
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         put(pair.there, "abc");
         set(pair.here, SOL_SOCKET, SO_PEEK_OFF, 3);
         receive_on_empty(t, pair, MSG_PEEK, [&] { put(pair.there, "de"); });
     }},
    {"peek_off_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         put(pair.there, "abc");
         set(pair.here, SOL_SOCKET, SO_PEEK_OFF, 3);
         receive_on_empty(t, pair, MSG_PEEK, [&] { put(pair.there, "de"); });
     }},
    {"reset_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         receive_on_empty(t, pair, 0, [&] { reset(t, pair.there); });
         receive_on_empty(t, pair, 0, nullptr);
     }},
    {"refused_udp", // an error that the network has reported
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         close_end(t, pair.there);
         receive_on_empty(t, pair, 0, [&] { put(pair.here, "x"); });
     }},
    {"refused_queued_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         set(pair.here, IPPROTO_IP, IP_RECVERR, 1);
         close_end(t, pair.there);
         receive_on_empty(t, pair, 0, [&] { put(pair.here, "x"); });
         receive_on_empty(t, pair, MSG_ERRQUEUE, nullptr);
     }},
    {"trunc_udp",
     [](Trial &t) {
         for (const int flags : {0, int(MSG_TRUNC)}) {
             const Trial::Pair pair = t.udp();
             put(pair.there, "0123456789abcdef");
             receive_on_empty(t, pair, flags, nullptr);
         }
     }},
    {"trunc_seqpacket",
     [](Trial &t) {
         for (const int flags : {0, int(MSG_TRUNC)}) {
             const Trial::Pair pair = t.pair(SOCK_SEQPACKET);
             put(pair.there, "0123456789abcdef");
             receive_on_empty(t, pair, flags, nullptr);
         }
     }},
    {"gro_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         set(pair.here, IPPROTO_UDP, UDP_GRO, 1);
         set(pair.there, IPPROTO_UDP, UDP_SEGMENT, 2);
         put(pair.there, "abcdef");
         receive_on_empty(t, pair, 0, nullptr);
         receive_on_empty(t, pair, MSG_DONTWAIT, nullptr);
     }},
    {"segment_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         set(pair.there, IPPROTO_UDP, UDP_SEGMENT, 4);
         put(pair.there, "abcdef");
         receive_on_empty(t, pair, 0, nullptr);
         receive_on_empty(t, pair, 0, nullptr);
         receive_on_empty(t, pair, MSG_DONTWAIT, nullptr);
     }},
    {"lowat_tcp",
     [](Trial &t) {
         const Trial::Pair pair = fresh(t, t.tcp());
         set(pair.here, SOL_SOCKET, SO_RCVLOWAT, 5);
         put(pair.there, "abc");
         receive_on_empty(t, pair, 0, [&] { put(pair.there, "de"); });
     }},
    {"lowat_unix",
     [](Trial &t) {
         const Trial::Pair pair = fresh(t, t.pair(SOCK_STREAM));
         set(pair.here, SOL_SOCKET, SO_RCVLOWAT, 5);
         put(pair.there, "abc");
         receive_on_empty(t, pair, 0, [&] { put(pair.there, "de"); });
     }},
    {"lowat_parked_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         set(pair.here, SOL_SOCKET, SO_RCVLOWAT, 5);
         Message message(10);
         auto waiter = t.begin([&](Calls &calls) { return bytes(calls.recv(pair.here, message.buffer, 10, 0)); });
         put(pair.there, "abc");
         t.outcome(*waiter);
         put(pair.there, "de");
         t.outcome(*waiter);
     }},
    {"lowat_poll_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         set(pair.here, SOL_SOCKET, SO_RCVLOWAT, 5);
         put(pair.there, "abc");
         auto waiter = t.begin([&](Calls &calls) { return events(calls.poll(pair.here, POLLIN)); });
         t.outcome(*waiter);
         put(pair.there, "de");
         t.outcome(*waiter);
     }},
    {"rcvtimeo_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         set_time_limit(pair.here, SO_RCVTIMEO);
         receive_on_empty(t, pair, 0, nullptr);
     }},
    {"rcvtimeo_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         set_time_limit(pair.here, SO_RCVTIMEO);
         receive_on_empty(t, pair, 0, nullptr);
     }},
    {"not_connected_tcp",
     [](Trial &t) {
         const int fd = t.own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
         receive_on_empty(t, {fd, -1}, 0, nullptr);
     }},
    {"not_connected_seqpacket",
     [](Trial &t) {
         const int fd = t.own(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
         receive_on_empty(t, {fd, -1}, 0, nullptr);
     }},
};

// ---- Nothing is asked for -------------------------------------------------------------------------------------------

void receive_nothing(Trial &trial, Kind kind, bool some) {
    const Trial::Pair pair = make(trial, kind);
    if (some) put(pair.there, "abc");
    char byte;
    iovec empty[2] = {{&byte, 0}, {nullptr, 0}};
    auto waiter_read = trial.begin([&](Calls &calls) { return "read: " + bytes(calls.read(pair.here, &byte, 0)); });
    trial.outcome(*waiter_read);
    auto waiter_readv = trial.begin([&](Calls &calls) { return "readv: " + bytes(calls.readv(pair.here, empty, 2)); });
    trial.outcome(*waiter_readv);
    auto waiter_none = trial.begin([&](Calls &calls) { return "readv: " + bytes(calls.readv(pair.here, nullptr, 0)); });
    trial.outcome(*waiter_none);
    auto waiter_recv = trial.begin([&](Calls &calls) { return "recv: " + bytes(calls.recv(pair.here, &byte, 0, 0)); });
    trial.outcome(*waiter_recv);
}

const Scenario nothings[] = {
    {"nothing_tcp", [](Trial &t) { receive_nothing(t, Kind::tcp, true); }},
    {"nothing_empty_tcp", [](Trial &t) { receive_nothing(t, Kind::tcp, false); }},
    {"nothing_unix", [](Trial &t) { receive_nothing(t, Kind::unix_stream, true); }},
    {"nothing_empty_unix", [](Trial &t) { receive_nothing(t, Kind::unix_stream, false); }},
    {"nothing_udp", [](Trial &t) { receive_nothing(t, Kind::udp, true); }},
    {"nothing_empty_udp", [](Trial &t) { receive_nothing(t, Kind::udp, false); }},
    {"nothing_empty_seqpacket", [](Trial &t) { receive_nothing(t, Kind::unix_seqpacket, false); }},
    {"send_nothing",
     [](Trial &t) {
         const Trial::Pair stream = t.pair(SOCK_STREAM), datagram = t.pair(SOCK_DGRAM);
         fill(stream.here);
         auto full = t.begin([&](Calls &calls) { return bytes(calls.send(stream.here, "", 0, 0)); });
         t.outcome(*full);
         auto empty = t.begin([&](Calls &calls) { return bytes(calls.send(datagram.here, "", 0, 0)); });
         t.outcome(*empty);
         auto got = t.begin([&](Calls &calls) {
             char byte;
             return bytes(calls.recv(datagram.here, &byte, 1, MSG_DONTWAIT));
         });
         t.outcome(*got);
         t.note(left_in(t, datagram.there));
     }},
};

// ---- Ancillary data -------------------------------------------------------------------------------------------------

// A recvmsg with MSG_WAITALL of 10 bytes, with room for `room` bytes of ancillary data, while parts come.
void receive_parts(Trial &trial, Kind kind, size_t room, int flags, const std::vector<std::string> &parts) {
    const Trial::Pair pair = make(trial, kind);
    Message message(10, room);
    auto waiter = trial.begin([&](Calls &calls) {
        const int64_t result = calls.recvmsg(pair.here, &message.header, flags);
        return received(result, message);
    });
    for (const std::string &part : parts) {
        if (part[0] == '+')
            put_descriptor(pair.there, part.c_str() + 1);
        else
            put(pair.there, part.c_str());
        trial.outcome(*waiter);
    }
    trial.note(left_in(trial, pair.here));
}

constexpr size_t ONE = CMSG_SPACE(sizeof(int));

const Scenario ancillaries[] = {
    {"waitall_descriptor_last",
     [](Trial &t) {
         receive_parts(t, Kind::unix_stream, ONE, MSG_WAITALL, {"abc", "+defghij"});
     }},
    {"waitall_descriptor_first",
     [](Trial &t) {
         receive_parts(t, Kind::unix_stream, ONE, MSG_WAITALL, {"+abc", "defghij"});
     }},
    {"waitall_descriptor_middle",
     [](Trial &t) {
         receive_parts(t, Kind::unix_stream, ONE, MSG_WAITALL, {"abc", "+de", "fghij"});
     }},
    {"waitall_descriptor_no_room",
     [](Trial &t) {
         receive_parts(t, Kind::unix_stream, 0, MSG_WAITALL, {"abc", "+de", "fghij"});
     }},
    {"waitall_descriptors_two",
     [](Trial &t) {
         receive_parts(t, Kind::unix_stream, 256, MSG_WAITALL, {"+ab", "+cd", "efghij"});
     }},
    {"waitall_descriptor_cloexec",
     [](Trial &t) {
         receive_parts(t, Kind::unix_stream, ONE, MSG_WAITALL | MSG_CMSG_CLOEXEC, {"abc", "+defghij"});
     }},
    {"recv_waitall_descriptor",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         Message message(10);
         auto waiter =
             t.begin([&](Calls &calls) { return bytes(calls.recv(pair.here, message.buffer, 10, MSG_WAITALL)); });
         put(pair.there, "abc");
         t.outcome(*waiter);
         put_descriptor(pair.there, "de");
         t.outcome(*waiter);
         put(pair.there, "fghij");
         t.outcome(*waiter);
     }},
    {"credentials_and_descriptor",
     [](Trial &t) {
         for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
             const Trial::Pair pair = t.pair(type);
             set(pair.here, SOL_SOCKET, SO_PASSCRED, 1);
             Message message(10, 256);
             auto waiter = t.begin([&](Calls &calls) {
                 const int64_t result = calls.recvmsg(pair.here, &message.header, 0);
                 return received(result, message);
             });
             t.outcome(*waiter);
             put_descriptor(pair.there, "abc");
             t.outcome(*waiter);
         }
     }},
    {"waitall_credentials",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         set(pair.here, SOL_SOCKET, SO_PASSCRED, 1);
         Message message(10, 256);
         auto waiter = t.begin([&](Calls &calls) {
             const int64_t result = calls.recvmsg(pair.here, &message.header, MSG_WAITALL);
             return received(result, message);
         });
         put(pair.there, "abc");
         t.outcome(*waiter);
         put(pair.there, "defghij");
         t.outcome(*waiter);
     }},
    {"waitall_credentials_other",
     [](Trial &t) {
         const Blocked child_ends(SIGCHLD);
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         set(pair.here, SOL_SOCKET, SO_PASSCRED, 1);
         Message message(10, 256);
         auto receives = [&](Calls &calls) {
             message.header.msg_controllen = 256;
             const int64_t result = calls.recvmsg(pair.here, &message.header, MSG_WAITALL);
             return received(result, message);
         };
         auto first = t.begin(receives);
         put(pair.there, "abc");
         t.outcome(*first);
         put_by_another_process(pair.there, "de");
         t.outcome(*first);
         auto second = t.begin(receives);
         t.outcome(*second);
         put(pair.there, "fghij");
         t.outcome(*second);
         t.note(left_in(t, pair.here));
     }},
    {"peek_waitall_descriptor",
     [](Trial &t) { receive_parts(t, Kind::unix_stream, ONE, MSG_WAITALL | MSG_PEEK, {"+abc"}); }},
    {"descriptor_cloexec", [](Trial &t) { receive_parts(t, Kind::unix_stream, ONE, MSG_CMSG_CLOEXEC, {"+abc"}); }},
    {"descriptor_no_room", [](Trial &t) { receive_parts(t, Kind::unix_stream, 0, 0, {"+abc"}); }},
    {"descriptor_seqpacket", [](Trial &t) { receive_parts(t, Kind::unix_seqpacket, ONE, MSG_WAITALL, {"+abc"}); }},
    {"descriptor_dgram_no_room", [](Trial &t) { receive_parts(t, Kind::unix_dgram, 0, 0, {"+abc"}); }},
    {"descriptor_splits_unix",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         put(pair.there, "abc");
         put_descriptor(pair.there, "de");
         put(pair.there, "fgh");
         for (int i = 0; i < 2; i++) {
             Message message(10, ONE);
             auto waiter = t.begin([&](Calls &calls) {
                 const int64_t result = calls.recvmsg(pair.here, &message.header, 0);
                 return received(result, message);
             });
             t.outcome(*waiter);
         }
     }},
};

// ---- Sends ----------------------------------------------------------------------------------------------------------

void send_small(Trial &trial, const Trial::Pair &pair, int flags) {
    auto waiter = trial.begin([&](Calls &calls) { return bytes(calls.send(pair.here, "abc", 3, flags)); });
    trial.outcome(*waiter);
}

// A send to a full socket, in which there is room later.
void send_to_full(Trial &trial, Kind kind) {
    NoSigpipe ignored;
    const Trial::Pair pair = make(trial, kind);
    fill(pair.here);
    auto waiter = trial.begin([&](Calls &calls) { return bytes(calls.send(pair.here, "abc", 3, 0)); });
    trial.outcome(*waiter);
    drain(pair.there);
    trial.outcome(*waiter);
}

struct Listening {
    sockaddr_storage address;
    socklen_t length;
    int fd;
    explicit Listening(Trial &trial, int backlog = 8) { fd = trial.listener(&address, &length, backlog); }
    const sockaddr *at() const { return reinterpret_cast<const sockaddr *>(&address); }
};

int tcp_socket(Trial &trial, bool for_calls = true) {
    return trial.own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), for_calls);
}

void fast_open(Trial &trial, bool listening) {
    Listening listener(trial);
    if (!listening) close_end(trial, listener.fd);
    const int fd = tcp_socket(trial);
    Message message(4);
    message.header.msg_name = &listener.address;
    message.header.msg_namelen = listener.length;
    auto waiter = trial.begin([&](Calls &calls) { return bytes(calls.sendmsg(fd, &message.header, MSG_FASTOPEN)); });
    trial.outcome(*waiter);
    if (!listening) return;
    const int there = trial.own(::accept(listener.fd, nullptr, nullptr), false);
    trial.note(left_in(trial, there));
}

void fast_open_connect(Trial &trial, bool listening) {
    Listening listener(trial);
    if (!listening) close_end(trial, listener.fd);
    const int fd = tcp_socket(trial);
    set(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
    auto connecting =
        trial.begin([&](Calls &calls) { return name_of_error(calls.connect(fd, listener.at(), listener.length)); });
    trial.outcome(*connecting);
    auto sending = trial.begin([&](Calls &calls) { return bytes(calls.send(fd, "abcd", 4, 0)); });
    trial.outcome(*sending);
}

const Scenario sends[] = {
    {"send_dontwait_full",
     [](Trial &t) {
         for (const Kind kind : {Kind::tcp, Kind::unix_stream}) {
             const Trial::Pair pair = make(t, kind);
             fill(pair.here);
             send_small(t, pair, MSG_DONTWAIT);
         }
     }},
    {"send_full_tcp", [](Trial &t) { send_to_full(t, Kind::tcp); }},
    {"send_full_unix", [](Trial &t) { send_to_full(t, Kind::unix_stream); }},
    {"send_full_seqpacket", [](Trial &t) { send_to_full(t, Kind::unix_seqpacket); }},
    {"send_full_unix_dgram", [](Trial &t) { send_to_full(t, Kind::unix_dgram); }},
    {"send_more_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         send_small(t, pair, MSG_MORE);
         send_small(t, pair, MSG_CONFIRM);
         t.note(left_in(t, pair.there));
     }},
    {"send_eor_seqpacket",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_SEQPACKET);
         send_small(t, pair, MSG_EOR);
         send_small(t, pair, MSG_MORE);
         t.note(left_in(t, pair.there));
     }},
    {"send_oob",
     [](Trial &t) {
         for (const Kind kind : {Kind::tcp, Kind::unix_stream, Kind::unix_seqpacket, Kind::udp}) {
             const Trial::Pair pair = make(t, kind);
             send_small(t, pair, MSG_OOB);
         }
     }},
    {"send_zerocopy_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         set(pair.here, SOL_SOCKET, SO_ZEROCOPY, 1);
         send_small(t, pair, MSG_ZEROCOPY);
         t.note(left_in(t, pair.there));
         auto waiter = t.begin([&](Calls &calls) { return events(calls.poll(pair.here, POLLPRI)); });
         t.outcome(*waiter);
         Message message(4, 256);
         auto told = t.begin([&](Calls &calls) {
             const int64_t result = calls.recvmsg(pair.here, &message.header, MSG_ERRQUEUE);
             return received(result, message);
         });
         t.outcome(*told);
     }},
    {"send_after_close_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         reset(t, pair.there);
         auto waiter = t.begin([&](Calls &calls) { return events(calls.poll(pair.here, POLLIN)); });
         t.outcome(*waiter);
         send_small(t, pair, 0);
         send_small(t, pair, 0);
     }},
    {"send_after_close_unix",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         close_end(t, pair.there);
         send_small(t, pair, 0);
     }},
    {"send_not_connected_tcp",
     [](Trial &t) {
         send_small(t, {tcp_socket(t), -1}, 0);
     }},
    {"send_large_unix",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         const std::string large(1 << 20, 'x');
         std::atomic<size_t> sent = 0;
         auto waiter = t.begin([&](Calls &calls) {
             const int64_t result = calls.send(pair.here, large.data(), large.size(), 0);
             sent = size_t(result);
             return result == int64_t(large.size()) ? "all" : result > 0 ? "a part" : name_of_error(result);
         });
         t.outcome(*waiter);
         size_t got = 0;
         char buffer[4096];
         while (got < large.size()) {
             const ssize_t piece = ::recv(pair.there, buffer, sizeof buffer, MSG_DONTWAIT);
             if (piece > 0) got += size_t(piece);
             if (piece < 0 && sent == got) break;
         }
         t.outcome(*waiter);
     }},
    {"sndtimeo_unix",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_STREAM);
         set_time_limit(pair.here, SO_SNDTIMEO);
         fill(pair.here);
         send_small(t, pair, 0);
     }},
    {"sndlowat",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         const int value = 100;
         const int error = setsockopt(pair.here, SOL_SOCKET, SO_SNDLOWAT, &value, sizeof value);
         t.note(error < 0 && errno == ENOPROTOOPT ? "-ENOPROTOOPT" : "it can be set");
     }},
    {"fastopen", [](Trial &t) { fast_open(t, true); }},
    {"fastopen_refused", [](Trial &t) { fast_open(t, false); }},
    {"fastopen_dontwait",
     [](Trial &t) {
         Listening listener(t);
         const int fd = tcp_socket(t);
         Message message(4);
         message.header.msg_name = &listener.address;
         message.header.msg_namelen = listener.length;
         auto waiter = t.begin(
             [&](Calls &calls) { return bytes(calls.sendmsg(fd, &message.header, MSG_FASTOPEN | MSG_DONTWAIT)); });
         t.outcome(*waiter);
     }},
    {"fastopen_connected", [](Trial &t) { send_small(t, t.tcp(), MSG_FASTOPEN); }},
    {"fastopen_connect", [](Trial &t) { fast_open_connect(t, true); }},
    {"fastopen_connect_refused", [](Trial &t) { fast_open_connect(t, false); }},
};

// ---- Addresses ------------------------------------------------------------------------------------------------------

// A recvfrom of 10 bytes, with so much room for the sender's address; `more` is called while it waits.
template <class More>
void receive_from(Trial &trial, Trial::Pair pair, int flags, More more, socklen_t room = sizeof(sockaddr_storage)) {
    sockaddr_storage there = {}, from = {};
    socklen_t length_there = sizeof there, length = room;
    EXPECT_EQ(::getsockname(pair.there, reinterpret_cast<sockaddr *>(&there), &length_there), 0);
    char buffer[10];
    auto waiter = trial.begin([&](Calls &calls) {
        const int64_t result =
            calls.recvfrom(pair.here, buffer, sizeof buffer, flags, reinterpret_cast<sockaddr *>(&from), &length);
        if (result < 0) return bytes(result) + (length == room ? "" : ", the length has changed");
        const bool whole = length == length_there && memcmp(&from, &there, std::min(length, room)) == 0;
        return bytes(result) + (whole ? ", the sender" : length == 0 ? ", no sender" : ", another address");
    });
    trial.outcome(*waiter);
    if constexpr (!std::is_null_pointer_v<More>) {
        more();
        trial.outcome(*waiter);
    }
}

void send_to(Trial &trial, int fd, int flags, const sockaddr *address, socklen_t length) {
    auto waiter = trial.begin([=](Calls &calls) { return bytes(calls.sendto(fd, "abc", 3, flags, address, length)); });
    trial.outcome(*waiter);
}

// To the address of the other end, where there is one.
void send_to_peer(Trial &trial, Trial::Pair pair, int flags = 0) {
    sockaddr_storage there = {};
    socklen_t length = sizeof there;
    EXPECT_EQ(::getsockname(pair.there, reinterpret_cast<sockaddr *>(&there), &length), 0);
    send_to(trial, pair.here, flags, reinterpret_cast<sockaddr *>(&there), length);
}

const Scenario addresses[] = {
    {"recvfrom_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         receive_from(t, pair, 0, [&] { put(pair.there, "abc"); });
     }},
    {"recvfrom_dontwait_udp", [](Trial &t) { receive_from(t, t.udp(), MSG_DONTWAIT, nullptr); }},
    {"recvfrom_short_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         receive_from(
             t, pair, 0, [&] { put(pair.there, "abc"); }, 4);
     }},
    {"recvfrom_trunc_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         put(pair.there, "abcdefghijklm");
         receive_from(t, pair, MSG_TRUNC, nullptr);
     }},
    {"recvfrom_own_shut_rd_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         receive_from(t, pair, 0, [&] { ::shutdown(pair.here, SHUT_RD); });
     }},
    {"recvfrom_unix_dgram",
     [](Trial &t) {
         const Trial::Pair pair = t.pair(SOCK_DGRAM);
         receive_from(t, pair, 0, [&] { put(pair.there, "abc"); });
     }},
    {"recvfrom_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         receive_from(t, pair, 0, [&] { put(pair.there, "abc"); });
     }},
    {"recvfrom_waitall_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         put(pair.there, "abc");
         receive_from(t, pair, MSG_WAITALL, [&] { put(pair.there, "defghij"); });
     }},
    {"recvfrom_peer_closes_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         receive_from(t, pair, 0, [&] { close_end(t, pair.there); });
     }},
    {"sendto_udp",
     [](Trial &t) {
         const Trial::Pair pair = t.udp();
         send_to_peer(t, pair);
         t.note(left_in(t, pair.there));
     }},
    {"sendto_no_address_udp",
     [](Trial &t) { send_to(t, t.own(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), 0, nullptr, 0); }},
    {"sendto_connection_tcp", [](Trial &t) { send_to_peer(t, t.tcp()); }},
    {"sendto_connection_unix", [](Trial &t) { send_to_peer(t, t.pair(SOCK_STREAM)); }},
    {"sendto_full_tcp",
     [](Trial &t) {
         const Trial::Pair pair = t.tcp();
         fill(pair.here);
         sockaddr_in there = {};
         socklen_t length = sizeof there;
         auto *address = reinterpret_cast<sockaddr *>(&there);
         EXPECT_EQ(::getsockname(pair.there, address, &length), 0);
         auto waiter =
             t.begin([&](Calls &calls) { return bytes(calls.sendto(pair.here, "abc", 3, 0, address, length)); });
         t.outcome(*waiter);
         drain(pair.there);
         t.outcome(*waiter);
     }},
    {"sendto_fastopen",
     [](Trial &t) {
         Listening listener(t);
         const int fd = tcp_socket(t);
         send_to(t, fd, MSG_FASTOPEN, listener.at(), listener.length);
         const int there = t.own(::accept(listener.fd, nullptr, nullptr), false);
         t.note(left_in(t, there));
     }},
};

// ---- Accept and connect ---------------------------------------------------------------------------------------------

template <class More>
void accept_one(Trial &trial, int fd, More more) {
    auto waiter = trial.begin([fd](Calls &calls) { return descriptor(calls.accept(fd)); });
    trial.outcome(*waiter);
    if constexpr (!std::is_null_pointer_v<More>) {
        more();
        trial.outcome(*waiter);
    }
}

// A unix listener with a new abstract name.
struct UnixListening {
    sockaddr_un address = {};
    socklen_t length = sizeof(sa_family_t);
    int fd;
    explicit UnixListening(Trial &trial, int backlog, int type = SOCK_STREAM) {
        fd = trial.own(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
        address.sun_family = AF_UNIX;
        EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&address), length), 0); // the kernel picks the name
        EXPECT_EQ(listen(fd, backlog), 0);
        length = sizeof address;
        EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length), 0);
    }
    const sockaddr *at() const { return reinterpret_cast<const sockaddr *>(&address); }
};

int unix_socket(Trial &trial, bool for_calls = true, int type = SOCK_STREAM) {
    return trial.own(socket(AF_UNIX, type | SOCK_CLOEXEC, 0), for_calls);
}

// A connect that waits, as the backlog is full.
template <class More>
void connect_to_full(Trial &trial, More more) {
    UnixListening listener(trial, 0);
    EXPECT_EQ(::connect(unix_socket(trial, false), listener.at(), listener.length), 0); // as many as it takes
    const int fd = unix_socket(trial);
    auto waiter =
        trial.begin([&](Calls &calls) { return name_of_error(calls.connect(fd, listener.at(), listener.length)); });
    trial.outcome(*waiter);
    more(listener.fd, fd);
    trial.outcome(*waiter);
}

void connect_once(Trial &trial, int fd, const sockaddr *address, socklen_t length) {
    auto waiter = trial.begin([=](Calls &calls) { return name_of_error(calls.connect(fd, address, length)); });
    trial.outcome(*waiter);
}

// A connect whose handshake no one answers: the backlog of the listener is full.
template <class More>
void connect_unanswered(Trial &trial, More more) {
    Listening listener(trial, 0);
    EXPECT_EQ(::connect(tcp_socket(trial, false), listener.at(), listener.length), 0);
    const int fd = tcp_socket(trial);
    auto waiter =
        trial.begin([&](Calls &calls) { return name_of_error(calls.connect(fd, listener.at(), listener.length)); });
    trial.outcome(*waiter);
    more(listener.fd, fd);
    trial.outcome(*waiter);
}

// While it lives, the process has few free numbers for descriptors, and none once they are used up.
class FewDescriptors {
public:
    FewDescriptors() {
        const int lowest = ::dup(0);
        EXPECT_EQ(::close(lowest), 0);
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
        const rlimit few = {static_cast<rlim_t>(lowest) + 8, before_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    }
    FewDescriptors(const FewDescriptors &) = delete;
    FewDescriptors &operator=(const FewDescriptors &) = delete;
    ~FewDescriptors() {
        for (int fd : used_) ::close(fd);
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0);
    }
    // A lower limit instead would not be seen by an operation that a ring has begun.
    void use_up() {
        for (int fd; (fd = ::dup(0)) >= 0;) used_.push_back(fd);
        EXPECT_EQ(errno, EMFILE);
    }

private:
    rlimit before_ = {};
    std::vector<int> used_;
};

// The backend has its own descriptors from now on.
void open_backend(Trial &trial) {
    const Trial::Pair pair = trial.pair(SOCK_STREAM);
    EXPECT_EQ(trial.calls().send(pair.here, "b", 1, 0), 1);
}

const Scenario connections[] = {
    {"accept_no_descriptor",
     [](Trial &t) {
         Listening listener(t);
         const int there = tcp_socket(t, false);
         open_backend(t);
         {
             FewDescriptors few;
             few.use_up();
             accept_one(t, listener.fd, nullptr);
             EXPECT_EQ(::connect(there, listener.at(), listener.length), 0);
             accept_one(t, listener.fd, nullptr);
         }
         accept_one(t, listener.fd, nullptr);
     }},
    {"accept_no_descriptor_later",
     [](Trial &t) {
         Listening listener(t);
         const int there = tcp_socket(t, false);
         open_backend(t);
         {
             FewDescriptors few;
             auto waiter = t.begin([&](Calls &calls) { return descriptor(calls.accept(listener.fd)); });
             t.outcome(*waiter);
             few.use_up();
             EXPECT_EQ(::connect(there, listener.at(), listener.length), 0);
             t.outcome(*waiter);
         }
         pollfd look = {listener.fd, POLLIN, 0};
         t.note(::poll(&look, 1, 0) ? "then a connection is there" : "then none");
     }},
    {"accept_tcp",
     [](Trial &t) {
         Listening listener(t);
         accept_one(t, listener.fd,
                    [&] { EXPECT_EQ(::connect(tcp_socket(t, false), listener.at(), listener.length), 0); });
     }},
    {"accept_shut_down_tcp",
     [](Trial &t) {
         for (const int how : {SHUT_RD, SHUT_RDWR}) {
             Listening listener(t);
             accept_one(t, listener.fd, [&] { ::shutdown(listener.fd, how); });
             accept_one(t, listener.fd, nullptr);
         }
     }},
    {"accept_shut_down_unix",
     [](Trial &t) {
         for (const int how : {SHUT_RD, SHUT_RDWR}) {
             UnixListening listener(t, 8);
             accept_one(t, listener.fd, [&] { ::shutdown(listener.fd, how); });
             accept_one(t, listener.fd, nullptr);
         }
     }},
    {"accept_shut_down_seqpacket",
     [](Trial &t) {
         UnixListening listener(t, 8, SOCK_SEQPACKET);
         accept_one(t, listener.fd, [&] { ::shutdown(listener.fd, SHUT_RDWR); });
     }},
    {"accept_shut_wr",
     [](Trial &t) {
         Listening listener(t);
         accept_one(t, listener.fd, [&] { ::shutdown(listener.fd, SHUT_WR); });
         UnixListening other(t, 8);
         accept_one(t, other.fd, [&] { ::shutdown(other.fd, SHUT_WR); });
     }},
    {"accept_deferred",
     [](Trial &t) {
         Listening listener(t);
         set(listener.fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 60);
         const int there = tcp_socket(t, false);
         EXPECT_EQ(::connect(there, listener.at(), listener.length), 0);
         accept_one(t, listener.fd, [&] { put(there, "abc"); });
     }},
    {"accept_reset",
     [](Trial &t) {
         Listening listener(t);
         const int there = tcp_socket(t, false);
         EXPECT_EQ(::connect(there, listener.at(), listener.length), 0);
         reset(t, there);
         accept_one(t, listener.fd, nullptr);
     }},
    {"accept_timeo",
     [](Trial &t) {
         Listening listener(t);
         set_time_limit(listener.fd, SO_RCVTIMEO);
         accept_one(t, listener.fd, nullptr);
     }},
    {"accept_of_no_listener",
     [](Trial &t) {
         accept_one(t, tcp_socket(t), nullptr);
         accept_one(t, t.udp().here, nullptr);
         accept_one(t, unix_socket(t), nullptr);
         accept_one(t, t.pair(SOCK_STREAM).here, nullptr);
     }},
    {"connect_tcp",
     [](Trial &t) {
         Listening listener(t);
         const int fd = tcp_socket(t);
         connect_once(t, fd, listener.at(), listener.length);
         connect_once(t, fd, listener.at(), listener.length);
     }},
    {"connect_refused_tcp",
     [](Trial &t) {
         Listening listener(t);
         close_end(t, listener.fd);
         connect_once(t, tcp_socket(t), listener.at(), listener.length);
     }},
    {"connect_refused_again_tcp",
     [](Trial &t) {
         Listening listener(t);
         close_end(t, listener.fd);
         const int fd = tcp_socket(t);
         for (int times = 0; times < 3; times++) connect_once(t, fd, listener.at(), listener.length);
     }},
    {"connect_refused_unix",
     [](Trial &t) {
         UnixListening listener(t, 8);
         close_end(t, listener.fd);
         connect_once(t, unix_socket(t), listener.at(), listener.length);
     }},
    {"connect_unspecified",
     [](Trial &t) {
         const sockaddr none = {};
         connect_once(t, t.udp().here, &none, sizeof none);
         connect_once(t, t.tcp().here, &none, sizeof none);
     }},
    {"connect_wrong_type",
     [](Trial &t) {
         UnixListening listener(t, 8);
         connect_once(t, unix_socket(t, true, SOCK_DGRAM), listener.at(), listener.length);
     }},
    {"connect_full_unix",
     [](Trial &t) { connect_to_full(t, [](int listener, int) { ::close(::accept(listener, nullptr, nullptr)); }); }},
    {"connect_full_closed_unix",
     [](Trial &t) { connect_to_full(t, [&](int listener, int) { close_end(t, listener); }); }},
    {"connect_timeo_unix",
     [](Trial &t) {
         UnixListening listener(t, 0);
         EXPECT_EQ(::connect(unix_socket(t, false), listener.at(), listener.length), 0);
         const int fd = unix_socket(t);
         set_time_limit(fd, SO_SNDTIMEO);
         connect_once(t, fd, listener.at(), listener.length);
     }},
    {"connect_own_shut_rdwr_tcp",
     [](Trial &t) { connect_unanswered(t, [](int, int fd) { ::shutdown(fd, SHUT_RDWR); }); }},
    {"connect_timeo_tcp",
     [](Trial &t) {
         Listening listener(t, 0);
         EXPECT_EQ(::connect(tcp_socket(t, false), listener.at(), listener.length), 0);
         const int fd = tcp_socket(t);
         set_time_limit(fd, SO_SNDTIMEO);
         connect_once(t, fd, listener.at(), listener.length);
     }},
};

// ---- Close ----------------------------------------------------------------------------------------------------------

template <class More>
void close_lingering(Trial &trial, linger how, More more) {
    const Trial::Pair pair = trial.tcp();
    EXPECT_EQ(setsockopt(pair.here, SOL_SOCKET, SO_LINGER, &how, sizeof how), 0);
    fill(pair.here);
    trial.disown(pair.here);
    auto waiter = trial.begin([&](Calls &calls) { return name_of_error(calls.close(pair.here)); });
    trial.outcome(*waiter);
    if constexpr (!std::is_null_pointer_v<More>) {
        more(pair.there);
        trial.outcome(*waiter);
    }
}

// Reads all that was sent, and its end.
void read_to_end(int fd) {
    static char buffer[ROOM];
    while (::recv(fd, buffer, sizeof buffer, 0) > 0) {}
}

const Scenario closes[] = {
    {"close_unsent",
     [](Trial &t) {
         close_lingering(t, {0, 0}, nullptr);
     }},
    {"close_linger",
     [](Trial &t) {
         close_lingering(t, {1, 60}, [&](int there) {
             read_to_end(there);
             close_end(t, there);
         });
     }},
    {"close_linger_over",
     [](Trial &t) {
         close_lingering(t, {1, 1}, [](int) {});
     }},
    {"close_linger_zero",
     [](Trial &t) {
         close_lingering(t, {1, 0}, nullptr);
     }},
    {"splice_own_shut_rd",
     [](Trial &t) {
         for (const Kind kind : {Kind::tcp, Kind::unix_stream}) {
             const Trial::Pair pair = make(t, kind), pipe = t.pipe();
             auto waiter = t.begin([&](Calls &calls) { return bytes(calls.splice(pair.here, pipe.there, 10)); });
             t.outcome(*waiter);
             ::shutdown(pair.here, SHUT_RD);
             t.outcome(*waiter);
         }
     }},
    {"splice_out_own_shut_wr",
     [](Trial &t) {
         for (const Kind kind : {Kind::tcp, Kind::unix_stream}) {
             NoSigpipe ignored;
             const Trial::Pair pair = make(t, kind), pipe = t.pipe();
             EXPECT_EQ(::write(pipe.there, "abc", 3), 3);
             fill(pair.here);
             auto waiter = t.begin([&](Calls &calls) { return bytes(calls.splice(pipe.here, pair.here, 10)); });
             t.outcome(*waiter);
             ::shutdown(pair.here, SHUT_WR);
             t.outcome(*waiter);
         }
     }},
};

} // namespace

} // namespace posix
