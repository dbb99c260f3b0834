// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `io`: transfers over a system whose calls move less than they could, are interrupted, would wait, or fail.
//
// In a simulation, whose choices are the input's, with its faults or without. Four streams (two pipes and both
// directions of a pair of sockets), each with a fiber that writes a known sequence of bytes in pieces and one that
// reads it; and a file that a fiber reads and writes at its position and elsewhere. The running fiber takes the next
// bytes of the input: which call, how many bytes, in how many buffers, empty ones among them, under which time limit.
// Each system call takes bytes too: they decide its outcome.
//
// A library call must return what the system did: the bytes are the next of the sequence, none is lost or comes
// twice, also where a time limit strikes; 0 is the end and nothing else; an error is one that the system gave.
#include "check.h"

#include "fiberrt.h"
#include "sim/sim.h"

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <memory>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr int stream_count = 4;

uint8_t pattern(int stream, uint64_t at) { return uint8_t(at * 31 + (at >> 8) * 7 + unsigned(stream) * 97); }

// The system's transfers on one descriptor, in one direction.
struct End {
    int fd = -1;
    int64_t moved = 0; // bytes, in all
    int error = 0;     // that it was made to give since the last call of the library's began
};

struct Trial {
    explicit Trial(Input& bytes) : input(bytes) {}
    Input& input;
    End reads[stream_count], writes[stream_count]; // of the streams
    End file;

    End* end_of(int fd, bool writing) {
        for (End& end : writing ? writes : reads) {
            if (end.fd == fd || is_pipe_of(fd, end.fd)) return &end;
        }
        return file.fd == fd ? &file : nullptr;
    }

private:
    // Where the kernel has no RWF_NOWAIT, the library opens a pipe once more to write without a wait.
    static bool is_pipe_of(int fd, int known) {
        struct stat one, other;
        return fstat(fd, &one) == 0 && S_ISFIFO(one.st_mode) && fstat(known, &other) == 0 &&
               one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    }
};
Trial* trial;

// ---- the system -----------------------------------------------------------------------------------------------------

struct Fate {
    End* end;
    int error;    // 0: it is called
    size_t bytes; // at most
};

// may_wait: EAGAIN is an answer to this call.
Fate fate_of(int fd, bool writing, size_t bytes, bool may_wait) {
    End* end = trial ? trial->end_of(fd, writing) : nullptr;
    if (!end || trial->input.done()) return {end, 0, bytes};
    uint8_t how = trial->input.byte();
    switch (how % 16) {
    case 1: return {end, EINTR, 0};
    case 2:
        if (may_wait) return {end, EAGAIN, 0};
        break;
    case 3:
        if (how < 128) break;
        end->error = how & 16 ? EIO : ENOBUFS;
        return {end, end->error, 0};
    case 4:
    case 5:
    case 6:
        if (bytes > 1) return {end, 0, 1 + how % (bytes - 1)};
        break;
    default: break;
    }
    return {end, 0, bytes};
}

// Buffers cut to so many bytes.
std::vector<iovec> cut(const iovec* parts, size_t count, size_t bytes) {
    std::vector<iovec> all(parts, parts + count);
    for (iovec& part : all) {
        part.iov_len = std::min(part.iov_len, bytes);
        bytes -= part.iov_len;
    }
    return all;
}

size_t bytes_in(const iovec* parts, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += parts[i].iov_len;
    return sum;
}

// call(bytes): the system call for at most so many.
template <class Call>
ssize_t call_with_outcome(int fd, bool writing, size_t bytes, bool may_wait, Call call) {
    Fate fate = fate_of(fd, writing, bytes, may_wait);
    if (fate.error) {
        errno = fate.error;
        return -1;
    }
    ssize_t result = call(fate.bytes);
    if (fate.end && result > 0) fate.end->moved += result;
    return result;
}

bool may_wait(int fd, int flags) { return !trial || trial->file.fd != fd || flags & RWF_NOWAIT; }

} // namespace

extern "C" {
ssize_t __real_preadv2(int fd, const iovec* parts, int count, off_t at, int flags);
ssize_t __real_pwritev2(int fd, const iovec* parts, int count, off_t at, int flags);
ssize_t __real_recv(int fd, void* buffer, size_t bytes, int flags);
ssize_t __real_send(int fd, const void* buffer, size_t bytes, int flags);
ssize_t __real_recvmsg(int fd, msghdr* message, int flags);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);

ssize_t __wrap_preadv2(int fd, const iovec* parts, int count, off_t at, int flags) {
    return call_with_outcome(fd, false, bytes_in(parts, size_t(count)), may_wait(fd, flags), [&](size_t most) {
        return __real_preadv2(fd, cut(parts, size_t(count), most).data(), count, at, flags);
    });
}
ssize_t __wrap_pwritev2(int fd, const iovec* parts, int count, off_t at, int flags) {
    return call_with_outcome(fd, true, bytes_in(parts, size_t(count)), may_wait(fd, flags), [&](size_t most) {
        return __real_pwritev2(fd, cut(parts, size_t(count), most).data(), count, at, flags);
    });
}
ssize_t __wrap_recv(int fd, void* buffer, size_t bytes, int flags) {
    return call_with_outcome(fd, false, bytes, true, [&](size_t most) { return __real_recv(fd, buffer, most, flags); });
}
ssize_t __wrap_send(int fd, const void* buffer, size_t bytes, int flags) {
    if (!bytes) return __real_send(fd, buffer, bytes, flags); // the simulation asks whether a send would be refused
    return call_with_outcome(fd, true, bytes, true, [&](size_t most) { return __real_send(fd, buffer, most, flags); });
}
ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
    return call_with_outcome(fd, false, bytes_in(message->msg_iov, message->msg_iovlen), true, [&](size_t most) {
        std::vector<iovec> parts = cut(message->msg_iov, message->msg_iovlen, most);
        iovec* given = message->msg_iov;
        message->msg_iov = parts.data();
        ssize_t result = __real_recvmsg(fd, message, flags);
        message->msg_iov = given;
        return result;
    });
}
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
    return call_with_outcome(fd, true, bytes_in(message->msg_iov, message->msg_iovlen), true, [&](size_t most) {
        std::vector<iovec> parts = cut(message->msg_iov, message->msg_iovlen, most);
        msghdr less = *message;
        less.msg_iov = parts.data();
        return __real_sendmsg(fd, &less, flags);
    });
}
}

namespace {

// ---- a library call, and the results that it may return -------------------------------------------------------------

// Calls under a time limit, or none, and checks the result against the bytes that the system moved. whole: if bytes
// were moved before an error, the call returns their number instead; dont_wait: also instead of -EAGAIN.
template <class Call>
int64_t checked(End& end, size_t wanted, uint8_t limit, bool whole, bool dont_wait, Call call) {
    fiber_scope_t scope = {};
    bool limited = limit % 8 == 0;
    if (limited) FUZZ_CHECK_EQ(fiber_scope_open(&scope, int64_t(limit) * 10, 0), 0);
    int64_t before = end.moved;
    end.error = 0;
    errno = 77;
    int64_t result = call();
    FUZZ_CHECK_EQ(errno, 77);
    if (limited) {
        int verdict = fiber_scope_close(scope, nullptr);
        FUZZ_CHECK(verdict == 0 || verdict == -ETIMEDOUT);
        if (result == -ETIMEDOUT) FUZZ_CHECK_EQ(verdict, -ETIMEDOUT);
    }
    FUZZ_CHECK(result <= int64_t(wanted));
    FUZZ_CHECK_EQ(end.moved - before, result > 0 ? result : 0);
    if (result < 0) {
        bool told = end.error && result == -end.error;
        FUZZ_CHECK(told || (limited && result == -ETIMEDOUT) || (dont_wait && result == -EAGAIN));
    } else if (end.error) {
        FUZZ_CHECK(whole && result);
    }
    return result;
}

// A buffer cut into pieces, as the input says; some are empty.
struct Pieces {
    std::vector<iovec> parts;
    Pieces(Input& input, uint8_t* bytes, size_t count) {
        unsigned how = input.byte();
        if (how & 4) parts.push_back({bytes, 0});
        for (size_t at = 0; at < count;) {
            if (how & 1) parts.push_back({how & 2 ? nullptr : bytes, 0});
            size_t some = parts.size() < 12 ? std::min(count - at, size_t(1 + how * 3 % 700)) : count - at;
            parts.push_back({bytes + at, some});
            at += some;
            how = how >> 1 | (how & 1) << 7;
        }
        if (how & 8 || parts.empty()) parts.push_back({bytes, 0});
    }
    int count() const { return int(parts.size()); }
    msghdr message() {
        msghdr header = {};
        header.msg_iov = parts.data();
        header.msg_iovlen = parts.size();
        return header;
    }
};

size_t some_bytes(Input& input) {
    unsigned byte = input.byte();
    return byte < 128 ? byte : size_t(byte - 127) << (byte & 7);
}

struct Stream {
    Trial& its;
    int number;
    bool socket;
    uint64_t written = 0, read = 0;
    bool closed = false;

    void* write_all() {
        End& end = its.writes[number];
        while (!its.input.done()) {
            uint8_t op = its.input.byte(), limit = its.input.byte();
            if (op % 8 == 7) {
                FUZZ_CHECK_EQ(fiber_sleep(op * 5), 0);
                continue;
            }
            size_t count = some_bytes(its.input);
            std::vector<uint8_t> bytes(count + 1);
            for (size_t i = 0; i < count; i++) bytes[i] = pattern(number, written + i);
            Pieces pieces(its.input, bytes.data(), count);
            msghdr message = pieces.message();
            bool as_socket = socket && op & 2;
            bool dont_wait = as_socket && op & 64;
            int flags = dont_wait ? MSG_DONTWAIT : 0;
            int64_t result = checked(end, count, limit, false, dont_wait, [&]() -> int64_t {
                if (as_socket) {
                    return op & 1 ? fiber_sendmsg(end.fd, &message, flags)
                                  : fiber_send(end.fd, bytes.data(), count, flags);
                }
                return op & 1 ? fiber_writev(end.fd, pieces.parts.data(), pieces.count())
                              : fiber_write(end.fd, bytes.data(), count);
            });
            if (result == 0) FUZZ_CHECK_EQ(count, 0);
            if (result > 0) written += uint64_t(result);
        }
        closed = true;
        if (socket) {
            FUZZ_CHECK_EQ(shutdown(end.fd, SHUT_WR), 0);
        } else {
            FUZZ_CHECK_EQ(fiber_close(end.fd), 0);
            end.fd = -1;
        }
        return nullptr;
    }

    void* read_all() {
        End& end = its.reads[number];
        for (bool over = false; !over;) {
            bool last = its.input.done();
            uint8_t op = its.input.byte(), limit = last ? 1 : its.input.byte();
            if (op % 8 == 7) {
                FUZZ_CHECK_EQ(fiber_sleep(op * 5), 0);
                continue;
            }
            size_t count = last ? 4096 : some_bytes(its.input);
            std::vector<uint8_t> bytes(count + 1);
            Pieces pieces(its.input, bytes.data(), count);
            msghdr message = pieces.message();
            bool as_socket = socket && op & 2;
            bool dont_wait = as_socket && op & 64;
            bool whole = as_socket && !dont_wait && op & 32;
            int flags = dont_wait ? MSG_DONTWAIT : whole ? MSG_WAITALL : 0;
            int64_t result = checked(end, count, limit, whole, dont_wait, [&]() -> int64_t {
                if (as_socket) {
                    return op & 1 ? fiber_recvmsg(end.fd, &message, flags)
                                  : fiber_recv(end.fd, bytes.data(), count, flags);
                }
                return op & 1 ? fiber_readv(end.fd, pieces.parts.data(), pieces.count())
                              : fiber_read(end.fd, bytes.data(), count);
            });
            size_t got = size_t(result > 0 ? result : 0);
            for (size_t i = 0; i < got; i++) FUZZ_CHECK_EQ(bytes[i], pattern(number, read + i));
            for (size_t i = got; i <= count; i++) FUZZ_CHECK_EQ(bytes[i], 0);
            read += got;
            if (result == 0 && count) {
                FUZZ_CHECK(closed);
                FUZZ_CHECK_EQ(read, written);
                over = true;
            }
        }
        return nullptr;
    }
};

// The file, and its content.
struct File {
    Trial& its;
    std::vector<uint8_t> content = {};
    size_t position = 0;

    void* use() {
        End& end = its.file;
        while (!its.input.done()) {
            uint8_t op = its.input.byte();
            size_t count = some_bytes(its.input);
            bool own = op & 16, writes = op & 1;
            size_t at = own ? position : its.input.byte() * 16u;
            std::vector<uint8_t> bytes(count + 1);
            for (size_t i = 0; writes && i < count; i++) bytes[i] = uint8_t(op + count + i);
            std::vector<uint8_t> given = bytes;
            Pieces pieces(its.input, bytes.data(), count);
            int64_t before = end.moved;
            end.error = 0;
            errno = 77;
            int64_t result;
            if (writes) {
                result = !own     ? fiber_pwrite(end.fd, bytes.data(), count, int64_t(at))
                         : op & 2 ? fiber_writev(end.fd, pieces.parts.data(), pieces.count())
                                  : fiber_write(end.fd, bytes.data(), count);
            } else {
                result = !own     ? fiber_pread(end.fd, bytes.data(), count, int64_t(at))
                         : op & 2 ? fiber_readv(end.fd, pieces.parts.data(), pieces.count())
                                  : fiber_read(end.fd, bytes.data(), count);
            }
            FUZZ_CHECK_EQ(errno, 77);
            FUZZ_CHECK(result <= int64_t(count));
            if (result < 0) FUZZ_CHECK_EQ(result, -end.error);
            size_t moved = size_t(result > 0 ? result : 0);
            // Bytes available at once may be read a second time, with the rest.
            FUZZ_CHECK(end.moved - before >= int64_t(moved));
            if (writes) {
                if (result == 0) FUZZ_CHECK_EQ(count, 0);
                FUZZ_CHECK(bytes == given);
                if (moved && content.size() < at + moved) content.resize(at + moved);
                for (size_t i = 0; i < moved; i++) content[at + i] = given[i];
            } else {
                if (result == 0 && count) FUZZ_CHECK(at >= content.size());
                FUZZ_CHECK(!moved || at + moved <= content.size());
                for (size_t i = 0; i < moved; i++) FUZZ_CHECK_EQ(bytes[i], content[at + i]);
            }
            if (own) position += moved;
            FUZZ_CHECK_EQ(lseek(end.fd, 0, SEEK_CUR), position);
            FUZZ_CHECK_EQ(lseek(end.fd, 0, SEEK_END), content.size());
            FUZZ_CHECK_EQ(lseek(end.fd, off_t(position), SEEK_SET), position);
            FUZZ_CHECK_EQ(fiber_reschedule(), 0);
        }
        return nullptr;
    }
};

template <class T, void* (T::*member)()>
void* run(void* object) {
    return (static_cast<T*>(object)->*member)();
}

void begin_simulation() {
    static bool begun;
    if (begun) return;
    begun = true;
    setenv("FIBERRT_BACKEND", "sim", 1);
    fiber_t self;
    FUZZ_CHECK_EQ(fiber_self(&self), 0);
    FUZZ_CHECK_EQ(strcmp(fiber_backend_name(), "sim"), 0);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    begin_simulation();
    Input input(data, size);
    uint8_t begin = input.byte();
    fiberrt::simulation.faults = begin & 1;
    fiberrt::simulation.choices.seed(begin >> 1);
    Trial its(input);
    for (int i = 0; i < 2; i++) {
        int ends[2];
        FUZZ_CHECK_EQ(pipe2(ends, begin & 8 ? O_NONBLOCK | O_CLOEXEC : O_CLOEXEC), 0);
        fcntl(ends[1], F_SETPIPE_SZ, 4096); // full soon; as large as it is will do
        its.reads[i].fd = ends[0];
        its.writes[i].fd = ends[1];
    }
    int pair[2];
    FUZZ_CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (int i = 0; i < 2; i++) {
        int bytes = 4096;
        FUZZ_CHECK_EQ(setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
        its.reads[2 + i].fd = pair[i];
        its.writes[2 + i].fd = pair[1 - i];
    }
    its.file.fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(its.file.fd >= 0);
    trial = &its;
    std::unique_ptr<Stream> streams[stream_count];
    File file{its};
    fiber_t fibers[2 * stream_count + 1];
    for (int i = 0; i < stream_count; i++) {
        streams[i].reset(new Stream{its, i, i >= 2});
        FUZZ_CHECK_EQ(fiber_spawn(&fibers[2 * i], run<Stream, &Stream::write_all>, streams[i].get()), 0);
        FUZZ_CHECK_EQ(fiber_spawn(&fibers[2 * i + 1], run<Stream, &Stream::read_all>, streams[i].get()), 0);
    }
    FUZZ_CHECK_EQ(fiber_spawn(&fibers[2 * stream_count], run<File, &File::use>, &file), 0);
    for (fiber_t fiber : fibers) FUZZ_CHECK_EQ(fiber_join(fiber, nullptr), 0);
    trial = nullptr;
    for (int fd : {pair[0], pair[1], its.file.fd, its.reads[0].fd, its.reads[1].fd}) close(fd);
    return 0;
}
