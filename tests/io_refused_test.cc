// SPDX-License-Identifier: MIT OR Apache-2.0
// Where the kernel refuses io_uring, and FIBERRT_BACKEND allows nothing else: every I/O call returns -ENOTSUP, or
// -ENOMEM if that is why, and does nothing, and
// everything else works. Run through deny_uring, which makes the kernel refuse; the environment variable
// FIBERRT_REFUSAL has the error.
#include "io_support.h"

#include <linux/openat2.h>
#include <sys/syscall.h>

using namespace support;

namespace {

class RefusedTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        // Without the refusal the tests below would prove nothing.
        errno = 0;
        const long ring = ::syscall(SYS_io_uring_setup, 1, nullptr);
        const char *expected = ::getenv("FIBERRT_REFUSAL");
        const char *wish = ::getenv("FIBERRT_BACKEND");
        ASSERT_TRUE(wish && std::string(wish) == "uring");
        ASSERT_NE(expected, nullptr) << "run this through deny_uring, with FIBERRT_REFUSAL";
        ASSERT_EQ(ring, -1);
        told = errno == ENOMEM ? -ENOMEM : -ENOTSUP; // memory may come back
        const std::string name = strerrorname_np(errno);
        ASSERT_EQ(name, expected);
    }

    static inline int told = 0;
};

TEST_F(RefusedTest, EveryCallSaysSo) {
    Pipe pipe;
    Stream pair = make_stream(Kind::unix_stream);
    sockaddr_in address;
    Descriptor listener = tcp_listener(address), socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Folder folder;
    const std::string path = folder.path("file");
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(plain_write(pipe.write_end, "kept"), 4);
    EXPECT_EQ(plain_write(pair.writer, "kept"), 4);
    EXPECT_EQ(plain_write(file, "kept"), 4);
    char buffer[4] = {'x', 'x', 'x', 'x'};
    iovec part = {buffer, 4};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    struct statx about;
    const int open_before = ::dup(0);
    ::close(open_before);
    // Once by the main flow and once by a fiber.
    for (int round = 0; round < 2; ++round) {
        auto all = [&] {
            EXPECT_EQ(fiber_read(pipe.read_end, buffer, 4), told);
            EXPECT_EQ(fiber_write(pipe.write_end, buffer, 4), told);
            EXPECT_EQ(fiber_readv(pipe.read_end, &part, 1), told);
            EXPECT_EQ(fiber_writev(pipe.write_end, &part, 1), told);
            EXPECT_EQ(fiber_pread(file, buffer, 4, 0), told);
            EXPECT_EQ(fiber_pwrite(file, buffer, 4, 0), told);
            EXPECT_EQ(fiber_recv(pair.reader, buffer, 4, 0), told);
            EXPECT_EQ(fiber_recv(pair.reader, buffer, 4, MSG_DONTWAIT), told);
            EXPECT_EQ(fiber_send(pair.writer, buffer, 4, 0), told);
            EXPECT_EQ(fiber_recvfrom(pair.reader, buffer, 4, 0, nullptr, nullptr), told);
            EXPECT_EQ(fiber_sendto(pair.writer, buffer, 4, 0, nullptr, 0), told);
            EXPECT_EQ(fiber_recvmsg(pair.reader, &message, 0), told);
            EXPECT_EQ(fiber_sendmsg(pair.writer, &message, 0), told);
            EXPECT_EQ(fiber_accept(listener, nullptr, nullptr), told);
            EXPECT_EQ(fiber_accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), told);
            EXPECT_EQ(fiber_connect(socket, reinterpret_cast<sockaddr *>(&address), sizeof address), told);
            EXPECT_EQ(fiber_open(path.c_str(), O_RDONLY | O_CLOEXEC, 0), told);
            EXPECT_EQ(fiber_statx(AT_FDCWD, path.c_str(), 0, STATX_SIZE, &about), told);
            EXPECT_EQ(fiber_fsync(file), told);
            EXPECT_EQ(fiber_fdatasync(file), told);
            EXPECT_EQ(fiber_poll_fd(pipe.read_end, POLLIN), told);
            open_how how = {};
            size_t none = 0;
            EXPECT_EQ(fiber_openat2(AT_FDCWD, path.c_str(), &how, sizeof how), told);
            EXPECT_EQ(fiber_rename(path.c_str(), (path + "2").c_str()), told);
            EXPECT_EQ(fiber_unlink(path.c_str()), told);
            EXPECT_EQ(fiber_mkdir((path + "3").c_str(), 0700), told);
            EXPECT_EQ(fiber_rmdir(folder.name().c_str()), told);
            EXPECT_EQ(fiber_getdents64(file, buffer, 4), told);
            EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, pair.writer, nullptr, 4, 0), told);
            EXPECT_EQ(fiber_copy(pipe.read_end, pair.writer, 4, nullptr, nullptr), told);
            EXPECT_EQ(fiber_send_fds(pair.writer, buffer, 4, nullptr, 0), told);
            EXPECT_EQ(fiber_recv_fds(pair.reader, buffer, 4, nullptr, &none, nullptr), told);
            EXPECT_EQ(fiber_close(::dup(0)), 0); // needs no ring
            EXPECT_EQ(fiber_close(open_before), -EBADF);
        };
        if (round == 0)
            all();
        else
            run(all);
    }
    // Nothing was done: nothing taken, nothing put, nothing opened or closed.
    EXPECT_EQ(std::string(buffer, 4), "xxxx");
    EXPECT_EQ(drain(pipe.read_end), "kept");
    EXPECT_EQ(drain(pair.reader), "kept");
    EXPECT_EQ(::lseek(file, 0, SEEK_END), 4);
    EXPECT_EQ(plain_accept(listener), -EAGAIN);
    Descriptor next(::dup(0));
    EXPECT_EQ(next, open_before);
}

TEST_F(RefusedTest, ACancelledCallerGetsTheCancel) {
    Pipe pipe;
    auto body = [&] {
        char byte;
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), -ECANCELED);
    };
    run(body);
}

TEST_F(RefusedTest, EverythingElseWorks) {
    Pipe pipe;
    char byte;
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), told); // the backend has been tried
    std::string log;
    auto sleeper = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(100)), 0);
        log += 's';
    };
    auto yielder = [&] {
        log += 'y';
        EXPECT_EQ(fiber_yield(), 0);
        log += 'Y';
    };
    auto rescheduler = [&] {
        for (int i = 0; i < 3; ++i) {
            log += 'r';
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    fiber_t a = spawn(sleeper), b = spawn(yielder), c = spawn(rescheduler);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_wakeup(b), 0);
    join(c);
    join(b);
    const int64_t begin = fiber_now();
    join(a);
    EXPECT_LT(fiber_now() - begin, FIBER_SEC(10));
    EXPECT_EQ(log, "yrrYrs");
    int verdict = 0;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(1), &verdict) { EXPECT_EQ(fiber_sleep(FIBER_SEC(100)), -ETIMEDOUT); }
    EXPECT_EQ(verdict, -ETIMEDOUT);
    EXPECT_EQ(fiber_yield_timeout(FIBER_MSEC(1)), -ETIMEDOUT);
    EXPECT_EQ(fiber_yield(), -EDEADLK); // no thread could ever wake this thread
}

TEST_F(RefusedTest, SleepsAreNotShort) {
    for (int i = 0; i < 50; ++i) {
        const int64_t begin = fiber_now();
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        EXPECT_GE(fiber_now() - begin, FIBER_USEC(100));
    }
}

} // namespace
