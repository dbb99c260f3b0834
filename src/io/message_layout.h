// SPDX-License-Identifier: MIT OR Apache-2.0
// The types of msghdr and cmsghdr, which differ between C libraries. The kernel's lengths in them have 64 bits, and so
// have glibc's. musl's have 32 bits, and padding where the kernel has the other half; musl's sendmsg and recvmsg clear
// the padding in a copy, but a ring gets the program's own message.
#pragma once

#include <sys/socket.h>

namespace fiberrt {

using BufferCount = decltype(msghdr::msg_iovlen);
using ControlSize = decltype(msghdr::msg_controllen);
using PartSize = decltype(cmsghdr::cmsg_len);

// CMSG_NXTHDR. musl's macro compares numbers of different signs.
inline cmsghdr* next_part(const msghdr& message, cmsghdr* part) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
    return CMSG_NXTHDR(const_cast<msghdr*>(&message), part);
#pragma GCC diagnostic pop
}

// Clears the padding of a program's message, in place; for a send also the padding of the ancillary data. 0; -EFAULT:
// the message cannot be read, which the kernel reports by itself where there is no padding.
#ifdef __GLIBC__
inline int clear_padding(const msghdr*, bool) { return 0; }
#else
int clear_padding(const msghdr* message, bool sends);
#endif

} // namespace fiberrt
