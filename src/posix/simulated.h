// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls of adopted libraries in a simulation. The functions of this namespace call those of posix/calls.h. They also
// refuse calls that a seed cannot repeat, inject the faults of FIBERRT_SIM_FAULTS, write the trace, and give the
// libraries the simulated time.
//
// posix/simulated_transfer.h makes the simulated forms of transfers and polls. Any other function of posix/calls.h that
// is not declared here is the same in a simulation.
#pragma once

#include "base/relaxed.h"
#include "posix/calls.h"
#include "sim/adopted.h"

#include <sys/resource.h>
#include <sys/time.h>

struct __res_state;

namespace fiberrt::posix::simulated {

using namespace posix;

// Whether this process is a simulation. False until a library is adopted.
extern Relaxed<bool> process;

// Prints a sentence that says why the simulation refuses a call, and sets errno. fd below 0: the call has no
// descriptor. A refusal is printed once. Returns -1.
int refuse(const char* call, int fd, int error, const char* reason);

// Refuses a call that would block the thread, because its wait failed with this result: in a simulation it must not
// block. Sets errno and returns it.
int refuse_to_block(int result);

// Whether the simulation refuses a wait for a lock, because a thread outside the simulation holds it. owner: the
// number of the thread that holds the lock; 0: none does.
bool refuses_holder(const char* call, int owner);

// Called before a transfer. False: the transfer fails, errno says why. waits: it waits until the descriptor is ready.
bool begin_transfer(const char* call, int fd, bool writes, bool waits);
bool may_use(const char* call, int fd); // false: refused
bool may_connect(const char* call, int fd, const sockaddr* address, socklen_t length);
bool is_connected_here(const char* call, int fd); // after a connect

// The properties of a call that polls.
struct Polling {
    int foreign = -1;   // a descriptor that a simulation cannot use
    bool waits = false; // it waits if nothing is ready
    bool for_ever = false;
    bool masks = false; // it sets the signal mask, and therefore blocks the thread
    bool ready = false; // a descriptor is ready now
};
Polling polling(pollfd* entries, nfds_t count, int timeout_ms, size_t size = 0);
Polling polling(pollfd* entries, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t size = 0);
Polling polling(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout);
Polling polling(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout, const sigset_t* mask);
Polling polling(int fd, epoll_event* events, int most, int timeout_ms, const sigset_t* mask = nullptr);
Polling polling(int fd, epoll_event* events, int most, const timespec* timeout, const sigset_t* mask);
bool begin_poll(const char* call, const Polling& polling);

decltype(::sleep) sleep;
decltype(::usleep) usleep;
decltype(::nanosleep) nanosleep;
decltype(::clock_nanosleep) clock_nanosleep;

decltype(::clock_gettime) clock_gettime;              // also outside a simulation, where it is the C library's
int gettimeofday(timeval* time, void* zone) noexcept; // not the C library's type, which promises that time is not null
decltype(::time) time;

// Names of hosts and services. Outside a simulation's reach, so only numeric hosts are converted.
decltype(::getaddrinfo) getaddrinfo;
decltype(::getnameinfo) getnameinfo;
decltype(::gethostbyname) gethostbyname;
decltype(::gethostbyname2) gethostbyname2;
decltype(::gethostbyaddr) gethostbyaddr;
decltype(::gethostbyname_r) gethostbyname_r;
decltype(::gethostbyname2_r) gethostbyname2_r;
decltype(::gethostbyaddr_r) gethostbyaddr_r;
// res_query and similar functions. <resolv.h>, which declares them, also defines many short words as macros.
int query(const char* name, int kind, int type, unsigned char* answer, int size) noexcept;
int search(const char* name, int kind, int type, unsigned char* answer, int size) noexcept;
int querydomain(const char* name, const char* domain, int kind, int type, unsigned char* answer, int size) noexcept;
int send_query(const unsigned char* message, int length, unsigned char* answer, int size) noexcept;
int nquery(struct __res_state* state, const char* name, int kind, int type, unsigned char* answer, int size) noexcept;
int nsearch(struct __res_state* state, const char* name, int kind, int type, unsigned char* answer, int size) noexcept;
int nquerydomain(struct __res_state* state, const char* name, const char* domain, int kind, int type,
                 unsigned char* answer, int size) noexcept;
int nsend_query(struct __res_state* state, const unsigned char* message, int length, unsigned char* answer,
                int size) noexcept;

// Locks of files. A process never waits for its own record locks, so if a call has to wait, another process holds the
// lock.
decltype(::fcntl) fcntl;
decltype(::lockf) lockf;

// Child processes and signals. A call that may wait is refused.
decltype(::wait) wait;
decltype(::waitpid) waitpid;
decltype(::wait3) wait3;
decltype(::wait4) wait4;
decltype(::waitid) waitid;
decltype(::sigwait) sigwait;
decltype(::sigwaitinfo) sigwaitinfo;
decltype(::sigtimedwait) sigtimedwait;

} // namespace fiberrt::posix::simulated
