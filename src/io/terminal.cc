// SPDX-License-Identifier: MIT OR Apache-2.0
// Modes of terminals, their readable bytes, and job control.
#include "io/terminal.h"

#include "base/keep_errno.h"
#include "core/backend.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int64_t decisecond_ns = 100'000'000;

// Whether fd is a pty's master, which answers termios calls for its slave.
bool is_master(int fd) {
    int number; // only masters have one, also under qemu-user, which does not know TIOCGPKT
    return ioctl(fd, TIOCGPTN, &number) == 0;
}

bool in_background(int fd) {
    pid_t foreground = tcgetpgrp(fd); // -1: it is not the controlling terminal
    return foreground >= 0 && foreground != getpgrp() && !is_master(fd);
}

} // namespace

bool terminal_mode(int fd, TerminalMode* out) {
    KeepErrno keep;
    termios mode;
    if (tcgetattr(fd, &mode) < 0) return false;
    out->lines = mode.c_lflag & ICANON;
    out->stops_writers = mode.c_lflag & TOSTOP;
    out->least = mode.c_cc[VMIN];
    out->time_ns = mode.c_cc[VTIME] * decisecond_ns;
    if (!out->lines && out->least != 1 && is_master(fd)) out->least = 1;
    return true;
}

size_t readable_now(int fd, const TerminalMode& mode, size_t most, size_t taken) {
    KeepErrno keep;
    pollfd look = {fd, POLLIN, 0}; // true for a report in packet mode too (POLLIN and POLLPRI)
    int events = poll(&look, 1, 0) > 0 ? look.revents : 0;
    if (events & ~POLLIN) return most; // the end, or an error
    if (mode.lines || mode.least <= 1) return events ? most : 0;
    int count = 0;
    if (ioctl(fd, FIONREAD, &count) < 0) return events ? most : 0; // another line discipline has no FIONREAD
    auto there = size_t(count);
    size_t left = mode.least > taken ? mode.least - taken : 1;
    size_t least = mode.time_ns ? 1 : most < left ? most : left;
    return there < least ? 0 : there < most ? there : most;
}

size_t readable_now(int fd, size_t most) {
    TerminalMode mode;
    if (!terminal_mode(fd, &mode)) mode = {true, false, 1, 0};
    return readable_now(fd, mode, most, 0);
}

bool terminal_hung_up(int fd) {
    KeepErrno keep;
    pollfd look = {fd, 0, 0};
    return poll(&look, 1, 0) > 0;
}

int terminal_check_read(int fd) {
    KeepErrno keep;
    if (!in_background(fd)) return 0;
    return read(fd, nullptr, 0) < 0 ? -errno : 1;
}

int terminal_check_write(int fd, const TerminalMode& mode) {
    KeepErrno keep;
    if (!mode.stops_writers || !in_background(fd)) return 0;
    constexpr int no_queue = -1; // the kernel checks job control first, then refuses this
    ioctl(fd, TCFLSH, no_queue);
    return errno == EINVAL ? 0 : -errno;
}

int check_write(int fd) {
    TerminalMode mode;
    return !simulated() && terminal_mode(fd, &mode) ? terminal_check_write(fd, mode) : 0;
}

} // namespace fiberrt
