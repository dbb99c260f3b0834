// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_dial: from a text to a connection, by whichever of a name's addresses answers first (RFC 8305, "happy
// eyeballs"). Made of the calls of the public header: each attempt is a child of a scope whose first success cancels
// the others.
#include "api/api.h"
#include "base/keep_errno.h"
#include "core/cancel.h"
#include "io/address.h"
#include "io/io.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

using namespace fiberrt;

namespace {

constexpr int64_t stagger_ns = FIBER_MSEC(250); // between the beginnings of two attempts, if none fails meanwhile

// What all attempts of a call share.
struct Dial {
    int flags;
    OwnDescriptor connected; // the first that is

    bool done() const { return connected.number() >= 0; }
};

struct Attempt {
    Dial* dial;
    int family;
    int protocol;
    const sockaddr* address;
    socklen_t length;
};

int64_t attempt(void* arg) {
    const Attempt& it = *static_cast<Attempt*>(arg);
    Cord& cord = *this_cord;
    OwnDescriptor own;
    {
        KeepErrno keep;
        int fd = socket(it.family, SOCK_STREAM | it.dial->flags, it.protocol);
        if (fd < 0) return -errno;
        own.keep(cord, fd);
    }
    int error = fiber_connect(own.number(), it.address, it.length);
    if (error == 0 && !it.dial->done()) it.dial->connected.keep(cord, own.release());
    return error;
}

// Errors that say that there is no way to such addresses from here, and nothing about the other side.
bool says_little(int64_t error) {
    return error == -ENETUNREACH || error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT || error == -EHOSTUNREACH;
}

// Of two errors the one to report; 0: none yet.
int more_telling(int error, int64_t next) {
    return !error || (says_little(error) && !says_little(next)) ? int(next) : error;
}

// Waits for the end of an attempt. 1 and its result; 0: it has not come in time; or why the caller's wait ended early.
int next_end(fiber_scope_t scope, int64_t timeout_ns, int64_t* result) {
    fiber_scope_t limit;
    if (int error = fiber_scope_open(&limit, timeout_ns, 0)) return error;
    int told = fiber_scope_next(scope, nullptr, result);
    int verdict = fiber_scope_close(limit, nullptr);
    return told == -ETIMEDOUT && verdict == -ETIMEDOUT ? 0 : told;
}

// Makes the attempts in their order, the next one when the last has taken long, or one has failed. 0: dial.connected is
// there; else what the most telling of them said, or why the caller's wait ended early.
int attempt_all(Dial& dial, Attempt* attempts, int count) {
    fiber_scope_t scope;
    if (int error = fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_FIRST)) return error;
    int error = 0;
    int early = 0;
    for (int begun = 0, ended = 0; ended < count && !dial.done() && !early;) {
        int64_t result = 0;
        if (begun < count) result = fiber_scope_spawn(scope, nullptr, attempt, &attempts[begun++]);
        int told = result ? 1 : next_end(scope, begun < count ? stagger_ns : FIBER_FOREVER, &result);
        if (told < 0) early = told;
        if (told <= 0) continue;
        ended++;
        if (result) error = more_telling(error, result);
    }
    fiber_scope_cancel(scope, nullptr);
    fiber_scope_close(scope, nullptr); // the others close what they have opened
    if (!dial.done()) return early ? early : error;
    // It was connected before the wait could end: so the next call is to hear of that.
    if (early == -EINTR) interrupt_given_back(*this_cord, this_cord->sched.current);
    return 0;
}

Attempt attempt_of(Dial& dial, const addrinfo* at) {
    return {&dial, at->ai_family, at->ai_protocol, at->ai_addr, at->ai_addrlen};
}

int dial_first(Dial& dial, const addrinfo* list) {
    int count = 0;
    for (const addrinfo* at = list; at; at = at->ai_next) count++;
    if (count == 1) {
        Attempt one = attempt_of(dial, list);
        return int(attempt(&one));
    }
    KeepErrno keep;
    size_t bytes = size_t(count) * (sizeof(Attempt) + sizeof(addrinfo*));
    auto* attempts = static_cast<Attempt*>(malloc(bytes));
    if (!attempts) return -ENOMEM;
    OwnMemory own;
    own.keep(*this_cord, attempts, free);
    auto* order = reinterpret_cast<const addrinfo**>(attempts + count);
    interleave(list, order);
    for (int i = 0; i < count; i++) attempts[i] = attempt_of(dial, order[i]);
    return attempt_all(dial, attempts, count);
}

// By which what is made on the way is closed if the thread ends.
int open_io() { return this_cord->io ? 0 : Io::open(*this_cord); }

int dial_path(Dial& dial, const char* path) {
    sockaddr_un address;
    socklen_t size;
    if (int error = unix_address(path, &address, &size)) return error;
    if (int error = open_io()) return error;
    Attempt one = {&dial, AF_UNIX, 0, reinterpret_cast<sockaddr*>(&address), size};
    return int(attempt(&one));
}

int dial_host(Dial& dial, const char* address) {
    char host[256]; // names are shorter
    const char* port;
    if (int error = split_address(address, host, sizeof host, &port)) return error;
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    if (int error = open_io()) return error;
    addrinfo* list;
    if (int error = fiber_getaddrinfo(host, port, &hints, &list)) return error;
    OwnMemory own;
    own.keep(*this_cord, list, [](void* memory) { freeaddrinfo(static_cast<addrinfo*>(memory)); });
    return dial_first(dial, list);
}

} // namespace

int fiber_dial(const char* address, int flags) {
    if (!address || (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    if (cord->sched.current->sched.attention) return attend(*cord, cord->sched.current);
    constexpr char unix_prefix[] = "unix:";
    constexpr size_t prefix_length = sizeof unix_prefix - 1;
    Dial dial{flags, {}};
    bool path = strncmp(address, unix_prefix, prefix_length) == 0;
    int error = path ? dial_path(dial, address + prefix_length) : dial_host(dial, address);
    return error ? error : dial.connected.release();
}
