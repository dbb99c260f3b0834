// SPDX-License-Identifier: MIT OR Apache-2.0
// What the files of calls that do I/O share: how a call waits until a descriptor is ready, and what a descriptor is.
#pragma once

#include "api/api.h"
#include "base/keep_errno.h"
#include "core/hooks.h"
#include "io/io.h"
#include "io/sockets.h"

#include <errno.h>
#include <fcntl.h>
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

// Waits until there is room to send, or until it is time to try again.
inline int64_t wait_for_room(DescriptorUse& use, int fd, bool hint, int64_t* pause_ns) {
    bool retries = must_retry_send(fd);
    if (!retries || simulated) return use.wait_until_ready(fd, POLLOUT, hint || retries); // the simulation tells of it
    int64_t result = use.wait_to_try_again(fd, POLLOUT, *pause_ns);
    if (*pause_ns < longest_send_pause_ns) *pause_ns *= 2;
    return result;
}

inline bool ready_now(int fd, int events) { return events_now(fd, events); }

// Waits after an operation was refused with -EAGAIN, until it may be tried again. The kernel may still say that the
// descriptor is ready: a socket for datagrams whose receiver has no room, an eventfd that has room, but not for this
// number. So if the operation was refused again, this looks, and pauses instead of turning in a circle. False: it has
// ended, by *result.
class Retry {
public:
    Retry(DescriptorUse& use, Op& op, int events) : use_(use), op_(op), events_(events) {}

    bool waited() const { return waited_; }
    bool wait(bool tried, int64_t* result); // tried: the operation has been refused since it began
    int64_t failed(int64_t result) const;   // the result of a try that was not refused: what the call returns

private:
    DescriptorUse& use_;
    Op& op_;
    int events_;
    bool waited_ = false;
    int64_t pause_ns_ = first_pause_ns;
    int64_t send_pause_ns_ = first_send_pause_ns;
};

// Runs an operation until it is not refused with -EAGAIN. A descriptor with O_NONBLOCK answers -EAGAIN where others
// wait: then waits until it is ready, and tries again. try_first: it may end where nothing is ready.
template <class Run>
[[gnu::always_inline]] inline int64_t until_ready(DescriptorUse& use, Op& op, int events, Run run,
                                                  bool try_first = false) {
    Retry retry(use, op, events);
    for (;;) {
        bool tries = retry.waited() || try_first || !use.wait_first(op);
        int64_t result = tries ? run(retry.waited()) : -EAGAIN;
        if (result >= 0) [[likely]]
            return result;
        if (result != -EAGAIN) return retry.failed(result);
        if (!retry.wait(tries, &result)) return result;
    }
}

inline int64_t run_until_ready(DescriptorUse& use, Op& op, int events) {
    return until_ready(use, op, events, [&](bool told_ready) { return use.run(op, told_ready); });
}

// Returns the status of a descriptor; its type is 0 if there is no such descriptor. The call has not registered its use
// of the descriptor yet, so another thread may close it at this moment. That is no error, but ThreadSanitizer would
// report it; it does not watch fstatat.
inline struct stat status_of(int fd) {
    KeepErrno keep;
    struct stat status;
    int failed = hooks::watches_descriptors() ? fstatat(fd, "", &status, AT_EMPTY_PATH) : fstat(fd, &status);
    if (failed) status.st_mode = 0;
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

// Whether it is a FIFO of a file system. Such a FIFO may have no writer yet; a read then ends at once.
bool is_named_fifo(const struct stat& file);

// Performs a read or readv that needs no turn at a position: until_ready, with the special cases of descriptors that
// are neither files nor sockets.
int64_t run_read(DescriptorUse& use, Op& op, const struct stat& file);

// Transfers of no bytes. Most descriptors answer them at once, but not alike. If there are several buffers, all empty,
// the kernel does not ask the descriptor. The descriptor is no file with positions, and for writes no socket.
int64_t read_nothing(DescriptorUse& use, int fd, const struct stat& file);
int64_t write_nothing(int fd, const struct stat& file);
int64_t vector_of_nothing(int fd, bool writes);

// Before a write to a device: 0, or why the process may not write to it.
int check_write(int fd);

// Splices from a terminal into a pipe as a read of the terminal ends. not_a_terminal: nothing was done.
constexpr int64_t not_a_terminal = INT64_MIN;
int64_t splice_from_terminal(DescriptorUse& use, Op& op);

// Performs an open or open2, which waits where it opens a FIFO whose other side is not there.
int64_t run_open(DescriptorUse& use, Op& op);

} // namespace fiberrt::api
