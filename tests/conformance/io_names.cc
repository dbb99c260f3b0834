// SPDX-License-Identifier: MIT OR Apache-2.0
// Names in the file system: openat2, rename, unlink, mkdir and their relatives, and the reading of directories.
#include "conformance.h"
#include "io_support.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <set>
#include <sys/resource.h>

using namespace support;

namespace {

#ifndef __GLIBC__
using dirent64 = dirent; // musl has one name for it
#endif

bool exists(const std::string &path) {
    struct stat about;
    return ::lstat(path.c_str(), &about) == 0;
}

class NameTest : public testing::Test {
protected:
    void SetUp() override {
        directory = Descriptor(::open(folder.name().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        ASSERT_GE(directory, 0);
    }
    void make(const std::string &path, const std::string &text = "") {
        Descriptor file(::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600));
        ASSERT_GE(file, 0);
        EXPECT_EQ(plain_write(file, text), static_cast<int64_t>(text.size()));
    }
    std::string text_of(const std::string &path) {
        Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        return drain(file);
    }
    // All names through one descriptor, from its position on.
    std::multiset<std::string> names_in(int fd, size_t room = 32768) {
        std::multiset<std::string> names;
        std::vector<uint64_t> buffer(room / 8);
        auto *bytes = reinterpret_cast<char *>(buffer.data());
        int64_t got;
        while ((got = fiber_getdents64(fd, bytes, room)) > 0) {
            for (char *at = bytes; at < bytes + got; at += reinterpret_cast<dirent64 *>(at)->d_reclen)
                names.insert(reinterpret_cast<dirent64 *>(at)->d_name);
        }
        EXPECT_EQ(got, 0);
        return names;
    }

    Folder folder;
    Descriptor directory;
};

TEST_F(NameTest, DirectoriesAreMadeAndRemoved) {
    const std::string path = folder.path("d");
    EXPECT_EQ(fiber_mkdir(path.c_str(), 0750), 0);
    struct stat about;
    ASSERT_EQ(::stat(path.c_str(), &about), 0);
    EXPECT_TRUE(S_ISDIR(about.st_mode));
    EXPECT_EQ(about.st_mode & 0777 & ~0750u, 0u);
    EXPECT_EQ(fiber_mkdir(path.c_str(), 0700), -EEXIST);
    EXPECT_EQ(fiber_unlink(path.c_str()), -EISDIR);
    EXPECT_EQ(fiber_mkdirat(directory, "d/below", 0700), 0);
    EXPECT_EQ(fiber_rmdir(path.c_str()), -ENOTEMPTY);
    EXPECT_EQ(fiber_unlinkat(directory, "d/below", AT_REMOVEDIR), 0);
    EXPECT_EQ(fiber_rmdir(path.c_str()), 0);
    EXPECT_FALSE(exists(path));
    EXPECT_EQ(fiber_rmdir(path.c_str()), -ENOENT);
    EXPECT_EQ(fiber_mkdir((path + "/no").c_str(), 0700), -ENOENT);
    EXPECT_EQ(fiber_unlinkat(directory, "d", 0x40000000), -EINVAL);
}

TEST_F(NameTest, FilesAreRemoved) {
    const std::string path = folder.path("f"), link = folder.path("link");
    make(path);
    ASSERT_EQ(::symlink("f", link.c_str()), 0);
    EXPECT_EQ(fiber_rmdir(path.c_str()), -ENOTDIR);
    EXPECT_EQ(fiber_unlink(link.c_str()), 0);
    EXPECT_TRUE(exists(path));
    EXPECT_EQ(fiber_unlinkat(directory, "f", 0), 0);
    EXPECT_FALSE(exists(path));
    EXPECT_EQ(fiber_unlink(path.c_str()), -ENOENT);
    EXPECT_EQ(fiber_unlink((path + "/below").c_str()), -ENOENT);
}

TEST_F(NameTest, RenamesReplaceUnlessTheyAreNotTo) {
    const std::string one = folder.path("one"), two = folder.path("two");
    make(one, "1");
    make(two, "2");
    EXPECT_EQ(fiber_renameat2(directory, "one", directory, "two", 1 /* RENAME_NOREPLACE */), -EEXIST);
    EXPECT_EQ(fiber_renameat2(directory, "one", AT_FDCWD, two.c_str(), 2 /* RENAME_EXCHANGE */), 0);
    EXPECT_EQ(text_of(one), "2");
    EXPECT_EQ(text_of(two), "1");
    EXPECT_EQ(fiber_rename(one.c_str(), two.c_str()), 0);
    EXPECT_FALSE(exists(one));
    EXPECT_EQ(text_of(two), "2");
    EXPECT_EQ(fiber_rename(one.c_str(), two.c_str()), -ENOENT);
    EXPECT_EQ(fiber_renameat2(directory, "two", directory, "two", 0x40000000), -EINVAL);
    EXPECT_EQ(fiber_renameat2(directory, "two", -1, "one", 0), -EBADF);
    EXPECT_EQ(fiber_renameat2(-1, "two", directory, "one", 0), -EBADF);
    EXPECT_EQ(text_of(two), "2");
}

// Linux has it since 5.6; few emulators have it.
#define NEEDS_OPENAT2()                                                             \
    do {                                                                            \
        open_how how = {};                                                          \
        how.flags = O_PATH | O_CLOEXEC;                                             \
        if (Descriptor(fiber_openat2(directory, ".", &how, sizeof how)) == -ENOSYS) \
            GTEST_SKIP() << "there is no openat2 here";                             \
    } while (0)

TEST_F(NameTest, Openat2FollowsItsFlags) {
    NEEDS_OPENAT2();
    make(folder.path("f"), "text");
    ASSERT_EQ(::symlink("f", folder.path("link").c_str()), 0);
    open_how how = {};
    how.flags = O_RDONLY | O_CLOEXEC;
    Descriptor file(fiber_openat2(directory, "f", &how, sizeof how));
    ASSERT_GE(file, 0);
    EXPECT_EQ(drain(file), "text");
    how.resolve = RESOLVE_NO_SYMLINKS;
    EXPECT_EQ(fiber_openat2(directory, "link", &how, sizeof how), -ELOOP);
    how.resolve = RESOLVE_BENEATH;
    EXPECT_EQ(fiber_openat2(directory, "..", &how, sizeof how), -EXDEV);
    how.resolve = 0;
    how.mode = 0600; // counts for new files alone
    EXPECT_EQ(fiber_openat2(directory, "f", &how, sizeof how), -EINVAL);
    how.flags = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC;
    Descriptor made(fiber_openat2(AT_FDCWD, folder.path("made").c_str(), &how, sizeof how));
    EXPECT_GE(made, 0);
    EXPECT_EQ(fiber_openat2(directory, "made", &how, sizeof how), -EEXIST);
    EXPECT_EQ(how.flags, static_cast<uint64_t>(O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC)); // the caller's, unchanged
    struct {
        open_how how;
        uint64_t later;
    } longer = {how, 0};
    longer.how.flags = O_RDONLY | O_CLOEXEC;
    longer.how.mode = 0;
    Descriptor again(fiber_openat2(directory, "f", &longer.how, sizeof longer));
    EXPECT_GE(again, 0);
    longer.later = 1;
    EXPECT_EQ(fiber_openat2(directory, "f", &longer.how, sizeof longer), -E2BIG);
}

// As fiber_open: the fiber waits for the other side, no thread of the library's does.
TEST_F(NameTest, Openat2OfAFifoWaitsAndIsCancelled) {
    NOT_ON_SIM("has no FIFOs");
    NEEDS_OPENAT2();
    ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
    for (const int flags : {O_RDONLY, O_WRONLY}) {
        int opened = -1;
        auto body = [&] {
            open_how how = {};
            how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
            opened = fiber_openat2(directory, "fifo", &how, sizeof how);
        };
        fiber_t fiber = start(body);
        settle();
        EXPECT_EQ(opened, -1);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
        EXPECT_EQ(opened, -ECANCELED);
        opened = -1;
        fiber = start(body);
        settle();
        ASSERT_EQ(opened, -1); // else the other side has no opener to wait for
        int number = -1;
        const int other_flags = (flags == O_RDONLY ? O_WRONLY : O_RDONLY) | O_CLOEXEC;
        FIBER_WITH_TIMEOUT(FIBER_SEC(20), nullptr) { number = fiber_open(folder.path("fifo").c_str(), other_flags, 0); }
        Descriptor other(number);
        ASSERT_GE(other, 0);
        join(fiber);
        Descriptor mine(opened);
        ASSERT_GE(mine, 0);
        EXPECT_EQ(status_flags(mine) & O_NONBLOCK, 0);
        EXPECT_EQ(plain_write(flags == O_RDONLY ? other : mine, "fifo"), 4);
        EXPECT_EQ(drain(flags == O_RDONLY ? mine : other), "fifo");
    }
}

TEST_F(NameTest, WithoutAFreeNumberNothingIsOpenedNorLost) {
    NEEDS_OPENAT2();
    const std::string path = folder.path("f");
    make(path);
    open_how how = {};
    how.flags = O_RDONLY | O_CLOEXEC;
    ::close(fiber_openat2(directory, "f", &how, sizeof how)); // the backend is open
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = ::dup(0);
    ::close(lowest);
    const rlimit none = {static_cast<rlim_t>(lowest), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const int opened = fiber_openat2(directory, "f", &how, sizeof how);
    const int made = fiber_mkdirat(directory, "d", 0700), renamed = fiber_renameat2(directory, "f", directory, "g", 0);
    const int removed = fiber_unlinkat(directory, "g", 0);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(opened, -EMFILE);
    EXPECT_EQ(made, 0);
    EXPECT_EQ(renamed, 0);
    EXPECT_EQ(removed, 0);
    EXPECT_EQ(::rmdir(folder.path("d").c_str()), 0);
    const int still = ::dup(0);
    ::close(still);
    EXPECT_EQ(still, lowest);
}

// A call is done, or has not begun: a cancelled call reports which.
TEST_F(NameTest, ACancelledCallHasDoneAllOrNothing) {
    const std::string path = folder.path("d");
    for (int i = 0; i < often(50, 2); i++) {
        int made = 1;
        auto body = [&] { made = fiber_mkdirat(directory, "d", 0700); };
        fiber_t fiber = start(body);
        if (i % 2) {
            EXPECT_EQ(fiber_reschedule(), 0);
        }
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
        EXPECT_TRUE(made == 0 || made == -ECANCELED) << made;
        EXPECT_EQ(exists(path), made == 0);
        ::rmdir(path.c_str());
    }
}

// The kernel looks up either directory late: it must meet neither another one under its number.
TEST_F(NameTest, TRAP_ARenameOfADirectoryThatIsClosedNeverMeetsAnother) {
    const std::string one = folder.path("one"), two = folder.path("two");
    ASSERT_EQ(::mkdir(one.c_str(), 0700), 0);
    ASSERT_EQ(::mkdir(two.c_str(), 0700), 0);
    for (int i = 0; i < often(200, 3); i++) {
        make(folder.path("f"));
        const bool first = i % 2;
        int number = ::open(one.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (first) make(one + "/f");
        int result = 1;
        auto body = [&] {
            result = first ? fiber_renameat2(number, "f", directory, "f", 0)
                           : fiber_renameat2(directory, "f", number, "f", 0);
        };
        fiber_t fiber = start(body);
        EXPECT_EQ(fiber_close(number), 0);
        Descriptor other(::open(two.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        join(fiber);
        EXPECT_TRUE(result == 0 || result == -EBADF) << result;
        EXPECT_FALSE(exists(two + "/f"));
        EXPECT_EQ(exists(one + "/f"), first == (result != 0));
        ::unlink((one + "/f").c_str());
    }
    ::rmdir(one.c_str());
    ::rmdir(two.c_str());
}

// ---------------------------------------------------------------------------------------------------------------
// Directories
// ---------------------------------------------------------------------------------------------------------------

TEST_F(NameTest, ADirectoryOfTenThousandNames) {
    const int count = often(10000, 20);
    for (int i = 0; i < count; i++) {
        Descriptor file(::openat(directory, std::to_string(i).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
        ASSERT_GE(file, 0);
    }
    std::multiset<std::string> expected = {".", ".."};
    for (int i = 0; i < count; i++) expected.insert(std::to_string(i));
    EXPECT_TRUE(names_in(directory) == expected);
    EXPECT_EQ(names_in(directory).size(), 0u); // the end, and still
    EXPECT_EQ(::lseek(directory, 0, SEEK_SET), 0);
    // Two fibers divide them, and others run meanwhile.
    std::multiset<std::string> both;
    auto reader = [&] {
        const auto some = names_in(directory, 1024);
        both.insert(some.begin(), some.end());
    };
    fiber_t one = spawn(reader), two = spawn(reader);
    join(one);
    join(two);
    EXPECT_TRUE(both == expected);
    for (int i = 0; i < count; i++) ::unlinkat(directory, std::to_string(i).c_str(), 0);
}

TEST_F(NameTest, TheLongestNameAndTooLittleRoom) {
    const std::string name(255, 'n');
    make(folder.path(name));
    alignas(8) char room[280];
    std::multiset<std::string> names = names_in(directory, sizeof room);
    EXPECT_EQ(names.count(name), 1u);
    EXPECT_EQ(names.size(), 3u);
    EXPECT_EQ(::lseek(directory, 0, SEEK_SET), 0);
    EXPECT_EQ(fiber_getdents64(directory, room, 16), -EINVAL);
    if (!under_qemu()) {
        EXPECT_EQ(fiber_getdents64(directory, room, 0), -EINVAL);
    }                                      // qemu treats a buffer of no bytes otherwise
    EXPECT_EQ(names_in(directory), names); // nothing was taken
}

TEST_F(NameTest, NamesThatGoWhileTheyAreRead) {
    std::multiset<std::string> staying = {".", ".."};
    for (int i = 0; i < often(500, 12); i++) {
        make(folder.name() + "/" + std::to_string(i));
        if (i % 3) staying.insert(std::to_string(i));
    }
    std::multiset<std::string> seen;
    std::vector<uint64_t> buffer(64);
    auto *bytes = reinterpret_cast<char *>(buffer.data());
    bool removed = false;
    for (int64_t got; (got = fiber_getdents64(directory, bytes, 512)) > 0; removed = true) {
        for (char *at = bytes; at < bytes + got; at += reinterpret_cast<dirent64 *>(at)->d_reclen)
            seen.insert(reinterpret_cast<dirent64 *>(at)->d_name);
        for (int i = 0; !removed && i < often(500, 12); i += 3) {
            EXPECT_EQ(fiber_unlinkat(directory, std::to_string(i).c_str(), 0), 0);
        }
    }
    for (const std::string &name : staying) EXPECT_EQ(seen.count(name), 1u) << name;
    for (int i = 0; i < often(500, 12); i++) ::unlinkat(directory, std::to_string(i).c_str(), 0);
}

TEST_F(NameTest, ANonDirectoryAndADirectoryThatIsGone) {
    const std::string path = folder.path("f"), gone = folder.path("gone");
    make(path);
    alignas(8) char buffer[512];
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(fiber_getdents64(file, buffer, sizeof buffer), -ENOTDIR);
    Pipe pipe;
    EXPECT_EQ(fiber_getdents64(pipe.read_end, buffer, sizeof buffer), -ENOTDIR);
    ASSERT_EQ(::mkdir(gone.c_str(), 0700), 0);
    Descriptor removed(::open(gone.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(fiber_rmdir(gone.c_str()), 0);
    EXPECT_EQ(fiber_getdents64(removed, buffer, sizeof buffer), -ENOENT);
    EXPECT_EQ(fiber_getdents64(directory, nullptr, 512), -EINVAL);
}

// A cancelled call has taken nothing, or reports the entries that it took.
TEST_F(NameTest, ACancelledReadOfADirectoryLosesNoName) {
    for (int i = 0; i < 20; i++) make(folder.path(std::to_string(i)));
    for (int round = 0; round < often(30, 2); round++) {
        EXPECT_EQ(::lseek(directory, 0, SEEK_SET), 0);
        size_t taken = 0;
        int64_t got = 0;
        auto body = [&] {
            alignas(8) char buffer[256];
            got = fiber_getdents64(directory, buffer, sizeof buffer);
            for (char *at = buffer; at < buffer + got; at += reinterpret_cast<dirent64 *>(at)->d_reclen) taken++;
        };
        fiber_t fiber = start(body);
        if (round % 2) {
            EXPECT_EQ(fiber_reschedule(), 0);
        }
        const bool ended = fiber_state(fiber) == FIBER_DEAD;
        if (!ended) {
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        }
        join(fiber);
        EXPECT_TRUE(got > 0 || got == -ECANCELED) << got;
        EXPECT_EQ(taken + names_in(directory).size(), 22u);
    }
}

} // namespace
