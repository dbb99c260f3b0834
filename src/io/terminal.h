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

// How many of `most` bytes a read of a terminal may ask for so that it returns without a wait; 0: a read would wait.
// Also for other descriptors that can be polled.
size_t readable_now(int fd, size_t most);
// Counts the bytes that the read has taken already towards VMIN.
size_t readable_now(int fd, const TerminalMode& mode, size_t most, size_t taken);

// Whether the other side of a terminal is gone, or fd is closed.
bool terminal_hung_up(int fd);

// Apply job control before a transfer. SIGTTIN stops a process in the background of its terminal when it reads, SIGTTOU
// when it writes under TOSTOP; if it ignores SIGTTIN or cannot be stopped, the result is -EIO. A thread that blocks
// these signals does not stop the process: its transfer only fails. The kernel's threads and those of the pool block
// them, so the cord's thread calls this before they transfer. Returns 0; 1 if a reading process was in the background
// and no longer is; -E...
int terminal_check_read(int fd);
int terminal_check_write(int fd, const TerminalMode& mode);

// Before a write to a device: 0, or why the process may not write to it.
int check_write(int fd);

} // namespace fiberrt
