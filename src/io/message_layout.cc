// SPDX-License-Identifier: MIT OR Apache-2.0
// Clears the padding in messages, which musl's structures have.
#include "io/message_layout.h"

#ifndef __GLIBC__

#include "base/readable.h"

#include <stddef.h>
#include <string.h>

namespace fiberrt {

namespace {

// Clears the bytes after a member, until the eight that the kernel reads are full. It writes only if that changes a
// byte: the message may be a constant, and other threads may send it, too.
template <class Member>
void clear_after(const Member& member) {
    constexpr size_t rest = sizeof(size_t) - sizeof(Member);
    auto* padding = const_cast<char*>(reinterpret_cast<const char*>(&member)) + sizeof(Member);
    static constexpr char zeros[sizeof(size_t)] = {};
    if (memcmp(padding, zeros, rest) != 0) memset(padding, 0, rest);
}

} // namespace

int clear_padding(const msghdr* message, bool sends) {
    static_assert(offsetof(msghdr, msg_control) == offsetof(msghdr, msg_iovlen) + sizeof(size_t));
    static_assert(offsetof(msghdr, msg_flags) == offsetof(msghdr, msg_controllen) + sizeof(size_t));
    static_assert(offsetof(cmsghdr, cmsg_level) == sizeof(size_t));
    if (int error = check_readable(message, sizeof *message)) return error;
    clear_after(message->msg_iovlen);
    clear_after(message->msg_controllen);
    if (!sends || !message->msg_control) return 0;
    if (int error = check_readable(message->msg_control, message->msg_controllen)) return error;
    for (cmsghdr* part = CMSG_FIRSTHDR(message); part; part = next_part(*message, part)) clear_after(part->cmsg_len);
    return 0;
}

} // namespace fiberrt

#endif
