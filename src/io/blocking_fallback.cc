// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations by plain system calls that may block their thread.
//
// The threads of the pool (io/offload.h) make these calls. If neither the kernel nor the pool can make a thread
// (RLIMIT_NPROC), the cord's own thread does: better that it waits for a disk than that files cannot be used at all.
#include "io/op.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "io/file_status.h"
#include "io/iovecs.h"
#include "io/terminal.h"
#include "io/try_op.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

namespace {

const char* path_of(const Op& op) { return static_cast<const char*>(op.address); }
int folder_of(const Op& op) { return int(int64_t(op.offset)); }

// Returns -EAGAIN if the path names a FIFO, whose open could block for ever; -E... if that could not be found out
// because there is no free number or memory; otherwise 0.
int not_to_be_opened(const Op& op) {
    struct stat file;
    int error = path_status(op, &file);
    if (!error) return S_ISFIFO(file.st_mode) ? -EAGAIN : 0;
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM ? error : 0; // the open will report any other error
}

int64_t copy_range(const Op& op) {
    const auto& out = *static_cast<const OutEnd*>(op.address);
    off_t from = off_t(op.offset), to = off_t(out.offset);
    return copy_file_range(op.fd, &from, out.fd, &to, op.length, 0);
}

bool is_read(const Op& op) { return op.code == OpCode::read || op.code == OpCode::readv; }

// Whether a plain transfer ends by itself. Transfers of sockets, and writes to pipes and the like, do not, because they
// wait for readiness; for these, -ECANCELED does not mean that the kernel lacked a thread. Other reads poll first.
bool ends_by_itself(const Op& op) {
    struct stat file;
    if (fstat(op.fd, &file) < 0 || S_ISSOCK(file.st_mode)) return false;
    return is_read(op) || S_ISREG(file.st_mode) || S_ISBLK(file.st_mode) || S_ISCHR(file.st_mode);
}

// The lock that a thread holds while it polls a device and reads it, so that no other thread of the library reads in
// between. Several devices share a lock: if another process takes the bytes first, only readers of these devices wait.
struct DeviceLock {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
};
constinit DeviceLock device_locks[16]; // device_lock_of() picks one

// Holds the lock of a device. A cord's own thread only tries to take it: the thread that holds it may block if another
// process takes the bytes.
class DeviceLockHeld {
public:
    explicit DeviceLockHeld(pthread_mutex_t& mutex)
        : mutex_(mutex), held_((this_cord ? pthread_mutex_trylock(&mutex_) : pthread_mutex_lock(&mutex_)) == 0) {}
    ~DeviceLockHeld() {
        if (held_) pthread_mutex_unlock(&mutex_);
    }
    DeviceLockHeld(const DeviceLockHeld&) = delete;
    DeviceLockHeld& operator=(const DeviceLockHeld&) = delete;
    operator bool() const { return held_; }

private:
    pthread_mutex_t& mutex_;
    bool held_;
};

pthread_mutex_t& device_lock_of(int fd, const struct stat& file) {
    // All descriptors that belong to no file system share one inode, and so do all masters of ptys.
    uint64_t number = file.st_mode & S_IFMT ? file.st_rdev << 32 ^ file.st_ino : uint64_t(fd);
    int pty = 0;
    if (S_ISCHR(file.st_mode)) ioctl(fd, TIOCGPTN, &pty);
    constexpr uint64_t spread = 0x9e3779b97f4a7c15; // multiplicative hashing: uses the product's upper bits
    return device_locks[(number ^ uint64_t(pty) << 16) * spread >> 60].mutex;
}

// Reads the bytes that are available; fails with EAGAIN instead of waiting.
int64_t read_if_ready(const Op& op, Iovecs& iovecs) {
    struct stat file;
    bool waits = fstat(op.fd, &file) == 0 && !S_ISREG(file.st_mode) && !S_ISBLK(file.st_mode) && iovecs.bytes();
    auto call = [&] {
        return preadv2(op.fd, iovecs.iov, iovecs.count, off_t(op.offset), 0);
    }; // ~0: at its own position
    if (!waits) return call();
    DeviceLockHeld held(device_lock_of(op.fd, file));
    size_t there = held ? readable_now(op.fd, iovecs.bytes()) : 0;
    if (!there) {
        errno = EAGAIN;
        return -1;
    }
    iovecs.cut(there);
    return call();
}

// Splices as many bytes between a pipe and a device as have room; fails with EAGAIN instead of waiting.
int64_t splice_if_ready(const Op& op) {
    const auto& out = *static_cast<const OutEnd*>(op.address);
    struct stat from, to;
    bool device_reads = fstat(op.fd, &from) == 0 && S_ISCHR(from.st_mode);
    bool device_writes = fstat(out.fd, &to) == 0 && S_ISCHR(to.st_mode);
    if (!device_reads && !device_writes) return splice_call(op);
    DeviceLockHeld held(device_reads ? device_lock_of(op.fd, from) : device_lock_of(out.fd, to));
    if (!held || !can_splice_device(op)) { // coverage: race
        errno = EAGAIN;
        return -1;
    }
    size_t room = device_reads ? readable_now(op.fd, op.length) : isatty(out.fd) ? terminal_room : PIPE_BUF;
    return splice_call(op, room);
}

bool writable(int fd) {
    pollfd look = {fd, POLLOUT, 0};
    return poll(&look, 1, 0) > 0;
}

// Writes as many bytes as a terminal accepts without a wait. It was ready a moment ago.
int64_t write_terminal(int fd, const Iovecs& iovecs) {
    int64_t sum = 0;
    for (int i = 0; i < iovecs.count;) {
        // As many buffers as fit into terminal_room, or a part of one.
        iovec piece = iovecs.iov[i];
        size_t bytes = piece.iov_len;
        int count = 1;
        while (i + count < iovecs.count && bytes + iovecs.iov[i + count].iov_len <= terminal_room) {
            bytes += iovecs.iov[i + count++].iov_len;
        }
        const iovec* group = iovecs.iov + i;
        for (size_t done = 0; done < bytes || bytes == 0;) {
            if (count == 1) {
                size_t left = bytes - done;
                piece = {static_cast<char*>(iovecs.iov[i].iov_base) + done,
                         left < terminal_room ? left : terminal_room};
                group = &piece;
            }
            if (sum && !writable(fd)) return sum;
            ssize_t put = writev(fd, group, count);
            if (put < 0) return sum ? sum : put;
            sum += put;
            done += size_t(put);
            if (bytes == 0) break;
            if (count > 1 && done < bytes) return sum; // a short write: there is no more room
        }
        i += count;
    }
    return sum;
}

int64_t call_plainly(const Op& op) {
    Iovecs iovecs(op);
    bool writes = op.code == OpCode::write || op.code == OpCode::writev;
    if (op.may_block && writes && isatty(op.fd)) return write_terminal(op.fd, iovecs);
    switch (op.code) {
    case OpCode::open: return open(path_of(op), int(op.flags), op.length);
    case OpCode::open2: return syscall(SYS_openat2, folder_of(op), path_of(op), op.address2, size_t{op.length});
    case OpCode::rename:
        return syscall(SYS_renameat2, folder_of(op), path_of(op), int(op.length), op.address2, op.flags);
    case OpCode::unlink: return unlinkat(folder_of(op), path_of(op), int(op.flags));
    case OpCode::mkdir: return mkdirat(folder_of(op), path_of(op), op.length);
    case OpCode::getdents: return syscall(SYS_getdents64, op.fd, op.address, op.length);
    case OpCode::splice: return splice_if_ready(op);
    case OpCode::copy_range: return copy_range(op);
    case OpCode::statx:
        return statx(folder_of(op), path_of(op), int(op.flags), op.length, static_cast<struct statx*>(op.address2));
    case OpCode::close: return close(int(op.offset)) < 0 && errno != EINTR ? -1 : 0; // EINTR: it is closed nevertheless
    case OpCode::fsync: return op.flags & fsync_data_only ? fdatasync(op.fd) : fsync(op.fd);
    case OpCode::read:
    case OpCode::readv: return read_if_ready(op, iovecs);
    case OpCode::write:
    case OpCode::writev: return pwritev2(op.fd, iovecs.iov, iovecs.count, off_t(op.offset), 0);
    case OpCode::recv:
    case OpCode::send:
    case OpCode::recvmsg:
    case OpCode::sendmsg:
    case OpCode::accept:
    case OpCode::connect:
    case OpCode::poll:
    case OpCode::moment: break; // never given to a plain call
    }
    errno = EIO; // coverage: kernel
    return -1;   // coverage: kernel
}

} // namespace

void blocking_fallback_forked() {
    for (DeviceLock& lock : device_locks) new (&lock) DeviceLock;
}

bool can_splice_device(const Op& op) {
    const auto& out = *static_cast<const OutEnd*>(op.address);
    pollfd room = {out.fd, POLLOUT, 0};
    return readable_now(op.fd, op.length) && poll(&room, 1, 0) > 0;
}

bool waits_if_fifo(const Op& op) {
    int flags = int(op.flags);
    bool new_file = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    bool opens = op.code == OpCode::open || op.code == OpCode::open2;
    return opens && !new_file && !(flags & (O_NONBLOCK | O_PATH | O_DIRECTORY)) && (flags & O_ACCMODE) != O_RDWR;
}

int open_with_flags(const Op& op, int flags) {
    if (op.code == OpCode::open) return open(path_of(op), flags, op.length);
    open_how how = *static_cast<const open_how*>(op.address2);
    how.flags = unsigned(flags);
    if (!(flags & makes_file)) how.mode = 0;
    return int(syscall(SYS_openat2, folder_of(op), path_of(op), &how, sizeof how));
}

int path_status(const Op& op, struct stat* out) {
    if (op.code == OpCode::open) {
        int flags = op.flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
        return fstatat(AT_FDCWD, path_of(op), out, flags) < 0 ? -errno : 0;
    }
    // Resolves the path as openat2 does
    int fd = open_with_flags(op, O_PATH | O_CLOEXEC | (int(op.flags) & O_NOFOLLOW));
    if (fd < 0) return -errno;
    int error = fstat(fd, out) < 0 ? -errno : 0;
    close(fd);
    return error;
}

int64_t blocking_fallback(const Op& op) {
    KeepErrno keep;
    bool transfer = op.code <= OpCode::writev;
    if (transfer && !ends_by_itself(op)) return -EIO;
    if (waits_if_fifo(op)) {
        if (int error = not_to_be_opened(op)) return error;
    }
    int64_t result;
    do {
        result = call_plainly(op);
    } while (result < 0 && errno == EINTR);
    if (result >= 0) return result;
    return errno == ECANCELED ? -EIO : -errno; // the caller would take ECANCELED for its own
}

} // namespace fiberrt
