// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_dial: connects to the first of a name's addresses that answers (RFC 8305, "happy eyeballs"): each attempt is a
// child of a scope, and the first success cancels the others.
#include "io/dial.h"

#include "base/keep_errno.h"
#include "core/attr.h"
#include "core/cancel.h"
#include "core/scope_open.h"
#include "core/spawn_child.h"
#include "io/address.h"
#include "io/connection.h"
#include "io/io.h"
#include "io/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace fiberrt {

namespace {

constexpr int64_t stagger_ns = FIBER_MSEC(250); // time between the starts of two attempts, if none fails meanwhile

// Shared by all attempts of a call.
struct Dial {
    int flags;
    OwnDescriptor connected; // the first connected socket

    bool done() const { return connected.number() >= 0; }
};

struct Attempt {
    Dial* dial;
    int family;
    int protocol;
    const sockaddr* address;
    socklen_t length;
};

int64_t connect_one(void* attempt) {
    const Attempt& it = *static_cast<Attempt*>(attempt);
    Cord& cord = *this_cord;
    OwnDescriptor own;
    {
        KeepErrno keep;
        int fd = socket(it.family, SOCK_STREAM | it.dial->flags, it.protocol);
        if (fd < 0) return -errno;
        own.keep(cord, fd);
    }
    int error = connect_socket(cord, own.number(), it.address, it.length);
    if (error == 0 && !it.dial->done()) it.dial->connected.keep(cord, own.release());
    return error;
}

// Whether an error only says that this machine has no route to such addresses, and nothing about the other side.
bool says_little(int64_t error) {
    return error == -ENETUNREACH || error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT || error == -EHOSTUNREACH;
}

// Returns the more telling of two errors; `error` 0: none yet.
int more_telling(int error, int64_t next) {
    return !error || (says_little(error) && !says_little(next)) ? int(next) : error;
}

// Waits until an attempt has ended. 1: one has, with *result; 0: none has in time; otherwise why the caller's wait
// ended early.
int next_end(Cord& cord, Scope* scope, int64_t timeout_ns, int64_t* result) {
    Scope* limit;
    uint64_t child;
    if (int error = scope_open(cord, timeout_ns, 0, &limit)) return error;
    int found = scope_next(cord, scope, &child, result);
    int verdict = scopes_close(cord, limit, nullptr);
    return found == -ETIMEDOUT && verdict == -ETIMEDOUT ? 0 : found;
}

// Makes the attempts in order, each when the one before has taken long or one has failed. 0: dial.connected is set;
// otherwise the most telling error of the attempts, or why the caller's wait ended early.
int connect_first(Cord& cord, Dial& dial, Attempt* attempts, int count) {
    Scope* scope;
    if (int error = scope_open(cord, FIBER_FOREVER, FIBER_SCOPE_FIRST, &scope)) return error;
    fiber_scope_t handle = {scopes.id_of(scope)};
    int error = 0;
    int early = 0;
    for (int begun = 0, ended = 0; ended < count && !dial.done() && !early;) {
        int64_t result = 0;
        if (begun < count) result = spawn_child(handle, nullptr, fiber_attr(), connect_one, &attempts[begun++]);
        int found = result ? 1 : next_end(cord, scope, begun < count ? stagger_ns : FIBER_FOREVER, &result);
        if (found < 0) early = found;
        if (found <= 0) continue;
        ended++;
        if (result) error = more_telling(error, result);
    }
    scope_cancel(cord, cord.sched.current, scope, nullptr);
    scopes_close(cord, scope, nullptr); // the other attempts close the descriptors that they have opened
    if (!dial.done()) return early ? early : error;
    // The connection was made before the wait ended early, so the interrupt stays pending for the caller's next call.
    if (early == -EINTR) interrupt_given_back(cord, cord.sched.current);
    return 0;
}

Attempt attempt_of(Dial& dial, const addrinfo* at) {
    return {&dial, at->ai_family, at->ai_protocol, at->ai_addr, at->ai_addrlen};
}

int dial_list(Cord& cord, Dial& dial, const addrinfo* list) {
    int count = 0;
    for (const addrinfo* at = list; at; at = at->ai_next) count++;
    if (count == 1) {
        Attempt one = attempt_of(dial, list);
        return int(connect_one(&one));
    }
    KeepErrno keep;
    size_t bytes = size_t(count) * (sizeof(Attempt) + sizeof(addrinfo*));
    auto* attempts = static_cast<Attempt*>(malloc(bytes));
    if (!attempts) return -ENOMEM;
    OwnMemory own;
    own.keep(cord, attempts, free);
    auto* order = reinterpret_cast<const addrinfo**>(attempts + count);
    interleave(list, order);
    for (int i = 0; i < count; i++) attempts[i] = attempt_of(dial, order[i]);
    return connect_first(cord, dial, attempts, count);
}

// Opens the cord's I/O, which closes the descriptors of the call if the thread ends.
int open_io(Cord& cord) { return cord.io ? 0 : Io::open(cord); }

int dial_path(Cord& cord, Dial& dial, const char* path) {
    sockaddr_un address;
    socklen_t size;
    if (int error = unix_address(path, &address, &size)) return error;
    if (int error = open_io(cord)) return error;
    Attempt one = {&dial, AF_UNIX, 0, reinterpret_cast<sockaddr*>(&address), size};
    return int(connect_one(&one));
}

int dial_name(Cord& cord, Dial& dial, const char* address) {
    char name[256]; // names are shorter
    const char* port;
    if (int error = split_address(address, name, sizeof name, &port)) return error;
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    if (int error = open_io(cord)) return error;
    addrinfo* list = nullptr;
    if (int error = lookup(name, port, &hints, &list)) return error;
    OwnMemory own;
    own.keep(cord, list, [](void* memory) { freeaddrinfo(static_cast<addrinfo*>(memory)); });
    return dial_list(cord, dial, list);
}

} // namespace

int dial(Cord& cord, const char* address, int flags) {
    constexpr char unix_prefix[] = "unix:";
    constexpr size_t prefix_length = sizeof unix_prefix - 1;
    Dial dial{flags, {}};
    bool path = strncmp(address, unix_prefix, prefix_length) == 0;
    int error = path ? dial_path(cord, dial, address + prefix_length) : dial_name(cord, dial, address);
    return error ? error : dial.connected.release();
}

} // namespace fiberrt
