// SPDX-License-Identifier: MIT OR Apache-2.0
// A client of the agent, by plain system calls: it may block its thread, since another thread answers it, the agent's.
#ifndef FIBERRT_TESTS_AGENT_CLIENT_H
#define FIBERRT_TESTS_AGENT_CLIENT_H

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace support {

// A directory for sockets, removed with its files' names that the test gives it.
class SocketFolder {
public:
    SocketFolder() {
        if (!::mkdtemp(path_.data())) path_.clear();
    }
    ~SocketFolder() {
        for (const char *name : {"a.sock", "b.sock", "other"}) ::unlink((path_ + "/" + name).c_str());
        ::rmdir(path_.c_str());
    }
    SocketFolder(const SocketFolder &) = delete;
    SocketFolder &operator=(const SocketFolder &) = delete;
    std::string operator/(const char *name) const { return path_ + "/" + name; }
    const std::string &path() const { return path_; }

private:
    std::string path_ = "/tmp/fiberrt-agent-XXXXXX";
};

// A connected descriptor, or -errno.
inline int agent_connect(const std::string &path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0) return fd;
    const int error = errno;
    ::close(fd);
    return -error;
}

// Everything that comes until the end of the connection, which it closes.
inline std::string agent_read_all(int fd) {
    std::string all;
    char part[4096];
    for (;;) {
        pollfd ready = {fd, POLLIN, 0};
        if (::poll(&ready, 1, 60000) != 1) {
            all += "(no end of the answer)";
            break;
        }
        const ssize_t got = ::recv(fd, part, sizeof part, 0);
        if (got <= 0) break; // an answer that the agent cut off may end with ECONNRESET
        all.append(part, size_t(got));
    }
    ::close(fd);
    return all;
}

inline bool agent_send(int fd, const std::string &text) {
    return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size());
}

// The answer to a request, or "errno N" if there is no agent.
inline std::string agent_ask(const std::string &path, const std::string &request) {
    const int fd = agent_connect(path);
    if (fd < 0) return "errno " + std::to_string(-fd);
    agent_send(fd, request);
    return agent_read_all(fd);
}

} // namespace support

#endif
