// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs splices, which wait for the end that is not ready.
#include "io/splice.h"

#include "io/file_status.h"
#include "io/position.h"
#include "io/ready.h"
#include "io/terminal_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

namespace fiberrt {

int64_t Splice::when_broken(int64_t result) const { return result == -EPIPE ? result_when_broken(out.fd) : result; }

int64_t Splice::run(DescriptorGuard& guard, const struct stat* from) {
    if (from && type_of(*from) == S_IFCHR) {
        int64_t result = splice_from_terminal(guard, op);
        if (result != not_a_terminal) return result;
    }
    bool reported_ready = false;
    int64_t send_pause_ns = first_send_pause_ns;
    for (int64_t pause_ns = first_pause_ns;;) {
        int64_t result = guard.try_or_run(op, reported_ready);
        if (reported_ready) result = when_broken(result);
        if (result != -EAGAIN || op.flags & SPLICE_F_NONBLOCK) return result;
        result = guard.check_before_wait(op);
        if (result != -EAGAIN) return when_broken(result);
        reported_ready = true;
        if (!ready_now(op.fd, POLLIN)) {
            result = guard.wait_until_ready(op.fd, POLLIN, true);
        } else if (!ready_now(out.fd, POLLOUT)) {
            result = wait_for_room(guard, out.fd, true, &send_pause_ns);
        } else {
            result = ask_again_later(guard, &pause_ns);
        }
        if (result < 0) return when_broken(guard.try_once_more(op, result));
    }
}

int64_t splice_between(Cord& cord, int fd_in, int64_t* offset_in, int fd_out, int64_t* offset_out, size_t count,
                       unsigned flags) {
    DescriptorGuard guard(cord, fd_in);
    DescriptorGuard guard_out(guard, fd_out);
    if (int error = guard.check()) return error;
    if (count == 0) return 0;
    struct stat from = status_of(fd_in);
    struct stat to = status_of(fd_out);
    if (offset_in && type_of(from) == S_IFIFO) return -ESPIPE;
    if (offset_out && type_of(to) == S_IFIFO) return -ESPIPE;
    Splice splice(fd_in, offset_in ? *offset_in : own_position, fd_out, offset_out ? *offset_out : own_position, count,
                  flags);
    // At most one of the two has a position, as the other is a pipe.
    bool at_in = !offset_in && counts_position(from);
    bool at_out = !offset_out && counts_position(to);
    PositionLock lock(guard, at_in ? fd_in : fd_out, at_in ? from : to);
    if (at_in != at_out) {
        if (int error = lock.lock()) return error;
    }
    int64_t result = splice.run(guard, &from);
    if (result > 0 && offset_in) *offset_in += result;
    if (result > 0 && offset_out) *offset_out += result;
    return result;
}

} // namespace fiberrt
