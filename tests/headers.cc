// SPDX-License-Identifier: MIT OR Apache-2.0
// Empty: CMake demands a source for the target that headers.h is compiled with.
