// SPDX-License-Identifier: MIT OR Apache-2.0
// A ring in a foreign loop: the descriptor that tells of news, and what is done before the thread goes off.
#include "base/check.h"
#include "backend/uring_enter.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace fiberrt::uring_impl {

// Not the ring's own descriptor: with DEFER_TASKRUN nobody who waits for that is woken by a completion, as there is
// none before the thread enters the kernel.
int fd(void* state) {
    Uring& u = uring_of(state);
    if (u.news_fd >= 0) return u.news_fd;
    int news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (news < 0) return -errno;
    int error = io_uring_register_eventfd(&u.ring, news);
    if (error) { // coverage: no memory
        close(news);
        return error;
    }
    return u.news_fd = news;
}

int64_t leave(void* state) {
    Uring& u = uring_of(state);
    refuse(u);
    bool some;
    do {
        // First the news are taken as read, then looked at: what comes later is news again.
        uint64_t count;
        if (read(u.news_fd, &count, sizeof count) < 0) FIBERRT_CHECK(errno == EAGAIN);
        bool short_of_memory = !give_doorbell(u);
        if (enter_if_due(u) < 0) short_of_memory = true;
        some = reap(u);
        if (short_of_memory) return clock_now() + 1'000'000; // the kernel has not taken all
        if (!u.doorbell_given) return 0;                     // somebody has rung
    } while (some || u.without_entry.first || u.to_be_cancelled.first);
    // It does a few dozen things at each entry, may have reported none of them, and what is left is no news any more.
    if (kernel_has_work(u)) return 0;
    return u.to_be_cancelled_again.first ? u.again_at_ns : never;
}

} // namespace fiberrt::uring_impl
