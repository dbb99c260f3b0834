// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads of terminals by their modes and job control.
#pragma once

#include "io/descriptor_guard.h"
#include "io/terminal.h"

namespace fiberrt {

// Performs a read or readv of a terminal in this mode.
int64_t read_as_foreground(DescriptorGuard& guard, Op& op, const TerminalMode& mode);

// Splices from a terminal into a pipe; the splice ends where a read of the terminal would. not_a_terminal: the
// descriptor is none, and nothing was done.
constexpr int64_t not_a_terminal = INT64_MIN;
int64_t splice_from_terminal(DescriptorGuard& guard, Op& op);

} // namespace fiberrt
