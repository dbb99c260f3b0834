// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces in processes that lack memory or threads, that fork, and whose file has no reader yet.
#include "conformance.h"
#include "cord_support.h"
#include "in_child.h"

#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace support;

namespace {

fiber_trace_t to(int fd, uint32_t ring_events = 0) {
    fiber_trace_t options = {};
    options.fd = fd;
    options.ring_events = ring_events;
    return options;
}

int start_trace(const fiber_trace_t &options) { return fiber_trace_start(&options, sizeof options); }

int dev_null() { return ::open("/dev/null", O_WRONLY | O_CLOEXEC); }

// Lets this process have so much more memory than now.
bool limit_memory(size_t more) {
    size_t pages = 0;
    FILE *file = std::fopen("/proc/self/statm", "re");
    const bool read = file && std::fscanf(file, "%zu", &pages) == 1;
    if (file) std::fclose(file);
    const rlim_t most = pages * size_t(::sysconf(_SC_PAGESIZE)) + more;
    const rlimit limit = {most, most};
    return read && ::setrlimit(RLIMIT_AS, &limit) == 0;
}

} // namespace

TEST(TraceTroubles, AChildOfAForkDoesNotKeepTheFileOpen) {
    int file[2];
    int to_child[2];
    ASSERT_EQ(::pipe2(file, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(to_child, O_CLOEXEC), 0);
    ASSERT_EQ(start_trace(to(file[1])), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        char byte;
        ::alarm(60);
        ::close(to_child[1]);
        ::close(file[1]); // the trace has a duplicate
        ::_exit(int(::read(to_child[0], &byte, 1)));
    }
    ::close(to_child[0]);
    ::close(file[1]);
    EXPECT_EQ(fiber_trace_stop(), 0);
    // The child closes its own copies some time after the fork; the end of the trace must come without its end.
    char part[4096];
    ssize_t got = 0;
    do {
        pollfd ready = {file[0], POLLIN, 0};
        ASSERT_EQ(::poll(&ready, 1, 10'000), 1) << "the child holds the pipe";
    } while ((got = ::read(file[0], part, sizeof part)) > 0);
    EXPECT_EQ(got, 0);
    ::close(file[0]);
    ::close(to_child[1]);
    int status = 1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(TraceTroubles, AStartThatWaitsForAReaderKeepsNoOtherCallWaiting) {
    NEEDS_THREADS();
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    NOT_UNDER_QEMU("ends a forked process that makes a thread");
    char folder[] = "/tmp/fiberrt-trace-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    const std::string path = std::string(folder) + "/fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::atomic<int> started{1};
    std::thread starts([&] {
        fiber_trace_t options = {};
        options.path = path.c_str();
        int error = 0;
        do {
            error = fiber_trace_start(&options, sizeof options);
        } while (error == -EBUSY); // this thread met one of the traces below
        started = error;
    });
    const int null = dev_null();
    for (;;) { // until the thread is the first to start one
        const int error = start_trace(to(null));
        if (error == -EBUSY) break;
        ASSERT_EQ(error, 0);
        ASSERT_EQ(fiber_trace_stop(), 0);
        std::this_thread::yield();
    }
    EXPECT_EQ(fiber_trace_stop(), -ESRCH);
    EXPECT_EQ(started, 1); // it still waits
    EXPECT_EQ(in_child([&] {
                  if (start_trace(to(null)) != 0) return 1;
                  return fiber_trace_stop() == 0 ? 7 : 2;
              }),
              7);
    const int reader = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    EXPECT_GE(reader, 0);
    starts.join();
    EXPECT_EQ(started, 0);
    EXPECT_EQ(fiber_trace_stop(), 0);
    char byte;
    EXPECT_EQ(::read(reader, &byte, 1), 1);
    ::close(reader);
    ::close(null);
    ::unlink(path.c_str());
    ::rmdir(folder);
}

TEST(TraceTroubles, EventsForWhichACordHasNoMemoryAreCounted) {
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    self(); // so that there is a cord
    const int null = dev_null();
    EXPECT_EQ(in_child([&] {
                  fiber_trace_stats_t stats{};
                  if (!limit_memory(size_t(64) << 20)) return 1;
                  if (start_trace(to(null, 1u << 24)) != 0) return 2; // 512 MiB for each cord
                  for (int i = 0; i < 5; i++) {
                      if (fiber_trace_counter("counter", i) != 0) return 3;
                  }
                  if (fiber_trace_stop() != 0) return 4;
                  if (fiber_trace_stats(&stats, sizeof stats) != 0) return 5;
                  return stats.dropped >= 5 ? 7 : 6;
              }),
              7);
    ::close(null);
}

TEST(TraceTroubles, AStartWithoutAThreadFails) {
    NEEDS_THREADS();
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    pthread_attr_t usual, too_large; // a stack for which there is no address space
    ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
    ASSERT_EQ(::pthread_attr_init(&too_large), 0);
    ASSERT_EQ(::pthread_attr_setstacksize(&too_large, size_t(1) << 62), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&too_large), 0);
    const int null = dev_null();
    const int error = start_trace(to(null));
    ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
    EXPECT_EQ(error, -EAGAIN);
    EXPECT_EQ(fiber_trace_counter("counter", 1), 0);
    EXPECT_EQ(fiber_trace_stop(), -ESRCH);
    fiber_trace_stats_t stats{};
    EXPECT_EQ(fiber_trace_stats(&stats, sizeof stats), 0);
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(start_trace(to(null)), 0);
    EXPECT_EQ(fiber_trace_stop(), 0);
    EXPECT_EQ(::pthread_attr_destroy(&usual), 0);
    EXPECT_EQ(::pthread_attr_destroy(&too_large), 0);
    ::close(null);
}
