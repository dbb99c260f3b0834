// SPDX-License-Identifier: MIT OR Apache-2.0
// How a call waits until its descriptor is ready, and then tries again.
#pragma once

#include "io/descriptor_use.h"
#include "io/sockets.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>

namespace fiberrt {

constexpr int64_t first_pause_ns = 1'000'000;
constexpr int64_t longest_pause_ns = 16'000'000;

// For what the kernel gives no notice of: waits a little, longer each time. 0, or why the wait ended early.
inline int ask_again_later(DescriptorUse& use, int64_t* pause_ns) {
    int result = use.pause(*pause_ns);
    if (*pause_ns < longest_pause_ns) *pause_ns *= 2;
    return result;
}

// Waits until there is room to send, or until it is time to try again.
inline int64_t wait_for_room(DescriptorUse& use, int fd, bool hint, int64_t* pause_ns) {
    bool retries = must_retry_send(fd);
    if (!retries || simulated())
        return use.wait_until_ready(fd, POLLOUT, hint || retries); // the simulation tells of it
    int64_t result = use.wait_to_try_again(fd, POLLOUT, *pause_ns);
    if (*pause_ns < longest_send_pause_ns) *pause_ns *= 2;
    return result;
}

inline bool ready_now(int fd, int events) { return events_now(fd, events); }

// Waits after an operation was refused with -EAGAIN, until it may be tried again. The kernel may still say that the
// descriptor is ready: a socket for datagrams whose receiver has no room, an eventfd that has room, but not for this
// number. So if the operation was refused again, this looks, and pauses instead of turning in a circle. False: it has
// ended, by *result.
class Retry {
public:
    Retry(DescriptorUse& use, Op& op, int events) : use_(use), op_(op), events_(events) {}

    bool waited() const { return waited_; }
    bool wait(bool tried, int64_t* result); // tried: the operation has been refused since it began
    int64_t failed(int64_t result) const;   // the result of a try that was not refused: what the call returns

private:
    DescriptorUse& use_;
    Op& op_;
    int events_;
    bool waited_ = false;
    int64_t pause_ns_ = first_pause_ns;
    int64_t send_pause_ns_ = first_send_pause_ns;
};

// Runs an operation until it is not refused with -EAGAIN. A descriptor with O_NONBLOCK answers -EAGAIN where others
// wait: then waits until it is ready, and tries again. try_first: it may end where nothing is ready.
template <class Run>
[[gnu::always_inline]] inline int64_t until_ready(DescriptorUse& use, Op& op, int events, Run run,
                                                  bool try_first = false) {
    Retry retry(use, op, events);
    for (;;) {
        bool tries = retry.waited() || try_first || !use.wait_first(op);
        int64_t result = tries ? run(retry.waited()) : -EAGAIN;
        if (result >= 0) [[likely]]
            return result;
        if (result != -EAGAIN) return retry.failed(result);
        if (!retry.wait(tries, &result)) return result;
    }
}

inline int64_t run_until_ready(DescriptorUse& use, Op& op, int events) {
    return until_ready(use, op, events, [&](bool told_ready) { return use.run(op, told_ready); });
}

// Waits for events of poll(2) on the descriptor. The events that hold; or why the wait ended early.
int64_t wait_for_events(DescriptorUse& use, int fd, int events);

} // namespace fiberrt
