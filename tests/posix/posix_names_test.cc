// SPDX-License-Identifier: MIT OR Apache-2.0
// The resolver's functions, called by an adopted library. The program brings a resolver, which answers when a
// test lets it: the library calls the functions of the program in place of the C library's.
#include "resolving_caller.h"
#undef p_type // <resolv.h> defines many words
#include "adopted.h"

#include <arpa/inet.h>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <dlfcn.h>
#include <mutex>

namespace {

using adopted::outcome;
using adopted::Outcome;

// Names that begin with "slow" are answered when the gate opens. Others at once, by the C library.
std::mutex gate_mutex;
std::condition_variable gate_changed;
int waiting = 0;
bool gate_open = false;
std::atomic<pid_t> answered_by = 0; // the thread

void pass_gate(const char *name) {
    answered_by = gettid();
    if (strncmp(name, "slow", 4)) return;
    std::unique_lock lock(gate_mutex);
    waiting++;
    gate_changed.notify_all();
    gate_changed.wait(lock, [] { return gate_open; });
    waiting--;
    gate_changed.notify_all();
}
void open_gate() {
    std::lock_guard lock(gate_mutex);
    gate_open = true;
    gate_changed.notify_all();
}
// Waits, without blocking the other fibers, until so many resolvers wait at the gate.
void await_waiting(int count) {
    for (;;) {
        {
            std::lock_guard lock(gate_mutex);
            if (waiting >= count) return; // a lookup that a test has given up may come late
        }
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    }
}
void close_gate() {
    std::unique_lock lock(gate_mutex);
    gate_changed.wait(lock, [] { return waiting == 0; });
    gate_open = false;
}

const char *true_name(const char *name) { return strncmp(name, "slow", 4) ? name : "localhost"; }

template <class Function>
Function *next(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

int getaddrinfo(const char *node, const char *service, const addrinfo *hints, addrinfo **out) {
    bool numeric = hints && (hints->ai_flags & AI_NUMERICHOST);
    if (node && !numeric) pass_gate(node);
    static auto plain = next<decltype(getaddrinfo)>("getaddrinfo");
    if (node && !numeric) node = true_name(node);
    return plain(node, service, hints, out);
}
int gethostbyname_r(const char *name, hostent *host, char *buffer, size_t size, hostent **result, int *error) {
    pass_gate(name);
    static auto plain = next<decltype(gethostbyname_r)>("gethostbyname_r");
    return plain(true_name(name), host, buffer, size, result, error);
}
int gethostbyname2_r(const char *name, int family, hostent *host, char *buffer, size_t size, hostent **result,
                     int *error) {
    pass_gate(name);
    static auto plain = next<decltype(gethostbyname2_r)>("gethostbyname2_r");
    return plain(true_name(name), family, host, buffer, size, result, error);
}
int gethostbyaddr_r(const void *address, socklen_t length, int family, hostent *host, char *buffer, size_t size,
                    hostent **result, int *error) {
    pass_gate("slow");
    static auto plain = next<decltype(gethostbyaddr_r)>("gethostbyaddr_r");
    return plain(address, length, family, host, buffer, size, result, error);
}
int getnameinfo(const sockaddr *address, socklen_t length, char *host, socklen_t host_size, char *service,
                socklen_t service_size, int flags) {
    pass_gate(flags & NI_NUMERICHOST ? "number" : "slow");
    static auto plain = next<decltype(getnameinfo)>("getnameinfo");
    return plain(address, length, host, host_size, service, service_size, flags);
}

} // extern "C"

namespace {

class PosixNames : public testing::Test {
protected:
    void SetUp() override { ASSERT_GT(fiber_posix_adopt("libposix_resolving.so", 0), 15); }
    void TearDown() override {
        EXPECT_GT(fiber_posix_release("libposix_resolving.so"), 15);
        open_gate();
        close_gate();
    }
};

sockaddr_in loopback(uint16_t port = 0) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

// The addresses as a text.
std::string text_of(const addrinfo *list) {
    std::string text;
    for (; list; list = list->ai_next) {
        char host[64] = "", port[16] = "";
        next<decltype(getnameinfo)>("getnameinfo")(list->ai_addr, list->ai_addrlen, host, sizeof host, port,
                                                   sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
        text += std::string(host) + " " + port + " " + std::to_string(list->ai_socktype) + "; ";
    }
    return text;
}

std::string resolve(const char *node, const char *service, const addrinfo *hints) {
    addrinfo *found = nullptr;
    errno = 0;
    int answer = caller_getaddrinfo(node, service, hints, &found);
    std::string text = answer ? gai_strerror(answer) : text_of(found);
    if (answer == EAI_SYSTEM) text += std::string(" ") + strerrorname_np(errno);
    if (!answer) freeaddrinfo(found);
    return text;
}

TEST_F(PosixNames, GetaddrinfoRunsOnAnotherThread) {
    std::string found;
    adopted::while_it_waits([&] { found = resolve("slow.example", "80", nullptr); },
                            [](fiber_t) {
                                await_waiting(1);
                                EXPECT_NE(answered_by, gettid());
                                open_gate();
                            });
    EXPECT_NE(found.find("127.0.0.1 80"), std::string::npos) << found;
}

TEST_F(PosixNames, NumbersNeedNoThread) {
    answered_by = 0;
    EXPECT_EQ(adopted::on_fiber([] { return resolve("127.0.0.1", "80", nullptr); }),
              "127.0.0.1 80 1; 127.0.0.1 80 2; 127.0.0.1 80 3; ");
    EXPECT_EQ(answered_by, 0);
}

TEST_F(PosixNames, AnswersAreTheKernels) {
    addrinfo stream = {};
    stream.ai_socktype = SOCK_STREAM;
    addrinfo number = stream;
    number.ai_flags = AI_NUMERICHOST;
    addrinfo wrong = stream;
    wrong.ai_family = 99;
    addrinfo flags = stream;
    flags.ai_flags = 1 << 30;
    addrinfo both = stream;
    both.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo domain = both, canonical = both, all_flags = stream;
    domain.ai_flags |= AI_IDN;
    canonical.ai_flags |= AI_CANONNAME | AI_CANONIDN;
    all_flags.ai_flags = INT_MAX;
    struct {
        const char *node, *service;
        const addrinfo *hints;
    } questions[] = {
        {"localhost", "80", &stream},    {"localhost", "http", &stream},  {nullptr, "80", &stream},
        {nullptr, nullptr, &stream},     {"::1", "80", &stream},          {"127.0.0.1", "no-such-service", &stream},
        {"not a number", "80", &number}, {"127.0.0.1", "80", &wrong},     {"127.0.0.1", "80", &flags},
        {"127.0.0.1", "http", &both},    {"localhost", nullptr, nullptr}, {"127.0.0.1", "80", &domain},
        {"127.0.0.1", "80", &canonical}, {"127.0.0.1", "80", &all_flags}};
    for (const auto &question : questions) {
        auto ask = [&] { return resolve(question.node, question.service, question.hints); };
        EXPECT_EQ(adopted::on_fiber(ask), adopted::on_thread(ask)) << (question.node ? question.node : "no node");
    }
}

TEST_F(PosixNames, ACancelledLookupGoesOnAlone) {
    std::string found;
    adopted::while_it_waits([&] { found = resolve("slow.example", "80", nullptr); },
                            [](fiber_t fiber) {
                                await_waiting(1);
                                EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
                            });
    EXPECT_EQ(found, "System error ECANCELED");
    auto limited = [&] {
        fiber_scope_t scope;
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        found = resolve("slow.example", "80", nullptr);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    };
    support::run(limited);
    EXPECT_EQ(found, "System error ETIMEDOUT");
}

TEST_F(PosixNames, Getnameinfo) {
    sockaddr_in address = loopback(80);
    auto name = [&](int flags, socklen_t host_size, socklen_t service_size) {
        char host[256] = "", service[64] = "";
        int answer = caller_getnameinfo(reinterpret_cast<sockaddr *>(&address), sizeof address, host, host_size,
                                        service, service_size, flags);
        return answer ? std::string(gai_strerror(answer)) : std::string(host) + " " + service;
    };
    std::string by_fiber;
    adopted::while_it_waits([&] { by_fiber = name(0, 256, 64); },
                            [](fiber_t) {
                                await_waiting(1);
                                open_gate();
                            });
    EXPECT_EQ(by_fiber, adopted::on_thread([&] { return name(0, 256, 64); }));
    for (int flags : {0, NI_NUMERICHOST, NI_NUMERICSERV, NI_NUMERICHOST | NI_NUMERICSERV}) {
        for (socklen_t size : {0u, 2u, 64u}) {
            auto ask = [&] { return name(flags, size, size); };
            EXPECT_EQ(adopted::on_fiber(ask), adopted::on_thread(ask)) << flags << ", size " << size;
        }
    }
}

std::string text_of(const hostent *host) {
    if (!host) return "none, " + std::to_string(h_errno);
    std::string text = host->h_name;
    for (char **alias = host->h_aliases; *alias; alias++) text += std::string(" ") + *alias;
    for (char **address = host->h_addr_list; *address; address++) {
        char number[64];
        text += std::string(" ") + inet_ntop(host->h_addrtype, *address, number, sizeof number);
    }
    return text;
}

TEST_F(PosixNames, HostsByName) {
    std::string by_fiber;
    adopted::while_it_waits([&] { by_fiber = text_of(caller_gethostbyname("slow")); },
                            [](fiber_t) {
                                await_waiting(1);
                                open_gate();
                            });
    EXPECT_EQ(by_fiber, adopted::on_thread([] { return text_of(caller_gethostbyname("localhost")); }));
    for (const char *name : {"localhost", "127.0.0.1", "::1", "127.1"}) {
        auto ask = [&] { return text_of(caller_gethostbyname(name)); };
        EXPECT_EQ(adopted::on_fiber(ask), adopted::on_thread(ask)) << name;
        auto ask6 = [&] { return text_of(caller_gethostbyname2(name, AF_INET6)); };
        EXPECT_EQ(adopted::on_fiber(ask6), adopted::on_thread(ask6)) << name;
    }
    uint32_t address = htonl(INADDR_LOOPBACK);
    auto by_address = [&] { return text_of(caller_gethostbyaddr(&address, sizeof address, AF_INET)); };
    EXPECT_EQ(adopted::on_fiber(by_address), adopted::on_thread(by_address));
}

TEST_F(PosixNames, EachFiberHasItsOwnResult) {
    open_gate();
    hostent *first = nullptr;
    auto one = [&] {
        first = caller_gethostbyname("127.0.0.1");
        EXPECT_EQ(fiber_yield(), 0);
        EXPECT_EQ(text_of(first), "127.0.0.1 127.0.0.1");
        EXPECT_EQ(text_of(caller_gethostbyname("127.0.0.3")), "127.0.0.3 127.0.0.3");
    };
    fiber_t fiber = support::start(one);
    auto other = [&] {
        hostent *own = caller_gethostbyname("127.0.0.2");
        EXPECT_NE(own, first);
        EXPECT_EQ(text_of(own), "127.0.0.2 127.0.0.2");
    };
    support::run(other);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    support::join(fiber);
}

TEST_F(PosixNames, HostsIntoTheCallersBuffer) {
    open_gate();
    auto in_buffer = [](auto call) {
        std::string buffer(2048, '\0');
        hostent host = {}, *result = nullptr;
        int error = 0;
        int answer = call(&host, buffer.data() + 1, buffer.size() - 1, &result, &error);
        if (answer || !result) return "error " + std::to_string(answer) + ", " + std::to_string(error);
        EXPECT_EQ(result, &host);
        EXPECT_TRUE(host.h_name > buffer.data() && host.h_name < buffer.data() + buffer.size());
        return text_of(result);
    };
    uint32_t address = htonl(INADDR_LOOPBACK);
    auto by_name = [&] { return in_buffer([](auto... rest) { return caller_gethostbyname_r("localhost", rest...); }); };
    auto by_name2 = [&] {
        return in_buffer([](auto... rest) { return caller_gethostbyname2_r("localhost", AF_INET, rest...); });
    };
    auto by_address = [&] {
        return in_buffer(
            [&](auto... rest) { return caller_gethostbyaddr_r(&address, sizeof address, AF_INET, rest...); });
    };
    EXPECT_EQ(adopted::on_fiber(by_name), adopted::on_thread(by_name));
    EXPECT_EQ(adopted::on_fiber(by_name2), adopted::on_thread(by_name2));
    EXPECT_EQ(adopted::on_fiber(by_address), adopted::on_thread(by_address));
    auto too_small = [] {
        char buffer[8];
        hostent host = {}, *result = &host;
        int error = 0;
        int answer = caller_gethostbyname_r("localhost", &host, buffer, sizeof buffer, &result, &error);
        return std::to_string(answer) + (result ? " result" : " none") + " " + std::to_string(error);
    };
    EXPECT_EQ(adopted::on_fiber(too_small), adopted::on_thread(too_small));
}

TEST_F(PosixNames, ACancelledHostLookup) {
    std::string found;
    adopted::while_it_waits(
        [&] {
            found = text_of(caller_gethostbyname("slow"));
            found += std::string(" ") + strerrorname_np(errno);
        },
        [](fiber_t fiber) {
            await_waiting(1);
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        });
    EXPECT_EQ(found, "none, " + std::to_string(TRY_AGAIN) + " ECANCELED");
}

// ---- Queries of a name server: a socket of the test, asked through the state's list of servers.

class PosixQueries : public PosixNames {
protected:
    void SetUp() override {
        PosixNames::SetUp();
        server_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        sockaddr_in address = support::own_address();
        ASSERT_EQ(bind(server_, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
        socklen_t length = sizeof address;
        ASSERT_EQ(getsockname(server_, reinterpret_cast<sockaddr *>(&address), &length), 0);
        set_up(_res, address);
        set_up(own_, address);
    }
    void TearDown() override {
        res_nclose(&own_);
        close(server_);
        PosixNames::TearDown();
    }

    static void set_up(struct __res_state &state, const sockaddr_in &server) {
        ASSERT_EQ(res_ninit(&state), 0);
        state.nscount = 1;
        state.nsaddr_list[0] = server;
        state.retrans = 30; // seconds: a query is sent once
        state.retry = 1;
        state.options &= ~(RES_USE_EDNS0 | RES_USE_DNSSEC | RES_DNSRCH | RES_DEFNAMES);
    }

    // Answers one question with an address, as a fiber does: only if the thread is free.
    void serve() {
        unsigned char message[512];
        sockaddr_in client;
        socklen_t length = sizeof client;
        int64_t got =
            fiber_recvfrom(server_, message, sizeof message, 0, reinterpret_cast<sockaddr *>(&client), &length);
        ASSERT_GT(got, 12);
        const unsigned char record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1};
        message[2] |= 0x80; // an answer
        message[3] = 0x80;
        message[7] = 1; // with one record
        memcpy(message + got, record, sizeof record);
        EXPECT_EQ(fiber_sendto(server_, message, size_t(got) + sizeof record, 0, reinterpret_cast<sockaddr *>(&client),
                               length),
                  got + int64_t(sizeof record));
    }

    // The answer's last four bytes.
    template <class Ask>
    void is_answered(Ask ask) {
        unsigned char answer[512] = {};
        int size = -1;
        adopted::while_it_waits([&] { size = ask(answer, int(sizeof answer)); }, [&](fiber_t) { serve(); });
        ASSERT_GT(size, 16);
        const unsigned char wanted[] = {192, 0, 2, 1};
        EXPECT_EQ(memcmp(answer + size - 4, wanted, 4), 0);
    }

    int server_ = -1;
    struct __res_state own_ = {};
};

TEST_F(PosixQueries, OfTheThreadsState) {
    is_answered([](auto... rest) { return caller_res_query("name.example", ns_c_in, ns_t_a, rest...); });
    is_answered([](auto... rest) { return caller_res_search("name.example", ns_c_in, ns_t_a, rest...); });
    is_answered([](auto... rest) { return caller_res_querydomain("name", "example", ns_c_in, ns_t_a, rest...); });
    unsigned char question[512];
    int size = res_mkquery(ns_o_query, "name.example", ns_c_in, ns_t_a, nullptr, 0, nullptr, question, sizeof question);
    ASSERT_GT(size, 0);
    is_answered([&](auto... rest) { return caller_res_send(question, size, rest...); });
}

TEST_F(PosixQueries, OfAStateOfTheProgram) {
    is_answered([&](auto... rest) { return caller_res_nquery(&own_, "name.example", ns_c_in, ns_t_a, rest...); });
    is_answered([&](auto... rest) { return caller_res_nsearch(&own_, "name.example", ns_c_in, ns_t_a, rest...); });
    is_answered(
        [&](auto... rest) { return caller_res_nquerydomain(&own_, "name", "example", ns_c_in, ns_t_a, rest...); });
    unsigned char question[512];
    int size = res_nmkquery(&own_, ns_o_query, "name.example", ns_c_in, ns_t_a, nullptr, 0, nullptr, question,
                            sizeof question);
    ASSERT_GT(size, 0);
    is_answered([&](auto... rest) { return caller_res_nsend(&own_, question, size, rest...); });
}

TEST_F(PosixQueries, EndEarly) {
    adopted::ends_early([] {
        unsigned char answer[512];
        return caller_res_query("name.example", ns_c_in, ns_t_a, answer, sizeof answer);
    });
    EXPECT_EQ(h_errno, TRY_AGAIN);
}

} // namespace
