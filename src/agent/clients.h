// SPDX-License-Identifier: MIT OR Apache-2.0
// The clients whose requests are not complete yet, and the one that gets its answer. Each has a second for its request,
// and two for taking its answer, so that no client keeps the others out for long.
#pragma once

#include "agent/request.h"

#include <poll.h>
#include <pthread.h>
#include <stdint.h>

namespace fiberrt {

class Clients {
public:
    static constexpr int most = 8; // at once; more wait in the kernel

    // All of these are for the agent's thread, with `now` the time by clock_now().
    bool full() const { return count_ == most; }
    bool accept(int listener, int64_t now); // a client may have connected. False: it cannot be accepted now
    int wanted(pollfd* out) const;          // what to poll for. Returns the number of clients
    int64_t deadline() const;               // the earliest deadline of a client
    void serve(int64_t now);                // reads requests, answers, and drops clients whose time is over

    // For other threads: ends the answer under way, if there is one, and lets no later one begin.
    void interrupt();

    // When the agent's thread has ended, or in the child of a fork: closes all connections.
    void close_all();

    // For fork: between lock and unlock, no connection is opened or closed.
    void lock() { pthread_mutex_lock(&mutex_); }
    void unlock() { pthread_mutex_unlock(&mutex_); }

private:
    struct Client {
        int fd;
        int64_t until; // its request must be there by then
        size_t length;
        char line[request_most + 1]; // room for the newline
    };

    bool read(Client& client); // whether the client's request is complete, or cannot become so
    void reply(const Client& client);
    void drop(int index);

    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER; // guards changes of these members, up to `interrupted_`
    int count_ = 0;
    Client clients_[most] = {};
    int replying_to_ = -1; // the descriptor
    bool interrupted_ = false;
};

} // namespace fiberrt
