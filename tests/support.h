// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for all tests: fibers from lambdas, values as pointers, threads, pipes. Uses only the public header.
//
// A lambda is passed as an lvalue and must outlive its fiber:
//     auto body = [&] { log += 'a'; };
//     fiber_t fiber = spawn(body);
//     ...
//     join(fiber);
#ifndef FIBERRT_TESTS_SUPPORT_H
#define FIBERRT_TESTS_SUPPORT_H

#include <fiberrt.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <malloc.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <type_traits>
#include <unistd.h>

#if defined(__has_feature)
#define FIBERRT_TEST_HAS_FEATURE(name) __has_feature(name)
#else
#define FIBERRT_TEST_HAS_FEATURE(name) 0
#endif
// 1 where that sanitizer is compiled in, by either compiler.
#if defined(__SANITIZE_ADDRESS__) || FIBERRT_TEST_HAS_FEATURE(address_sanitizer)
#define FIBERRT_TEST_ASAN 1
#else
#define FIBERRT_TEST_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || FIBERRT_TEST_HAS_FEATURE(thread_sanitizer)
#define FIBERRT_TEST_TSAN 1
#else
#define FIBERRT_TEST_TSAN 0
#endif

// Skips the test that begins with this under qemu's user mode (tests/under_qemu.sh).
#define NOT_UNDER_QEMU(why) \
    if (support::under_qemu()) GTEST_SKIP() << "qemu " why

// Skips the test that begins with this where the child of a fork must not allocate: while the parent has other threads,
// the child may find the allocator locked.
#define NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS() \
    if (FIBERRT_TEST_ASAN) GTEST_SKIP() << "AddressSanitizer's allocator may stay locked in the child of a fork"

// Skips the test that begins with this where no call tells how much memory is allocated (support::allocated).
#define NEEDS_THE_MEMORY_IN_USE() \
    if (!FIBERRT_TEST_MEMORY_IN_USE) GTEST_SKIP() << "this C library does not tell how much memory is allocated"
#define FIBERRT_TEST_MEMORY_IN_USE 0
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
#undef FIBERRT_TEST_MEMORY_IN_USE
#define FIBERRT_TEST_MEMORY_IN_USE 1
#endif
#endif

// Skips the test that begins with this where no flag of the C library tells that there were other threads once.
#define NEEDS_A_FLAG_OF_THREADS() \
    if (!FIBERRT_TEST_FLAG_OF_THREADS) GTEST_SKIP() << "this C library does not tell of threads that have ended"
#define FIBERRT_TEST_FLAG_OF_THREADS 0
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 32)
#undef FIBERRT_TEST_FLAG_OF_THREADS
#define FIBERRT_TEST_FLAG_OF_THREADS 1
#endif
#endif

// Skips the test that begins with this where a limit on address space would hit more than the library.
#define NEEDS_LIMITS_ON_ADDRESS_SPACE()                                                                 \
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer needs more address space"; \
    NOT_UNDER_QEMU("ignores limits on address space")

// Skips the test that begins with this if the library was built without I/O (FIBERRT_WITH_URING=OFF).
#define NEEDS_IO() \
    if (!FIBERRT_TEST_IO) GTEST_SKIP() << "the library was built without I/O"

// In a simulation, skips the test that begins with this, or the rest of the test from here on.
#define NOT_ON_SIM(why) \
    if (support::simulated()) GTEST_SKIP() << "the simulation " why
#define NEEDS_THREADS() NOT_ON_SIM("has one thread")

namespace support {

// Returns how many bytes of the C library's memory are in use: NEEDS_THE_MEMORY_IN_USE.
inline size_t allocated() {
#if FIBERRT_TEST_MEMORY_IN_USE
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

// A loopback address for this process, one of 65,536: a connection's port stays taken for a minute, and the ports of
// one address do not suffice for a thousand runs of all tests.
inline sockaddr_in own_address() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ((uint32_t(getpid()) & 0xffff) << 8));
    return address;
}

// Binds a socket to any free port of own_address().
inline int bind_to_own_address(int fd) {
    const sockaddr_in address = own_address();
    return bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof address);
}

// How much work a test does: FIBERRT_TEST_SIZE, or `usual` if that is not set.
inline int size_of_test(int usual) {
    const char *given = ::getenv("FIBERRT_TEST_SIZE");
    return given ? atoi(given) : usual;
}

// Whether FIBERRT_BACKEND asks for the simulation.
inline bool simulated() {
    const char *backend = ::getenv("FIBERRT_BACKEND");
    return backend && ::strcmp(backend, "sim") == 0;
}

inline bool under_qemu() { return ::getenv("FIBERRT_UNDER_QEMU") != nullptr; }

// Any number as a pointer that is passed through the library and never followed.
inline void *pointer(intptr_t value) { return reinterpret_cast<void *>(value); }

// The fiber function that calls a lambda; if the lambda returns a value, it must be a void *.
template <class Body>
void *entry(void *body) {
    if constexpr (std::is_void_v<decltype((*static_cast<Body *>(body))())>) {
        (*static_cast<Body *>(body))();
        return nullptr;
    } else {
        return (*static_cast<Body *>(body))();
    }
}

// fiber_new: a joinable fiber that has neither started nor been woken.
template <class Body>
fiber_t create(Body &body, const fiber_attr_t *attr = nullptr) {
    fiber_t fiber{};
    EXPECT_EQ(fiber_new(&fiber, attr, entry<Body>, &body), 0);
    return fiber;
}

// fiber_spawn: a joinable fiber, queued.
template <class Body>
fiber_t spawn(Body &body) {
    fiber_t fiber{};
    EXPECT_EQ(fiber_spawn(&fiber, entry<Body>, &body), 0);
    return fiber;
}

// fiber_new and fiber_start: a joinable fiber that has run until it first gave way.
template <class Body>
fiber_t start(Body &body) {
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_start(fiber), 0);
    return fiber;
}

// Returns result, the result of a call whose effect another fiber waits for. A call that lacked memory has had no
// effect, so a sweep of refusals (tests/faults/) ends the scenario here.
template <class Result>
Result expect_memory(Result result) {
    [&] { ASSERT_NE(result, -ENOMEM); }();
    return result;
}

// Checks the result of a join. A join that lacked memory has not waited: the fiber may still use the caller's
// variables, so a sweep of refusals (tests/faults/) ends the scenario here.
inline void expect_joined(int error) { EXPECT_EQ(expect_memory(error), 0); }

// Joins a fiber and returns its result.
inline void *join(fiber_t fiber) {
    void *result = nullptr;
    expect_joined(fiber_join(fiber, &result));
    return result;
}

// Runs a lambda in a fiber to its end and returns its result.
template <class Body>
void *run(Body &&body) {
    return join(spawn(body));
}

// Runs a lambda on a new cord, to its end. The calling fiber keeps its thread meanwhile: it does not poll, but reads
// the clock, which lets the other cord go on in a simulation.
template <class Body>
void on_a_cord_at_once(Body &body) {
    bool done = false;
    auto marked = [&] {
        body();
        done = true;
    };
    fiber_cord_t cord{};
    EXPECT_EQ(fiber_cord_start(&cord, nullptr, entry<decltype(marked)>, &marked), 0);
    while (!*static_cast<volatile bool *>(&done)) fiber_now();
    expect_joined(fiber_cord_join(cord, nullptr));
}

// Runs a lambda on a fresh thread, to its end; the thread's cord ends with it. In a simulation: on a cord.
template <class Body>
void in_thread(Body &&body) {
    if (simulated()) return on_a_cord_at_once(body);
    std::thread thread([&body] { body(); });
    thread.join();
}

inline fiber_t self() {
    fiber_t fiber{};
    EXPECT_EQ(fiber_self(&fiber), 0);
    return fiber;
}

inline fiber_info_t info(fiber_t fiber) {
    fiber_info_t out{};
    EXPECT_EQ(fiber_info(fiber, &out, sizeof out), 0);
    return out;
}

inline fiber_stats_t stats() {
    fiber_stats_t out{};
    EXPECT_EQ(fiber_stats(&out, sizeof out), 0);
    return out;
}

// Keeps the processor busy without any call that switches or polls.
inline void burn(int64_t ns) {
    for (int64_t end = fiber_now() + ns; fiber_now() < end;) {}
}

// Takes the wakeups that the calling fiber has not used yet, and returns their number: so many yields do not wait.
inline int take_permits() {
    int permits = 0;
    while (permits < 100 && fiber_yield_timeout(0) == 0) permits++;
    return permits;
}

#if FIBERRT_TEST_ASAN
extern "C" void __sanitizer_purge_allocator(void);
#endif

// AddressSanitizer keeps freed memory for a while. A test that counts memory must not count it.
inline void forget_freed() {
#if FIBERRT_TEST_ASAN
    __sanitizer_purge_allocator();
#endif
}

// Memory of this process that is resident, in KiB.
inline long resident_kib() {
    forget_freed();
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
    ADD_FAILURE() << "no VmRSS in /proc/self/status";
    return 0;
}

// Mappings of this process: lines of /proc/self/maps.
inline int mapping_count() {
    forget_freed();
    std::ifstream file("/proc/self/maps");
    int lines = 0;
    for (std::string line; std::getline(file, line);) lines++;
    return lines;
}

// How many mappings may be added with time though no stack and no slot has leaked: the allocator's own.
inline constexpr int mapping_slack = FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN ? 40 : 4;
// The same slack for resident memory.
inline constexpr long resident_slack_kib = FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN ? 48 * 1024 : 6 * 1024;

// For child processes (EXPECT_EXIT), where a failed EXPECT would be lost: prints the failed condition and exits with 1.
#define CHILD_CHECK(condition)                                                           \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

// A pipe whose ends are closed with plain close(2) at the end of its scope: no operation may be under way then.
struct Pipe {
    int read_end = -1;
    int write_end = -1;

    explicit Pipe(int flags = O_CLOEXEC) {
        int ends[2];
        if (::pipe2(ends, flags) != 0) {
            ADD_FAILURE() << "pipe2: errno " << errno;
            return;
        }
        read_end = ends[0];
        write_end = ends[1];
    }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;
    ~Pipe() {
        close_read();
        close_write();
    }
    void close_read() {
        if (read_end >= 0) ::close(read_end);
        read_end = -1;
    }
    void close_write() {
        if (write_end >= 0) ::close(write_end);
        write_end = -1;
    }
};

} // namespace support

#endif
