// SPDX-License-Identifier: MIT OR Apache-2.0
// The sockets by which sem_post of adopted libraries wakes fibers (src/posix/semaphore.cc).
#include "locks.h"

#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace locks;

namespace {

constexpr int numbers = 1024;

std::vector<bool> open_numbers() {
    std::vector<bool> open(numbers);
    for (int fd = 0; fd < numbers; fd++) open[fd] = fcntl(fd, F_GETFD) >= 0;
    return open;
}

int count_open() {
    int count = 0;
    for (bool open : open_numbers()) count += open;
    return count;
}

struct Semaphore {
    Semaphore() { EXPECT_EQ(sem_init(&semaphore, 0, 0), 0); }
    ~Semaphore() { sem_destroy(&semaphore); }
    Semaphore(const Semaphore &) = delete;
    sem_t semaphore;
};

// A semaphore for which a fiber waits, and the number of the descriptor that the library has opened for it. Earlier
// tests may have left an open bell for a semaphore's address, so this tries many.
class WithBell {
public:
    WithBell() {
        EXPECT_EQ(fiber_sleep(0), 0); // the backend's descriptors are open
        while (fd < 0) {
            semaphores_.push_back(std::make_unique<Semaphore>());
            std::vector<bool> before = open_numbers();
            until_waiting(fiber = start(body_));
            std::vector<bool> after = open_numbers();
            for (int i = 0; i < numbers; i++)
                if (after[i] && !before[i]) fd = i;
            if (fd >= 0) break;
            EXPECT_EQ(sem_post(semaphore()), 0);
            join(fiber);
        }
    }
    sem_t *semaphore() { return &semaphores_.back()->semaphore; }

    fiber_t fiber{};
    int fd = -1;

private:
    std::function<void()> body_ = [this] { EXPECT_EQ(sem_wait(semaphore()), 0); };
    std::vector<std::unique_ptr<Semaphore>> semaphores_;
};

// The program closes all descriptors by their numbers, and opens its own.
TEST(Bell, WhoseNumberNamesAnotherFileIsNotUsed) {
    for (bool is_socket : {true, false}) {
        WithBell with;
        int ends[2]; // the program's, and its peer's
        if (is_socket) {
            ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        } else {
            ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        }
        ASSERT_EQ(NOT_ADOPTED(close)(with.fd), 0);
        ASSERT_EQ(dup2(ends[0], with.fd), with.fd);
        ASSERT_EQ(write(ends[1], "request", 7), 7); // the descriptor is readable
        EXPECT_EQ(sem_post(with.semaphore()), 0);
        join(with.fiber);
        auto again = [&] { EXPECT_EQ(sem_wait(with.semaphore()), 0); };
        fiber_t fiber = start(again);
        until_waiting(fiber);
        EXPECT_EQ(sem_post(with.semaphore()), 0);
        join(fiber);
        char data[64] = "";
        EXPECT_EQ(read(with.fd, data, sizeof data), 7) << "the library has read the program's data";
        EXPECT_STREQ(data, "request");
        if (is_socket) {
            EXPECT_LT(recv(ends[1], data, sizeof data, MSG_DONTWAIT), 0)
                << "the library has written to the program's socket";
        }
        EXPECT_EQ(close(with.fd), 0);
        for (int end : ends) EXPECT_EQ(close(end), 0);
    }
}

TEST(Bell, ThatTheProgramHasClosedIsMadeAgain) {
    WithBell with;
    ASSERT_EQ(close(with.fd), 0);
    EXPECT_EQ(sem_post(with.semaphore()), 0);
    join(with.fiber);
    auto again = [&] {
        for (int i = 0; i < 3; i++) EXPECT_EQ(sem_wait(with.semaphore()), 0);
    };
    fiber_t fiber = start(again);
    for (int i = 0; i < 3; i++) {
        until_waiting(fiber);
        EXPECT_EQ(sem_post(with.semaphore()), 0);
    }
    join(fiber);
}

TEST(Bell, OfTheParentIsNotRungByTheChildOfAFork) {
    WithBell with;
    pid_t child = fork();
    if (!child) {
        CHILD_CHECK(sem_post(with.semaphore()) == 0);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(NOT_ADOPTED(waitpid)(child, &status, 0), child); // no fiber of this thread runs meanwhile
    EXPECT_EQ(status, 0);
    pollfd rung = {with.fd, POLLIN, 0};
    EXPECT_EQ(NOT_ADOPTED(poll)(&rung, 1, 0), 0);
    EXPECT_EQ(sem_post(with.semaphore()), 0);
    join(with.fiber);
}

TEST(Bell, IsNotSharedWithTheChildOfAFork) {
    WithBell with;
    pid_t child = fork();
    if (!child) {
        // The child's fiber waits for the same semaphore, at the same address.
        struct stat before, after;
        CHILD_CHECK(fstat(with.fd, &before) == 0);
        auto body = [&] { CHILD_CHECK(sem_wait(with.semaphore()) == 0); };
        fiber_t mine = start(body);
        while (fiber_state(mine) != FIBER_WAITING) CHILD_CHECK(fiber_reschedule() == 0);
        CHILD_CHECK(fstat(with.fd, &after) != 0 || after.st_ino != before.st_ino); // the parent's is closed here
        CHILD_CHECK(sem_post(with.semaphore()) == 0);
        CHILD_CHECK(fiber_join(mine, nullptr) == 0);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(NOT_ADOPTED(waitpid)(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(sem_post(with.semaphore()), 0);
    join(with.fiber);
}

// Each thread ends while one of its fibers waits for a semaphore. No two semaphores have the same address.
TEST(Bell, OfThreadsThatEndAreUsedAgain) {
    constexpr int threads = FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN ? 500 : 600, most = 300; // 256 lists
    std::vector<std::unique_ptr<Semaphore>> semaphores(threads);
    int before = count_open();
    for (auto &one : semaphores) {
        one = std::make_unique<Semaphore>();
        std::thread([&] {
            auto body = [&] { sem_wait(&one->semaphore); };
            until_waiting(start(body));
        }).join();
    }
    EXPECT_LT(count_open(), before + most);
    Semaphore last;
    auto body = [&] { EXPECT_EQ(sem_wait(&last.semaphore), 0); };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(sem_post(&last.semaphore), 0);
    join(fiber);
}

} // namespace
