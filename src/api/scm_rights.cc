// SPDX-License-Identifier: MIT OR Apache-2.0
// Descriptors passed through a unix socket (SCM_RIGHTS).
#include "api/api.h"
#include "io/scm_rights.h"

#include <errno.h>

using namespace fiberrt;
using api::bad_buffer;

int64_t fiber_send_fds(int fd, const void* buffer, size_t count, const int* fds, size_t fd_count) {
    if (bad_buffer(buffer, count) || (!fds && fd_count) || fd_count > most_fds) return -EINVAL;
    if (fd_count && !count) return -EINVAL; // descriptors need at least one byte
    Cord* cord = cord_here();
    return cord ? send_descriptors(*cord, fd, buffer, count, fds, fd_count) : no_cord();
}

int64_t fiber_recv_fds(int fd, void* buffer, size_t count, int* fds, size_t* fd_count, int* flags) {
    if (flags) *flags = 0;
    if (!fd_count) return -EINVAL;
    size_t room = *fd_count;
    *fd_count = 0;
    if (bad_buffer(buffer, count) || (!fds && room) || !count) return -EINVAL;
    Cord* cord = cord_here();
    return cord ? receive_descriptors(*cord, fd, buffer, count, fds, room, fd_count, flags) : no_cord();
}
