// SPDX-License-Identifier: MIT OR Apache-2.0
// Nothing: what CMake wants of the target that headers.h is compiled with.
