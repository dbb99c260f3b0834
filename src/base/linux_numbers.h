// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers of Linux that the headers at the build may lack. The running kernel may lack the feature, too: code that uses
// a number first tries it.
#pragma once

namespace fiberrt {

constexpr int madv_guard_install = 102;     // MADV_GUARD_INSTALL, Linux 6.13
constexpr int ioring_op_futex_wait = 51;    // IORING_OP_FUTEX_WAIT, Linux 6.7
constexpr unsigned futex2_size_u32 = 2;     // FUTEX2_SIZE_U32
constexpr unsigned futex_any = 0xffffffffu; // FUTEX_BITSET_MATCH_ANY
constexpr int waitid_pidfd = 3;             // P_PIDFD, Linux 5.4

} // namespace fiberrt
