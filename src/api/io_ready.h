// SPDX-License-Identifier: MIT OR Apache-2.0
// What the files of calls that do I/O share: how a call waits until a descriptor is ready, and what a descriptor is.
#pragma once

#include "api/api.h"
#include "base/keep_errno.h"
#include "io/io.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt::api {

constexpr int64_t own_position = -1;
constexpr size_t most_bytes = 0x7ffff000; // what the kernel transfers at once

constexpr int64_t first_pause_ns = 1'000'000;
constexpr int64_t longest_pause_ns = 16'000'000;

inline uint32_t at_once(size_t length) { return uint32_t(length < most_bytes ? length : most_bytes); }

// For what the kernel gives no notice of: waits a little, longer each time. 0, or why the wait ended early.
inline int ask_again_later(DescriptorUse& use, int64_t* pause_ns) {
    int result = use.pause(*pause_ns);
    if (*pause_ns < longest_pause_ns) *pause_ns *= 2;
    return result;
}

inline bool ready_now(int fd, int events) {
    KeepErrno keep;
    pollfd look = {fd, short(events), 0};
    return poll(&look, 1, 0) > 0;
}

// Runs an operation until it is not refused with -EAGAIN. A descriptor with O_NONBLOCK answers -EAGAIN where others
// wait: then waits until it is ready, and tries again. Readiness may be told of all the same: of a socket for
// datagrams, whose receiver has no room; of an eventfd that has room, but not for this number. Who got -EAGAIN again
// thus looks, and pauses instead of turning in a circle.
template <class Run>
[[gnu::always_inline]] inline int64_t until_ready(DescriptorUse& use, Op& op, int events, Run run) {
    bool waited = false;
    for (int64_t pause_ns = first_pause_ns;;) {
        int64_t result = waited || !use.wait_first(op) ? run(waited) : -EAGAIN;
        if (result != -EAGAIN) return result;
        if (waited && ready_now(op.fd, events)) {
            result = ask_again_later(use, &pause_ns);
        } else {
            result = use.wait_until_ready(op.fd, events, !waited);
            waited = true;
        }
        if (result < 0) return result;
    }
}

inline int64_t run_until_ready(DescriptorUse& use, Op& op, int events) {
    return until_ready(use, op, events, [&](bool told_ready) { return use.run(op, told_ready); });
}

// What a descriptor is; of type 0 if it is none.
inline struct stat status_of(int fd) {
    KeepErrno keep;
    struct stat status;
    if (fstat(fd, &status) < 0) status.st_mode = 0;
    return status;
}

inline mode_t type_of(const struct stat& file) { return file.st_mode & S_IFMT; }

inline int64_t position_of(int fd) { // -1: it has none
    KeepErrno keep;
    return lseek(fd, 0, SEEK_CUR);
}

// Whether POSIX says that transfers at its own position follow one another; the kernel retries short ones on these
// only.
inline bool counts_position(const struct stat& file) { return type_of(file) == S_IFREG || type_of(file) == S_IFBLK; }

// Performs an open or open2, which waits where it opens a FIFO whose other side is not there.
int64_t run_open(DescriptorUse& use, Op& op);

} // namespace fiberrt::api
