// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/socket_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int waiting_most = 64; // clients that the kernel keeps until the agent accepts them
constexpr mode_t owner_only = 0600;

int socket_of_owner() {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    // Before the bind, which gives the file the socket's mode. The file never has another one, and the process's umask,
    // which all threads share, stays.
    if (fchmod(fd, owner_only) == 0) return fd;
    int error = -errno;
    ::close(fd);
    return error;
}

bool add(char* text, size_t size, size_t* length, const char* more) {
    size_t count = strlen(more);
    if (count >= size - *length) return false;
    memcpy(text + *length, more, count + 1);
    *length += count;
    return true;
}

} // namespace

// The path in address_ is absolute: the process may change its directory before it removes the file, and other
// programs find the path in /proc/net/unix.
int SocketFile::find_path(const char* where) {
    char* path = address_.sun_path;
    size_t length = 0;
    if (where[0] != '/') {
        if (!getcwd(path, sizeof address_.sun_path)) return errno == ERANGE ? -ENAMETOOLONG : -errno;
        length = strlen(path);
        if (!add(path, sizeof address_.sun_path, &length, "/")) return -ENAMETOOLONG;
    }
    if (!add(path, sizeof address_.sun_path, &length, where)) return -ENAMETOOLONG;
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) return 0;
    char name[32];
    snprintf(name, sizeof name, "/%d.sock", int(getpid()));
    return add(path, sizeof address_.sun_path, &length, name) ? 0 : -ENAMETOOLONG;
}

// Removes the file of a process that has ended. If two processes start at one path at the same moment, one may take the
// other's file for such a file, as long as the other does not listen yet; or both may find the file of a third process.
// Then the process that binds last has the path, and no client finds the other.
int SocketFile::remove_stale() const {
    struct stat status;
    if (lstat(address_.sun_path, &status) != 0) return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid()) return -EEXIST;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0) return -errno;
    bool refused =
        connect(probe, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0 && errno == ECONNREFUSED;
    ::close(probe);
    if (!refused) return -EADDRINUSE;
    return unlink(address_.sun_path) == 0 || errno == ENOENT ? 0 : -errno;
}

int SocketFile::bind_here() {
    const auto* address = reinterpret_cast<const sockaddr*>(&address_);
    if (bind(fd_, address, sizeof address_) == 0) return 0;
    if (errno != EADDRINUSE) return -errno;
    if (int error = remove_stale()) return error;
    return bind(fd_, address, sizeof address_) == 0 ? 0 : -errno;
}

int SocketFile::open(const char* where) {
    address_ = {};
    address_.sun_family = AF_UNIX;
    if (int error = find_path(where)) return error;
    fd_ = socket_of_owner();
    if (fd_ < 0) return fd_;
    int error = bind_here();
    if (error) {
        close();
        return error;
    }
    struct stat status;
    if (lstat(address_.sun_path, &status) == 0) {
        device_ = status.st_dev;
        inode_ = status.st_ino;
    }
    if (listen(fd_, waiting_most) == 0) return 0;
    error = -errno;
    remove();
    close();
    return error;
}

void SocketFile::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

void SocketFile::remove() {
    struct stat status;
    bool ours = inode_ && lstat(address_.sun_path, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
    if (ours) unlink(address_.sun_path);
    inode_ = 0;
}

} // namespace fiberrt
