// SPDX-License-Identifier: MIT OR Apache-2.0
// Scenarios made for the sweeps of conformance_faults.cc: each makes every call that may be refused something until it
// succeeds. Every error until then must be one that reports the lack, and at the end all is released. So the scenarios
// pass whatever one thing is refused, and leave nothing.
#include "cord_support.h"
#include "io_support.h"

#include <arpa/inet.h>
#include <csignal>
#if FIBERRT_TEST_EV
#include "backend/libev.h"
#endif
#include <functional>
#include <linux/openat2.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace support;

namespace {

bool tells_of_a_lack(int64_t result) {
    return result == -ENOMEM || result == -EAGAIN || result == -EMFILE || result == -ENFILE || result == -ENOSPC;
}

// Makes a call until it succeeds: at the second time, as one thing is refused.
template <class Call>
auto insist(Call call) {
    for (int refusals = 0;; refusals++) {
        const auto result = call();
        if (result >= 0) return result;
        if (tells_of_a_lack(result) && refusals < 1) continue;
        ADD_FAILURE() << "attempt " << refusals + 1 << ": " << result;
        return result;
    }
}
#define INSIST(call) insist([&] { return call; })

template <class Body>
fiber_t insist_on_fiber(Body &body, const fiber_attr_t *attr = nullptr) {
    fiber_t fiber{};
    EXPECT_EQ(INSIST(fiber_new(&fiber, attr, entry<Body>, &body)), 0);
    EXPECT_EQ(INSIST(fiber_wakeup(fiber)), 0);
    return fiber;
}

// Runs a lambda in a fiber, again if there was no stack for it.
template <class Body>
void insist_on_run(Body &&body) {
    insist([&] { return fiber_join(insist_on_fiber(body), nullptr); });
}

template <class Body>
fiber_cord_t insist_on_cord(Body &body, const fiber_cord_attr_t *attr = nullptr) {
    fiber_cord_t cord{};
    EXPECT_EQ(INSIST(fiber_cord_start(&cord, attr, entry<Body>, &body)), 0);
    return cord;
}

// ---- fibers, cords, scopes -------------------------------------------------------------------------------------------

TEST(Faults, StacksOfManySizes) {
    int ran = 0;
    auto body = [&] { ran++; };
    int made = 0;
    for (size_t size : {16384, 65536, 262144, 1 << 20, 8 << 20})
        for (int guard : {FIBER_GUARD_REQUIRE, FIBER_GUARD_PREFER, FIBER_GUARD_NONE}) {
            fiber_attr_t *attr = nullptr;
            ASSERT_EQ(INSIST(fiber_attr_create(&attr)), 0);
            EXPECT_EQ(fiber_attr_set_stack_size(attr, size), 0);
            EXPECT_EQ(fiber_attr_set_guard(attr, guard), 0);
            fiber_t fiber{};
            EXPECT_EQ(INSIST(fiber_new(&fiber, attr, entry<decltype(body)>, &body)), 0);
            EXPECT_EQ(fiber_attr_destroy(attr), 0);
            EXPECT_EQ(INSIST(fiber_start(fiber)), 0);
            EXPECT_EQ(fiber_join(fiber, nullptr), 0);
            EXPECT_EQ(ran, ++made);
        }
}

TEST(Faults, ManyFibersThatSleep) {
    constexpr int count = 400;
    int ran = 0, without_stack = 0;
    auto body = [&] {
        ran++;
        EXPECT_EQ(INSIST(fiber_sleep(FIBER_USEC(100))), 0);
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < count; i++) fibers.push_back(insist_on_fiber(body));
    for (fiber_t fiber : fibers) {
        const int told = fiber_join(fiber, nullptr);
        EXPECT_TRUE(told == 0 || told == -EAGAIN) << told;
        without_stack += told != 0;
    }
    EXPECT_EQ(ran + without_stack, count);
    EXPECT_LE(without_stack, 1);
}

TEST(Faults, TransfersToANewFiber) {
    auto body = [] { return pointer(3); };
    fiber_t fiber{};
    ASSERT_EQ(INSIST(fiber_new(&fiber, nullptr, entry<decltype(body)>, &body)), 0);
    void *got = nullptr;
    EXPECT_EQ(INSIST(fiber_transfer(fiber, nullptr, &got)), 1);
    EXPECT_EQ(got, pointer(3));
    EXPECT_EQ(fiber_join(fiber, nullptr), 0);
}

TEST(Faults, CordsWithFibersOfTheirOwn) {
    fiber_cord_attr_t *attr = nullptr;
    ASSERT_EQ(INSIST(fiber_cord_attr_create(&attr)), 0);
    const int first = 0;
    EXPECT_EQ(fiber_cord_attr_set_name(attr, "one"), 0);
    EXPECT_EQ(fiber_cord_attr_set_affinity(attr, &first, 1), 0);
    int ran = 0;
    auto body = [&] { insist_on_run([&] { ran++; }); };
    for (int i = 1; i < 4; i++) {
        const fiber_cord_t cord = insist_on_cord(body, attr);
        EXPECT_EQ(INSIST(fiber_cord_join(cord, nullptr)), 0);
        EXPECT_EQ(ran, i);
    }
    EXPECT_EQ(fiber_cord_attr_destroy(attr), 0);
}

// Its joiner gets the result, also if there was no memory for the record that reports the thread's exit.
TEST(Faults, ACordWhoseFunctionLeavesByPthreadExit) {
    NEEDS_THREADS();
    auto body = [] { pthread_exit(nullptr); };
    for (int i = 0; i < 3; i++) {
        const fiber_cord_t cord = insist_on_cord(body);
        EXPECT_EQ(INSIST(fiber_cord_join_timeout(cord, nullptr, FIBER_SEC(20))), 0);
    }
}

struct Counted {
    std::atomic<int> ran{0}, freed{0};

    static void *run(void *it) {
        static_cast<Counted *>(it)->ran++;
        return nullptr;
    }
    static void free(void *it) { static_cast<Counted *>(it)->freed++; }
};

TEST(Faults, FibersOnAnotherCord) {
    Counted counted;
    std::atomic<bool> end{false};
    auto wait = [&] {
        while (!end) EXPECT_EQ(INSIST(fiber_sleep(FIBER_USEC(50))), 0);
    };
    const fiber_cord_t cord = insist_on_cord(wait);
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(INSIST(fiber_attr_create(&attr)), 0);
    EXPECT_EQ(fiber_attr_set_cord(attr, cord), 0);
    EXPECT_EQ(fiber_attr_set_free_arg(attr, Counted::free), 0);
    insist_on_run([] {}); // this thread has a cord, which a join would ask for
    insist([&] {
        fiber_t fiber{};
        EXPECT_EQ(INSIST(fiber_new(&fiber, attr, Counted::run, &counted)), 0);
        EXPECT_EQ(INSIST(fiber_wakeup(fiber)), 0);
        return fiber_join(fiber, nullptr);
    });
    EXPECT_EQ(counted.ran, 1);
    EXPECT_EQ(INSIST(fiber_post(cord, Counted::run, &counted)), 0);
    end = true;
    EXPECT_EQ(INSIST(fiber_cord_join(cord, nullptr)), 0);
    EXPECT_TRUE(counted.ran == 2 || counted.ran == 1) << counted.ran; // there may have been no stack for the second
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

TEST(Faults, ScopesWithChildren) {
    fiber_scope_t scope{};
    ASSERT_EQ(INSIST(fiber_scope_open(&scope, FIBER_SEC(60), FIBER_SCOPE_COLLECT)), 0);
    int ran = 0, told = 0, without_stack = 0;
    auto child = [](void *count) { return int64_t(++*static_cast<int *>(count)); };
    for (int i = 0; i < 50; i++) EXPECT_EQ(INSIST(fiber_scope_spawn(scope, nullptr, child, &ran)), 0);
    for (int64_t result; INSIST(fiber_scope_next(scope, nullptr, &result)) == 1; told++)
        without_stack += result == -EAGAIN;
    EXPECT_EQ(told, 50);
    EXPECT_EQ(ran + without_stack, 50);
    EXPECT_LE(without_stack, 1);
    EXPECT_EQ(INSIST(fiber_scope_close(scope, nullptr)), 0);
}

// ---- values, locks, channels, tasks ----------------------------------------------------------------------------------

TEST(Faults, Keys) {
    static int destroyed;
    std::vector<fiber_key_t> keys(20);
    for (fiber_key_t &key : keys) EXPECT_EQ(INSIST(fiber_key_create(&key, [](void *) { destroyed++; })), 0);
    insist_on_run([&] {
        destroyed = 0;
        for (fiber_key_t key : keys) EXPECT_EQ(INSIST(fiber_key_set(key, &destroyed)), 0);
    });
    EXPECT_EQ(destroyed, 20);
    for (fiber_key_t key : keys) EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(Faults, AThreadWithoutACordThatHoldsLocks) {
    fiber_mutex_t one{}, two{};
    in_thread([&] {
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(INSIST(fiber_mutex_lock(&one)), 0);
            EXPECT_EQ(INSIST(fiber_mutex_lock(&two)), 0);
            EXPECT_EQ(fiber_mutex_unlock(&one), 0);
            EXPECT_EQ(fiber_mutex_unlock(&two), 0);
        }
    });
    EXPECT_EQ(INSIST(fiber_mutex_lock(&one)), 0);
    EXPECT_EQ(fiber_mutex_unlock(&one), 0);
    EXPECT_EQ(fiber_mutex_destroy(&one), 0);
    EXPECT_EQ(fiber_mutex_destroy(&two), 0);
}

// Without memory for the record that reports its exit, no joiner is told; but the library tries again for the next
// thread.
TEST(Faults, ThreadsWithoutACordThatExitHoldingALock) {
    NEEDS_THREADS();
    int told = 0;
    for (int i = 0; i < 3; i++) {
        static fiber_mutex_t mutex;
        mutex = {};
        std::thread([] { EXPECT_EQ(INSIST(fiber_mutex_lock(&mutex)), 0); }).join();
        const int result = insist([] {
            const int locked = fiber_mutex_lock_timeout(&mutex, FIBER_MSEC(5));
            return locked == -ETIMEDOUT ? 1 : locked == -EOWNERDEAD ? 0 : locked;
        });
        if (result == 0) {
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
        EXPECT_GE(result, 0);
        told += result == 0;
    }
    EXPECT_GE(told, 2);
}

TEST(Faults, ChannelsAndASelectOfMany) {
    constexpr int count = 12;
    fiber_chan_t chans[count];
    for (int i = 0; i < count; i++) ASSERT_EQ(INSIST(fiber_chan_create(&chans[i], sizeof(int), size_t(i) + 1)), 0);
    const int item = 7;
    int got = 0;
    EXPECT_EQ(INSIST(fiber_chan_send(chans[5], &item)), 0);
    fiber_case_t cases[count] = {};
    for (int i = 0; i < count; i++) {
        cases[i].kind = FIBER_CASE_RECV;
        cases[i].chan = chans[i];
        cases[i].item = &got;
    }
    EXPECT_EQ(INSIST(fiber_select(cases, count, FIBER_SEC(60))), 5);
    EXPECT_EQ(got, item);
    EXPECT_EQ(fiber_select(cases, 0, 0), -ETIMEDOUT);
    for (fiber_chan_t chan : chans) EXPECT_EQ(fiber_chan_destroy(chan), 0);
}

TEST(Faults, PoolsAndTheirTasks) {
    NEEDS_THREADS();
    fiber_pool_attr_t *attr = nullptr;
    ASSERT_EQ(INSIST(fiber_pool_attr_create(&attr)), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 2), 0);
    fiber_pool_t pool{};
    ASSERT_EQ(insist([&] {
                  const int told = fiber_pool_create(&pool, attr);
                  if (told < 0) ::usleep(20'000); // the threads that it did start end, and its record is free again
                  return told;
              }),
              0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    Counted counted;
    for (int i = 0; i < 300; i++) EXPECT_EQ(INSIST(fiber_pool_submit(pool, Counted::run, &counted)), 0);
    EXPECT_EQ(INSIST(fiber_pool_bind(pool)), 0);
    for (int i = 0; i < 300; i++)
        EXPECT_EQ(INSIST(fiber_pool_submit_flags(pool, Counted::run, &counted, FIBER_TASK_SAME_THREAD)), 0);
    EXPECT_EQ(INSIST(fiber_pool_unbind(pool)), 0);
    EXPECT_EQ(INSIST(fiber_pool_close(pool)), 0);
    EXPECT_EQ(counted.ran, 600);
}

// ---- input and output ------------------------------------------------------------------------------------------------

#define ON_A_BACKEND() \
    NEEDS_IO();        \
    NOT_ON_SIM("has no files that other processes could use")

TEST(Faults, StreamsThatWait) {
    ON_A_BACKEND();
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    char text[8] = {};
    int64_t got = 0;
    auto reader = [&] { got = INSIST(fiber_read(ends[0], text, sizeof text)); };
    const fiber_t fiber = insist_on_fiber(reader);
    EXPECT_EQ(INSIST(fiber_sleep(FIBER_USEC(200))), 0);
    EXPECT_EQ(INSIST(fiber_write(ends[1], "def", 3)), 3);
    if (fiber_join(fiber, nullptr) == -EAGAIN) reader();
    EXPECT_EQ(got, 3);
    EXPECT_EQ(INSIST(fiber_poll_fd(ends[0], POLLOUT | POLLPRI)), POLLOUT);
    fiber_scope_t scope{};
    ASSERT_EQ(INSIST(fiber_scope_open(&scope, FIBER_MSEC(3), 0)), 0);
    EXPECT_EQ(insist([&] { // an error that libev cannot report
                  const int told = fiber_poll_fd(ends[0], POLLPRI);
                  return told == -ETIMEDOUT ? 0 : told;
              }),
              0);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    for (int fd : ends) EXPECT_EQ(INSIST(fiber_close(fd)), 0);
}

TEST(Faults, ConnectionsAndDescriptorsThatArePassed) {
    ON_A_BACKEND();
    sockaddr_in address = {};
    Descriptor listener = tcp_listener(address, 8, false);
    char name[64];
    std::snprintf(name, sizeof name, "%s:%d", inet_ntoa(address.sin_addr), ntohs(address.sin_port));
    const int client = INSIST(fiber_dial(name, SOCK_CLOEXEC));
    ASSERT_GE(client, 0);
    const int server = INSIST(fiber_accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_GE(server, 0);
    EXPECT_EQ(INSIST(fiber_send(client, "x", 1, 0)), 1);
    char byte;
    EXPECT_EQ(INSIST(fiber_recv(server, &byte, 1, 0)), 1);
    EXPECT_EQ(INSIST(fiber_close(client)), 0);
    EXPECT_EQ(INSIST(fiber_close(server)), 0);

    int ends[2], got = -1;
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    EXPECT_EQ(INSIST(fiber_send_fds(ends[0], "y", 1, ends, 1)), 1);
    size_t count = 1;
    int flags = 0;
    EXPECT_EQ(INSIST(fiber_recv_fds(ends[1], &byte, 1, &got, &count, &flags)), 1);
    EXPECT_EQ(count, 1u);
    for (int fd : {ends[0], ends[1], got}) EXPECT_EQ(INSIST(fiber_close(fd)), 0);

    addrinfo hints = {}, *list = nullptr;
    hints.ai_flags = AI_NUMERICHOST;
    EXPECT_EQ(INSIST(fiber_getaddrinfo("127.0.0.1", "80", &hints, &list)), 0);
    if (list) ::freeaddrinfo(list);
}

#if FIBERRT_TEST_EV
// libev ends the process if it finds no memory: the memory that it needs for each descriptor is allocated at the
// beginning.
TEST(Faults, LibevHasTakenItsMemoryBeforehand) {
    ON_A_BACKEND();
    static std::atomic<int> taken;
    ev_set_allocator([](void *memory, long size) noexcept -> void * {
        if (size) taken++;
        if (size) return std::realloc(memory, size_t(size));
        std::free(memory);
        return nullptr;
    });
    constexpr int count = 40;
    Pipe first;
    char byte;
    auto reads_first = [&] { EXPECT_EQ(INSIST(fiber_read(first.read_end, &byte, 1)), 1); };
    for (int i = 0; i < 3; i++) { // one of these may lack something
        const fiber_t waits = insist_on_fiber(reads_first);
        EXPECT_EQ(INSIST(fiber_sleep(FIBER_MSEC(1))), 0);
        EXPECT_EQ(INSIST(fiber_write(first.write_end, "x", 1)), 1);
        if (fiber_join(waits, nullptr) == -EAGAIN) reads_first();
    }
    if (fiber_backend_name() != std::string("ev")) return;
    taken = 0;
    Pipe pipes[count];
    int readers[count], got = 0;
    for (int i = 0; i < count; i++) readers[i] = fcntl(pipes[i].read_end, F_DUPFD_CLOEXEC, 940);
    EXPECT_LT(readers[count - 1], 1024);
    auto read = [&](int fd) {
        char one;
        got += int(INSIST(fiber_read(fd, &one, 1)));
    };
    std::vector<std::function<void()>> bodies;
    for (int fd : readers) bodies.push_back([&read, fd] { read(fd); });
    std::vector<fiber_t> fibers;
    for (auto &body : bodies) fibers.push_back(insist_on_fiber(body));
    EXPECT_EQ(INSIST(fiber_sleep(FIBER_MSEC(1))), 0); // all of them wait
    for (int i = 0; i < count; i++) {
        EXPECT_EQ(INSIST(fiber_write(pipes[i].write_end, "y", 1)), 1);
        if (fiber_join(fibers[size_t(i)], nullptr) == -EAGAIN) read(readers[i]);
    }
    EXPECT_EQ(got, count);
    EXPECT_EQ(taken, 0);
    for (int fd : readers) EXPECT_EQ(INSIST(fiber_close(fd)), 0);
}
#endif

struct Folder {
    std::string path = testing::TempDir() + "faultsXXXXXX";
    Folder() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
    ~Folder() { EXPECT_EQ(::rmdir(path.c_str()), 0); }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    std::string file(const char *name) const { return path + "/" + name; }
};

TEST(Faults, Files) {
    ON_A_BACKEND();
    Folder folder;
    const std::string one = folder.file("one"), two = folder.file("two"), inner = folder.file("inner");
    const int fd = INSIST(fiber_open(one.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_GE(fd, 0);
    EXPECT_EQ(INSIST(fiber_pwrite(fd, "text", 4, 0)), 4);
    EXPECT_EQ(INSIST(fiber_fsync(fd)), 0);
    char text[8];
    EXPECT_EQ(INSIST(fiber_pread(fd, text, sizeof text, 0)), 4);
    EXPECT_EQ(INSIST(fiber_read(fd, text, sizeof text)), 4);
    EXPECT_EQ(INSIST(fiber_close(fd)), 0);
    struct statx status;
    EXPECT_EQ(INSIST(fiber_statx(AT_FDCWD, one.c_str(), 0, STATX_SIZE, &status)), 0);
    EXPECT_EQ(INSIST(fiber_rename(one.c_str(), two.c_str())), 0);
    open_how how = {};
    how.flags = O_RDONLY | O_CLOEXEC;
    const int again = INSIST(fiber_openat2(AT_FDCWD, two.c_str(), &how, sizeof how));
    ASSERT_GE(again, 0);
    EXPECT_EQ(INSIST(fiber_close(again)), 0);
    EXPECT_EQ(INSIST(fiber_mkdir(inner.c_str(), 0700)), 0);
    const int dir = INSIST(fiber_open(folder.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
    char entries[1024];
    EXPECT_GT(INSIST(fiber_getdents64(dir, entries, sizeof entries)), 0);
    EXPECT_EQ(INSIST(fiber_close(dir)), 0);
    EXPECT_EQ(INSIST(fiber_rmdir(inner.c_str())), 0);
    EXPECT_EQ(INSIST(fiber_unlink(two.c_str())), 0);
}

// None of these may block the thread, whichever resource it lacks.
TEST(Faults, FifosWhoseOtherSideDoesNotCome) {
    ON_A_BACKEND();
    Folder folder;
    const std::string path = folder.file("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    for (int flags : {O_RDONLY, O_WRONLY})
        for (bool by_openat2 : {false, true}) {
            fiber_scope_t scope{};
            ASSERT_EQ(INSIST(fiber_scope_open(&scope, FIBER_MSEC(3), 0)), 0);
            open_how how = {};
            how.flags = uint64_t(flags | O_CLOEXEC);
            const int told = by_openat2 ? fiber_openat2(AT_FDCWD, path.c_str(), &how, sizeof how)
                                        : fiber_open(path.c_str(), flags | O_CLOEXEC, 0);
            EXPECT_TRUE(told == -ETIMEDOUT || tells_of_a_lack(told)) << told;
            fiber_scope_close(scope, nullptr);
        }
    const int both = ::open(path.c_str(), O_RDWR | O_CLOEXEC); // does not wait
    const int reader = INSIST(fiber_open(path.c_str(), O_RDONLY | O_CLOEXEC, 0));
    const int writer = INSIST(fiber_open(path.c_str(), O_WRONLY | O_CLOEXEC, 0));
    EXPECT_EQ(INSIST(fiber_close(reader)), 0);
    EXPECT_EQ(INSIST(fiber_close(writer)), 0);
    EXPECT_EQ(::close(both), 0);
    EXPECT_EQ(::unlink(path.c_str()), 0);
}

// Also where a ring may have but a few threads of the kernel for files.
TEST(Faults, AFileIsOpenedWhileManyFifosWait) {
    ON_A_BACKEND();
    Folder folder;
    const std::string path = folder.file("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    auto waits = [&] {
        const int told = fiber_open(path.c_str(), O_RDONLY | O_CLOEXEC, 0);
        EXPECT_TRUE(told == -ECANCELED || tells_of_a_lack(told)) << told;
        if (told >= 0) ::close(told);
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 100; i++) fibers.push_back(insist_on_fiber(waits));
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
    fiber_scope_t scope{};
    ASSERT_EQ(INSIST(fiber_scope_open(&scope, FIBER_SEC(20), 0)), 0);
    const std::string other = folder.file("file"); // to be made, for which the kernel always takes a thread
    const int file = INSIST(fiber_open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_GE(file, 0);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    for (const fiber_t fiber : fibers) fiber_cancel(fiber, nullptr);
    for (const fiber_t fiber : fibers) {
        int told = fiber_join(fiber, nullptr);
        if (told == -ENOMEM) told = fiber_join(fiber, nullptr);
        EXPECT_TRUE(told == 0 || told == -EAGAIN) << told; // one may have had no stack
    }
    if (file >= 0) {
        EXPECT_EQ(INSIST(fiber_close(file)), 0);
        EXPECT_EQ(::unlink(other.c_str()), 0);
    }
    EXPECT_EQ(::unlink(path.c_str()), 0);
}

TEST(Faults, AnEventfdWithoutRoom) {
    ON_A_BACKEND();
    const int counter = ::eventfd(0, EFD_CLOEXEC);
    const uint64_t nearly_full = UINT64_MAX - 3, one = 1, many = 100;
    EXPECT_EQ(INSIST(fiber_write(counter, &nearly_full, sizeof nearly_full)), 8);
    for (uint64_t number : {many, one, many}) {
        fiber_scope_t scope{};
        ASSERT_EQ(INSIST(fiber_scope_open(&scope, number == one ? FIBER_FOREVER : FIBER_MSEC(3), 0)), 0);
        const int64_t told = fiber_write(counter, &number, sizeof number);
        EXPECT_TRUE(told == (number == one ? 8 : -ETIMEDOUT) || tells_of_a_lack(told)) << number << ": " << told;
        fiber_scope_close(scope, nullptr);
    }
    EXPECT_EQ(INSIST(fiber_close(counter)), 0);
}

// A fiber that begins to read a descriptor while it is closed is refused, and does not wait on a number that names
// nothing any more; also where a slow close would move the descriptor to another number, and there is none.
TEST(Faults, AReadThatBeginsDuringAClose) {
    ON_A_BACKEND();
    for (int i = 0; i < 3; i++) {
        Stream stream = make_stream(Kind::pty);
        const int number = fcntl(stream.reader, F_DUPFD_CLOEXEC, 200); // which no other code gets meanwhile
        stream.reader.close();
        char byte = 'x';
        EXPECT_EQ(INSIST(fiber_write(stream.writer, &byte, 1)), 1); // this thread's backend is open
        auto close_it = [&] { EXPECT_EQ(INSIST(fiber_close(number)), 0); };
        fiber_t closer{};
        EXPECT_EQ(INSIST(fiber_new(&closer, nullptr, entry<decltype(close_it)>, &close_it)), 0);
        EXPECT_EQ(INSIST(fiber_start(closer)), 0);
        in_thread([&] {
            EXPECT_EQ(insist([&] {
                          const int64_t told = fiber_read(number, &byte, 1);
                          return told == -EBADF ? 0 : told;
                      }),
                      0);
        });
        EXPECT_EQ(fiber_join(closer, nullptr), 0);
    }
}

TEST(Faults, SplicesAndCopies) {
    ON_A_BACKEND();
    Pipe from;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ASSERT_EQ(::write(from.write_end, "abcdefgh", 8), 8);
    EXPECT_EQ(INSIST(fiber_splice(from.read_end, nullptr, ends[0], nullptr, 4, 0)), 4);
    int64_t written = 0, lost = 0;
    from.close_write();
    EXPECT_EQ(INSIST(fiber_copy(from.read_end, ends[0], FIBER_COPY_ALL, &written, &lost)), 4);
    char text[16];
    EXPECT_EQ(INSIST(fiber_read(ends[1], text, sizeof text)), 8);
    const int file = memfd_create("faults", MFD_CLOEXEC);
    ASSERT_EQ(::pwrite(file, "12345678", 8, 0), 8);
    EXPECT_EQ(INSIST(fiber_copy(file, ends[0], 8, &written, &lost)), 8);
    EXPECT_EQ(INSIST(fiber_read(ends[1], text, sizeof text)), 8);
    EXPECT_EQ(lost, 0);
    for (int fd : {ends[0], ends[1], file}) EXPECT_EQ(INSIST(fiber_close(fd)), 0);
}

// ---- threads, processes, signals ---------------------------------------------------------------------------------------

TEST(Faults, OffloadedFunctions) {
    NEEDS_THREADS();
    int64_t result = 0;
    Counted counted;
    auto fn = [](void *it) { return int64_t(++static_cast<Counted *>(it)->ran); };
    EXPECT_EQ(INSIST(fiber_offload(fn, &counted, &result)), 0);
    EXPECT_EQ(result, 1);
    int attempts = 0;
    insist([&] {
        attempts++;
        return fiber_offload_detached(fn, &counted, Counted::free, &result);
    });
    EXPECT_EQ(result, 2);
    EXPECT_EQ(counted.freed, attempts) << "once for each call, whatever it returns";
    auto with_cord = [](void *) {
        int ran = 0;
        insist_on_run([&] { ran++; });
        return int64_t(ran);
    };
    EXPECT_EQ(INSIST(fiber_offload(with_cord, nullptr, &result)), 0);
    EXPECT_EQ(result, 1);
}

TEST(Faults, ProcessesAndTheirStreams) {
    NOT_ON_SIM("has no processes");
    fiber_process_attr_t *attr = nullptr;
    ASSERT_EQ(INSIST(fiber_process_attr_create(&attr)), 0);
    const char *environment[] = {"A=b", "PATH=/bin:/usr/bin", nullptr};
    EXPECT_EQ(INSIST(fiber_process_attr_set_environment(attr, const_cast<char **>(environment))), 0);
    EXPECT_EQ(INSIST(fiber_process_attr_set_directory(attr, "/")), 0);
    EXPECT_EQ(fiber_process_attr_set_group(attr, 0), 0);
    const char *words[] = {"true", nullptr};
    for (int source : {FIBER_PROCESS_PIPE, FIBER_PROCESS_NULL, FIBER_PROCESS_STDOUT}) {
        for (int stream = source == FIBER_PROCESS_STDOUT ? 2 : 0; stream < 3; stream++)
            EXPECT_EQ(fiber_process_attr_set_stream(attr, stream, source), 0);
        pid_t pid = -1;
        int pipes[3] = {-1, -1, -1}, status = -1;
        EXPECT_EQ(INSIST(fiber_process_spawn(&pid, pipes, attr, "true", const_cast<char **>(words))), 0);
        EXPECT_EQ(INSIST(fiber_process_wait(pid, &status, FIBER_SEC(1))), 0);
        EXPECT_EQ(status, 0);
        for (int fd : pipes)
            if (fd >= 0) {
                EXPECT_EQ(::close(fd), 0);
            }
    }
    EXPECT_EQ(fiber_process_attr_destroy(attr), 0);
}

TEST(Faults, SignalsThatAreWaitedFor) {
    ON_A_BACKEND();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
    auto sender = [] { ::kill(::getpid(), SIGUSR1); };
    const fiber_t sends = insist_on_fiber(sender);
    int got = 0;
    auto waiter = [&] { got = INSIST(fiber_sigwait(&set, nullptr)); };
    const fiber_t waits = insist_on_fiber(waiter);
    if (fiber_join(sends, nullptr) == -EAGAIN) sender();
    if (fiber_join(waits, nullptr) == -EAGAIN) waiter();
    EXPECT_EQ(got, SIGUSR1);
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, nullptr), 0);
}

TEST(Faults, AForkedChildGoesOn) {
    NOT_ON_SIM("has one process");
    insist_on_run([] {});
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(20);
        int ran = 0;
        insist_on_run([&] { ran++; });
        ::_exit(ran != 1 || testing::Test::HasFailure());
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// ---- other loops, hosted fibers, introspection ----------------------------------------------------------------------

TEST(Faults, ALoopThatRunsTheCord) {
    ON_A_BACKEND();
    in_thread([] {
        const int fd = INSIST(fiber_cord_fd());
        ASSERT_GE(fd, 0);
        bool ran = false;
        auto body = [&] {
            EXPECT_EQ(INSIST(fiber_sleep(FIBER_USEC(200))), 0);
            ran = true;
        };
        fiber_t fiber = insist_on_fiber(body);
        for (int i = 0; i < 1000 && !ran; i++) {
            pollfd wait = {fd, POLLIN, 0};
            poll(&wait, 1, 100);
            EXPECT_GE(INSIST(fiber_cord_run(0)), 0);
            if (fiber_state(fiber) != FIBER_DEAD || ran) continue;
            EXPECT_EQ(fiber_join(fiber, nullptr), -EAGAIN); // there was no stack
            fiber = insist_on_fiber(body);
        }
        EXPECT_TRUE(ran);
        EXPECT_EQ(fiber_join(fiber, nullptr), 0);
    });
}

TEST(Faults, HostedFibersAndTheirOperations) {
    fiber_op_t *ops = nullptr;
    ASSERT_EQ(INSIST(fiber_ops_create(&ops, 2)), 0);
    fiber_t hosted{};
    ASSERT_EQ(INSIST(fiber_hosted_new(&hosted, nullptr, nullptr, nullptr)), 0);
    EXPECT_EQ(INSIST(fiber_wakeup(hosted)), 0);
    fiber_completion_t out[2];
    EXPECT_EQ(INSIST(fiber_exchange(nullptr, 0, out, 2, FIBER_FOREVER)), 1);
    for (uint32_t code : {FIBER_OP_SLEEP, FIBER_OP_RESCHEDULE}) {
        fiber_op_t *op = &ops[code == FIBER_OP_SLEEP];
        op->code = code;
        op->fiber = hosted;
        op->number = FIBER_USEC(10);
        EXPECT_EQ(INSIST(fiber_exchange(&op, 1, out, 2, FIBER_FOREVER)), 1);
        EXPECT_TRUE(out[0].result == 0 || tells_of_a_lack(out[0].result)) << out[0].result;
    }
    EXPECT_EQ(fiber_hosted_end(hosted, nullptr), 0);
    EXPECT_EQ(fiber_join(hosted, nullptr), 0);
    EXPECT_EQ(fiber_ops_destroy(ops), 0);

    int steps = 0;
    auto step = [](void *count, int64_t) -> int {
        ++*static_cast<int *>(count);
        return FIBER_STEP_END;
    };
    insist([&] {
        fiber_t stepped{};
        EXPECT_EQ(INSIST(fiber_hosted_new(&stepped, nullptr, step, &steps)), 0);
        EXPECT_EQ(INSIST(fiber_wakeup(stepped)), 0);
        return fiber_join(stepped, nullptr);
    });
    EXPECT_EQ(steps, 1);
}

TEST(Faults, DumpsStatsAndNames) {
    insist_on_run([] {
        const int file = memfd_create("faults", MFD_CLOEXEC);
        EXPECT_EQ(INSIST(fiber_dump(file)), 0);
        EXPECT_EQ(INSIST(fiber_metrics_write(file)), 0);
        EXPECT_EQ(INSIST(fiber_dump_as(file, FIBER_DUMP_FRAMES | FIBER_DUMP_JSON)), 0);
        EXPECT_EQ(INSIST(fiber_dump_as(file, FIBER_DUMP_GROUPED)), 0);
        EXPECT_GT(::lseek(file, 0, SEEK_END), 0);
        ::close(file);
        fiber_stats_t stats;
        EXPECT_EQ(fiber_stats(&stats, sizeof stats), 0);
        EXPECT_NE(fiber_backend_name(), nullptr);
        EXPECT_NE(fiber_features(), 0u);
    });
}

} // namespace
