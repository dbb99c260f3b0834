// SPDX-License-Identifier: MIT OR Apache-2.0
// Data from one descriptor to another: fiber_splice and fiber_copy, with disks that are full, connections that are
// reset, no free descriptor, signals and cancels.
#include "conformance.h"
#include "doomed.h"
#include "io_support.h"

#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

using namespace support;

namespace {

// A file without a name, at its beginning.
Descriptor file_of(const std::string &text) {
    Descriptor file(::memfd_create("io_splice", MFD_CLOEXEC));
    EXPECT_EQ(plain_write(file, text), static_cast<int64_t>(text.size()));
    EXPECT_EQ(::lseek(file, 0, SEEK_SET), 0);
    return file;
}

std::string text_of(int file) {
    struct stat about = {};
    EXPECT_EQ(::fstat(file, &about), 0);
    std::string text(static_cast<size_t>(about.st_size), '\0');
    EXPECT_EQ(::pread(file, text.data(), text.size(), 0), about.st_size);
    return text;
}

off_t position(int file) { return ::lseek(file, 0, SEEK_CUR); }

// Everything up to the end, by a fiber's calls.
std::string read_all(int fd) {
    std::string all;
    std::vector<char> buffer(65536);
    for (int64_t got; (got = expect_memory(fiber_read(fd, buffer.data(), buffer.size()))) > 0;)
        all.append(buffer.data(), size_t(got));
    return all;
}

void write_all(int fd, const std::string &text) {
    for (size_t done = 0; done < text.size();) {
        const int64_t put = expect_memory(fiber_write(fd, text.data() + done, text.size() - done));
        if (put < 0) return;
        done += static_cast<size_t>(put);
    }
}

int64_t copy_all(int from, int to, int64_t *written = nullptr, int64_t *lost = nullptr) {
    return expect_memory(fiber_copy(from, to, FIBER_COPY_ALL, written, lost));
}

// ---------------------------------------------------------------------------------------------------------------
// fiber_splice
// ---------------------------------------------------------------------------------------------------------------

TEST(Splice, BetweenAFileAndAPipe) {
    Descriptor file = file_of("0123456789");
    Pipe pipe;
    EXPECT_EQ(fiber_splice(file, nullptr, pipe.write_end, nullptr, 4, 0), 4);
    EXPECT_EQ(position(file), 4);
    int64_t offset = 7;
    EXPECT_EQ(fiber_splice(file, &offset, pipe.write_end, nullptr, 100, 0), 3);
    EXPECT_EQ(offset, 10);
    EXPECT_EQ(position(file), 4);
    EXPECT_EQ(fiber_splice(file, &offset, pipe.write_end, nullptr, 100, 0), 0); // the end
    int64_t to = 5;
    EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, file, &to, 2, 0), 2);
    EXPECT_EQ(to, 7);
    EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, file, nullptr, 5, 0), 5);
    EXPECT_EQ(position(file), 9);
    EXPECT_EQ(text_of(file), "012323789"
                             "9");
    pipe.close_write();
    EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, file, nullptr, 5, 0), 0);
    EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, file, nullptr, 0, 0), 0);
}

TEST(Splice, DescriptorsThatCannotBeSpliced) {
    Descriptor one = file_of("one"), two = file_of("two");
    Pipe pipe;
    int64_t offset = 0;
    EXPECT_EQ(fiber_splice(one, nullptr, two, nullptr, 3, 0), -EINVAL);
    EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, pipe.write_end, nullptr, 3, 0), -EINVAL); // itself
    EXPECT_EQ(fiber_splice(pipe.read_end, &offset, one, nullptr, 3, 0), -ESPIPE);
    EXPECT_EQ(fiber_splice(one, nullptr, pipe.write_end, &offset, 3, 0), -ESPIPE);
    EXPECT_EQ(fiber_splice(pipe.write_end, nullptr, one, nullptr, 3, 0), -EBADF);
    EXPECT_EQ(plain_write(pipe.write_end, "text"), 4);
    EXPECT_EQ(fcntl(one, F_SETFL, O_APPEND), 0);
    EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, one, nullptr, 3, 0), -EINVAL);
    EXPECT_EQ(drain(pipe.read_end), "text");
    EXPECT_EQ(position(one), 0);
}

TEST(Splice, NonblockAsksOnce) {
    Pipe from, to;
    EXPECT_EQ(fiber_splice(from.read_end, nullptr, to.write_end, nullptr, 3, SPLICE_F_NONBLOCK), -EAGAIN);
    EXPECT_EQ(plain_write(from.write_end, "text"), 4);
    fill(to.write_end);
    EXPECT_EQ(fiber_splice(from.read_end, nullptr, to.write_end, nullptr, 3, SPLICE_F_NONBLOCK), -EAGAIN);
    EXPECT_EQ(drain(from.read_end), "text");
}

// The bytes that the kernel could move before the cancel are moved, also where the kernel reports no room.
TEST(Splice, RoomThatCameBeforeACancelCounts) {
    for (const Kind kind : {Kind::pipe, Kind::unix_stream, Kind::tcp}) {
        for (const bool nonblock : {false, true}) {
            SCOPED_TRACE(testing::Message() << kind_name(kind) << (nonblock ? ", O_NONBLOCK" : ""));
            Pipe source;
            Stream to = make_stream(kind, nonblock);
            EXPECT_EQ(plain_write(source.write_end, "text"), 4);
            fill(to.writer);
            int64_t result = 7;
            auto body = [&] { result = fiber_splice(source.read_end, nullptr, to.writer, nullptr, 4, 0); };
            fiber_t fiber = start(body);
            settle();
            pollfd room = {to.writer, POLLOUT, 0};
            while (::poll(&room, 1, 0) == 0) drain(to.reader); // TCP learns of room a little later
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
            join(fiber);
            EXPECT_EQ(result, 4);
        }
    }
}

// Data that came before the cancel count, also on their way into a file, whose write could block the thread.
TEST(Splice, DataThatCameBeforeACancelCounts) {
    Descriptor file = file_of("");
    Stream stream = make_stream(Kind::unix_stream);
    Pipe pipe;
    for (const int to : {int(file), int(stream.writer), int(pipe.write_end)}) {
        Pipe source;
        int64_t result = 7;
        auto body = [&] { result = fiber_splice(source.read_end, nullptr, to, nullptr, 4, 0); };
        fiber_t fiber = start(body);
        settle();
        EXPECT_EQ(plain_write(source.write_end, "text"), 4);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
        EXPECT_EQ(result, 4) << (to == file ? "file" : to == pipe.write_end ? "pipe" : "socket");
    }
}

// Where POSIX has only a signal that ends the process.
TEST(Splice, NeitherSocketsNorPipesRaiseSigpipe) {
    Descriptor file = file_of("text");
    Pipe source;
    EXPECT_EQ(plain_write(source.write_end, "text"), 4);
    for (const bool nonblock : {false, true}) {
        Stream pair = make_stream(Kind::unix_stream, nonblock), tcp = make_stream(Kind::tcp, nonblock);
        pair.reader.close();
        EXPECT_EQ(fiber_splice(source.read_end, nullptr, pair.writer, nullptr, 4, 0), -EPIPE);
        EXPECT_EQ(::shutdown(tcp.writer, SHUT_WR), 0);
        EXPECT_EQ(fiber_splice(source.read_end, nullptr, tcp.writer, nullptr, 4, 0), -EPIPE);
        int64_t written = 7, lost = 7;
        EXPECT_EQ(fiber_copy(file, pair.writer, FIBER_COPY_ALL, &written, &lost), -EPIPE);
        EXPECT_EQ(written, 0);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(position(file), 0);
    }
    Pipe closed;
    closed.close_read();
    EXPECT_EQ(fiber_splice(source.read_end, nullptr, closed.write_end, nullptr, 4, 0), -EPIPE);
    EXPECT_EQ(fiber_splice(file, nullptr, closed.write_end, nullptr, 4, 0), -EPIPE);
    EXPECT_EQ(fiber_copy(file, closed.write_end, 4, nullptr, nullptr), -EPIPE);
    EXPECT_EQ(position(file), 0);
    EXPECT_EQ(drain(source.read_end), "text");
    sigset_t pending;
    EXPECT_EQ(::sigpending(&pending), 0);
    EXPECT_FALSE(sigismember(&pending, SIGPIPE));
}

// One that was pending before, and blocked, still is.
TEST(Splice, ASigpipeOfTheCallersStays) {
    NOT_ON_SIM("has no signals");
    sigset_t only, before, pending;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &only, &before), 0);
    ASSERT_EQ(::raise(SIGPIPE), 0);
    Pipe source, closed;
    EXPECT_EQ(plain_write(source.write_end, "text"), 4);
    closed.close_read();
    EXPECT_EQ(fiber_splice(source.read_end, nullptr, closed.write_end, nullptr, 4, 0), -EPIPE);
    EXPECT_EQ(::sigpending(&pending), 0);
    EXPECT_TRUE(sigismember(&pending, SIGPIPE));
    timespec at_once = {};
    EXPECT_EQ(::sigtimedwait(&only, nullptr, &at_once), SIGPIPE);
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

// With and without O_NONBLOCK, into a descriptor with less room than there are bytes, without holding up the thread.
class SpliceStreamTest : public StreamTest {};

TEST_P(SpliceStreamTest, ALongWayThroughAPipe) {
    NOT_UNDER_QEMU("is too slow for pages by the thousand");
    const std::string text = pattern(often(400000, 9000));
    Pipe pipe;
    if (stream.writer < 0) return;
    auto feeder = [&] {
        write_all(pipe.write_end, text);
        pipe.close_write();
    };
    int64_t moved = 0, last = 0;
    auto splicer = [&] {
        while ((last = expect_memory(fiber_splice(pipe.read_end, nullptr, stream.writer, nullptr, 1 << 20, 0))) > 0)
            moved += last;
        EXPECT_EQ(last, 0);
        if (is_socket())
            ::shutdown(stream.writer, SHUT_WR);
        else
            stream.writer.close();
    };
    std::string got;
    auto reader = [&] { got = read_all(stream.reader); };
    fiber_t a = spawn(feeder), b = spawn(splicer), c = spawn(reader);
    join(a);
    join(b);
    join(c);
    EXPECT_EQ(moved, static_cast<int64_t>(text.size()));
    EXPECT_TRUE(got == text);
}

INSTANTIATE_TEST_SUITE_P(All, SpliceStreamTest,
                         testing::Combine(testing::Values(Kind::pipe, Kind::unix_stream, Kind::tcp), testing::Bool()),
                         stream_parameter_name);

// A connection with hardly any room, whose writing side may report that it is ready, and would still block the thread
// over less than a page. Not for ever, so that the tests end.
struct NarrowConnection {
    Descriptor writer{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    Descriptor reader;
    int64_t begun = fiber_now();

    NarrowConnection() {
        const int least = 1, segment = 200;
        const timeval blocked_most = {60, 0};
        Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto *where = reinterpret_cast<sockaddr *>(&address);
        EXPECT_EQ(::setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &least, sizeof least), 0);
        EXPECT_EQ(::setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment), 0);
        EXPECT_EQ(::bind(listener, where, size), 0);
        EXPECT_EQ(::listen(listener, 1), 0);
        EXPECT_EQ(::getsockname(listener, where, &size), 0);
        EXPECT_EQ(::setsockopt(writer, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
        EXPECT_EQ(::setsockopt(writer, SOL_SOCKET, SO_SNDTIMEO, &blocked_most, sizeof blocked_most), 0);
        EXPECT_EQ(::connect(writer, where, size), 0);
        reader = Descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        EXPECT_GE(reader, 0);
    }
    // Fills it, and writes a little more as the reader reads; then ends the call, and returns the bytes received.
    template <class Call>
    std::string fill(Call call) {
        fiber_t a = spawn(call);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
        std::string got;
        char some[512];
        auto blocked = [&] { return fiber_now() - begun > FIBER_SEC(30); };
        for (int i = 0; i < 20 && !blocked(); i++) {
            const ssize_t count = ::recv(reader, some, sizeof some, MSG_DONTWAIT);
            if (count > 0) got.append(some, size_t(count));
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        }
        EXPECT_FALSE(blocked());
        EXPECT_EQ(fiber_cancel(a, nullptr), 0);
        join(a);
        EXPECT_EQ(::shutdown(writer, SHUT_WR), 0);
        return got;
    }
};

TEST(Splice, AConnectionThatIsNearlyFullDoesNotBlockTheThread) {
    NOT_ON_SIM("has no such connections");
    NarrowConnection narrow;
    Pipe pipe;
    const std::string text = pattern(800000);
    ASSERT_GT(::fcntl(pipe.write_end, F_SETPIPE_SZ, 1 << 20), 0);
    EXPECT_EQ(plain_write(pipe.write_end, text), 800000);
    int64_t moved = 0, last = 0;
    const std::string got = narrow.fill([&] {
        while ((last = fiber_splice(pipe.read_end, nullptr, narrow.writer, nullptr, 1 << 20, 0)) > 0) moved += last;
    });
    EXPECT_EQ(last, -ECANCELED);
    EXPECT_TRUE(got == text.substr(0, got.size()));
    pipe.close_write();
    EXPECT_TRUE(drain(pipe.read_end) == text.substr(size_t(moved))); // bytes not moved are still there
}

// ---------------------------------------------------------------------------------------------------------------
// fiber_copy
// ---------------------------------------------------------------------------------------------------------------

TEST(Copy, FileToFile) {
    const std::string text = pattern(often(6000000, 5000));
    Descriptor from = file_of(text), to = file_of("");
    int64_t written = -1, lost = -1;
    EXPECT_EQ(fiber_copy(from, to, FIBER_COPY_ALL, &written, &lost), static_cast<int64_t>(text.size()));
    EXPECT_EQ(written, static_cast<int64_t>(text.size()));
    EXPECT_EQ(lost, 0);
    EXPECT_TRUE(text_of(to) == text);
    EXPECT_EQ(position(from), static_cast<off_t>(text.size()));
    EXPECT_EQ(position(to), static_cast<off_t>(text.size()));
    EXPECT_EQ(fiber_copy(from, to, FIBER_COPY_ALL, nullptr, nullptr), 0);
    EXPECT_EQ(::lseek(from, 10, SEEK_SET), 10);
    EXPECT_EQ(::lseek(to, 20, SEEK_SET), 20);
    EXPECT_EQ(fiber_copy(from, to, 30, nullptr, nullptr), 30);
    EXPECT_EQ(position(from), 40);
    EXPECT_EQ(position(to), 50);
    EXPECT_EQ(text_of(to).substr(20, 30), text.substr(10, 30));
    EXPECT_EQ(fiber_copy(from, to, 0, nullptr, nullptr), 0);
    EXPECT_EQ(fiber_copy(from, to, -1, &written, &lost), -EINVAL);
    EXPECT_EQ(written, 0);
}

// A descriptor that can be neither spliced nor copied in the kernel.
TEST(Copy, FallsBackToReadAndWrite) {
    Descriptor from = file_of("text"), to = file_of("and ");
    EXPECT_EQ(fcntl(to, F_SETFL, O_APPEND), 0);
    EXPECT_EQ(fiber_copy(from, to, FIBER_COPY_ALL, nullptr, nullptr), 4);
    EXPECT_EQ(text_of(to), "and text");
    Stream pair = make_stream(Kind::unix_stream);
    EXPECT_EQ(plain_write(pair.writer, "more"), 4);
    EXPECT_EQ(fiber_copy(pair.reader, to, 4, nullptr, nullptr), 4); // by a pipe, which then turns out to be no way
    EXPECT_EQ(text_of(to), "and textmore");
    Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(fiber_copy(to, null, FIBER_COPY_ALL, nullptr, nullptr), 0); // appending has left it at its end
    EXPECT_EQ(fiber_copy(null, to, FIBER_COPY_ALL, nullptr, nullptr), 0);
    if (!simulated()) {
        Descriptor about(::open("/proc/self/status", O_RDONLY | O_CLOEXEC)), copy = file_of(""); // of no size
        EXPECT_GT(fiber_copy(about, copy, FIBER_COPY_ALL, nullptr, nullptr), 100);
        EXPECT_EQ(text_of(copy).substr(0, 5), "Name:");
    }
    Descriptor directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(fiber_copy(directory, to, FIBER_COPY_ALL, nullptr, nullptr), -EISDIR);
    EXPECT_EQ(fiber_copy(directory, pair.writer, FIBER_COPY_ALL, nullptr, nullptr), -EISDIR);
}

class CopyStreamTest : public StreamTest {};

TEST_P(CopyStreamTest, ThroughTwoStreamsAndFilesAtBothEnds) {
    const std::string text = pattern(often(2500000, 20000));
    Descriptor from = file_of(text), to = file_of("");
    Stream second = make_stream(kind(), nonblock());
    int64_t results[3] = {};
    auto end_of = [&](Descriptor &writer) {
        if (is_socket())
            ::shutdown(writer, SHUT_WR);
        else
            writer.close();
    };
    auto one = [&] {
        results[0] = copy_all(from, stream.writer);
        end_of(stream.writer);
    };
    auto two = [&] {
        results[1] = copy_all(stream.reader, second.writer);
        end_of(second.writer);
    };
    auto three = [&] { results[2] = copy_all(second.reader, to); };
    fiber_t a = spawn(one), b = spawn(two), c = spawn(three);
    join(a);
    join(b);
    join(c);
    for (int64_t result : results) EXPECT_EQ(result, static_cast<int64_t>(text.size()));
    EXPECT_TRUE(text_of(to) == text);
}

INSTANTIATE_TEST_SUITE_P(All, CopyStreamTest,
                         testing::Combine(testing::Values(Kind::pipe, Kind::unix_stream, Kind::tcp), testing::Bool()),
                         stream_parameter_name);

// ---------------------------------------------------------------------------------------------------------------
// Errors
// ---------------------------------------------------------------------------------------------------------------

TEST(Copy, ADeviceThatIsFull) {
    Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC)), from = file_of("text");
    int64_t written = 7, lost = 7;
    EXPECT_EQ(fiber_copy(from, full, FIBER_COPY_ALL, &written, &lost), -ENOSPC);
    EXPECT_EQ(written, 0);
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(position(from), 0);
    Stream pair = make_stream(Kind::unix_stream);
    EXPECT_EQ(plain_write(pair.writer, "text"), 4);
    EXPECT_EQ(fiber_copy(pair.reader, full, FIBER_COPY_ALL, &written, &lost), -ENOSPC);
    EXPECT_EQ(written, 0);
    EXPECT_EQ(lost, 4);
}

// Another view of the file system, in which a small one can be mounted; in a child process.
bool mount_small(const char *where) {
    if (::unshare(CLONE_NEWNS) != 0) {
        char map[32];
        std::snprintf(map, sizeof map, "0 %u 1", ::geteuid());
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
        Descriptor file(::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
        if (plain_write(file, map) < 0) return false;
    }
    return ::mount("none", "/", "none", MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("none", where, "tmpfs", 0, "size=256k") == 0;
}

void fill_disk(const std::string &name) {
    const std::string text = pattern(1 << 20);
    Descriptor from = file_of(text), to(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    CHILD_CHECK(to >= 0);
    int64_t written = 0, lost = 0;
    CHILD_CHECK(fiber_copy(from, to, FIBER_COPY_ALL, &written, &lost) == -ENOSPC);
    CHILD_CHECK(written > 100000 && written < 300000 && lost == 0);
    CHILD_CHECK(position(from) == written && position(to) == written);
    CHILD_CHECK(text_of(to).substr(0, size_t(written)) == text.substr(0, size_t(written)));
    // Bytes taken from a stream cannot be read again: they are counted.
    CHILD_CHECK(::ftruncate(to, 0) == 0 && ::lseek(to, 0, SEEK_SET) == 0);
    Stream pair = make_stream(Kind::unix_stream);
    auto writer = [&] {
        write_all(pair.writer, text);
        pair.writer.close();
    };
    fiber_t fiber = spawn(writer);
    CHILD_CHECK(fiber_copy(pair.reader, to, FIBER_COPY_ALL, &written, &lost) == -ENOSPC);
    CHILD_CHECK(position(to) == written && written + lost <= int64_t(text.size()));
    const std::string rest = read_all(pair.reader);
    join(fiber);
    CHILD_CHECK(int64_t(rest.size()) + written + lost == int64_t(text.size()));
    CHILD_CHECK(text_of(to).substr(0, size_t(written)) == text.substr(0, size_t(written)));
    CHILD_CHECK(rest == text.substr(size_t(written + lost)));
    // A splice leaves in its pipe the bytes that have no room.
    Pipe pipe;
    CHILD_CHECK(plain_write(pipe.write_end, "kept") == 4);
    int64_t end = 1 << 20;
    CHILD_CHECK(fiber_splice(pipe.read_end, nullptr, to, &end, 4, 0) == -ENOSPC);
    CHILD_CHECK(drain(pipe.read_end) == "kept" && end == 1 << 20);
    // And names: there is no room for another file of some size, but its removal makes some.
    CHILD_CHECK(fiber_unlink(name.c_str()) == 0);
}

// In a separate program, because a forked child has no other threads.
TEST(Copy, ADiskThatIsFull) {
    NOT_ON_SIM("uses no disk");
    NOT_UNDER_QEMU("cannot mount");
    if (const char *small = ::getenv("FIBERRT_TEST_SMALL_DISK")) return fill_disk(std::string(small) + "/file");
    Folder folder;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(60);
        if (!mount_small(folder.name().c_str())) ::_exit(77);
        ::setenv("FIBERRT_TEST_SMALL_DISK", folder.name().c_str(), 1);
        ::execl("/proc/self/exe", "conformance", "--gtest_filter=Copy.ADiskThatIsFull", "--gtest_brief=1", nullptr);
        ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "a small file system may not be mounted here";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// The sum is right, and only the bytes before the reset arrive.
TEST(Copy, APeerThatResetsInTheMiddle) {
    NOT_ON_SIM("may report the end before all data sent");
    for (const bool nonblock : {false, true}) {
        const std::string text = pattern(8 << 20);
        Descriptor from = file_of(text);
        Stream out = make_stream(Kind::tcp, nonblock);
        int64_t result = 0, written = -1, lost = -1;
        auto body = [&] { result = copy_all(from, out.writer, &written, &lost); };
        fiber_t fiber = start(body);
        char some[4096];
        EXPECT_GT(fiber_read(out.reader, some, sizeof some), 0);
        const linger at_once = {1, 0};
        EXPECT_EQ(::setsockopt(out.reader, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        out.reader.close();
        join(fiber);
        EXPECT_TRUE(result == -ECONNRESET || result == -EPIPE) << result;
        EXPECT_GT(written, 0);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(position(from), written);
        // And one that is read from.
        Stream in = make_stream(Kind::tcp, nonblock);
        Descriptor to = file_of("");
        auto reader = [&] { result = copy_all(in.reader, to, &written, &lost); };
        fiber = start(reader);
        EXPECT_EQ(plain_write(in.writer, "text"), 4);
        EXPECT_TRUE(eventually([&] { return text_of(to) == "text"; }));
        EXPECT_EQ(::setsockopt(in.writer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        in.writer.close();
        join(fiber);
        EXPECT_EQ(result, -ECONNRESET);
        EXPECT_EQ(written, 4);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(position(to), 4);
    }
}

TEST(Copy, WithoutADescriptorForThePipe) {
    const std::string text = pattern(often(300000, 5000));
    Descriptor from = file_of(text), to = file_of("");
    Stream pair = make_stream(Kind::unix_stream);
    auto out = [&] {
        EXPECT_EQ(fiber_copy(from, pair.writer, FIBER_COPY_ALL, nullptr, nullptr), static_cast<int64_t>(text.size()));
        ::shutdown(pair.writer, SHUT_WR);
    };
    int64_t got = 0;
    auto in = [&] { got = copy_all(pair.reader, to); };
    EXPECT_EQ(fiber_fsync(from), 0); // the backend is open
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = ::dup(0);
    ::close(lowest);
    const rlimit none = {static_cast<rlim_t>(lowest), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    fiber_t a = spawn(out), b = spawn(in);
    join(a);
    join(b);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(got, static_cast<int64_t>(text.size()));
    EXPECT_TRUE(text_of(to) == text);
    Descriptor again(::dup(0)); // none has leaked
    EXPECT_EQ(again, lowest);
}

// As before, but by a splice: each piece needs two splices for a connection that waits.
TEST(Copy, WithoutADescriptorIntoAConnectionThatWaits) {
    Pipe pipe;
    EXPECT_EQ(plain_write(pipe.write_end, "text"), 4);
    pipe.close_write();
    Stream pair = make_stream(Kind::unix_stream);
    EXPECT_EQ(fiber_fsync(file_of("")), 0); // the backend is open
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = ::dup(0);
    ::close(lowest);
    const rlimit none = {static_cast<rlim_t>(lowest), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(fiber_splice(pipe.read_end, nullptr, pair.writer, nullptr, 4, 0), -EMFILE);
    EXPECT_EQ(fiber_copy(pipe.read_end, pair.writer, FIBER_COPY_ALL, nullptr, nullptr), 4);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    Descriptor again(::dup(0)); // none has leaked
    EXPECT_EQ(again, lowest);
}

TEST(Copy, AConnectionThatIsNearlyFullDoesNotBlockTheThread) {
    NOT_ON_SIM("has no such connections");
    NarrowConnection narrow;
    const std::string text = pattern(800000);
    Descriptor from = file_of(text);
    int64_t result = 0, written = 0;
    const std::string got = narrow.fill([&] { result = copy_all(from, narrow.writer, &written); });
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(position(from), written);
    EXPECT_TRUE(got == text.substr(0, got.size()));
}

// Bytes without room are lost, and counted: also into a pipe that is nearly full, into which a splice would put only
// the beginning of a message.
TEST(Copy, MessagesAreWholeOrReportedAsCut) {
    const int room = 1 << 19;
    Descriptor file = file_of("");
    Pipe pipe;
    int64_t written = 0, lost = 0;
    fiber_scope_t bound;
    ASSERT_EQ(fiber_scope_open(&bound, FIBER_SEC(60), 0), 0);
    for (const int type : {SOCK_DGRAM, SOCK_SEQPACKET}) {
        int ends[2];
        ASSERT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
        Descriptor in(ends[0]), out(ends[1]);
        ASSERT_EQ(::setsockopt(out, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
        const std::string text = pattern(140000);
        ASSERT_EQ(::send(out, text.data(), text.size(), 0), 140000);
        EXPECT_EQ(fiber_copy(in, file, 131073, &written, &lost), -EMSGSIZE);
        EXPECT_EQ(written, 131072);
        EXPECT_EQ(lost, 140000 - 131072);
        EXPECT_TRUE(text_of(file) == text.substr(0, 131072));
        ASSERT_EQ(::ftruncate(file, 0), 0);
        ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);

        ASSERT_EQ(::send(out, text.data(), 5000, 0), 5000);
        ASSERT_EQ(::send(out, text.data(), 5000, 0), 5000);
        EXPECT_EQ(fiber_copy(in, file, 5000, &written, &lost), 5000);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(fiber_copy(in, file, 1000, &written, &lost), -EMSGSIZE);
        EXPECT_EQ(written, 1000);
        EXPECT_EQ(lost, 4000);
        ASSERT_EQ(::ftruncate(file, 0), 0);
        ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);

        const std::string filling(60000, 'x');
        EXPECT_EQ(plain_write(pipe.write_end, filling), 60000);
        ASSERT_EQ(::send(out, text.data(), 20000, 0), 20000);
        std::string got(80000, '\0');
        auto reader = [&] {
            for (size_t done = 0; done < got.size();) {
                const int64_t more = fiber_read(pipe.read_end, got.data() + done, got.size() - done);
                if (more <= 0) break;
                done += static_cast<size_t>(more);
            }
        };
        EXPECT_EQ(fiber_reschedule(), 0);
        fiber_t a = spawn(reader);
        EXPECT_EQ(fiber_copy(in, pipe.write_end, 20000, &written, &lost), 20000);
        join(a);
        EXPECT_TRUE(got == filling + text.substr(0, 20000));
    }
    EXPECT_EQ(fiber_scope_close(bound, nullptr), 0);
}

TEST(Copy, AStormOfSignals) {
    NOT_ON_SIM("has no signals");
    NOT_UNDER_QEMU("delivers signals too slowly");
    struct sigaction quiet = {}, before = {};
    quiet.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGALRM, &quiet, &before), 0); // without SA_RESTART
    const itimerval often_enough = {{0, 200}, {0, 200}}, never = {};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &often_enough, nullptr), 0);
    const std::string text = pattern(3000000);
    Descriptor from = file_of(text), to = file_of("");
    Stream pair = make_stream(Kind::unix_stream, true);
    int64_t sent = 0, got = 0;
    auto out = [&] {
        sent = copy_all(from, pair.writer);
        ::shutdown(pair.writer, SHUT_WR);
    };
    auto in = [&] { got = copy_all(pair.reader, to); };
    fiber_t a = spawn(out), b = spawn(in);
    join(a);
    join(b);
    ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
    ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
    EXPECT_EQ(sent, static_cast<int64_t>(text.size()));
    EXPECT_EQ(got, static_cast<int64_t>(text.size()));
    EXPECT_TRUE(text_of(to) == text);
}

// A cancel in the middle: from a file no bytes are lost; from a stream the lost bytes are counted.
TEST(Copy, ACancelInTheMiddle) {
    const std::string text = pattern(often(3000000, 300000));
    Descriptor from = file_of(text);
    Stream pair = make_stream(Kind::unix_stream);
    lessen_room(pair.writer);
    int64_t result = 0, written = -1, lost = -1;
    auto body = [&] {
        result = copy_all(from, pair.writer, &written, &lost);
        EXPECT_EQ(fiber_reschedule(), -ECANCELED);
    };
    fiber_t fiber = start(body);
    settle();
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(position(from), written);
    EXPECT_TRUE(drain(pair.reader) == text.substr(0, static_cast<size_t>(written)));

    Stream first = make_stream(Kind::unix_stream), second = make_stream(Kind::unix_stream);
    lessen_room(second.writer);
    auto writer = [&] { write_all(first.writer, text); };
    auto forwarder = [&] { result = copy_all(first.reader, second.writer, &written, &lost); };
    fiber_t feeding = start(writer), forwarding = start(forwarder);
    settle();
    EXPECT_EQ(fiber_cancel(forwarding, nullptr), 0);
    join(forwarding);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(drain(second.reader).size(), static_cast<size_t>(written));
    std::string rest;
    auto reader = [&] {
        std::vector<char> buffer(65536);
        while (static_cast<int64_t>(rest.size()) + written + lost < static_cast<int64_t>(text.size())) {
            const int64_t got = fiber_read(first.reader, buffer.data(), buffer.size());
            if (got <= 0) break;
            rest.append(buffer.data(), static_cast<size_t>(got));
        }
    };
    run(reader);
    join(feeding);
    EXPECT_TRUE(rest == text.substr(static_cast<size_t>(written + lost)));
    EXPECT_EQ(drain(first.reader), "");
}

// Into a file: all bytes taken are in it.
TEST(Copy, ACancelLosesNothingOnItsWayIntoAFile) {
    for (int round = 0; round < often(20, 2); round++) {
        const std::string text = pattern(often(400000, 20000));
        Stream pair = make_stream(Kind::unix_stream);
        Descriptor to = file_of("");
        int64_t result = 0, written = -1, lost = -1;
        auto writer = [&] { write_all(pair.writer, text); };
        auto body = [&] { result = copy_all(pair.reader, to, &written, &lost); };
        fiber_t feeding = start(writer), copying = start(body);
        for (int i = 0; i < round; i++) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_cancel(copying, nullptr), 0);
        join(copying);
        EXPECT_EQ(result, -ECANCELED);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(position(to), written);
        EXPECT_TRUE(text_of(to) == text.substr(0, static_cast<size_t>(written)));
        EXPECT_EQ(fiber_cancel(feeding, nullptr), 0);
        join(feeding);
    }
}

// As before, where the kernel cannot splice into the file, with more bytes than one buffer takes.
TEST(Copy, ACancelLosesNothingOnItsWayIntoAFileByABuffer) {
    const std::string text = pattern(180000);
    for (int round = 0; round < 4; round++) {
        Stream pair = make_stream(Kind::unix_stream);
        Descriptor to = file_of("");
        EXPECT_EQ(fcntl(to, F_SETFL, O_APPEND), 0);
        int64_t result = 0, written = -1, lost = -1;
        auto body = [&] { result = copy_all(pair.reader, to, &written, &lost); };
        fiber_t copying = start(body);
        EXPECT_EQ(::send(pair.writer, text.data(), text.size(), MSG_DONTWAIT), ssize_t(text.size()));
        for (int i = 0; i < round; i++) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_cancel(copying, nullptr), 0);
        join(copying);
        EXPECT_EQ(result, -ECANCELED);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(text_of(to), text.substr(0, size_t(written)));
        EXPECT_EQ(written + int64_t(drain(pair.reader).size()), int64_t(text.size()));
    }
}

// It takes whatever room the target has, and returns.
TEST(Copy, AnInterruptIsNoOtherWait) {
    const std::string text = pattern(often(1000000, 300000));
    for (const Kind kind : {Kind::unix_stream, Kind::pipe}) {
        Descriptor from = file_of(text);
        Stream pair = make_stream(kind);
        lessen_room(pair.writer);
        int64_t result = 0, written = -1, lost = -1;
        auto body = [&] { result = copy_all(from, pair.writer, &written, &lost); };
        fiber_t copying = start(body);
        EXPECT_TRUE(eventually([&] {
            pollfd full = {pair.writer, POLLOUT, 0};
            return ::poll(&full, 1, 0) == 0 && fiber_state(copying) == FIBER_WAITING;
        }));
        const std::string got = drain(pair.reader); // and there is room
        EXPECT_EQ(fiber_interrupt(copying, nullptr), 0);
        EXPECT_TRUE(eventually([&] { return fiber_state(copying) == FIBER_DEAD; }));
        (void)fiber_cancel(copying, nullptr);
        join(copying);
        EXPECT_EQ(result, -EINTR);
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(position(from), written);
        EXPECT_TRUE(got + drain(pair.reader) == text.substr(0, size_t(written)));
    }
}

// The end of a copy's thread frees the copy's own resources once no operation works on them.
TEST(Copy, AThreadThatEndsInTheMiddle) {
    NOT_ON_SIM("has one thread");
    int datagrams[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams), 0);
    Descriptor quiet(datagrams[0]), other(datagrams[1]);
    Stream in = make_stream(Kind::unix_stream), out = make_stream(Kind::unix_stream);
    EXPECT_EQ(plain_write(in.writer, "text"), 4);
    fill(out.writer);
    Descriptor from = file_of(pattern(1 << 20)), to = file_of(""), appended = file_of("");
    EXPECT_EQ(fcntl(appended, F_SETFL, O_APPEND), 0);
    EXPECT_EQ(fiber_fsync(to), 0);
    const int before = entry_count("/proc/self/fd");
    {
        Doomed by_buffer([&] { fiber_copy(quiet, to, FIBER_COPY_ALL, nullptr, nullptr); }, 2);
    }
    {
        Doomed by_pipe([&] { fiber_copy(in.reader, out.writer, FIBER_COPY_ALL, nullptr, nullptr); });
    }
    {
        Doomed between_files([&] { fiber_copy(from, appended, FIBER_COPY_ALL, nullptr, nullptr); });
    }
    EXPECT_EQ(entry_count("/proc/self/fd"), before);
    EXPECT_EQ(text_of(to), "");
}

// Which would have no end.
TEST(Copy, AFileIntoItselfEndsWhereItsEndWas) {
    const std::string text = pattern(300000);
    for (const bool append : {false, true}) {
        Descriptor file = file_of(text);
        Descriptor out(::open(("/proc/self/fd/" + std::to_string(int(file))).c_str(), O_RDWR | O_CLOEXEC));
        ASSERT_GE(out, 0) << strerror(errno);
        if (append) {
            EXPECT_EQ(fcntl(out, F_SETFL, O_APPEND), 0);
        }
        if (!append) {
            EXPECT_EQ(::lseek(out, 300000, SEEK_SET), 300000);
        }
        EXPECT_EQ(fiber_copy(file, out, FIBER_COPY_ALL, nullptr, nullptr), 300000);
        EXPECT_TRUE(text_of(file) == text + text);
        EXPECT_EQ(position(file), 300000);
        if (append) continue;
        int64_t written = -1;
        EXPECT_EQ(::lseek(file, 0, SEEK_SET), 0);
        for (const off_t over : {0, 1, 599999}) { // the first bytes of the source, all but one of them, or the last
            EXPECT_EQ(::lseek(out, over, SEEK_SET), over);
            EXPECT_EQ(fiber_copy(file, out, FIBER_COPY_ALL, &written, nullptr), -EINVAL) << over;
            EXPECT_EQ(written, 0);
        }
        EXPECT_TRUE(text_of(file) == text + text);
        EXPECT_EQ(fiber_copy(file, out, 1, nullptr, nullptr), 1); // which are apart
        EXPECT_EQ(::lseek(file, 600001, SEEK_SET), 600001);
        EXPECT_EQ(fiber_copy(file, out, FIBER_COPY_ALL, nullptr, nullptr), 0); // from behind its end
    }
    if (!simulated()) { // whose files are not so large; nor are they on most disks
        Descriptor vast(::memfd_create("vast", MFD_CLOEXEC));
        EXPECT_EQ(::ftruncate(vast, INT64_MAX), 0);
        Descriptor out(::open(("/proc/self/fd/" + std::to_string(int(vast))).c_str(), O_RDWR | O_CLOEXEC));
        EXPECT_EQ(::lseek(out, INT64_MAX / 2 + 1, SEEK_SET), INT64_MAX / 2 + 1);
        fiber_scope_t brief{};
        EXPECT_EQ(fiber_scope_open(&brief, FIBER_MSEC(100), 0), 0);
        EXPECT_EQ(fiber_copy(vast, out, FIBER_COPY_ALL, nullptr, nullptr), -EINVAL);
        fiber_scope_close(brief, nullptr);
    }
    Pipe pipe;
    EXPECT_EQ(plain_write(pipe.write_end, "round"), 5);
    EXPECT_EQ(fiber_copy(pipe.read_end, pipe.write_end, FIBER_COPY_ALL, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(drain(pipe.read_end), "round");
}

// The one that is not waited for counts as in use as well.
TEST(Copy, TheCloseOfEitherEndEndsIt) {
    for (const bool close_out : {false, true}) {
        Stream in = make_stream(Kind::unix_stream), out = make_stream(Kind::unix_stream);
        int64_t result = 0, spliced = 0;
        Pipe pipe;
        auto body = [&] { result = copy_all(in.reader, out.writer); };
        auto splicer = [&] { spliced = fiber_splice(pipe.read_end, nullptr, out.writer, nullptr, 4, 0); };
        fiber_t fiber = start(body), other = start(splicer);
        settle();
        EXPECT_EQ(fiber_close(close_out ? out.writer.release() : in.reader.release()), 0);
        join(fiber);
        EXPECT_EQ(result, -EBADF);
        if (!close_out) {
            EXPECT_EQ(fiber_cancel(other, nullptr), 0);
        }
        join(other);
        EXPECT_EQ(spliced, close_out ? -EBADF : -ECANCELED);
    }
}

} // namespace
