// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel refuses resources that the io_uring backend needs: memory for the ring, threads for blocking operations.
#include "io_calls.h"

#include <linux/openat2.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>

using namespace support;

namespace {

// The ring is memory of the process; when there is some again it is opened.
TEST(NoMemoryDeathTest, TheFirstOperationSaysSoAndALaterOneWorks) {
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "a sanitizer needs address space without limit";
    auto child = [&] {
        in_thread([&] { // its own ring
            Pipe pipe;
            char byte = 0;
            CHILD_CHECK(plain_write(pipe.write_end, "p") == 1);
            (void)self();
            rlimit before = {};
            CHILD_CHECK(::getrlimit(RLIMIT_AS, &before) == 0);
            const rlimit none = {4096, before.rlim_max};
            CHILD_CHECK(::setrlimit(RLIMIT_AS, &none) == 0);
            const int64_t first = fiber_read(pipe.read_end, &byte, 1);
            CHILD_CHECK(::setrlimit(RLIMIT_AS, &before) == 0);
            // libev may need no more memory than there is.
            CHILD_CHECK(first == -ENOMEM || (first == 1 && fiber_backend_name() == std::string("ev")));
            if (first == 1) return;
            CHILD_CHECK(fiber_read(pipe.read_end, &byte, 1) == 1 && byte == 'p');
        });
        ::_exit(0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

// A user who may have no more processes: the kernel makes no threads for operations that would block. It matters
// whether the ring was opened before or after.
class NoThreadsDeathTest : public testing::TestWithParam<bool> {};

TEST_P(NoThreadsDeathTest, FilesAndDevicesStillWork) {
    Folder folder;
    const std::string fifo = folder.path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0666), 0);
    ASSERT_EQ(::chmod(folder.name().c_str(), 0755), 0);
    auto child = [&] {
        in_thread([&] { // its own ring
            int verdict = 0;
            char byte = 'b';
            Pipe pipe;
            CHILD_CHECK(plain_write(pipe.write_end, "p") == 1);
            if (GetParam()) CHILD_CHECK(fiber_read(pipe.read_end, &byte, 1) == 1);
            if (::geteuid() == 0) CHILD_CHECK(::setgid(65534) == 0 && ::setuid(65534) == 0); // root may have any number
            const rlimit none = {0, 0};
            CHILD_CHECK(::setrlimit(RLIMIT_NPROC, &none) == 0);
            FIBER_WITH_TIMEOUT(FIBER_SEC(10), &verdict) {
                const int file = fiber_open("/proc/self/exe", O_RDONLY | O_CLOEXEC, 0);
                CHILD_CHECK(file >= 0);
                CHILD_CHECK(fiber_read(file, &byte, 1) == 1 && byte == 0x7f);
                CHILD_CHECK(fiber_read(file, &byte, 1) == 1 && byte == 'E');
                CHILD_CHECK(fiber_fsync(file) == 0);
                CHILD_CHECK(fiber_fdatasync(file) == 0);
                CHILD_CHECK(fiber_close(file) == 0);
                CHILD_CHECK(fiber_open("/no/such/file", O_RDONLY | O_CLOEXEC, 0) == -ENOENT);
                int short_verdict = 0;
                FIBER_WITH_TIMEOUT(FIBER_MSEC(20), &short_verdict) {
                    CHILD_CHECK(fiber_open(fifo.c_str(), O_RDONLY | O_CLOEXEC, 0) == -ETIMEDOUT);
                }
                CHILD_CHECK(short_verdict == -ETIMEDOUT);
                struct statx about;
                CHILD_CHECK(fiber_statx(AT_FDCWD, "/", 0, STATX_TYPE, &about) == 0 && S_ISDIR(about.stx_mode));
                struct open_how how = {};
                how.flags = O_RDONLY | O_CLOEXEC;
                int self = fiber_openat2(AT_FDCWD, "/proc/self/exe", &how, sizeof how);
                CHILD_CHECK(self >= 0 || self == -ENOSYS);
                if (self == -ENOSYS) self = fiber_open("/proc/self/exe", O_RDONLY | O_CLOEXEC, 0);
                Pipe spliced;
                int64_t offset = 1;
                CHILD_CHECK(fiber_splice(self, &offset, spliced.write_end, nullptr, 1, 0) == 1 && offset == 2);
                CHILD_CHECK(fiber_read(spliced.read_end, &byte, 1) == 1 && byte == 'E');
                CHILD_CHECK(fiber_copy(self, spliced.write_end, 2, nullptr, nullptr) == 2);
                CHILD_CHECK(fiber_close(self) == 0);
                const int root = fiber_open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
                alignas(8) char entries[512];
                CHILD_CHECK(fiber_getdents64(root, entries, sizeof entries) > 0);
                CHILD_CHECK(fiber_close(root) == 0);
                CHILD_CHECK(fiber_mkdir("/no/such/folder", 0700) == -ENOENT);
                CHILD_CHECK(fiber_unlink("/no/such/file") == -ENOENT);
                CHILD_CHECK(fiber_rename("/no/such/file", "/no/such/name") == -ENOENT);
                const int null = fiber_open("/dev/null", O_WRONLY | O_CLOEXEC, 0);
                iovec parts[2] = {{&byte, 1}, {&byte, 1}};
                CHILD_CHECK(fiber_write(null, &byte, 1) == 1);
                CHILD_CHECK(fiber_writev(null, parts, 2) == 2);
                CHILD_CHECK(fiber_pwrite(null, &byte, 1, 5) == 1);
                CHILD_CHECK(fiber_close(null) == 0);
            }
            CHILD_CHECK(verdict == 0);
        });
        ::_exit(0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

// A terminal that takes no bytes holds up only its writer, which can still be cancelled.
TEST_P(NoThreadsDeathTest, AStoppedTerminalDoesNotHoldUpOthers) {
    auto child = [&] {
        in_thread([&] {
            Stream terminal = make_stream(Kind::pty);
            Pipe pipe;
            char byte = 'b';
            CHILD_CHECK(plain_write(pipe.write_end, "p") == 1);
            if (GetParam()) CHILD_CHECK(fiber_read(pipe.read_end, &byte, 1) == 1);
            if (::geteuid() == 0) CHILD_CHECK(::setgid(65534) == 0 && ::setuid(65534) == 0);
            const rlimit none = {0, 0};
            CHILD_CHECK(::setrlimit(RLIMIT_NPROC, &none) == 0);
            fill(terminal.reader);
            int64_t result = 0;
            auto body = [&] { result = fiber_write(terminal.reader, &byte, 1); };
            fiber_t writer = start(body);
            settle();
            CHILD_CHECK(fiber_cancel(writer, nullptr) == 0);
            join(writer);
            CHILD_CHECK(result == -ECANCELED);
        });
        ::_exit(0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

// A limit on processes below the number of threads that the library asks the kernel to allow a ring: the ring allows as
// many as the limit.
TEST(FewThreadsDeathTest, AFileIsOpenedWhileManyFifosWait) {
    if (::geteuid() != 0)
        GTEST_SKIP() << "only root may have threads under this limit; NoThreadsDeathTest tests the other case";
    Folder folder;
    const std::string fifo = folder.path("fifo"), path = folder.path("file");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    auto child = [&] {
        const rlimit few = {4, 4};
        CHILD_CHECK(::setrlimit(RLIMIT_NPROC, &few) == 0);
        in_thread([&] {
            auto waits = [&] { CHILD_CHECK(fiber_open(fifo.c_str(), O_RDONLY | O_CLOEXEC, 0) == -ECANCELED); };
            std::vector<fiber_t> fibers;
            for (int i = 0; i < 8; i++) fibers.push_back(start(waits));
            CHILD_CHECK(fiber_sleep(FIBER_MSEC(20)) == 0);
            int verdict = 0;
            FIBER_WITH_TIMEOUT(FIBER_SEC(20), &verdict) {
                const int file = fiber_open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); // which wants a thread
                CHILD_CHECK(file >= 0);
                CHILD_CHECK(fiber_close(file) == 0);
            }
            CHILD_CHECK(verdict == 0);
            for (const fiber_t fiber : fibers) CHILD_CHECK(fiber_cancel(fiber, nullptr) == 0);
            for (const fiber_t fiber : fibers) join(fiber);
        });
        ::_exit(0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
    ::unlink(path.c_str());
}

// When the first thread has ended, much of /proc/self is empty.
TEST(FirstThreadDeathTest, AnEventfdIsWrittenToAfterItsEnd) {
    NOT_UNDER_QEMU("ends with its first thread");
    auto child = [&] {
        std::thread second([&] {
            while (::access("/proc/self/fdinfo/0", F_OK) == 0) ::usleep(1000);
            Descriptor counter(::eventfd(0, EFD_CLOEXEC));
            uint64_t value = UINT64_MAX - 10, many = 100;
            CHILD_CHECK(plain_write(counter, std::string(reinterpret_cast<char *>(&value), sizeof value)) == 8);
            int64_t put = 0;
            auto body = [&] { put = fiber_write(counter, &many, sizeof many); };
            const fiber_t writer = start(body);
            CHILD_CHECK(fiber_sleep(FIBER_MSEC(1)) == 0); // the thread goes on
            CHILD_CHECK(::read(counter, &value, sizeof value) == 8 && value == UINT64_MAX - 10);
            join(writer);
            CHILD_CHECK(put == 8);
            CHILD_CHECK(fiber_write(counter, pointer(8), 8) == -EFAULT);
            ::_exit(7);
        });
        ::alarm(60); // it may hold the thread
        ::syscall(SYS_exit, 0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(7), "");
}

INSTANTIATE_TEST_SUITE_P(RingOpenedBefore, NoThreadsDeathTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool> &info) { return info.param ? "yes" : "no"; });

} // namespace
