// SPDX-License-Identifier: MIT OR Apache-2.0
// The list of the C library's functions that wait as fibers in adopted libraries; posix/locks.h lists the functions for
// locks and threads. This namespace defines each function under its own name, with the C library's type. If the caller
// is not a fiber that may wait, the function calls the C library's.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// X(name, alias): the library's import `alias` is replaced by posix::name.
#define FIBERRT_POSIX_READS(X) \
    X(read, read)              \
    X(read, __read)            \
    X(readv, readv)            \
    X(write, write)            \
    X(write, __write)          \
    X(writev, writev)          \
    X(read_chk, __read_chk)    \
    X(preadv2, preadv2)        \
    X(preadv2, preadv64v2)     \
    X(pwritev2, pwritev2)      \
    X(pwritev2, pwritev64v2)

// Transfers at an offset do not wait, but let other fibers run from time to time.
#define FIBERRT_POSIX_POSITIONED(X) \
    X(pread, pread)                 \
    X(pread, pread64)               \
    X(pread, __pread64)             \
    X(pwrite, pwrite)               \
    X(pwrite, pwrite64)             \
    X(pwrite, __pwrite64)           \
    X(preadv, preadv)               \
    X(preadv, preadv64)             \
    X(pwritev, pwritev)             \
    X(pwritev, pwritev64)           \
    X(pread_chk, __pread_chk)       \
    X(pread_chk, __pread64_chk)

#define FIBERRT_POSIX_SOCKETS(X)    \
    X(recv, recv)                   \
    X(recvfrom, recvfrom)           \
    X(recvmsg, recvmsg)             \
    X(send, send)                   \
    X(send, __send)                 \
    X(sendto, sendto)               \
    X(sendmsg, sendmsg)             \
    X(accept, accept)               \
    X(accept4, accept4)             \
    X(connect, connect)             \
    X(connect, __connect)           \
    X(recv_chk, __recv_chk)         \
    X(recvfrom_chk, __recvfrom_chk) \
    X(recvmmsg, recvmmsg)           \
    X(sendmmsg, sendmmsg)

#define FIBERRT_POSIX_SPLICES(X) \
    X(sendfile, sendfile)        \
    X(sendfile, sendfile64)      \
    X(splice, splice)            \
    X(tee, tee)                  \
    X(vmsplice, vmsplice)

#define FIBERRT_POSIX_POLLS(X)    \
    X(poll, poll)                 \
    X(poll, __poll)               \
    X(ppoll, ppoll)               \
    X(select, select)             \
    X(select, __select)           \
    X(pselect, pselect)           \
    X(epoll_wait, epoll_wait)     \
    X(epoll_pwait, epoll_pwait)   \
    X(epoll_pwait2, epoll_pwait2) \
    X(poll_chk, __poll_chk)       \
    X(ppoll_chk, __ppoll_chk)

#define FIBERRT_POSIX_SLEEPS(X)         \
    X(sleep, sleep)                     \
    X(usleep, usleep)                   \
    X(nanosleep, nanosleep)             \
    X(nanosleep, __nanosleep)           \
    X(clock_nanosleep, clock_nanosleep) \
    X(clock_nanosleep, __clock_nanosleep)

#define FIBERRT_POSIX_CLOSES(X) \
    X(close, close)             \
    X(close, __close)           \
    X(closefrom, closefrom)     \
    X(close_range, close_range)

// The resolver. Libraries linked before glibc 2.34 import the names with underscores.
#define FIBERRT_POSIX_NAMES(X)            \
    X(getaddrinfo, getaddrinfo)           \
    X(getnameinfo, getnameinfo)           \
    X(gethostbyname, gethostbyname)       \
    X(gethostbyname2, gethostbyname2)     \
    X(gethostbyaddr, gethostbyaddr)       \
    X(gethostbyname_r, gethostbyname_r)   \
    X(gethostbyname2_r, gethostbyname2_r) \
    X(gethostbyaddr_r, gethostbyaddr_r)   \
    X(query, res_query)                   \
    X(query, __res_query)                 \
    X(search, res_search)                 \
    X(search, __res_search)               \
    X(querydomain, res_querydomain)       \
    X(querydomain, __res_querydomain)     \
    X(send_query, res_send)               \
    X(send_query, __res_send)             \
    X(nquery, res_nquery)                 \
    X(nquery, __res_nquery)               \
    X(nsearch, res_nsearch)               \
    X(nsearch, __res_nsearch)             \
    X(nquerydomain, res_nquerydomain)     \
    X(nquerydomain, __res_nquerydomain)   \
    X(nsend_query, res_nsend)             \
    X(nsend_query, __res_nsend)

#define FIBERRT_POSIX_PROCESSES(X) \
    X(wait, wait)                  \
    X(wait, __wait)                \
    X(waitpid, waitpid)            \
    X(waitpid, __waitpid)          \
    X(wait3, wait3)                \
    X(wait4, wait4)                \
    X(waitid, waitid)              \
    X(vfork, vfork)                \
    X(vfork, __vfork)

#define FIBERRT_POSIX_SIGNALS(X) \
    X(sigwait, sigwait)          \
    X(sigwaitinfo, sigwaitinfo)  \
    X(sigtimedwait, sigtimedwait)

#define FIBERRT_POSIX_FILE_LOCKS(X) \
    X(flock, flock)                 \
    X(fcntl, fcntl)                 \
    X(fcntl, fcntl64)               \
    X(fcntl, __fcntl)               \
    X(lockf, lockf)                 \
    X(lockf, lockf64)

// Functions that set a signal's handler. A handler must not switch: it runs on the stack of the code that it
// interrupted.
#define FIBERRT_POSIX_HANDLERS(X) \
    X(sigaction, sigaction)       \
    X(sigaction, __sigaction)     \
    X(signal, signal)             \
    X(signal, bsd_signal)         \
    X(signal, ssignal)            \
    X(sysv_signal, sysv_signal)   \
    X(sysv_signal, __sysv_signal)

// The first parameter is a descriptor.
#define FIBERRT_POSIX_TRANSFERS(X) \
    FIBERRT_POSIX_READS(X)         \
    FIBERRT_POSIX_POSITIONED(X)    \
    FIBERRT_POSIX_SOCKETS(X)       \
    FIBERRT_POSIX_SPLICES(X)

// The functions that a simulation replaces one by one (posix/simulated.h).
#define FIBERRT_POSIX_OTHERS(X) \
    FIBERRT_POSIX_SLEEPS(X)     \
    FIBERRT_POSIX_CLOSES(X)     \
    FIBERRT_POSIX_NAMES(X)      \
    FIBERRT_POSIX_PROCESSES(X)  \
    FIBERRT_POSIX_SIGNALS(X)    \
    FIBERRT_POSIX_FILE_LOCKS(X) \
    FIBERRT_POSIX_HANDLERS(X)

#define FIBERRT_POSIX_CALLS(X) \
    FIBERRT_POSIX_TRANSFERS(X) \
    FIBERRT_POSIX_POLLS(X)     \
    FIBERRT_POSIX_OTHERS(X)

// Functions that are replaced in a simulation only.
#define FIBERRT_POSIX_SIMULATED_ONLY(X) \
    X(clock_gettime, clock_gettime)     \
    X(clock_gettime, __clock_gettime)   \
    X(gettimeofday, gettimeofday)       \
    X(gettimeofday, __gettimeofday)     \
    X(time, time)

// Functions by which libraries are loaded later (FIBER_POSIX_LATER).
#define FIBERRT_POSIX_LOADS(X) \
    X(dlopen, dlopen)          \
    X(dlmopen, dlmopen)        \
    X(dlclose, dlclose)

// The names that calls get when they are compiled with _FORTIFY_SOURCE. The C library's headers do not declare them.
// NOLINTBEGIN(bugprone-reserved-identifier): the C library's names
extern "C" {
ssize_t __read_chk(int fd, void* buffer, size_t count, size_t size);
ssize_t __pread_chk(int fd, void* buffer, size_t count, off_t offset, size_t size);
ssize_t __recv_chk(int fd, void* buffer, size_t count, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void* buffer, size_t count, size_t size, int flags, struct sockaddr* address,
                       socklen_t* length);
int __poll_chk(struct pollfd* fds, nfds_t count, int timeout_ms, size_t size);
int __ppoll_chk(struct pollfd* fds, nfds_t count, const struct timespec* timeout, const sigset_t* mask, size_t size);
[[noreturn]] void __chk_fail(void);
struct __res_state;
}
// NOLINTEND(bugprone-reserved-identifier)

namespace fiberrt::posix {

decltype(::read) read;
decltype(::readv) readv;
decltype(::write) write;
decltype(::writev) writev;
decltype(::__read_chk) read_chk;
decltype(::preadv2) preadv2;
decltype(::pwritev2) pwritev2;

decltype(::pread) pread;
decltype(::pwrite) pwrite;
decltype(::preadv) preadv;
decltype(::pwritev) pwritev;
decltype(::__pread_chk) pread_chk;

decltype(::recv) recv;
decltype(::recvfrom) recvfrom;
decltype(::recvmsg) recvmsg;
decltype(::send) send;
decltype(::sendto) sendto;
decltype(::sendmsg) sendmsg;
decltype(::accept) accept;
decltype(::accept4) accept4;
decltype(::connect) connect;
decltype(::__recv_chk) recv_chk;
decltype(::__recvfrom_chk) recvfrom_chk;
decltype(::recvmmsg) recvmmsg;
decltype(::sendmmsg) sendmmsg;

decltype(::sendfile) sendfile;
decltype(::splice) splice;
decltype(::tee) tee;
decltype(::vmsplice) vmsplice;

decltype(::poll) poll;
decltype(::ppoll) ppoll;
decltype(::select) select;
decltype(::pselect) pselect;
decltype(::epoll_wait) epoll_wait;
decltype(::epoll_pwait) epoll_pwait;
int epoll_pwait2(int fd, epoll_event* events, int most, const timespec* timeout, const sigset_t* mask);
decltype(::__poll_chk) poll_chk;
decltype(::__ppoll_chk) ppoll_chk;

decltype(::sleep) sleep;
decltype(::usleep) usleep;
decltype(::nanosleep) nanosleep;
decltype(::clock_nanosleep) clock_nanosleep;

decltype(::close) close;
decltype(::closefrom) closefrom;
decltype(::close_range) close_range;

decltype(::getaddrinfo) getaddrinfo;
decltype(::getnameinfo) getnameinfo;
decltype(::gethostbyname) gethostbyname;
decltype(::gethostbyname2) gethostbyname2;
decltype(::gethostbyaddr) gethostbyaddr;
decltype(::gethostbyname_r) gethostbyname_r;
decltype(::gethostbyname2_r) gethostbyname2_r;
decltype(::gethostbyaddr_r) gethostbyaddr_r;
// res_query and similar functions. <resolv.h>, which declares them, also defines many short words as macros.
int query(const char* name, int record_class, int type, unsigned char* answer, int size) noexcept;
int search(const char* name, int record_class, int type, unsigned char* answer, int size) noexcept;
int querydomain(const char* name, const char* domain, int record_class, int type, unsigned char* answer,
                int size) noexcept;
int send_query(const unsigned char* message, int message_size, unsigned char* answer, int size) noexcept;
int nquery(__res_state* state, const char* name, int record_class, int type, unsigned char* answer, int size) noexcept;
int nsearch(__res_state* state, const char* name, int record_class, int type, unsigned char* answer, int size) noexcept;
int nquerydomain(__res_state* state, const char* name, const char* domain, int record_class, int type,
                 unsigned char* answer, int size) noexcept;
int nsend_query(__res_state* state, const unsigned char* message, int message_size, unsigned char* answer,
                int size) noexcept;

decltype(::wait) wait;
decltype(::waitpid) waitpid;
decltype(::wait3) wait3;
decltype(::wait4) wait4;
decltype(::waitid) waitid;
decltype(::vfork) vfork;

decltype(::sigwait) sigwait;
decltype(::sigwaitinfo) sigwaitinfo;
decltype(::sigtimedwait) sigtimedwait;

decltype(::flock) flock;
decltype(::fcntl) fcntl;
decltype(::lockf) lockf;

decltype(::sigaction) sigaction;
decltype(::signal) signal;
decltype(::sysv_signal) sysv_signal;

decltype(::dlopen) dlopen;
decltype(::dlmopen) dlmopen;
decltype(::dlclose) dlclose;

} // namespace fiberrt::posix
