// SPDX-License-Identifier: MIT OR Apache-2.0
// The system calls that the library makes outside its ring. Each costs as much as a small transfer, so
// a call makes them only where its result depends on them. The C library's functions are in the hands of the test,
// which counts them.
#include "hosted_support.h"
#include "io_support.h"

#include <dlfcn.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <memory>
#include <string>

namespace {

int domains_asked; // calls of getsockopt(SO_DOMAIN)

template <class Function>
Function *next_of(const char *name, Function *) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

__attribute__((visibility("default"))) int getsockopt(int fd, int level, int option, void *value,
                                                      socklen_t *size) noexcept {
    static auto *real = next_of("getsockopt", &getsockopt);
    domains_asked += level == SOL_SOCKET && option == SO_DOMAIN;
    return real(fd, level, option, value, size);
}
}

using namespace support;

namespace {

class UringCalls : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(setenv("FIBERRT_BACKEND", "uring", 1), 0);
        Pipe pipe;
        EXPECT_EQ(plain_write(pipe.write_end, "p"), 1);
        char byte;
        const int64_t opened = fiber_read(pipe.read_end, &byte, 1);
        if (opened == -ENOTSUP) GTEST_SKIP() << "the kernel refuses io_uring";
        ASSERT_EQ(opened, 1);
    }
};

// Returns when a fiber that has been started waits for its message. Its first try may have let others run.
void await_waiting(fiber_t fiber) {
    while (fiber_state(fiber) == FIBER_RUNNABLE) EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
}

struct Message {
    explicit Message(size_t room) {
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = room ? control : nullptr;
        header.msg_controllen = room;
    }
    Message(const Message &) = delete;
    Message &operator=(const Message &) = delete;

    char bytes[8] = {};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
    iovec part{bytes, sizeof bytes};
    msghdr header{};
};

// How often a recvmsg that waits for 8 bytes asks for the socket's domain.
int asked_by_recvmsg(Message &message, int flags) {
    Stream pair = make_stream(Kind::unix_stream);
    int64_t got = 0;
    auto receives = [&] { got = fiber_recvmsg(pair.reader, &message.header, flags); };
    domains_asked = 0;
    const fiber_t fiber = start(receives);
    await_waiting(fiber);
    EXPECT_EQ(plain_write(pair.writer, "12345678"), 8);
    join(fiber);
    EXPECT_EQ(got, 8);
    return domains_asked;
}

TEST_F(UringCalls, AMessageWithoutRoomForAncillaryDataDoesNotAskForTheDomain) {
    const auto no_room = std::make_unique<Message>(0), room = std::make_unique<Message>(sizeof Message(0).control);
    EXPECT_EQ(asked_by_recvmsg(*no_room, MSG_WAITALL), 0);
    EXPECT_GT(asked_by_recvmsg(*room, MSG_WAITALL), 0);
    EXPECT_GT(asked_by_recvmsg(*room, 0), 0);

    // The library may read the message only where its memory is known: on the stack of the fiber.
    Stream pair = make_stream(Kind::unix_stream);
    for (const size_t control : {size_t{0}, sizeof Message(0).control}) {
        int asked = 0;
        auto receives = [&] {
            Message message(control);
            domains_asked = 0;
            EXPECT_EQ(fiber_recvmsg(pair.reader, &message.header, 0), 8);
            asked = domains_asked;
        };
        const fiber_t fiber = start(receives);
        await_waiting(fiber);
        EXPECT_EQ(plain_write(pair.writer, "12345678"), 8);
        join(fiber);
        EXPECT_EQ(asked > 0, control > 0) << control;
    }
}

// The number of the ring that this thread has opened; -1 if there is none.
int number_of_ring() {
    for (int fd = 0; fd < 256; fd++) {
        char target[64] = {};
        const std::string link = "/proc/self/fd/" + std::to_string(fd);
        if (readlink(link.c_str(), target, sizeof target - 1) > 0 && target == std::string("anon_inode:[io_uring]"))
            return fd;
    }
    return -1;
}

// Asks the kernel to cancel operations of a ring as another thread would. Returns the number of operations, or -errno.
long sync_cancel(int ring, io_uring_sync_cancel_reg what) {
    what.timeout = {-1, -1};
    const long result = syscall(SYS_io_uring_register, ring, IORING_REGISTER_SYNC_CANCEL, &what, 1);
    return result < 0 ? -errno : result;
}

// The kernel may end a poll by itself, when the file forgets its waiters. The cord's ring is asked here to do so.
TEST_F(UringCalls, APollThatTheKernelCancelsUnaskedIsGivenOnceMore) {
    const int ring = number_of_ring();
    ASSERT_GE(ring, 0);
    io_uring_sync_cancel_reg what{};
    what.addr = 1; // no operation has this name
    const long unknown = sync_cancel(ring, what);
    if (unknown == -EINVAL) GTEST_SKIP() << "the kernel has no IORING_REGISTER_SYNC_CANCEL (Linux 6.0)";
    ASSERT_EQ(unknown, -ENOENT);
    Pipe pipe;
    int64_t told = 0;
    auto polls = [&] { told = fiber_poll_fd(pipe.read_end, POLLIN); };
    const fiber_t fiber = start(polls);
    HostedOperation hosted(FIBER_OP_POLL, pipe.read_end, nullptr, 0);
    hosted.op.mode = POLLIN;
    ASSERT_EQ(hosted.start(), 0);
    settle();
    what = {};
    what.fd = pipe.read_end;
    what.flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
    const long cancelled = sync_cancel(ring, what);
    settle();
    EXPECT_EQ(plain_write(pipe.write_end, "x"), 1);
    join(fiber);
    join(hosted.fiber);
    EXPECT_GE(cancelled, 0);
    EXPECT_EQ(told, POLLIN);
    EXPECT_EQ(hosted.result, POLLIN);
}

} // namespace
