// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_dial: from a text to a connection, by whichever of a name's addresses answers first (RFC 8305, "happy
// eyeballs"). Made of the calls of the public header: each attempt is a child of a scope whose first success cancels
// the others.
#include "api/api.h"
#include "base/keep_errno.h"
#include "base/parse_number.h"
#include "core/cancel.h"
#include "io/io.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
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
    if (early == -EINTR) interrupt_given_back(*this_cord, this_cord->current);
    return 0;
}

Attempt attempt_of(Dial& dial, const addrinfo* at) {
    return {&dial, at->ai_family, at->ai_protocol, at->ai_addr, at->ai_addrlen};
}

// The next one from here on that is of a family, or is not.
const addrinfo* find(const addrinfo* at, int family, bool of_it) {
    while (at && (at->ai_family == family) != of_it) at = at->ai_next;
    return at;
}

// The families in turn, beginning with the first address's.
void interleave(Dial& dial, const addrinfo* list, Attempt* out) {
    int family = list->ai_family;
    const addrinfo* one = list;
    const addrinfo* other = find(list, family, false);
    while (one || other) {
        if (one) *out++ = attempt_of(dial, one);
        if (other) *out++ = attempt_of(dial, other);
        if (one) one = find(one->ai_next, family, true);
        if (other) other = find(other->ai_next, family, false);
    }
}

int dial_first(Dial& dial, const addrinfo* list) {
    int count = 0;
    for (const addrinfo* at = list; at; at = at->ai_next) count++;
    if (count == 1) {
        Attempt one = attempt_of(dial, list);
        return int(attempt(&one));
    }
    KeepErrno keep;
    auto* attempts = static_cast<Attempt*>(malloc(size_t(count) * sizeof(Attempt)));
    if (!attempts) return -ENOMEM;
    OwnMemory own;
    own.keep(*this_cord, attempts, free);
    interleave(dial, list, attempts);
    return attempt_all(dial, attempts, count);
}

// By which what is made on the way is closed if the thread ends.
int open_io() { return this_cord->io ? 0 : Io::open(*this_cord); }

int dial_path(Dial& dial, const char* path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    bool abstract = path[0] == '@';
    size_t length = strlen(path);
    if (length <= abstract) return -EINVAL;
    if (length >= sizeof address.sun_path) return -ENAMETOOLONG;
    memcpy(address.sun_path, path, length);
    if (abstract) address.sun_path[0] = '\0';
    if (int error = open_io()) return error;
    // Of an abstract name each byte counts that the length does.
    auto size = socklen_t(offsetof(sockaddr_un, sun_path) + length + !abstract);
    Attempt one = {&dial, AF_UNIX, 0, reinterpret_cast<sockaddr*>(&address), size};
    return int(attempt(&one));
}

// The C library would cut a number above 65,535, and to port 0 nobody listens. What is no number is a service's name.
bool is_port(const char* text) {
    if (strspn(text, "+- \t\n\v\f\r")) return false; // which strtol, here and in the C library, would take
    if (text[strspn(text, "0123456789")]) return true;
    uint64_t number;
    return parse_decimal(&text, &number) && number > 0 && number <= 65535;
}

// Takes "host:port" or "[host]:port" apart. 0, -EINVAL, -ENAMETOOLONG.
int split(const char* address, char* host, size_t size, const char** port) {
    const char* colon = strrchr(address, ':');
    if (!colon || !colon[1] || !is_port(colon + 1)) return -EINVAL;
    const char* begin = address;
    const char* end = colon;
    if (*begin == '[') {
        if (end[-1] != ']') return -EINVAL;
        begin++;
        end--;
    } else if (memchr(begin, ':', size_t(end - begin))) {
        return -EINVAL; // where in an IPv6 address the port begins cannot be told
    }
    if (end <= begin) return -EINVAL;
    auto length = size_t(end - begin);
    if (length >= size) return -ENAMETOOLONG;
    memcpy(host, begin, length);
    host[length] = '\0';
    *port = colon + 1;
    return 0;
}

int dial_host(Dial& dial, const char* address) {
    char host[256]; // names are shorter
    const char* port;
    if (int error = split(address, host, sizeof host, &port)) return error;
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
    if (cord->current->attention) return attend(*cord, cord->current);
    constexpr char unix_prefix[] = "unix:";
    constexpr size_t prefix_length = sizeof unix_prefix - 1;
    Dial dial{flags, {}};
    bool path = strncmp(address, unix_prefix, prefix_length) == 0;
    int error = path ? dial_path(dial, address + prefix_length) : dial_host(dial, address);
    return error ? error : dial.connected.release();
}
