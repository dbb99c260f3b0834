// SPDX-License-Identifier: MIT OR Apache-2.0
// How a blocking call of an adopted library waits. The call first tries the C library's function in a form that does
// not block. If that reports EAGAIN, and O_NONBLOCK is not set, the fiber waits until the descriptor is ready, and the
// call tries again. So a wait that ends early has lost no data.
#pragma once

#include "base/keep_errno.h"
#include "base/readable.h"
#include "base/relaxed.h"
#include "fiberrt.h"
#include "posix/ended_connections.h"
#include "posix/handlers.h"
#include "posix/openssl.h"

#include <atomic>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

namespace fiberrt::posix {

// The runtime of another language, which must prepare its thread before a call of fiberrt.h (Python takes the GIL).
struct Runtime {
    bool (*enter)(void** state); // false: the thread cannot wait as a fiber now
    void (*leave)(void* state);
    // Whether the running fiber should let other fibers run now. Called without enter.
    bool (*is_due)();
    // Functions of the language's runtime that are replaced in objects adopted with_those_of_runtime. They stay valid.
    static constexpr int replacements_most = 8;
    const struct Replacement* replacements;
    int replacement_count;
};
extern std::atomic<const Runtime*> runtime; // null: there is none. Set once, before a library is adopted

// Calls enter and leave of the runtime: while this object lives, the thread may call fiberrt.h. Keeps errno, and the
// fiber's errors of OpenSSL.
class Entered {
public:
    Entered();
    ~Entered();
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    explicit operator bool() const { return entered_; }

private:
    OpensslErrors openssl_errors_;
    const Runtime* runtime_;
    void* state_ = nullptr;
    bool entered_;
};

// Prepares the calling fiber for waits that no cancel, interrupt or deadline ends. The callers of lock functions
// expect no such error: many take any error, or any error except EINTR, for success. Keeps errno.
class Shielded {
public:
    Shielded();
    ~Shielded();
    Shielded(const Shielded&) = delete;
    Shielded& operator=(const Shielded&) = delete;
    explicit operator bool() const { return open_; }

private:
    Entered entered_;
    KeepErrno keep_;
    fiber_scope_t scope_ = {};
    bool open_ = false;
};

// The result of a wait: what the call does next.
enum class Next {
    retry,     // try again
    fail,      // return -1: errno says why
    timed_out, // the call's own time is over
    block,     // the fiber cannot wait here: make the C library's blocking call
};

// Whether the calling thread runs a fiber that may wait now.
inline bool may_wait() { return fiber_here() && !in_handler(); }

// Deadlines are absolute times of fiber_now; FIBER_FOREVER: none.
int64_t deadline_after(int64_t ns); // ns below 0: FIBER_FOREVER
int64_t left_until(int64_t deadline);
int64_t nanoseconds(const timespec& time); // saturates
int64_t nanoseconds(const timeval& time);
timespec timespec_of(int64_t ns);
// Whether the kernel takes it for a length of time.
inline bool is_valid(const timespec& time) {
    return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000;
}

// After this number of calls that did not wait, the thread looks at the clock.
constexpr unsigned calls_between_looks = 32;
// The number of such calls by this thread's fibers since the last look.
extern constinit thread_local unsigned calls_without_wait;
// Subtracted from calls_between_looks. 0 outside a simulation. A simulation may let other fibers run after each call,
// so there each call looks.
extern constinit Relaxed<unsigned> looks_sooner;
void look_at_clock();

// A call that did not wait calls this at its end. Lets the other fibers run if the thread has not polled for long: a
// library whose peer is quick would otherwise keep the thread. Keeps errno.
inline void done_at_once() {
    if (++calls_without_wait + looks_sooner >= calls_between_looks) [[unlikely]]
        look_at_clock();
}
template <class Result>
Result at_once(Result result) {
    done_at_once();
    return result;
}

// Called if the fiber cannot wait. result: the error. Returns block; in a simulation, whose only thread must not block,
// returns fail.
Next block_or_fail(int result);

// Waits until the descriptor is ready for one of the events of poll(2). retry: it is ready, and *ready has the events.
Next wait_ready(int fd, int events, int64_t deadline, int* ready = nullptr);

// Waits for ns nanoseconds, from now on. timed_out: they have passed.
Next wait_time(int64_t ns);

// Turns the result of a wait into the caller's next step, and sets errno if the wait has failed. Counts cancels and
// deadlines in a row: if a library ignores the error and calls again and again, the fiber pauses here.
Next after_wait(int result);

// Limits the time of the calling fiber's waits, as long as this object lives. The caller has an Entered.
class TimeLimit {
public:
    explicit TimeLimit(int64_t deadline); // FIBER_FOREVER: no limit
    ~TimeLimit() { (void)is_over(0); }
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;
    int error() const { return error_; } // not 0: the limit could not be set, so the fiber must not wait

    // Ends the limit. Returns whether it ended a wait with this result. (Deadlines of other scopes give the same
    // error.)
    bool is_over(int64_t result);

private:
    fiber_scope_t scope_ = {};
    bool open_ = false;
    int error_ = 0;
};

// Whether this errno says that a cancel, or a scope's deadline, ended the wait.
inline bool was_refused(int error) { return error == ECANCELED || error == ETIMEDOUT; }

// Ends the connection of a socket (SOCK_STREAM or SOCK_SEQPACKET): the peer sees the end, and so does the library at
// its next call. The received data are dropped. Called after a cancel or a deadline has ended a wait, because the
// library is in the middle of an exchange: if it kept the connection, it would take the late answer to this request
// for the answer to the next one. Remembers the connection (ended_connections.h). Does nothing to other descriptors.
// Keeps errno.
void end_connection(int fd);

// Whether this is a socket of a pair that this process has made. A library may use such a pair to wake its own poll. If
// the pair were shut down, each later poll of the library would return at once.
bool is_own_pair(int fd);

// Checks the result of a receive by any thread. If the result is the end of a connection, and end_connection has made
// that end, returns -1 with ECONNRESET. (With ECANCELED, libpq would keep the connection.) asked: whether the call asked
// for any byte.
ssize_t refuse_end(int fd); // the rest of received()
inline ssize_t received(int fd, bool asked, ssize_t result) {
    return result || !asked || !any_ended() ? result : refuse_end(fd);
}

bool is_nonblocking(int fd);  // true also if fd is not open
bool is_always_ready(int fd); // a file on a disk, or a device of memory: the C library's blocking call transfers all

// Makes a descriptor nonblocking, as long as this object lives, for a call that has no other form that does not block.
// The caller must not switch meanwhile: all users of the open file see the flag. Does nothing to a descriptor that is
// nonblocking already, and changes no other flag: the library may set flags while a fiber waits between two moments.
class NonblockingMoment {
public:
    explicit NonblockingMoment(int fd) : fd_(fd) {
        int flags = ::fcntl(fd, F_GETFL);
        set_ = flags >= 0 && !(flags & O_NONBLOCK) && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
    }
    ~NonblockingMoment() {
        if (!set_) return;
        KeepErrno keep;
        int flags = ::fcntl(fd_, F_GETFL);
        if (flags >= 0) ::fcntl(fd_, F_SETFL, flags & ~O_NONBLOCK);
    }
    NonblockingMoment(const NonblockingMoment&) = delete;
    NonblockingMoment& operator=(const NonblockingMoment&) = delete;
    bool has_set() const { return set_; } // false: the descriptor was nonblocking already, or is not open

private:
    int fd_;
    bool set_;
};

// The deadline of a call that begins now, by the socket's option SO_RCVTIMEO or SO_SNDTIMEO.
int64_t socket_deadline(int fd, int option);

// Restores errno if a call succeeds, because a successful call of the kernel leaves errno as it is.
class KeepErrnoIfDone {
public:
    template <class Result>
    Result done(Result result) const {
        if (result >= 0) errno = before_;
        return result;
    }

private:
    int before_ = errno;
};

// One call of a fiber on a descriptor.
class DescriptorCall {
public:
    // timeout_option: SO_RCVTIMEO, SO_SNDTIMEO, or 0 if the call has no time limit.
    DescriptorCall(int fd, int events, int timeout_option) : fd_(fd), events_(events), option_(timeout_option) {}
    ~DescriptorCall() {
        if (!waited_) done_at_once();
    }
    DescriptorCall(const DescriptorCall&) = delete;
    DescriptorCall& operator=(const DescriptorCall&) = delete;

    // Waits after the try has reported EAGAIN. Returns retry, fail or block.
    Next wait() { return wait_for(fd_, events_); }
    // As wait(), for a call on two descriptors: fd is the one that is not ready.
    Next wait_for(int fd, int events);
    // Waits a moment. For calls to which no event tells when they can go on. Returns retry, fail or block.
    Next wait_for_more();
    int64_t deadline(); // by the socket's time limit

    // The result of the call.
    template <class Result>
    Result done(Result result) const {
        return errno_.done(result);
    }

private:
    bool begin();
    Next after(Next next, int fd);

    int fd_;
    int events_;
    int option_;
    KeepErrnoIfDone errno_;
    bool waited_ = false;
    bool has_deadline_ = false;
    int64_t deadline_ = FIBER_FOREVER;
};

// Whether an argument of the caller is in readable memory. If not, the C library's call reports EFAULT.
template <class T>
bool is_readable(const T* argument, size_t bytes = sizeof(T)) {
    // Most arguments are the caller's variables, a little above this frame.
    constexpr uintptr_t frames = 4096;
    uintptr_t above = uintptr_t(argument) - uintptr_t(__builtin_frame_address(0));
    return (above < frames && bytes < frames - above) || check_readable(argument, bytes) == 0;
}

inline bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

// Calls try_once() until it does not report EAGAIN, and waits in between; or calls block() if the fiber cannot wait.
template <class Try, class Block>
auto until_done(DescriptorCall& call, Try try_once, Block block) {
    for (;;) {
        auto result = try_once();
        if (result >= 0) return call.done(result);
        if (!would_block()) return result;
        switch (call.wait()) {
        case Next::retry: continue;
        case Next::block: return call.done(block());
        default: return result;
        }
    }
}
template <class Try, class Block>
auto until_done(int fd, int events, int timeout_option, Try try_once, Block block) {
    DescriptorCall call(fd, events, timeout_option);
    return until_done(call, try_once, block);
}

// The flags of a send that continues a call after `done` bytes. The kernel raises no SIGPIPE for a call that has sent
// bytes.
inline int again(int flags, size_t done) { return done ? flags | MSG_NOSIGNAL : flags; }

// A system call transfers no more bytes than this.
constexpr size_t transfer_most = 0x7ffff000;

// Whether a call on a socket may continue after it has transferred bytes. False if the connection has failed: this call
// returns the bytes, and the next call reports the error.
bool may_continue(int fd, int events);

// Transfers count bytes of a socket: calls try_once(done) for the rest until all bytes are transferred, and waits in
// between. After an error, returns the number of bytes transferred before it, or -1 if there are none.
template <class Try, class Block>
ssize_t until_all(int fd, int events, int timeout_option, size_t count, Try try_once, Block block) {
    DescriptorCall call(fd, events, timeout_option);
    size_t done = 0;
    auto all = [&](ssize_t last) {
        return call.done(last >= 0 ? ssize_t(done) + last : done ? ssize_t(done) : ssize_t(-1));
    };
    for (;;) {
        ssize_t result = try_once(done);
        if (result >= 0) {
            done += size_t(result);
            if (done >= count || !result || is_nonblocking(fd) || !may_continue(fd, events)) return all(0);
            continue;
        }
        if (!would_block()) return all(-1);
        switch (call.wait()) {
        case Next::retry:
            if (done && !may_continue(fd, events)) return all(0);
            continue;
        case Next::block: return all(block(done));
        default: return all(-1);
        }
    }
}

} // namespace fiberrt::posix
