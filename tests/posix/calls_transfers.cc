// SPDX-License-Identifier: MIT OR Apache-2.0
// read, write and their kin by a fiber, compared with the kernel's by a plain thread.
#include "posix/calls.h"

#include <csignal>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

namespace {

using namespace calls;

// Streams of each kind, except terminals, which have tests of their own.
class Transfers : public testing::TestWithParam<Kind> {
protected:
    Kind kind() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Transfers, testing::Values(Kind::pipe, Kind::unix_stream, Kind::tcp),
                         [](const auto &info) { return support::kind_name(info.param); });

// Reads until the end or an error, as a peer does whose reads make room.
std::string read_all(int fd, size_t size) {
    std::string all;
    char chunk[8192];
    while (all.size() < size) {
        const ssize_t got = ::read(fd, chunk, std::min(sizeof chunk, size - all.size()));
        if (got <= 0) break;
        all.append(chunk, size_t(got));
    }
    return all;
}

TEST_P(Transfers, AReadWaitsForBytes) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        Peer peer(trial, [&] { EXPECT_EQ(::write(stream.writer, "hello", 5), 5); });
        char bytes[16] = {};
        errno = 77;
        trial.note("read", ::read(stream.reader, bytes, sizeof bytes));
        trial.note("errno stays", errno);
        trial.text("bytes", bytes);
        peer.join();
        stream.writer.close();
        trial.note("end", ::read(stream.reader, bytes, sizeof bytes));
    });
}

TEST_P(Transfers, AReadvWaitsForBytes) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        Peer peer(trial, [&] { EXPECT_EQ(::write(stream.writer, "hello", 5), 5); });
        char one[2] = {}, two[8] = {};
        const iovec parts[] = {{one, 2}, {nullptr, 0}, {two, 8}};
        trial.note("readv", ::readv(stream.reader, parts, 3));
        trial.text("bytes", std::string(one, 2) + two);
    });
}

TEST_P(Transfers, AWriteWritesAll) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        const std::string text = support::pattern(3 << 20);
        std::string received;
        Peer peer(trial, [&] { received = read_all(stream.reader, text.size()); });
        trial.note("write", ::write(stream.writer, text.data(), text.size()));
        peer.join();
        trial.note("equal", received == text);
    });
}

TEST_P(Transfers, AWritevWritesAll) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        std::string text = support::pattern(3 << 20);
        std::string received;
        const iovec parts[] = {{nullptr, 0},
                               {&text[0], 3},
                               {&text[3], 1 << 20},
                               {nullptr, 0},
                               {&text[3 + (1 << 20)], text.size() - 3 - (1 << 20)},
                               {nullptr, 0}};
        Peer peer(trial, [&] { received = read_all(stream.reader, text.size()); });
        trial.note("writev", ::writev(stream.writer, parts, 6));
        peer.join();
        trial.note("equal", received == text);
    });
}

TEST_P(Transfers, ReadvAndWritevAtMinusOneWait) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        char bytes[8] = {};
        iovec part = {bytes, sizeof bytes};
        iovec out = {const_cast<char *>("abc"), 3};
        Peer peer(trial, [&] { EXPECT_EQ(::pwritev2(stream.writer, &out, 1, -1, 0), 3); });
        trial.note("preadv2", ::preadv2(stream.reader, &part, 1, -1, 0));
        trial.text("bytes", bytes);
        peer.join();
        trial.note("nowait", ::preadv2(stream.reader, &part, 1, -1, RWF_NOWAIT));
        trial.note("pread", ::pread(stream.reader, bytes, 4, 0));
        trial.note("pwrite", ::pwrite(stream.writer, bytes, 4, 0));
    });
}

TEST_P(Transfers, BadArguments) {
    NEEDS_THE_KERNELS_CHECKS();
    ::signal(SIGPIPE, SIG_IGN);
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        EXPECT_EQ(::write(stream.writer, "0123456789", 10), 10);
        char bytes[4];
        const iovec good = {bytes, 4};
        const iovec bad = {nowhere<void>(), 4};
        volatile int below = -1, above = 1025; // which the compiler would warn of
        trial.note("read nowhere", ::read(stream.reader, nowhere<void>(), 4));
        trial.note("readv nowhere", ::readv(stream.reader, nowhere<iovec>(), 1));
        trial.note("readv into nowhere", ::readv(stream.reader, &bad, 1));
        trial.note("readv -1", ::readv(stream.reader, &good, below));
        trial.note("readv 0", ::readv(stream.reader, &good, 0));
        trial.note("readv 0 at nowhere", ::readv(stream.reader, nowhere<iovec>(), 0));
        trial.note("readv 1025", ::readv(stream.reader, &good, above));
        trial.note("read 0", ::read(stream.reader, bytes, 0));
        trial.note("write nowhere", ::write(stream.writer, nowhere<void>(), 4));
        trial.note("writev nowhere", ::writev(stream.writer, nowhere<iovec>(), 1));
        trial.note("writev of nowhere", ::writev(stream.writer, &bad, 1));
        trial.note("writev -1", ::writev(stream.writer, &good, below));
        trial.note("writev 0", ::writev(stream.writer, &good, 0));
        trial.note("writev 1025", ::writev(stream.writer, &good, above));
        trial.note("write 0", ::write(stream.writer, bytes, 0));
        trial.note("read -1", ::read(-1, bytes, 4));
        trial.note("write 1e6", ::write(1000000, bytes, 4));
        trial.note("read what is there", ::read(stream.reader, bytes, 4));
        const iovec empty[] = {{bytes, 0}, {nullptr, 0}};
        trial.note("readv empty", ::readv(stream.reader, empty, 2));
        trial.note("writev empty", ::writev(stream.writer, empty, 2));
    });
}

TEST_P(Transfers, NonblockingDescriptorsStaySo) {
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind(), true);
        char bytes[4];
        trial.note("read", ::read(stream.reader, bytes, 4));
        support::fill(stream.writer);
        const std::string text(1 << 20, 'x');
        trial.note("write", ::write(stream.writer, text.data(), text.size()));
    });
}

TEST_P(Transfers, WritesToAnEndThatIsClosed) {
    ::signal(SIGPIPE, SIG_IGN);
    compare([&](Trial &trial) {
        Stream stream = make_stream(kind());
        stream.reader.close();
        char byte = 0;
        if (kind() == Kind::tcp) { // the peer's answer to the first write says so
            EXPECT_EQ(::write(stream.writer, &byte, 1), 1);
            pollfd closed = {stream.writer, POLLIN, 0};
            while (!(closed.revents & POLLHUP)) EXPECT_EQ(::poll(&closed, 1, -1), 1);
        }
        trial.note("write", ::write(stream.writer, &byte, 1));
        trial.note("again", ::write(stream.writer, &byte, 1));
    });
}

// The number of SIGPIPEs that the process got.
volatile sig_atomic_t broken_pipes;

TEST_P(Transfers, AWriteThatHasWrittenBytesRaisesSigpipeAsTheKernelDoes) {
    compare([&](Trial &trial) {
        ::signal(SIGPIPE, [](int) { broken_pipes = broken_pipes + 1; });
        broken_pipes = 0;
        Stream stream = make_stream(kind());
        const std::string text(8 << 20, 'x');
        Peer peer(trial, [&] {
            (void)read_all(stream.reader, 4096);
            stream.reader.close();
        });
        const ssize_t first = ::write(stream.writer, text.data(), text.size());
        trial.note("some", first > 0 && size_t(first) < text.size());
        peer.join();
        trial.note("SIGPIPE", int(broken_pipes));
        ::signal(SIGPIPE, SIG_IGN);
    });
}

TEST(Files, ReadsAndWrites) {
    compare([&](Trial &trial) {
        support::Folder folder;
        Descriptor file(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        const std::string text = support::pattern(2 << 20);
        trial.note("write", ::write(file, text.data(), text.size()));
        trial.note("position", ::lseek(file, 0, SEEK_CUR));
        trial.note("pwrite", ::pwrite(file, "abc", 3, 5));
        std::string back(text.size(), '\0');
        trial.note("pread", ::pread(file, back.data(), back.size(), 0));
        trial.note("changed", back.substr(5, 3) == "abc");
        (void)::lseek(file, 7, SEEK_SET);
        trial.note("read", ::read(file, back.data(), back.size()));
        iovec part = {back.data(), 100};
        trial.note("readv at the end", ::readv(file, &part, 1));
        trial.note("preadv", ::preadv(file, &part, 1, 10));
        trial.note("pwritev", ::pwritev(file, &part, 1, 1000));
        trial.note("preadv2", ::preadv2(file, &part, 1, 10, 0));
        trial.note("pread -1", ::pread(file, back.data(), 1, -1));
        if (!sanitized) trial.note("pread nowhere", ::pread(file, nowhere<void>(), 1, 0));
        (void)::lseek(file, 0, SEEK_SET);
        trial.note("preadv2 -1", ::preadv2(file, &part, 1, -1, 0));
        trial.note("position", ::lseek(file, 0, SEEK_CUR));
        trial.note("append", ::fcntl(file, F_SETFL, O_APPEND));
        trial.note("write", ::write(file, "end", 3));
        trial.note("position", ::lseek(file, 0, SEEK_CUR));
        Descriptor writing(::open(folder.path("file").c_str(), O_WRONLY | O_CLOEXEC));
        trial.note("read of a write-only file", ::read(writing, back.data(), 1));
        Descriptor directory(::open(folder.name().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        trial.note("read of a directory", ::read(directory, back.data(), 1));
        Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        trial.note("read of null", ::read(null, back.data(), 1));
        trial.note("write to null", ::write(null, back.data(), back.size()));
        Descriptor zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
        trial.note("read of zero", ::read(zero, back.data(), back.size()));
    });
}

TEST(Files, Counters) {
    compare([&](Trial &trial) {
        uint64_t value = 0;
        Descriptor event(::eventfd(0, EFD_CLOEXEC));
        Peer peer(trial, [&] {
            const uint64_t three = 3;
            EXPECT_EQ(::write(event, &three, sizeof three), ssize_t(sizeof three));
        });
        trial.note("read", ::read(event, &value, sizeof value));
        trial.note("value", value);
        peer.join();
        trial.note("short", ::read(event, &value, 4));
        if (support::simulated()) return; // has no timerfds
        Descriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
        const itimerspec soon = {{}, {0, 1'000'000}};
        EXPECT_EQ(::timerfd_settime(timer, 0, &soon, nullptr), 0);
        trial.note("timer", ::read(timer, &value, sizeof value));
        trial.note("expirations", value);
    });
}

TEST(Files, AFullCounterWaits) {
    compare([&](Trial &trial) {
        Descriptor event(::eventfd(0, EFD_CLOEXEC));
        const uint64_t most = UINT64_MAX - 1;
        EXPECT_EQ(::write(event, &most, sizeof most), ssize_t(sizeof most));
        uint64_t value = 0;
        Peer peer(trial, [&] { EXPECT_EQ(::read(event, &value, sizeof value), ssize_t(sizeof value)); });
        const uint64_t five = 5;
        trial.note("write", ::write(event, &five, sizeof five));
        peer.join();
        trial.note("value", value);
    });
}

TEST(Files, NotificationsWait) {
    NOT_ON_SIM("has no inotify");
    compare([&](Trial &trial) {
        support::Folder folder;
        Descriptor watch(::inotify_init1(IN_CLOEXEC));
        EXPECT_GE(::inotify_add_watch(watch, folder.name().c_str(), IN_CREATE), 0);
        Peer peer(trial,
                  [&] { Descriptor file(::open(folder.path("new").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)); });
        alignas(inotify_event) char bytes[512];
        trial.note("read", ::read(watch, bytes, sizeof bytes));
        trial.text("name", reinterpret_cast<inotify_event *>(bytes)->name);
    });
}

TEST(Files, Terminals) {
    NOT_ON_SIM("has no terminals");
    compare([&](Trial &trial) {
        Stream stream = make_stream(Kind::pty);
        const std::string text = support::pattern(200'000);
        std::string received;
        Peer peer(trial, [&] { received = read_all(stream.writer, text.size()); });
        trial.note("write", ::write(stream.reader, text.data(), text.size()));
        peer.join();
        trial.note("equal", received == text);
        Peer typist(trial, [&] { EXPECT_EQ(::write(stream.writer, "typed", 5), 5); });
        char bytes[16] = {};
        trial.note("read", ::read(stream.reader, bytes, sizeof bytes) > 0);
    });
}

TEST_P(Transfers, Sendfile) {
    compare([&](Trial &trial) {
        support::Folder folder;
        Descriptor file(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        const std::string text = support::pattern(3 << 20);
        EXPECT_EQ(::write(file, text.data(), text.size()), ssize_t(text.size()));
        Stream stream = make_stream(kind());
        std::string received;
        {
            Peer peer(trial, [&] { received = read_all(stream.reader, text.size() - 100); });
            off_t offset = 100;
            // Into a pipe, one call moves what the pipe takes, as the kernel's does.
            ssize_t sent = 0;
            while (offset < off_t(text.size()) && (sent = ::sendfile(stream.writer, file, &offset, text.size())) > 0) {}
            trial.note("last", sent > 0);
            trial.note("offset", offset);
        }
        trial.note("equal", received == text.substr(100));
        trial.note("position", ::lseek(file, 0, SEEK_CUR));
        off_t end = off_t(text.size());
        trial.note("at the end", ::sendfile(stream.writer, file, &end, 10));
        if (!sanitized) trial.note("bad offset", ::sendfile(stream.writer, file, nowhere<off_t>(), 10));
        trial.note("flags", ::fcntl(stream.writer, F_GETFL) & O_NONBLOCK);
        trial.note("from a stream", ::sendfile(stream.writer, stream.reader, nullptr, 10));
        trial.note("closed", ::sendfile(-1, file, nullptr, 10));
    });
}

TEST(Splices, BetweenPipes) {
    compare([&](Trial &trial) {
        Stream from = make_stream(Kind::pipe), to = make_stream(Kind::pipe);
        char bytes[16] = {};
        {
            Peer peer(trial, [&] { EXPECT_EQ(::write(from.writer, "spliced", 7), 7); });
            trial.note("splice", ::splice(from.reader, nullptr, to.writer, nullptr, 100, 0));
            trial.note("read", ::read(to.reader, bytes, sizeof bytes));
            trial.text("bytes", bytes);
        }
        {
            Peer peer(trial, [&] { EXPECT_EQ(::write(from.writer, "teed", 4), 4); });
            trial.note("tee", ::tee(from.reader, to.writer, 100, 0));
            trial.note("read", ::read(to.reader, bytes, sizeof bytes));
            trial.note("again", ::read(from.reader, bytes, sizeof bytes));
        }
        support::fill(to.writer);
        {
            Peer peer(trial, [&] { support::drain(to.reader); });
            iovec part = {const_cast<char *>("mapped"), 6};
            trial.note("vmsplice", ::vmsplice(to.writer, &part, 1, 0));
        }
        trial.note("nonblock", ::splice(from.reader, nullptr, to.writer, nullptr, 100, SPLICE_F_NONBLOCK));
        trial.note("tee nonblock", ::tee(from.reader, to.writer, 100, SPLICE_F_NONBLOCK));
        off_t offset = 3;
        trial.note("offset of a pipe", ::splice(from.reader, &offset, to.writer, nullptr, 100, 0));
        if (!sanitized) trial.note("bad offset", ::splice(from.reader, nowhere<off_t>(), to.writer, nullptr, 100, 0));
        trial.note("nothing", ::splice(from.reader, nullptr, to.writer, nullptr, 0, 0));
        if (!sanitized) trial.note("vmsplice nowhere", ::vmsplice(to.writer, nowhere<iovec>(), 1, 0));
        from.writer.close();
        support::drain(to.reader);
        trial.note("end", ::splice(from.reader, nullptr, to.writer, nullptr, 100, 0));
        trial.note("end of tee", ::tee(from.reader, to.writer, 100, 0));
    });
}

} // namespace
