// SPDX-License-Identifier: MIT OR Apache-2.0
// Locks of files: a fiber waits for a lock while the thread goes on. Results are the kernel's.
#include "adopted.h"

#include <sys/file.h>
#include <sys/wait.h>

namespace {

using adopted::outcome;
using adopted::Outcome;

class PosixFileLocks : public adopted::Program {
protected:
    void SetUp() override {
        Program::SetUp();
        char name[] = "/tmp/fiberrt-file-locks-XXXXXX";
        mine_ = mkstemp(name);
        ASSERT_GE(mine_, 0);
        theirs_ = open(name, O_RDWR | O_CLOEXEC);
        ASSERT_GE(theirs_, 0);
        unlink(name);
        ASSERT_EQ(::write(mine_, "0123456789", 10), 10);
    }
    void TearDown() override {
        close(mine_);
        close(theirs_);
        Program::TearDown();
    }
    int mine_ = -1;
    int theirs_ = -1; // another open description of the same file
};

struct flock lock_of(short type, off_t start = 0, off_t length = 0) {
    struct flock lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = start;
    lock.l_len = length;
    return lock;
}

TEST_F(PosixFileLocks, Flock) {
    ASSERT_EQ(flock(theirs_, LOCK_EX), 0);
    auto call = [&] { return flock(mine_, LOCK_EX); };
    Outcome got;
    adopted::while_it_waits([&] { got = outcome(call); }, [&](fiber_t) { EXPECT_EQ(flock(theirs_, LOCK_UN), 0); });
    EXPECT_EQ(got, (Outcome{0, 0}));
    EXPECT_EQ(outcome([&] { return flock(theirs_, LOCK_SH | LOCK_NB); }), (Outcome{-1, EWOULDBLOCK}));
    EXPECT_EQ(flock(mine_, LOCK_UN), 0);
    ASSERT_EQ(flock(theirs_, LOCK_EX), 0);
    adopted::ends_early(call);
    adopted::is_interrupted(call);
    EXPECT_EQ(flock(theirs_, LOCK_UN), 0);
    EXPECT_EQ(flock(theirs_, LOCK_EX | LOCK_NB), 0) << "an ended wait has left a lock";
}

TEST_F(PosixFileLocks, LocksOfOpenDescriptions) {
    struct flock all = lock_of(F_WRLCK);
    ASSERT_EQ(fcntl(theirs_, F_OFD_SETLK, &all), 0);
    auto call = [&] {
        struct flock wanted = lock_of(F_RDLCK, 2, 3);
        return fcntl(mine_, F_OFD_SETLKW, &wanted);
    };
    Outcome got;
    auto unlock = [&](fiber_t) {
        struct flock none = lock_of(F_UNLCK);
        EXPECT_EQ(fcntl(theirs_, F_OFD_SETLKW, &none), 0);
    };
    adopted::while_it_waits([&] { got = outcome(call); }, unlock);
    EXPECT_EQ(got, (Outcome{0, 0}));
    struct flock none = lock_of(F_UNLCK);
    ASSERT_EQ(fcntl(mine_, F_OFD_SETLK, &none), 0);
    ASSERT_EQ(fcntl(theirs_, F_OFD_SETLK, &all), 0);
    adopted::ends_early(call);
    adopted::is_interrupted(call);
}

// A child that holds a lock of the process's kind on the file until its pipe is closed.
class Holder {
public:
    explicit Holder(int fd) {
        int told[2], kept[2];
        EXPECT_EQ(pipe(told), 0);
        EXPECT_EQ(pipe(kept), 0);
        pid_ = fork();
        if (pid_ == 0) {
            struct flock all = lock_of(F_WRLCK);
            close(kept[1]);
            CHILD_CHECK(fcntl(fd, F_SETLK, &all) == 0);
            char byte = 'x';
            CHILD_CHECK(::write(told[1], &byte, 1) == 1);
            (void)!::read(kept[0], &byte, 1);
            _exit(0);
        }
        char byte;
        EXPECT_EQ(::read(told[0], &byte, 1), 1);
        close(told[0]);
        close(told[1]);
        close(kept[0]);
        kept_ = kept[1];
    }
    ~Holder() { end(); }
    Holder(const Holder &) = delete;
    Holder &operator=(const Holder &) = delete;
    void end() {
        if (kept_ < 0) return;
        close(kept_);
        kept_ = -1;
        EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
    }

private:
    pid_t pid_;
    int kept_;
};

TEST_F(PosixFileLocks, LocksOfTheProcess) {
    auto call = [&] {
        struct flock wanted = lock_of(F_WRLCK);
        return fcntl(mine_, F_SETLKW, &wanted);
    };
    Holder holder(mine_);
    adopted::ends_early(call);
    adopted::is_interrupted(call);
    Outcome got;
    adopted::while_it_waits([&] { got = outcome(call); }, [&](fiber_t) { holder.end(); });
    EXPECT_EQ(got, (Outcome{0, 0}));
}

TEST_F(PosixFileLocks, Lockf) {
    auto call = [&] { return lockf(mine_, F_LOCK, 0); };
    ASSERT_EQ(lseek(mine_, 0, SEEK_SET), 0);
    Holder holder(mine_);
    adopted::ends_early(call);
    adopted::is_interrupted(call);
    Outcome got;
    adopted::while_it_waits([&] { got = outcome(call); }, [&](fiber_t) { holder.end(); });
    EXPECT_EQ(got, (Outcome{0, 0}));
}

TEST_F(PosixFileLocks, ErrorsAreTheKernels) {
    auto same = [](auto call) { EXPECT_EQ(adopted::on_fiber(call), adopted::on_thread(call)); };
    same([] { return outcome([] { return flock(-1, LOCK_EX); }); });
    same([this] { return outcome([this] { return flock(mine_, 0); }); });
    same([] {
        struct flock lock = lock_of(F_WRLCK);
        return outcome([&] { return fcntl(-1, F_SETLKW, &lock); });
    });
    same([this] {
        struct flock lock = lock_of(F_WRLCK, -5);
        return outcome([&] { return fcntl(mine_, F_SETLKW, &lock); });
    });
    same([this] { return outcome([this] { return fcntl(mine_, F_SETLKW, nullptr); }); });
    volatile uintptr_t nowhere = 8; // volatile, so that the compiler does not warn of it
    auto lock_nowhere = [&](int command) { return outcome([&] { return fcntl(mine_, command, nowhere); }); };
    if (!FIBERRT_TEST_ASAN && !FIBERRT_TEST_TSAN) { // they read the lock before the kernel does
        same([&] { return lock_nowhere(F_SETLKW); });
        same([&] { return lock_nowhere(F_OFD_SETLKW); });
    }
    same([] { return outcome([] { return lockf(-1, F_LOCK, 0); }); });
}

TEST_F(PosixFileLocks, FcntlPassesOtherCommandsOn) {
    auto commands = [&] {
        int flags = fcntl(mine_, F_GETFD);
        EXPECT_EQ(fcntl(mine_, F_SETFD, FD_CLOEXEC), 0);
        EXPECT_EQ(fcntl(mine_, F_GETFD), FD_CLOEXEC);
        EXPECT_EQ(fcntl(mine_, F_SETFD, flags), 0);
        int copy = fcntl(mine_, F_DUPFD_CLOEXEC, 100);
        EXPECT_GE(copy, 100);
        close(copy);
        struct flock lock = lock_of(F_WRLCK);
        EXPECT_EQ(fcntl(mine_, F_OFD_GETLK, &lock), 0);
        EXPECT_EQ(lock.l_type, F_UNLCK);
    };
    support::run(commands);
}

} // namespace
