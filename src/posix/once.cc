// SPDX-License-Identifier: MIT OR Apache-2.0
// pthread_once, call_once, and the initialisation of static variables. The function may wait as a fiber. Another fiber
// of the thread that needs its result must wait as a fiber, too: if it blocked the thread, the function could never
// end.
#include "posix/locks.h"
#include "posix/once_mark.h"
#include "posix/parking.h"

#include <cxxabi.h>

// Where libstdc++'s std::call_once leaves the function for pthread_once, in variables of the thread.
// NOLINTBEGIN(bugprone-reserved-identifier)
namespace std {
extern __thread void* __once_callable;
extern __thread void (*__once_call)();
} // namespace std
// NOLINTEND(bugprone-reserved-identifier)

namespace fiberrt::posix {

namespace {

// Keeps the function of std::call_once across a wait, in which other fibers of the thread may call it too.
class KeepCallOnce {
public:
    KeepCallOnce() : callable_(std::__once_callable), call_(std::__once_call) {}
    ~KeepCallOnce() {
        std::__once_callable = callable_;
        std::__once_call = call_;
    }
    KeepCallOnce(const KeepCallOnce&) = delete;
    KeepCallOnce& operator=(const KeepCallOnce&) = delete;

private:
    void* callable_;
    void (*call_)();
};

// Waits as a fiber until is_done().
template <class Done>
void wait_until(const void* object, Done is_done) {
    int result;
    auto try_once = [&] { return is_done() ? 0 : EBUSY; };
    // False: the fiber cannot wait here, and the C library's function blocks.
    (void)until_free(object, Unlocks::here, true, {}, try_once, &result);
}

int load(const pthread_once_t* once) { return __atomic_load_n(once, __ATOMIC_ACQUIRE); }

struct Probe {
    const pthread_once_t* once;
    int* seen;
};
constinit thread_local Probe probe = {};

// The value of a pthread_once_t while its function runs in this process. In the child of a fork, another mark of
// progress is an old one: the function ran in the parent, and the C library begins again.
int mark_of_progress() {
    pthread_once_t own = PTHREAD_ONCE_INIT;
    int seen = 0;
    probe = {&own, &seen};
    ::pthread_once(&own, [] { *probe.seen = load(probe.once); }); // NOLINT(clang-analyzer-*): used only here
    return seen;
}

} // namespace

int pthread_once(pthread_once_t* once, void (*function)(void)) {
    int state = load(once);
    if (state & once_mark::done) return 0;
    if (state && may_wait()) {
        KeepCallOnce kept;
        int running = mark_of_progress();
        auto is_over = [&] { return !once_mark::is_in_progress(load(once), running); };
        if (!is_over()) wait_until(once, is_over);
    }
    // If the function throws, the exception leaves here, and the waiters look by themselves.
    int result = ::pthread_once(once, function);
    unlocked(once);
    return result;
}

void call_once(once_flag* once, void (*function)(void)) {
    (void)posix::pthread_once(reinterpret_cast<pthread_once_t*>(once), function);
}

// The initialisation of a static variable of a function. The first byte of libstdc++'s word says that it is done, the
// second that it is in progress. ThreadSanitizer's runtime sets a bit of the third instead, which libstdc++ sets only
// together with the second.
int guard_acquire(void* guard) {
    constexpr int initialised = 1, pending = 0x10100;
    const auto* word = static_cast<const int*>(guard);
    auto is_pending = [word] {
        int state = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        return (state & pending) && !(state & initialised);
    };
    if (is_pending() && may_wait()) wait_until(word, [&] { return !is_pending(); });
    return abi::__cxa_guard_acquire(static_cast<abi::__guard*>(guard));
}

void guard_release(void* guard) {
    abi::__cxa_guard_release(static_cast<abi::__guard*>(guard));
    unlocked(guard);
}

void guard_abort(void* guard) {
    abi::__cxa_guard_abort(static_cast<abi::__guard*>(guard));
    unlocked(guard);
}

} // namespace fiberrt::posix
