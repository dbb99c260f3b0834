// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the simulated form of a function that transfers bytes or polls, from its name and its parameters.
#pragma once

#include "base/keep_errno.h"
#include "posix/simulated.h"

#include <string_view>

namespace fiberrt::posix::simulated {

// The name of a function, as a template's argument.
template <size_t size>
struct Name {
    char text[size] = {};
    consteval Name(const char (&from)[size]) {
        for (size_t i = 0; i < size; i++) text[i] = from[i];
    }
    constexpr bool begins(std::string_view start) const { return std::string_view(text).starts_with(start); }
    constexpr bool has(std::string_view part) const {
        return std::string_view(text).find(part) != std::string_view::npos;
    }
    constexpr bool writes() const { return has("write") || has("send"); }
    constexpr bool transfers() const { return !begins("accept") && !begins("connect"); }
};

// The functions below find a parameter after the first descriptor. The last overload of each is for functions that
// have no such parameter.

// How many bytes the caller offers.
template <class... Others>
size_t* count_of(void*&, size_t& count, Others&...) {
    return &count;
}
template <class... Others>
size_t* count_of(const void*&, size_t& count, Others&...) {
    return &count;
}
inline size_t* count_of(...) { return nullptr; }

// The flags of send(2), recv(2) and similar functions.
template <class... Others>
int flags_of(void*&, size_t&, int& flags, Others&...) {
    return flags;
}
template <class... Others>
int flags_of(const void*&, size_t&, int& flags, Others&...) {
    return flags;
}
template <class... Others>
int flags_of(void*&, size_t&, size_t&, int& flags, Others&...) {
    return flags;
}
inline int flags_of(msghdr*&, int& flags) { return flags; }
inline int flags_of(const msghdr*&, int& flags) { return flags; }
template <class... Others>
int flags_of(mmsghdr*&, unsigned&, int& flags, Others&...) {
    return flags;
}
inline int flags_of(const iovec*&, int&, off_t&, int& flags) { return flags & RWF_NOWAIT ? MSG_DONTWAIT : 0; }
inline int of_splice(unsigned flags) { return flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0; }
inline int flags_of(off_t*&, int&, off_t*&, size_t&, unsigned& flags) { return of_splice(flags); }
inline int flags_of(int&, size_t&, unsigned& flags) { return of_splice(flags); }
inline int flags_of(const iovec*&, size_t&, unsigned& flags) { return of_splice(flags); }
inline int flags_of(...) { return 0; }

// The second descriptor of a call that has two.
template <class... Others>
int other_of(int& other, Others&...) {
    return other;
}
template <class... Others>
int other_of(off_t*&, int& other, Others&...) {
    return other;
}
inline int other_of(...) { return -1; }

struct Target {
    const sockaddr* address;
    socklen_t length;
};
inline Target target_of(const sockaddr*& address, socklen_t& length) { return {address, length}; }
inline Target target_of(const void*&, size_t&, int&, const sockaddr*& address, socklen_t& length) {
    return {address, length};
}
inline Target target_of(...) { return {nullptr, 0}; }

// Writes to the standard output or standard error of the program. These bytes leave the simulation.
inline ssize_t print(int fd, const void*& data, size_t& count) { return ::write(fd, data, count); }
inline ssize_t print(int fd, const iovec*& parts, int& count) { return ::writev(fd, parts, count); }
constexpr bool prints(std::string_view name) { return name == "write" || name == "writev"; }

template <Name name, auto function, class Result, class... Rest>
struct TransferOf {
    static Result call(int fd, Rest... rest) {
        if (simulated_caller() == SimulatedCaller::none) return function(fd, rest...);
        if constexpr (prints(name.text)) {
            if ((fd == STDOUT_FILENO || fd == STDERR_FILENO) && !simulated_may_use(fd)) return print(fd, rest...);
        }
        if (!begins(fd, rest...)) return -1;
        Result result = function(fd, rest...);
        bool begun = result >= 0 || errno == EINPROGRESS;
        if (name.begins("connect") && begun && !is_connected_here(name.text, fd)) return -1;
        KeepErrno keep;
        simulated_trace(name.text, name.begins("accept") && result > 0 ? 0 : int64_t(result), errno);
        return result;
    }

private:
    static bool begins(int fd, Rest&... rest) {
        int other = other_of(rest...);
        if (other >= 0 && !may_use(name.text, other)) return false;
        Target target = target_of(rest...);
        if (target.address && !may_connect(name.text, fd, target.address, target.length)) return false;
        if (!name.transfers()) return may_use(name.text, fd);
        int flags = ::fcntl(fd, F_GETFL);
        bool waits = flags >= 0 && !(flags & O_NONBLOCK) && !(flags_of(rest...) & MSG_DONTWAIT);
        bool writes = name.writes() || (flags >= 0 && (flags & O_ACCMODE) == O_WRONLY);
        if (!begin_transfer(name.text, fd, writes, waits)) return false;
        if (size_t* count = count_of(rest...)) *count = simulated_length(fd, *count, writes);
        return true;
    }
};

template <Name name, auto function, class Result, class... Rest>
TransferOf<name, function, Result, Rest...> transfer_of(Result (*)(int, Rest...));

// Transfer<"recv", posix::recv>::call is recv in a simulation.
template <Name name, auto function>
using Transfer = decltype(transfer_of<name, function>(function));

template <Name name, auto function, class... Parameters>
struct PollOf {
    static int call(Parameters... parameters) {
        if (simulated_caller() == SimulatedCaller::none) return function(parameters...);
        if (!begin_poll(name.text, polling(parameters...))) return -1;
        int result = function(parameters...);
        KeepErrno keep;
        simulated_trace(name.text, result, errno);
        return result;
    }
};

template <Name name, auto function, class... Parameters>
PollOf<name, function, Parameters...> poll_of(int (*)(Parameters...));

// Poll<"poll", posix::poll>::call is poll in a simulation.
template <Name name, auto function>
using Poll = decltype(poll_of<name, function>(function));

} // namespace fiberrt::posix::simulated
