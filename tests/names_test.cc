// SPDX-License-Identifier: MIT OR Apache-2.0
// Names and connections by names, with a resolver that replaces the C library's and answers as the test says, or not at
// all. Also the fate of offloaded functions where no thread can be made, or where the thread of the fiber ends.
#include "io_support.h"

#include "io/offload.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <netdb.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include <atomic>
#include <functional>
#include <map>
#include <semaphore>

using namespace support;

namespace {

// The resolver's answer for a name. Called on whatever thread asks; numeric: it is asked for numbers only, and must not
// block.
using Answer = std::function<int(bool numeric, const addrinfo *hints, addrinfo **out)>;
std::map<std::string, Answer> names; // changed while no lookup runs

std::atomic<bool> no_threads{false};

// Reads of files only on threads of the pool, and there slowly.
std::atomic<bool> slow_reads{false};
std::atomic<int> slow_reads_begun{0};
std::atomic<ssize_t> slow_read{0}; // the result of the last read, or -errno

} // namespace

extern "C" {

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service, const addrinfo *hints,
                                                       addrinfo **out) {
    static auto *real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
    const auto answer = node ? names.find(node) : names.end();
    if (answer == names.end()) return real(node, service, hints, out);
    return answer->second(hints && hints->ai_flags & AI_NUMERICHOST, hints, out);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                                          void *(*fn)(void *), void *arg) {
    static auto *real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    return no_threads ? EAGAIN : real(thread, attr, fn, arg);
}

__attribute__((visibility("default"))) ssize_t preadv2(int fd, const iovec *parts, int count, off_t offset, int flags) {
    static auto *real = reinterpret_cast<decltype(&preadv2)>(dlsym(RTLD_NEXT, "preadv2"));
    if (!slow_reads) return real(fd, parts, count, offset, flags);
    if (flags & RWF_NOWAIT) {
        errno = EAGAIN;
        return -1;
    }
    slow_reads_begun++;
    ::usleep(100'000);
    const ssize_t got = real(fd, parts, count, offset, flags);
    slow_read = got < 0 ? -errno : got;
    return got;
}
}

namespace {

// A name for as long as this lives.
struct Name {
    std::string name;
    Name(const std::string &name, Answer answer) : name(name) { names[name] = std::move(answer); }
    ~Name() { names.erase(name); }
    Name(const Name &) = delete;
    Name &operator=(const Name &) = delete;
};

addrinfo *address_info(const std::string &host, int port) {
    addrinfo hints = {}, *list = nullptr;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    EXPECT_EQ(getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list), 0);
    return list;
}

// A name with several addresses, which is answered even if numbers are asked for: so it needs no thread, and can be had
// in a simulation.
Answer addresses(std::vector<std::pair<std::string, int>> all) {
    return [all](bool, const addrinfo *, addrinfo **out) {
        for (const auto &[host, port] : all) out = &(*out = address_info(host, port))->ai_next;
        return 0;
    };
}

Answer says(int error) {
    return [error](bool numeric, const addrinfo *, addrinfo **) {
        if (numeric) return EAI_NONAME;
        errno = ENETDOWN;
        return error;
    };
}

// A resolver that does not answer until it is told to.
class Silent {
public:
    Answer answer() {
        return [this](bool numeric, const addrinfo *, addrinfo **out) {
            if (numeric) return EAI_NONAME;
            asked++;
            go_on.acquire();
            *out = address_info("127.0.0.1", 1);
            ended++;
            return 0;
        };
    }
    std::atomic<int> asked{0}, ended{0};
    std::counting_semaphore<> go_on{0};
};

int lookup(const std::string &node) {
    addrinfo *list = nullptr;
    const int error = fiber_getaddrinfo(node.c_str(), "80", nullptr, &list);
    EXPECT_EQ(list != nullptr, error == 0);
    if (list) freeaddrinfo(list);
    return error;
}

int open_descriptors() {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

// All threads of the pool gone, as no thread idles for longer than a moment.
struct NoIdling {
    NoIdling() { fiberrt::offload_idle_ns = 1'000'000; }
    ~NoIdling() { fiberrt::offload_idle_ns = before; }
    const int64_t before = fiberrt::offload_idle_ns;
    static void await_none() {
        ASSERT_TRUE(eventually([] { return fiberrt::offload_threads() == 0; }));
    }
};

int listener_port(const sockaddr_in &address) { return ntohs(address.sin_port); }
std::string host_of(const sockaddr_in &address) {
    char text[INET_ADDRSTRLEN];
    return inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
}

// A listener that answers nothing: its backlog is full, so the kernel drops connection attempts.
struct BlackHole {
    sockaddr_in address = {};
    Descriptor listener = tcp_listener(address, 0);
    std::vector<Descriptor> taken;
    BlackHole() {
        for (int i = 0; i < 8; i++) {
            Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            (void)::connect(client, reinterpret_cast<const sockaddr *>(&address), sizeof address);
            pollfd look = {client, POLLOUT, 0};
            const bool connected = ::poll(&look, 1, 50) == 1;
            taken.push_back(std::move(client));
            if (!connected) return;
        }
        ADD_FAILURE() << "its backlog is never full";
    }
};

struct Server {
    sockaddr_in address = {};
    Descriptor listener = tcp_listener(address);
    std::string text() const { return host_of(address) + ":" + std::to_string(listener_port(address)); }
    std::pair<std::string, int> pair() const { return {host_of(address), listener_port(address)}; }
};

// An address where no socket listens.
std::pair<std::string, int> nobody() {
    Server server;
    return server.pair();
}

// ---- Threads -------------------------------------------------------------------------------------------------------

int64_t seven(void *) { return 7; }

TEST(OffloadThreads, AreReusedAndEndWhenIdle) {
    NEEDS_THREADS();
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(fiber_offload(seven, nullptr, nullptr), 0);
        ASSERT_EQ(fiberrt::offload_threads(), 1);
    }
    {
        NoIdling no_idling;
        ASSERT_EQ(fiber_offload(seven, nullptr, nullptr), 0); // by the one that idles for longer
        NoIdling::await_none();
    }
    EXPECT_EQ(fiber_offload(seven, nullptr, nullptr), 0);
}

TEST(OffloadThreads, GrowUpToTheLimit) {
    NEEDS_THREADS();
    EXPECT_EQ(fiber_offload_set_limit(5), 0);
    std::counting_semaphore<> go_on{0};
    std::atomic<int> begun{0};
    std::function<void()> function = [&] {
        begun++;
        go_on.acquire();
    };
    auto body = [&] {
        EXPECT_EQ(fiber_offload(
                      [](void *f) -> int64_t {
                          (*static_cast<std::function<void()> *>(f))();
                          return 0;
                      },
                      &function, nullptr),
                  0);
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 50; i++) fibers.push_back(start(body));
    EXPECT_TRUE(eventually([&] { return begun == 5; }));
    EXPECT_EQ(fiberrt::offload_threads(), 5);
    go_on.release(50);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(begun, 50);
    EXPECT_EQ(fiberrt::offload_threads(), 5);
    EXPECT_EQ(fiber_offload_set_limit(64), 0);
}

TEST(OffloadThreads, NoneCanBeMade) {
    NEEDS_THREADS();
    NoIdling no_idling;
    NoIdling::await_none();
    int freed = 0;
    auto free_it = [](void *count) { ++*static_cast<int *>(count); };
    no_threads = true;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(fiber_offload(seven, nullptr, nullptr), -EAGAIN);
        EXPECT_EQ(fiber_offload_detached(seven, &freed, free_it, nullptr), -EAGAIN);
        EXPECT_EQ(freed, i + 1);
        EXPECT_EQ(lookup("example.invalid"), -EAGAIN);
        EXPECT_EQ(lookup("127.0.0.1"), 0); // needs none
    }
    no_threads = false;
    int64_t result = 0;
    EXPECT_EQ(fiber_offload(seven, nullptr, &result), 0);
    EXPECT_EQ(result, 7);
}

TEST(OffloadThreads, WhereNoMoreCanBeMadeTheExistingThreadsDoIt) {
    NEEDS_THREADS();
    struct Shared {
        std::counting_semaphore<> go_on{0};
        std::atomic<int> begun{0};
    } shared;
    auto body = [&] {
        EXPECT_EQ(fiber_offload(
                      [](void *arg) -> int64_t {
                          auto &it = *static_cast<Shared *>(arg);
                          it.begun++;
                          it.go_on.acquire();
                          return 0;
                      },
                      &shared, nullptr),
                  0);
    };
    std::vector<fiber_t> fibers = {start(body)};
    EXPECT_TRUE(eventually([&] { return shared.begun == 1; }));
    no_threads = true;
    const int most = fiberrt::offload_threads();
    for (int i = 0; i < 20; i++) fibers.push_back(start(body));
    shared.go_on.release(21);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(fiberrt::offload_threads(), most);
    no_threads = false;
}

// Functions may hold their threads for as long as they like: an operation is then done where it is called.
TEST(OffloadThreads, WhereNoMoreCanBeMadeNoOperationWaitsForAFunction) {
    NEEDS_THREADS();
    NoIdling no_idling;
    NoIdling::await_none();
    struct Shared {
        std::counting_semaphore<> go_on{0};
        std::atomic<bool> begun{false};
    } shared;
    auto holds = [&] {
        EXPECT_EQ(fiber_offload(
                      [](void *arg) -> int64_t {
                          auto &it = *static_cast<Shared *>(arg);
                          it.begun = true;
                          it.go_on.acquire();
                          return 0;
                      },
                      &shared, nullptr),
                  0);
    };
    const fiber_t holder = start(holds);
    EXPECT_TRUE(eventually([&] { return shared.begun.load(); }));
    no_threads = true;
    bool done = false;
    auto body = [&] {
        const int file = fiber_open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
        EXPECT_GE(file, 0);
        EXPECT_EQ(fiber_close(file), 0);
        done = true;
    };
    const fiber_t operates = start(body);
    EXPECT_TRUE(eventually([&] { return done; }));
    no_threads = false;
    shared.go_on.release();
    join(holder);
    join(operates);
}

// Where the process may run, wherever the cord whose call has made it may.
TEST(OffloadThreads, RunOnAllProcessors) {
    NEEDS_THREADS();
    cpu_set_t of_process;
    ASSERT_EQ(::sched_getaffinity(0, sizeof of_process, &of_process), 0);
    if (CPU_COUNT(&of_process) < 2) GTEST_SKIP() << "there is only one processor";
    NoIdling no_idling;
    NoIdling::await_none();
    cpu_set_t there;
    CPU_ZERO(&there);
    in_thread([&] {
        cpu_set_t first;
        CPU_ZERO(&first);
        for (int cpu = 0; !CPU_COUNT(&first); cpu++) {
            if (CPU_ISSET(cpu, &of_process)) CPU_SET(cpu, &first);
        }
        ASSERT_EQ(::sched_setaffinity(0, sizeof first, &first), 0);
        auto look = [](void *there) -> int64_t {
            return ::sched_getaffinity(0, sizeof(cpu_set_t), static_cast<cpu_set_t *>(there));
        };
        EXPECT_EQ(fiber_offload(look, &there, nullptr), 0);
    });
    EXPECT_TRUE(CPU_EQUAL(&there, &of_process));
}

// The end of the fiber's thread waits for the read, and frees the buffer afterwards: it would be unmapped.
TEST(OffloadThreads, HaveTheBufferOfACopyAsLongAsTheyRead) {
    NEEDS_THREADS();
    if (std::string(fiber_backend_name()) != "ev") GTEST_SKIP() << "on io_uring no pool thread reads files";
    mallopt(M_MMAP_THRESHOLD, 64 << 10); // not with the allocators of sanitizers, which report the error themselves
    Descriptor file(::memfd_create("names_test", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file, 1000), 0);
    int datagrams[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams), 0);
    Descriptor to(datagrams[0]), other(datagrams[1]);
    slow_reads = true;
    in_thread([&] {
        auto body = [&] {
            fiber_copy(file, to, FIBER_COPY_ALL, nullptr, nullptr);
            ADD_FAILURE() << "its thread has ended";
        };
        start(body);
        EXPECT_TRUE(eventually([&] { return slow_reads_begun == 1; }));
    });
    slow_reads = false;
    EXPECT_EQ(slow_reads_begun, 1);
    EXPECT_EQ(slow_read, 1000);
}

// ---- Names ---------------------------------------------------------------------------------------------------------

TEST(Lookup, OfNumbersNeedsNoThread) {
    addrinfo hints = {}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    no_threads = true;
    ASSERT_EQ(fiber_getaddrinfo("127.0.0.3", "81", &hints, &list), 0);
    auto *address = reinterpret_cast<sockaddr_in *>(list->ai_addr);
    EXPECT_EQ(address->sin_addr.s_addr, htonl(0x7f000003));
    EXPECT_EQ(ntohs(address->sin_port), 81);
    EXPECT_EQ(list->ai_next, nullptr);
    freeaddrinfo(list);
    ASSERT_EQ(fiber_getaddrinfo(nullptr, "81", &hints, &list), 0); // the loopback's
    freeaddrinfo(list);
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    EXPECT_EQ(fiber_getaddrinfo("localhost", "81", &hints, &list), -ENOENT);
    EXPECT_EQ(list, nullptr);
    hints.ai_family = AF_INET6;
    EXPECT_EQ(fiber_getaddrinfo("127.0.0.3", "81", &hints, &list), -ENODATA);
    hints.ai_family = AF_PACKET;
    EXPECT_EQ(fiber_getaddrinfo("127.0.0.3", "81", &hints, &list), -EAFNOSUPPORT);
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = 77;
    EXPECT_EQ(fiber_getaddrinfo("127.0.0.3", "81", &hints, &list), -ESOCKTNOSUPPORT);
    no_threads = false;
}

// Without descriptors the C library can neither read its files nor ask, and says that there is no such name.
TEST(Lookup, WithoutDescriptorsDiffersFromNoSuchName) {
    NOT_ON_SIM("has no names");
    for (const int error : {EMFILE, ENFILE}) {
        Name name("none-left", [error](bool numeric, const addrinfo *, addrinfo **) {
            errno = error;
            return numeric ? EAI_NONAME : EAI_AGAIN;
        });
        EXPECT_EQ(lookup("none-left"), -error);
    }
    // As libnss-mdns does, whose daemon cannot be asked without a descriptor either.
    Name hidden("its-errno-is-hidden", [](bool numeric, const addrinfo *, addrinfo **) {
        errno = EBUSY;
        return numeric ? EAI_NONAME : EAI_SYSTEM;
    });
    EXPECT_EQ(lookup("its-errno-is-hidden"), -EBUSY);
    EXPECT_EQ(lookup("localhost"), 0); // the resolver's own descriptors are now open
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = ::dup(0);
    ::close(lowest);
    const rlimit none = {static_cast<rlim_t>(lowest), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const int known = lookup("localhost"), numbers = lookup("127.0.0.1");
    EXPECT_EQ(lookup("its-errno-is-hidden"), -EMFILE);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(known, -EMFILE);
    EXPECT_EQ(numbers, 0);
    EXPECT_EQ(lookup("localhost"), 0);
}

TEST(Lookup, RefusesBadArguments) {
    addrinfo hints = {}, *list = nullptr;
    EXPECT_EQ(fiber_getaddrinfo("127.0.0.1", "80", nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_getaddrinfo(nullptr, nullptr, nullptr, &list), -EINVAL);
    hints.ai_flags = 1 << 30;
    EXPECT_EQ(fiber_getaddrinfo("127.0.0.1", "80", &hints, &list), -EINVAL);
}

// The resolver is called on the fiber's stack, of whatever size.
TEST(Lookup, OfNumbersFitsOnTheSmallestStack) {
    if (FIBERRT_TEST_ASAN) GTEST_SKIP() << "AddressSanitizer's own frames do not fit in it";
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, FIBER_STACK_MIN), 0);
    auto body = [] {
        EXPECT_EQ(lookup("127.0.0.1"), 0);
        EXPECT_EQ(lookup("::1"), 0);
    };
    fiber_t fiber = create(body, attr);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    ASSERT_EQ(fiber_start(fiber), 0);
    join(fiber);
}

TEST(Lookup, OfNamesIsUnavailableInASimulation) {
    if (!simulated()) GTEST_SKIP() << "this is none";
    EXPECT_EQ(lookup("localhost"), -ENOTSUP);
    EXPECT_EQ(lookup("example.invalid"), -ENOTSUP);
    EXPECT_EQ(fiber_dial("localhost:80", 0), -ENOTSUP);
}

TEST(Lookup, ReturnsTheResolversAnswer) {
    NOT_ON_SIM("has no names");
    const std::pair<int, int> all[] = {
        {EAI_NONAME, -ENOENT},
        {EAI_SERVICE, -ENOENT},
        {EAI_NODATA, -ENODATA},
        {EAI_ADDRFAMILY, -ENODATA},
        {EAI_AGAIN, -EAGAIN},
        {EAI_FAIL, -EIO},
        {EAI_MEMORY, -ENOMEM},
        {EAI_FAMILY, -EAFNOSUPPORT},
        {EAI_SOCKTYPE, -ESOCKTNOSUPPORT},
        {EAI_BADFLAGS, -EINVAL},
        {EAI_OVERFLOW, -EOVERFLOW},
        {EAI_SYSTEM, -ENETDOWN},
        {-4711, -EIO},
    };
    for (const auto &[said, told] : all) {
        Name name("told.test", says(said));
        EXPECT_EQ(lookup("told.test"), told) << said;
    }
    for (int error : {EINTR, ETIMEDOUT, ECANCELED, EPERM, 0}) { // would speak of the caller
        Name name("told.test", [error](bool numeric, const addrinfo *, addrinfo **) {
            errno = error;
            return numeric ? EAI_NONAME : EAI_SYSTEM;
        });
        EXPECT_EQ(lookup("told.test"), -EAGAIN) << error;
    }
}

TEST(Lookup, SendsTheQueryItWasGiven) {
    NOT_ON_SIM("has no names");
    addrinfo seen = {}, hints = {}, *list = nullptr;
    Name name("seen.test", [&](bool numeric, const addrinfo *asked, addrinfo **out) {
        if (numeric) return EAI_NONAME;
        seen = *asked;
        *out = address_info("127.0.0.1", 1);
        return 0;
    });
    hints.ai_flags = AI_CANONNAME;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_protocol = IPPROTO_UDP;
    ASSERT_EQ(fiber_getaddrinfo("seen.test", "http", &hints, &list), 0);
    freeaddrinfo(list);
    EXPECT_EQ(seen.ai_flags, AI_CANONNAME);
    EXPECT_EQ(seen.ai_family, AF_INET);
    EXPECT_EQ(seen.ai_socktype, SOCK_DGRAM);
    EXPECT_EQ(seen.ai_protocol, IPPROTO_UDP);
    ASSERT_EQ(fiber_getaddrinfo("seen.test", "http", nullptr, &list), 0);
    freeaddrinfo(list);
    EXPECT_EQ(seen.ai_flags, AI_V4MAPPED | AI_ADDRCONFIG);
}

// The C library loads a converter then, which the stack of a fiber is too small for.
TEST(Lookup, ConvertsOnAThreadAlone) {
    NOT_ON_SIM("has no names");
    bool numeric_too = false;
    Name name("seen.test", [&](bool numeric, const addrinfo *, addrinfo **out) {
        numeric_too |= numeric;
        *out = address_info("127.0.0.1", 1);
        return 0;
    });
    for (int flags : {AI_IDN, AI_CANONNAME | AI_CANONIDN}) {
        addrinfo hints = {}, *list = nullptr;
        hints.ai_flags = flags;
        ASSERT_EQ(fiber_getaddrinfo("seen.test", "80", &hints, &list), 0);
        freeaddrinfo(list);
        EXPECT_FALSE(numeric_too) << flags;
    }
}

// Neither the others nor, once it does not want to wait any more, the one that asks.
TEST(Lookup, ANameServerThatNeverAnswersBlocksNoFiber) {
    NOT_ON_SIM("has no names");
    NoIdling no_idling;
    Silent silent;
    Name name("silent.test", silent.answer());
    int cancelled = 1, interrupted = 1, late = 1, other = 0;
    auto of_cancelled = [&] {
        std::string text = "silent.test";
        addrinfo *list = nullptr;
        cancelled = fiber_getaddrinfo(text.c_str(), "80", nullptr, &list);
        EXPECT_EQ(list, nullptr);
        text.assign(text.size(), 'x'); // its own copies are used
    };
    auto of_interrupted = [&] { interrupted = lookup("silent.test"); };
    auto of_late = [&] {
        for (int64_t limit_ns = FIBER_MSEC(1); silent.asked < 3; limit_ns *= 2) { // until it has begun by then
            FIBER_WITH_TIMEOUT(limit_ns, nullptr) { late = fiber_dial("silent.test:80", 0); }
            EXPECT_EQ(late, -ETIMEDOUT);
        }
    };
    fiber_t first = start(of_cancelled), second = start(of_interrupted);
    EXPECT_TRUE(eventually([&] { return silent.asked == 2; }));
    fiber_t third = start(of_late);
    for (int i = 0; i < 10; i++) other += fiber_sleep(FIBER_USEC(100)) == 0 && lookup("127.0.0.1") == 0;
    EXPECT_EQ(other, 10);
    EXPECT_EQ(fiber_cancel(first, nullptr), 0);
    EXPECT_EQ(fiber_interrupt(second, nullptr), 0);
    for (fiber_t fiber : {first, second, third}) join(fiber);
    EXPECT_EQ(cancelled, -ECANCELED);
    EXPECT_EQ(interrupted, -EINTR);
    EXPECT_EQ(late, -ETIMEDOUT);
    EXPECT_EQ(silent.ended, 0);
    silent.go_on.release(1000);
    NoIdling::await_none();
    EXPECT_GE(silent.ended, 3); // the results that they found were freed: the sanitizers check
}

// ---- Connections ---------------------------------------------------------------------------------------------------

TEST(Dial, ConnectsToANumericAddress) {
    NEEDS_IO();
    Server server;
    Descriptor client(fiber_dial(server.text().c_str(), SOCK_CLOEXEC));
    ASSERT_GE(client, 0);
    EXPECT_EQ(fcntl(client, F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(status_flags(client) & O_NONBLOCK, 0);
    Descriptor accepted(fiber_accept(server.listener, nullptr, nullptr));
    EXPECT_EQ(fiber_send(client, "hello", 5, 0), 5);
    char text[6] = {};
    EXPECT_EQ(fiber_recv(accepted, text, 5, MSG_WAITALL), 5);
    EXPECT_STREQ(text, "hello");
    Descriptor other(fiber_dial(server.text().c_str(), SOCK_NONBLOCK));
    ASSERT_GE(other, 0);
    EXPECT_EQ(fcntl(other, F_GETFD), 0);
    EXPECT_NE(status_flags(other) & O_NONBLOCK, 0);
}

TEST(Dial, ConnectsByIpv6InBrackets) {
    NEEDS_IO();
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    Descriptor listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socklen_t length = sizeof address;
    if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr *>(&address), length) < 0) {
        GTEST_SKIP() << "there is no IPv6 here: " << strerror(errno);
    }
    ASSERT_EQ(::listen(listener, 1), 0);
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
    const std::string port = std::to_string(ntohs(address.sin6_port));
    Descriptor client(fiber_dial(("[::1]:" + port).c_str(), SOCK_CLOEXEC));
    EXPECT_GE(client, 0);
    EXPECT_EQ(fiber_dial(("::1:" + port).c_str(), 0), -EINVAL);
}

TEST(Dial, ConnectsToAPath) {
    NEEDS_IO();
    Folder folder;
    const std::string path = folder.path("socket");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
    EXPECT_EQ(fiber_dial(("unix:" + path).c_str(), SOCK_CLOEXEC), -ECONNREFUSED); // not listening yet
    ASSERT_EQ(::listen(listener, 1), 0);
    Descriptor client(fiber_dial(("unix:" + path).c_str(), SOCK_CLOEXEC));
    EXPECT_GE(client, 0);
    if (!simulated()) {
        EXPECT_EQ(fiber_dial("unix:/nowhere/at/all", 0), -ENOENT);
    }
    EXPECT_EQ(fiber_dial(("unix:/" + std::string(107, 'x')).c_str(), 0), -ENAMETOOLONG);
    EXPECT_EQ(fiber_dial("unix:", 0), -EINVAL);
    EXPECT_EQ(fiber_dial("unix:@", 0), -EINVAL);
    // From the current directory, for this thread alone; and never a host called unix.
    auto elsewhere = [&] {
        ASSERT_EQ(::unshare(CLONE_FS), 0) << strerror(errno);
        ASSERT_EQ(::chdir(path.substr(0, path.rfind('/')).c_str()), 0);
        Descriptor here(fiber_dial("unix:socket", SOCK_CLOEXEC));
        EXPECT_GE(here, 0);
        EXPECT_EQ(fiber_dial("unix:80", 0), -ENOENT);
    };
    if (!simulated()) in_thread(elsewhere);
    no_threads = true; // which a look-up would need
    EXPECT_EQ(fiber_dial("[unix]:80", 0), simulated() ? -ENOTSUP : -EAGAIN);
    no_threads = false;
}

TEST(Dial, ConnectsToAnAbstractName) {
    NEEDS_IO();
    const std::string mine = "fiberrt.names_test." + std::to_string(::getpid());
    for (const std::string &name : {mine, mine + std::string(106 - mine.size(), 'n')}) { // the longest
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        name.copy(address.sun_path + 1, name.size());
        Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const auto length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr *>(&address), length), 0) << strerror(errno);
        ASSERT_EQ(::listen(listener, 1), 0);
        Descriptor client(fiber_dial(("unix:@" + name).c_str(), SOCK_CLOEXEC));
        EXPECT_GE(client, 0);
        if (!simulated()) {
            EXPECT_EQ(fiber_dial(("unix:@" + name.substr(1)).c_str(), 0), -ECONNREFUSED);
        }
    }
    EXPECT_EQ(fiber_dial(("unix:@" + std::string(107, 'n')).c_str(), 0), -ENAMETOOLONG);
}

TEST(Dial, RefusesBadArguments) {
    NEEDS_IO();
    const int before = open_descriptors();
    EXPECT_EQ(fiber_dial(nullptr, 0), -EINVAL);
    EXPECT_EQ(fiber_dial("127.0.0.1:80", SOCK_DGRAM), -EINVAL);
    EXPECT_EQ(fiber_dial("127.0.0.1:80", -1), -EINVAL);
    for (const char *bad : {"",
                            ":",
                            ":80",
                            "127.0.0.1",
                            "127.0.0.1:",
                            "127.0.0.1:0",
                            "127.0.0.1:65536",
                            "127.0.0.1:-1",
                            "127.0.0.1:+1",
                            "127.0.0.1: 1",
                            "127.0.0.1:\n65617",
                            "127.0.0.1:\v1",
                            "127.0.0.1:\f1",
                            "127.0.0.1:\r1",
                            "127.0.0.1:-65535",
                            "127.0.0.1:99999999999999999999999",
                            "[]:80",
                            "[:80",
                            "[::1]",
                            "[::1]80",
                            "::1:80",
                            "[::1]x:80",
                            "]:80",
                            "]]:80",
                            "a]:80",
                            "a[:80",
                            "[[::1]]:80",
                            "[a]b]:80"}) {
        EXPECT_EQ(fiber_dial(bad, 0), -EINVAL) << bad;
    }
    EXPECT_EQ(fiber_dial((std::string(256, 'x') + ":80").c_str(), 0), -ENAMETOOLONG);
    EXPECT_EQ(open_descriptors(), before);
}

TEST(Dial, ARefusedConnectionIsReportedAndClosed) {
    NEEDS_IO();
    const auto [host, port] = nobody();
    EXPECT_EQ(fiber_sleep(0), 0);
    const int before = open_descriptors();
    const std::string text = host + ":" + std::to_string(port);
    for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_dial(text.c_str(), 0), -ECONNREFUSED);
    EXPECT_LE(open_descriptors(), before + (simulated() ? 0 : 8)); // the backend's
    const int after = open_descriptors();
    for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_dial(text.c_str(), 0), -ECONNREFUSED);
    EXPECT_EQ(open_descriptors(), after);
}

// How many descriptors a test leaves open, once the thread's backend has been opened.
class DialRace : public testing::Test {
protected:
    void SetUp() override {
        NEEDS_IO();
        Pipe pipe;
        ASSERT_EQ(fiber_poll_fd(pipe.write_end, POLLOUT), POLLOUT);
    }
    static int connected_to(int fd) {
        sockaddr_in peer = {};
        socklen_t length = sizeof peer;
        EXPECT_EQ(::getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &length), 0);
        return ntohs(peer.sin_port);
    }
    // Dials a name, and returns the name of the server reached, or the error.
    static int dial_once(const char *name, int64_t *took_ns = nullptr) {
        const int before = open_descriptors();
        const int64_t begin = fiber_now();
        Descriptor client(fiber_dial(name, SOCK_CLOEXEC));
        if (took_ns) *took_ns = fiber_now() - begin;
        EXPECT_EQ(open_descriptors(), before + (client >= 0));
        return client < 0 ? int(client) : connected_to(client);
    }
};

TEST_F(DialRace, ABlackHoleCostsAQuarterOfASecond) {
    BlackHole hole;
    Server good, spare;
    Name name("raced.test",
              addresses({{host_of(hole.address), listener_port(hole.address)}, good.pair(), spare.pair()}));
    // The machine may have other things to do: so the best of some rounds counts.
    int64_t took_ns = FIBER_FOREVER;
    bool went_on = true;
    for (int round = 0; round < (simulated() ? 1 : 5) && (took_ns >= FIBER_MSEC(400) || went_on); round++) {
        EXPECT_EQ(dial_once("raced.test:80", &took_ns), good.pair().second);
        EXPECT_GE(took_ns, FIBER_MSEC(250));
        went_on = false;
        for (int64_t fd; (fd = plain_accept(spare.listener)) >= 0; ::close(int(fd))) went_on = true;
    }
    EXPECT_LT(took_ns, FIBER_MSEC(simulated() ? 260 : 400));
    EXPECT_FALSE(went_on);
    RecordProperty("took_ms", int(took_ns / 1'000'000));
}

TEST_F(DialRace, AfterAFailureTheNextBeginsAtOnce) {
    Server good;
    Name name("raced.test", addresses({nobody(), nobody(), nobody(), good.pair()}));
    int64_t took_ns = 0;
    EXPECT_EQ(dial_once("raced.test:80", &took_ns), good.pair().second);
    if (simulated()) {
        EXPECT_LT(took_ns, FIBER_MSEC(50));
    }
}

TEST_F(DialRace, WhenAllFailTheMostUsefulErrorIsReturned) {
    const auto refused = nobody();
    Name name("raced.test", addresses({refused, refused}));
    EXPECT_EQ(dial_once("raced.test:80"), -ECONNREFUSED);
    if (simulated()) return;                                                       // there are no other addresses
    Name other("unreachable.test", addresses({{"255.255.255.255", 80}, refused})); // no stream goes there
    EXPECT_EQ(dial_once("unreachable.test:80"), -ECONNREFUSED);
}

TEST_F(DialRace, OfTwoFamiliesTheOtherIsTriedSecond) {
    Descriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 loopback = {};
    loopback.sin6_family = AF_INET6;
    loopback.sin6_addr = in6addr_loopback;
    if (probe < 0 || ::bind(probe, reinterpret_cast<sockaddr *>(&loopback), sizeof loopback) < 0) {
        GTEST_SKIP() << "there is no IPv6 here";
    }
    socklen_t length = sizeof loopback;
    ASSERT_EQ(::getsockname(probe, reinterpret_cast<sockaddr *>(&loopback), &length), 0);
    const std::pair<std::string, int> v6 = {"::1", ntohs(loopback.sin6_port)};
    ASSERT_EQ(::listen(probe, 1), 0);
    BlackHole hole;
    const std::pair<std::string, int> black = {host_of(hole.address), listener_port(hole.address)};
    Name name("raced.test", addresses({black, black, black, v6}));
    int64_t took_ns = 0;
    EXPECT_EQ(dial_once("raced.test:80", &took_ns), v6.second);
    if (simulated()) {
        EXPECT_LT(took_ns, FIBER_MSEC(260));
    }
}

TEST_F(DialRace, AScopeBoundsAllAttempts) {
    BlackHole hole;
    const std::pair<std::string, int> black = {host_of(hole.address), listener_port(hole.address)};
    Name name("raced.test", addresses({black, black, black}));
    for (int64_t limit_ms : {0, 1, 300}) {
        int verdict = 0;
        FIBER_WITH_TIMEOUT(FIBER_MSEC(limit_ms), &verdict) { EXPECT_EQ(dial_once("raced.test:80"), -ETIMEDOUT); }
        EXPECT_EQ(verdict, -ETIMEDOUT);
    }
}

// Whenever the cancel or the interrupt comes, nothing is left open, and the call reports either it or the connection.
TEST_F(DialRace, EndsCleanlyWheneverItIsEnded) {
    const int before = open_descriptors();
    {
        BlackHole hole;
        Server good;
        const std::pair<std::string, int> black = {host_of(hole.address), listener_port(hole.address)};
        Name name("raced.test", addresses({nobody(), good.pair(), black, good.pair()}));
        const int with_these = open_descriptors();
        for (bool by_cancel : {true, false}) {
            for (int turns = 0; turns < 24; turns++) {
                int fd = -1, next = 1;
                bool returned = false;
                auto body = [&] {
                    fd = fiber_dial("raced.test:80", SOCK_CLOEXEC);
                    returned = true;
                    next = fiber_reschedule();
                };
                fiber_t fiber = start(body);
                for (int i = 0; i < turns; i++) ASSERT_EQ(fiber_reschedule(), 0);
                const bool in_time = !returned;
                EXPECT_EQ(by_cancel ? fiber_cancel(fiber, nullptr) : fiber_interrupt(fiber, nullptr), 0);
                join(fiber);
                const int early = by_cancel ? -ECANCELED : -EINTR;
                EXPECT_TRUE(fd >= 0 || (in_time && fd == early)) << fd;
                if (in_time) {
                    EXPECT_EQ(next, by_cancel || fd >= 0 ? early : 0) << turns;
                }
                if (fd >= 0) ::close(fd);
                ASSERT_EQ(open_descriptors(), with_these) << turns;
            }
        }
    }
    EXPECT_EQ(open_descriptors(), before);
}

// And by a thread's end, while attempts are under way.
TEST_F(DialRace, AThreadThatEndsMeanwhileLeavesNothing) {
    NEEDS_THREADS();
    BlackHole hole;
    const std::pair<std::string, int> black = {host_of(hole.address), listener_port(hole.address)};
    Name several("raced.test", addresses({nobody(), black, black})), one("one.test", addresses({black}));
    const int before = open_descriptors();
    for (const char *name : {"raced.test:80", "one.test:80"}) {
        auto body = [&] {
            fiber_dial(name, SOCK_CLOEXEC);
            ADD_FAILURE() << "its thread has ended";
        };
        in_thread([&] {
            start(body);
            for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_GT(open_descriptors(), before);
        });
        EXPECT_EQ(open_descriptors(), before);
    }
}

// Two unix sockets whose listener has no room: both attempts ask again at intervals, and both are connected when the
// thread, which was kept meanwhile, looks again.
TEST_F(DialRace, OfTwoThatWinInOneLookOneIsClosed) {
    NOT_ON_SIM("has no time that passes while a fiber keeps the thread");
    Folder folder;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    folder.path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    const auto *any = reinterpret_cast<const sockaddr *>(&address);
    const auto made = [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); };
    Descriptor listener(made());
    ASSERT_EQ(::bind(listener, any, sizeof address), 0);
    ASSERT_EQ(::listen(listener, 2), 0);
    std::vector<Descriptor> fill;
    for (Descriptor one(made()); ::connect(one, any, sizeof address) == 0; one = Descriptor(made())) {
        fill.push_back(std::move(one));
    }
    ASSERT_EQ(errno, EAGAIN);
    ASSERT_GE(fill.size(), 2U);
    Name name("raced.test", [&](bool, const addrinfo *, addrinfo **out) {
        for (int i = 0; i < 2; i++) {
            addrinfo *at = *out = address_info("127.0.0.1", 1);
            at->ai_family = AF_UNIX;
            at->ai_protocol = 0;
            at->ai_addr = reinterpret_cast<sockaddr *>(&address);
            at->ai_addrlen = sizeof address;
            out = &at->ai_next;
        }
        return 0;
    });
    const int before = open_descriptors();
    int fd = -1;
    auto body = [&] { fd = fiber_dial("raced.test:80", SOCK_CLOEXEC | SOCK_NONBLOCK); };
    fiber_t fiber = start(body);
    ASSERT_TRUE(eventually([&] { return open_descriptors() == before + 2; }));
    for (size_t i = 0; i < fill.size(); i++) ::close(plain_accept(listener));
    const int64_t both_ask = fiber_now() + FIBER_MSEC(20); // by then the longest pause between two attempts is over
    while (fiber_now() < both_ask) continue;
    join(fiber);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(open_descriptors(), before + 1);
    for (int i = 0; i < 2; i++) EXPECT_EQ(::close(plain_accept(listener)), 0) << "one attempt only was connected";
    ::close(fd);
}

TEST_F(DialRace, ByNameThroughAThread) {
    NOT_ON_SIM("has no names");
    Server good;
    Name name("named.test", [&](bool numeric, const addrinfo *, addrinfo **out) {
        if (numeric) return EAI_NONAME;
        *out = address_info(good.pair().first, good.pair().second);
        return 0;
    });
    EXPECT_EQ(dial_once("named.test:http"), good.pair().second);
    Name nobody("nobody.test", says(EAI_NONAME));
    EXPECT_EQ(dial_once("nobody.test:80"), -ENOENT);
}

} // namespace
