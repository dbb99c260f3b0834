// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens FIFOs without a thread that blocks in open(2). Only a signal or an open of the other side could end such a
// block.
//
// With O_NONBLOCK an open for reading succeeds at once, and writers then find a reader, as if a reader waited in
// open(2). An open for writing fails as long as no reader is there. The kernel does not report that the other side has
// come, so the fiber checks at intervals that grow from 1 to 16 ms.
#include "io/fifo.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt {

namespace {

bool opens_for_reading(const Op& op) { return (op.flags & O_ACCMODE) == O_RDONLY; }

bool is_fifo(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 && S_ISFIFO(file.st_mode);
}

// Whether the FIFO that is open for reading has a writer, or has had one since it was opened. Takes no data: without
// data, tee(2) returns 0 if a read would find the end, and fails with EAGAIN if it would wait.
bool has_writer(int fd) {
    pollfd look = {fd, POLLIN, 0};
    if (poll(&look, 1, 0) > 0) return true; // data, or POLLHUP: a writer has been there
    int scratch[2];
    if (pipe2(scratch, O_CLOEXEC) < 0) return false; // no free descriptor: not known
    ssize_t copied = tee(fd, scratch[1], 1, SPLICE_F_NONBLOCK);
    bool has = copied > 0 || (copied < 0 && errno == EAGAIN);
    close(scratch[0]);
    close(scratch[1]);
    return has;
}

int open_pinned(int pin, const Op& op) {
    int flags = (int(op.flags) & ~O_CREAT) | O_NONBLOCK | O_CLOEXEC;
    char path[32];
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", pin);
    int fd = open(path, flags & ~O_NOFOLLOW);                       // this path is a symbolic link
    if (fd < 0 && errno == ENOENT) fd = open_with_flags(op, flags); // no /proc
    return fd < 0 ? -errno : fd;
}

// Asks the kernel whether it permits an open with O_CREAT. With that flag it does not open other users' FIFOs in
// directories like /tmp (fs.protected_fifos), and it checks only opens with the flag, by path. Returns 0, the kernel's
// error, or -EAGAIN: the path now names something else.
int open_refused(int pin, const Op& op) {
    if (!(op.flags & O_CREAT)) return 0;
    int fd = open_with_flags(op, int(op.flags) | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENXIO ? 0 : -errno; // ENXIO: no reader; the kernel did not refuse
    struct stat pinned, opened;
    bool same = fstat(pin, &pinned) == 0 && fstat(fd, &opened) == 0 && pinned.st_dev == opened.st_dev &&
                pinned.st_ino == opened.st_ino;
    close(fd);
    return same ? 0 : -EAGAIN;
}

// Whether the open has ended: held.fd is a descriptor whose other side is there, or an error.
bool has_ended(const FifoOpen& held, const Op& op) {
    return opens_for_reading(op) && held.fd >= 0 ? has_writer(held.fd) : held.fd != -ENXIO;
}

// Checks the other side again, then returns whether the open has ended.
bool ends_now(FifoOpen& held, const Op& op) {
    if (!opens_for_reading(op)) held.fd = open_pinned(held.pin, op);
    if (held.fd == -EMFILE || held.fd == -ENFILE) held.fd = -ENXIO; // the wait for a reader goes on
    return has_ended(held, op);
}

// Gives the descriptor the flags that the caller asked for, and returns it.
int finish(FifoOpen& held, const Op& op) {
    int fd = held.fd;
    held.fd = -1;
    if (fd < 0) return fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    if (!(op.flags & O_CLOEXEC)) fcntl(fd, F_SETFD, 0);
    return fd;
}

} // namespace

FifoOpen::~FifoOpen() {
    if (linked()) unlink();
    close_all();
}

void FifoOpen::close_all() {
    if (pin >= 0) close(pin);
    if (fd >= 0) close(fd);
    pin = fd = -1;
}

int64_t open_fifo(DescriptorGuard& guard, const Op& op) {
    Op pinning(op.code, DescriptorGuard::none);
    pinning.address = op.address;
    pinning.flags = unsigned(O_PATH | O_CLOEXEC) | (op.flags & O_NOFOLLOW);
    open_how how = {};
    if (op.code == OpCode::open2) {
        how = *static_cast<const open_how*>(op.address2);
        how.flags = pinning.flags;
        how.mode = 0;
        pinning.offset = op.offset;
        pinning.address2 = &how;
        pinning.length = sizeof how;
    }
    int64_t pin = guard.run(pinning);
    if (pin < 0) return pin;
    KeepErrno keep;
    FifoOpen held;
    held.pin = int(pin);
    static_cast<Io*>(this_cord->io)->fifos.push_back(&held);
    if (!is_fifo(held.pin)) return -EAGAIN;
    held.fd = open_pinned(held.pin, op);
    if (int refusal = open_refused(held.pin, op)) return refusal;
    int error = 0;
    bool ended = has_ended(held, op);
    for (int64_t pause_ns = first_pause_ns; !ended; ended = ends_now(held, op)) {
        if (error) return error;
        error = guard.pause(pause_ns); // one more check follows: an open that succeeds comes before the error
        if (pause_ns < longest_pause_ns) pause_ns *= 2;
    }
    if (error) guard.not_ended_by(error);
    return finish(held, op);
}

int64_t run_open(DescriptorGuard& guard, Op& op) {
    int64_t result = guard.run(op);
    // At most a few times: the path may name something else each time, and some drivers return -EAGAIN for other
    // reasons.
    for (int times = 0; result == -EAGAIN && waits_if_fifo(op) && times < 4; times++) {
        result = open_fifo(guard, op);
        if (result == -EAGAIN) result = guard.run(op);
    }
    return result;
}

} // namespace fiberrt
