// SPDX-License-Identifier: MIT OR Apache-2.0
// When a read of a terminal ends: by its mode (termios(3): lines, VMIN, VTIME), and by job control.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

struct TerminalMode {
    bool lines;         // canonical: a read returns one line
    bool stops_writers; // TOSTOP: a process in the background may not write
    unsigned least;     // VMIN; 1 of a pty's master, whose reads no mode changes
    int64_t time_ns;    // VTIME: between two bytes, or, if `least` is 0, of the whole read; 0: no limit
};

// Whether fd is a terminal that is not hung up, and its mode.
bool terminal_mode(int fd, TerminalMode* out);

// How many of `most` bytes a read of a terminal may ask for so that it returns without a wait; 0: a read would wait. Also
// for other descriptors that can be polled.
size_t readable_now(int fd, size_t most);
// Counts the bytes that the read has taken already towards VMIN.
size_t readable_now(int fd, const TerminalMode& mode, size_t most, size_t taken);

// Whether the other side of a terminal is gone, or fd is closed.
bool terminal_hung_up(int fd);

// A process in the background of its terminal is stopped by SIGTTIN when it reads, and by SIGTTOU when it writes under
// TOSTOP; -EIO where it ignores SIGTTIN, or cannot be stopped. The kernel does so to the calling thread's process, but only
// fails where the thread blocks these signals, as all threads of the kernel's and of the pool do. So the cord's thread asks
// before they transfer. 0; 1, of a read: the process was in the background, and is no longer; -E...
int terminal_check_read(int fd);
int terminal_check_write(int fd, const TerminalMode& mode);

} // namespace fiberrt
