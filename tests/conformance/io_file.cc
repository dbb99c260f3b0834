// SPDX-License-Identifier: MIT OR Apache-2.0
// Files: positions, appending, several buffers, a file's attributes, opening and its errors, FIFOs.
#include "conformance.h"
#include "cord_support.h"
#include "io_support.h"

#include <climits>
#include <csignal>
#include <filesystem>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <vector>

using namespace support;

namespace {

// Throws a file's pages out of memory, so that reading it takes time; in a simulation time is no matter of the disk.
void make_cold(int file) {
    if (simulated()) return;
    EXPECT_EQ(::fsync(file), 0);
    EXPECT_EQ(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
}

// On a ring each read of the file waits for the disk from now on, past the page cache. Buffers must begin at a page. A
// file system in memory refuses the flag.
void bypass_cache_on_a_ring(int file) {
    if (fiber_backend_name() != std::string("uring")) return;
    if (::fcntl(file, F_SETFL, O_DIRECT) < 0) {
        EXPECT_EQ(errno, EINVAL);
    }
}

// Returns when the thread has just polled and will not poll again before some more switches, so that an operation that
// begins now waits until after these. A thread whose recent switches took long polls at each of them; this waits until
// they do not, or have done so for too long.
void after_a_look() {
    if (simulated()) return;
    bool looked = false; // so it can tell its own switches from others
    for (int all = 0, switches = 1; all < 5'000; all++, switches++) {
        const uint64_t before = stats().polls;
        ASSERT_EQ(fiber_reschedule(), 0);
        if (stats().polls == before) continue;
        if (looked && switches >= 16) return;
        looked = true;
        switches = 0;
    }
}

class FileTest : public testing::Test {
protected:
    void SetUp() override {
        path = folder.path("file");
        file = Descriptor(fiber_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        ASSERT_GE(file, 0);
    }
    std::string contents() {
        struct stat about = {};
        EXPECT_EQ(::stat(path.c_str(), &about), 0);
        std::string text(static_cast<size_t>(about.st_size), '\0');
        Descriptor plain(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        EXPECT_EQ(::read(plain, text.data(), text.size()), about.st_size);
        return text;
    }
    off_t position() { return ::lseek(file, 0, SEEK_CUR); }

    Folder folder;
    std::string path;
    Descriptor file;
};

TEST_F(FileTest, WrittenBytesAreReadBack) {
    const std::string text = pattern(often(300000, 10000));
    EXPECT_EQ(fiber_pwrite(file, text.data(), text.size(), 0), static_cast<int64_t>(text.size()));
    std::string back(text.size(), '\0');
    EXPECT_EQ(fiber_pread(file, back.data(), back.size(), 0), static_cast<int64_t>(back.size()));
    EXPECT_TRUE(back == text);
    EXPECT_TRUE(contents() == text);
}

// It is always ready for reading and writing, and its readiness never changes.
TEST_F(FileTest, APollForAnEventThatAFileNeverHasWaits) {
    NOT_ON_SIM("does not poll for such events");
    EXPECT_EQ(fiber_poll_fd(file, POLLPRI | POLLIN), POLLIN);
    FIBER_WITH_TIMEOUT(FIBER_MSEC(5), nullptr) { EXPECT_EQ(fiber_poll_fd(file, POLLPRI), -ETIMEDOUT); }
}

TEST_F(FileTest, ReadAndWriteMoveThePosition) {
    EXPECT_EQ(fiber_write(file, "hello ", 6), 6);
    EXPECT_EQ(position(), 6);
    EXPECT_EQ(fiber_write(file, "world", 5), 5);
    EXPECT_EQ(position(), 11);
    EXPECT_EQ(::lseek(file, 3, SEEK_SET), 3);
    char buffer[32] = {};
    EXPECT_EQ(fiber_read(file, buffer, 4), 4);
    EXPECT_STREQ(buffer, "lo w");
    EXPECT_EQ(position(), 7);
    EXPECT_EQ(fiber_read(file, buffer, sizeof buffer), 4);
    EXPECT_EQ(std::string(buffer, 4), "orld");
    EXPECT_EQ(fiber_read(file, buffer, sizeof buffer), 0);
    EXPECT_EQ(position(), 11);
}

// Transfers that the kernel cuts short, after which io_uring leaves the position where it was. Memory with only the
// first two of four pages accessible causes them.
class ShortTransferTest : public FileTest {
protected:
    static constexpr size_t page = 4096, reached = 2 * page, asked = 4 * page;

    void SetUp() override {
        NOT_UNDER_QEMU("refuses transfers if it cannot reach all their memory");
        FileTest::SetUp();
        void *mapped = ::mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(mapped, MAP_FAILED);
        memory = static_cast<char *>(mapped);
        std::memset(memory, 'm', reached);
        ASSERT_EQ(::mprotect(memory + reached, asked - reached, PROT_NONE), 0);
        parts[0] = {memory, page};
        parts[1] = {memory + reached, page};
    }
    void TearDown() override {
        if (memory) {
            EXPECT_EQ(::munmap(memory, asked), 0);
        }
    }

    char *memory = nullptr;
    iovec parts[2] = {};
};

TEST_F(ShortTransferTest, ReadsMoveThePosition) {
    ASSERT_EQ(::ftruncate(file, 10 * page), 0);
    EXPECT_EQ(fiber_read(file, memory, asked), int64_t{reached});
    EXPECT_EQ(position(), off_t{reached});
    EXPECT_EQ(fiber_readv(file, parts, 2), int64_t{page});
    EXPECT_EQ(position(), off_t{3 * page});
    EXPECT_EQ(fiber_read(file, memory, asked), int64_t{reached});
    EXPECT_EQ(position(), off_t{5 * page});
    EXPECT_EQ(fiber_pread(file, memory, asked, 0), int64_t{reached});
    EXPECT_EQ(position(), off_t{5 * page});
}

TEST_F(ShortTransferTest, WritesMoveThePosition) {
    EXPECT_EQ(fiber_write(file, memory, asked), int64_t{reached});
    EXPECT_EQ(position(), off_t{reached});
    EXPECT_EQ(fiber_writev(file, parts, 2), int64_t{page});
    EXPECT_EQ(position(), off_t{3 * page});
    EXPECT_EQ(fiber_pwrite(file, memory, asked, page), int64_t{reached});
    EXPECT_EQ(position(), off_t{3 * page});
    EXPECT_EQ(contents(), std::string(3 * page, 'm'));
}

TEST_F(ShortTransferTest, AppendsMoveThePositionToTheEnd) {
    ASSERT_EQ(::ftruncate(file, 100), 0);
    Descriptor appended(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
    EXPECT_EQ(::lseek(appended, 7, SEEK_SET), 7);
    EXPECT_EQ(fiber_write(appended, memory, asked), int64_t{reached});
    EXPECT_EQ(::lseek(appended, 0, SEEK_CUR), off_t{100 + reached});
}

// No file of this process grows beyond so many bytes until the end of the scope. The limit applies to GoogleTest's
// output, too: so nothing is checked meanwhile.
class SizeLimit {
public:
    explicit SizeLimit(rlim_t bytes) {
        EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
        handler_ = ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit = {bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~SizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        ::signal(SIGXFSZ, handler_);
    }
    SizeLimit(const SizeLimit &) = delete;
    SizeLimit &operator=(const SizeLimit &) = delete;

private:
    rlimit before_ = {};
    sighandler_t handler_ = SIG_DFL;
};

// Every "write all" loop relies on this.
TEST_F(ShortTransferTest, WritesUpToALimitOfSizeAndThenFail) {
    const std::string text = pattern(200);
    int64_t reached_limit, beyond;
    off_t after_reaching, after_failing;
    {
        SizeLimit limit(100);
        reached_limit = fiber_write(file, text.data(), 200);
        after_reaching = position();
        beyond = fiber_write(file, text.data() + 100, 100);
        after_failing = position();
    }
    EXPECT_EQ(reached_limit, 100);
    EXPECT_EQ(after_reaching, 100);
    EXPECT_EQ(beyond, -EFBIG);
    EXPECT_EQ(after_failing, 100);
    EXPECT_EQ(contents(), text.substr(0, 100));
}

// POSIX: readers at one position divide the bytes between them. Cold pages make io_uring's reads wait after they have
// read the position.
TEST_F(FileTest, TRAP_FibersThatShareAPositionReadEachByteOnce) {
    constexpr size_t page = 4096;
    const size_t pages = often(200, 10);
    std::string text(page * pages, '\0');
    for (size_t i = 0; i < pages; i++) std::memset(&text[i * page], static_cast<int>(i), page);
    ASSERT_EQ(plain_write(file, text), static_cast<int64_t>(text.size()));
    make_cold(file);
    ASSERT_EQ(::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM), 0);
    ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);
    Descriptor copy(::dup(file));
    std::vector<int> times(pages);
    auto reader_of = [&](int fd) {
        return [&times, fd] {
            unsigned char buffer[page];
            while (fiber_read(fd, buffer, page) == int64_t{page}) times[buffer[0]]++;
        };
    };
    auto reader = reader_of(file), reader_of_copy = reader_of(copy);
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 3; i++) fibers.push_back(spawn(reader)), fibers.push_back(spawn(reader_of_copy));
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(times, std::vector<int>(pages, 1));
    EXPECT_EQ(position(), static_cast<off_t>(text.size()));
}

// Past the page cache: io_uring itself does not move the position then.
TEST_F(FileTest, TransfersPastTheCacheMoveThePosition) {
    constexpr size_t page = 4096;
    for (bool append : {false, true}) {
        const int flags = O_RDWR | O_CLOEXEC | O_TRUNC | (append ? O_APPEND : 0);
        int opened = ::open(path.c_str(), flags | O_DIRECT);
        if (opened < 0) opened = ::open(path.c_str(), flags); // a file system that consists only of the cache
        Descriptor direct(opened);
        ASSERT_GE(direct, 0);
        auto position_of = [&] { return ::lseek(direct, 0, SEEK_CUR); };
        alignas(page) char buffer[2 * page];
        const iovec parts[] = {{buffer, page}, {buffer + page, page}};
        std::memset(buffer, 'a', page);
        std::memset(buffer + page, 'b', page);
        EXPECT_EQ(fiber_write(direct, buffer, page), int64_t{page});
        EXPECT_EQ(position_of(), off_t{page});
        EXPECT_EQ(fiber_writev(direct, parts, 2), int64_t{2 * page});
        EXPECT_EQ(position_of(), off_t{3 * page});
        EXPECT_TRUE(contents() == std::string(2 * page, 'a') + std::string(page, 'b'));

        EXPECT_EQ(::lseek(direct, 0, SEEK_SET), 0);
        EXPECT_EQ(fiber_readv(direct, parts, 2), int64_t{2 * page});
        EXPECT_EQ(position_of(), off_t{2 * page});
        EXPECT_EQ(fiber_read(direct, buffer, page), int64_t{page});
        EXPECT_EQ(position_of(), off_t{3 * page});
        EXPECT_TRUE(std::string(buffer, page) == std::string(page, 'b'));
        EXPECT_EQ(fiber_read(direct, buffer, page), 0);
        EXPECT_EQ(position_of(), off_t{3 * page});

        EXPECT_EQ(::lseek(direct, 0, SEEK_SET), 0);
        EXPECT_EQ(fiber_write(direct, buffer, page), int64_t{page});
        EXPECT_EQ(fiber_write(direct, buffer, page), int64_t{page});
        EXPECT_EQ(position_of(), static_cast<off_t>((append ? 5 : 2) * page));
    }
}

// A fiber that waits for a turn at the position can be cancelled, and its descriptor closed: the turn then passes to the
// next fiber.
TEST_F(FileTest, ATurnAtThePositionThatIsGivenUpPassesOn) {
    constexpr size_t page = 4096, pages = 64;
    ASSERT_EQ(plain_write(file, std::string(page * pages, 'p')), int64_t{page * pages});
    bypass_cache_on_a_ring(file);
    int waited = 0; // rounds; in others the file was in memory in spite of all, which may last for a while
    const int64_t end = fiber_now() + FIBER_SEC(15);
    for (int round = 0; round < often(50, 1) || (!waited && fiber_now() < end); round++) {
        make_cold(file);
        ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);
        Descriptor copy(::dup(file));
        int64_t got = 0;
        auto read_by = [&](int fd) {
            alignas(page) char buffer[page];
            const int64_t result = fiber_read(fd, buffer, page);
            if (result > 0) got += result;
            return pointer(result);
        };
        auto reader = [&] { return read_by(file); };
        auto reader_of_copy = [&] { return read_by(copy); };
        after_a_look();
        fiber_t first = start(reader), cancelled = start(reader), closed = start(reader_of_copy), last = start(reader);
        const bool both_wait = fiber_state(cancelled) == FIBER_WAITING && fiber_state(closed) == FIBER_WAITING;
        EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
        EXPECT_EQ(fiber_close(copy), 0);
        copy.release();
        EXPECT_EQ(join(first), pointer(page));
        const void *of_cancelled = join(cancelled), *of_closed = join(closed);
        if (both_wait) {
            EXPECT_EQ(of_cancelled, pointer(-ECANCELED));
            EXPECT_EQ(of_closed, pointer(-EBADF));
        }
        waited += both_wait;
        EXPECT_EQ(join(last), pointer(page));
        EXPECT_EQ(position(), static_cast<off_t>(got));
    }
    EXPECT_GT(waited, 0);
}

// Turns at positions stand in lists by inode, several files in each: a turn passes to one of the same file. (On the real
// backends that needs a file that is not in memory, so it is tried again and again.)
TEST_F(FileTest, APositionLockPassesToTheSameFile) {
    constexpr size_t page = 4096;
    std::vector<Descriptor> files; // of two, at least, the inodes are the same in their last bits
    for (int i = 0; i < 65; i++) {
        const std::string name = folder.path(std::to_string(i));
        files.emplace_back(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        ASSERT_GE(static_cast<int>(files.back()), 0);
        ASSERT_EQ(plain_write(files.back(), std::string(8 * page, 'p')), int64_t{8 * page});
        bypass_cache_on_a_ring(files.back());
    }
    const auto inode_of = [](int fd) {
        struct stat status {};
        EXPECT_EQ(::fstat(fd, &status), 0);
        return status.st_ino;
    };
    int one = -1, other = -1;
    for (size_t i = 1; i < files.size() && other < 0; i++) {
        for (size_t before = 0; before < i && other < 0; before++) {
            if (inode_of(files[before]) % 64 == inode_of(files[i]) % 64) one = files[before], other = files[i];
        }
    }
    ASSERT_GE(other, 0);
    int both_waited = 0;
    const int64_t end = fiber_now() + FIBER_SEC(15);
    for (int round = 0; round < often(50, 1) || (!both_waited && fiber_now() < end); round++) {
        for (int fd : {one, other}) {
            make_cold(fd);
            ASSERT_EQ(::lseek(fd, 0, SEEK_SET), 0);
        }
        bool both = false; // files have a second reader, which waits for its turn
        fiber_t second[2] = {};
        auto read_by = [&](int fd, const fiber_t *next) {
            alignas(page) char buffer[page];
            EXPECT_EQ(fiber_read(fd, buffer, page), int64_t{page});
            if (both && next) {
                EXPECT_EQ(fiber_state(*next), FIBER_RUNNABLE);
            }
        };
        auto first_of_one = [&] { read_by(one, &second[0]); };
        auto first_of_other = [&] { read_by(other, &second[1]); };
        auto second_of_one = [&] { read_by(one, nullptr); };
        auto second_of_other = [&] { read_by(other, nullptr); };
        after_a_look();
        const fiber_t first[] = {start(first_of_one), start(first_of_other)};
        second[0] = start(second_of_one);
        second[1] = start(second_of_other);
        both = true;
        for (fiber_t fiber : {first[0], first[1], second[0], second[1]}) both &= fiber_state(fiber) == FIBER_WAITING;
        both_waited += both;
        for (fiber_t fiber : {first[0], first[1], second[0], second[1]})
            ASSERT_EQ(fiber_join_timeout(fiber, nullptr, FIBER_SEC(60)), 0);
    }
    EXPECT_GT(both_waited, 0);
}

// lseek returns a position where there is none; a waiting reader must not block the writer that it waits for.
TEST_F(FileTest, AReaderAndAWriterOfACounterDoNotTakeTurns) {
    Descriptor counter(::eventfd(0, EFD_CLOEXEC));
    uint64_t value = 0, one = 1;
    auto body = [&] { EXPECT_EQ(fiber_read(counter, &value, sizeof value), int64_t{sizeof value}); };
    fiber_t reader = start(body);
    settle();
    EXPECT_EQ(fiber_write(counter, &one, sizeof one), int64_t{sizeof one});
    join(reader);
    EXPECT_EQ(value, 1u);
}

TEST_F(FileTest, OffsetsLeaveThePosition) {
    EXPECT_EQ(fiber_write(file, "0123456789", 10), 10);
    EXPECT_EQ(::lseek(file, 4, SEEK_SET), 4);
    char buffer[4] = {};
    EXPECT_EQ(fiber_pread(file, buffer, 3, 0), 3);
    EXPECT_STREQ(buffer, "012");
    EXPECT_EQ(position(), 4);
    EXPECT_EQ(fiber_pwrite(file, "AB", 2, 8), 2);
    EXPECT_EQ(position(), 4);
    EXPECT_EQ(contents(), "01234567AB");
}

TEST_F(FileTest, OffsetsBelowZeroAreRefusedAndMinusOneIsNotThePosition) {
    EXPECT_EQ(fiber_write(file, "text", 4), 4);
    EXPECT_EQ(::lseek(file, 0, SEEK_SET), 0);
    char byte = 'x';
    EXPECT_EQ(fiber_pread(file, &byte, 1, -1), -EINVAL);
    EXPECT_EQ(fiber_pwrite(file, &byte, 1, -1), -EINVAL);
    EXPECT_EQ(fiber_pread(file, &byte, 1, INT64_MIN), -EINVAL);
    EXPECT_EQ(fiber_pwrite(file, &byte, 1, INT64_MIN), -EINVAL);
    EXPECT_EQ(position(), 0);
    EXPECT_EQ(contents(), "text");
}

TEST_F(FileTest, PastTheEndThereIsNothingToReadAndAHoleToWrite) {
    EXPECT_EQ(fiber_write(file, "end", 3), 3);
    char buffer[16];
    EXPECT_EQ(fiber_pread(file, buffer, sizeof buffer, 3), 0);
    EXPECT_EQ(fiber_pread(file, buffer, sizeof buffer, 1000), 0);
    EXPECT_EQ(fiber_pread(file, buffer, sizeof buffer, INT64_MAX - 16), 0);
    EXPECT_EQ(fiber_pread(file, buffer, sizeof buffer, 1), 2);
    EXPECT_EQ(fiber_pwrite(file, "x", 1, 6), 1);
    EXPECT_EQ(contents(), std::string("end\0\0\0x", 7));
}

TEST_F(FileTest, OffsetsBeyondFourGibibytes) {
    const int64_t far = (int64_t(5) << 30) + 7;
    EXPECT_EQ(fiber_pwrite(file, "far", 3, far), 3);
    char buffer[8] = {};
    EXPECT_EQ(fiber_pread(file, buffer, sizeof buffer, far), 3);
    EXPECT_STREQ(buffer, "far");
    EXPECT_EQ(fiber_pread(file, buffer, 1, far - 1), 1);
    EXPECT_EQ(buffer[0], 0);
}

TEST_F(FileTest, AppendingGoesToTheEnd) {
    EXPECT_EQ(fiber_write(file, "first", 5), 5);
    Descriptor end(fiber_open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC, 0));
    ASSERT_GE(end, 0);
    EXPECT_EQ(fiber_write(end, "second", 6), 6);
    EXPECT_EQ(fiber_pwrite(file, "F", 1, 0), 1);
    char third[] = "third";
    iovec part = {third, 5};
    EXPECT_EQ(fiber_writev(end, &part, 1), 5);
    EXPECT_EQ(contents(), "Firstsecondthird");
}

TEST_F(FileTest, ZeroBytes) {
    EXPECT_EQ(fiber_write(file, "text", 4), 4);
    EXPECT_EQ(::lseek(file, 1, SEEK_SET), 1);
    EXPECT_EQ(fiber_read(file, nullptr, 0), 0);
    EXPECT_EQ(fiber_write(file, nullptr, 0), 0);
    EXPECT_EQ(fiber_pread(file, nullptr, 0, 2), 0);
    EXPECT_EQ(fiber_pwrite(file, nullptr, 0, 2), 0);
    EXPECT_EQ(fiber_readv(file, nullptr, 0), 0);
    EXPECT_EQ(fiber_writev(file, nullptr, 0), 0);
    EXPECT_EQ(position(), 1);
    EXPECT_EQ(contents(), "text");
}

TEST_F(FileTest, SeveralBuffersAreOneTotal) {
    std::vector<std::string> texts;
    std::vector<iovec> out;
    std::string whole;
    for (int i = 0; i < 1024; ++i)
        texts.push_back(std::string(static_cast<size_t>(i % 7), static_cast<char>('a' + i % 26)));
    for (std::string &text : texts) {
        out.push_back({text.data(), text.size()});
        whole += text;
    }
    EXPECT_EQ(fiber_writev(file, out.data(), 1024), static_cast<int64_t>(whole.size()));
    EXPECT_TRUE(contents() == whole);
    EXPECT_EQ(position(), static_cast<off_t>(whole.size()));
    EXPECT_EQ(::lseek(file, 0, SEEK_SET), 0);
    std::string first(1000, '\0'), second(10, '\0'), third(whole.size(), '\0');
    iovec in[3] = {{first.data(), first.size()}, {second.data(), second.size()}, {third.data(), third.size()}};
    EXPECT_EQ(fiber_readv(file, in, 3), static_cast<int64_t>(whole.size()));
    EXPECT_TRUE(first + second + third.substr(0, whole.size() - 1010) == whole);
    EXPECT_EQ(fiber_readv(file, in, 3), 0);
}

TEST_F(FileTest, ManyFibersReadOneFileAtOffsetsOfTheirOwn) {
    const size_t size = often(16384, 512);
    const std::string text = pattern(64 * size);
    ASSERT_EQ(fiber_write(file, text.data(), text.size()), static_cast<int64_t>(text.size()));
    size_t next = 0;
    int right = 0;
    auto body = [&] {
        const size_t at = next++ * size;
        std::string part(size, '\0');
        EXPECT_EQ(fiber_pread(file, part.data(), part.size(), static_cast<int64_t>(at)), static_cast<int64_t>(size));
        right += text.compare(at, part.size(), part) == 0;
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 64; ++i) fibers.push_back(spawn(body));
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(right, 64);
}

TEST_F(FileTest, SyncReturnsZero) {
    EXPECT_EQ(fiber_write(file, "stable", 6), 6);
    EXPECT_EQ(fiber_fsync(file), 0);
    EXPECT_EQ(fiber_fdatasync(file), 0);
    Pipe pipe;
    EXPECT_EQ(fiber_fsync(pipe.read_end), -EINVAL);
    EXPECT_EQ(fiber_fdatasync(pipe.read_end), -EINVAL);
}

TEST_F(FileTest, StatxAgreesWithStat) {
    EXPECT_EQ(fiber_write(file, "12345", 5), 5);
    struct stat plain = {};
    ASSERT_EQ(::stat(path.c_str(), &plain), 0);
    struct statx about;
    memset(&about, 0xff, sizeof about);
    EXPECT_EQ(fiber_statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS, &about), 0);
    EXPECT_EQ(about.stx_mask & STATX_BASIC_STATS, static_cast<unsigned>(STATX_BASIC_STATS));
    EXPECT_EQ(about.stx_size, 5u);
    EXPECT_EQ(about.stx_mode, plain.st_mode);
    EXPECT_EQ(about.stx_ino, plain.st_ino);
    EXPECT_EQ(about.stx_nlink, 1u);
    // By descriptor, and relative to a folder's descriptor.
    memset(&about, 0xff, sizeof about);
    EXPECT_EQ(fiber_statx(file, "", AT_EMPTY_PATH, STATX_SIZE, &about), 0);
    EXPECT_EQ(about.stx_size, 5u);
    Descriptor here(fiber_open(folder.name().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
    ASSERT_GE(here, 0);
    memset(&about, 0xff, sizeof about);
    EXPECT_EQ(fiber_statx(here, "file", AT_SYMLINK_NOFOLLOW, STATX_SIZE, &about), 0);
    EXPECT_EQ(about.stx_size, 5u);
}

TEST_F(FileTest, StatxErrors) {
    struct statx about;
    EXPECT_EQ(fiber_statx(AT_FDCWD, folder.path("missing").c_str(), 0, STATX_SIZE, &about), -ENOENT);
    EXPECT_EQ(fiber_statx(AT_FDCWD, (path + "/below").c_str(), 0, STATX_SIZE, &about), -ENOTDIR);
    EXPECT_EQ(fiber_statx(AT_FDCWD, "", 0, STATX_SIZE, &about), -ENOENT);
    EXPECT_EQ(fiber_statx(-1, "relative", 0, STATX_SIZE, &about), -EBADF);
    EXPECT_EQ(fiber_statx(file, "relative", 0, STATX_SIZE, &about), -ENOTDIR);
    EXPECT_EQ(fiber_statx(AT_FDCWD, path.c_str(), 0x40000000, STATX_SIZE, &about), -EINVAL);
    EXPECT_EQ(fiber_statx(AT_FDCWD, nullptr, 0, STATX_SIZE, &about), -EINVAL);
    EXPECT_EQ(fiber_statx(AT_FDCWD, path.c_str(), 0, STATX_SIZE, nullptr), -EINVAL);
}

TEST_F(FileTest, OpenErrors) {
    EXPECT_EQ(fiber_open(folder.path("missing").c_str(), O_RDONLY, 0), -ENOENT);
    EXPECT_EQ(fiber_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), -EEXIST);
    EXPECT_EQ(fiber_open((path + "/below").c_str(), O_RDONLY, 0), -ENOTDIR);
    EXPECT_EQ(fiber_open(path.c_str(), O_RDONLY | O_DIRECTORY, 0), -ENOTDIR);
    EXPECT_EQ(fiber_open(folder.name().c_str(), O_WRONLY, 0), -EISDIR);
    EXPECT_EQ(fiber_open(std::string(PATH_MAX + 10, 'a').c_str(), O_RDONLY, 0), -ENAMETOOLONG);
    EXPECT_EQ(fiber_open(nullptr, O_RDONLY, 0), -EINVAL);
    const std::string link = folder.path("link");
    ASSERT_EQ(::symlink("file", link.c_str()), 0);
    EXPECT_EQ(fiber_open(link.c_str(), O_RDONLY | O_NOFOLLOW, 0), -ELOOP);
    Descriptor followed(fiber_open(link.c_str(), O_RDONLY, 0));
    EXPECT_GE(followed, 0);
}

TEST_F(FileTest, OpenTakesModeAndFlags) {
    const mode_t before = ::umask(027);
    Descriptor made(fiber_open(folder.path("made").c_str(), O_WRONLY | O_CREAT, 0666));
    ::umask(before);
    ASSERT_GE(made, 0);
    struct stat about = {};
    ASSERT_EQ(::fstat(made, &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0640u);
    // As in POSIX, O_CLOEXEC is the caller's to ask for.
    EXPECT_EQ(fcntl(made, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(fcntl(file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(status_flags(made) & O_ACCMODE, O_WRONLY);
    EXPECT_EQ(fiber_write(made, "long", 4), 4);
    Descriptor cut(fiber_open((folder.name() + "/made").c_str(), O_RDWR | O_TRUNC | O_CLOEXEC, 0));
    ASSERT_GE(cut, 0);
    ASSERT_EQ(::fstat(cut, &about), 0);
    EXPECT_EQ(about.st_size, 0);
}

TEST_F(FileTest, OpenOfAFileWithoutName) {
    Descriptor nameless(fiber_open(folder.name().c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
    if (nameless == -EOPNOTSUPP || nameless == -EISDIR) GTEST_SKIP() << "the file system has no O_TMPFILE";
    ASSERT_GE(nameless, 0);
    EXPECT_EQ(fiber_write(nameless, "n", 1), 1);
    char byte = 0;
    EXPECT_EQ(fiber_pread(nameless, &byte, 1, 0), 1);
    EXPECT_EQ(byte, 'n');
    struct stat about = {};
    ASSERT_EQ(::fstat(nameless, &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0600u);
}

TEST_F(FileTest, TheWrongDirectionAndTheWrongKind) {
    Descriptor out(fiber_open(path.c_str(), O_WRONLY | O_CLOEXEC, 0));
    Descriptor in(fiber_open(path.c_str(), O_RDONLY | O_CLOEXEC, 0));
    Descriptor here(fiber_open(folder.name().c_str(), O_RDONLY | O_CLOEXEC, 0));
    char byte = 'x';
    EXPECT_EQ(fiber_read(out, &byte, 1), -EBADF);
    EXPECT_EQ(fiber_pread(out, &byte, 1, 0), -EBADF);
    EXPECT_EQ(fiber_write(in, &byte, 1), -EBADF);
    EXPECT_EQ(fiber_pwrite(in, &byte, 1, 0), -EBADF);
    EXPECT_EQ(fiber_read(here, &byte, 1), -EISDIR);
    EXPECT_EQ(fiber_recv(file, &byte, 1, 0), -ENOTSOCK);
    EXPECT_EQ(fiber_send(file, &byte, 1, 0), -ENOTSOCK);
    EXPECT_EQ(fiber_accept(file, nullptr, nullptr), -ENOTSOCK);
    sockaddr_in address = {};
    EXPECT_EQ(fiber_connect(file, reinterpret_cast<sockaddr *>(&address), sizeof address), -ENOTSOCK);
}

TEST_F(FileTest, OpenWithNonblockBehavesTheSame) {
    Descriptor other(fiber_open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC, 0));
    ASSERT_GE(other, 0);
    const std::string text = pattern(100000);
    EXPECT_EQ(fiber_write(other, text.data(), text.size()), 100000);
    std::string back(200000, '\0');
    EXPECT_EQ(fiber_pread(other, back.data(), back.size(), 0), 100000);
    EXPECT_EQ(status_flags(other) & O_NONBLOCK, O_NONBLOCK);
}

TEST_F(FileTest, DevicesAndProc) {
    char buffer[64];
    memset(buffer, 'x', sizeof buffer);
    Descriptor zero(fiber_open("/dev/zero", O_RDONLY | O_CLOEXEC, 0));
    EXPECT_EQ(fiber_read(zero, buffer, sizeof buffer), 64);
    EXPECT_EQ(buffer[63], 0);
    Descriptor null(fiber_open("/dev/null", O_RDWR | O_CLOEXEC, 0));
    EXPECT_EQ(fiber_read(null, buffer, sizeof buffer), 0);
    EXPECT_EQ(fiber_write(null, buffer, sizeof buffer), 64);
    Descriptor full(fiber_open("/dev/full", O_WRONLY | O_CLOEXEC, 0));
    EXPECT_EQ(fiber_write(full, buffer, sizeof buffer), -ENOSPC);
    Descriptor proc(fiber_open("/proc/self/comm", O_RDONLY | O_CLOEXEC, 0));
    EXPECT_GT(fiber_read(proc, buffer, sizeof buffer), 0);
    EXPECT_EQ(fiber_read(proc, buffer, sizeof buffer), 0);
}

TEST_F(FileTest, PartsOfAFileThatEndsInTheMiddleOfABuffer) {
    EXPECT_EQ(fiber_write(file, "0123456789", 10), 10);
    char first[8] = {}, second[8] = {};
    iovec in[2] = {{first, 8}, {second, 8}};
    EXPECT_EQ(::lseek(file, 0, SEEK_SET), 0);
    EXPECT_EQ(fiber_readv(file, in, 2), 10);
    EXPECT_EQ(std::string(first, 8) + second, "0123456789");
}

// An open that waits for the other side of a FIFO.
struct FifoOpener {
    std::string path;
    int flags;
    int result = 1;
    void operator()() {
        result = fiber_open(path.c_str(), flags | O_CLOEXEC, 0);
        EXPECT_NE(result, -EMFILE); // at once, as the other side may wait for ever
    }
};

int lowest_free_number() {
    const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(number);
    return number;
}

bool is_held(const std::string &path) { // by a descriptor of this process
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code error; // the descriptor may be closed by now
        if (std::filesystem::read_symlink(entry.path(), error) == path) return true;
    }
    return false;
}

// Whether a number of this process is taken and has no file yet: the kernel waits in an open.
bool is_reserved() {
    for (int number = 0; number < 256; number++) {
        const auto is_open = [&] { return ::fcntl(number, F_GETFD) >= 0; };
        if (is_open()) continue;
        const int free_one = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, number); // it or the next that is free
        if (free_one >= 0) ::close(free_one);
        if (free_one != number && !is_open()) return true;
    }
    return false;
}

// Lets an open of a FIFO come to its wait, in which it has a descriptor, or at least its number. The kernel waits in an
// operation, the library in none.
void await_wait(const std::string &path) {
    EXPECT_TRUE(eventually([&] { return is_reserved() || is_held(path); }));
    const bool in_kernel = fiber_backend_name() == std::string("uring");
    const int64_t enough = fiber_now() + (in_kernel ? FIBER_MSEC(50) : FIBER_SEC(10));
    while (stats().ops_in_flight && fiber_now() < enough) settle();
    settle();
}

constexpr int both_sides[] = {O_RDONLY, O_WRONLY};

// Opening a FIFO waits for its other side: the fiber must wait, not the thread.
void open_both_sides(FifoOpener opener) {
    ASSERT_EQ(::mkfifo(opener.path.c_str(), 0600), 0);
    fiber_t fiber = start(opener);
    settle();
    EXPECT_EQ(opener.result, 1) << "it did not wait for the other side";
    const int other = fiber_open(opener.path.c_str(), (opener.flags ^ O_WRONLY) | O_CLOEXEC, 0);
    ASSERT_GE(other, 0); // else the first one waits on
    join(fiber);
    const bool reads = opener.flags == O_RDONLY;
    Descriptor reader(reads ? opener.result : other), writer(reads ? other : opener.result);
    ASSERT_GE(reader, 0);
    ASSERT_GE(writer, 0);
    EXPECT_EQ(status_flags(reader) & O_NONBLOCK, 0);
    EXPECT_EQ(status_flags(writer) & O_NONBLOCK, 0);
    EXPECT_EQ(fiber_write(writer, "f", 1), 1);
    char byte = 0;
    EXPECT_EQ(fiber_read(reader, &byte, 1), 1);
    EXPECT_EQ(byte, 'f');
    writer.close();
    EXPECT_EQ(fiber_read(reader, &byte, 1), 0);
}

TEST_F(FileTest, OpeningAFifoParksTheFiber) {
    NOT_ON_SIM("has no FIFOs");
    open_both_sides({folder.path("fifo"), O_RDONLY});
}

TEST_F(FileTest, OpeningAFifoForWritingParksTheFiberToo) {
    NOT_ON_SIM("has no FIFOs");
    open_both_sides({folder.path("fifo"), O_WRONLY});
}

TEST_F(FileTest, ADeadlineEndsTheOpeningOfAFifo) {
    NOT_ON_SIM("has no FIFOs");
    const std::string fifo = folder.path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    int result = 1, verdict = 0;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(20), &verdict) { result = fiber_open(fifo.c_str(), O_RDONLY | O_CLOEXEC, 0); }
    EXPECT_EQ(result, -ETIMEDOUT);
    EXPECT_EQ(verdict, -ETIMEDOUT);
    // Nothing has stayed open behind the caller's back: a writer that does not wait finds no reader.
    EXPECT_EQ(fiber_open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0), -ENXIO);
}

// To end it early takes no descriptor.
// Without O_CREAT that flag says nothing.
TEST_F(FileTest, OpeningsOfFifosThatEndLeaveNoDescriptors) {
    NOT_ON_SIM("has no FIFOs");
    const std::string fifo = folder.path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    int before = 0;
    for (int i = 0; i < 4; i++) {
        for (const int flags : {O_RDONLY, O_WRONLY}) {
            int opened = 1;
            FIBER_WITH_TIMEOUT(FIBER_MSEC(2), nullptr) { opened = fiber_open(fifo.c_str(), flags | O_CLOEXEC, 0); }
            EXPECT_EQ(opened, -ETIMEDOUT);
        }
        if (i == 0) before = entry_count("/proc/self/fd"); // the backend's own are open by now
    }
    EXPECT_EQ(entry_count("/proc/self/fd"), before);
}

TEST_F(FileTest, ADeadlineEndsTheExclusiveOpeningOfAFifo) {
    NOT_ON_SIM("has no FIFOs");
    const std::string fifo = folder.path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    int opened = 1;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(5), nullptr) { opened = fiber_open(fifo.c_str(), O_RDONLY | O_EXCL, 0); }
    EXPECT_EQ(opened, -ETIMEDOUT);
}

// The kernel's check for that flag (fs.protected_fifos) lets it pass here; the FIFO is opened, not replaced.
TEST_F(FileTest, AFifoMayBeOpenedWithTheFlagThatCreatesFiles) {
    NOT_ON_SIM("has no FIFOs");
    const std::string fifo = folder.path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    FifoOpener writer{fifo, O_WRONLY | O_CREAT}, reader{fifo, O_RDONLY | O_CREAT};
    const fiber_t writes = start(writer);
    settle();
    EXPECT_EQ(writer.result, 1);
    const fiber_t reads = start(reader);
    join(writes);
    join(reads);
    const Descriptor in(reader.result), out(writer.result);
    EXPECT_EQ(plain_write(out, "x"), 1);
    EXPECT_EQ(drain(in, 1), "x");
}

TEST_F(FileTest, TRAP_AnOpenOfAFifoIsCancelledWhenNoDescriptorIsLeft) {
    NOT_ON_SIM("has no FIFOs");
    for (int flags : both_sides) {
        FifoOpener opener{folder.path("fifo" + std::to_string(flags)), flags};
        ASSERT_EQ(::mkfifo(opener.path.c_str(), 0600), 0);
        fiber_t fiber = start(opener);
        await_wait(opener.path);
        rlimit before = {};
        ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
        const rlimit none = {rlim_t(lowest_free_number()), before.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
        EXPECT_EQ(::dup(0), -1);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
        EXPECT_EQ(opener.result, 1);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        const int joined = fiber_join_timeout(fiber, nullptr, FIBER_SEC(60));
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        EXPECT_EQ(joined, 0) << "the cancelled open waits on";
        if (joined != 0) { // lets it go
            Descriptor other(::open(opener.path.c_str(), O_RDWR | O_CLOEXEC));
            join(fiber);
        }
        EXPECT_EQ(opener.result, -ECANCELED);
    }
}

// Nor permission for the other side.
TEST_F(FileTest, TRAP_AnOpenOfAFifoIsCancelledThatMayBeOpenedOneWayOnly) {
    NEEDS_THREADS();
    ASSERT_EQ(::chmod(folder.name().c_str(), 0755), 0);
    for (int flags : both_sides) {
        FifoOpener opener{folder.path("fifo" + std::to_string(flags)), flags};
        ASSERT_EQ(::mkfifo(opener.path.c_str(), 0600), 0);
        ASSERT_EQ(::chmod(opener.path.c_str(), flags == O_RDONLY ? 0400 : 0200), 0);
        const bool root = ::geteuid() == 0;
        if (root) {
            ASSERT_EQ(::chown(opener.path.c_str(), 65534, 65534), 0);
        }
        int joined = 0, wrong = 0;
        in_thread([&] {
            // This thread alone gives up its rights; glibc's setuid would do so for all.
            if (root && ::syscall(SYS_setresuid, 65534, 65534, 65534) != 0) return;
            wrong = ::open(opener.path.c_str(), (flags ^ O_WRONLY) | O_NONBLOCK | O_CLOEXEC) < 0 ? errno : 0;
            EXPECT_EQ(fiber_open("/no/such/file", O_RDONLY | O_CLOEXEC, 0), -ENOENT); // opens the backend
            fiber_t fiber = start(opener);
            await_wait(opener.path);
            EXPECT_EQ(opener.result, 1);
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
            joined = fiber_join_timeout(fiber, nullptr, FIBER_SEC(60));
            if (joined != 0) { // lets it go
                EXPECT_EQ(::chmod(opener.path.c_str(), 0600), 0);
                Descriptor other(::open(opener.path.c_str(), O_RDWR | O_CLOEXEC));
                join(fiber);
            }
        });
        if (root) {
            EXPECT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);
        } // which the kernel has taken back
        EXPECT_EQ(wrong, EACCES);
        EXPECT_EQ(joined, 0) << "the cancelled open waits on";
        EXPECT_EQ(opener.result, -ECANCELED);
    }
}

// An opener that waits for the same side of the FIFO is not released by another opener's end.
TEST_F(FileTest, AnOpenOfAFifoThatEndsEarlyDisturbsNoOther) {
    NOT_ON_SIM("has no FIFOs");
    for (int flags : both_sides) {
        FifoOpener stays{folder.path("fifo" + std::to_string(flags)), flags};
        ASSERT_EQ(::mkfifo(stays.path.c_str(), 0600), 0);
        FifoOpener leaves{stays.path, flags};
        fiber_t one = start(stays), other = start(leaves);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(10)), 0);
        EXPECT_EQ(fiber_interrupt(other, nullptr), 0);
        join(other);
        EXPECT_EQ(leaves.result, -EINTR);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
        EXPECT_EQ(stays.result, 1);
        Descriptor peer(::open(stays.path.c_str(), O_RDWR | O_CLOEXEC));
        join(one);
        EXPECT_GE(stays.result, 0);
        ::close(stays.result);
    }
}

// A writer that has come and gone counts; the bytes that it wrote are there to read.
TEST_F(FileTest, AnOpenOfAFifoSeesAWriterThatDoesNotStay) {
    NOT_ON_SIM("has no FIFOs");
    for (const std::string text : {"", "left"}) {
        FifoOpener opener{folder.path("fifo" + text), O_RDONLY};
        ASSERT_EQ(::mkfifo(opener.path.c_str(), 0600), 0);
        fiber_t fiber = start(opener);
        Descriptor writer;
        ASSERT_TRUE(eventually([&] {
            writer = Descriptor(::open(opener.path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
            return writer >= 0;
        }));
        EXPECT_EQ(plain_write(writer, text), int64_t(text.size()));
        writer.close();
        join(fiber);
        Descriptor reader(opener.result);
        ASSERT_GE(reader, 0);
        char bytes[8];
        EXPECT_EQ(fiber_read(reader, bytes, sizeof bytes), int64_t(text.size()));
        EXPECT_EQ(fiber_read(reader, bytes, sizeof bytes), 0);
    }
}

// The opened file has the flags that were asked for, and the path is looked up once.
TEST_F(FileTest, AnOpenOfAFifoOpensTheFileThatHadTheName) {
    NOT_ON_SIM("has no FIFOs");
    for (int flags : both_sides) {
        const std::string path = folder.path("fifo" + std::to_string(flags)), elsewhere = folder.path("elsewhere");
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        int fd = -1;
        auto body = [&] {
            fd = fiber_open(path.c_str(), flags, 0);
            EXPECT_GE(fd, 0);
        };
        fiber_t fiber = start(body);
        await_wait(path);
        ASSERT_EQ(::rename(path.c_str(), elsewhere.c_str()), 0);
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        Descriptor peer(::open(elsewhere.c_str(), O_RDWR | O_CLOEXEC));
        Descriptor late; // for one that looks the name up only now
        const int joined = fiber_join_timeout(fiber, nullptr, FIBER_SEC(20));
        EXPECT_EQ(joined, 0);
        if (joined < 0) {
            late = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
            join(fiber);
        }
        Descriptor opened(fd);
        ASSERT_GE(opened, 0);
        struct stat of_it = {}, of_the_first = {};
        EXPECT_EQ(::fstat(opened, &of_it), 0);
        EXPECT_EQ(::fstat(peer, &of_the_first), 0);
        EXPECT_EQ(of_it.st_ino, of_the_first.st_ino);
        EXPECT_EQ(status_flags(opened) & (O_ACCMODE | O_NONBLOCK), flags);
        EXPECT_EQ(fcntl(opened, F_GETFD), 0);
        ::unlink(elsewhere.c_str());
    }
}

// The thread ends while its fiber waits: nothing stays open.
TEST_F(FileTest, AnOpenOfAFifoLeavesNothingBehindWithItsThread) {
    NEEDS_THREADS();
    for (int flags : both_sides) {
        FifoOpener opener{folder.path("fifo" + std::to_string(flags)), flags};
        ASSERT_EQ(::mkfifo(opener.path.c_str(), 0600), 0);
        const int before = lowest_free_number();
        in_thread([&] {
            EXPECT_EQ(fiber_open("/no/such/file", O_RDONLY | O_CLOEXEC, 0), -ENOENT); // opens the backend
            (void)start(opener);
            await_wait(opener.path);
        });
        EXPECT_EQ(opener.result, 1);
        EXPECT_EQ(lowest_free_number(), before) << "a descriptor was left open";
        EXPECT_EQ(::open(opener.path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC), -1) << "a reader was left";
    }
}

// Both sides of many FIFOs: opens that block must not use up the threads that the other opens need.
TEST_F(FileTest, TRAP_ManyBlockedOpensDoNotKeepOthersFromOpening) {
    NOT_ON_SIM("has no FIFOs");
    constexpr int fifos = 40;
    std::vector<FifoOpener> openers; // first the readers
    for (int i = 0; i < fifos; i++) {
        openers.push_back({folder.path("fifo" + std::to_string(i)), O_RDONLY});
        ASSERT_EQ(::mkfifo(openers.back().path.c_str(), 0600), 0);
    }
    for (int i = 0; i < fifos; i++) openers.push_back({openers[size_t(i)].path, O_WRONLY});
    std::vector<fiber_t> fibers;
    for (int i = 0; i < fifos; i++) fibers.push_back(start(openers[size_t(i)]));
    settle();
    Descriptor plain(fiber_open("/dev/null", O_RDONLY | O_CLOEXEC, 0));
    EXPECT_GE(plain, 0);
    for (int i = fifos; i < 2 * fifos; i++) fibers.push_back(start(openers[size_t(i)]));
    for (fiber_t fiber : fibers) join(fiber);
    for (const FifoOpener &opener : openers) {
        EXPECT_GE(opener.result, 0);
        ::close(opener.result);
    }
}

// A signal that meets the kernel's worker interrupts no fiber.
TEST_F(FileTest, TRAP_AStoppedAndContinuedProcessInterruptsNoFiber) {
    NOT_ON_SIM("has no FIFOs");
    const std::string fifo = folder.path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    int opened = -1, told = -1, next = 0;
    void *value = nullptr;
    auto body = [&] {
        fiber_scope_t shield{};
        EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        opened = fiber_open(fifo.c_str(), O_RDONLY | O_CLOEXEC, 0);
        EXPECT_EQ(fiber_scope_close(shield, nullptr), 0);
        told = fiber_interrupted(&value);
        next = fiber_reschedule();
    };
    fiber_t fiber = start(body);
    settle();
    ASSERT_EQ(opened, -1); // else no opener waits for the other side
    EXPECT_EQ(fiber_interrupt(fiber, &value), 0);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        ::kill(parent, SIGSTOP);
        ::usleep(20000);
        ::kill(parent, SIGCONT);
        ::usleep(20000);
        ::_exit(::open(fifo.c_str(), O_WRONLY) < 0);
    }
    ASSERT_GT(child, 0);
    join(fiber);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_GE(opened, 0);
    ::close(opened);
    EXPECT_EQ(told, 0);
    EXPECT_EQ(next, -EINTR); // the interrupt that the shield held back
}

// The kernel looks a directory up late: it must not find another one under its number.
TEST_F(FileTest, TRAP_AStatxOfADirectoryThatIsClosedNeverMeetsAnother) {
    const std::string one = folder.path("one"), two = folder.path("two");
    ASSERT_EQ(::mkdir(one.c_str(), 0700), 0);
    ASSERT_EQ(::mkdir(two.c_str(), 0700), 0);
    Descriptor in_one(::open((one + "/f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    Descriptor in_two(::open((two + "/f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(plain_write(in_two, "22"), 2);
    for (int i = 0; i < often(500, 3); i++) {
        int directory = ::open(one.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct statx about;
        int result = 1;
        auto body = [&] { result = fiber_statx(directory, "f", 0, STATX_SIZE, &about); };
        fiber_t fiber = start(body);
        EXPECT_EQ(fiber_close(directory), 0);
        Descriptor other(::open(two.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        join(fiber);
        if (result == 0)
            EXPECT_EQ(about.stx_size, 0u);
        else
            EXPECT_EQ(result, -EBADF);
    }
    ::unlink((one + "/f").c_str());
    ::unlink((two + "/f").c_str());
    ::rmdir(one.c_str());
    ::rmdir(two.c_str());
}

} // namespace
