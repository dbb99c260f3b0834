// SPDX-License-Identifier: MIT OR Apache-2.0
// Joins of threads. No event reports a thread's end to a fiber, so the fiber looks at growing intervals. It does not
// occupy an offload thread, because the thread that it waits for may need one.
#include "posix/locks.h"
#include "posix/parking.h"

namespace fiberrt::posix {

namespace {

// The time until the next look is a fraction of the time waited so far.
int64_t interval_after(int64_t waited_ns) {
    constexpr int64_t shortest = 50'000, longest = 20'000'000;
    int64_t interval = waited_ns / 8;
    return interval < shortest ? shortest : interval > longest ? longest : interval;
}

// Joins the thread if it has ended. ETIMEDOUT: it has not. (pthread_tryjoin_np does not say that a thread is detached.)
int try_join(pthread_t thread, void** result) {
    constexpr timespec past = {};
    return ::pthread_timedjoin_np(thread, result, &past);
}

// EBUSY: the fiber cannot wait here.
int join_as_fiber(pthread_t thread, void** result, const Limit& limit) {
    Shielded shielded;
    if (!shielded) return EBUSY;
    int64_t begun = fiber_now();
    for (;;) {
        int error = try_join(thread, result);
        if (error != ETIMEDOUT) return error;
        int64_t left = limit.left();
        if (!left) return ETIMEDOUT;
        int64_t interval = interval_after(fiber_now() - begun);
        if (fiber_sleep(interval < left ? interval : left)) return EBUSY;
    }
}

int join_by_c_library(pthread_t thread, void** result, const Limit& limit) {
    if (!limit.time) return ::pthread_join(thread, result);
    // ThreadSanitizer does not know pthread_clockjoin_np.
    return limit.clock == CLOCK_REALTIME ? ::pthread_timedjoin_np(thread, result, limit.time)
                                         : ::pthread_clockjoin_np(thread, result, limit.clock, limit.time);
}

int join(pthread_t thread, void** result, const Limit& limit) {
    // A fiber that joins its own thread gets the C library's EDEADLK.
    if (!may_wait() || !limit.is_valid() || pthread_equal(thread, pthread_self()))
        return join_by_c_library(thread, result, limit);
    int error = try_join(thread, result);
    if (error != ETIMEDOUT) return error;
    error = join_as_fiber(thread, result, limit);
    return error == EBUSY ? join_by_c_library(thread, result, limit) : error;
}

} // namespace

int pthread_join(pthread_t thread, void** result) { return posix::join(thread, result, {}); }

int pthread_timedjoin_np(pthread_t thread, void** result, const timespec* time) {
    return posix::join(thread, result, {time, CLOCK_REALTIME});
}

int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock, const timespec* time) {
    Limit limit = {time, clock};
    return limit.has_known_clock() ? posix::join(thread, result, limit) : EINVAL;
}

} // namespace fiberrt::posix
