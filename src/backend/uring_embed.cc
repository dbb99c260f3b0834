// SPDX-License-Identifier: MIT OR Apache-2.0
// A ring in a foreign loop: the descriptor on which that loop waits, and the last poll before the thread returns to it.
#include "base/check.h"
#include "backend/uring_enter.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace fiberrt::uring_impl {

// Returns an eventfd that the ring signals. The ring's own descriptor would not do: with DEFER_TASKRUN no completion
// appears before the thread enters the kernel, so a wait on it would not end.
//
// The kernel does not signal this eventfd at once when another eventfd is what completes an operation. So a doorbell
// that is an eventfd is in the foreign loop's epoll itself, and a fiber that reads an eventfd of the program may be
// some milliseconds late.
int fd(void* state) {
    Uring& u = uring_of(state);
    if (u.completions_fd >= 0) return u.completions_fd;
    int news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (news < 0) return -errno;
    int error = io_uring_register_eventfd(&u.ring, news);
    if (error) { // coverage: no memory
        close(news);
        return error;
    }
    return u.completions_fd = news;
}

int64_t leave(void* state) {
    Uring& u = uring_of(state);
    refuse(u);
    bool some;
    do {
        // Clears the eventfd before it looks for completions, so that later ones signal it again.
        uint64_t count;
        if (read(u.completions_fd, &count, sizeof count) < 0) FIBERRT_CHECK(errno == EAGAIN);
        bool short_of_memory = !give_doorbell(u);
        if (enter_if_due(u) < 0) short_of_memory = true;
        some = reap(u);
        if (short_of_memory) return clock_now() + 1'000'000; // the kernel has not accepted every entry
        if (!u.doorbell_given) return 0;                     // another thread has rung
    } while (some || u.without_entry.first || u.to_be_cancelled.first);
    // The kernel does only a few dozen items of work at each entry, and does not signal the eventfd for the rest.
    if (kernel_has_work(u)) return 0;
    return u.to_be_cancelled_again.first ? u.again_at_ns : never;
}

} // namespace fiberrt::uring_impl
