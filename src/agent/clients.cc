// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/clients.h"

#include "agent/answer.h"
#include "base/mutex.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int64_t request_ns = 1'000'000'000;
constexpr int64_t answer_ns = 2'000'000'000;
constexpr int64_t error_ns = 100'000'000; // an empty socket always takes a line

bool is_owner(int fd) {
    ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

} // namespace

bool Clients::accept(int listener, int64_t now) {
    while (!full()) {
        int fd;
        {
            MutexGuard guard(mutex_);
            fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd < 0) return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
            clients_[count_++] = {fd, now + request_ns, 0, {}};
        }
        if (is_owner(fd)) continue;
        answer_error(fd, "only the owner of the process may ask", error_ns);
        drop(count_ - 1);
    }
    return true;
}

int Clients::wanted(pollfd* out) const {
    for (int i = 0; i < count_; i++) out[i] = {clients_[i].fd, POLLIN, 0};
    return count_;
}

int64_t Clients::deadline() const {
    int64_t earliest = INT64_MAX;
    for (int i = 0; i < count_; i++) {
        if (clients_[i].until < earliest) earliest = clients_[i].until;
    }
    return earliest;
}

bool Clients::read(Client& client) {
    ssize_t got = recv(client.fd, client.line + client.length, sizeof client.line - client.length, 0);
    if (got < 0) return errno != EAGAIN && errno != EINTR;
    client.length += size_t(got);
    bool ended = got == 0; // the client has sent all that it will, which ends its line too
    return ended || client.length == sizeof client.line || memchr(client.line, '\n', client.length);
}

void Clients::reply(const Client& client) {
    const void* end = memchr(client.line, '\n', client.length);
    size_t length = end ? size_t(static_cast<const char*>(end) - client.line) : client.length;
    Request request;
    if (length == 0) return; // the client only looked whether the agent is there
    if (parse_request(client.line, length, &request) != 0)
        return answer_error(client.fd, "there is no such request", error_ns);
    {
        MutexGuard guard(mutex_);
        if (interrupted_) return;
        replying_to_ = client.fd;
    }
    answer(request, client.fd, answer_ns);
    MutexGuard guard(mutex_);
    replying_to_ = -1;
}

void Clients::drop(int index) {
    MutexGuard guard(mutex_);
    close(clients_[index].fd);
    clients_[index] = clients_[--count_];
}

void Clients::serve(int64_t now) {
    for (int i = count_; i-- > 0;) {
        bool complete = read(clients_[i]);
        if (complete) reply(clients_[i]);
        if (complete || clients_[i].until <= now) drop(i);
    }
}

void Clients::interrupt() {
    MutexGuard guard(mutex_);
    interrupted_ = true;
    if (replying_to_ >= 0) shutdown(replying_to_, SHUT_RDWR);
}

void Clients::close_all() {
    while (count_) close(clients_[--count_].fd);
    replying_to_ = -1;
    interrupted_ = false;
}

} // namespace fiberrt
