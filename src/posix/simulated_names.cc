// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of hosts, locks of files, child processes and signals: calls that a simulation refuses to adopted libraries,
// because the world outside the process decides their results.
#include "base/keep_errno.h"
#include "posix/plain.h"
#include "posix/simulated.h"

#include <arpa/inet.h>
#include <errno.h>
#include <resolv.h>
#include <stdarg.h>
#include <string.h>

namespace fiberrt::posix::simulated {

namespace {

constexpr const char* no_name_servers = "there are no name servers: use 127.0.0.1, ::1 or a Unix socket";
constexpr const char* no_processes = "there are no other processes to wait for";
constexpr const char* held_elsewhere = "another process holds the lock";
constexpr const char* no_signals = "there are no signals to wait for";

bool is_simulated() { return simulated_caller() != SimulatedCaller::none; }

bool is_number(const char* name) {
    in6_addr address;
    return !name || inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

bool is_refused(const char* call, const char* name) {
    if (!is_simulated() || is_number(name)) return false;
    refuse(call, -1, ENOTSUP, no_name_servers);
    return true;
}

// The result of a function that reports its error in a place like h_errno.
int failed(int* error) {
    *error = NO_RECOVERY;
    return ENOTSUP;
}

int refused_query(const char* call) {
    h_errno = NO_RECOVERY;
    return refuse(call, -1, ENOTSUP, no_name_servers);
}

} // namespace

int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** result) {
    if (!is_simulated()) return ::getaddrinfo(host, service, hints, result);
    addrinfo numeric = {};
    if (hints)
        numeric = *hints;
    else
        numeric.ai_flags = AI_V4MAPPED | AI_ADDRCONFIG;
    numeric.ai_flags |= AI_NUMERICHOST;
    int error = ::getaddrinfo(host, service, &numeric, result);
    if (error != EAI_NONAME || !host || (hints && hints->ai_flags & AI_NUMERICHOST)) return error;
    refuse("getaddrinfo", -1, ENOTSUP, no_name_servers);
    return EAI_SYSTEM;
}

// No address has a name, so each is shown as a number.
int getnameinfo(const sockaddr* address, socklen_t length, char* host, socklen_t host_size, char* service,
                socklen_t service_size, int flags) {
    if (!is_simulated()) return ::getnameinfo(address, length, host, host_size, service, service_size, flags);
    if (flags & NI_NAMEREQD && host) return EAI_NONAME;
    return ::getnameinfo(address, length, host, host_size, service, service_size, flags | NI_NUMERICHOST);
}

hostent* gethostbyname(const char* name) {
    if (!is_refused("gethostbyname", name)) return plain.gethostbyname(name);
    failed(&h_errno);
    return nullptr;
}

hostent* gethostbyname2(const char* name, int family) {
    if (!is_refused("gethostbyname2", name)) return plain.gethostbyname2(name, family);
    failed(&h_errno);
    return nullptr;
}

hostent* gethostbyaddr(const void* address, socklen_t length, int family) {
    if (!is_simulated()) return plain.gethostbyaddr(address, length, family);
    h_errno = HOST_NOT_FOUND;
    return nullptr;
}

int gethostbyname_r(const char* name, hostent* host, char* buffer, size_t size, hostent** result, int* error) {
    if (!is_refused("gethostbyname_r", name)) return plain.gethostbyname_r(name, host, buffer, size, result, error);
    *result = nullptr;
    return failed(error);
}

int gethostbyname2_r(const char* name, int family, hostent* host, char* buffer, size_t size, hostent** result,
                     int* error) {
    if (!is_refused("gethostbyname2_r", name))
        return plain.gethostbyname2_r(name, family, host, buffer, size, result, error);
    *result = nullptr;
    return failed(error);
}

int gethostbyaddr_r(const void* address, socklen_t length, int family, hostent* host, char* buffer, size_t size,
                    hostent** result, int* error) {
    if (!is_simulated()) return plain.gethostbyaddr_r(address, length, family, host, buffer, size, result, error);
    *result = nullptr;
    *error = HOST_NOT_FOUND;
    return 0;
}

int query(const char* name, int kind, int type, unsigned char* answer, int size) noexcept {
    return is_simulated() ? refused_query("res_query") : ::res_query(name, kind, type, answer, size);
}

int search(const char* name, int kind, int type, unsigned char* answer, int size) noexcept {
    return is_simulated() ? refused_query("res_search") : ::res_search(name, kind, type, answer, size);
}

int querydomain(const char* name, const char* domain, int kind, int type, unsigned char* answer, int size) noexcept {
    return is_simulated() ? refused_query("res_querydomain")
                          : ::res_querydomain(name, domain, kind, type, answer, size);
}

int send_query(const unsigned char* message, int length, unsigned char* answer, int size) noexcept {
    return is_simulated() ? refused_query("res_send") : ::res_send(message, length, answer, size);
}

int nquery(struct __res_state* state, const char* name, int kind, int type, unsigned char* answer, int size) noexcept {
    return is_simulated() ? refused_query("res_nquery") : ::res_nquery(state, name, kind, type, answer, size);
}

int nsearch(struct __res_state* state, const char* name, int kind, int type, unsigned char* answer, int size) noexcept {
    return is_simulated() ? refused_query("res_nsearch") : ::res_nsearch(state, name, kind, type, answer, size);
}

int nquerydomain(struct __res_state* state, const char* name, const char* domain, int kind, int type,
                 unsigned char* answer, int size) noexcept {
    return is_simulated() ? refused_query("res_nquerydomain")
                          : ::res_nquerydomain(state, name, domain, kind, type, answer, size);
}

int nsend_query(struct __res_state* state, const unsigned char* message, int length, unsigned char* answer,
                int size) noexcept {
    return is_simulated() ? refused_query("res_nsend") : ::res_nsend(state, message, length, answer, size);
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void* argument = va_arg(rest, void*); // the argument of every command is a word at most
    va_end(rest);
    if (!is_simulated() || command != F_SETLKW) return posix::fcntl(fd, command, argument);
    int result = ::fcntl(fd, F_SETLK, argument);
    bool held = result < 0 && (errno == EAGAIN || errno == EACCES);
    return held ? refuse("fcntl", fd, ENOTSUP, held_elsewhere) : result;
}

int lockf(int fd, int command, off_t bytes) {
    if (!is_simulated() || command != F_LOCK) return posix::lockf(fd, command, bytes);
    int result = ::lockf(fd, F_TLOCK, bytes);
    bool held = result < 0 && (errno == EAGAIN || errno == EACCES);
    return held ? refuse("lockf", fd, ENOTSUP, held_elsewhere) : result;
}

pid_t wait(int* status) { return is_simulated() ? refuse("wait", -1, ENOTSUP, no_processes) : ::wait(status); }

pid_t waitpid(pid_t child, int* status, int options) {
    bool waits = is_simulated() && !(options & WNOHANG);
    return waits ? refuse("waitpid", -1, ENOTSUP, no_processes) : ::waitpid(child, status, options);
}

pid_t wait3(int* status, int options, rusage* usage) noexcept {
    bool waits = is_simulated() && !(options & WNOHANG);
    return waits ? refuse("wait3", -1, ENOTSUP, no_processes) : ::wait3(status, options, usage);
}

pid_t wait4(pid_t child, int* status, int options, rusage* usage) noexcept {
    bool waits = is_simulated() && !(options & WNOHANG);
    return waits ? refuse("wait4", -1, ENOTSUP, no_processes) : ::wait4(child, status, options, usage);
}

int waitid(idtype_t kind, id_t child, siginfo_t* about, int options) {
    bool waits = is_simulated() && !(options & WNOHANG);
    return waits ? refuse("waitid", -1, ENOTSUP, no_processes) : ::waitid(kind, child, about, options);
}

int sigwait(const sigset_t* set, int* signal) {
    if (!is_simulated()) return ::sigwait(set, signal);
    KeepErrno keep;
    refuse("sigwait", -1, ENOTSUP, no_signals);
    return ENOTSUP;
}

int sigwaitinfo(const sigset_t* set, siginfo_t* about) {
    return is_simulated() ? refuse("sigwaitinfo", -1, ENOTSUP, no_signals) : ::sigwaitinfo(set, about);
}

int sigtimedwait(const sigset_t* set, siginfo_t* about, const timespec* timeout) {
    bool waits = is_simulated() && !(timeout && !timeout->tv_sec && !timeout->tv_nsec);
    return waits ? refuse("sigtimedwait", -1, ENOTSUP, no_signals) : ::sigtimedwait(set, about, timeout);
}

} // namespace fiberrt::posix::simulated
