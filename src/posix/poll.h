// SPDX-License-Identifier: MIT OR Apache-2.0
// The wait for one of several descriptors, for poll and select.
#pragma once

#include "posix/wait.h"

#include <stdlib.h>

namespace fiberrt::posix {

// An array of zeros that lives as long as a call: on the stack, or allocated if it is long.
template <class T, unsigned few>
class Array {
public:
    explicit Array(size_t count) : items_(count <= few ? short_ : static_cast<T*>(calloc(count, sizeof(T)))) {}
    ~Array() {
        KeepErrno keep;
        if (items_ != short_) free(items_);
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    explicit operator bool() const { return items_; }
    T& operator[](size_t i) { return items_[i]; }
    T* data() { return items_; }

private:
    T short_[few] = {};
    T* items_;
};

// Waits until a descriptor of the array is ready, or may be ready. tries: the number of waits of this call that have
// ended although the kernel found no descriptor ready. ready: null, or for an array of one entry, a place for the
// events that ended the wait.
Next wait_for_any(const pollfd* entries, nfds_t count, int64_t deadline, unsigned tries, short* ready);

// Ends the connections of the array after a cancel or a deadline has ended the wait.
void end_connections(const pollfd* entries, nfds_t count);

// Calls a function that looks which descriptors are ready, without a wait. If none is ready and a signal is pending, the
// kernel's poll and select report EINTR even then. But no signal ends a fiber's wait.
template <class Look>
int look_until_not_interrupted(Look look) {
    KeepErrnoIfDone errno_kept;
    for (;;) {
        int ready = look();
        if (ready >= 0 || errno != EINTR) return errno_kept.done(ready);
    }
}

// Completes a poll or select after its first try, in the kernel, has found nothing ready. try_now() asks the kernel
// again. revents: null, or for an array of one entry, its revents, which are zero. If the wait sets them, no try is
// needed.
template <class Try, class Block>
int until_ready(const pollfd* entries, nfds_t count, int64_t deadline, Try try_now, Block block, short* revents) {
    KeepErrnoIfDone errno_kept;
    for (unsigned tries = 0; left_until(deadline); tries++) {
        Next next = wait_for_any(entries, count, deadline, tries, revents);
        if (next == Next::block) return errno_kept.done(block());
        if (next == Next::fail) {
            int error = errno;
            if (!was_refused(error)) return -1;
            // If the library got only the error, it might keep the connection. So it learns that the connection has
            // ended. If there is no connection, it gets the error.
            end_connections(entries, count);
            int ready = try_now();
            if (ready > 0) return errno_kept.done(ready);
            errno = error;
            return -1;
        }
        int ready = revents && *revents ? 1 : try_now();
        if (ready || next == Next::timed_out) return errno_kept.done(ready);
    }
    return errno_kept.done(at_once(0));
}

} // namespace fiberrt::posix
