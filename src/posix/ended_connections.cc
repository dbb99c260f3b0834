// SPDX-License-Identifier: MIT OR Apache-2.0
// The ended connections, by the cookies of their sockets. A cookie names a socket for as long as the system runs: a
// later socket of the same number has another one. So no close needs to be seen.
#include "posix/ended_connections.h"

#include "base/keep_errno.h"

#include <sys/socket.h>

namespace fiberrt::posix {

constinit std::atomic<uint64_t> ended_count = 0;

namespace {

constinit std::atomic<uint64_t> cookies[ended_most]; // 0: none

// The cookie of a socket; 0 for other descriptors, and before Linux 4.12.
uint64_t cookie_of(int fd) {
    KeepErrno keep;
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) ? 0 : cookie;
}

// Calls use(place) for each place that has the cookie.
template <class Use>
void each_place(uint64_t cookie, Use use) {
    uint64_t count = ended_count.load(std::memory_order_acquire);
    for (uint64_t i = 0; i < ended_most && i < count; i++)
        if (cookies[i].load(std::memory_order_acquire) == cookie) use(cookies[i]);
}

bool has(uint64_t cookie) {
    bool found = false;
    each_place(cookie, [&](auto&) { found = true; });
    return found;
}

} // namespace

void remember_ended(int fd) {
    uint64_t cookie = cookie_of(fd);
    if (!cookie || has(cookie)) return;
    cookies[ended_count.fetch_add(1, std::memory_order_acq_rel) % ended_most].store(cookie, std::memory_order_release);
}

void forget_ended(int fd) {
    uint64_t cookie = any_ended() ? cookie_of(fd) : 0;
    if (!cookie) return;
    each_place(cookie, [&](auto& place) {
        uint64_t expected = cookie;
        place.compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
    });
}

bool was_ended(int fd) {
    uint64_t cookie = any_ended() ? cookie_of(fd) : 0;
    return cookie && has(cookie);
}

} // namespace fiberrt::posix
