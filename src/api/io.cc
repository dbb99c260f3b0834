// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers, connections and descriptors: the POSIX-named calls.
#include "api/adopted.h"
#include "api/api.h"
#include "base/keep_errno.h"
#include "io/close.h"
#include "io/connection.h"
#include "io/message.h"
#include "io/message_layout.h"
#include "io/read_write.h"
#include "io/ready.h"

#include <errno.h>
#include <initializer_list>
#include <limits.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

using namespace fiberrt;
using api::bad_buffer;

namespace {

bool bad_vector(const iovec* iov, int count) { return count < 0 || count > IOV_MAX || (!iov && count); }

// Checks that the kernel can read the length. 0; -EFAULT. It makes the kernel read these four bytes as a futex, without
// a wait.
int check_length(const socklen_t* length) {
    KeepErrno keep;
    timespec at_once = {};
    long result = syscall(SYS_futex, length, FUTEX_WAIT_PRIVATE, UINT32_MAX, &at_once, nullptr, 0);
    return result < 0 && errno == EFAULT ? -EFAULT : 0;
}

int64_t read_here(int fd, const void* address, size_t length, int64_t position, OpCode code) {
    Cord* cord = cord_here();
    return cord ? read_bytes(fd, address, length, position, code, *cord) : no_cord();
}

int64_t write_here(int fd, const void* address, size_t length, int64_t position, OpCode code) {
    Cord* cord = cord_here();
    return cord ? write_bytes(fd, address, length, position, code, *cord) : no_cord();
}

int64_t message_here(int fd, const void* address, size_t length, int flags, OpCode code) {
    Cord* cord = cord_here();
    return cord ? transfer_message(fd, address, length, flags, code, *cord) : no_cord();
}

} // namespace

int64_t fiber_read(int fd, void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return read_here(fd, buffer, count, own_position, OpCode::read);
}

int64_t fiber_write(int fd, const void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return write_here(fd, buffer, count, own_position, OpCode::write);
}

int64_t fiber_readv(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    return read_here(fd, iov, size_t(count), own_position, OpCode::readv);
}

int64_t fiber_writev(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    return write_here(fd, iov, size_t(count), own_position, OpCode::writev);
}

int64_t fiber_pread(int fd, void* buffer, size_t count, int64_t offset) {
    if (bad_buffer(buffer, count) || offset < 0) return -EINVAL;
    return read_here(fd, buffer, count, offset, OpCode::read);
}

int64_t fiber_pwrite(int fd, const void* buffer, size_t count, int64_t offset) {
    if (bad_buffer(buffer, count) || offset < 0) return -EINVAL;
    return write_here(fd, buffer, count, offset, OpCode::write);
}

int64_t fiber_recv(int fd, void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message_here(fd, buffer, count, flags, OpCode::recv);
}

int64_t fiber_send(int fd, const void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message_here(fd, buffer, count, flags | MSG_NOSIGNAL, OpCode::send);
}

int64_t fiber_recvmsg(int fd, struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    if (int error = clear_padding(header, false)) return error;
    return message_here(fd, header, 1, flags, OpCode::recvmsg);
}

int64_t fiber_sendmsg(int fd, const struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    if (int error = clear_padding(header, true)) return error;
    return message_here(fd, header, 1, flags | MSG_NOSIGNAL, OpCode::sendmsg);
}

int64_t fiber_recvfrom(int fd, void* buffer, size_t count, int flags, struct sockaddr* address, socklen_t* length) {
    if (!address) return fiber_recv(fd, buffer, count, flags);
    if (bad_buffer(buffer, count) || !length) return -EINVAL;
    if (int error = check_length(length)) return error;
    if (*length > INT_MAX) return -EINVAL;
    iovec part = {buffer, count};
    msghdr header = {};
    header.msg_name = address;
    header.msg_namelen = *length;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    int64_t result = message_here(fd, &header, 1, flags, OpCode::recvmsg);
    if (result >= 0) *length = header.msg_namelen;
    return result;
}

int64_t fiber_sendto(int fd, const void* buffer, size_t count, int flags, const struct sockaddr* address,
                     socklen_t length) {
    if (!address) return fiber_send(fd, buffer, count, flags);
    // sendmsg(2) would treat an address of 0 bytes like no address.
    if (bad_buffer(buffer, count) || !length || length > sizeof(sockaddr_storage)) return -EINVAL;
    iovec part = {const_cast<void*>(buffer), count};
    msghdr header = {};
    header.msg_name = const_cast<struct sockaddr*>(address);
    header.msg_namelen = length;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    return message_here(fd, &header, 1, flags | MSG_NOSIGNAL, OpCode::sendmsg);
}

int fiber_accept(int fd, struct sockaddr* address, socklen_t* length) { return fiber_accept4(fd, address, length, 0); }

int fiber_accept4(int fd, struct sockaddr* address, socklen_t* length, int flags) {
    if ((address && !length) || (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))) return -EINVAL;
    Cord* cord = cord_here();
    return cord ? accept_connection(*cord, fd, address, address ? length : nullptr, flags) : no_cord();
}

int fiber_connect(int fd, const struct sockaddr* address, socklen_t length) {
    if (!address) return -EINVAL;
    Cord* cord = cord_here();
    return cord ? connect_socket(*cord, fd, address, length) : no_cord();
}

int fiber_close(int fd) {
    Cord* cord = cord_here();
    return cord ? io_close(*cord, fd) : no_cord();
}

int fiberrt::close_for_library(int fd) {
    Cord* cord = cord_here();
    return cord ? io_close(*cord, fd, EndsUsesOf::own_cord) : no_cord();
}

int fiberrt::own_descriptors(int out[own_descriptors_most]) {
    static_assert(own_descriptors_most == Backend::own_descriptors_most + 2);
    Cord* cord = cord_if_any(); // also between the runs of a foreign loop
    if (!cord) return 0;
    int count = 0;
    if (cord->io && cord->io->backend && cord->io->backend->own_descriptors)
        count = cord->io->backend->own_descriptors(cord->io->state, out);
    for (int fd : {cord->loop.fd, cord->loop.timer_fd})
        if (cord->loop.fd >= 0) out[count++] = fd;
    return count;
}

int fiber_poll_fd(int fd, int events) {
    if (events <= 0 || events > 0xffff) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    DescriptorGuard guard(*cord, fd);
    return int(wait_for_events(guard, fd, events));
}
