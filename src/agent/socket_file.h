// SPDX-License-Identifier: MIT OR Apache-2.0
// The agent's listening socket, and its file: only the owner may connect, and the agent removes the file when it stops.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

namespace fiberrt {

class SocketFile {
public:
    // Opens a socket that listens at `where`: a path, or an existing directory, in which the file is PID.sock. Replaces
    // the file of a process that has ended. 0; -ENAMETOOLONG; -EADDRINUSE: another process listens there; -EEXIST: the
    // path is no socket, or another user's; the errors of socket(2), bind(2) and stat(2).
    int open(const char* where);

    void close();  // closes the socket, and leaves the file
    void remove(); // removes the file, if it is still the one that open() made

    int fd() const { return fd_; }

private:
    int find_path(const char* where);
    int bind_here();
    int remove_stale() const;

    sockaddr_un address_ = {};
    int fd_ = -1;
    dev_t device_ = 0; // device_ and inode_ identify the file
    ino_t inode_ = 0;
};

} // namespace fiberrt
