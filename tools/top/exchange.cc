// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exchange.h"

#include <cstring>
#include <string_view>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

namespace top {

namespace {

// Connects by a path of any length. 0 or an error.
int connect_to(int fd, const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() < sizeof address.sun_path) {
        memcpy(address.sun_path, path.c_str(), path.size());
        return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
    }
    // The path of a container's file, seen through /proc, may be too long. A descriptor stands for it.
    int file = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (file < 0) return errno;
    std::string link = "/proc/self/fd/" + std::to_string(file);
    memcpy(address.sun_path, link.c_str(), link.size());
    int error = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
    ::close(file);
    return error;
}

// Another user may have made a socket at this path: then its text is not that of the process.
bool is_ours(int fd, pid_t& process) {
    ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    process = peer.pid;
    return peer.uid == geteuid();
}

} // namespace

int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void Exchange::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

bool Exchange::fail(const std::string& why) {
    error_ = why;
    close();
    return true;
}

void Exchange::begin(const std::string& path, const std::string& request) {
    close();
    text_.clear();
    error_.clear();
    deadline_ = now_ns() + most_ns;
    // Blocks only while too many clients wait: for the connect, a second.
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = fd_ < 0 ? errno : 0;
    timeval limit = {1, 0};
    if (!error) setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (!error) error = connect_to(fd_, path);
    if (error) {
        const char* why = error == ECONNREFUSED || error == ENOENT ? "no process listens there"
                          : error == EACCES                        ? "only the owner of the process may look at it"
                          : error == EAGAIN                        ? "too many others ask"
                                                                   : strerror(error);
        fail(path + ": " + why);
        return;
    }
    if (!is_ours(fd_, peer_)) {
        fail(path + ": the process that listens there belongs to another user");
        return;
    }
    // A refusal may close the connection before the request arrives; then the text of the refusal is still to read.
    std::string line = request + '\n';
    send(fd_, line.data(), line.size(), MSG_NOSIGNAL);
    fcntl(fd_, F_SETFL, O_NONBLOCK);
}

bool Exchange::end() {
    constexpr std::string_view refusal = "error: ";
    close();
    if (text_.empty()) return fail("the process gave no answer");
    if (!text_.starts_with(refusal)) return true;
    std::string why = text_.substr(refusal.size());
    while (why.ends_with('\n')) why.pop_back();
    text_.clear();
    return fail(why);
}

bool Exchange::advance() {
    if (fd_ < 0) return true;
    char part[65536];
    for (;;) {
        ssize_t got = recv(fd_, part, sizeof part, 0);
        if (got > 0) {
            if (text_.size() + size_t(got) > most_bytes) return fail("the answer is too long");
            text_.append(part, size_t(got));
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            return end();
        } else if (errno == EAGAIN) {
            return now_ns() >= deadline_ ? fail("the process does not answer") : false;
        }
    }
}

void Exchange::finish() {
    while (fd_ >= 0 && !advance()) {
        pollfd ready = {fd_, POLLIN, 0};
        int64_t left = (deadline_ - now_ns()) / 1'000'000 + 1;
        poll(&ready, 1, left > 0 ? int(left) : 0);
    }
}

} // namespace top
