// SPDX-License-Identifier: MIT OR Apache-2.0
// Rules by which a read of a terminal ends: its mode (termios(3): lines, VMIN, VTIME), and job control.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

struct TerminalMode {
    bool lines;         // canonical mode: a read returns one line
    bool stops_writers; // TOSTOP: a background process may not write
    unsigned least;     // VMIN; 1 for a pty's master, as no mode changes its reads
    int64_t time_ns;    // VTIME: most time between two bytes, or, if `least` is 0, for the whole read; 0: no limit
};

// Whether fd is a terminal that is not hung up; *out receives its mode.
bool terminal_mode(int fd, TerminalMode* out);

// Returns how many of `most` bytes a read may ask for so that it returns without a wait; 0: a read would wait. For
// terminals, and other descriptors that can be polled.
size_t readable_now(int fd, size_t most);
// The same number for a terminal in this mode, for a read that has got `taken` bytes towards VMIN already.
size_t readable_now(int fd, const TerminalMode& mode, size_t most, size_t taken);

// Whether the other side of a terminal is closed, or fd is.
bool terminal_hung_up(int fd);

// Apply job control before a transfer. Return 0; 1 if a reading process was in the background and no longer is; or
// -E...
//
// SIGTTIN stops a background process that reads, SIGTTOU one that writes under TOSTOP. If the process ignores SIGTTIN
// or cannot be stopped, the result is -EIO. A thread that blocks these signals does not stop the process; its transfer
// only fails. The kernel's threads and the pool's block them, so the cord's thread calls these functions before such a
// thread transfers.
int terminal_check_read(int fd);
int terminal_check_write(int fd, const TerminalMode& mode);

// Checks before a write to a device whether the process may write to it. Returns 0, or the error.
int check_write(int fd);

} // namespace fiberrt
