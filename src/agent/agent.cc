// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/agent.h"

#include "agent/clients.h"
#include "agent/socket_file.h"
#include "base/c_library.h"
#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/report.h"
#include "base/signals.h"
#include "base/try_once.h"
#include "core/begin.h"
#include "core/environment.h"
#include "core/timers.h" // never
#include "sim/sim.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int64_t retry_ns = 50'000'000; // the pause after a lack of descriptors or memory

enum class AgentLife : uint8_t { none, lives, stopping };

constinit pthread_mutex_t agent_mutex = PTHREAD_MUTEX_INITIALIZER; // protects the members up to `stop_fd`
AgentLife agent_life = AgentLife::none;
pthread_t agent_thread;
SocketFile file;
int stop_fd = -1; // an eventfd that tells the thread to end
constinit Clients clients;

// Waits for a client (listener is -1: for none), for a request, or until a time. Returns whether the agent must stop.
bool wait_for_work(int listener, int stop, int64_t until) {
    pollfd wanted[2 + Clients::most] = {{stop, POLLIN, 0}, {listener, POLLIN, 0}};
    int count = 2 + clients.wanted(wanted + 2);
    int64_t ns = until == never ? 0 : until - clock_now();
    if (ns < 0) ns = 0;
    timespec left = {ns / 1'000'000'000, ns % 1'000'000'000};
    ppoll(wanted, nfds_t(count), until == never ? nullptr : &left, nullptr);
    return wanted[0].revents;
}

void* serve(void*) {
    // Both stay open until the thread has ended; agent_start has set them before.
    int listener = file.fd();
    int stop = stop_fd;
    // fiberrt-top finds the socket by the number in the name.
    char name[16];
    snprintf(name, sizeof name, "fiberrt@%d", listener);
    pthread_setname_np(pthread_self(), name);
    for (int64_t accept_from = 0;;) {
        int64_t now = clock_now();
        bool accepts = !clients.full() && accept_from <= now;
        int64_t until = clients.deadline();
        if (!clients.full() && !accepts && accept_from < until) until = accept_from;
        if (wait_for_work(accepts ? listener : -1, stop, until)) return nullptr;
        clients.serve(clock_now());
        now = clock_now(); // answers may have taken seconds, and a new client has its whole time
        // Without descriptors the socket stays readable: then the agent must not look again at once.
        if (accepts && !clients.accept(listener, now)) accept_from = now + retry_ns;
    }
}

void close_all() {
    clients.close_all();
    file.close();
    close(stop_fd);
    stop_fd = -1;
}

void remove_at_exit() {
    MutexGuard guard(agent_mutex);
    if (agent_life != AgentLife::none) file.remove();
}

bool will_remove_at_exit() {
    static constinit TryOnce registered;
    return registered([] { return atexit(remove_at_exit) == 0; });
}

int start(const char* where) {
    if (simulated()) return -ENOTSUP;
    if (!will_remove_at_exit()) return -ENOMEM;
    MutexGuard guard(agent_mutex);
    if (agent_life != AgentLife::none) return -EBUSY;
    if (int error = file.open(where)) return error;
    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = stop_fd < 0 ? -errno : thread_start(&agent_thread, nullptr, serve, nullptr);
    if (!error) {
        agent_life = AgentLife::lives;
        return 0;
    }
    file.remove();
    file.close();
    if (stop_fd >= 0) close(stop_fd);
    stop_fd = -1;
    return error;
}

// Before the first cord: starts the agent if the environment asks for it. If another process, the parent perhaps,
// listens at the path, this one has no agent, and prints nothing.
bool start_if_wanted() {
    KeepErrno keep;
    simulation_begin(); // finds out whether there is a simulation; it may come later in the list of initializers
    static constinit TryOnce looked;
    return looked([] {
        const char* where = secure_getenv("FIBERRT_TOP");
        if (!where || !*where) return true;
        int error = start(where);
        if (error && error != -EADDRINUSE && error != -ENOTSUP) {
            const char* why = error_text(-error);
            Report report(STDERR_FILENO, Report::unasked_ns);
            report.put("fiberrt: FIBERRT_TOP");
            report.name(where);
            report.put(": ");
            report.put(why ? why : "unknown error");
            report.put('\n');
            report.end();
        }
        return true;
    });
}

FIBERRT_INITIALIZER(When::first_cord, start_if_wanted);

} // namespace

int agent_start(const char* where) {
    KeepErrno keep;
    if (!process_begin()) return -ENOMEM; // there may have been no cord yet
    return start(where);
}

int agent_stop() {
    KeepErrno keep;
    {
        MutexGuard guard(agent_mutex);
        if (agent_life == AgentLife::none) return -ESRCH;
        if (agent_life == AgentLife::stopping) return -EBUSY;
        agent_life = AgentLife::stopping;
        file.remove();
        eventfd_write(stop_fd, 1);
        clients.interrupt();
    }
    int cancellable; // a pthread_cancel of this thread would leave the agent half stopped for ever
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    pthread_join(agent_thread, nullptr); // without the mutex, which a fork by another thread takes
    pthread_setcancelstate(cancellable, nullptr);
    MutexGuard guard(agent_mutex);
    close_all();
    agent_life = AgentLife::none;
    return 0;
}

void agent_lock() {
    pthread_mutex_lock(&agent_mutex);
    clients.lock();
}

void agent_unlock() {
    clients.unlock();
    pthread_mutex_unlock(&agent_mutex);
}

void agent_forked() {
    if (agent_life == AgentLife::none) return;
    close_all();
    file = {}; // the file is the parent's
    agent_life = AgentLife::none;
}

} // namespace fiberrt
