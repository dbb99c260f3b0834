// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides which files a simulated process may do I/O on: only files whose other ends it has itself. If another process
// could write, read or close the other end, the next run would differ.
#include "base/parse_number.h"
#include "base/readable.h"
#include "sim/sim.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <initializer_list>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// Calls look(fd) for each descriptor of this process until it returns true; returns whether it did. Starts with the
// neighbours of `near`: the kernel gives out numbers in order, so the other end mostly is one of them.
template <class Look>
bool any_descriptor(int near, Look look) {
    for (int distance : {1, -1, 2, -2}) {
        if (near + distance >= 0 && look(near + distance)) return true;
    }
    DIR* directory = opendir("/proc/self/fd");
    if (!directory) return false;
    bool found = false;
    while (dirent* entry = found ? nullptr : readdir(directory)) {
        const char* name = entry->d_name;
        uint64_t fd;
        if (parse_decimal(&name, &fd)) found = look(int(fd));
    }
    closedir(directory);
    return found;
}

// A cached answer, by inode: whether the other end of a pipe or socket is in this process. The answer for an inode does
// not change, but a FIFO's inode may come back as another file.
struct KnownInode {
    ino_t inode;
    dev_t device;
    mode_t type;
    DescriptorKind kind;
};
constexpr unsigned known_places = 1024;
KnownInode known_inodes[known_places]; // by inode; a later file takes the place of an earlier one

KnownInode& place_of(const struct stat& file) { return known_inodes[file.st_ino % known_places]; }

// Whether the other end of a pipe is in this process, or closed.
bool has_both_ends(int fd, const struct stat& file) {
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    if (mode == O_RDWR) return true;
    pollfd end = {fd, 0, 0};
    if (poll(&end, 1, 0) > 0 && end.revents & (POLLHUP | POLLERR)) return true;
    return any_descriptor(fd, [&](int other) {
        struct stat status;
        if (fstat(other, &status) < 0 || status.st_ino != file.st_ino || status.st_dev != file.st_dev) return false;
        int other_mode = fcntl(other, F_GETFL) & O_ACCMODE;
        return other_mode == O_RDWR || other_mode != mode;
    });
}

union Address {
    sockaddr any;
    sockaddr_in in;
    sockaddr_in6 in6;
    sockaddr_un un;
};

// Returns the port of a loopback address; 0: it is another address.
in_port_t loopback_port(const Address& address) {
    if (address.any.sa_family == AF_INET) {
        return ntohl(address.in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET ? address.in.sin_port : in_port_t(0);
    }
    if (address.any.sa_family != AF_INET6) return 0;
    const in6_addr& host = address.in6.sin6_addr;
    bool mapped = IN6_IS_ADDR_V4MAPPED(&host) && host.s6_addr[12] == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&host) || mapped ? address.in6.sin6_port : in_port_t(0);
}

// Whether no process on this machine uses a port, so that only this process could receive there.
bool port_is_free(const Address& address, int type) {
    int fd = socket(address.any.sa_family, type | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool free = bind(fd, &address.any, address.any.sa_family == AF_INET ? sizeof address.in : sizeof address.in6) == 0;
    close(fd);
    return free;
}

// Whether the other side of a connection has closed it: such a connection can only end.
bool half_closed(int fd) {
    tcp_info info;
    socklen_t length = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state != TCP_ESTABLISHED;
}

bool have_port(int fd, in_port_t port) {
    return any_descriptor(fd, [=](int other) {
        Address own;
        socklen_t length = sizeof own;
        if (getsockname(other, &own.any, &length) < 0) return false;
        if (own.any.sa_family == AF_INET) return own.in.sin_port == port;
        return own.any.sa_family == AF_INET6 && own.in6.sin6_port == port;
    });
}

bool have_name(int fd, const Address& peer, socklen_t length) {
    return any_descriptor(fd, [&](int other) {
        Address own;
        socklen_t own_length = sizeof own;
        if (getsockname(other, &own.any, &own_length) < 0) return false;
        return own_length == length && memcmp(&own, &peer, length) == 0;
    });
}

// Whether the peer of a connected socket is in this process. A unix socket knows which process made its peer or
// listened for it, except one for datagrams that was connected by name.
bool peer_is_here(int fd, int type, const Address& peer, socklen_t peer_length) {
    if (peer.any.sa_family == AF_UNIX) {
        ucred credentials;
        socklen_t length = sizeof credentials;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) return false;
        bool has_pid = credentials.pid != 0;
        return has_pid ? credentials.pid == getpid()
                       : peer_length > sizeof(sa_family_t) && have_name(fd, peer, peer_length);
    }
    in_port_t port = loopback_port(peer);
    if (!port) return false;
    return have_port(fd, port) || (type == SOCK_STREAM ? half_closed(fd) : port_is_free(peer, type));
}

DescriptorKind kind_of_socket(int fd, bool* lasts) {
    int type = 0;
    socklen_t length = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) < 0) return DescriptorKind::foreign;
    Address address;
    length = sizeof address;
    if (getsockname(fd, &address.any, &length) < 0) return DescriptorKind::foreign;
    sa_family_t family = address.any.sa_family;
    if (family != AF_UNIX && family != AF_INET && family != AF_INET6) return DescriptorKind::foreign;
    length = sizeof address;
    bool connected = getpeername(fd, &address.any, &length) == 0;
    if (connected && !peer_is_here(fd, type, address, length)) return DescriptorKind::foreign;
    *lasts = connected && type == SOCK_STREAM; // other sockets may be connected again
    // Otherwise the kernel may keep back bytes until earlier ones are acknowledged, which takes 40 ms of the real time.
    int yes = 1;
    if (*lasts && family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return connected && type == SOCK_STREAM ? DescriptorKind::stream : DescriptorKind::datagram;
}

DescriptorKind kind_of_device(const struct stat& file) {
    unsigned number = minor(file.st_rdev);
    bool known = major(file.st_rdev) == 1 && (number == 3 || number == 5 || number == 7);
    return known ? DescriptorKind::null : DescriptorKind::foreign;
}

// Whether all descriptors that an epoll instance watches are usable in a simulation.
bool watches_own_only(int fd) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE* info = fopen(path, "re");
    if (!info) return false;
    bool own = true;
    for (char line[256]; own && fgets(line, sizeof line, info);) {
        if (strncmp(line, "tfd:", 4) != 0) continue;
        const char* number = line + 4 + strspn(line + 4, " ");
        uint64_t watched;
        if (!parse_decimal(&number, &watched) || watched == uint64_t(fd)) continue;
        DescriptorKind kind = kind_of_descriptor(int(watched));
        own = kind != DescriptorKind::foreign && kind != DescriptorKind::none;
    }
    fclose(info);
    return own;
}

DescriptorKind kind_of_nameless(int fd) {
    char link[32];
    char name[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length < 0 ? 0 : length] = '\0';
    if (strcmp(name, "anon_inode:[eventfd]") == 0) return DescriptorKind::event;
    bool epoll = strcmp(name, "anon_inode:[eventpoll]") == 0 && watches_own_only(fd);
    return epoll ? DescriptorKind::epoll : DescriptorKind::foreign;
}

} // namespace

DescriptorKind kind_of_descriptor(int fd) {
    struct stat file;
    if (fd < 0 || fstat(fd, &file) < 0) return DescriptorKind::none;
    mode_t type = file.st_mode & S_IFMT;
    KnownInode& place = place_of(file);
    bool same = place.inode == file.st_ino && place.device == file.st_dev && place.type == type;
    if (same && place.kind != DescriptorKind::foreign) return place.kind;
    DescriptorKind kind = DescriptorKind::foreign;
    bool lasts = false;
    switch (type) {
    case S_IFREG:
    case S_IFDIR: return DescriptorKind::regular;
    case S_IFCHR: return kind_of_device(file);
    case S_IFIFO:
        lasts = has_both_ends(fd, file);
        if (lasts) kind = DescriptorKind::pipe;
        break;
    case S_IFSOCK: kind = kind_of_socket(fd, &lasts); break;
    case 0: return kind_of_nameless(fd);
    default: break;
    }
    if (lasts) place = {file.st_ino, file.st_dev, type, kind};
    return kind;
}

bool may_open(const char* path) {
    struct stat file;
    return stat(path, &file) < 0 || may_open(file); // no such file, or the open reports the error
}

bool may_open(const struct stat& file) {
    if (S_ISCHR(file.st_mode)) return kind_of_device(file) != DescriptorKind::foreign;
    return S_ISREG(file.st_mode) || S_ISDIR(file.st_mode);
}

bool may_connect(const void* address, uint64_t length) {
    Address to = {};
    // The kernel ignores what follows the address proper.
    size_t used = length < sizeof to ? length : sizeof to;
    if (length < sizeof(sockaddr) || check_readable(address, used)) return true; // the call reports the error
    memcpy(&to, address, used);
    if (to.any.sa_family == AF_UNIX || to.any.sa_family == AF_UNSPEC)
        return true; // checked after the connect, by the peer's process
    return loopback_port(to);
}

} // namespace fiberrt
