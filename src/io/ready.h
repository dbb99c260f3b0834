// SPDX-License-Identifier: MIT OR Apache-2.0
// The loop of a call that waits until its descriptor is ready and then tries again.
#pragma once

#include "io/descriptor_guard.h"
#include "io/sockets.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>

namespace fiberrt {

// Waits for a while, longer each time, for events that the kernel does not report. Returns 0, or why the wait ended
// early.
inline int ask_again_later(DescriptorGuard& guard, int64_t* pause_ns) {
    int result = guard.pause(*pause_ns);
    if (*pause_ns < longest_pause_ns) *pause_ns *= 2;
    return result;
}

// Waits until there is room to send, or until the caller must try again.
inline int64_t wait_for_room(DescriptorGuard& guard, int fd, bool hint, int64_t* pause_ns) {
    bool retries = must_retry_send(fd);
    if (!retries || simulated()) return guard.wait_until_ready(fd, POLLOUT, hint || retries); // a simulation reports it
    int64_t result = guard.wait_to_try_again(fd, POLLOUT, *pause_ns);
    if (*pause_ns < longest_send_pause_ns) *pause_ns *= 2;
    return result;
}

inline bool ready_now(int fd, int events) { return events_now(fd, events); }

// Decides what a transfer does between two tries. The caller calls refused() when the transfer was refused with
// -EAGAIN, or before a first try if it waits first; after the wait it calls woken(), which tells whether to try again.
//
// The kernel may say that a descriptor is ready although it refuses the transfer: a socket for datagrams whose receiver
// has no room, or an eventfd that has room, but not for this number. So after a second refusal this polls by a call,
// and pauses instead of looping.
class Retry {
public:
    enum class Next : uint8_t {
        ended,      // do not wait: the transfer has its result
        poll,       // wait for the descriptor's readiness
        timed_poll, // wait for it, for at most try_ns()
        pause,      // wait for pause_ns()
    };

    bool waited() const { return waited_; }
    // Tells how to wait. tried: the operation has been refused since the transfer began. Next::ended: *result is the
    // result.
    Next refused(DescriptorGuard& guard, const Op& op, int events, bool tried, int64_t* result);
    bool hint() const { return hint_; } // for the poll: see Op::hint
    int64_t pause_ns();
    int64_t try_ns();
    // Whether to try again. *result is the wait's result; if this returns false, the transfer's.
    bool woken(DescriptorGuard& guard, const Op& op, int64_t* result) const;
    // Returns the call's result for a try that failed with another error than -EAGAIN.
    int64_t failed(const Op& op, int64_t result) const;

    // Whether a send has begun to connect and could not send yet: the first send of a tcp connection, with MSG_FASTOPEN
    // or TCP_FASTOPEN_CONNECT. The send then continues like any other. If it gets -EINPROGRESS once more, the call
    // returns that.
    bool has_begun_to_connect(OpCode code, int64_t result) {
        if (result != -EINPROGRESS || connects_ || (code != OpCode::send && code != OpCode::sendmsg)) return false;
        return connects_ = true;
    }

    // refused(), the wait and woken(), for a fiber with a stack. Returns whether to try again, as woken() does.
    bool wait(DescriptorGuard& guard, const Op& op, int events, bool tried, int64_t* result);

private:
    Next decide(DescriptorGuard& guard, const Op& op, int events, bool tried, int64_t* result); // as refused()
    bool waited_ = false;
    bool hint_ = false;
    bool once_more_ = false; // if the wait ends early, try again: no event reports when the operation can be done
    bool connects_ = false;
    uint8_t pauses_ = 0;
    uint8_t tries_ = 0;
};

// Runs an operation until it is not refused with -EAGAIN, waiting in between until the descriptor is ready. (With
// O_NONBLOCK the kernel refuses where it would wait.) try_first: the operation may end even if nothing is ready.
template <class Run>
[[gnu::always_inline]] inline int64_t until_ready(DescriptorGuard& guard, Op& op, int events, Run run,
                                                  bool try_first = false) {
    Retry retry;
    for (;;) {
        bool tries = retry.waited() || try_first || !guard.wait_first(op);
        int64_t result = tries ? run(retry.waited()) : -EAGAIN;
        if (result >= 0) [[likely]]
            return result;
        if (retry.has_begun_to_connect(op.code, result)) {
            op.flags &= ~unsigned(MSG_FASTOPEN);
        } else if (result != -EAGAIN) {
            return retry.failed(op, result);
        }
        if (!retry.wait(guard, op, events, tries, &result)) return result;
    }
}

inline int64_t run_until_ready(DescriptorGuard& guard, Op& op, int events) {
    return until_ready(guard, op, events, [&](bool reported_ready) { return guard.run(op, reported_ready); });
}

// Returns which of the wanted events hold now, of those that a poll reported. op_again: none holds, and the caller
// polls again at once. -EAGAIN: the poll reported other events only, and the caller pauses first.
int64_t events_asked_for(const DescriptorGuard& guard, int fd, int events, int64_t reported);

// Waits for events of poll(2) on the descriptor. Returns the events that hold, or why the wait ended early.
int64_t wait_for_events(DescriptorGuard& guard, int fd, int events);

} // namespace fiberrt
