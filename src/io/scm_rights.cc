// SPDX-License-Identifier: MIT OR Apache-2.0
// Passes descriptors through a unix socket.
#include "io/scm_rights.h"

#include "base/keep_errno.h"
#include "io/message.h"
#include "io/message_layout.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int scm_pidfd = 4; // a socket with SO_PASSPIDFD receives a descriptor in it too

// Room for all descriptors that a message may carry, so that those beyond the caller's room can be closed.
union Control {
    cmsghdr first;
    char bytes[CMSG_SPACE(most_fds * sizeof(int)) + 1024];
};

void close_all(const unsigned char* data, size_t count) {
    KeepErrno keep;
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, data + i * sizeof fd, sizeof fd);
        close(fd);
    }
}

// Gives the caller as many of the received descriptors as it has room for, and closes the others. Returns how many it
// gave.
size_t hand_out(msghdr& message, int* fds, size_t room) {
    size_t count = 0;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = next_part(message, part)) {
        if (part->cmsg_level != SOL_SOCKET) continue;
        const unsigned char* data = CMSG_DATA(part);
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (part->cmsg_type == scm_pidfd) close_all(data, here);
        if (part->cmsg_type != SCM_RIGHTS) continue;
        size_t taken = here < room - count ? here : room - count;
        if (taken) memcpy(fds + count, data, taken * sizeof(int));
        count += taken;
        if (taken < here) message.msg_flags |= MSG_CTRUNC;
        close_all(data + taken * sizeof(int), here - taken);
    }
    return count;
}

} // namespace

int64_t send_descriptors(Cord& cord, int fd, const void* buffer, size_t count, const int* fds, size_t fd_count) {
    iovec data = {const_cast<void*>(buffer), count};
    Control control;
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (fd_count) {
        memset(&control, 0, CMSG_SPACE(fd_count * sizeof(int)));
        control.first.cmsg_level = SOL_SOCKET;
        control.first.cmsg_type = SCM_RIGHTS;
        control.first.cmsg_len = PartSize(CMSG_LEN(fd_count * sizeof(int)));
        memcpy(CMSG_DATA(&control.first), fds, fd_count * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = ControlSize(CMSG_SPACE(fd_count * sizeof(int)));
    }
    return transfer_message(fd, &message, 1, MSG_NOSIGNAL, OpCode::sendmsg, cord);
}

int64_t receive_descriptors(Cord& cord, int fd, void* buffer, size_t count, int* fds, size_t room, size_t* fd_count,
                            int* flags) {
    iovec data = {buffer, count};
    Control control;
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    int64_t result = transfer_message(fd, &message, 1, MSG_CMSG_CLOEXEC, OpCode::recvmsg, cord);
    if (result < 0) return result;
    *fd_count = hand_out(message, fds, room);
    if (flags) *flags = message.msg_flags & ~MSG_CMSG_CLOEXEC;
    return result;
}

} // namespace fiberrt
